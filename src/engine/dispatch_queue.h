/*
 * dispatch_queue.h - one dispatch queue, and the state of dispatch.h: for the files of that module.
 *
 *   dispatch.c        timers through the queues, deliveries, room in memory
 *   dispatch_name.c   the keys of queues
 *   dispatch_queue.c  one queue: whether it may send now, its alarm
 *   pull.c            built-in queues, which send only on a pull
 *   leases.c          the leases of each tenant, which share a limit
 *   lateness.c        what made a delivery late
 *   survey.c          counts of timers that wait or are in flight, for clients
 *   waiting.c         counts of waiting timers, by tenant and queue; those that a breaker postponed
 *   connections.c     tenants take turns at a broker's connection
 *   dispatch_limits.c the limits of named targets
 *   dispatch_line.c   timers join and leave a queue
 *   flows.c           flows: their places and rates
 *   lanes.c           timers that wait for their flow
 *   order.c           built-in queues in strict order
 *   dispatch_spill.c  timers that are spilled and reloaded
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
    DISPATCH_WEBHOOK, /* a tenant's webhooks to an origin: sends when the budget has a place */
    /* a tenant's messages over a broker connection, within the limit of the connection */
    DISPATCH_BROKER,
    DISPATCH_PULLED,  /* one priority of a built-in queue: sends when a worker pulls */
    DISPATCH_OVERDUE, /* overdue timers, which move to the other queues at catch_up_rate */
    DISPATCH_LANE,    /* timers of one flow and target that wait for the flow (lanes.c) */
    DISPATCH_KIND_COUNT,
};

/* A broker connection. Its limit is shared by the queues of all tenants, which take turns. */
struct dispatch_connection {
    struct budget_claim claim;
    struct list ready; /* queues that could send if the connection had a free place */
    uint64_t key;
    uint32_t queue_count;
    size_t wanted; /* total of `wanted` of the queues in `ready` */
};

/* The leases of one tenant, whose queues share a limit. */
struct dispatch_lessee {
    struct budget_claim claim; /* on `leasing` while it has unused places */
    uint64_t key;              /* hash of the tenant */
    uint32_t queue_count;
    size_t bytes; /* memory of its leased timers */
};

/* A flow of a tenant with timers that run or wait, or whose rate still matters. */
struct dispatch_flow {
    struct budget_claim claim;
    struct list link;  /* on `flows_ready`, `flows_called` or `flows_idle` of the dispatch */
    struct list lanes; /* struct dispatch_queue; the first one is the next to call a timer */
    uint64_t key;
    uint32_t inflight;
    bool is_idle;           /* on `flows_idle` */
    struct wall next_at;    /* earliest time of the next start by the rate; 0 if any */
    struct wall kept_until; /* time from which its past starts do not matter */
};

/* Place of a timer in strict order. */
struct order_mark {
    struct wall due;
    uint64_t serial;
};

/* The limits of a queue's named target. */
struct dispatch_named {
    uint64_t version; /* version of the definition; 0 if it was not looked at, or there is none */
    uint32_t concurrency;   /* 0 if it was not looked at */
    uint64_t rate;          /* as pace.h has it; 0 means unlimited */
    struct wall next_at;    /* earliest time of the next start by the rate; 0 if any */
    struct wall kept_until; /* time from which its past starts do not matter */
    bool has_start;         /* counted a start for a timer that then had to wait for its flow */
};

