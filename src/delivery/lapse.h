/*
 * lapse.h - deliveries that this node may no longer send, because the lease of their partition has
 * expired. Each sender checks right before it writes a request, and returns a lapsed delivery.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_DELIVERY_LAPSE_H
#define TICKWHEEL_DELIVERY_LAPSE_H

#include "engine/delivery.h"
#include "sys/clock.h"

static inline bool delivery_has_lapsed(const struct delivery *delivery)
{
    return delivery->valid_until_ns &&
           instant_boot_now().ns >= atomic_load(delivery->valid_until_ns);
}

/* Sets the outcome RETURNED: the delivery counts as never handed out. */
static inline void delivery_return(struct delivery *delivery)
{
    delivery->outcome = (struct delivery_outcome){.result = DELIVERY_RETURNED};
    delivery->started_us = 0;
    delivery->ended_us = wall_now_us();
}

#endif
