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
 * Errors     ERROR_INVALID with the reason: an expression; ERROR_NOT_FOUND: a zone or calendar that
 *            is not on this machine; ERROR_CORRUPT for a text that schedule_write would not write;
 *            ERROR_NO_MEMORY and ERROR_IO when a zone cannot be read just now.
 * Ownership  A spec points into its text; a schedule to a zone of the source's.
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_TIMER_SCHEDULE_H
#define TICKWHEEL_TIMER_SCHEDULE_H

#include "calendar/calendars.h"
#include "calendar/zones.h"
#include "timer/backfill.h"
#include "timer/recurrence.h"

/* X(name, text): what happens if a firing is due while the one before is retried or leased. */
#define SCHEDULE_OVERLAP_LIST(X)                                              \
    X(WAIT, "wait")   /* it begins when that one is over, as `missed` says */ \
    X(SKIP, "skip")   /* it is skipped */                                     \
    X(ALLOW, "allow") /* it begins: each firing is a timer (timer/firing.h) */

enum schedule_overlap {
#define X(name, text) SCHEDULE_OVERLAP_##name,
    SCHEDULE_OVERLAP_LIST(X)
#undef X
};

/* Returns false if no value has this name. */
bool schedule_overlap_parse(struct bytes text, enum schedule_overlap *ret_overlap);

/* The fields of a schedule in a request. */
struct schedule_spec {
    uint64_t every_ms; /* 0 if there is no `every` */
    /* with `every`: first instant; WALL_NEVER means one period after the creation */
    struct wall from;
    uint64_t count;        /* number of instants; 0 means no end */
    struct wall until;     /* last instant; WALL_NEVER means no end */
    struct bytes cron;     /* empty if there is no `cron` */
    struct bytes timezone; /* zone of `cron` and of dates; empty means UTC */
    /* with `cron`: what to do with local times that the clocks skip or repeat */
    enum cron_dst dst;
    enum schedule_overlap overlap;
    /* JSON arrays of entries (calendar/dates.h) without escapes; empty for none */
    struct bytes except, only;
    enum dates_move on_holiday;
    enum recurrence_missed missed;
    uint64_t drop_after_ms; /* UINT64_MAX means never */
    uint64_t spread_ms;
    struct backfill backfill; /* `of` is empty if it is no backfill */
};

#define SCHEDULE_SPEC_DEFAULT \
    ((struct schedule_spec){.from = WALL_NEVER, .until = WALL_NEVER, .drop_after_ms = UINT64_MAX})

/* Where to find time zones. If `find` is NULL there is only UTC. `find` returns NO_MEMORY or IO if
 * it cannot tell now; any other error means that the zone does not exist. */
struct zone_source {
    enum error_code (*find)(void *context, struct bytes name, const struct zone **ret_zone);
    void *context;
    /* changes when the data of zones changes, on any thread; NULL if it never does */
    const _Atomic uint64_t *generation;
    /* Returns the zone that a wrong name means, or false. NULL if there is no one to tell. */
    bool (*suggest)(void *context, struct bytes name, char ret_name[ZONES_SUGGESTION_SIZE]);
    const struct calendars *calendars; /* calendars of holidays; NULL if there is none */
    /* Is told a calendar that is not there. NULL if there is no one to tell. */
    void (*lacks_calendar)(void *context, struct bytes name);
};

/* Maximum of `count` with `cron`, `except` or `only`, where it is counted, not computed. */
#define SCHEDULE_COUNT_WALKED_MAX 1000

/* Firings that are moved to another date: maximum of one day. */
#define SCHEDULE_MOVED_DAILY_MAX 1440

struct schedule {
    bool recurs;
    struct recurrence recurrence;
    struct recurrence_late late;
    enum schedule_overlap overlap;
    uint64_t spread_ms;
    /* Limit of planned instants that are counted one by one; 0 if there is none. The instants until
     * `counted_until` are `counted`. */
    uint64_t count, counted;
    struct wall counted_until;
    const char *wrong; /* after an error of schedule_make: pointer to the field at fault */
};

/* Appends the spec as text; nothing if the spec is empty. */
void schedule_write(const struct schedule_spec *spec, struct buffer *to);

/* Appends the members of the text to the open JSON object. */
void schedule_put(const struct schedule_spec *spec, struct buffer *to);
enum error_code schedule_read(struct bytes text, struct schedule_spec *ret_spec,
                              struct error *ret_error);

/* Reads the backfill of a schedule. Returns false if the timer is no part of one. */
bool schedule_backfill(struct bytes text, struct backfill *ret_backfill);

/* Appends the text of a backfill's schedule after one more firing is done. */
void schedule_write_done(struct bytes text, struct buffer *to);

