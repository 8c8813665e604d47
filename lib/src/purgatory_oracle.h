/*
 * purgatory_oracle.h - a purgatory beside a table that is walked for everything. For tests only.
 */
#ifndef TICKWHEEL_PURGATORY_ORACLE_H
#define TICKWHEEL_PURGATORY_ORACLE_H

#include "conformance_oracle.h"

/* What a model run has done. */
struct purgatory_tally {
    uint64_t steps;
    uint64_t at_once;
    uint64_t by_event;
    uint64_t by_timeout;
    uint64_t by_destroy;
    uint64_t refused;
    uint64_t purged;
};

/* Does `steps` random things to a purgatory of random shards and limits and to the model, compares
 * them and checks the invariants. Aborts where they differ. */
struct purgatory_tally purgatory_model_run(struct conformance_source *source, uint64_t steps);

#endif
