/*
 * dispatch_queue.h - one dispatch queue, and the state of dispatch.h: for the files of that module.
 *
 *   dispatch.c        timers through the queues, deliveries, room in memory
 *   dispatch_queue.c  one queue: its key, whether it may send now, its alarm
 *   leases.c          built-in queues, which send only on a pull
 *   lateness.c        what made a delivery late
 *   survey.c          counts of timers that wait or are in flight, for clients
 *   waiting.c         counts of waiting timers, by tenant and queue
 *   connections.c     tenants take turns at a broker's connection
 *
 * The places in flight are those of budget.h, which the engine may share with others.
 */
#ifndef TICKWHEEL_ENGINE_DISPATCH_QUEUE_H
#define TICKWHEEL_ENGINE_DISPATCH_QUEUE_H

#include "base/map.h"
#include "engine/budget.h"
#include "engine/dispatch.h"
#include "engine/engine_core.h"
#include "engine/pace.h"
#include "tickwheel/wheel.h"
#include "timer/queue_target.h"

/* What a dispatch queue is of. */
enum dispatch_kind {
    DISPATCH_WEBHOOK, /* a tenant's webhooks to an origin: sends whenever it has room */
    DISPATCH_BROKER,  /* a tenant's, to a connection of a broker: likewise, within its limit */
    DISPATCH_PULLED,  /* one priority of a built-in queue: sends when asked */
    DISPATCH_OVERDUE, /* holds back overdue timers, which go to other queues by its rate */
    DISPATCH_KIND_COUNT,
};

/* A connection of a broker. Its limit is one for the queues of all tenants, which take turns. */
struct dispatch_connection {
    struct budget_claim claim;
    struct list ready; /* queues that may send but for its limit */
    uint64_t key;
    uint32_t queue_count;
    size_t wanted; /* timers of `ready` */
};

/* The leases of one tenant: its queues share their limit. */
struct dispatch_lessee {
    struct budget_claim claim; /* on `leasing` while it has a place that is not in use */
    uint64_t key;              /* hash of the tenant */
    uint32_t queue_count;
    size_t bytes; /* memory of its leased timers */
};

/* Due timers of one tenant and origin, or one built-in queue and priority. */
struct dispatch_queue {
    struct list timers; /* entries, first due first */
    struct list link;   /* BROKER: on the list of its connection while it may send; PULLED: on
                           `woken` until it is named as having timers */
    struct budget_claim claim;              /* WEBHOOK */
    struct dispatch_connection *connection; /* BROKER */
    struct dispatch_lessee *lessee;         /* PULLED */
    size_t wanted;                          /* places, for all of its timers; 0: it may not send */
    uint64_t key;
    enum dispatch_kind kind;
    uint32_t inflight;
    size_t count, bytes; /* of `timers` */
    struct spill_backlog backlog;
    struct wall held_until; /* it sends nothing before: its target is to be left alone */
    struct wall held_since;
    struct wall failing_since; /* of its first hold since its target answered last; 0: none */
    struct wall paused_until;  /* likewise, while it is paused; 0: it is not */
    struct wall pause_began, pause_ended; /* of its last pause, as far as it had timers then */
    struct pace pace;                     /* if it has a rate */
    tw_handle alarm;         /* in the wheel: when it may send again, or go; or TW_NONE */
    bool wants_alarm;        /* there was no memory for one */
    enum wait_reason reason; /* why it does not send, or it does */
    struct wall reason_since;
    uint32_t waited_ms[WAIT_SUMMED]; /* how long that was so, by reason; modulo 2^32 */
    uint8_t name_size;
    char name[QUEUE_FULL_NAME_SIZE_MAX]; /* PULLED: its full name */
};

struct dispatch {
    struct map queues; /* key -> dispatch_queue */
    struct budget *budget;
    bool is_budget_own; /* it is for this engine alone */
    struct budget_member member;
    struct list asking;     /* claims that are to ask for other places than they did */
    struct list placed;     /* claims that have places for what may be sent */
    struct map connections; /* key -> dispatch_connection */
    uint32_t unproven;      /* webhooks in flight that began while their target was */
    struct map lessees;     /* key -> dispatch_lessee */
    struct list leasing;    /* claims of lessees that have places which are not in use */
    bool is_lease_named;    /* the queues that the places of `leasing` are for were named */
    struct list woken;
    struct dispatch_queue *overdue; /* the queue of that kind, or NULL */
    bool alarms_wanted;             /* some queue wants an alarm and has none */
    size_t queued, queued_bytes;    /* timers of all queues */
    size_t catching_up;             /* of those, the overdue */
    uint32_t inflight;
    uint32_t pulled; /* of them, what pulled_max bounds */
    size_t pulled_bytes;
    bool pull_refused; /* since there was room last */
};

/* ---- dispatch_queue.c ---- */

/* What a target's queue goes by. */
struct dispatch_name {
    enum dispatch_kind kind;
    uint64_t key;
    uint64_t tenant;                     /* WEBHOOK, PULLED: of its shares */
    uint64_t connection;                 /* BROKER */
    struct bytes queue;                  /* PULLED: its full name */
    char room[QUEUE_FULL_NAME_SIZE_MAX]; /* of the name */
};

