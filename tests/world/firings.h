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

/* Of one timer: the last ones, the newest first. */
struct firings {
    size_t count;
    struct firing last[RUNS_MAX];
};

struct given_up;
struct sim_partition;
struct twin;
struct world;

/* A firing of the twin ended with its outcome that was handed in, or without another attempt; a
 * timer that repeats shows it. Without an attempt: `error` says why, "" if it was too late. */
struct firing firings_add_answered(struct twin *twin);
struct firing firings_add_unanswered(struct twin *twin, const char *error);

/* The firings planned from `from` on and before `to`, which is one, were never attempted. */
void firings_add_skipped(struct twin *twin, struct wall from, struct wall to);

/* Whether `report` says that the firing of the twin ended so, with this error. */
bool firings_are_reported(const struct twin *twin, const struct firing *firing, const char *error,
                          const struct timer *report);

/* The engine told that firings were given up, all or the first of them by name. */
void firings_told(struct world *world, struct sim_partition *partition,
                  const struct given_up *given_up);

/* The twin's firing was given up, and that is durable: it was told. */
void firings_check_told(struct world *world, const struct twin *twin);

/* Whether the timer shows exactly these. */
bool firings_match(const struct firings *firings, const struct timer *timer);

/* A number that is equal for equal firings; and of those that a timer shows. */
uint64_t firings_sum(const struct firings *firings);
uint64_t firings_sum_shown(const struct timer *timer);

#endif
