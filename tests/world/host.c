/* host.c - starts, calls, crashes and stops the engines of the simulated process. */
#include "host.h"

#include "ending.h"
#include "judge.h"
#include "tenants.h"
#include "world.h"

#include "engine/engine_turn_testing.h"

#include <assert.h>
#include <stdlib.h>

enum { SPINS_MAX = 20000, STOP_STEPS_MAX = 10000, CHECK_EVERY = 32 };

static struct sim_partition *partition_of(struct world *world, uint16_t index)
{
    return &world->host.partitions[index];
}

void host_init(struct world *world)
{
    struct random seeds = random_seeded(world->plan.engine.seed);

    static const atomic_bool is_watched = true;

    world->host = (struct host){0};
    tenant_counts_init(&world->host.tenant_counts);
    target_pause_board_init(&world->host.pauses);
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        struct sim_partition *partition = partition_of(world, p);

        partition->index = p;
        partition->options = world->plan.engine;
        partition->options.partition = p;
        partition->options.tenant_counts = &world->host.tenant_counts;
        partition->options.is_watched = &is_watched;
        partition->options.is_held = &world->host.is_held;
        partition->options.pauses = &world->host.pauses;
        partition->options.seed = random_next(&seeds);
    }
}

void host_deinit(struct world *world)
{
    tenant_counts_deinit(&world->host.tenant_counts);
    target_pause_board_deinit(&world->host.pauses);
}

void host_disturb(struct world *world, uint16_t partition)
{
    partition_of(world, partition)->calm_ms = world_ms(world);
}

void host_slept(struct world *world)
{
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        partition_of(world, p)->fault_ms = world_ms(world);
        host_disturb(world, p);
    }
}

/* ---- one call ---- */

/* Returns the time to tell the engine. Keeps the latest one ever, which bounds what retention may
 * drop. */
static struct wall begin(struct world *world, struct sim_partition *partition)
{
    const struct wall now = world_now(world);

    model_tell_time(&world->model, partition->index, now);
    partition->calls++;
    return now;
}

static void take_batches(struct world *world, struct sim_partition *partition)
{
    struct storage_batch *batch;

    while ((batch = engine_take_batch(partition->engine)))
        logs_take_batch(world, batch);
}

static void take_reads(struct world *world, struct sim_partition *partition)
{
    struct engine_read *read;

    while ((read = engine_take_read(partition->engine)))
        disk_take_read(world, partition->index, read);
}

static struct twin *put_in_flight(struct world *world, struct sim_partition *partition,
                                  struct delivery *delivery)
{
    struct twin *twin = judge_delivery(world, partition, delivery);

    partition->out++;
    partition->out_by_origin[twin->row.content.tenant][twin->row.content.origin]++;
    twin->out_flow = twin->row.content.flow;
    partition->out_by_flow[twin->row.content.tenant][twin->out_flow]++;
    partition->out_pulled += twin->row.content.origin == QUEUE_ORIGIN;
    twin->is_out = true;
    twin->out_step = world->step;
    twin->out_at = world->model.now_last[partition->index];
    twin->out_epoch = partition->epoch;
    return twin;
}

void host_take_woken(struct world *world, struct sim_partition *partition)
{
    struct queue *queue = world->workers.crews[partition->index].queue;
    struct bytes name;

    while (engine_take_woken(partition->engine, &name))
        queue_wake(queue, name);
}

static void take_deliveries(struct world *world, struct sim_partition *partition)
{
    struct queue *queue = world->workers.crews[partition->index].queue;
    struct delivery *delivery;

    while ((delivery = engine_take_delivery(partition->engine)))
        origins_take(world, partition->index, put_in_flight(world, partition, delivery), delivery);
    host_take_woken(world, partition);
    while ((delivery = engine_take_recorded(partition->engine)))
        queue_recorded(queue, delivery);
}

static void pump(struct world *world, struct sim_partition *partition);

/* Pulls an item of the highest priority. */
struct delivery *host_pull(struct world *world, struct sim_partition *partition)
{
    for (unsigned priority = QUEUE_PRIORITIES; priority > 0; priority--) {
        struct delivery *delivery =
            turn_pull(partition->engine, begin(world, partition), BYTES("sim"), priority - 1);

        if (delivery) {
            judge_pulled(world, partition, delivery, priority - 1);
            put_in_flight(world, partition, delivery);
        }
        pump(world, partition);
        if (delivery)
            return delivery;
    }
    return NULL;
}

