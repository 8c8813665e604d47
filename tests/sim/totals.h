/*
 * totals.h - what the runs went through, summed: shown at the end, so that a fault that never
 * struck does not pass for one that was survived.
 */
#ifndef TICKWHEEL_SIM_TOTALS_H
#define TICKWHEEL_SIM_TOTALS_H

#include <stdint.h>

/* X(name, label) */
#define TOTALS_LIST(X)                                  \
    X(runs, "runs")                                     \
    X(steps, "steps")                                   \
    X(simulated_ms, "simulated time, ms")               \
    X(created, "timers acknowledged")                   \
    X(patched, "patches acknowledged")                  \
    X(cancelled, "cancels acknowledged")                \
    X(gets, "gets answered")                            \
    X(pages, "list pages answered")                     \
    X(refused, "commands refused")                      \
    X(unanswered, "commands lost in a crash")           \
    X(deliveries, "deliveries")                         \
    X(done, "outcomes done")                            \
    X(failed, "outcomes failed")                        \
    X(timed_out, "outcomes timed out")                  \
    X(ended, "outcomes ended by the receiver")          \
    X(duplicates, "duplicates received, all explained") \
    X(outcomes_lost, "outcomes lost in a crash")        \
    X(fired, "timers fired")                            \
    X(dead, "timers dead")                              \
    X(spilled, "timers put back for want of room")      \
    X(commits, "batches durable")                       \
    X(commits_failed, "batches failed")                 \
    X(commits_cut, "batches cut off by a crash")        \
    X(reads, "reads")                                   \
    X(reads_failed, "reads failed")                     \
    X(damaged, "records damaged")                       \
    X(outages, "outages of the storage")                \
    X(crashes, "crashes")                               \
    X(drains, "clean restarts")                         \
    X(clock_forward, "clock steps forward")             \
    X(clock_back, "clock steps back")                   \
    X(suspends, "times that the machine slept")

struct totals {
#define X(name, label) uint64_t name;
    TOTALS_LIST(X)
#undef X
};

#endif
