/*
 * queue.h - the built-in queue: workers that wait for items, and leases of items until a deadline.
 *
 * Ready items wait in the engines (engine/engine.h, engine_pull). A delivery is pulled from there
 * only when a worker asks for it. It is then *leased*: the worker gets a receipt. Before the lease
 * ends, the worker reports the outcome (ack, nack) or asks for more time (extend). If a lease
 * expires without a report, for example because the worker never got the answer, the delivery has
 * failed and is tried again at once.
 *
 *     queue_submit(queue, now, request);           a worker asks
 *     while (queue_wants(queue, &name))
 *         queue_give(queue, now, pull(name));      the first ready item, or NULL
 *     while ((delivery = queue_take_ended(queue))) hand it to its engine, and when its outcome
 *         queue_recorded(queue, delivery);         is recorded, return it
 *     while ((request = queue_take_reply(queue)))  answer the worker
 *     ... and call queue_advance at queue_wake_at(queue)
 *
 * Time       Instants, passed in by the caller. A lease is never shorter than was asked for.
 * Order      Waiting workers are served in order of arrival; a worker that asks again is the last.
 * Errors     If memory is out, a request is refused, or items stay in the engine. Nothing is lost:
 *            queue_take_ended returns each delivery of the queue exactly once.
 * Ownership  A request is lent until queue_take_reply hands it back; the leases in its answer are
 *            valid until the next call. The queue owns a delivery until queue_take_ended.
 * Threads    No clock, no lock, no I/O: one queue, one thread.
 */
#ifndef TICKWHEEL_DELIVERY_QUEUE_H
#define TICKWHEEL_DELIVERY_QUEUE_H

#include "base/time.h"
#include "engine/delivery.h"

/* Identifies a lease. `number` is that of the lease. `proof` shows that the worker received the
 * number: its SipHash-2-4 (64 bits) with the queue's key, which is new at each start of the server.
 * So receipts of an earlier run are refused. */
struct queue_receipt {
    uint64_t number, proof;
};

/* Bits of `number` that count leases. The higher bits are the partition of the timer, which finds
 * the lease again. */
#define QUEUE_NUMBER_BITS 48

static inline uint16_t queue_receipt_partition(struct queue_receipt receipt)
{
    return (uint16_t)(receipt.number >> QUEUE_NUMBER_BITS);
}

#define QUEUE_RECEIPT_SIZE 33 /* 32 hexadecimal digits and the NUL */

void queue_receipt_format(struct queue_receipt receipt, char ret_text[QUEUE_RECEIPT_SIZE]);

/* Returns false for any text that queue_receipt_format would not write. */
bool queue_receipt_parse(struct bytes text, struct queue_receipt *ret_receipt);

/* Maximum size of the description of a worker, in bytes. */
#define QUEUE_WORKER_SIZE 96

enum queue_kind {
    QUEUE_LEASE,
    QUEUE_ACK,    /* the timer has fired */
    QUEUE_NACK,   /* the timer has failed or ended, as `outcome` says */
    QUEUE_EXTEND, /* the lease is to end lease_ms from now */
};

enum queue_verdict {
    QUEUE_OK,      /* accepted; the outcome of an ack or nack is durable */
    QUEUE_STALE,   /* no such lease of this queue exists; it has ended, or was answered before */
    QUEUE_UNKNOWN, /* the storage failed, so the item may be leased again */
};

struct queue_request {
    struct list link; /* list of whoever holds the request */
    enum queue_kind kind;
    struct bytes queue; /* full name (queue_target.h); borrowed until the answer */

    /* Fields of LEASE. */
    uint32_t items_max;        /* maximum of items, at least 1 */
    size_t bytes_max;          /* memory of items from which no further item is added */
    struct instant wait_until; /* latest time of an answer without items */
    struct bytes worker;       /* description for queue_find_holder; borrowed until the answer */

    uint64_t lease_ms; /* LEASE, EXTEND: duration of the lease */

    /* ACK, NACK, EXTEND: the receipts, and the verdict on each. */
    const struct queue_receipt *receipts;
    enum queue_verdict *verdicts;
    size_t receipt_count;
    struct delivery_outcome outcome; /* outcome of a NACK */

    /* The answer. */
    enum error_code error; /* NONE or NO_MEMORY */
    /* LEASE: list of struct queue_lease, in the order in which they began */
    const struct list *leases;
    struct instant leased_until; /* LEASE: earliest end of the leases */

