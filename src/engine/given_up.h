/*
 * given_up.h - a firing that ended without success, told to the caller for the log of events.
 *
 * An engine keeps few of them between two calls of engine_take_given_up and counts the others, so
 * a hundred thousand deaths at a time cost a counter. It tells of the decision, not of the write:
 * after a crash before the write the firing is repeated, and may be told of once more.
 */
#ifndef TICKWHEEL_ENGINE_GIVEN_UP_H
#define TICKWHEEL_ENGINE_GIVEN_UP_H

#include "timer/timer.h"

#define GIVEN_UP_TEXT_SIZE 257

struct given_up {
    struct list link; /* the holder's */
    struct timer_id id;
    struct wall due;   /* due time of the firing */
    struct wall next;  /* time of the timer's next firing; WALL_NEVER if it is dead */
    uint32_t attempts; /* attempts of the firing */
    uint64_t more;     /* given-up firings after it that are not reported one by one */
    /* Texts, cut if they are longer. */
    char tenant[GIVEN_UP_TEXT_SIZE], key[GIVEN_UP_TEXT_SIZE], origin[GIVEN_UP_TEXT_SIZE],
        error[GIVEN_UP_TEXT_SIZE];
};

/* The caller frees it with free(). Returns NULL if out of memory. */
struct given_up *given_up_create(const struct timer *timer, struct wall next);

#endif