static void take_given_up(struct world *world, struct sim_partition *partition)
{
    struct given_up *given_up;

    while ((given_up = engine_take_given_up(partition->engine))) {
        firings_told(world, partition, given_up);
        free(given_up);
    }
}

static void take_answered(struct world *world, struct sim_partition *partition)
{
    for (struct delivery *answered; (answered = engine_take_answered(partition->engine));) {
        answers_end(world, partition, answered);
        engine_free_answered(answered);
    }
}

static void take_events(struct world *world, struct sim_partition *partition)
{
    struct list events;

    list_init(&events);
    if (engine_take_events(partition->engine, &events) > 0)
        world_fail(world, 0, "events are told", "one was lost");
    for (struct list *link; (link = list_pop(&events));) {
        struct feed_event *event = list_item(link, struct feed_event, link);

        judge_event(world, event);
        feed_event_destroy(event);
    }
}

static void delivered(struct world *world, struct sim_partition *partition, struct twin *twin,
                      uint8_t origin, struct delivery *delivery, struct wall now);

/* Ends the lease that a call has found, as the daemon does: the call then waits, like any other on
 * this timer, until the end is durable. */
static void release(struct world *world, struct sim_partition *partition, struct op *op)
{
    struct command *command = &op->command;
    struct delivery *delivery = workers_release(world, partition, &command->id);

    command->timer = NULL;
    if (!delivery) {
        command->error = ERROR_NOT_LEASED;
        judge_reply(world, partition, op);
        return;
    }
    struct twin *twin = model_twin_of(world, partition->index, delivery->timer);
    const struct wall now = begin(world, partition);

    op->acted_version = twin->row.version;
    engine_begin(partition->engine, now);
    delivered(world, partition, twin, QUEUE_ORIGIN, delivery, now);
    command->has_acted = true;
    command->name = (struct bytes){0};
    engine_submit(partition->engine, command);
    engine_end(partition->engine);
    pump(world, partition);
}

static void take_replies(struct world *world, struct sim_partition *partition)
{
    struct command *command;
    struct list leased;

    list_init(&leased);
    while ((command = engine_take_reply(partition->engine))) {
        if (releases_find(world, op_of(command)))
            list_push(&leased, &command->link);
        else
            judge_reply(world, partition, op_of(command));
    }
    /* after all replies, because it changes the timers that they show */
    for (struct list *link; (link = list_pop(&leased));)
        release(world, partition, op_of(list_item(link, struct command, link)));
}

/* Takes the engine's output, in any order. Batches and reads are sometimes left for later. */
static void pump(struct world *world, struct sim_partition *partition)
{
    const uint64_t first = world_below(world, 4);

    take_given_up(world, partition);
    take_answered(world, partition);
    take_events(world, partition);

    const bool is_lazy = !world->is_quiet && !partition->is_draining &&
                         world_chance(world, world->plan.lazy_permille);

    if (is_lazy || partition->lazy_until_ms > 0) {
        partition->fault_ms = world_ms(world);
        host_disturb(world, partition->index);
    }
    if (!is_lazy)
        partition->lazy_until_ms = 0;
    else if (partition->lazy_until_ms == 0)
        partition->lazy_until_ms = world_ms(world) + 1 + world_below(world, 10);
    for (uint64_t i = 0; i < 4; i++) {
        switch ((first + i) % 4) {
        case 0:
            take_replies(world, partition);
            break;
        case 1:
            take_deliveries(world, partition);
            break;
        case 2:
            if (!is_lazy)
                take_batches(world, partition);
            break;
        default:
            if (!is_lazy)
                take_reads(world, partition);
            break;
        }
    }
    judge_stats(world, partition);
    if (partition->calls % CHECK_EVERY == 0)
        engine_check(partition->engine);
}

/* ---- life ---- */

/* Starts the engine of the partition: once its claim is durable, the engine is made. If the process
 * crashes between the two, the next start makes another claim. */
