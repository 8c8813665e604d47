/* wheel_find.c - the place of a timer in the wheel. */
#include "wheel_private.h"

bool tw_wheel_find(const struct tw_wheel *wheel, tw_handle timer, struct tw_wheel_place *ret_place)
{
    struct wheel_slot slot = tw__wheel_lookup(wheel, timer);
    if (!slot.record || !(slot.record->generation & IS_ARMED))
        return false;
    /* The tick of a far entry is unknown; the answer is the place of the timer's due, where it
     * would be entered now. */
    uint64_t tick = slot.timer->due;
    if ((slot.record->generation & STATE_MASK) == STATE_NEAR)
        tick = tw__wheel_near_tick(wheel, slot.record->entry_tick);
    tick = tick > wheel->cursor ? tick : wheel->cursor;
    unsigned shift = tw__wheel_shift(wheel, tick);
    *ret_place = (struct tw_wheel_place){slot.timer->due, shift / DIGIT_BITS,
                                         (unsigned)(tick >> shift) & (BUCKETS - 1)};
    return true;
}
