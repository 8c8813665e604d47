/*
 * timer_filter.h - which timers a search wants, by their state and their texts.
 *
 *     const struct timer_filter filter = {.key_prefix = BYTES("order-")};
 *     if (timer_filter_fits(&filter, timer)) ...
 *
 * A filter of zeros fits every timer. All conditions must hold.
 *
 * Ownership  Texts are borrowed.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_TIMER_TIMER_FILTER_H
#define TICKWHEEL_TIMER_TIMER_FILTER_H

#include "timer/timer.h"

#define TIMER_FILTER_LABELS_MAX 16

/* X(name): the texts of a filter. A text whose data is NULL sets no condition. */
#define TIMER_FILTER_TEXT_LIST(X)                                      \
    X(target)       /* the whole target */                             \
    X(origin)       /* the origin, as timer_shown_origin returns it */ \
    X(key_prefix)   /* a beginning of the key */                       \
    X(key_contains) /* a part of the key */                            \
    X(error)        /* the whole last error */

struct timer_filter {
    uint32_t states; /* bits 1 << enum timer_state; 0 accepts any state */
    bool repeats;    /* accepts only timers that repeat */
#define X(name) struct bytes name;
    TIMER_FILTER_TEXT_LIST(X)
#undef X
    struct bytes flow; /* key of the flow; data is NULL for no condition */
    struct {
        struct bytes key, value;
    } labels[TIMER_FILTER_LABELS_MAX]; /* the timer must have all of these, which are decoded */
    size_t label_count;
};

/* True if the filter requires something that only timers have: a key, target, flow or label. */
bool timer_filter_has_text(const struct timer_filter *filter);

/* True if the timer meets all conditions. If it is a view of a record, its target need not be
 * parsed. */
bool timer_filter_fits(const struct timer_filter *filter, const struct timer *timer);

#endif
