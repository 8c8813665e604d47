/*
 * firings.h - the runs that a timer must show: those whose outcomes the simulated targets gave, as
 * plain structs in the order in which they ended; and what the engine tells of firings given up.
 */
#ifndef TICKWHEEL_WORLD_FIRINGS_H
#define TICKWHEEL_WORLD_FIRINGS_H

#include "timer/runs.h"
#include "timer/timer.h"

/* SKIPPED: `started_ms` is the last of the skipped firings, `duration_ms` their number. */
struct firing {
    uint64_t planned_ms, started_ms, duration_ms, error_sum;
    uint32_t attempts, status;
    enum run_outcome outcome;
};

/* The last firings of one timer, newest first. */
struct firings {
    size_t count;
    struct firing last[RUNS_MAX];
};

struct given_up;
struct sim_partition;
struct twin;
struct world;

/* Add a firing of the twin that has ended: with the outcome that was handed in, or without another
 * attempt. In the latter case `error` says why; "" if it was too late. A timer that repeats shows
 * these firings. */
struct firing firings_add_answered(struct twin *twin);
struct firing firings_add_unanswered(struct twin *twin, const char *error);

/* Adds a firing that has begun as the timer with this id. */
void firings_add_begun(struct twin *twin, const struct timer_id *id);

/* Adds the skipped firings, which were never attempted: those planned from `from` on and before
 * `to`, which is a planned one itself. */
void firings_add_skipped(struct twin *twin, struct wall from, struct wall to);

/* True if `report` says that this firing of the twin ended like that, with this error. */
bool firings_are_reported(const struct twin *twin, const struct firing *firing, const char *error,
                          const struct timer *report);

/* Counts firings that the engine reports as given up: all by number, the first of them by name. */
void firings_told(struct world *world, struct sim_partition *partition,
                  const struct given_up *given_up);

/* Checks that the engine has reported the firing of the twin that was given up, now that this is
 * durable. */
void firings_check_told(struct world *world, const struct twin *twin);

/* True if the timer shows exactly these firings. */
bool firings_match(const struct firings *firings, const struct timer *timer);

/* Return a number that is equal for equal firings: for these, and for those that a timer shows. */
uint64_t firings_sum(const struct firings *firings);
uint64_t firings_sum_shown(const struct timer *timer);

#endif
