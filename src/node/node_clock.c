/* node_clock.c - the wall time by which a node acts; see node_clock.h. */
#include "node/node_clock.h"

#include "sys/clock.h"

#include <stdlib.h>

static uint64_t node_clock_boot_us(void)
{
    return instant_boot_now().ns / 1000;
}

/* The wall clock is read between two readings of the boot clock, of which the mean counts,
 * because the thread may be preempted. */
int64_t node_clock_difference_us(void)
{
    uint64_t before_us, wall_us, after_us;
    int tries = 0;

    do {
        before_us = node_clock_boot_us();
        wall_us = wall_now_us();
        after_us = node_clock_boot_us();
    } while (after_us - before_us > NODE_CLOCK_STEP_US / 10 && ++tries < 10);
    return (int64_t)wall_us - (int64_t)(before_us + (after_us - before_us) / 2);
}

void node_clock_init(struct node_clock *clock)
{
    *clock = (struct node_clock){.is_checked = true};
    atomic_store(&clock->trusted_us, node_clock_difference_us());
}

static bool node_clock_is_step(int64_t from_us, int64_t to_us)
{
    return llabs((long long)(to_us - from_us)) > NODE_CLOCK_STEP_US;
}

uint64_t node_clock_at_us(struct node_clock *clock, uint64_t wall_us, uint64_t boot_us)
{
    const int64_t trusted_us = atomic_load(&clock->trusted_us);

    if (!node_clock_is_step(trusted_us, (int64_t)wall_us - (int64_t)boot_us))
        return wall_us;
    atomic_store(&clock->is_held, true);
    return (uint64_t)((int64_t)boot_us + trusted_us);
}

uint64_t node_clock_now_us(struct node_clock *clock)
{
    if (!clock->is_checked)
        return wall_now_us();
    const int64_t difference_us = node_clock_difference_us();
    const uint64_t boot_us = node_clock_boot_us();

    return node_clock_at_us(clock, (uint64_t)((int64_t)boot_us + difference_us), boot_us);
}

struct wall node_clock_now(struct node_clock *clock)
{
    return (struct wall){node_clock_now_us(clock) / 1000};
}

bool node_clock_measure(struct node_clock *clock, int64_t sent_us, int64_t landed_us,
                        int32_t offset_ms)
{
    if (node_clock_is_step(sent_us, landed_us))
        return false;
    atomic_store(&clock->offset_ms, offset_ms);
    atomic_store(&clock->is_measured, true);
    if (abs(offset_ms) <= NODE_CLOCK_SKEW_MS_MAX) {
        atomic_store(&clock->trusted_us, landed_us);
        atomic_store(&clock->is_held, false);
    }
    return true;
}

bool node_clock_is_wrong(const struct node_clock *clock)
{
    return abs(atomic_load(&clock->offset_ms)) > NODE_CLOCK_SKEW_MS_MAX;
}
