/*
 * wheel_oracle.h - for tests: a wheel beside a model too simple to be wrong, driven together.
 *
 * The model is an array of timers that every verb searches from end to end. Each verb below does
 * the same to both and stops the program with a message when they differ; trial_check also proves
 * the wheel's invariants. Used by the model test (random verbs) and by the fuzz target (verbs from
 * bytes).
 */
#ifndef TICKWHEEL_WHEEL_ORACLE_H
#define TICKWHEEL_WHEEL_ORACLE_H

#include "allocator_oracle.h"

#include <tickwheel/wheel.h>

enum {
    TRIAL_TIMERS_MAX = 512,
    TRIAL_STALE_MAX = 64 /* handles remembered after their timer's end */
};

struct trial_timer {
    tw_handle handle;
    uint64_t data;
    uint64_t deadline;
    bool is_opened;
    bool is_armed;    /* also with TW_NEVER */
    bool was_overdue; /* when it was armed: then it may come out in any order */
};

struct trial {
    struct allocator allocator; /* of the wheel */
    struct tw_wheel *wheel;
    struct trial_timer timers[TRIAL_TIMERS_MAX];
    size_t count;
    tw_handle stale[TRIAL_STALE_MAX];
    size_t stale_count; /* ever; the last TRIAL_STALE_MAX are kept */
    uint64_t now;
    uint64_t next_data;
    bool is_behind; /* the last expire stopped early */
    uint64_t fired_count;
    uint64_t verb_count;
};

/* A fresh wheel and an empty model. The wheel's constants may be lowered, so that small trials
 * reach what large wheels do: portions of `moves_max` entries, sweeps from `stale_slack` stale
 * ones. */
void trial_init(struct trial *trial, const struct tw_wheel_options *options, uint32_t moves_max,
                uint32_t stale_slack);
void trial_deinit(struct trial *trial);

/* Verbs. `which` names any timer, modulo the count; without timers, or where the verb does not suit
 * the timer's kind, the one that does is done. */
void trial_schedule(struct trial *trial, uint64_t deadline);
void trial_open(struct trial *trial);
void trial_set(struct trial *trial, size_t which, uint64_t deadline); /* reschedule or arm */
void trial_disarm(struct trial *trial, size_t which); /* a scheduled one: reschedule to TW_NEVER */
void trial_end(struct trial *trial, size_t which);    /* cancel or close */

/* The verbs for many, on up to `count` timers from `which` on, of the verb's kind; among them stale
 * handles and one that occurs twice. Deadlines are `deadline`, and every other one later by `step`.
 */
enum trial_many {
    TRIAL_SCHEDULE_MANY,
    TRIAL_CANCEL_MANY,
    TRIAL_ARM_MANY,
    TRIAL_DISARM_MANY,
    TRIAL_CLOSE_MANY,
    TRIAL_MANY_COUNT
};
void trial_many(struct trial *trial, enum trial_many verb, size_t which, size_t count,
                uint64_t deadline, uint64_t step);

void trial_use_stale(struct trial *trial, size_t which, uint64_t deadline);

/* One call of expire. `now` may be earlier than before. */
void trial_expire(struct trial *trial, uint64_t now, size_t limit);

/* Expires in portions of `limit` until nothing is due. */
void trial_drain(struct trial *trial, uint64_t now, size_t limit);

/* The queries agree, and the wheel's invariants hold. */
void trial_check(struct trial *trial);

/* The earliest deadline in the model, TW_NEVER if there is none. */
uint64_t trial_earliest(const struct trial *trial);

#endif
