/*
 * The thread of a shard: takes the inboxes of its partitions, hands the messages to their engines,
 * and sends off what the engines want done. It is the first task of the thread's loop; connections
 * of clients may be others.
 */
#include "node/shard.h"

#include "node/feed.h"
#include "node/measure.h"
#include "node/node_advance.h"
#include "node/node_deliveries.h"
#include "node/node_replica.h"
#include "node/node_spans.h"
#include "node/node_state.h"
#include "node/shard_cluster.h"
#include "node/shard_commands.h"
#include "node/shard_queue.h"
#include "node/storage_loops.h"
#include "sys/clock.h"
#include "sys/process.h"

#include <assert.h>
#include <stdlib.h>

/* Maximum age of the statistics that other threads see. */
#define REPORT_NS UINT64_C(100000000)

/* Maximum time for which a step of the wall clock may go unnoticed. Longer waits set the alarm,
 * which costs a system call. */
#define CLOCK_STEP_US UINT64_C(100000)

/* A shard waits for the disk only if no timer of it is due within this time. */
#define QUIET_MS 20

/* ---- messages ---- */

/* Handles messages. Only receipts can be for a partition without an engine: its queue does not
 * know them. */
static void shard_handle(struct shard *shard, struct partition *partition,
                         enum partition_message kind, struct list *message)
{
    struct engine *engine = partition->engine ? shard_engine(shard, partition) : NULL;

    shard->moves += kind != PARTITION_REQUESTS;
    switch (kind) {
    case PARTITION_COMMITS:
        engine_committed(engine, list_item(message, struct storage_batch, link));
        break;
    case PARTITION_OUTCOMES:
        shard_delivered(shard, engine, list_item(message, struct delivery, link));
        break;
    case PARTITION_READS:
        shard_cluster_count_read(shard->node, list_item(message, struct engine_read, link), -1);
        engine_read_done(engine, list_item(message, struct engine_read, link));
        break;
    case PARTITION_REQUESTS:
        shard_ask(shard, engine, list_item(message, struct node_request, link_));
        break;
    case PARTITION_ACKS:
        shard_queue_submit(shard, list_item(message, struct node_queue_request, link_));
        break;
    case PARTITION_MESSAGE_COUNT:
        break;
    }
    if (engine)
        shard_answer(shard, engine);
}

static void shard_take_inbox(struct shard *shard, struct partition *partition)
{
    struct list inbox[PARTITION_MESSAGE_COUNT];

    for (int i = 0; i < PARTITION_MESSAGE_COUNT; i++)
        list_init(&inbox[i]);
    partition_take(partition, inbox);
    if (!partition->engine)
        shard_refuse(shard->node, &inbox[PARTITION_REQUESTS]);
    LIST_FOR_EACH (&inbox[PARTITION_COMMITS], link)
        partition->commits_out--;
    for (enum partition_message kind = 0; kind < PARTITION_MESSAGE_COUNT; kind++)
        for (struct list *link; (link = list_pop(&inbox[kind]));)
            shard_handle(shard, partition, kind, link);
}

static void shard_take_rings(struct shard *shard)
{
    struct list rings;

    list_init(&rings);
    mailbox_take(&shard->rings, &rings);
    for (struct list *link; (link = list_pop(&rings));)
        shard_take_inbox(shard, list_item(link, struct partition, link));
}

static void shard_take_in(struct shard *shard)
{
    if (shard->node->advance)
        shard->round = node_advance_round(shard->node->advance);
    shard->now = node_clock_now(&shard->node->clock);
    shard->timers_at = instant_timers_now();
    shard->turn_at = instant_now();
    shard_take_rings(shard);
    shard_queue_take_in(shard);
}

/* Ends the turn of each engine that had input, and lets time pass for engines that wait for it.
 * If the clock went back it does so for all, because their pauses end at times that are far in
 * the future now. */
static void shard_advance(struct shard *shard)
{
    bool went_back = shard->now.ms < shard->advanced_at.ms;

    shard->advanced_at = shard->now;
    for (size_t i = 0; i < shard->partition_count; i++)
        if (went_back || engine_wake_at(shard->partitions[i]->engine).ms <= shard->now.ms)
            shard_engine(shard, shard->partitions[i]);
    shard_end_turns(shard);
}

static void shard_tell_given_up(struct node *node, struct engine *engine)
{
    for (struct given_up *given_up; (given_up = engine_take_given_up(engine));)
        if (node->events.given_up)
            node->events.given_up(node->events.context, given_up);
        else
            free(given_up);
}

