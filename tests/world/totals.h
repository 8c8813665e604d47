/*
 * totals.h - events and faults of all runs, summed and shown at the end, so that a fault that never
 * occurred does not pass for a survived one.
 */
#ifndef TICKWHEEL_WORLD_TOTALS_H
#define TICKWHEEL_WORLD_TOTALS_H

#include <stdint.h>

/* X(name, label): events of runs of several nodes. */
#define TOTALS_CLUSTER_LIST(X)                                    \
    X(clusters, "runs of several nodes")                          \
    X(log_records, "records in their logs")                       \
    X(zombies, "records of former owners, after a later claim")   \
    X(invalid, "other records that are not valid")                \
    X(claims, "valid claims")                                     \
    X(releases, "of them after a release")                        \
    X(commits_in_doubt, "commits in doubt")                       \
    X(silenced, "answers that the lease forbade")                 \
    X(staged, "messages staged in a transaction")                 \
    X(deals, "transactions committed")                            \
    X(expired, "transactions that took too long")                 \
    X(late, "appends that landed after they were given up")       \
    X(lost, "appends lost")                                       \
    X(doubled, "appends that landed twice")                       \
    X(stops, "stops of a node")                                   \
    X(rewound, "records that a crash took from a storage")        \
    X(copies_dropped, "storages emptied")                         \
    X(storage_failures, "failures of a storage")                  \
    X(clock_sets, "wall clocks set")                              \
    X(log_pauses, "pauses of a log")                              \
    X(sweeps, "sweeps")                                           \
    X(sweep_rows, "rows that they copied")                        \
    X(trims, "of a log, after a sweep")                           \
    X(trimmed, "records that these dropped")                      \
    X(restarts, "replicas left behind, which began anew")         \
    X(copies_taken, "replicas that began with a copy of another") \
    X(copy_rows, "rows of its pages")                             \
    X(copies_failed, "copies that were given up")                 \
    X(tables, "runs with a log on PostgreSQL")                    \
    X(taken, "appends whose place was taken")                     \
    X(rewritten, "appends in doubt that were found")              \
    X(warnings, "commits that the standby may lack")              \
    X(reboots, "restarts of the server")                          \
    X(switches, "fail-overs to the standby")                      \
    X(cuts, "of them that lost records")                          \
    X(records_cut, "records that these lost")                     \
    X(broken, "replicas that noticed it")

/* X(name, label) */
#define TOTALS_LIST(X)                                  \
    X(runs, "runs")                                     \
    X(steps, "steps")                                   \
    X(simulated_ms, "simulated time, ms")               \
    X(created, "timers acknowledged")                   \
    X(patched, "patches acknowledged")                  \
    X(touched, "touches that extended a time")          \
    X(rows_moved, "rows moved to a touched time")       \
    X(cancelled, "cancels acknowledged")                \
    X(replaced, "timers replaced by key")               \
    X(debounced, "of them by a debounce")               \
    X(made_due, "timers fired by a call")               \
    X(redriven, "dead letters redriven")                \
    X(paused, "timers paused by a call")                \
    X(resumed, "timers resumed by a call")              \
    X(pauses_ended, "pauses that ended by themselves")  \
    X(maintenances, "times of maintenance")             \
    X(target_pauses, "pauses of queues and targets")    \
    X(forgotten, "dead letters forgotten")              \
    X(keys_met, "keys that were taken")                 \
    X(repeated, "requests repeated")                    \
    X(completes, "commands about many")                 \
    X(completed, "timers changed by them")              \
    X(recurred, "firings followed by another")          \
    X(dropped, "firings dropped")                       \
    X(reports, "firings reported")                      \
    X(backfills, "backfills asked for")                 \
    X(begun, "firings begun as timers of their own")    \
    X(parted, "firings to several targets")             \
    X(parts, "parts of timers with several targets")    \
    X(gets, "gets answered")                            \
    X(pages, "list pages answered")                     \
    X(refused, "commands refused")                      \
    X(unanswered, "commands lost in a crash")           \
    X(deliveries, "deliveries")                         \
    X(done, "outcomes done")                            \
    X(failed, "outcomes failed")                        \
    X(timed_out, "outcomes timed out")                  \
    X(ended, "outcomes ended by the receiver")          \
    X(accepted, "answers that come later")              \
    X(answered, "of them by their receiver")            \
    X(put_off, "waits for them that were put off")      \
    X(unanswered_later, "waits in vain")                \
    X(duplicates, "duplicates received, all explained") \
    X(outcomes_lost, "outcomes lost in a crash")        \
    X(returned, "deliveries returned")                  \
    X(postponed, "deliveries postponed")                \
    X(strangers, "calls on timers of another tenant")   \
    X(explained, "explanations answered")               \
    X(recorded, "outcomes told to be durable")          \
    X(pulled, "deliveries pulled")                      \
    X(leases, "leases of the queue")                    \
    X(stales, "receipts refused")                       \
    X(released, "leases ended by a call")               \
    X(reloaded, "spilled timers reloaded")              \
    X(events, "events told")                            \
    X(fired, "timers fired")                            \
    X(dead, "timers dead")                              \
    X(spilled, "timers put back for want of room")      \
    X(commits, "batches durable")                       \
    X(commits_failed, "batches failed")                 \
    X(commits_cut, "batches cut off by a crash")        \
    X(in_doubt, "failed appends that were in the log")  \
    X(doubts_kept, "of them read after a crash")        \
    X(reads, "reads")                                   \
    X(reads_failed, "reads failed")                     \
    X(damaged, "records damaged")                       \
    X(outages, "outages of the storage")                \
    X(full, "of them for want of room on the disk")     \
    X(crashes, "crashes")                               \
    X(drains, "clean restarts")                         \
    X(clock_forward, "clock steps forward")             \
    X(clock_back, "clock steps back")                   \
    X(suspends, "times that the machine slept")         \
    TOTALS_CLUSTER_LIST(X)

struct totals {
#define X(name, label) uint64_t name;
    TOTALS_LIST(X)
#undef X
};

#endif
