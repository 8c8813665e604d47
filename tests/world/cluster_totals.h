/*
 * cluster_totals.h - a simulated cluster of one partition: nodes that run the real replica (ownership,
 * frames, commits) and engine on a storage that follows the log between them, clients, and faults.
 * A seed is a run.
 *
 * Some timers have messages, which are committed in transactions with the ends of their timers.
 *
 * Appends come late, get lost, land twice, and land after they were given up or while their node
 * sleeps; answers get lost; the log pauses; nodes are stopped, crash and go back to an older
 * storage, whose calls fail, read late, and have wall clocks that differ and step, and others that
 * drift as far as OWNERSHIP_DRIFT allows. Owners sweep the log, which drops the records in front of
 * a sweep, so nodes that read late are left behind. Nodes that have nothing begin with a copy of
 * another node, or with the log.
 */
#ifndef TICKWHEEL_WORLD_CLUSTER_TOTALS_H
#define TICKWHEEL_WORLD_CLUSTER_TOTALS_H

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
    X(created, "timers created")                                 \
    X(patched, "timers patched")                                 \
    X(cancelled, "timers cancelled")                             \
    X(reads, "reads")                                            \
    X(silenced, "answers that the lease forbade")                \
    X(deliveries, "deliveries")                                  \
    X(duplicates, "of them repeated by a later owner")           \
    X(staged, "messages staged in a transaction")                \
    X(deals, "transactions committed")                           \
    X(expired, "transactions that took too long")                \
    X(late, "appends that landed after they were given up")      \
    X(lost, "appends lost")                                      \
    X(doubled, "appends that landed twice")                      \
    X(stops, "stops")                                            \
    X(crashes, "crashes")                                        \
    X(rewound, "records that a crash took from a storage")       \
    X(drops, "copies dropped")                                   \
    X(failures, "failures of a storage")                         \
    X(steps, "steps of a wall clock")                            \
    X(pauses, "pauses of the log")                               \
    X(sweeps, "sweeps")                                          \
    X(copies, "rows that they copied")                           \
    X(trims, "of the log, behind a sweep")                       \
    X(dropped, "records that these dropped")                     \
    X(restarts, "replicas left behind, which began anew")        \
    X(copied, "replicas that began with a copy of another")      \
    X(copied_rows, "rows of its pages")                          \
    X(copies_failed, "copies that were given up")

struct cluster_totals {
#define X(name, label) uint64_t name;
    CLUSTER_TOTALS_LIST(X)
#undef X
};

/* One run; a broken promise ends the program. */
void cluster_run(uint64_t seed, bool is_verbose, struct cluster_totals *totals, uint64_t *ret_hash);

#endif
