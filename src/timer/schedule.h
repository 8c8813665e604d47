/*
 * schedule.h - how a timer recurs and how late it may be: as text, as it is stored and shown, and
 * as what the engine reckons with.
 *
 *     {"every":"10s","from":"2026-11-20T12:00:00.000Z","count":5}
 *     {"cron":"0 9 * * MON-FRI","timezone":"UTC","dst":"shift","late":{"missed":"each"}}
 *
 * A timer that fires once has only `late`, or no text at all. Each firing is `spread` behind its
 * planned instant.
 *
 * Errors     ERROR_INVALID with the reason: an expression; ERROR_NOT_FOUND: a zone that is not on
 *            this machine; ERROR_CORRUPT for a text that schedule_write would not write;
 *            ERROR_NO_MEMORY and ERROR_IO when a zone cannot be read just now.
 * Ownership  A spec points into its text; a schedule to a zone of the source's.
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_TIMER_SCHEDULE_H
#define TICKWHEEL_TIMER_SCHEDULE_H

#include "timer/recurrence.h"

/* The fields of the request. */
struct schedule_spec {
    uint64_t every_ms;     /* 0: not every */
    struct wall from;      /* every: the first; WALL_NEVER: one period after it was made */
    uint64_t count;        /* every: how many in all; 0: no end */
    struct wall until;     /* the last instant; WALL_NEVER: no end */
    struct bytes cron;     /* empty: not cron */
    struct bytes timezone; /* cron; empty: UTC */
    enum cron_dst dst;     /* cron */
    enum recurrence_missed missed;
    uint64_t drop_after_ms; /* UINT64_MAX: never */
    uint64_t spread_ms;
};

#define SCHEDULE_SPEC_DEFAULT \
    ((struct schedule_spec){.from = WALL_NEVER, .until = WALL_NEVER, .drop_after_ms = UINT64_MAX})

/* Where zones come from. `find` may be NULL: then there is only UTC. It says NO_MEMORY or IO when
 * it cannot tell just now; any other error is that there is no such zone. */
struct zone_source {
    enum error_code (*find)(void *context, struct bytes name, const struct zone **ret_zone);
    void *context;
    const _Atomic uint64_t *generation; /* changes with the data of zones, on any thread; or NULL */
};

struct schedule {
    bool recurs;
    struct recurrence recurrence;
    struct recurrence_late late;
    uint64_t spread_ms;
};

/* Appends the text; nothing when the spec says nothing. */
void schedule_write(const struct schedule_spec *spec, struct buffer *to);

/* Appends what the text has as members of the open object. */
void schedule_put(const struct schedule_spec *spec, struct buffer *to);
enum error_code schedule_read(struct bytes text, struct schedule_spec *ret_spec,
                              struct error *ret_error);

/* Whether a timer with this text fires again and again. */
bool schedule_recurs(struct bytes text);

/* Whether both recur and plan the same instants: they differ in `until` and `late` at most. */
bool schedule_plans_same(struct bytes a, struct bytes b);

/* `created` is the timer's. */
enum error_code schedule_make(const struct schedule_spec *spec, struct wall created,
                              const struct zone_source *zones, struct schedule *ret_schedule,
                              struct error *ret_error);

/* Both at once: of a timer's text. */
enum error_code schedule_of(const struct timer *timer, const struct zone_source *zones,
                            struct schedule *ret_schedule, struct error *ret_error);

/* When it fires first: the first planned instant from `created` on. WALL_NEVER: never. */
struct wall schedule_first(const struct schedule *schedule, struct wall created);

/* When it fires next, after the firing due at `due` is over; in the past when at once. WALL_NEVER:
 * the timer is over. */
struct wall schedule_next(const struct schedule *schedule, struct wall due, struct wall now);

/* Which firing counts when the one due at `due` was not begun by `now`: the last that was missed,
 * or the one at `due` if the schedule wants each. */
struct wall schedule_latest(const struct schedule *schedule, struct wall due, struct wall now);

/* The mark of a due time that a cron expression gave in a time zone: that time, and the offset of
 * the zone then. Empty for other schedules. It lies in `room`. */
#define SCHEDULE_MARK_SIZE 40
struct bytes schedule_mark(const struct schedule *schedule, struct wall due,
                           char room[SCHEDULE_MARK_SIZE]);

/* When the firing due at `due` is due by the rules that the zone has now: at the first planned
 * instant that does not show an earlier local time than `due` did. Equal to `due` when the rules
 * are the same there, or when somebody moved it since the mark was made. */
struct wall schedule_rederive(const struct schedule *schedule, struct bytes mark, struct wall due);

/* Whether a firing due at `due` is dropped by now. */
bool schedule_drops(const struct schedule *schedule, struct wall due, struct wall now);

#endif
