/*
 * recurrence.h - a timer that fires again and again: which instants it plans, and which of those
 * that were missed still matter.
 *
 *     struct recurrence minutely = {.kind = RECURRENCE_EVERY,
 *                                   .until = WALL_NEVER,
 *                                   .every = {.first = created, .period_ms = 60 * 1000}};
 *     struct wall next = recurrence_next(&minutely, now);
 *
 * The planned instants follow from the recurrence alone, never from when something fired: `every`
 * keeps its first instant, so neither a late delivery nor a restart moves its phase, and timers
 * that began at different moments stay apart.
 *
 * Time       Absolute. Every call is O(1) in the instants that were missed.
 * Errors     None. No instant is WALL_NEVER; nothing is planned after WALL_MS_MAX.
 * Ownership  The zone is borrowed (calendar/zones.h keeps it).
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_TIMER_RECURRENCE_H
#define TICKWHEEL_TIMER_RECURRENCE_H

#include "calendar/cron.h"
#include "base/time.h"
#include "calendar/dates.h"
#include "calendar/zone.h"
#include "timer/timer.h"

enum recurrence_kind { RECURRENCE_EVERY, RECURRENCE_CRON };

/* Planned instants: first, first + period, first + 2 periods, ... */
struct recurrence_every {
    struct wall first;
    uint64_t period_ms; /* at least 1 */
    uint64_t count;     /* number of planned instants; 0 means no end */
};

struct recurrence_cron {
    struct cron cron;
    enum cron_dst dst;
};

struct recurrence {
    enum recurrence_kind kind;
    struct wall until; /* last instant that may be planned, moved or not; WALL_NEVER: no end */
    const struct zone *zone; /* of `cron` and `dates` */
    /* Dates on which an instant may be planned. With DATES_MOVE_NEXT or _PREVIOUS an instant has
     * another date than the pattern says. */
    struct dates dates;
    union {
        struct recurrence_every every;
        struct recurrence_cron cron;
    };
};

/* Returns the first planned instant after `after`; WALL_NEVER if there is none. With `dates`, none
 * may also mean that DATES_SEARCH_DAYS have been searched. */
struct wall recurrence_next(const struct recurrence *recurrence, struct wall after);

/* Returns the last planned instant that is not after `at`; WALL_NEVER if there is none. */
struct wall recurrence_last(const struct recurrence *recurrence, struct wall at);

/* Returns the first instant of the pattern after `after` as if there were no `dates`, and where
 * `dates` move it: to itself, to another date, or to WALL_NEVER if it is left out. */
struct wall recurrence_next_plain(const struct recurrence *recurrence, struct wall after,
                                  struct wall *ret_moved);

/* Returns the day, since 1970-01-01, that the zone's clocks show at `at`. */
int64_t recurrence_day(const struct recurrence *recurrence, struct wall at);

/* Returns the first, or the last, instant of the pattern that `dates` move to the planned instant
 * `at`; `at` if none is moved there. */
struct wall recurrence_origin_first(const struct recurrence *recurrence, struct wall at);
struct wall recurrence_origin_last(const struct recurrence *recurrence, struct wall at);

/* Returns where `dates` move an instant of the pattern; WALL_NEVER if it is left out. */
struct wall recurrence_moved(const struct recurrence *recurrence, struct wall at);

/* ---- missed occurrences ---- */

/* X(name, text): whether each missed firing fires, or only the last. */
#define RECURRENCE_MISSED_LIST(X) \
    X(LAST, "last")               \
    X(EACH, "each")

enum recurrence_missed {
#define X(name, text) RECURRENCE_MISSED_##name,
    RECURRENCE_MISSED_LIST(X)
#undef X
};

struct recurrence_late {
    enum recurrence_missed missed;
    /* lateness from which an occurrence is dropped; UINT64_MAX means never */
    uint64_t drop_after_ms;
};

/* Returns the planned instant to fire next, at time `now`, after the firing planned at `previous`
 * has ended (fired, dead or dropped). It is in the past if it must fire at once. Instants that
 * `late` skips are lost. WALL_NEVER if the timer has ended. */
struct wall recurrence_resume(const struct recurrence *recurrence,
                              const struct recurrence_late *late, struct wall previous,
                              struct wall now);

#endif
