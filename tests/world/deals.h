/*
 * deals.h - the log of a simulated cluster with transactions, as brokers keep it. Records of
 * transactions, *deals*, lie in the log before they are decided, and a marker follows. Readers
 * see the log up to the first deal without a marker, and neither markers nor what was aborted.
 *
 * All producers of deals have one transactional id: the latest one fences the others.
 */
#ifndef TICKWHEEL_WORLD_DEALS_H
#define TICKWHEEL_WORLD_DEALS_H

#include "truth.h"

enum { DEALS_MAX = 2000, DEAL_MESSAGES_MAX = 64 };

enum deal_state { DEAL_OPEN, DEAL_COMMITTED, DEAL_ABORTED };

struct deal {
    enum deal_state state;
    bool is_marked;                      /* the marker is in the log, or none is needed */
    uint64_t producer;                   /* its epoch */
    uint64_t serials[DEAL_MESSAGES_MAX]; /* timers whose messages it has */
    size_t count;
    /* The frames that end it. */
    uint64_t from, to; /* where the first one has to lie */
    size_t frames, landed;
    uint64_t first, next; /* where it lies; behind the last one */
    bool is_torn;         /* others lie between them */
};

struct deals {
    struct {
        uint32_t append; /* whose record it is; UINT32_MAX: a marker */
        uint32_t deal;   /* 1 + its index; 0: none */
    } log[RECORDS_MAX + DEALS_MAX];
    uint64_t size, stable; /* of the log; readers see it up to there */
    uint64_t producer;     /* the epoch of the latest */
    struct deal deals[DEALS_MAX];
    uint32_t count;
};

/* Adds a record. Answers its offset. */
uint64_t deals_append(struct deals *deals, uint32_t append);

/* Adds a frame of a deal. False: the brokers refuse it, as the deal is decided or its producer is
 * fenced. */
bool deals_append_frame(struct deals *deals, struct deal *deal, uint32_t append);

/* Whether its frames lie in a row, at the place that their owner wants. */
bool deals_fits(const struct deal *deal);

/* A new producer: what older ones have open is aborted, and they are fenced. Answers its epoch. */
uint64_t deals_init(struct deals *deals);

/* Whether the producer may begin a deal: it is the latest, and its last deal is marked. */
bool deals_may_begin(const struct deals *deals, uint64_t producer);
struct deal *deals_begin(struct deals *deals, uint64_t producer);

/* Whether the deal had that end, or has it now. */
bool deals_end(struct deals *deals, struct deal *deal, enum deal_state state);

/* The marker reaches the log. */
void deals_mark(struct deals *deals, struct deal *deal);

/* What became of the record at `offset`. DEAL_ABORTED for a marker. */
enum deal_state deals_fate(const struct deals *deals, uint64_t offset);

/* The offset of the first record that a reader is told of, from `next` on; `stable`: none. */
uint64_t deals_visible(const struct deals *deals, uint64_t next);

#endif
