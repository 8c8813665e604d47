/*
 * share.h - the rule by which tenants share a pot: whether one may take more of it.
 *
 *   - A tenant takes more while it holds at most SHARE_PART times what is left: one tenant holds
 *     seven eighths of a pot at most, and what a few tenants hold leaves some for the next
 *     (dynamic thresholds; Choudhury and Hahne, 1998).
 *   - The last sixteenth is for tenants that hold little: a tenant may always hold a 1,024th of the
 *     pot, or one thing, while there is any left. So 64 tenants that take all they get do not keep
 *     another one from its first.
 *
 * A pot of fewer than SHARE_MIN is not divided.
 */
#ifndef TICKWHEEL_BASE_SHARE_H
#define TICKWHEEL_BASE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#define SHARE_MIN  16
#define SHARE_PART 7
/* a pot divided by this is the part kept for tenants that hold little */
#define SHARE_RESERVED 16
#define SHARE_LITTLE   1024 /* a pot divided by this is what each tenant may hold of that part */

/* True if a tenant that holds `held` may take `more` of a pot of `max`, of which all tenants hold
 * `all`. */
static inline bool share_allows(uint64_t max, uint64_t all, uint64_t held, uint64_t more)
{
    if (all >= max || more > max - all)
        return false;
    if (max < SHARE_MIN || held == 0 || held + more <= max / SHARE_LITTLE)
        return true;
    const uint64_t left = max - all - more;

    return left >= max / SHARE_RESERVED && held + more <= SHARE_PART * left;
}

#endif
