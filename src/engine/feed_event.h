/*
 * feed_event.h - a change of a timer, for the clients that watch.
 *
 * An engine tells of changes that are durable, in their order, while engine_options.is_watched is
 * true; otherwise it costs the look at that flag. After a failed write an event may be missing.
 */
#ifndef TICKWHEEL_ENGINE_FEED_EVENT_H
#define TICKWHEEL_ENGINE_FEED_EVENT_H

#include "timer/timer.h"

/* X(name, text): the words of the API. */
#define FEED_KIND_LIST(X)     \
    X(NONE, "")               \
    X(CREATED, "created")     \
    X(CHANGED, "changed")     \
    X(FIRED, "fired")         \
    X(RETRIED, "retried")     \
    X(FAILED, "failed")       \
    X(DEAD, "dead")           \
    X(CANCELLED, "cancelled") \
    X(PAUSED, "paused")       \
    X(RESUMED, "resumed")     \
    X(REDRIVEN, "redriven")   \
    X(DELETED, "deleted")

enum feed_kind {
#define X(name, text) FEED_##name,
    FEED_KIND_LIST(X)
#undef X
        FEED_KIND_COUNT
};

const char *feed_kind_text(enum feed_kind kind);

struct feed_event {
    struct list link; /* the holder's */
    enum feed_kind kind;
    struct wall at;      /* when the engine knew that it was durable */
    struct timer *timer; /* a copy without its content: names, labels, target, last error */
};

/* The caller's to destroy; NULL when out of memory. */
struct feed_event *feed_event_create(enum feed_kind kind, struct wall at,
                                     const struct timer *timer);
void feed_event_destroy(struct feed_event *event);

/* The memory that it takes. */
size_t feed_event_bytes(const struct feed_event *event);

#endif
