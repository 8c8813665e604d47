/* explains.c - checks explanations of timers against the model. */
#include "judge.h"

#include "world.h"

enum { HISTORY_ALL = 1000 }; /* more than a run has deliveries */

static const char TRUE[] = "an explanation is true";

#define U64(value) ((unsigned long long)(value))

/* Returns the time from which the timer could have been delivered. */
static struct wall base_of(const struct timer *timer)
{
    return wall_max(timer->due, timer->created);
}

static uint64_t sum_before_ms(const struct lateness *lateness)
{
    uint64_t sum_ms = 0;

    for (int i = 0; i < LATENESS_STAGES; i++)
        sum_ms += lateness_is_before((enum lateness_stage)i) ? lateness->ms[i] : 0;
    return sum_ms;
}

/* ---- where it is ---- */

static void judge_disk(struct world *world, const struct twin *twin, const struct timer *timer,
                       const struct explained *explained)
{
    const uint64_t window_ms = world->plan.engine.window_ms;
    const bool is_spilled = timer->state == TIMER_SCHEDULED && timer->at.ms > explained->now.ms &&
                            timer->due.ms <= explained->now.ms;

    if (explained->is_spilled != is_spilled)
        world_fail(world, twin->number, TRUE, "whether it was put back for want of room");
    if (explained->read_at.ms != (timer->at.ms > window_ms ? timer->at.ms - window_ms : 0))
        world_fail(world, twin->number, TRUE, "it is not read at %llu", U64(explained->read_at.ms));
}

/* Checks the place of the timer. Between the explanation and this moment it may have been taken out
 * for delivery. */
static void judge_place(struct world *world, const struct sim_partition *partition,
                        const struct twin *twin, const struct command *command)
{
    const struct explained *explained = &command->explained;
    const bool was_out = twin->is_out && twin->out_step < world->step;

    if (explained->now.ms != world->model.now_last[partition->index].ms)
        world_fail(world, twin->number, TRUE, "it is not %llu", U64(explained->now.ms));
    if (timer_is_final(command->timer->state) != (explained->place == PLACE_FINAL) ||
        (was_out && explained->place != PLACE_INFLIGHT) ||
        (explained->place == PLACE_INFLIGHT && !twin->is_out))
        world_fail(world, twin->number, TRUE, "it is elsewhere (%d)", explained->place);
    if (explained->place == PLACE_QUEUED && command->timer->due.ms > explained->now.ms)
        world_fail(world, twin->number, TRUE, "it is not due");
    if (explained->place == PLACE_DISK)
        judge_disk(world, twin, command->timer, explained);
}

/* ---- why it waits ---- */

static bool may_wait_for(const struct world *world, const struct sim_partition *partition,
                         const struct twin *twin, enum wait_reason reason)
{
    const struct engine_options *options = &partition->options;
    const bool is_queued = twin->row.content.origin == QUEUE_ORIGIN;

    switch (reason) {
    case WAIT_RATE:
        return options->target_rate && !is_queued;
    case WAIT_CATCH_UP:
        return options->catch_up_rate && !is_queued;
    case WAIT_BREAKER:
        return world->plan.postpone_permille && !is_queued;
    case WAIT_WORKER:
    case WAIT_LEASES:
    case WAIT_LEASE_MEMORY:
        return is_queued;
    case WAIT_STOPPING:
        return partition->is_draining;
    case WAIT_MAINTENANCE:
        return true;
    case WAIT_PAUSED:
        return pauses_may_hold_target(world, twin);
    case WAIT_TARGET_LIMIT:
        return !is_queued &&
               partition->out_by_origin[twin->row.content.tenant][twin->row.content.origin] >=
                   options->target_inflight_max;
    case WAIT_FLOW:
        return twin->row.content.flow > 0;
    case WAIT_ROOM:
    case WAIT_REASONS:
        break;
    }
    return !is_queued;
}

static void judge_wait(struct world *world, const struct sim_partition *partition,
                       const struct twin *twin, const struct explained *explained)
{
    const uint8_t origin = twin->row.content.origin;

    if (explained->place == PLACE_QUEUED &&
        (!may_wait_for(world, partition, twin, explained->reason) ||
         partition->is_draining != (explained->reason == WAIT_STOPPING)))
        world_fail(world, twin->number, TRUE, "it does not wait for that (%d)", explained->reason);
    if (explained->place == PLACE_QUEUED && explained->reason <= WAIT_WORKER &&
        explained->reason != WAIT_CATCH_UP && pauses_hold_target(world, twin))
        world_fail(world, twin->number, TRUE, "its target is paused");
    const bool is_of_tenant = explained->place == PLACE_QUEUED && explained->reason == WAIT_LEASES;
    if (!is_of_tenant &&
        explained->inflight > partition->out_by_origin[twin->row.content.tenant][origin])
        world_fail(world, twin->number, TRUE, "%u are not under way to its target",
                   explained->inflight);
    /* Overdue timers, and those of a flow, may wait in a queue that has no such limit. */
    const bool may_be_overdue = (partition->options.catch_up_rate > 0 || twin->row.content.flow) &&
                                explained->inflight_max == UINT32_MAX;
    if (origin != QUEUE_ORIGIN && !may_be_overdue &&
        explained->inflight_max != partition->options.target_inflight_max)
        world_fail(world, twin->number, TRUE, "%u may not be under way to its target",
                   explained->inflight_max);
    if (explained->since.ms > explained->now.ms && !world->plan.clock_gap_ms)
        world_fail(world, twin->number, TRUE, "it was found due in time to come");
}

