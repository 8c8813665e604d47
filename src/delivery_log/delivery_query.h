/*
 * delivery_query.h - a question to the delivery log: which deliveries of a tenant, newest first.
 *
 * Ownership  The texts are the caller's until `done`; `found` is the caller's to free
 *            (delivery_query_deinit).
 * Threads    None: one owner at a time.
 */
#ifndef TICKWHEEL_DELIVERY_LOG_DELIVERY_QUERY_H
#define TICKWHEEL_DELIVERY_LOG_DELIVERY_QUERY_H

#include "base/turns.h"
#include "delivery_log/delivery_entry.h"

#define DELIVERY_QUERY_COUNT_MAX 200 /* maximum number of deliveries in an answer */

/* Maximum number of entries that one query examines; beyond it the answer is incomplete. */
#define DELIVERY_QUERY_LOOKS 20000

struct delivery_query {
    /* The question. An empty text, or a range of all values, matches every delivery. */
    struct bytes tenant;
    struct bytes timer, key, target, origin;
    unsigned outcomes; /* a bit for each enum run_outcome */
    uint16_t status_min, status_max;
    uint64_t since;  /* least time of the end, which is at most the stamp; in us since 1970 */
    uint64_t before; /* stamps at and above are left out; UINT64_MAX for the newest */
    uint32_t limit;  /* maximum number of entries, up to DELIVERY_QUERY_COUNT_MAX */
    /* The answer. */
    /* encoded entries, one after another; has failed if out of memory or threads */
    struct buffer found;
    uint32_t count;
    /* Value of `before` with which the search goes on; 0 if there is nothing more. */
    uint64_t next;
    uint32_t looks;                             /* number of entries that were examined */
    void (*done)(struct delivery_query *query); /* delivery_log_ask */
    struct turn_link turn_;
};

/* Makes a question for all deliveries, newest first. */
void delivery_query_init(struct delivery_query *ret_query);
void delivery_query_deinit(struct delivery_query *query);

/* Encodes the question without its tenant, to pass it to another node. */
void delivery_query_encode(const struct delivery_query *query, struct buffer *to);

/* Reads an encoded question. Returns false for any other bytes. Texts lie within the bytes. */
bool delivery_query_decode(struct bytes bytes, struct delivery_query *ret_query);

/* Returns the index to follow, which has the fewest entries as far as can be foreseen, and the
 * hash in it. */
enum delivery_index delivery_query_index(const struct delivery_query *query, uint32_t *ret_hash);

/* True if the entry answers the question, if it comes before `before`. */
bool delivery_query_wants(const struct delivery_query *query, const struct delivery_entry *entry);

/* True if nothing can be added to the answer: it is at a limit, or memory is out. */
bool delivery_query_is_full(const struct delivery_query *query);

#endif