/* True if a timer with this schedule repeats. */
bool schedule_recurs(struct bytes text);

/* True if both texts repeat and plan the same instants, so that they differ at most in `until`,
 * `late` and `overlap`. */
bool schedule_plans_same(struct bytes a, struct bytes b);

/* Like schedule_plans_same, but `count` and `spread` may differ: the instants that were planned
 * still count. */
bool schedule_counts_same(struct bytes a, struct bytes b);

/* Makes a schedule from a spec, also in part if that fails; `created` is the creation time of the
 * timer, `tenant` its owner. */
enum error_code schedule_make(const struct schedule_spec *spec, struct wall created,
                              struct bytes tenant, const struct zone_source *zones,
                              struct schedule *ret_schedule, struct error *ret_error);

/* Makes the schedule of a timer from its text. */
enum error_code schedule_of(const struct timer *timer, const struct zone_source *zones,
                            struct schedule *ret_schedule, struct error *ret_error);

/* Returns the first firing, which is that of the first planned instant not before `created`.
 * WALL_NEVER if there is none. */
struct wall schedule_first(const struct schedule *schedule, struct wall created);

/* True if a firing is planned at `due`. */
bool schedule_plans(const struct schedule *schedule, struct wall due);

/* Returns the firing that follows the one due at `due`. It is in the past if it must fire at once.
 * WALL_NEVER if the timer has ended. */
struct wall schedule_next(const struct schedule *schedule, struct wall due, struct wall now);

/* Returns the firing planned after the one due at `due`, whether it has passed or not. WALL_NEVER
 * if there is none. */
struct wall schedule_after(const struct schedule *schedule, struct wall due);

/* Returns the firing to deliver at `now` if the one due at `due` was not attempted: the last missed
 * one, or the one at `due` if the schedule wants each. */
struct wall schedule_latest(const struct schedule *schedule, struct wall due, struct wall now);

/* Returns how many firings are planned from `from` on and before `to`, none beyond `count`, and the
 * first and the last of them. With a cron expression it counts at most SCHEDULE_COUNTED. */
#define SCHEDULE_COUNTED 1000
uint32_t schedule_count(const struct schedule *schedule, struct wall from, struct wall to,
                        struct wall *ret_first, struct wall *ret_last);

/* Counts the firings until the one due at `due`. Without effect if the schedule has no `count`, or
 * one that is computed. */
void schedule_take(struct schedule *schedule, struct wall due);

/* Returns what was counted as text, which schedule_of reads; empty if nothing is. It is written to
 * `room`. */
#define SCHEDULE_COUNTED_SIZE 40
struct bytes schedule_counted(const struct schedule *schedule, char room[SCHEDULE_COUNTED_SIZE]);

/* Returns the text of a schedule that counts anew, from the instant `from` on. */
struct bytes schedule_counted_anew(struct wall from, char room[SCHEDULE_COUNTED_SIZE]);

/* Takes over what the text says. Without a text everything since the creation counts. */
void schedule_read_counted(struct schedule *schedule, struct bytes text);

/* Returns the mark of a due time: that time and the offset of the schedule's time zone then; with
 * calendars also the planned instant before it, and the instant that was moved there. Empty unless
 * the schedule is a cron expression with a time zone, or names calendars. It is written to
 * `room`. */
#define SCHEDULE_MARK_SIZE 80
struct bytes schedule_mark(const struct schedule *schedule, struct wall due,
                           char room[SCHEDULE_MARK_SIZE]);

/* True if the mark is that of this due time. */
bool schedule_is_marked(struct bytes mark, struct wall due);

/* Returns when the firing at `due` is due by the present rules of its zone and calendars at `now`.
 * After a change of the zone: at the first planned instant whose local time is not earlier than
 * that of `due` was. After a change of calendars: at the first planned instant from now on, or
 * where the firing is now moved, perhaps in the past. Equal to `due` if nothing has changed there,
 * or if the due time was changed after `mark` was made. WALL_NEVER if no date is permitted now. */
struct wall schedule_rederive(const struct schedule *schedule, struct bytes mark, struct wall due,
                              struct wall now);

/* True if the rules of the timer's zone or calendars changed since its due time was computed.
 * `ret_due` is the due time by the present rules, or the timer's. False if no date is permitted
 * now: what that means is decided when the timer is due. */
bool schedule_is_moved(const struct timer *timer, const struct zone_source *zones, struct wall now,
                       struct wall *ret_due);

/* True if a firing due at `due` is too late at `now` and is to be dropped. */
bool schedule_drops(const struct schedule *schedule, struct wall due, struct wall now);

#endif
