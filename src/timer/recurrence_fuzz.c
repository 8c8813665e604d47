/*
 * recurrence_fuzz - what `every` plans is what counting up from its first instant finds.
 */
#include "timer/recurrence.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

/* Small numbers, so that there is little to count. */
struct recurrence_fuzz_plan {
    uint64_t first, period, count, until, base;
};

static bool is_planned(const struct recurrence_fuzz_plan *plan, uint64_t at)
{
    return at >= plan->first && at <= plan->until && (at - plan->first) % plan->period == 0 &&
           (!plan->count || (at - plan->first) / plan->period < plan->count);
}

static struct wall moved(const struct recurrence_fuzz_plan *plan, uint64_t at)
{
    return (struct wall){plan->base + at};
}

static void check_every(const struct recurrence_fuzz_plan *plan, uint64_t at)
{
    const uint64_t end = 1024; /* beyond everything that has a last one */
    const struct recurrence every = {
        .kind = RECURRENCE_EVERY,
        .until = plan->until == UINT64_MAX ? WALL_NEVER : moved(plan, plan->until),
        .every = {moved(plan, plan->first), plan->period, plan->count}};
    uint64_t next = at + 1, last = at;

    while (next < end && !is_planned(plan, next))
        next++;
    REQUIRE(recurrence_next(&every, moved(plan, at)).ms ==
            (next < end ? moved(plan, next).ms : WALL_NEVER.ms));
    while (last > 0 && !is_planned(plan, last))
        last--;
    REQUIRE(recurrence_last(&every, moved(plan, at)).ms ==
            (is_planned(plan, last) ? moved(plan, last).ms : WALL_NEVER.ms));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 6)
        check_every(
            &(struct recurrence_fuzz_plan){.first = data[0],
                                           .period = data[1] % 64 + 1,
                                           .count = data[2] % 16,
                                           .until = data[3] % 2 ? UINT64_MAX : 2 * data[3],
                                           .base = data[4] % 2 ? UINT64_C(1795132800000) : 0},
            data[5] + (data[4] & 2 ? 256 : 0));
    return 0;
}
