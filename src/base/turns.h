/*
 * turns.h - things that wait for a worker, first come first served for each key, and the keys take
 * turns: one that brings many things waits behind itself alone.
 *
 *     turns_push(&turns, &job->turn, tenant)
 *     while ((turn = turns_pop(&turns))) work(list_item(turn, struct job, turn));
 *
 * Where a thing is worked at in steps, it keeps the first place of its key meanwhile:
 *
 *     if (turns_push(&turns, &job->turn, tenant)) start(job);
 *     turns_rotate(&turns, &job->turn)            after a step: the next step of others comes first
 *     next = turns_remove(&turns, &job->turn)     it has ended; the next of its key, or NULL
 *
 * Time       O(keys that wait) to push, O(1) otherwise.
 * Memory     None of its own: the links lie in the things.
 * Threads    None: its owner's.
 */
#ifndef TICKWHEEL_BASE_TURNS_H
#define TICKWHEEL_BASE_TURNS_H

#include "base/list.h"

#include <stdint.h>

struct turn_link {
    struct list link; /* in `firsts`, or in `behind` of the first thing with its key */
    /* if it is the first of its key: the other things of that key, oldest first */
    struct list behind;
    uint64_t key;
};

struct turns {
    struct list firsts; /* first thing of each key, in the order of turns */
};

static inline void turns_init(struct turns *turns)
{
    list_init(&turns->firsts);
}

static inline bool turns_is_empty(const struct turns *turns)
{
    return list_is_empty(&turns->firsts);
}

/* Adds a thing. Returns true if no other thing has its key. */
bool turns_push(struct turns *turns, struct turn_link *turn, uint64_t key);

/* Gives the first thing of a key the last turn. */
void turns_rotate(struct turns *turns, struct turn_link *turn);

/* Removes the first thing of a key. Returns the next one of that key, which gets the last turn;
 * NULL if there is none. */
struct turn_link *turns_remove(struct turns *turns, struct turn_link *turn);

/* Removes and returns the thing whose turn it is; NULL if there is none. */
struct turn_link *turns_pop(struct turns *turns);

#endif