/* ---- what made it late ---- */

/* Checks the stages: some kinds of lateness cannot occur in this run. */
static void judge_stages(struct world *world, const struct sim_partition *partition,
                         const struct twin *twin, const struct lateness *lateness)
{
    const bool has[LATENESS_STAGES] = {
        [LATENESS_RETRIES] = true,
        [LATENESS_SET_LATE] = true,
        [LATENESS_PUT_BACK] = true,
        [LATENESS_MAINTENANCE] = true,
        [LATENESS_DOWN] = partition->epoch > partition->first_epoch,
        [LATENESS_DISK] = true,
        [LATENESS_WHEEL] = true,
        [LATENESS_CATCH_UP] = partition->options.catch_up_rate,
        [LATENESS_ROOM] = true,
        [LATENESS_TARGET_LIMIT] = true,
        [LATENESS_BREAKER] = world->plan.postpone_permille,
        [LATENESS_RATE] = partition->options.target_rate,
        [LATENESS_WORKER] = world->plan.queue_permille,
        [LATENESS_PAUSED] = world->plan.pause_permille,
        [LATENESS_FLOW] = world->plan.flow_permille, /* perhaps one that a patch took away */
        [LATENESS_HANDOFF] = true,
        [LATENESS_DELIVERY] = true,
        [LATENESS_COMMIT] = true,
    };

    for (int i = 0; i < LATENESS_STAGES; i++)
        if (lateness->ms[i] > 0 && !has[i])
            world_fail(world, twin->number, TRUE, "stage %d did not make it late", i);
}

/* Checks that the stages add up. For a timer that waits they make up all its lateness. For one that
 * fired they make up the time until it left the engine, and then until its outcome was durable. */
static void judge_lateness_of(struct world *world, const struct sim_partition *partition,
                              const struct twin *twin, const struct command *command)
{
    const struct timer *timer = command->timer;
    const struct explained *explained = &command->explained;
    const struct lateness *lateness = &explained->lateness;
    const bool is_this_life = twin->out_epoch == partition->epoch;
    const uint64_t sum_ms = sum_before_ms(lateness);

    judge_stages(world, partition, twin, lateness);
    uint64_t late_ms;
    if (explained->place == PLACE_QUEUED) {
        if (timer->state == TIMER_DELIVERING)
            return; /* its delivery began later in the same turn, perhaps with a later firing */
        late_ms = wall_since(base_of(timer), explained->now);
    } else if (timer->state == TIMER_FIRED && is_this_life && !twin->was_given_back &&
               partition->options.history_max >= HISTORY_ALL &&
               !rhythm_recurs(&twin->row.content.rhythm) && !twin->row.content.fan_count) {
        if (lateness->attempt != timer->attempts)
            world_fail(world, twin->number, TRUE, "attempt %u was not the last", lateness->attempt);
        late_ms = wall_since(base_of(timer), twin->out_at);
        /* of an attempt that was answered later, the time is that of its 202 */
        if (twin->outcome.status != 202 &&
            lateness->ms[LATENESS_COMMIT] > wall_since(twin->outcome_at, explained->now))
            world_fail(world, twin->number, TRUE, "its outcome was durable before");
    } else {
        return;
    }
    if (sum_ms != late_ms)
        world_fail(world, twin->number, TRUE, "its stages make %llu ms, it was late by %llu",
                   U64(sum_ms), U64(late_ms));
}

static void judge_attempt(struct world *world, const struct sim_partition *partition,
                          const struct twin *twin, const struct command *command)
{
    const uint32_t attempt = command->explained.lateness.attempt;
    const enum explain_place place = command->explained.place;
    const bool is_next = attempt == command->timer->attempts + 1;

    if ((place == PLACE_QUEUED && !is_next) || (place == PLACE_INFLIGHT && attempt && !is_next) ||
        (place != PLACE_QUEUED && attempt && !partition->options.history_max))
        world_fail(world, twin->number, TRUE, "attempt %u is not the one", attempt);
}

void explains_judge(struct world *world, const struct sim_partition *partition,
                    const struct twin *twin, const struct command *command)
{
    const struct explained *explained = &command->explained;

    judge_place(world, partition, twin, command);
    judge_attempt(world, partition, twin, command);
    if (explained->place == PLACE_QUEUED || explained->place == PLACE_INFLIGHT)
        judge_wait(world, partition, twin, explained);
    if (!world->plan.clock_gap_ms) /* the engine counts by the wall clock */
        judge_lateness_of(world, partition, twin, command);
    world->totals->explained++;
}