/* Due timers of one tenant and origin, or of one built-in queue and priority. */
struct dispatch_queue {
    struct list timers; /* entries, in the order in which they are sent */
    /* BROKER: on the connection's list while the queue may send. PULLED: on `woken` until
     * engine_take_woken has returned the queue. LANE: on the list of its flow */
    struct list link;
    struct budget_claim claim;              /* WEBHOOK only */
    struct dispatch_connection *connection; /* BROKER only */
    struct dispatch_lessee *lessee;         /* PULLED only */
    struct dispatch_flow *flow;             /* LANE only, like the next four */
    struct list changed;                    /* on `lanes_changed` */
    struct list *place;                     /* where a timer was last added in due order; or NULL */
    uint64_t target_key;                    /* key of the target's queue */
    uint32_t called;                        /* timers in that queue that this lane called there */
    size_t wanted;                          /* places for all of its timers; 0 if it may not send */
    uint64_t key;
    enum dispatch_kind kind;
    uint32_t inflight;
    size_t count, bytes; /* number of `timers`, and their memory in bytes */
    bool is_mixed;       /* a timer may be due before the first one, as retries join at the end */
    struct spill_backlog backlog;
    /* earliest time of the next delivery, because the target failed; 0 if any */
    struct wall held_until;
    struct wall held_since;
    /* time of the first hold since the target last answered; 0 if it answered since */
    struct wall failing_since;
    struct wall paused_until; /* end of its pause; 0 if it is not paused */
    /* bounds of its last pause that overlapped with waiting timers */
    struct wall pause_began, pause_ended;
    struct dispatch_named named; /* WEBHOOK only */
    struct pace pace;            /* unused if the queue has no rate */
    tw_handle alarm;         /* wakes the queue when it may send or be freed; TW_NONE if not set */
    bool wants_alarm;        /* the alarm is missing because memory ran out */
    enum wait_reason reason; /* why the queue does not send, or that it may */
    struct wall reason_since;
    uint32_t waited_ms[WAIT_SUMMED]; /* total time spent with each reason; wraps at 2^32 */
    bool is_strict;                  /* PULLED: in strict order (order.h), like the next five */
    uint32_t away;                   /* timers that are written, and come back to their place */
    struct list closed;              /* on `closed` of the dispatch when it was last found closed */
    struct order_mark spilled;       /* lower bound of the places of spilled timers */
    struct order_mark spilled_since; /* the same bound for those seen since the scan began */
    uint32_t spilling;               /* spilled timers whose write is not durable */
    uint8_t name_size;
    char name[QUEUE_FULL_NAME_SIZE_MAX]; /* PULLED: full name of the queue */
};

struct dispatch {
    struct map queues; /* key -> dispatch_queue */
    struct budget *budget;
    bool is_budget_own; /* the budget belongs to this engine only */
    struct budget_member member;
    struct list asking;     /* claims that must ask for a new number of places */
    struct list placed;     /* claims with places and timers to send */
    struct map connections; /* key -> dispatch_connection */
    /* webhooks in flight that began while their target was unproven; see shares.h */
    uint32_t unproven;
    struct map lessees;  /* key -> dispatch_lessee, one for each tenant with queues */
    struct list leasing; /* claims of lessees with unused places */
    /* engine_take_woken has returned all queues that could use the places in `leasing` */
    bool is_lease_named;
    struct list woken;
    struct map flows;          /* key -> dispatch_flow */
    struct list lanes_changed; /* lanes that a called timer has left, to be updated */
    struct list flows_ready;   /* flows whose lanes may call a timer */
    struct list flows_called;  /* flows that have a place for a timer which was called */
    struct list
        flows_idle; /* flows kept for their rate only, those that ended first at the front */
    size_t idle_count, idle_max;
    struct list closed;    /* queues in strict order that were found closed */
    bool order_is_known;   /* `spilled` of each queue in strict order is known */
    bool order_was_missed; /* the running scan found a timer whose queue could not be made */
    struct dispatch_queue *overdue; /* the DISPATCH_OVERDUE queue; NULL if there is none */
    bool alarms_wanted;             /* some queue lacks an alarm that it needs */
    size_t queued, queued_bytes;    /* timers of all queues, and their memory */
    size_t catching_up;             /* how many of `queued` are overdue */
    uint32_t inflight;
    uint32_t pulled; /* number of leases and other pulled deliveries, limited by pulled_max */
    size_t pulled_bytes;
    bool pull_refused; /* a pull was refused for want of room since leases_wake_all */
};

/* ---- dispatch_name.c ---- */

/* Identity of a dispatch queue: what its timers have in common. */
struct dispatch_name {
    enum dispatch_kind kind;
    uint64_t key;
    uint64_t tenant;     /* WEBHOOK, PULLED: tenant_key of the tenant that pays for the places */
    uint64_t connection; /* BROKER: key of the connection */
    struct bytes queue;  /* PULLED: full name */
    bool is_strict;      /* PULLED: in strict order */
    uint64_t flow;       /* key of the timer's flow; 0 if it has none */
    uint64_t lane;       /* key of its lane, if it has a flow */
    uint64_t target;     /* LANE: key of the target's queue */
    char room[QUEUE_FULL_NAME_SIZE_MAX]; /* storage of `queue` */
};

void dispatch_name_of(const struct engine *engine, const struct timer *timer,
                      struct dispatch_name *ret_name);

