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
    FEED_BYTES_MAX = 16 << 20,      /* maximum size of all events in memory */
    FEED_LISTENERS_MAX = 256,       /* maximum of listeners at a time */
    FEED_TENANT_LISTENERS_MAX = 64, /* maximum of them for one tenant */
    FEED_LINGER_MS = 60000,
};

#define FEED_NAME_SIZE 34 /* two numbers in hexadecimal, a dash and the NUL */

struct feed;

struct feed_listener {
    struct list link_;
    /* tenant whose events the listener sees; borrowed */
    struct bytes tenant;
    void (*wake)(struct feed_listener *listener); /* called when there is something to read */
    uint64_t next_;                               /* number of the next event to examine */
    uint64_t whole_; /* Gaps below this number have been reported to the listener. */
    bool has_lost_;  /* events before its first one are missing */
};

enum feed_result {
    FEED_ALL,   /* all events were read */
    FEED_MORE,  /* `take` returned false, or FEED_LOOKS slots were examined: read again */
    FEED_LOST,  /* events are missing here; the next read continues after the gap */
    FEED_ENDED, /* feed_stop was called */
};

/* Returns NULL if out of memory. */
struct feed *feed_create(void);
void feed_destroy(struct feed *feed);

/* True while events are wanted, for engine_options.is_watched. */
const atomic_bool *feed_is_watched(const struct feed *feed);

/* Takes events (struct feed_event), and the number of further events that were lost. */
void feed_post(struct feed *feed, struct list *events, uint64_t lost);

/* Reports a pause, a reset or maintenance to the listeners, if there are any
 * (feed_event_create_hold). */
void feed_tell_hold(struct feed *feed, enum feed_kind kind, const struct target_pause *hold,
                    size_t reset_count);

/* Begins to listen after the event named `last`, or with the next event if `last` is empty. If
 * the feed does not know that name or has dropped the events after it, the first read returns
 * FEED_LOST. Returns TOO_MANY at the limits above. */
enum error_code feed_listen(struct feed *feed, struct feed_listener *listener, struct bytes last);
void feed_leave(struct feed *feed, struct feed_listener *listener);

/* Calls `take` with each event of the listener's tenant and the event's name, oldest first. If
 * `take` returns false, the next call begins with that event again. */
enum feed_result feed_read(struct feed *feed, struct feed_listener *listener,
                           bool (*take)(void *context, const struct feed_event *event,
                                        const char *name),
                           void *context);

/* Ends the feed: every later read returns FEED_ENDED. */
void feed_stop(struct feed *feed);

size_t feed_listeners(struct feed *feed);

/* For tests: aborts unless every invariant holds. */
void feed_check(struct feed *feed);

#endif
