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

/* Fields of the request. */
struct schedule_spec {
    uint64_t every_ms;     /* 0 if there is no `every` */
    struct wall from;      /* every: first instant; WALL_NEVER: one period after the creation */
    uint64_t count;        /* every: number of instants; 0 for no end */
    struct wall until;     /* last instant; WALL_NEVER for no end */
    struct bytes cron;     /* empty if there is no `cron` */
    struct bytes timezone; /* of cron; empty for UTC */
    enum cron_dst dst;     /* cron */
    enum recurrence_missed missed;
    uint64_t drop_after_ms; /* UINT64_MAX: never */
    uint64_t spread_ms;
};

#define SCHEDULE_SPEC_DEFAULT \
    ((struct schedule_spec){.from = WALL_NEVER, .until = WALL_NEVER, .drop_after_ms = UINT64_MAX})

/* Source of zones. `find` may be NULL: then there is only UTC. It returns NO_MEMORY or IO if it
 * cannot say now; any other error means that there is no such zone. */
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

/* Appends the text; nothing if the spec is empty. */
void schedule_write(const struct schedule_spec *spec, struct buffer *to);

/* Appends what the text has as members of the open object. */
void schedule_put(const struct schedule_spec *spec, struct buffer *to);
enum error_code schedule_read(struct bytes text, struct schedule_spec *ret_spec,
                              struct error *ret_error);

/* True if a timer with this text repeats. */
bool schedule_recurs(struct bytes text);

/* True if both repeat and plan the same instants: they differ only in `until` and `late`. */
bool schedule_plans_same(struct bytes a, struct bytes b);

/* Makes the schedule; `created` is the timer's. */
enum error_code schedule_make(const struct schedule_spec *spec, struct wall created,
                              const struct zone_source *zones, struct schedule *ret_schedule,
                              struct error *ret_error);

/* Makes the schedule of a timer's text. */
enum error_code schedule_of(const struct timer *timer, const struct zone_source *zones,
                            struct schedule *ret_schedule, struct error *ret_error);

/* Returns the first firing: the first planned instant from `created` on. WALL_NEVER if there is
 * none. */
struct wall schedule_first(const struct schedule *schedule, struct wall created);

/* Returns the next firing after the one due at `due`; in the past if it must fire at once.
 * WALL_NEVER if the timer has ended. */
struct wall schedule_next(const struct schedule *schedule, struct wall due, struct wall now);

/* Returns the firing that counts if the one due at `due` has not begun by `now`: the last missed
 * one, or the one at `due` if the schedule wants each. */
struct wall schedule_latest(const struct schedule *schedule, struct wall due, struct wall now);

/* Returns how many firings are planned from `from` on and before `to`, of a cron expression at most
 * SCHEDULE_COUNTED, and the first and the last of them. */
#define SCHEDULE_COUNTED 1000
uint32_t schedule_count(const struct schedule *schedule, struct wall from, struct wall to,
                        struct wall *ret_first, struct wall *ret_last);

/* Returns the mark of a due time from a cron expression with a time zone: that time, and the
 * zone's offset then. Empty for other schedules. It is stored in `room`. */
#define SCHEDULE_MARK_SIZE 40
struct bytes schedule_mark(const struct schedule *schedule, struct wall due,
                           char room[SCHEDULE_MARK_SIZE]);

/* Returns the due time of the firing at `due` by the zone's present rules: the first planned
 * instant that does not show an earlier local time than `due` did. Equal to `due` if the rules
 * are the same there, or somebody moved it since the mark was made. */
struct wall schedule_rederive(const struct schedule *schedule, struct bytes mark, struct wall due);

/* True if a firing due at `due` is dropped at `now`. */
bool schedule_drops(const struct schedule *schedule, struct wall due, struct wall now);

#endif
