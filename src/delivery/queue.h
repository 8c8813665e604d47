/*
 * queue.h - the built-in queue: workers that wait for items, and leases of items until a deadline.
 *
 * Ready items lie with the engines (engine/engine.h, engine_pull); a delivery comes here only
 * when a worker asks for it. It is then *leased*: the worker has a receipt, and until the lease
 * ends says what became of it (ack, nack) or asks for more time (extend). When a lease ends without
 * a word, the delivery has failed and is tried again at once; so it is when the answer to a lease
 * is lost.
 *
 *     queue_submit(queue, now, request);           a worker asks; so it goes:
 *     while (queue_wants(queue, &name))
 *         queue_give(queue, now, pull(name));      the first that is ready, or NULL
 *     while ((delivery = queue_take_ended(queue))) hand it to its engine; what the engine records
 *         queue_recorded(queue, delivery);         comes back
 *     while ((request = queue_take_reply(queue)))  answer the worker
 *     ... and call queue_advance at queue_wake_at(queue)
 *
 * Time       Instants, as the caller passes them in. A lease is never shorter than was asked for.
 * Order      Waiting workers are served in order of arrival; a worker that asks again comes last.
 * Errors     Out of memory refuses a request, or lets work wait where it is. Nothing is lost: a
 *            delivery that is here comes out through queue_take_ended exactly once.
 * Ownership  A request is lent until queue_take_reply hands it back; the leases in its answer are
 *            valid until the next call. A delivery that is given is the queue's until it ends.
 * Threads    No clock, no lock, no I/O: one queue, one thread.
 */
#ifndef TICKWHEEL_DELIVERY_QUEUE_H
#define TICKWHEEL_DELIVERY_QUEUE_H

#include "base/time.h"
#include "engine/delivery.h"

/* Identifies a lease: its number, and a proof that the worker got this number, a SipHash-2-4 (64
 * bits) with a key that lives as long as the queue. No other run of the server accepts it. */
struct queue_receipt {
    uint64_t number, proof;
};

/* Bits of `number` in use; the higher ones are the timer's partition, which has the lease. */
#define QUEUE_NUMBER_BITS 48

static inline uint16_t queue_receipt_partition(struct queue_receipt receipt)
{
    return (uint16_t)(receipt.number >> QUEUE_NUMBER_BITS);
}

#define QUEUE_RECEIPT_SIZE 33 /* 32 hexadecimal digits and the NUL */

void queue_receipt_format(struct queue_receipt receipt, char ret_text[QUEUE_RECEIPT_SIZE]);

/* Returns false for everything that queue_receipt_format does not write. */
bool queue_receipt_parse(struct bytes text, struct queue_receipt *ret_receipt);

/* Maximum size of the description of a worker, in bytes. */
#define QUEUE_WORKER_SIZE 96

enum queue_kind {
    QUEUE_LEASE,
    QUEUE_ACK,    /* done: the timer has fired */
    QUEUE_NACK,   /* failed, or ended, as `outcome` says */
    QUEUE_EXTEND, /* the lease ends lease_ms from now */
};

enum queue_verdict {
    QUEUE_OK,      /* for ack and nack: durable */
    QUEUE_STALE,   /* no such lease of this queue: it has ended, or was answered before */
    QUEUE_UNKNOWN, /* the storage failed: the item may come again */
};

struct queue_request {
    struct list link; /* the holder's */
    enum queue_kind kind;
    struct bytes queue; /* full name (queue_target.h); borrowed until the answer */

    /* LEASE */
    uint32_t items_max;        /* 1 .. */
    size_t bytes_max;          /* footprint from which no further item is added */
    struct instant wait_until; /* deadline for an answer without items */
    struct bytes worker;       /* description for queue_find_holder; borrowed until the answer */

    uint64_t lease_ms; /* LEASE, EXTEND */

    /* ACK, NACK, EXTEND: receipts, and the verdict on each. */
    const struct queue_receipt *receipts;
    enum queue_verdict *verdicts;
    size_t receipt_count;
    struct delivery_outcome outcome; /* NACK */

