/*
 * world.h - a simulated cluster of one partition: nodes that run the real ownership and frames, a
 * log between them, clients, and faults. A seed is a run.
 *
 * Appends come late, get lost, land twice, and land after they were given up or while their node
 * sleeps; answers get lost; the log pauses; nodes are stopped, crash and go back to an older
 * storage, read late, and have clocks that drift as far as OWNERSHIP_DRIFT allows.
 */
#ifndef TICKWHEEL_CLUSTER_SIM_WORLD_H
#define TICKWHEEL_CLUSTER_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, label): sums over runs. */
#define CLUSTER_TOTALS_LIST(X)                                   \
    X(runs, "runs")                                              \
    X(simulated_ms, "milliseconds")                              \
    X(records, "records in the log")                             \
    X(zombies, "records of former owners, behind a later claim") \
    X(refused, "other records that are not valid")               \
    X(owners, "valid claims")                                    \
    X(releases, "of them behind a release")                      \
    X(durable, "commits durable")                                \
    X(failed, "commits failed")                                  \
    X(in_doubt, "commits in doubt")                              \
    X(reads, "reads")                                            \
    X(silenced, "reads and deliveries that the lease forbade")   \
    X(deliveries, "deliveries")                                  \
    X(duplicates, "of them repeated by a later owner")           \
    X(late, "appends that landed after they were given up")      \
    X(lost, "appends lost")                                      \
    X(doubled, "appends that landed twice")                      \
    X(stops, "stops")                                            \
    X(crashes, "crashes")                                        \
    X(pauses, "pauses of the log")

struct cluster_totals {
#define X(name, label) uint64_t name;
    CLUSTER_TOTALS_LIST(X)
#undef X
};

/* One run; a broken promise ends the program. */
void cluster_run(uint64_t seed, bool is_verbose, struct cluster_totals *totals, uint64_t *ret_hash);

#endif
