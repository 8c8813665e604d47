/*
 * content.h - what a client may set of a timer, as numbers from which the texts follow.
 *
 * Each text carries a token that is used once, so a delivery shows which request it comes from.
 */
#ifndef TICKWHEEL_SIM_CONTENT_H
#define TICKWHEEL_SIM_CONTENT_H

#include "engine/command.h"

struct content {
    struct wall due;
    struct retry_policy retry;
    uint32_t target, payload, headers, labels; /* tokens; 0: the text is empty (target: never) */
    uint8_t origin;                            /* of the target */
    uint32_t payload_size;                     /* at least so many bytes */
};

/* The timer that asks for `content`, to be given to the engine. */
struct timer *content_timer(const struct content *content, uint32_t number);

/* Whether the timer shows exactly `content`; a timer that is over may lack payload and headers. */
bool content_matches(const struct content *content, uint32_t number, const struct timer *timer);

/* Sets those of `fields` (enum timer_patch_field). */
void content_patch(struct content *content, uint32_t fields, const struct content *values);

/* Whether both set those fields alike. */
bool content_equal(const struct content *a, const struct content *b, uint32_t fields);

/* The number of the timer in this run, from its labels; 0 when they are not of this simulation. */
uint32_t content_number(const struct timer *timer);

#endif
