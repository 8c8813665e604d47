/* finish.c - ends a run: stops the faults and checks that every promise is kept. */

#include "judge.h"
#include "world.h"

#include <assert.h>

enum { STEPS_MAX = 200000, STUCK_STEPS_MAX = 4000, RECUR_STEPS_MAX = 1500, TRIM_ROUNDS_MAX = 40 };

static const char LOST[] = "acknowledged is never lost";

/* True if no call and no delivery is in flight. Reading ahead may continue, because with a tiny
 * window it never stops. */
static bool is_settled(const struct world *world)
{
    for (uint16_t p = 0; p < world->plan.partition_count; p++)
        if (world->host.partitions[p].out > 0 || clients_in_flight(world, p) > 0)
            return false;
    return true;
}

/* Lets time pass while the process sleeps, as on a machine that is suspended. */
static void jump(struct world *world, uint64_t ms)
{
    world->time_us += 1000 * ms;
    world_note(world, "jump", 0, 0, ms, 0);
    host_slept(world);
}

/* Ends all faults, pauses and outages. */
static void calm_down(struct world *world)
{
    world->is_quiet = true;
    pauses_hold(world, PAUSES_GO_ON);
    pauses_resume_targets(world);
    world->disk.outage_end_ms = world_ms(world);
    events_drop(&world->events, 0);
    if (!world->host.is_up)
        host_start(world);
    host_slept(world);
    origins_change(world, QUEUE_ORIGIN, ORIGIN_OK);
    world_note(world, "quiet", 0, 0, 0, 0);
}

/* ---- fairness ---- */

/* Makes some origins hang, but so few that their deliveries do not use up the limit in flight, or
 * the memory. Returns false if there are none. */
static bool stick(struct world *world)
{
    const struct sim_plan *plan = &world->plan;
    const uint64_t by_memory = plan->engine.near_bytes_max / 4 / (1000 + plan->text_bytes_max);
    uint64_t places = plan->engine.inflight_max - 1;

    if (places > by_memory)
        places = by_memory;
    bool is_any = false;
    for (uint8_t i = 0; i < plan->origin_count; i++) {
        enum origin_mode mode = ORIGIN_OK;
        const uint64_t by_tenants = (uint64_t)plan->tenant_count * plan->engine.target_inflight_max;
        const uint64_t taken = by_tenants < plan->timers_max ? by_tenants : plan->timers_max;

        if (i > 0 && places >= taken && world_chance(world, 500)) {
            places -= taken;
            mode = ORIGIN_STUCK;
            is_any = true;
        }
        origins_change(world, i, mode);
    }
    return is_any;
}

/* Returns a bound on the time that the due timers of a healthy origin take: one after the other,
 * each with its reads and writes, and twice if they were spilled. */
static uint64_t fair_ms(const struct world *world)
{
    const struct sim_plan *plan = &world->plan;
    const uint64_t each_ms = plan->answer_delay_ms + 4 * plan->disk_delay_ms +
                             2 * plan->read_delay_ms + 6 * plan->message_delay_ms +
                             2 * plan->wake_jitter_ms + plan->engine.storage_retry_ms + 2;

    /* the last holds of dispatch queues end meanwhile */
    return (world->model.count + 10) * each_ms + 6 * plan->engine.window_ms +
           2 * plan_timeout_ms_max(plan) + 600 +
           (plan->postpone_permille ? ORIGIN_POSTPONE_MS_MAX : 0);
}

static void check_fairness(struct world *world)
{
    const struct wall start = world_now(world);
    const uint64_t end_ms = world_ms(world) + fair_ms(world);
    const uint64_t step_max = world->step + STUCK_STEPS_MAX;

    while (world->step < step_max && world_step(world, end_ms))
        ;
    if (world_ms(world) < end_ms)
        return; /* a tiny window with many timers put back: too many steps to wait for */
    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *twin = world->model.twins[i];

        if (twin_is_live(twin) && !twin->was_damaged && !twin->is_out && !twin->row.content.flow &&
            twin->row.content.due.ms <= start.ms && twin->row.at.ms <= start.ms &&
            world->origins.modes[twin->row.content.origin] != ORIGIN_STUCK)
            world_fail(world, twin->number, "no target delays another",
                       "it waits for %llu ms while other origins are stuck",
                       (unsigned long long)fair_ms(world));
    }
}

/* ---- everything comes to its end ---- */

/* Returns the earliest time at which a live timer acts; WALL_NEVER if there is none. */
static struct wall next_at(const struct world *world)
{
    struct wall at = WALL_NEVER;

    for (size_t i = 0; i < world->model.count; i++)
        if (twin_is_live(world->model.twins[i]) && !world->model.twins[i]->is_damaged)
            at = wall_min(at, model_acts_at(world, world->model.twins[i]));
    return at;
}

/* Cancels timers that repeat: those without an end at once, the others if their end takes too long.
 * A cancel that is refused during a delivery is repeated. */
static void end_rhythms(struct world *world, bool is_all)
{
    for (size_t i = 0; i < world->model.count; i++) {
        struct twin *twin = world->model.twins[i];

        if (twin_is_live(twin) && !twin->is_damaged &&
            (is_all || !rhythm_ends(&twin->row.content.rhythm)) &&
            rhythm_recurs(&twin->row.content.rhythm) && twin->change_count == 0 && !twin->is_out &&
            !world->host.partitions[twin->partition].is_draining)
            clients_cancel(world, twin);
    }
}

/* Returns the number of attempts that have ended. It is bounded, because each firing has a limit of
 * attempts. */
static uint64_t attempts_ended(const struct world *world)
{
    const struct totals *totals = world->totals;

    return totals->done + totals->failed + totals->timed_out + totals->ended;
}

