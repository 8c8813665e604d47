/*
 * feed_event.h - a change of a timer, or what holds deliveries back, for the clients that watch.
 *
 * An engine reports changes that are durable, in their order, while engine_options.is_watched is
 * true; otherwise it only checks that flag. After a failed write an event may be missing. The node
 * reports pauses of queues and targets, resets and maintenance (node/feed.h).
 */
#ifndef TICKWHEEL_ENGINE_FEED_EVENT_H
#define TICKWHEEL_ENGINE_FEED_EVENT_H

#include "timer/target_pauses.h"
#include "timer/tenant_latest.h"
#include "timer/timer.h"

/* X(name, text): the texts are those of the API; the kinds of timers come first. */
#define FEED_KIND_LIST(X)                     \
    X(NONE, "")                               \
    X(CREATED, "created")                     \
    X(CHANGED, "changed")                     \
    X(FIRED, "fired")                         \
    X(ACCEPTED, "accepted")                   \
    X(RETRIED, "retried")                     \
    X(FAILED, "failed")                       \
    X(DEAD, "dead")                           \
    X(CANCELLED, "cancelled")                 \
    X(PAUSED, "paused")                       \
    X(RESUMED, "resumed")                     \
    X(REDRIVEN, "redriven")                   \
    X(DELETED, "deleted")                     \
    X(QUEUE_PAUSED, "queue-paused")           \
    X(QUEUE_RESUMED, "queue-resumed")         \
    X(TARGET_PAUSED, "target-paused")         \
    X(TARGET_RESUMED, "target-resumed")       \
    X(TARGET_RESET, "target-reset")           \
    X(MAINTENANCE_BEGUN, "maintenance-begun") \
    X(MAINTENANCE_ENDED, "maintenance-ended")

enum feed_kind {
#define X(name, text) FEED_##name,
    FEED_KIND_LIST(X)
#undef X
        FEED_KIND_COUNT
};

const char *feed_kind_text(enum feed_kind kind);

struct feed_event {
    struct list link; /* list of whoever holds the event */
    enum feed_kind kind;
    struct wall at; /* time at which the engine learned that the change is durable */
    /* copy without content: names, labels, target, last error; NULL if the event is not about a
     * timer */
    struct timer *timer;
    /* If `timer` is NULL: the tenant, the name of the queue or target, and the details of a pause.
     * The event owns the texts. */
    struct target_pause hold;
    size_t reset_count; /* reset of a target: number of breakers that had failures */
    /* Private to the feed. */
    uint64_t number_;
    /* if the same tenant's previous event was dropped, 1 + its number; otherwise 0 */
    uint64_t lost_;
    struct tenant_latest_place place_;
};

/* Makes an event with a copy of the timer; the caller destroys it. Returns NULL if out of
 * memory. */
struct feed_event *feed_event_create(enum feed_kind kind, struct wall at,
                                     const struct timer *timer);
struct feed_event *feed_event_create_hold(enum feed_kind kind, struct wall at,
                                          const struct target_pause *hold, size_t reset_count);
void feed_event_destroy(struct feed_event *event);

/* Returns the tenant that may see the event. "*", which is no tenant's name, means all of them. */
struct bytes feed_event_reader(const struct feed_event *event);

/* True if the tenant may see the event. */
bool feed_event_is_of(const struct feed_event *event, struct bytes tenant);

/* Returns the memory of the event in bytes. */
size_t feed_event_bytes(const struct feed_event *event);

#endif
