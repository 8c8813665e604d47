/*
 * given_up.h - a firing that ended without success, reported to the caller for the log of events.
 *
 * An engine keeps few reports between two calls of engine_take_given_up and only counts the rest,
 * so a hundred thousand deaths at once cost little. It reports the decision, not the write: after a
 * crash before the write the firing is repeated, and may be reported once more.
 */
#ifndef TICKWHEEL_ENGINE_GIVEN_UP_H
#define TICKWHEEL_ENGINE_GIVEN_UP_H

#include "timer/timer.h"

#define GIVEN_UP_TEXT_SIZE 257

struct given_up {
    struct list link; /* list of whoever holds it */
    struct timer_id id;
    struct wall due;   /* due time of the firing */
    struct wall next;  /* time of the timer's next firing; WALL_NEVER if it is dead */
    uint32_t attempts; /* number of attempts of that firing */
    uint64_t more;     /* number of later given-up firings that are not reported one by one */
    /* Texts, truncated to the size of the arrays. */
    char tenant[GIVEN_UP_TEXT_SIZE], key[GIVEN_UP_TEXT_SIZE], origin[GIVEN_UP_TEXT_SIZE],
        error[GIVEN_UP_TEXT_SIZE];
};

/* Makes a report, which the caller frees with free(). Returns NULL if out of memory. */
struct given_up *given_up_create(const struct timer *timer, struct wall next);

#endif