/* Lets time pass until no timer lives. If the next one is far ahead, jumps close to it, and then
 * continues in steps. */
static void run_out(struct world *world)
{
    const uint64_t window_ms = world->plan.engine.window_ms;
    const uint64_t all_end_step = world->step + RECUR_STEPS_MAX;
    uint64_t step_max = world->step + STEPS_MAX, attempts = attempts_ended(world);
    struct wall at;

    while ((at = next_at(world)).ms != WALL_NEVER.ms || !is_settled(world)) {
        const uint64_t ahead_ms = wall_since(world_now(world), at);

        if (attempts != attempts_ended(world)) {
            attempts = attempts_ended(world);
            step_max = world->step + STEPS_MAX;
        }
        if (world->step > step_max)
            world_fail(world, 0, LOST, "it does not come to an end; the next is at %llu",
                       (unsigned long long)at.ms);
        while (clients_go_on(world))
            ;
        end_rhythms(world, world->step > all_end_step);
        pauses_end_all(world);
        if (at.ms != WALL_NEVER.ms && is_settled(world) && ahead_ms > 3 * window_ms + 10)
            jump(world, ahead_ms - world_below(world, 2 * window_ms + 10));
        if (!world_step(world, UINT64_MAX) && at.ms != WALL_NEVER.ms)
            world_fail(world, 0, LOST, "nothing is under way, but a timer lives at %llu",
                       (unsigned long long)at.ms);
    }
}

/* Checks the promised end of each timer: fired after it was received, dead after its attempts, or
 * cancelled. */
static void check_ends(struct world *world)
{
    for (size_t i = 0; i < world->model.count; i++) {
        struct twin *twin = world->model.twins[i];

        if (twin->life == TWIN_ASKED)
            world_fail(world, twin->number, "one answer for each command", "there is none");
        if (twin->life == TWIN_DURABLE && twin->row.state == TIMER_FIRED && twin->received == 0 &&
            !twin->row.content.fan_count) /* its parts were received */
            world_fail(world, twin->number, "at least once", "it fired, but nobody received it");
        if (twin->is_acknowledged && twin->life != TWIN_DURABLE)
            world_fail(world, twin->number, LOST, "it is no more");
        if (twin->life == TWIN_DURABLE)
            clients_get(world, twin);
    }
    run_out(world);
}

/* ---- final rows are trimmed ---- */

static size_t stored_count(const struct world *world)
{
    size_t count = 0;

    for (size_t i = 0; i < world->model.count; i++)
        count += world->model.twins[i]->row.is_stored && !world->model.twins[i]->was_damaged;
    return count;
}

/* Returns the time after which the row may be trimmed. Dead letters are trimmed in the order of
 * their positions. A position has the latest death so far, rounded to 16 ms: so a letter waits for
 * an earlier one that died by a clock that was ahead. For other rows it is their position. */
static struct wall trimmed_after(const struct world *world, const struct sim_row *row)
{
    if (row->state != TIMER_DEAD)
        return row->at;
    const struct wall placed = {(row->at.ms - STORAGE_DEAD_FROM.ms + 1) << 4};
    return wall_add(wall_max(row->ended, placed), world->plan.engine.dead_retain_ms);
}

/* Returns the latest time at which any row may be trimmed. */
static struct wall last_at(const struct world *world)
{
    struct wall at = world_now(world);

    for (size_t i = 0; i < world->model.count; i++)
        if (world->model.twins[i]->row.is_stored)
            at = wall_max(at, trimmed_after(world, &world->model.twins[i]->row));
    return at;
}

static void trim_all(struct world *world)
{
    const struct engine_options *options = &world->plan.engine;

    for (int round = 0; stored_count(world) > 0; round++) {
        if (round == TRIM_ROUNDS_MAX)
            world_fail(world, 0, "what is over is trimmed", "%zu rows stay", stored_count(world));
        /* one whose record was damaged may have written it anew, and begins firings */
        end_rhythms(world, true);
        jump(world, wall_since(world_now(world), last_at(world)) + options->retain_ms +
                        options->window_ms + options->watermark_interval_ms);
        for (int i = 0; i < 200 && world_step(world, UINT64_MAX); i++)
            ;
    }
}

static void check_pending(struct world *world)
{
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        uint64_t damaged;

        model_live_count(&world->model, p, &damaged);
        struct engine_stats stats;
        engine_stats(world->host.partitions[p].engine, &stats);
        struct storage_meta meta = {0};
        storage_load_meta(world->disk.storage, p, &meta, NULL);
        if (stats.pending > damaged || meta.pending > damaged)
            world_fail(world, 0, "pending is counted", "%llu timers, %llu on disk, at the end",
                       (unsigned long long)stats.pending, (unsigned long long)meta.pending);
        if (stats.missed_found)
            world_fail(world, 0, LOST, "%llu timers in memory, but in no phase",
                       (unsigned long long)stats.missed_found);
        engine_check(world->host.partitions[p].engine);
    }
}

void finish_run(struct world *world)
{
    calm_down(world);
    if (!world->plan.engine.target_rate && !world->plan.engine.catch_up_rate && stick(world))
        check_fairness(world);
    for (uint8_t i = 0; i < world->plan.origin_count; i++)
        origins_change(world, i, ORIGIN_OK);
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        clients_list(world, p);
        clients_search(world, p);
    }
    run_out(world);
    check_ends(world);
    trim_all(world);
    run_out(world);
    check_pending(world);
    model_compare(world);
    disk_check(world);
    host_stop(world);
    host_start(world);
    run_out(world);
    check_pending(world);
    host_stop(world);
}