static void start_partition(struct world *world, struct sim_partition *partition)
{
    struct storage_meta meta;

    logs_claim(world, partition->index, &meta);
    while (!world->is_quiet && world_chance(world, 50)) {
        logs_close(world, partition->index);
        logs_open(world, partition->index);
        logs_claim(world, partition->index, &meta);
    }
    partition->epoch = meta.epoch;
    if (!partition->first_epoch)
        partition->first_epoch = meta.epoch;
    partition->is_draining = false;
    partition->lazy_until_ms = 0;
    partition->out = 0;
    partition->out_pulled = 0;
    partition->told = 0;
    memset(partition->out_by_flow, 0, sizeof(partition->out_by_flow));
    memset(partition->out_by_origin, 0, sizeof(partition->out_by_origin));
    host_disturb(world, partition->index);
    workers_start(world, partition->index);
    partition->engine = engine_create(&partition->options, &meta, begin(world, partition));
    assert(partition->engine);
    world_note(world, "started", partition->index, 0, meta.epoch, meta.watermark.ms);
    pump(world, partition);
}

void host_start(struct world *world)
{
    world->host.is_up = true;
    world->host.life++;
    for (uint16_t p = 0; p < world->plan.partition_count; p++)
        logs_open(world, p);
    model_compare(world);
    tenants_start(world);
    for (uint16_t p = 0; p < world->plan.partition_count; p++)
        start_partition(world, partition_of(world, p));
}

static void end_life(struct world *world, struct sim_partition *partition)
{
    struct engine_stats stats;

    engine_stats(partition->engine, &stats);
    world->totals->reloaded += stats.reloaded;
    if (stats.missed_found)
        world_fail(world, 0, "acknowledged is never lost", "%llu timers were in no phase",
                   (unsigned long long)stats.missed_found);
    workers_end(world, partition->index);
    engine_destroy(partition->engine);
    partition->engine = NULL;
}

void host_discard_batch(struct world *world, struct storage_batch *batch)
{
    ending_fail_batch(partition_of(world, batch->partition)->engine, batch, world_now(world));
}

void host_discard_read(struct world *world, uint16_t partition, struct engine_read *read)
{
    ending_fail_read(partition_of(world, partition)->engine, read, world_now(world));
}

void host_discard_delivery(struct world *world, uint16_t partition, struct delivery *delivery)
{
    delivery->outcome = (struct delivery_outcome){.result = DELIVERY_FAILED};
    turn_delivered(partition_of(world, partition)->engine, world_now(world), delivery);
    ending_drop_replies(partition_of(world, partition)->engine);
}

void host_crash(struct world *world)
{
    world_note(world, "crash", 0, 0, world->host.life, 0);
    world->totals->crashes++;
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        engine_drain(partition_of(world, p)->engine);
        ending_drop_replies(partition_of(world, p)->engine);
    }
    logs_crash(world);
    disk_crash(world);
    origins_crash(world);
    for (uint16_t p = 0; p < world->plan.partition_count; p++)
        workers_crash(world, p);
    struct delivery *delivery;
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        struct sim_partition *partition = partition_of(world, p);

        ending_exhaust(partition->engine, world_now(world));
        while ((delivery = engine_take_recorded(partition->engine)))
            queue_recorded(world->workers.crews[p].queue, delivery);
        end_life(world, partition);
    }
    workers_forget(world);
    clients_crash(world);
    world->causes.count = 0;
    model_crash(world);
    events_drop(&world->events, world->host.life);
    world->host.is_up = false;
}

void host_drain(struct world *world, uint16_t index)
{
    struct sim_partition *partition = partition_of(world, index);

    if (partition->is_draining)
        return;
    world_note(world, "drain", index, 0, 0, 0);
    partition->is_draining = true;
    partition->drain_ms = world_ms(world);
    logs_drain(world, index);
    engine_drain(partition->engine);
    workers_drain(world, index);
    host_advance(world, index);
}

/* Starts a drained partition again when nothing is in flight. */
static void restart_if_drained(struct world *world, struct sim_partition *partition)
{
    if (!partition->is_draining || world->host.is_stopping ||
        world->workers.crews[partition->index].is_turning || !engine_is_idle(partition->engine) ||
        clients_in_flight(world, partition->index) > 0)
        return;
    logs_release(world, partition->index);
    end_life(world, partition);
    logs_left(world, partition->index);
    world->totals->drains++;
    model_restart(world, partition->index);
    model_compare(world);
    start_partition(world, partition);
}

/* ---- the calls ---- */

static void end(struct world *world, struct sim_partition *partition)
{
    pump(world, partition);
    workers_turn(world, partition);
    restart_if_drained(world, partition);
}

void host_worked(struct world *world, uint16_t index)
{
    end(world, partition_of(world, index));
}

static void hear_fault(struct world *world, struct sim_partition *partition)
{
    partition->faults++;
    partition->fault_ms = world_ms(world);
    host_disturb(world, partition->index);
}

