/*
 * oracles.h - models that are too simple to be wrong, each driven beside what it models. For tests
 * only. Each aborts with a message where the two differ.
 *
 * The wheels have wheel_oracle.h and conformance_oracle.h.
 */
#ifndef TICKWHEEL_ORACLES_H
#define TICKWHEEL_ORACLES_H

#include "conformance_oracle.h"

/* ---- fifo_oracle.c: a FIFO beside an array of deadlines ---- */

/* Performs the functions that `bytes` encode on the list and on its model. */
void fifo_oracle_run(const uint8_t *bytes, size_t size);

/* ---- ring_oracle.c: the ring beside a table of items that is searched from end to end ---- */

struct ring_tally {
    uint64_t steps;
    uint64_t taken;
};

/* Performs `steps` random operations on rings of random sizes and on the model. After each one,
 * compares both and checks the invariants of the ring. */
struct ring_tally ring_model_run(struct conformance_source *source, uint64_t steps);

/* ---- purgatory_oracle.c: a purgatory beside a table that is walked for everything ---- */

/* How often a run of the model did what. */
struct purgatory_tally {
    uint64_t steps;
    uint64_t at_once;
    uint64_t by_event;
    uint64_t by_timeout;
    uint64_t by_destroy;
    uint64_t refused;
    uint64_t purged;
};

/* Performs `steps` random operations on a purgatory with random shards and limits and on the model.
 * Compares both and checks the invariants. */
struct purgatory_tally purgatory_model_run(struct conformance_source *source, uint64_t steps);

#endif