/* Logs the ends of attempts that were answered later. */
static void shard_log_answered(struct shard *shard, struct engine *engine)
{
    for (struct delivery *delivery; (delivery = engine_take_answered(engine));) {
        node_spans_ended(shard->node, shard->index, delivery);
        node_deliveries_add(shard->node, shard->index, delivery);
        engine_free_answered(delivery);
    }
}

/* Checks the lease before each delivery, because the thread may have been stopped since the last
 * check. */
static bool shard_may_deliver(const struct node *node, const struct partition *partition)
{
    return node_replica_may_act(node, partition->index);
}

/* Sends off the deliveries and reads of the engines, and collects their batches. */
static void shard_gather(struct shard *shard, struct list *ret_batches)
{
    struct node *node = shard->node;
    uint64_t now_us = node_clock_now_us(&node->clock);

    struct list reads;
    list_init(&reads);
    struct list deliveries, once;
    list_init(&deliveries);
    list_init(&once);
    for (size_t i = 0; i < shard->partition_count; i++) {
        struct engine *engine = shard->partitions[i]->engine;
        struct storage_batch *batch;

        if (shard_cluster_is_leaving(node, shard->partitions[i]))
            continue;
        while ((batch = engine_take_batch(engine))) {
            shard->moves++;
            list_init(&batch->link);
            list_push(ret_batches, &batch->link);
        }
        struct engine_read *read;
        while ((read = engine_take_read(engine))) {
            shard->moves++;
            shard_cluster_count_read(node, read, 1);
            list_push(&reads, &read->link);
        }
        struct delivery *delivery;
        while (shard_may_deliver(node, shard->partitions[i]) &&
               (delivery = engine_take_delivery(engine))) {
            shard->moves++;
            delivery->handed_us = now_us;
            node_spans_handed(node, shard->index, delivery);
            delivery->valid_until_ns = node_replica_valid_until(node, shard->partitions[i]->index);
            list_push(node_replica_takes(node, delivery) ? &once : &deliveries, &delivery->link);
        }
        node_replica_post(node, shard->partitions[i]->index, &once);
        shard_tell_given_up(node, engine);
        shard_log_answered(shard, engine);
        struct list events;
        list_init(&events);
        const uint64_t lost = engine_take_events(engine, &events);
        feed_post(node->feed, &events, lost);
    }
    mailbox_post_all(&node->disk.to_read, &reads);
    if (!list_is_empty(&deliveries)) /* while stopping there are no senders and no deliveries */
        senders_post(node->senders, &deliveries);
}

static struct partition *shard_partition_of(struct shard *shard, struct list *batch)
{
    return &shard->node->partitions[list_item(batch, struct storage_batch, link)->partition];
}

static void shard_post_batches(struct shard *shard, struct list *batches)
{
    LIST_FOR_EACH (batches, link)
        shard_partition_of(shard, link)->commits_out++;
    node_replica_commit(shard->node, batches);
}

void shard_send_off(struct shard *shard)
{
    struct list batches;

    list_init(&batches);
    shard_gather(shard, &batches);
    shard_post_batches(shard, &batches);
}

static struct wall shard_wake_at(const struct shard *shard)
{
    struct wall at = WALL_NEVER;

    for (size_t i = 0; i < shard->partition_count; i++)
        at = wall_min(at, engine_wake_at(shard->partitions[i]->engine));
    return at;
}

/* Writes that follow from a commit on this thread wait for the next turn: one sync a turn. */
static void shard_send_off_and_commit(struct shard *shard)
{
    shard_send_off(shard);
    if (!shard->committer)
        return;
    shard->is_quiet = shard_wake_at(shard).ms >= shard->now.ms + QUIET_MS;
    shard->committer->end(shard->committer);
    if (!mailbox_has_news(&shard->rings))
        return;
    shard_take_rings(shard);
    shard_end_turns(shard);
    shard_queue_turn(shard); /* acknowledgements may be durable, and there may be new items */
    shard_send_off(shard);
}

/* ---- reports ---- */

static void shard_count_waiting(void *context, const struct engine_waiting *waiting)
{
    const struct shard *shard = context;
    const struct census_count count = {waiting->count, waiting->oldest};

    if (waiting->queue.size)
        census_add(shard->node->counts.waiting_queues, shard->index, waiting->tenant,
                   waiting->queue, &count);
    census_add(shard->node->counts.waiting_tenants, shard->index, waiting->tenant, waiting->tenant,
               &count);
}

