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

/* Names a lease: its number, and a proof that the worker was given this number: its
 * SipHash-2-4 (64 bits), with a key that lives as long as the queue. No other run of the server
 * accepts it. */
struct queue_receipt {
    uint64_t number, proof;
};

/* Bits of `number` that count; those above them are the timer's partition, where the lease is
 * found. */
#define QUEUE_NUMBER_BITS 48

static inline uint16_t queue_receipt_partition(struct queue_receipt receipt)
{
    return (uint16_t)(receipt.number >> QUEUE_NUMBER_BITS);
}

#define QUEUE_RECEIPT_SIZE 33 /* 32 hexadecimal digits and the NUL */

void queue_receipt_format(struct queue_receipt receipt, char ret_text[QUEUE_RECEIPT_SIZE]);

/* False for everything else than what queue_receipt_format writes. */
bool queue_receipt_parse(struct bytes text, struct queue_receipt *ret_receipt);

/* Largest description of a worker, in bytes. */
#define QUEUE_WORKER_SIZE 96

enum queue_kind {
    QUEUE_LEASE,
    QUEUE_ACK,    /* done: the timer has fired */
    QUEUE_NACK,   /* failed, or ended, as `outcome` says */
    QUEUE_EXTEND, /* the lease ends lease_ms from now */
};

enum queue_verdict {
    QUEUE_OK,      /* of ack and nack: it is durable */
    QUEUE_STALE,   /* no such lease of this queue: it has ended, or was answered before */
    QUEUE_UNKNOWN, /* the storage failed: it may come again */
};

struct queue_request {
    struct list link; /* the holder's */
    enum queue_kind kind;
    struct bytes queue; /* its full name (queue_target.h); borrowed until the answer */

    /* LEASE */
    uint32_t items_max; /* 1 .. */
    size_t bytes_max;   /* no further item when those so far have as many bytes of footprint */
    struct instant wait_until; /* when to answer although there is nothing */
    struct bytes worker;       /* its description, for queue_find_holder; borrowed likewise */

    uint64_t lease_ms; /* LEASE, EXTEND */

    /* ACK, NACK, EXTEND: what to speak about, and the answer to each. */
    const struct queue_receipt *receipts;
    enum queue_verdict *verdicts;
    size_t receipt_count;
    struct delivery_outcome outcome; /* NACK */

    /* The answer. */
    enum error_code error;       /* NONE or NO_MEMORY */
    const struct list *leases;   /* LEASE: of struct queue_lease, in the order in which they came */
    struct instant leased_until; /* LEASE: none of them ends before */

    /* The queue's own. */
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
    /* The queue's own. */
    struct delivery *delivery_;
    struct line *line_;
    struct queue_request *request_; /* that waits for its outcome to be recorded, or NULL */
    size_t index_;                  /* of its verdict */
    uint64_t timer_;
    struct instant begun_;
    uint8_t worker_size_;
    char worker_[QUEUE_WORKER_SIZE];
    uint64_t number_, end_; /* the key in the queue's map; the tick at which it ends */
};

struct queue_stats {
    uint64_t leased;        /* now */
    uint64_t waiting;       /* workers now */
    uint64_t leases;        /* in all */
    uint64_t acks, nacks;   /* that were accepted */
    uint64_t ended, stales; /* leases that ended by themselves; receipts that were refused */
};

struct queue;

#define QUEUE_SECRET_SIZE 16 /* SIPHASH_KEY_SIZE */

/* `secret` is the key of the receipts: random, and another one each time; it is copied. NULL when
 * out of memory. */
#define QUEUE_INDEX_MAX 255

/* `index` is unique among queues with one secret: their leases have different numbers, and can
 * change their queue. */
struct queue *queue_create(const uint8_t secret[QUEUE_SECRET_SIZE], unsigned index,
                           struct instant now);

/* Frees all, with the deliveries that are here. Requests that were not answered are forgotten. */
void queue_destroy(struct queue *queue);

/* ---- what happened ---- */

void queue_submit(struct queue *queue, struct instant now, struct queue_request *request);

/* There may be something to pull from this queue. */
void queue_wake(struct queue *queue, struct bytes name);

/* The delivery pulled for the name that queue_wants told last; NULL when there was none. */
void queue_give(struct queue *queue, struct instant now, struct delivery *delivery);

/* Time passed. */
void queue_advance(struct queue *queue, struct instant now);

/* An outcome is durable, or could not be written: `delivery->recorded`. Takes the delivery. */
void queue_recorded(struct queue *queue, struct delivery *delivery);

/* No worker may wait from here on: those that do are answered, with nothing. */
void queue_stop_waiting(struct queue *queue);

/* All leases end, as if they had never been; for a stop. */
void queue_return_all(struct queue *queue);

/* The leases of a partition's timers end likewise. */
void queue_return(struct queue *queue, uint16_t partition);

/* ---- what to do ---- */

/* Whether somebody waits for work of a queue that may have some. The name is valid until the next
 * call. */
bool queue_wants(struct queue *queue, struct bytes *ret_name);

/* Whether the worker whose queue queue_wants named last has an item already. */
bool queue_has_given(const struct queue *queue);

struct delivery *queue_take_ended(struct queue *queue);
struct queue_request *queue_take_reply(struct queue *queue);

/* When to call queue_advance next; UINT64_MAX: never. */
struct instant queue_wake_at(const struct queue *queue);

/* ---- questions ---- */

void queue_stats(const struct queue *queue, struct queue_stats *ret_stats);

/* The worker that has leased a timer, and the time of its lease. */
struct queue_holder {
    struct instant since, until;
    struct bytes worker; /* valid until the next call that changes the queue */
};

/* False if it is not leased. */
bool queue_find_holder(const struct queue *queue, const struct timer_id *timer,
                       struct queue_holder *ret_holder);

/* Adds those of another queue. */
void queue_stats_add(struct queue_stats *sum, const struct queue_stats *more);

/* For tests: aborts unless every invariant holds. O(leases and waiting workers). */
void queue_check(const struct queue *queue);

#endif
