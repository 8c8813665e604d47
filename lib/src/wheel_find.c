/* wheel_find.c - the place of a timer in the wheel. */
#include "wheel_private.h"

bool tw_wheel_find(const struct tw_wheel *wheel, tw_handle timer, struct tw_wheel_place *ret_place)
{
    const struct wheel_record *record = tw__wheel_lookup(wheel, timer);
    uint32_t index = (uint32_t)timer;
    if (!record || !(record->generation & IS_ARMED))
        return false;
    uint64_t due = tw__wheel_due(wheel, record, index);
    uint64_t tick = due > wheel->cursor ? due : wheel->cursor;
    unsigned shift = tw__wheel_shift(wheel, tick);
    *ret_place =
        (struct tw_wheel_place){due, shift / DIGIT_BITS, (unsigned)(tick >> shift) & (BUCKETS - 1)};
    return true;
}
