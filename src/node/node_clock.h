/*
 * node_clock.h - the wall time by which a node acts: that of the machine, unless its clock stepped.
 *
 * The machine's clock can be set while the node runs. The difference between it and CLOCK_BOOTTIME,
 * which cannot be set, tells a step; a clock that is slewed changes both. A node of a cluster goes
 * on by the time before the step, until the clock of the brokers confirms the new one:
 *
 *     node_clock_init(&clock);
 *     now = node_clock_now_us(&clock);           any thread, each time
 *     sent = node_clock_difference_us();         with an append to the log
 *     node_clock_measure(&clock, sent, offset_ms);  when it has landed
 *
 * Threads    Any; node_clock_measure one at a time.
 */
#ifndef TICKWHEEL_NODE_NODE_CLOCK_H
#define TICKWHEEL_NODE_NODE_CLOCK_H

#include "base/time.h"

#include <stdatomic.h>

enum {
    NODE_CLOCK_STEP_US = 100000,  /* smallest change of the difference that counts as a step */
    NODE_CLOCK_SKEW_MS_MAX = 500, /* largest accepted difference from the brokers' clock */
};

struct node_clock {
    /* wall time less boot time, in microseconds, by which the node acts */
    _Atomic int64_t trusted_us;
    _Atomic int32_t offset_ms; /* machine's clock less the brokers' clock */
    atomic_bool is_measured;   /* offset_ms was measured */
    /* the clock stepped, and the brokers have not confirmed the new time */
    atomic_bool is_held;
    bool is_checked; /* whether steps must be confirmed; false without a cluster */
};

/* Trusts the machine's clock until it steps. A node_clock that is all 0 always trusts it. */
void node_clock_init(struct node_clock *clock);

/* Returns the machine's wall time less its time since boot, in microseconds. */
int64_t node_clock_difference_us(void);

/* Returns the wall time by which the node acts, in microseconds. */
uint64_t node_clock_now_us(struct node_clock *clock);
struct wall node_clock_now(struct node_clock *clock);

/* Returns that time for given readings of the machine's clocks. */
uint64_t node_clock_at_us(struct node_clock *clock, uint64_t wall_us, uint64_t boot_us);

/* Notes that the clock was ahead of the brokers' by offset_ms, as an append showed that was sent
 * at the difference `sent_us` and confirmed at `landed_us`. Returns false if the clock stepped
 * in between, so that the append shows nothing. */
bool node_clock_measure(struct node_clock *clock, int64_t sent_us, int64_t landed_us,
                        int32_t offset_ms);

/* True if the machine's clock is known to differ too much from the brokers'. */
bool node_clock_is_wrong(const struct node_clock *clock);

#endif