/* Changes the identity of a target's queue to that of the timer's lane. */
void dispatch_name_lane(struct dispatch_name *name);

/* Returns the identity of the queue of overdue timers. dispatch_is_overdue: whether a timer belongs
 * there. */
void dispatch_name_overdue(const struct engine *engine, struct dispatch_name *ret_name);
bool dispatch_is_overdue(const struct engine *engine, const struct timer *timer);

/* Returns the queue with this identity, and makes it if needed. NULL if out of memory. */
struct dispatch_queue *dispatch_queue_get(struct engine *engine, const struct dispatch_name *name);
struct dispatch_queue *dispatch_queue_by_key(const struct engine *engine, uint64_t key);
struct dispatch_queue *dispatch_queue_named(const struct engine *engine, struct bytes queue,
                                            unsigned priority, enum timer_order order);

/* Returns the key of one priority of a built-in queue, by its full name. */
uint64_t dispatch_name_pulled(const struct engine *engine, struct bytes queue, unsigned priority,
                              enum timer_order order);

/* ---- dispatch_queue.c ---- */

/* Returns the queue in which a timer with this identity waits: its lane, if that exists, or the
 * queue of its target, which may not exist. */
struct dispatch_queue *dispatch_queue_where(const struct engine *engine,
                                            const struct dispatch_name *name);

/* Updates the lists and the alarm of a queue after any change, and frees the queue if it is no
 * longer needed. */
void dispatch_queue_update(struct engine *engine, struct dispatch_queue *queue);

/* Returns the memory of its timers, in bytes; 0 if all of them come after a spilled one in strict
 * order. */
size_t dispatch_queue_usable_bytes(const struct dispatch_queue *queue);

/* Adds the time since the last change to the total of the queue's reason, and sets the next
 * reason. */
void dispatch_queue_account(struct engine *engine, struct dispatch_queue *queue,
                            enum wait_reason reason);

/* Returns why the queue's timers wait, and the time at which that may change. WALL_NEVER: it can
 * change only with the next outcome. */
enum wait_reason dispatch_queue_reason(struct engine *engine, struct dispatch_queue *queue,
                                       struct wall *ret_until);

/* Returns why its timers have waited since its last change. What holds the whole engine back comes
 * first. */
enum wait_reason dispatch_reason(const struct engine *engine, const struct dispatch_queue *queue);

/* Returns the claim by which a queue's timers get places; NULL for the queue of overdue timers. */
struct budget_claim *dispatch_claim(struct dispatch_queue *queue);

/* Sets the number of places that the claim wants; dispatch_ask passes it to the budget. */
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

/* Checks whether the queue is paused, or its target was reset. Also called when it gets its first
 * timer. */
void dispatch_queue_look_at_pause(struct engine *engine, struct dispatch_queue *queue);

static inline bool dispatch_queue_is_paused(const struct engine *engine,
                                            const struct dispatch_queue *queue)
{
    return queue->paused_until.ms > engine->now.ms;
}

/* ---- dispatch_limits.c ---- */

/* Applies the limits of the queue's named target, if its definition has changed. Also called when
 * it gets its first timer. */
void dispatch_queue_look_at_limits(const struct engine *engine, struct dispatch_queue *queue);

/* Counts a start in the rate of the named target. Returns false if the rate allows none now. The
 * caller clears `has_start` when the delivery begins. */
bool dispatch_queue_start(const struct engine *engine, struct dispatch_queue *queue);

/* ---- dispatch_queue.c ---- */

/* Returns the rate as pace.h has it; 0 means unlimited. */
uint64_t dispatch_rate(const struct engine_options *options, const struct dispatch_queue *queue);

/* True if the queue's rate delays its next delivery. */
bool dispatch_lacks_pace(struct engine *engine, struct dispatch_queue *queue);

/* Handles the queue's alarm. */
void dispatch_queue_alarm(struct engine *engine, struct dispatch_queue *queue);

/* Sets the alarms that are missing for want of memory. O(queues). */
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

/* Returns the tenant's lessee, and counts a queue that joins it. leases_part: a queue that is
 * freed. Returns NULL if out of memory. */
struct dispatch_lessee *leases_join(struct dispatch *dispatch, uint64_t tenant);
void leases_part(struct dispatch *dispatch, struct dispatch_lessee *lessee);

/* True if the queue's first timer can be leased now: the tenant has a place and leased items have
 * memory left. If there is no place, the claim waits for one. */
