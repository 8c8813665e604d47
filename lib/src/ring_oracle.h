/*
 * ring_oracle.h - the ring beside a table of items that is searched from end to end for everything.
 * For tests only.
 */
#ifndef TICKWHEEL_RING_ORACLE_H
#define TICKWHEEL_RING_ORACLE_H

#include "conformance_oracle.h"

struct ring_tally {
    uint64_t steps;
    uint64_t taken;
};

/* Does `steps` random things to rings of random sizes and to the table, compares them and checks
 * the ring's invariants after each. Aborts where they differ. */
struct ring_tally ring_model_run(struct conformance_source *source, uint64_t steps);

#endif
