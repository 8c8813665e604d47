/*
 * name.h - the names by which a timer is found other than by its id.
 *
 * A name is stored as its hash, in one entry for each timer that has it, the newest first: an entry
 * says which timers to look at, and the timer itself whether it is meant. So a collision costs a
 * look and never a wrong answer. Each tenant has names of its own.
 *
 *   KEY      what the client called it. Its entry stays after the timer is over, as long as that is
 *            answered with its final state.
 *   REQUEST  the Idempotency-Key of its creation, within its key if it has one. Stays like a key.
 *            A timer with a key has a claim too: a row without a target, final from its creation,
 *            in the partition of the Idempotency-Key. There a request with another key, or
 *            without one, finds that the Idempotency-Key belongs to another request.
 *   WATCH    one event that it waits for. Its entry goes when the timer is over.
 *
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_TIMER_NAME_H
#define TICKWHEEL_TIMER_NAME_H

#include "timer/timer.h"

/* Kinds of names. Their order is part of the format on disk. */
enum name_kind {
    NAME_KEY,
    NAME_REQUEST,
    NAME_WATCH,
};

/* size of the hexadecimal fingerprint that precedes the Idempotency-Key in timer_texts.request */
#define NAME_FINGERPRINT_SIZE 16

/* Names are unique within a tenant and a partition. */
struct name_space {
    uint16_t partition;
    struct bytes tenant;
};

static inline struct name_space name_space_of(const struct timer *timer)
{
    return (struct name_space){timer->id.partition, timer->texts.tenant};
}

/* Returns the hash of a name. */
uint64_t name_hash(struct name_space space, enum name_kind kind, struct bytes text);

/* Returns the hash of the Idempotency-Key `request`, without its fingerprint, for a timer with this
 * `key`. */
uint64_t name_hash_request(struct name_space space, struct bytes key, struct bytes request);

/* Returns the Idempotency-Key in timer_texts.request, without its fingerprint. */
static inline struct bytes name_of_request(struct bytes request)
{
    if (request.size < NAME_FINGERPRINT_SIZE)
        return (struct bytes){0};
    return (struct bytes){request.data + NAME_FINGERPRINT_SIZE,
                          request.size - NAME_FINGERPRINT_SIZE};
}

static inline bool name_is_claim(const struct timer *timer)
{
    return !timer->texts.target.size;
}

/* Walks the names of a timer. Initially all zero, except for the timer. */
struct name_walk {
    const struct timer *timer;
    unsigned step_;
    struct bytes watch_;
};

struct name {
    enum name_kind kind;
    uint64_t hash;
};

/* Returns the next name; false at the end. */
bool name_next(struct name_walk *walk, struct name *ret_name);

/* True if the timer has this name. The caller checks the tenant. */
bool name_fits(const struct timer *timer, enum name_kind kind, struct bytes text);

#endif
