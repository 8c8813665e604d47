/*
 * live.h - counts the live timers of a partition by tenant, state and target origin.
 *
 * A timer in memory is counted as it is there. A row whose timer is not in memory is counted if it
 * is before the *cursor*, up to which a walk over all rows (second_scan.h) has come. So the counts
 * are complete after the first walk, and exact from then on: each change counts when it is durable,
 * and a delivery when it begins.
 *
 * An entry holds a *mark*, which says how its timer is counted:
 *
 *     live_take_in(live, &mark, timer)    the timer's row was read
 *     live_show(live, &mark, timer)       the timer was made, changed, or has ended
 *     live_queue(live, &mark)             the timer, which did not change, is in a dispatch queue
 *     live_leave(live, &mark, timer)      the timer leaves memory; the storage has its row
 *     live_forget(live, &mark)            the timer leaves memory, and the storage has no row
 *
 * Memory     LIVE_ORIGINS_MAX origins of each tenant have a row of their own. While the timers of
 *            further ones live, they are counted together, and no other origin gets a row.
 * Errors     If a timer cannot be counted for want of memory, the counts stay incomplete.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_LIVE_H
#define TICKWHEEL_ENGINE_LIVE_H

#include "base/list.h"
#include "store/storage.h"

#define LIVE_ORIGINS_MAX 200
#define LIVE_STATES      (TIMER_PAUSED + 1)
#define LIVE_SLOTS       16 /* parts of the postponed timers of a row, by their position */

struct live;

/* Timers of a row that a breaker postponed and that are in no dispatch queue. */
struct live_postponed {
    struct list link_; /* in the list of all of them */
    uint64_t count;
    struct {
        uint64_t count;
        struct wall oldest; /* earliest due time of its timers since it was empty */
    } slots_[LIVE_SLOTS];
    size_t tenant_size, url_size;
    char text[]; /* tenant, then the URL of one of the timers without its query */
};

/* Number of live timers of a tenant with one origin. */
struct live_row {
    struct live_row *next_; /* next row with an equal hash */
    struct live_tenant *tenant_;
    struct list link_; /* in the tenant's list of rows */
    uint64_t total;
    uint64_t counts[LIVE_STATES];      /* indexed by enum timer_state */
    struct live_postponed *postponed_; /* NULL if there are none */
    size_t origin_size;                /* 0 in the row for origins that have no row of their own */
    char origin[];
};

enum live_as {
    /* counted if its row is before the cursor, because the row has not been read yet */
    LIVE_AS_ROW,
    LIVE_AS_NOTHING, /* not counted: the timer is not durable yet, or has ended */
    LIVE_AS_TIMER,   /* counted in `row` with its `state` */
};

struct live_mark {
    struct live_row *row;
    uint8_t as;    /* enum live_as */
    uint8_t state; /* enum timer_state with which it is counted */
    uint8_t slot;  /* slot of `postponed_` that counts it, plus 1; 0 if none does */
};

struct live *live_create(void); /* returns NULL if out of memory */
void live_destroy(struct live *live);

void live_take_in(struct live *live, struct live_mark *mark, const struct timer *timer);
void live_show(struct live *live, struct live_mark *mark, const struct timer *timer);
void live_queue(struct live *live, struct live_mark *mark);
void live_leave(struct live *live, struct live_mark *mark, const struct timer *timer);
void live_forget(struct live *live, struct live_mark *mark);

/* Counts a row seen by the walk, whose timer is not in memory. Has no effect if the row is before
 * the cursor. */
void live_walk_row(struct live *live, const struct timer *timer);

/* Moves the cursor: all rows from `from` to `to` have been passed to live_walk_row. */
void live_walked(struct live *live, struct storage_position from, struct storage_position to);

/* True if all rows are counted. */
bool live_is_complete(const struct live *live);

/* Returns the row after `row` among those of a tenant. NULL as `row` asks for the first; NULL is
 * returned at the end. */
const struct live_row *live_next(const struct live *live, struct bytes tenant,
                                 const struct live_row *row);

/* Walks the postponed timers of all tenants, by origin. NULL as `last` asks for the first; NULL is
 * returned at the end. */
const struct live_postponed *live_next_postponed(const struct live *live,
                                                 const struct live_postponed *last);

static inline struct bytes live_postponed_tenant(const struct live_postponed *postponed)
{
    return (struct bytes){postponed->text, postponed->tenant_size};
}

/* Returns the URL of one of the timers, without its query; empty if they have several origins. */
static inline struct bytes live_postponed_url(const struct live_postponed *postponed)
{
    return (struct bytes){postponed->text + postponed->tenant_size, postponed->url_size};
}

/* Returns the earliest due time of the timers. It may be that of a timer that has left, as long as
 * others of its slot wait. */
struct wall live_postponed_oldest(const struct live_postponed *postponed);

/* For tests: aborts unless the sums are right. */
void live_check(const struct live *live);

#endif
