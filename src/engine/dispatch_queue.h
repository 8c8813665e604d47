/*
 * dispatch_queue.h - one dispatch queue, and the state of dispatch.h: for the files of that module.
 *
 *   dispatch.c        timers through the queues, deliveries, room in memory
 *   dispatch_queue.c  one queue: its key, whether it may send now, its alarm
 *   pull.c            built-in queues, which send only on a pull
 *   leases.c          the leases of each tenant, which share a limit
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

#include <assert.h>

/* Kind of a dispatch queue. */
enum dispatch_kind {
    DISPATCH_WEBHOOK, /* a tenant's webhooks to an origin: sends when it has room */
    DISPATCH_BROKER,  /* a tenant's messages to a broker connection, within its limit */
    DISPATCH_PULLED,  /* one priority of a built-in queue: sends when asked */
    DISPATCH_OVERDUE, /* overdue timers, which move to other queues at a rate */
    DISPATCH_KIND_COUNT,
};

/* A broker connection. Its limit is shared by the queues of all tenants, which take turns. */
struct dispatch_connection {
    struct budget_claim claim;
    struct list ready; /* queues that only wait for its limit */
    uint64_t key;
    uint32_t queue_count;
    size_t wanted; /* number of timers of `ready` */
};

/* The leases of one tenant, whose queues share a limit. */
struct dispatch_lessee {
    struct budget_claim claim; /* on `leasing` while it has an unused place */
    uint64_t key;              /* hash of the tenant */
    uint32_t queue_count;
    size_t bytes; /* memory of its leased timers */
};

/* Due timers of one tenant and origin, or of one built-in queue and priority. */
struct dispatch_queue {
    struct list timers; /* entries, earliest due time first */
    /* BROKER: on its connection's list while it may send; PULLED: on `woken` until it is named */
    struct list link;
    struct budget_claim claim;              /* WEBHOOK */
    struct dispatch_connection *connection; /* BROKER */
    struct dispatch_lessee *lessee;         /* PULLED */
    size_t wanted;                          /* places for all of its timers; 0 if it may not send */
    uint64_t key;
    enum dispatch_kind kind;
    uint32_t inflight;
    size_t count, bytes; /* of `timers` */
    struct spill_backlog backlog;
    /* earliest time at which it sends again, because its target is left alone */
    struct wall held_until;
    struct wall held_since;
    struct wall failing_since;            /* first hold since its target answered last; 0 if none */
    struct wall paused_until;             /* end of its pause; 0 if it is not paused */
    struct wall pause_began, pause_ended; /* its last pause, while it had timers */
    struct pace pace;                     /* valid if it has a rate */
    tw_handle alarm;         /* alarm in the wheel for when it may send or be freed; or TW_NONE */
    bool wants_alarm;        /* whether its alarm could not be set for want of memory */
    enum wait_reason reason; /* reason why it does not send, or that it does */
    struct wall reason_since;
    uint32_t waited_ms[WAIT_SUMMED]; /* time spent with each reason; modulo 2^32 */
    uint8_t name_size;
    char name[QUEUE_FULL_NAME_SIZE_MAX]; /* PULLED: full name */
};

struct dispatch {
    struct map queues; /* key -> dispatch_queue */
    struct budget *budget;
    bool is_budget_own; /* whether the budget belongs to this engine only */
    struct budget_member member;
    struct list asking;     /* claims that must ask for a new number of places */
    struct list placed;     /* claims with places and timers to send */
    struct map connections; /* key -> dispatch_connection */
    uint32_t unproven;      /* webhooks in flight that began while their target was unproven */
    struct map lessees;     /* key -> dispatch_lessee */
    struct list leasing;    /* claims of lessees with unused places */
    bool is_lease_named;    /* whether the queues for the places of `leasing` were named */
    struct list woken;
    struct dispatch_queue *overdue; /* queue of that kind, or NULL */
    bool alarms_wanted;             /* whether a queue lacks an alarm that it wants */
    size_t queued, queued_bytes;    /* timers of all queues, and their memory */
    size_t catching_up;             /* overdue timers among them */
    uint32_t inflight;
    uint32_t pulled; /* deliveries bounded by pulled_max */
    size_t pulled_bytes;
    bool pull_refused; /* whether a pull was refused since there was room */
};

/* ---- dispatch_queue.c ---- */

/* Name of a target's queue. */
struct dispatch_name {
    enum dispatch_kind kind;
    uint64_t key;
    uint64_t tenant;                     /* WEBHOOK, PULLED: tenant of its shares */
    uint64_t connection;                 /* BROKER */
    struct bytes queue;                  /* PULLED: full name */
    char room[QUEUE_FULL_NAME_SIZE_MAX]; /* memory of the name */
};

void dispatch_name_of(const struct engine *engine, const struct timer *timer,
                      struct dispatch_name *ret_name);

/* Returns the name of the queue of overdue timers. dispatch_is_overdue: whether a timer belongs
 * to it. */
