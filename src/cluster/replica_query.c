/* replica_query.c - what a replica tells of itself, and its invariants; see replica.h. */
#include "cluster/replica_private.h"

#include "base/check.h"

struct instant replica_wake_at(const struct replica *replica, struct instant now)
{
    if (replica->is_failing)
        return replica->has_engine             ? (struct instant){UINT64_MAX}
               : replica->retry_at.ns > now.ns ? replica->retry_at
                                               : instant_add_ms(now, REPLICA_STORAGE_PAUSE_MS);
    struct instant at = ownership_wake_at(&replica->own, now);
    const bool is_due = sweep_is_going(&replica->sweep) && ownership_is_free(&replica->own) &&
                        replica->told == OWNERSHIP_ACTIVE;
    const struct instant waits[] = {
        !is_due                              ? (struct instant){UINT64_MAX}
        : replica->sweep_part_at.ns > now.ns ? replica->sweep_part_at
                                             : instant_add_ms(now, 1),
        replica->is_trimmed || !replica->trim ? (struct instant){UINT64_MAX} : replica->trim_at,
    };
    for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
        if (waits[i].ns > now.ns && waits[i].ns < at.ns)
            at = waits[i];
    return at;
}

bool replica_seeks(const struct replica *replica)
{
    return replica->reading == REPLICA_SEEKS || replica_next(replica) == 0;
}

bool replica_is_whole(const struct replica *replica)
{
    return !replica->log.missing_end && !replica->copy_end && replica->reading != REPLICA_EMPTIES &&
           replica->reading != REPLICA_COPIES;
}

void replica_get_stats(const struct replica *replica, struct replica_stats *ret_stats)
{
    *ret_stats = replica->stats;
    ret_stats->log_bytes = replica->log.bytes;
    ret_stats->live_bytes = replica->log.live_bytes;
}

uint64_t replica_next(const struct replica *replica)
{
    return ownership_place(&replica->own)->next;
}

bool replica_may_act(const struct replica *replica, struct instant now)
{
    return !replica->is_failing && replica->has_engine && !replica->is_leaving &&
           ownership_may_act(&replica->own, now);
}

struct instant replica_acts_until(const struct replica *replica)
{
    if (replica->is_failing || !replica->has_engine || replica->is_leaving)
        return (struct instant){0};
    return ownership_acts_until(&replica->own);
}

enum ownership_state replica_state(const struct replica *replica)
{
    return ownership_state(&replica->own);
}

const struct ownership_place *replica_place(const struct replica *replica)
{
    return ownership_place(&replica->own);
}

bool replica_is_idle(const struct replica *replica)
{
    const enum ownership_state state = ownership_state(&replica->own);

    return !replica->has_engine && !replica->is_failing &&
           (state == OWNERSHIP_RESTORING || state == OWNERSHIP_STANDBY);
}

uint64_t replica_epoch(const struct replica *replica)
{
    return ownership_epoch(&replica->own);
}

uint64_t replica_applied(const struct replica *replica)
{
    return replica->applied;
}

uint64_t replica_refused(const struct replica *replica)
{
    return replica->refused;
}

bool replica_is_failing(const struct replica *replica)
{
    return replica->is_failing;
}

bool replica_storage_fails(const struct replica *replica)
{
    return replica->has_failed;
}

const struct error *replica_error(const struct replica *replica)
{
    return &replica->error;
}

void replica_check(const struct replica *replica)
{
    ownership_check(&replica->own);
    CHECK(!replica->is_leaving || replica->has_engine);
    CHECK(replica->is_failing || replica->applied >= ownership_place(&replica->own)->next ||
          replica_state(replica) == OWNERSHIP_BROKEN);
    CHECK(replica->body_sent + replica->part_size <= replica->body.size ||
          list_is_empty(&replica->committing));
}
