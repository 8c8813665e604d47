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
#include "timer/timer.h"

struct world;

enum { RHYTHM_CRONS = 5, RHYTHM_TEXT_SIZE = 600 };

struct rhythm {
    uint64_t period_ms; /* period; 0 if it fires once */
    uint8_t cron;       /* number of the cron expression, from 1; 0 for `every` */
    bool is_from_named; /* whether the client set `from`; otherwise it follows from `created` */
    struct wall from;   /* for `every`: the first instant */
    uint64_t count;     /* for `every`: number of instants; 0 for no end */
    struct wall until;  /* WALL_NEVER for no end */
    bool is_skipping;   /* whether it skips the instants during a firing that is attempted */
    bool is_apart;      /* whether each firing but the last is a timer of its own */
    bool is_each;       /* whether it fires each missed instant; otherwise only the last of them */
    uint64_t drop_after_ms; /* UINT64_MAX: never */
    uint64_t spread_ms;
    /* Backfill: the timer whose instants fire, the range that was asked for, the rate, and how many
     * firings are done of how many. All zero if it is none; `of` alone for one of its firings. */
    struct {
        struct timer_id of;
        struct wall from, to;
        uint8_t rate; /* index of the rate */
        uint64_t count, done;
    } backfill;
};

/* Schedule of a timer that fires once, however late. */
#define RHYTHM_NONE ((struct rhythm){.until = WALL_NEVER, .drop_after_ms = UINT64_MAX})

static inline bool rhythm_recurs(const struct rhythm *rhythm)
{
    return rhythm->period_ms > 0;
}

/* True if it ends by itself, after few firings. */
static inline bool rhythm_ends(const struct rhythm *rhythm)
{
    return !rhythm_recurs(rhythm) || rhythm->count > 0 || rhythm->until.ms != WALL_NEVER.ms;
}

/* Draws a schedule with an instant at or after `created`. `ret_due` is its first firing. */
struct rhythm rhythm_draw(struct world *world, struct wall created, struct wall *ret_due);

/* Draws a backfill of a schedule that recurs: some of its last instants before `now`. Returns false
 * if there are none. `ret_due` is the first of them. */
bool rhythm_draw_backfill(struct world *world, const struct rhythm *rhythm,
                          const struct timer_id *of, struct wall now, struct rhythm *ret_backfill,
                          struct wall *ret_due);

/* Counts a firing of a backfill that is over. A last one that is redriven counts once. */
static inline void rhythm_take_done(struct rhythm *rhythm)
{
    rhythm->backfill.done += rhythm->backfill.done < rhythm->backfill.count;
}

/* Returns the least time between the starts of two firings of a backfill; 0 if it is none. */
uint64_t rhythm_pace_ms(const struct rhythm *rhythm);

/* Returns that rate as text. */
struct bytes rhythm_rate(const struct rhythm *rhythm);

/* Returns the schedule as the timer's text; empty if there is nothing to say. */
struct bytes rhythm_text(const struct rhythm *rhythm, char ret_text[RHYTHM_TEXT_SIZE]);

/* True if two schedules that recur plan the same instants, apart from their `until`. */
bool rhythm_plans_same(const struct rhythm *a, const struct rhythm *b);

/* True if the firing due at `due`, which ended at `now`, is followed by the one due at `next`; if
 * `next` is WALL_NEVER, by none. */
bool rhythm_follows(const struct rhythm *rhythm, struct wall due, struct wall now,
                    struct wall next);

/* The same for a timer that skips what was due while the firing was attempted. */
bool rhythm_skips_to(const struct rhythm *rhythm, struct wall due, struct wall now,
                     struct wall next);

/* Returns the firing planned after the one due at `due`; WALL_NEVER if there is none. */
struct wall rhythm_after(const struct rhythm *rhythm, struct wall due);

/* Returns the firing that is delivered in place of the one due at `due`, if no attempt was made by
 * `now`: the last one that was missed; with is_each the one at `due`. */
struct wall rhythm_latest(const struct rhythm *rhythm, struct wall due, struct wall now);

/* True if a firing due at `due` is dropped by now. */
static inline bool rhythm_drops(const struct rhythm *rhythm, struct wall due, struct wall now)
{
    return wall_since(due, now) > rhythm->drop_after_ms;
}

#endif