bool leases_take_place(struct engine *engine, const struct dispatch_queue *queue);

/* handles a claim that got places */
void leases_placed(struct engine *engine, struct budget_claim *claim);
/* marks the queue for engine_take_woken, because it has a timer */
void leases_wake(struct engine *engine, struct dispatch_queue *queue);
void leases_began(struct engine *engine, struct dispatch_queue *queue, const struct entry *entry);
void leases_ended(struct engine *engine, struct dispatch_queue *queue, const struct entry *entry);

/* Returns why no worker has the first timer: a limit of leases, or no worker asked for it. */
enum wait_reason leases_reason(const struct engine *engine, const struct dispatch_queue *queue);

/* For tests: aborts unless every invariant holds. O(queues). */
void leases_check(const struct engine *engine);

/* ---- connections.c ---- */

/* Returns the connection, and counts a queue that joins it. connections_part: a queue that is
 * freed. Returns NULL if out of memory. */
struct dispatch_connection *connections_join(struct dispatch *dispatch, uint64_t key);
void connections_part(struct dispatch *dispatch, struct dispatch_connection *connection);

/* Records that `wanted` timers of the queue wait only for a place of its connection. Called after
 * each change. */
void connections_want(struct engine *engine, struct dispatch_queue *queue, size_t wanted);

/* Removes and returns the queue that sends next; NULL if none may send. */
struct dispatch_queue *connections_next(struct dispatch_connection *connection);

/* For tests: aborts unless every invariant holds. O(connections and their queues). */
void connections_check(const struct engine *engine);

/* ---- flows.c ---- */

/* Maximum of flows of an engine that are kept only for their rate. */
#define FLOWS_IDLE_MAX 10000

/* Returns the flow, and makes it if needed. The caller adds a lane or a start to it, or calls
 * flows_settle. NULL if out of memory. */
struct dispatch_flow *flows_get(struct dispatch *dispatch, uint64_t key, uint64_t tenant);

/* Frees the flow if nothing of it runs or waits, or keeps it for its rate. */
void flows_settle(struct engine *engine, struct dispatch_flow *flow);

/* Removes a lane from its flow. */
void flows_part(struct engine *engine, struct dispatch_queue *lane);

/* True if the flow has a place for this timer. If all are in use, the flow waits for one. */
bool flows_has_place(struct engine *engine, struct dispatch_flow *flow, const struct timer *timer);

/* Takes a place of the flow for a start of this timer, and counts the start in its rate. Returns
 * false if the limits allow none now. */
bool flows_take_place(struct engine *engine, struct dispatch_flow *flow, const struct timer *timer);

/* Returns when the pause of the timer's flow ends; 0 if it is not paused. */
struct wall flows_paused_until(const struct engine *engine, const struct timer *timer);

/* Returns the flow of a timer that runs or waits; NULL if it does not exist. */
struct dispatch_flow *flows_of(const struct engine *engine, const struct timer *timer);

/* Begins and ends a run of the timer. */
void flows_began(struct engine *engine, struct dispatch_flow *flow, struct entry *entry);
void flows_ended(struct engine *engine, struct entry *entry);

/* Marks the flow if one of its lanes may call a timer. */
void flows_mark(struct engine *engine, struct dispatch_flow *flow);

/* True if the lane has a timer to call, and none of its timers is called. */
bool flows_may_call(const struct engine *engine, const struct dispatch_queue *lane);

/* True if as many timers of the flow run as this one's limit allows. */
bool flows_is_full(const struct engine *engine, const struct dispatch_flow *flow,
                   const struct timer *timer);

/* Frees flows whose rate does not matter any more. O(flows freed). */
void flows_forget(struct engine *engine);

/* Makes all flows compute again when their next timers may start. */
void flows_look_again(struct engine *engine);

void flows_destroy(struct dispatch *dispatch);

/* For tests: aborts unless every invariant holds. O(flows and their lanes). */
void flows_check(const struct engine *engine);

/* ---- waiting.c ---- */

/* Returns why timers wait that a breaker postponed: the breaker, or what holds them back for
 * longer. */
enum wait_reason waiting_postponed_reason(const struct engine *engine,
                                          const struct live_postponed *postponed);

/* True if a breaker holds the timer back although it is in no queue and live.h does not count it as
 * postponed: its outcome is being written, or its delivery is in flight. */
bool waiting_is_postponed(const struct engine *engine, const struct entry *entry);

#endif
