/* firings.c - keeps the last firings of each twin, and compares them with the runs of its timer. */
#include "firings.h"

#include "model.h"
#include "world.h"

static struct firing *make_room(struct firings *firings)
{
    const size_t kept = firings->count < RUNS_MAX ? firings->count : RUNS_MAX - 1;

    memmove(&firings->last[1], &firings->last[0], kept * sizeof(struct firing));
    firings->count = kept + 1;
    return &firings->last[0];
}

static uint64_t error_sum(const char *error)
{
    return bytes_hash(0, bytes_of(error));
}

void firings_add_answered(struct twin *twin)
{
    static const enum run_outcome OUTCOMES[] = {
        [DELIVERY_DONE] = RUN_DONE, [DELIVERY_FAILED] = RUN_FAILED, [DELIVERY_ENDED] = RUN_ENDED};
    const struct delivery_outcome *outcome = &twin->outcome;

    if (!rhythm_recurs(&twin->row.content.rhythm))
        return;
    /* A clock that steps while the request is out makes a duration that a run has no room for. */
    const uint64_t duration_ms = wall_since(twin->out_at, twin->outcome_at);
    *make_room(&twin->row.firings) = (struct firing){
        .planned_ms = twin->row.content.due.ms,
        .started_ms = twin->out_at.ms,
        .duration_ms = duration_ms < UINT32_MAX ? duration_ms : UINT32_MAX,
        .error_sum = error_sum(outcome->result == DELIVERY_DONE ? "" : outcome->error),
        .attempts = twin->row.attempts + 1,
        .status = outcome->status,
        .outcome = OUTCOMES[outcome->result],
    };
}

void firings_add_unanswered(struct twin *twin)
{
    const struct sim_row *row = &twin->row;
    const bool is_exhausted = row->attempts >= row->content.retry.attempts_max;

    if (!rhythm_recurs(&row->content.rhythm))
        return;
    *make_room(&twin->row.firings) = (struct firing){
        .planned_ms = row->content.due.ms,
        .error_sum = is_exhausted ? error_sum("no attempts are left") : 0,
        .attempts = row->attempts,
        .outcome = is_exhausted ? RUN_FAILED : RUN_DROPPED,
    };
}

static const char TOLD[] = "a firing that is given up is told";

void firings_told(struct world *world, struct sim_partition *partition,
                  const struct given_up *given_up)
{
    struct twin *twin = model_find(world, &given_up->id);

    if (!twin)
        world_fail(world, 0, TOLD, "a timer that is not there");
    if (!*given_up->origin || !*given_up->error)
        world_fail(world, twin->number, TOLD, "without origin or error");
    partition->told += 1 + given_up->more;
    partition->has_untold |= given_up->more > 0;
    twin->told_due = given_up->due;
}

void firings_check_told(struct world *world, const struct twin *twin)
{
    if (twin->told_due.ms != twin->row.content.due.ms &&
        !world->host.partitions[twin->partition].has_untold)
        world_fail(world, twin->number, TOLD, "the one due at %llu is not",
                   (unsigned long long)twin->row.content.due.ms);
}

/* What a run says. How late a dropped firing was is not compared. */
static struct firing firing_of(const struct run *run)
{
    return (struct firing){
        .planned_ms = run->planned.ms,
        .started_ms = run->started.ms,
        .duration_ms = run->duration_ms,
        .error_sum = run->outcome == RUN_DROPPED ? 0 : bytes_hash(0, run->error),
        .attempts = run->attempts,
        .status = run->status,
        .outcome = run->outcome,
    };
}

static struct firings firings_of(const struct timer *timer)
{
    struct firings firings = {0};
    struct bytes rest = timer->texts.runs;
    struct run run;

    while (firings.count < RUNS_MAX && runs_next(&rest, &run))
        firings.last[firings.count++] = firing_of(&run);
    return firings;
}

static uint64_t firing_sum(uint64_t sum, const struct firing *firing)
{
    const uint64_t parts[] = {firing->planned_ms, firing->started_ms, firing->duration_ms,
                              firing->error_sum,  firing->attempts,   firing->status,
                              firing->outcome};

    return bytes_hash(sum, (struct bytes){(const char *)parts, sizeof(parts)});
}

uint64_t firings_sum(const struct firings *firings)
{
    uint64_t sum = firings->count;

    for (size_t i = 0; i < firings->count; i++)
        sum = firing_sum(sum, &firings->last[i]);
    return sum;
}

uint64_t firings_sum_shown(const struct timer *timer)
{
    const struct firings shown = firings_of(timer);

    return firings_sum(&shown);
}

bool firings_match(const struct firings *firings, const struct timer *timer)
{
    return runs_is_valid(timer->texts.runs) && firings_sum(firings) == firings_sum_shown(timer);
}
