/* limits.c - limits and lateness, checked all the time and not only at an answer. */
#include "engine/shares.h"
#include "judge.h"
#include "tenants.h"
#include "timer/runs.h"
#include "world.h"

#define U64(value) ((unsigned long long)(value))

/* True if a target or a tenant may have used up its share of the places in flight
 * (engine/shares.h). Which targets are unproven is not visible from outside, so all count as
 * such. */
static bool is_share_used_up(const struct world *world, const struct sim_partition *partition)
{
    const uint32_t max = partition->options.inflight_max, tenant_max = (max - max / 8) / 2;

    if (max < SHARES_MIN)
        return false;
    for (uint8_t tenant = 0; tenant < TENANTS_MAX; tenant++) {
        uint32_t out = 0, most = 0;

        for (uint8_t i = 0; i < world->plan.origin_count; i++) {
            const uint32_t of_origin = partition->out_by_origin[tenant][i];

            out += of_origin;
            most = of_origin > most ? of_origin : most;
        }
        if (out >= tenant_max || (most > 0 && most >= (tenant_max - out) / 8))
            return true;
    }
    return partition->out - partition->out_pulled >= max - max / 8;
}

/* Returns an upper bound of the size of one row: of its creation, of the runs that it collects, of
 * its patches, and of its error. */
static uint64_t row_bytes_max(const struct world *world)
{
    const uint64_t asked = world->clients.created_bytes_max + world->clients.patch_bytes_max + 100;
    const uint64_t any = 1000 + world->plan.text_bytes_max + RUNS_BYTES_MAX;

    return asked < any ? asked : any;
}

/* True if timers that wait now may wait long: a dispatch queue or the whole engine is full, or
 * memory is short. */
static bool is_hindered(const struct world *world, const struct sim_partition *partition,
                        const struct engine_stats *stats)
{
    const struct engine_options *options = &partition->options;

    if (!engine_is_ready(partition->engine) || partition->is_draining ||
        partition->lazy_until_ms > 0)
        return true;
    /* dispatch queues may be held, and rates used up: which timers wait for that is not visible
     * from outside */
    if (world->plan.flow_permille || world->plan.postpone_permille || options->target_rate ||
        options->catch_up_rate)
        return true;
    for (uint8_t i = 0; i < world->plan.origin_count; i++)
        for (uint8_t tenant = 0; tenant < TENANTS_MAX; tenant++)
            if (partition->out_by_origin[tenant][i] >= options->target_inflight_max)
                return true;
    if (partition->out_pulled >= options->pulled_max ||
        partition->out_pulled >= world->plan.pulled_max)
        return true;
    /* leased items share the memory that leases.c has for them; one item always fits */
    if (partition->out_pulled > 0 &&
        options->near_bytes_max / 8 < (partition->out_pulled + 1) * row_bytes_max(world))
        return true;
    return partition->out >= options->inflight_max || is_share_used_up(world, partition) ||
           stats->near_bytes > options->near_bytes_max / 2;
}

/* Checks the engine's count of live timers. Without writes in flight it is exact, except for
 * damaged rows. */
static void check_pending(struct world *world, const struct sim_partition *partition,
                          const struct engine_stats *stats)
{
    if (!engine_is_idle(partition->engine) || clients_in_flight(world, partition->index) > 0)
        return;
    uint64_t damaged;
    uint64_t live = model_live_count(&world->model, partition->index, &damaged);
    if (stats->pending > live + damaged || stats->pending + damaged < live)
        world_fail(world, 0, "pending is counted", "the engine counts %llu timers, there are %llu",
                   U64(stats->pending), U64(live));
}

void judge_stats(struct world *world, struct sim_partition *partition)
{
    const struct engine_options *options = &partition->options;
    const uint64_t most_bytes = options->near_bytes_max + row_bytes_max(world);
    struct engine_stats stats;

    engine_stats(partition->engine, &stats);
    if (stats.inflight != partition->out)
        world_fail(world, 0, "limits hold", "%llu deliveries are out, not %u", U64(stats.inflight),
                   partition->out);
    /* a read ahead returns as much as there was room for when it began, and one row more */
    if (stats.near_bytes > most_bytes)
        world_fail(world, 0, "limits hold", "%llu bytes in memory of %llu", U64(stats.near_bytes),
                   U64(options->near_bytes_max));
    if (stats.given_up != partition->told)
        world_fail(world, 0, "a firing that is given up is told", "%llu of %llu",
                   U64(partition->told), U64(stats.given_up));
    check_pending(world, partition, &stats);
    tenants_check(world);
    const bool was_hindered = partition->is_hindered;
    partition->is_hindered = is_hindered(world, partition, &stats);
    if (was_hindered || partition->is_hindered)
        host_disturb(world, partition->index);
}

