/*
 * rhythm.h - what a timer plans, told by walking: which instants, which of those missed still
 * matter, and when it is too late for one.
 *
 * Every schedule drawn here plans instants at equal distances, asked for with `every` or with
 * `cron`. So a division tells whether an instant is planned, and its two neighbours tell whether it
 * is the next.
 */
#ifndef TICKWHEEL_WORLD_RHYTHM_H
#define TICKWHEEL_WORLD_RHYTHM_H

#include "timer/schedule.h"

struct world;

enum { RHYTHM_CRONS = 5, RHYTHM_TEXT_SIZE = 320 };

struct rhythm {
    uint64_t period_ms;     /* 0: it fires once */
    uint8_t cron;           /* which of the expressions, from 1; 0: every */
    bool is_from_named;     /* `from` was asked for; otherwise it follows from `created` */
    struct wall from;       /* every: the first */
    uint64_t count;         /* every: how many; 0: no end */
    struct wall until;      /* WALL_NEVER: no end */
    bool is_each;           /* fires each missed instant; otherwise the last of them */
    uint64_t drop_after_ms; /* UINT64_MAX: never */
    uint64_t spread_ms;
};

/* Fires once, however late. */
#define RHYTHM_NONE ((struct rhythm){.until = WALL_NEVER, .drop_after_ms = UINT64_MAX})

static inline bool rhythm_recurs(const struct rhythm *rhythm)
{
    return rhythm->period_ms > 0;
}

/* Whether it comes to an end by itself, after few firings. */
static inline bool rhythm_ends(const struct rhythm *rhythm)
{
    return !rhythm_recurs(rhythm) || rhythm->count > 0 || rhythm->until.ms != WALL_NEVER.ms;
}

/* A schedule with an instant at or after `created`; `ret_due` is its first firing. */
struct rhythm rhythm_draw(struct world *world, struct wall created, struct wall *ret_due);

/* As the timer carries it; empty when there is nothing to say. */
struct bytes rhythm_text(const struct rhythm *rhythm, char ret_text[RHYTHM_TEXT_SIZE]);

/* Whether two schedules that recur plan the same instants, but for their `until`. */
bool rhythm_plans_same(const struct rhythm *a, const struct rhythm *b);

/* Whether the firing due at `due` is followed by the one due at `next`, when it was over at `now`.
 * WALL_NEVER: by none. */
bool rhythm_follows(const struct rhythm *rhythm, struct wall due, struct wall now,
                    struct wall next);

/* The firing that is delivered in place of the one due at `due`, of which no attempt was made by
 * `now`: the last that was missed, unless each is wanted. */
struct wall rhythm_latest(const struct rhythm *rhythm, struct wall due, struct wall now);

/* Whether a firing due at `due` is dropped by now. */
static inline bool rhythm_drops(const struct rhythm *rhythm, struct wall due, struct wall now)
{
    return wall_since(due, now) > rhythm->drop_after_ms;
}

#endif