static bool all_idle(const struct world *world)
{
    for (uint16_t p = 0; p < world->plan.partition_count; p++)
        if (!engine_is_idle(world->host.partitions[p].engine))
            return false;
    return true;
}

void host_stop(struct world *world)
{
    const uint64_t step_max = world->step + STOP_STEPS_MAX;

    world->host.is_stopping = true;
    for (uint16_t p = 0; p < world->plan.partition_count; p++)
        host_drain(world, p);
    while (!all_idle(world))
        if (world->step > step_max || !world_step(world, UINT64_MAX))
            world_fail(world, 0, "a drained engine comes to rest", "it does not");
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        logs_release(world, p);
        end_life(world, partition_of(world, p));
        logs_left(world, p);
        logs_close(world, p);
    }
    world->host.is_up = world->host.is_stopping = false;
}

uint64_t host_wake_ms(const struct world *world, uint16_t index)
{
    const struct sim_partition *partition = &world->host.partitions[index];
    const struct wall now = world_now(world);
    const uint64_t queue_ms = workers_wake_ms(world, index);

    if (!partition->engine)
        return UINT64_MAX;
    if (partition->lazy_until_ms > 0)
        return partition->lazy_until_ms;
    struct wall at = engine_wake_at(partition->engine);
    if (at.ms == WALL_NEVER.ms)
        return queue_ms;
    at = wall_add(at, partition->jitter_ms);
    return queue_ms < world_ms(world) + wall_since(now, at) ? queue_ms
                                                            : world_ms(world) + wall_since(now, at);
}

void host_advance(struct world *world, uint16_t index)
{
    struct sim_partition *partition = partition_of(world, index);

    if (partition->spin_ms != world_ms(world)) {
        partition->spin_ms = world_ms(world);
        partition->spins = 0;
    }
    if (++partition->spins > SPINS_MAX)
        world_fail(world, 0, "a wake-up has a reason", "partition %u is woken without end", index);
    partition->jitter_ms = world_below(world, world->plan.wake_jitter_ms + 1);
    turn_advance(partition->engine, begin(world, partition));
    end(world, partition);
}

void host_submit(struct world *world, struct op *op)
{
    struct sim_partition *partition = partition_of(world, op->partition);

    turn_submit(partition->engine, begin(world, partition), &op->command);
    end(world, partition);
}

void host_committed(struct world *world, struct storage_batch *batch)
{
    struct sim_partition *partition = partition_of(world, batch->partition);

    world_note(world, "committed", batch->partition, 0, batch->write_count, batch->result);
    if (batch->result == ERROR_NONE)
        model_told(world, batch);
    else
        hear_fault(world, partition);
    turn_committed(partition->engine, begin(world, partition), batch);
    end(world, partition);
}

void host_read_done(struct world *world, uint16_t index, struct engine_read *read)
{
    struct sim_partition *partition = partition_of(world, index);

    world_note(world, "read done", index, 0, read->result, read->page.count);
    if (read->result != ERROR_NONE && read->result != ERROR_NOT_FOUND)
        hear_fault(world, partition);
    turn_read_done(partition->engine, begin(world, partition), read);
    end(world, partition);
}

/* Hands a delivery back to the engine, during a turn. */
static void delivered(struct world *world, struct sim_partition *partition, struct twin *twin,
                      uint8_t origin, struct delivery *delivery, struct wall now)
{
    delivery->started_us = twin->out_at.ms * 1000;
    if (origin != QUEUE_ORIGIN) /* for the queue the engine takes its own time */
        delivery->ended_us = now.ms * 1000;
    judge_outcome(world, twin, &delivery->outcome, now);
    partition->out--;
    partition->out_by_origin[twin->row.content.tenant][origin]--;
    partition->out_by_flow[twin->row.content.tenant][twin->out_flow]--;
    partition->out_pulled -= origin == QUEUE_ORIGIN;
    engine_delivered(partition->engine, delivery);
}

void host_delivered(struct world *world, uint16_t index, struct twin *twin, uint8_t origin,
                    struct delivery *delivery)
{
    struct sim_partition *partition = partition_of(world, index);
    const struct wall now = begin(world, partition);

    engine_begin(partition->engine, now);
    delivered(world, partition, twin, origin, delivery, now);
    engine_end(partition->engine);
    world_tempt(world, world->plan.disk_delay_ms);
    end(world, partition);
}