    /* The answer. */
    enum error_code error;       /* NONE or NO_MEMORY */
    const struct list *leases;   /* LEASE: struct queue_lease, in order of arrival */
    struct instant leased_until; /* LEASE: no lease ends earlier */

    /* Private to the queue. */
    struct list leases_;
    size_t items_, bytes_;
    size_t pending_;
    uint64_t wait_timer_;
    bool is_late_;
};

struct queue_lease {
    struct list link;                /* on the list of the answer */
    const struct delivery *delivery; /* with its timer */
    struct queue_receipt receipt;
    /* Private to the queue. */
    struct delivery *delivery_;
    struct line *line_;
    struct queue_request *request_; /* request that waits for its outcome to be recorded, or NULL */
    size_t index_;                  /* index of its verdict */
    uint64_t timer_;
    struct instant begun_;
    uint8_t worker_size_;
    char worker_[QUEUE_WORKER_SIZE];
    uint64_t number_, end_; /* key in the queue's map; tick at which it ends */
};

struct queue_stats {
    uint64_t leased;        /* now */
    uint64_t waiting;       /* workers now */
    uint64_t leases;        /* in all */
    uint64_t acks, nacks;   /* accepted ones */
    uint64_t ended, stales; /* leases that expired; receipts that were refused */
};

struct queue;

#define QUEUE_SECRET_SIZE 16 /* SIPHASH_KEY_SIZE */

/* `secret` is the key of the receipts: random, new each time; copied. Returns NULL if out of
 * memory. */
#define QUEUE_INDEX_MAX 255

/* `index` is unique among queues with one secret: their leases have different numbers, and can
 * move to another queue. */
struct queue *queue_create(const uint8_t secret[QUEUE_SECRET_SIZE], unsigned index,
                           struct instant now);

/* Frees everything, with the deliveries that it has. Unanswered requests are dropped. */
void queue_destroy(struct queue *queue);

/* ---- what happened ---- */

void queue_submit(struct queue *queue, struct instant now, struct queue_request *request);

/* Says that this queue may have something to pull. */
void queue_wake(struct queue *queue, struct bytes name);

/* Takes the delivery pulled for the name that queue_wants returned last; NULL if there was none. */
void queue_give(struct queue *queue, struct instant now, struct delivery *delivery);

/* Time passed. */
void queue_advance(struct queue *queue, struct instant now);

/* Takes a delivery whose outcome is durable, or could not be written: `delivery->recorded`. */
void queue_recorded(struct queue *queue, struct delivery *delivery);

/* Answers all waiting workers without items; later ones do not wait. */
void queue_stop_waiting(struct queue *queue);

/* Ends all leases as if they had never been given; for a stop. */
void queue_return_all(struct queue *queue);

/* Ends the leases of a partition's timers in the same way. */
void queue_return(struct queue *queue, uint16_t partition);

/* ---- what to do ---- */

/* True if a worker waits for work of a queue that may have some. The name is valid until the
 * next call. */
bool queue_wants(struct queue *queue, struct bytes *ret_name);

/* True if the worker whose queue queue_wants named last has an item. */
bool queue_has_given(const struct queue *queue);

struct delivery *queue_take_ended(struct queue *queue);
struct queue_request *queue_take_reply(struct queue *queue);

/* Returns when to call queue_advance next; UINT64_MAX for never. */
struct instant queue_wake_at(const struct queue *queue);

/* ---- questions ---- */

void queue_stats(const struct queue *queue, struct queue_stats *ret_stats);

/* The worker that has leased a timer, and the time of its lease. */
struct queue_holder {
    struct instant since, until;
    struct bytes worker; /* valid until the next call that changes the queue */
};

/* Returns false if it is not leased. */
bool queue_find_holder(const struct queue *queue, const struct timer_id *timer,
                       struct queue_holder *ret_holder);

/* Adds those of another queue. */
void queue_stats_add(struct queue_stats *sum, const struct queue_stats *more);

/* For tests: aborts unless every invariant holds. O(leases and waiting workers). */
void queue_check(const struct queue *queue);

#endif