void dispatch_name_of(const struct engine *engine, const struct timer *timer,
                      struct dispatch_name *ret_name);

/* The name of the queue of overdue timers; and whether a timer belongs there. */
void dispatch_name_overdue(const struct engine *engine, struct dispatch_name *ret_name);
bool dispatch_is_overdue(const struct engine *engine, const struct timer *timer);

/* The queue of that name, made unless it is there. NULL when out of memory. */
struct dispatch_queue *dispatch_queue_get(struct engine *engine, const struct dispatch_name *name);
struct dispatch_queue *dispatch_queue_by_key(const struct engine *engine, uint64_t key);
struct dispatch_queue *dispatch_queue_named(const struct engine *engine, struct bytes queue,
                                            unsigned priority);

/* To be called whenever a queue has changed: brings it onto or off its lists, sets its alarm, frees
 * it when it is of no use. */
void dispatch_queue_update(struct engine *engine, struct dispatch_queue *queue);

/* Adds the time since the last change to the sum of its reason. */
void dispatch_queue_account(struct engine *engine, struct dispatch_queue *queue,
                            enum wait_reason reason);

/* Why its timers wait, and when that may change; WALL_NEVER: with the next outcome. */
enum wait_reason dispatch_queue_reason(struct engine *engine, struct dispatch_queue *queue,
                                       struct wall *ret_until);

/* The claim by which the timers of a queue get places; NULL of the overdue. */
struct budget_claim *dispatch_claim(struct dispatch_queue *queue);

/* The claim is to have `wanted` places. */
void dispatch_want(struct dispatch *dispatch, struct budget_claim *claim, size_t wanted);

/* Looks up whether the queue is paused, or was reset; to be called when it gets its first timer,
 * too. */
void dispatch_queue_look_at_pause(struct engine *engine, struct dispatch_queue *queue);

static inline bool dispatch_queue_is_paused(const struct engine *engine,
                                            const struct dispatch_queue *queue)
{
    return queue->paused_until.ms > engine->now.ms;
}

/* In thousandths of a delivery a second; 0: no limit. */
uint64_t dispatch_rate(const struct engine_options *options, const struct dispatch_queue *queue);

/* Whether its rate keeps it from sending now. */
bool dispatch_lacks_pace(struct engine *engine, struct dispatch_queue *queue);

/* Its alarm has gone off. */
void dispatch_queue_alarm(struct engine *engine, struct dispatch_queue *queue);

/* Lets the queues that want an alarm be looked at again. O(queues). */
void dispatch_set_alarms(struct engine *engine);

static inline struct dispatch_queue *dispatch_next(const struct engine *engine, size_t *cursor)
{
    return map_next(&engine->dispatch->queues, cursor);
}

static inline struct entry *dispatch_first(const struct dispatch_queue *queue)
{
    return list_is_empty(&queue->timers) ? NULL : entry_of(queue->timers.next);
}

/* ---- dispatch.c ---- */

/* Begins to deliver the queue's first timer, or drops it when it is too late: then *ret_delivery is
 * NULL. False when out of memory. The queue may be freed. */
bool dispatch_deliver(struct engine *engine, struct dispatch_queue *queue,
                      struct delivery **ret_delivery);

/* ---- leases.c ---- */

/* A queue of the tenant is made, or freed. leases_join returns NULL if out of memory. */
struct dispatch_lessee *leases_join(struct dispatch *dispatch, uint64_t tenant);
void leases_part(struct dispatch *dispatch, struct dispatch_lessee *lessee);

void leases_placed(struct engine *engine, struct budget_claim *claim); /* it has got a place */
void leases_wake(struct engine *engine, struct dispatch_queue *queue); /* it has a timer */
void leases_began(struct engine *engine, struct dispatch_queue *queue, const struct entry *entry);
void leases_ended(struct engine *engine, struct dispatch_queue *queue, const struct entry *entry);

/* Returns why no worker has the first timer: a limit of leases, or none has asked for it. */
enum wait_reason leases_reason(const struct engine *engine, const struct dispatch_queue *queue);

/* For tests: aborts unless every invariant holds. O(queues). */
void leases_check(const struct engine *engine);

/* ---- connections.c ---- */

/* A queue of the connection is made, or freed. NULL when out of memory. */
struct dispatch_connection *connections_join(struct dispatch *dispatch, uint64_t key);
void connections_part(struct dispatch *dispatch, struct dispatch_connection *connection);

/* `wanted` timers of the queue may be sent but for the limit of its connection; to be called
 * whenever that has changed. */
void connections_want(struct engine *engine, struct dispatch_queue *queue, size_t wanted);

/* Takes the queue that sends next off its list; NULL when none may. */
struct dispatch_queue *connections_next(struct dispatch_connection *connection);

/* For tests: aborts unless every invariant holds. O(connections and their queues). */
void connections_check(const struct engine *engine);

/* ---- lateness.c ---- */

/* A delivery begins: what made it late is kept, and returned. */
void lateness_of_delivery(struct engine *engine, const struct dispatch_queue *queue,
                          const struct entry *entry, struct lateness *ret_lateness);

#endif