static void shard_take_census(struct shard *shard)
{
    struct node *node = shard->node;

    census_begin(node->counts.waiting_queues, shard->index);
    census_begin(node->counts.waiting_tenants, shard->index);
    for (size_t i = 0; i < shard->partition_count; i++)
        engine_tell_waiting(shard->partitions[i]->engine, shard_count_waiting, shard);
    census_end(node->counts.waiting_tenants);
    census_end(node->counts.waiting_queues);
}

static void shard_report(struct shard *shard, bool is_draining)
{
    struct node *node = shard->node;
    struct shard_report report = {.is_ready = true, .has_engines = shard_cluster_is_ready(shard)};

    for (size_t i = 0; i < shard->partition_count; i++) {
        const struct engine *engine = shard->partitions[i]->engine;
        struct engine_stats stats;

        engine_stats(engine, &stats);
        engine_stats_add(&report.stats, &stats);
        atomic_store(&node->cluster.replicas[shard->partitions[i]->index].pending, stats.pending);
        report.is_ready = report.is_ready && engine_is_ready(engine);
    }
    report.is_ready = report.is_ready && report.has_engines;
    report.is_failing = atomic_load(&node->disk.is_failing);
    shard_take_census(shard);
    queue_stats(shard->queue, &report.queue);
    report.used_ns = thread_used_ns();
    report.is_drained = is_draining && report.stats.inflight == 0;
    node_report_put(&node->report, shard->index, &report);
    /* the start of a node without a cluster waits for this */
    const bool is_awaited = shard->committer && !report.has_engines && !report.is_failing;
    shard->reported = is_awaited ? (struct instant){0} : shard->turn_at;
    shard->is_stale = !report.is_ready;
}

/* Tells the virtual clock how far the shard has come, and when it will do something again. */
static void shard_report_progress(struct shard *shard)
{
    struct node_advance_shard report = {
        .round = shard->round,
        .moves = shard->moves,
        .next = wall_min(shard_wake_at(shard), shard_queue_lease_end(shard)),
        .is_settled = shard_cluster_is_ready(shard) && !mailbox_has_news(&shard->rings) &&
                      !mailbox_has_news(&shard->workers)};

    for (size_t i = 0; i < shard->partition_count; i++) {
        const struct engine *engine = shard->partitions[i]->engine;
        const struct engine_progress progress = engine_progress(engine);

        report.is_settled = report.is_settled && engine_is_settled(engine);
        report.counts.fired += progress.fired;
        report.counts.delivered += progress.delivered;
        report.counts.failed += progress.failed;
        report.counts.other += progress.other;
        report.counts.live += progress.live;
    }
    node_advance_report(shard->node->advance, shard->index, &report);
}

/* ---- turns ---- */

static bool shard_is_idle(const struct shard *shard)
{
    for (size_t i = 0; i < shard->partition_count; i++)
        if (!engine_is_idle(shard->partitions[i]->engine))
            return false;
    return true;
}

static bool shard_drain(struct shard *shard)
{
    bool is_stopping = atomic_load(&shard->node->is_stopping);

    for (size_t i = 0; is_stopping && i < shard->partition_count; i++)
        engine_drain(shard->partitions[i]->engine);
    if (is_stopping)
        shard_queue_drain(shard);
    return is_stopping;
}

/* Returns how long the thread may sleep without a message: until an engine or the report is due. */
static uint64_t shard_wait_ns(struct event_task *task)
{
    struct shard *shard = list_item(task, struct shard, task);

    if (shard->reported.ns == 0 || mailbox_has_news(&shard->rings) ||
        mailbox_has_news(&shard->workers))
        return 0;
    const struct wall wake_at = shard_wake_at(shard);
    uint64_t wait_ns = shard_queue_wait_ns(shard, instant_now());
    if (shard->committer) {
        const uint64_t commit_ns = shard->committer->wait_ns(shard->committer);

        wait_ns = commit_ns < wait_ns ? commit_ns : wait_ns;
    }
    if (shard->is_stale && wait_ns > REPORT_NS)
        wait_ns = REPORT_NS;
    uint64_t now_us = node_clock_now_us(&shard->node->clock);
    if (clock_is_virtual()) /* whoever moves the clock wakes the thread */
        return wake_at.ms <= now_us / 1000 ? 0 : wait_ns;
    /* the alarm follows the machine's clock */
    const bool has_alarm =
        wake_at.ms > (now_us + CLOCK_STEP_US) / 1000 && !atomic_load(&shard->node->clock.is_held);
    if (has_alarm && shard->alarm_at.ms != wake_at.ms) {
        clock_alarm_set(&shard->alarm, wake_at);
        shard->alarm_at = wake_at;
        now_us = node_clock_now_us(&shard->node->clock);
    }
    if (wake_at.ms <= now_us / 1000 || now_us / 1000 < shard->now.ms)
        return 0; /* it is due, or the clock went back before the alarm was set */
    if (!has_alarm && (wake_at.ms * 1000 - now_us) * 1000 < wait_ns)
        wait_ns = (wake_at.ms * 1000 - now_us) * 1000;
    return wait_ns;
}