void dispatch_name_overdue(const struct engine *engine, struct dispatch_name *ret_name);
bool dispatch_is_overdue(const struct engine *engine, const struct timer *timer);

/* Returns the queue of that name, and makes it if needed. NULL if out of memory. */
struct dispatch_queue *dispatch_queue_get(struct engine *engine, const struct dispatch_name *name);
struct dispatch_queue *dispatch_queue_by_key(const struct engine *engine, uint64_t key);
struct dispatch_queue *dispatch_queue_named(const struct engine *engine, struct bytes queue,
                                            unsigned priority);

/* Updates the lists and the alarm of a queue after any change, and frees it if it is of no use. */
void dispatch_queue_update(struct engine *engine, struct dispatch_queue *queue);

/* Adds the time since the last change to the sum of its reason. */
void dispatch_queue_account(struct engine *engine, struct dispatch_queue *queue,
                            enum wait_reason reason);

/* Returns why its timers wait, and when that may change; WALL_NEVER: with the next outcome. */
enum wait_reason dispatch_queue_reason(struct engine *engine, struct dispatch_queue *queue,
                                       struct wall *ret_until);

/* Returns the claim by which a queue's timers get places; NULL for overdue ones. */
struct budget_claim *dispatch_claim(struct dispatch_queue *queue);

/* Sets the number of places that the claim shall have. */
static inline void dispatch_want(struct dispatch *dispatch, struct budget_claim *claim,
                                 size_t wanted)
{
    const bool is_listed = !list_is_empty(&claim->link);

    assert(claim->kind != BUDGET_LEASES);
    if (wanted != claim->asked && !is_listed)
        list_push(&dispatch->asking, &claim->link);
    else if (wanted == claim->asked && budget_has_place(claim) && !is_listed)
        list_push(&dispatch->placed, &claim->link);
    else if (wanted == claim->asked && !budget_has_place(claim))
        list_remove(&claim->link);
}

/* Checks whether the queue is paused or was reset. Also called for its first timer. */
void dispatch_queue_look_at_pause(struct engine *engine, struct dispatch_queue *queue);

static inline bool dispatch_queue_is_paused(const struct engine *engine,
                                            const struct dispatch_queue *queue)
{
    return queue->paused_until.ms > engine->now.ms;
}

/* Returns the rate in thousandths of a delivery a second; 0 if unlimited. */
uint64_t dispatch_rate(const struct engine_options *options, const struct dispatch_queue *queue);

/* True if its rate keeps it from sending now. */
bool dispatch_lacks_pace(struct engine *engine, struct dispatch_queue *queue);

/* Handles its alarm. */
void dispatch_queue_alarm(struct engine *engine, struct dispatch_queue *queue);

/* Sets the missing alarms of queues. O(queues). */
void dispatch_set_alarms(struct engine *engine);

static inline struct dispatch_queue *dispatch_next(const struct engine *engine, size_t *cursor)
{
    return map_next(&engine->dispatch->queues, cursor);
}

static inline struct entry *dispatch_first(const struct dispatch_queue *queue)
{
    return list_is_empty(&queue->timers) ? NULL : entry_of(queue->timers.next);
}

/* ---- leases.c ---- */

/* Counts a new queue of the tenant; leases_part: one that is freed. Returns NULL if out of
 * memory. */
struct dispatch_lessee *leases_join(struct dispatch *dispatch, uint64_t tenant);
void leases_part(struct dispatch *dispatch, struct dispatch_lessee *lessee);

/* Has a place for the queue's first timer, of the tenant's and in memory. False if it waits for one
 * now. */
bool leases_take_place(struct engine *engine, const struct dispatch_queue *queue);

void leases_placed(struct engine *engine, struct budget_claim *claim); /* it has got a place */
void leases_wake(struct engine *engine, struct dispatch_queue *queue); /* it has a timer */
void leases_began(struct engine *engine, struct dispatch_queue *queue, const struct entry *entry);
void leases_ended(struct engine *engine, struct dispatch_queue *queue, const struct entry *entry);

/* Returns why no worker has the first timer: a limit of leases, or no worker asked for it. */
enum wait_reason leases_reason(const struct engine *engine, const struct dispatch_queue *queue);

/* For tests: aborts unless every invariant holds. O(queues). */
void leases_check(const struct engine *engine);

/* ---- connections.c ---- */

/* Counts a new queue of the connection; connections_part: one that is freed. Returns NULL if
 * out of memory. */
struct dispatch_connection *connections_join(struct dispatch *dispatch, uint64_t key);
void connections_part(struct dispatch *dispatch, struct dispatch_connection *connection);

/* Notes that `wanted` timers of the queue wait only for the limit of its connection. Called
 * after each change. */
void connections_want(struct engine *engine, struct dispatch_queue *queue, size_t wanted);

/* Removes the queue that sends next from its list; NULL if none may. */
struct dispatch_queue *connections_next(struct dispatch_connection *connection);

/* For tests: aborts unless every invariant holds. O(connections and their queues). */
void connections_check(const struct engine *engine);

#endif
