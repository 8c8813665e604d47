/*
 * delivery_entry.h - one delivery in the delivery log, and its bytes.
 *
 *     struct delivery_entry entry = {.ended_us = ..., .outcome = RUN_FAILED, .texts = {...}};
 *     delivery_entry_encode(&entry, &buffer);              on the thread that saw the outcome
 *     delivery_entry_place(bytes, stamp, links);           by the writer: makes it valid
 *     if (delivery_entry_decode(bytes, &entry)) ...
 *
 * Encoded: checksum of what follows 4, size 4, stamp 8, end 8, a link of 4 for each index, attempt
 * 4, status 2, outcome 1, count of stages 1, a size of 2 for each text; the stages, each a number
 * 1 and milliseconds 4; the texts. Numbers are little-endian.
 *
 * Errors     A decoded entry has a valid checksum and lies within its bytes; nothing else is
 *            accepted.
 * Ownership  The texts of a decoded entry lie within its bytes.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_DELIVERY_LOG_DELIVERY_ENTRY_H
#define TICKWHEEL_DELIVERY_LOG_DELIVERY_ENTRY_H

#include "base/bytes.h"
#include "timer/runs.h"

/* X(name, maximum size). A longer text is cut. */
#define DELIVERY_TEXT_LIST(X)                                       \
    X(timer, 32)    /* id of the timer */                           \
    X(key, 1024)    /* key of the timer, or empty */                \
    X(target, 2048) /* target of the timer */                       \
    X(origin, 2048) /* origin of the target, as the API shows it */ \
    X(error, 256)   /* cause of a failure, or empty */              \
    X(answer, 4096) /* first bytes of the answer, or empty */

enum delivery_text {
#define X(name, max) DELIVERY_TEXT_##name,
    DELIVERY_TEXT_LIST(X)
#undef X
        DELIVERY_TEXTS
};

/* What the entries of a segment are indexed by. The order is part of the format. */
enum delivery_index {
    DELIVERY_INDEX_ALL, /* every entry of the tenant */
    DELIVERY_INDEX_TIMER,
    DELIVERY_INDEX_KEY,
    DELIVERY_INDEX_TARGET,
    DELIVERY_INDEX_ORIGIN,
    DELIVERY_INDEX_STATUS,
    DELIVERY_INDEX_OUTCOME,
    DELIVERY_INDEXES
};

#define DELIVERY_STAGES_MAX 32 /* maximum number of stages of a delivery */

#define DELIVERY_ENTRY_FIXED_SIZE (4 + 4 + 8 + 8 + 4 * DELIVERY_INDEXES + 8 + 2 * DELIVERY_TEXTS)
#define DELIVERY_ENTRY_SIZE_MAX   (16 << 10) /* more than the largest entry */

struct delivery_entry {
    uint64_t stamp;    /* place in the order of the tenant's deliveries of this node; rises */
    uint64_t ended_us; /* time of the outcome, in microseconds since 1970 */
    uint32_t attempt;  /* number of the attempt, from 1 */
    uint16_t status;   /* HTTP status of the answer; 0 if none */
    enum run_outcome outcome;               /* DONE, FAILED or ENDED */
    uint32_t stage_ms[DELIVERY_STAGES_MAX]; /* duration of each stage, in milliseconds */
    struct bytes texts[DELIVERY_TEXTS];
    uint32_t links[DELIVERY_INDEXES]; /* offset of the previous entry with an equal hash; 0: none */
};

/* Appends the entry without a stamp and links. */
void delivery_entry_encode(const struct delivery_entry *entry, struct buffer *to);

/* Sets the stamp and the links of an encoded entry, and its checksum. */
void delivery_entry_place(char *encoded, uint64_t stamp, const uint32_t links[DELIVERY_INDEXES]);

/* Returns the size in the first bytes of an encoded entry; 0 if it is impossible. */
size_t delivery_entry_size(struct bytes bytes);

/* Returns the time of the outcome in an entry that delivery_entry_encode wrote. */
uint64_t delivery_entry_ended_us(struct bytes encoded);

/* Reads the entry at the begin of `bytes`. Returns false if there is no valid one. */
bool delivery_entry_decode(struct bytes bytes, struct delivery_entry *ret_entry);

/* Like delivery_entry_decode, for an entry that was just encoded and has no checksum yet. */
bool delivery_entry_parse(struct bytes bytes, struct delivery_entry *ret_entry);

/* Returns the text as the log keeps it: cut at its maximum. */
struct bytes delivery_text_cut(enum delivery_text text, struct bytes value);

/* Returns the hash of a value of an index, never 0. `number` is the status or the outcome. */
uint32_t delivery_index_hash(enum delivery_index index, struct bytes text, unsigned number);

/* Returns the hash of the entry's own value; 0 if it has none, such as no key. */
uint32_t delivery_entry_hash(const struct delivery_entry *entry, enum delivery_index index);

#endif
