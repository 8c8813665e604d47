/* shrink.c - repeats a failing run with fewer features and steps while it still fails. */
#include "shrink.h"

#include "plan.h"

/* Tries fewer steps: half of them, then three quarters, and so on. */
static bool cut_steps(shrink_fails *fails, void *context, uint64_t *steps, uint64_t without,
                      uint64_t *runs)
{
    for (uint64_t cut = *steps; cut > 0; cut /= 2) {
        ++*runs;
        if (fails(context, *steps - cut, without)) {
            *steps -= cut;
            return true;
        }
    }
    return false;
}

static bool drop_feature(shrink_fails *fails, void *context, uint64_t steps, uint64_t *without,
                         uint64_t *runs)
{
    bool is_any = false;

    for (uint32_t i = 0; i < FEATURES; i++) {
        if (*without & UINT64_C(1) << i)
            continue;
        ++*runs;
        if (fails(context, steps, *without | UINT64_C(1) << i)) {
            *without |= UINT64_C(1) << i;
            is_any = true;
        }
    }
    return is_any;
}

uint64_t shrink(shrink_fails *fails, void *context, uint64_t *steps, uint64_t *without)
{
    uint64_t runs = 0;
    bool is_more;

    do {
        is_more = drop_feature(fails, context, *steps, without, &runs);
        while (cut_steps(fails, context, steps, *without, &runs))
            is_more = true;
    } while (is_more);
    return runs;
}
