/*
 * feed.h - changes of timers, and of what holds deliveries back, for the clients that watch: a
 * bounded buffer of events, and the listeners that read it at their own pace.
 *
 *     feed_post(feed, &events, lost);                      by the shards, after each turn
 *     feed_tell_hold(feed, kind, &hold, 0);                by the node, of a pause or the like
 *     feed_listen(feed, &listener, last);                  by a listener
 *     while (feed_read(feed, &listener, take, context) == FEED_MORE) send what was taken
 *     feed_leave(feed, &listener);
 *
 * Events are numbered. The buffer has the latest of them, up to a number and to a size. Beyond
 * these a tenant that has the most loses its oldest event (timer/tenant_latest.h); events that all
 * tenants see count as those of one more tenant. A listener is told where an event that it would
 * have seen is missing. If that tenant has no later event in the buffer, all listeners are told.
 * Nothing is kept without a listener, but for FEED_LINGER_MS after the last one has left: it may
 * come back and go on.
 *
 * Outside, an event is named by its number in a cipher, which tells a tenant nothing of how many
 * events others have.
 *
 * Errors     Events for which memory is short are lost, and listeners are told so.
 * Ownership  A listener is the caller's, from feed_listen to feed_leave.
 * Threads    Any. `wake` and `take` are called with the feed locked: they call nothing of it.
 */
#ifndef TICKWHEEL_NODE_FEED_H
#define TICKWHEEL_NODE_FEED_H

#include "base/error.h"
#include "engine/feed_event.h"

#include <stdatomic.h>

enum {
    FEED_EVENTS_MAX = 16384,
    FEED_BYTES_MAX = 16 << 20,      /* of events, in memory */
    FEED_LISTENERS_MAX = 256,       /* at a time */
    FEED_TENANT_LISTENERS_MAX = 64, /* of one tenant */
    FEED_LINGER_MS = 60000,
};

#define FEED_NAME_SIZE 34 /* two numbers in hexadecimal, a dash and the NUL */

struct feed;

struct feed_listener {
    struct list link_;
    struct bytes tenant;                          /* whose events it sees; borrowed */
    void (*wake)(struct feed_listener *listener); /* there is something to read */
    uint64_t next_;                               /* the number of the next event to look at */
    uint64_t whole_; /* No gap at a lower number needs to be reported to it. */
    bool has_lost_;  /* some before it are missing */
};

enum feed_result {
    FEED_ALL,   /* everything was read */
    FEED_MORE,  /* `take` had enough, or enough was looked at: read again */
    FEED_LOST,  /* events are missing here; it goes on behind them */
    FEED_ENDED, /* feed_stop was called */
};

/* NULL when out of memory. */
struct feed *feed_create(void);
void feed_destroy(struct feed *feed);

/* Whether events are wanted: for engine_options.is_watched. */
const atomic_bool *feed_is_watched(const struct feed *feed);

/* Takes events, of struct feed_event, and that `lost` more happened. */
void feed_post(struct feed *feed, struct list *events, uint64_t lost);

/* Tells the listeners, if there are any, of a queue, a target or maintenance
 * (feed_event_create_hold). */
void feed_tell_hold(struct feed *feed, enum feed_kind kind, const struct target_pause *hold,
                    size_t reset_count);

/* Begins to listen: behind the event of that name, or with those to come if it is empty. A name
 * that the feed does not know, or whose next events it has no more, is answered by FEED_LOST at the
 * first read. TOO_MANY listen. */
enum error_code feed_listen(struct feed *feed, struct feed_listener *listener, struct bytes last);
void feed_leave(struct feed *feed, struct feed_listener *listener);

/* Calls `take` with each event of the listener's tenant and its name, oldest first, until it
 * returns false, which leaves that event for the next call. */
enum feed_result feed_read(struct feed *feed, struct feed_listener *listener,
                           bool (*take)(void *context, const struct feed_event *event,
                                        const char *name),
                           void *context);

/* From now on each listener finds the end. */
void feed_stop(struct feed *feed);

size_t feed_listeners(struct feed *feed);

/* For tests: aborts unless every invariant holds. */
void feed_check(struct feed *feed);

#endif
