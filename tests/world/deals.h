/*
 * deals.h - the log of several nodes, with transactions (*deals*) as brokers keep them. The records
 * of a deal are in the log before it is decided; a marker follows. Readers see the records before
 * the first deal without a marker. They see neither markers nor records of aborted deals.
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
    bool is_marked;                      /* whether its marker is in the log, or none is needed */
    uint64_t producer;                   /* epoch of its producer */
    uint64_t serials[DEAL_MESSAGES_MAX]; /* timers whose messages it has */
    size_t count;
    /* The frames that end it. */
    uint64_t from, to; /* allowed offsets of the first one */
    size_t frames, landed;
    uint64_t first, next; /* offset of the first one; offset after the last one */
    bool is_torn;         /* whether other records are between them */
};

struct deals {
    struct {
        uint32_t append; /* index of the append; UINT32_MAX for a marker */
        uint32_t deal;   /* 1 + the index of the deal; 0 for none */
    } log[RECORDS_MAX + DEALS_MAX];
    uint64_t size, stable; /* offsets after the last record; after the last that readers may see */
    uint64_t producer;     /* epoch of the latest producer */
    struct deal deals[DEALS_MAX];
    uint32_t count;
};

/* Adds a record. Returns its offset. */
uint64_t deals_append(struct deals *deals, uint32_t append);

/* Drops the last records, so that `size` are left. There are no deals. */
void deals_cut(struct deals *deals, uint64_t size);

/* Adds a frame of a deal. Returns false if the deal is decided or its producer fenced. */
bool deals_append_frame(struct deals *deals, struct deal *deal, uint32_t append);

/* True if its frames are contiguous, and the first one is where the owner allows it. */
bool deals_fits(const struct deal *deal);

/* Adds a producer: fences the older ones, and aborts the deal that is open. Returns its epoch. */
uint64_t deals_init(struct deals *deals);

/* True if the producer is the latest, and its last deal is marked. */
bool deals_may_begin(const struct deals *deals, uint64_t producer);
struct deal *deals_begin(struct deals *deals, uint64_t producer);

/* Decides the deal, if it is open. Returns true if it has that end now. */
bool deals_end(struct deals *deals, struct deal *deal, enum deal_state state);

/* Adds the marker of the deal, once. */
void deals_mark(struct deals *deals, struct deal *deal);

/* Returns what became of the record at `offset`; DEAL_ABORTED for a marker. */
enum deal_state deals_fate(const struct deals *deals, uint64_t offset);

/* Returns the offset of the first record from `next` on that a reader sees; `stable` if none. */
uint64_t deals_visible(const struct deals *deals, uint64_t next);

#endif