    /* Private to the queue. */
    struct list leases_;
    size_t items_, bytes_;
    size_t pending_;
    uint64_t wait_timer_;
    bool is_late_;
};

struct queue_lease {
    struct list link;                /* on the list of the answer */
    const struct delivery *delivery; /* includes the timer */
    struct queue_receipt receipt;
    /* Private to the queue. */
    struct delivery *delivery_;
    struct line *line_;
    /* request to be answered when the outcome is recorded; NULL if none waits */
    struct queue_request *request_;
    size_t index_; /* index of the lease's verdict in that request */
    uint64_t timer_;
    struct instant begun_;
    uint8_t worker_size_;
    char worker_[QUEUE_WORKER_SIZE];
    uint64_t number_, end_; /* key in `leases`; tick at which the lease ends */
};

struct queue_stats {
    uint64_t leased;        /* leases at present */
    uint64_t waiting;       /* workers that wait at present */
    uint64_t leases;        /* number of leases begun */
    uint64_t acks, nacks;   /* number of accepted acks and nacks */
    uint64_t ended, stales; /* number of leases that expired; number of refused receipts */
};

struct queue;

#define QUEUE_SECRET_SIZE 16 /* equal to SIPHASH_KEY_SIZE */

/* `secret` is the key of the receipts, random and new at each start. It is copied. Returns NULL if
 * out of memory. */
#define QUEUE_INDEX_MAX 255

/* Makes a queue. `index` is unique among queues with the same secret, so that their leases have
 * different numbers and can move to another queue. */
struct queue *queue_create(const uint8_t secret[QUEUE_SECRET_SIZE], unsigned index,
                           struct instant now);

/* Frees the queue with the deliveries that it has. Requests without an answer are dropped. */
void queue_destroy(struct queue *queue);

/* ---- what happened ---- */

void queue_submit(struct queue *queue, struct instant now, struct queue_request *request);

/* Ends the lease of a timer as if its time were over, and returns the delivery with its outcome;
 * NULL if no worker has leased the timer. */
struct delivery *queue_release(struct queue *queue, const struct timer_id *timer);

/* Notes that the queue of this name may have something to pull. */
void queue_wake(struct queue *queue, struct bytes name);

/* Takes the delivery that was pulled for the name that queue_wants returned last; NULL if there was
 * nothing to pull. */
void queue_give(struct queue *queue, struct instant now, struct delivery *delivery);

/* Ends the leases and waits whose time is over by `now`. */
void queue_advance(struct queue *queue, struct instant now);

/* Takes back a delivery whose outcome is durable, or could not be written: `delivery->recorded`. */
void queue_recorded(struct queue *queue, struct delivery *delivery);

/* Answers all waiting workers without items. Workers that ask later are answered at once. */
void queue_stop_waiting(struct queue *queue);

/* Ends all leases as if they had never been given; for a stop. */
void queue_return_all(struct queue *queue);

/* Ends the leases of a partition's timers as if they had never been given. */
void queue_return(struct queue *queue, uint16_t partition);

/* ---- what to do ---- */

/* True if a worker waits at a queue that may have something to pull. The name is valid until the
 * next call. */
bool queue_wants(struct queue *queue, struct bytes *ret_name);

/* True if the worker that is first in the queue named by queue_wants has an item already. */
bool queue_has_given(const struct queue *queue);

struct delivery *queue_take_ended(struct queue *queue);
struct queue_request *queue_take_reply(struct queue *queue);

/* Returns when to call queue_advance next; UINT64_MAX ns if no lease or wait has an end. */
struct instant queue_wake_at(const struct queue *queue);

/* ---- questions ---- */

void queue_stats(const struct queue *queue, struct queue_stats *ret_stats);

/* The worker that has leased a timer, and the time of its lease. */
struct queue_holder {
    struct instant since, until;
    struct bytes worker; /* valid until the next call that changes the queue */
};

/* Finds the worker that has leased the timer. Returns false if no worker has. */
bool queue_find_holder(const struct queue *queue, const struct timer_id *timer,
                       struct queue_holder *ret_holder);

/* Adds the statistics of another queue. */
void queue_stats_add(struct queue_stats *sum, const struct queue_stats *more);

/* For tests: aborts unless every invariant holds. O(leases and waiting workers). */
void queue_check(const struct queue *queue);

#endif