/* With little memory a page has one row; a spilled timer may be found by the second reload scan. */
static uint64_t lateness_pages(const struct world *world)
{
    const struct engine_options *options = &world->plan.engine;

    if (options->near_bytes_max < 1 << 20)
        return 3 * world->model.count + 4;
    return 3 * (world->model.count / options->scan_rows_max + 4);
}

/* Bound on the wait of an unhindered timer: until the engine is called, has read all earlier rows,
 * and has finished its writes. */
static uint64_t lateness_max_ms(const struct world *world)
{
    const struct sim_plan *plan = &world->plan;
    const uint64_t pages = lateness_pages(world);

    return plan->wake_jitter_ms * (pages + 1) +
           pages * (2 * plan->read_delay_ms + plan->message_delay_ms + 1) +
           4 * (2 * plan->disk_delay_ms + plan->message_delay_ms) +
           2 * plan->engine.storage_retry_ms;
}

/* Returns for how long nothing has happened to the timer, and nothing has hindered its
 * partition. */
static uint64_t calm_for_ms(const struct world *world, const struct twin *twin)
{
    const struct sim_partition *partition = &world->host.partitions[twin->partition];

    if (partition->is_hindered)
        return 0;
    return world_ms(world) -
           (twin->calm_ms > partition->calm_ms ? twin->calm_ms : partition->calm_ms);
}

static void check_timers(struct world *world, uint64_t max_ms)
{
    pauses_note_ends(world);
    if (atomic_load(&world->host.is_held))
        return;
    const struct wall now = world_now(world);

    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *twin = world->model.twins[i];

        if (!twin_is_live(twin) || twin->was_damaged || twin->is_out || twin->change_count > 0)
            continue;
        uint64_t late_ms =
            twin->has_outcome
                ? UINT64_MAX
                : wall_since(wall_max(model_acts_at(world, twin), pauses_target_until(world, twin)),
                             now);
        if (late_ms > calm_for_ms(world, twin))
            late_ms = calm_for_ms(world, twin);
        if (late_ms > max_ms)
            world_fail(world, twin->number, "late by less than a bound",
                       "%s %llu ms late in a calm of %llu ms; the bound is %llu ms",
                       twin->has_outcome ? "its outcome is" : "it is", U64(late_ms),
                       U64(calm_for_ms(world, twin)), U64(max_ms));
    }
}

/* Bound on the reads and writes that a call waits for, one after the other: those of other calls on
 * the timer or its name, and its own, one for each page. */
static uint64_t answer_rounds(const struct world *world, const struct op *op, uint64_t in_flight)
{
    const uint64_t rounds = 2 * CHANGES_MAX + 2;

    if (op->command.kind == COMMAND_COMPLETE)
        return rounds * (in_flight + 1) * (2 + world->model.count / 2);
    return op->key || op->event || op->group || op->created[0] ? rounds * (in_flight + 1) : rounds;
}

static void check_answers(struct world *world, uint64_t max_ms)
{
    uint64_t in_flight = 0;

    LIST_FOR_EACH (&world->clients.in_flight, link)
        in_flight++;
    LIST_FOR_EACH (&world->clients.in_flight, link) {
        const struct op *op = list_item(link, struct op, link);
        const struct sim_partition *partition = &world->host.partitions[op->partition];
        const uint64_t since_ms =
            op->submitted_ms > partition->fault_ms ? op->submitted_ms : partition->fault_ms;

        if (world_ms(world) - since_ms > answer_rounds(world, op, in_flight) * max_ms)
            world_fail(world, op->twin ? op->twin->number : 0, "one answer for each command",
                       "none for %llu ms", U64(world_ms(world) - since_ms));
    }
}

static void check_drain(struct world *world, const struct sim_partition *partition, uint64_t max_ms)
{
    const uint64_t since_ms =
        partition->drain_ms > partition->fault_ms ? partition->drain_ms : partition->fault_ms;

    max_ms += (2 * CHANGES_MAX + 2) * max_ms + plan_timeout_ms_max(&world->plan);
    if (partition->is_draining && world_ms(world) - since_ms > max_ms)
        world_fail(world, 0, "a drained engine comes to rest", "not for %llu ms",
                   U64(world_ms(world) - since_ms));
}

void judge_lateness(struct world *world)
{
    const uint64_t max_ms = lateness_max_ms(world);

    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        const struct sim_partition *partition = &world->host.partitions[p];
        struct engine_stats stats;

        if (partition->engine)
            engine_stats(partition->engine, &stats);
        if (!partition->engine || is_hindered(world, partition, &stats))
            host_disturb(world, p);
        if (partition->engine)
            check_drain(world, partition, max_ms);
        if (partition->engine && !partition->lazy_until_ms)
            workers_judge(world, p, 50);
    }
    if (!world->host.is_up)
        return;
    check_timers(world, max_ms);
    check_answers(world, max_ms);
}