/* Runs a turn. Tasks that joined the loop later, such as connections, read their input before it
 * and send their answers after it. */
static void shard_turn(struct event_task *task)
{
    struct shard *shard = list_item(task, struct shard, task);
    bool is_draining = shard_drain(shard);

    if (shard->committer)
        shard->committer->begin(shard->committer);
    shard_take_in(shard);
    shard_advance(shard);
    shard_queue_turn(shard);
    shard_send_off_and_commit(shard);
    shard_cluster_turn(shard);
    if (shard->node->advance)
        shard_report_progress(shard);
    if (instant_since_ns(shard->reported, shard->turn_at) >= REPORT_NS || is_draining ||
        shard->reported.ns == 0)
        shard_report(shard, is_draining);
    else
        shard->is_stale = true;
}

/* ---- the thread ---- */

/* The alarm fired or the clock was set: the next wait sets the alarm again. */
static void shard_alarm_ready(struct event_source *source, uint32_t events)
{
    (void)events;
    list_item(source, struct shard, alarm_source)->alarm_at = (struct wall){0};
}

static bool shard_open_loop(struct shard *shard)
{
    if (event_loop_init(&shard->loop) != ERROR_NONE)
        return false;
    if (clock_alarm_open(&shard->alarm) != ERROR_NONE) {
        event_loop_deinit(&shard->loop);
        return false;
    }
    shard->alarm_source.ready = shard_alarm_ready;
    if (event_loop_watch(&shard->loop, clock_alarm_fd(&shard->alarm), &shard->alarm_source,
                         EPOLLIN | EPOLLET))
        return true;
    clock_alarm_close(&shard->alarm);
    event_loop_deinit(&shard->loop);
    return false;
}

bool shard_init(struct shard *shard, struct node *node, unsigned index, const uint8_t *secret)
{
    *shard = (struct shard){.node = node, .index = index};
    if (!shard_open_loop(shard))
        return false;
    mailbox_init_in(&shard->rings, &shard->loop);
    mailbox_init_in(&shard->workers, &shard->loop);
    shard->task = (struct event_task){.end = shard_turn, .wait_ns = shard_wait_ns};
    event_loop_join(&shard->loop, &shard->task);
    shard->partitions = calloc(node->partition_count, sizeof(struct partition *));
    if (shard_queue_create(shard, secret) && shard->partitions)
        return true;
    shard_deinit(shard);
    return false;
}

void shard_deinit(struct shard *shard)
{
    shard_queue_destroy(shard);
    free(shard->partitions);
    mailbox_deinit(&shard->rings);
    mailbox_deinit(&shard->workers);
    clock_alarm_close(&shard->alarm);
    event_loop_deinit(&shard->loop);
}

void *shard_run(void *argument)
{
    struct shard *shard = argument;
    struct node *node = shard->node;

    while (!atomic_load(&node->shards.give_up)) {
        event_loop_turn(&shard->loop);
        if (atomic_load(&node->shards.end) && shard_is_idle(shard))
            break;
    }
    node_report_finish(&node->report, shard->index);
    return NULL;
}

void shards_wake(void *context)
{
    struct node_shards *shards = context;

    for (unsigned i = 0; i < shards->count; i++)
        mailbox_wake(&shards->all[i].rings);
}

/* Fails everything that engines still wait for, so that every request is answered. */
void shard_fail_rest(struct shard *shard)
{
    shard_take_in(shard);
    for (size_t i = 0; i < shard->partition_count; i++) {
        struct engine *engine = shard_engine(shard, shard->partitions[i]);
        struct engine_read *read;

        while ((read = engine_take_read(engine))) {
            read->result = ERROR_STOPPING;
            engine_read_done(engine, read);
            shard_answer(shard, engine);
        }
        /* once only, because the engine's own writes would be repeated forever */
        struct storage_batch *batch = engine_take_batch(engine);
        if (batch) {
            batch->result = ERROR_STOPPING;
            engine_committed(engine, batch);
            shard_answer(shard, engine);
        }
    }
    shard_end_turns(shard);
    shard_queue_turn(shard);
}
