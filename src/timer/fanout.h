/*
 * fanout.h - a timer with several targets, and the part that each target gets.
 *
 * When such a timer is due, the engine makes a *part* for each of its `targets`: a timer of the
 * same partition with that target, and attempts, retries and a dead letter of its own. The timer
 * keeps how each part stands, and is over when all parts are:
 *
 *     struct fanout fanout;
 *     if (fanout_read(timer, &fanout))
 *         ... fanout.parts[i].target, fanout.parts[i].state ...
 *
 * Texts      `targets` has a line for each target. `parts` of the timer has a line about the firing
 *            (due time, start, `known`), and a line for each part.
 *            `parts` of a part is "of ID".
 * Errors     A text that is damaged reads as one without parts.
 * Ownership  A fanout borrows the texts of its timer.
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_TIMER_FANOUT_H
#define TICKWHEEL_TIMER_FANOUT_H

#include "timer/timer.h"

#define FANOUT_PARTS_MAX 16
/* Maximum size of the last error of a part; a longer one is cut. */
#define FANOUT_ERROR_SIZE_MAX 200
/* Maximum size of the text `parts`. */
#define FANOUT_TEXT_SIZE_MAX (64 + FANOUT_PARTS_MAX * (FANOUT_ERROR_SIZE_MAX + 64))

/* X(NAME, letter on disk, text): the text is that of the API. */
#define FANOUT_STATE_LIST(X)    \
    X(UNMADE, 's', "scheduled") \
    X(OPEN, 'o', "delivering")  \
    X(FIRED, 'f', "fired")      \
    X(DEAD, 'd', "dead")        \
    X(CANCELLED, 'c', "cancelled")

enum fanout_state {
#define X(name, letter, text) FANOUT_##name,
    FANOUT_STATE_LIST(X)
#undef X
        FANOUT_STATE_COUNT,
};

struct fanout_part {
    struct bytes target;
    enum fanout_state state;
    uint32_t attempts;       /* attempts of a part that is over */
    bool has_id;             /* false until the part is made */
    struct timer_id id;      /* id of the timer that delivers to the target */
    struct bytes last_error; /* how the part failed; empty if it did not */
};

struct fanout {
    struct wall due;     /* due time of the parts' firing; 0 if there is none yet */
    struct wall started; /* time at which the parts were made; 0 if they are not */
    uint64_t known; /* changes when an engine may not know how each part stands (engine/fanout.c) */
    size_t count;
    struct fanout_part parts[FANOUT_PARTS_MAX];
};

const char *fanout_state_text(enum fanout_state state);

/* Finds the state with this text. Returns false if there is none. */
bool fanout_state_find(struct bytes text, enum fanout_state *ret_state);

/* True if the timer has several targets. */
static inline bool fanout_is_parent(const struct timer *timer)
{
    return timer->texts.targets.size > 0;
}

/* True if the timer is a part. `ret_parent` is the timer that it belongs to; NULL if unwanted. */
bool fanout_is_part(const struct timer *timer, struct timer_id *ret_parent);

/* Removes the next target from `targets`. Returns false if there is none. */
bool fanout_next_target(struct bytes *targets, struct bytes *ret_target);

/* Reads the targets and how their parts stand. Returns false if the timer has no `targets`. */
bool fanout_read(const struct timer *timer, struct fanout *ret_fanout);

/* Writes the text `parts`. */
struct bytes fanout_write(const struct fanout *fanout, char room[FANOUT_TEXT_SIZE_MAX]);

/* Writes the text `parts` of a part of the timer with this id. */
#define FANOUT_OF_SIZE (3 + TIMER_ID_TEXT_SIZE)
struct bytes fanout_write_of(const struct timer_id *parent, char room[FANOUT_OF_SIZE]);

/* Returns the number of parts in this state. */
size_t fanout_count(const struct fanout *fanout, enum fanout_state state);

/* True if the timer waits until the parts of its firing are over. */
bool fanout_is_waiting(const struct timer *timer);

/* Returns the state as clients see it: DELIVERING while the timer waits for its parts. */
static inline enum timer_state fanout_shown_state(const struct timer *timer)
{
    return fanout_is_waiting(timer) ? TIMER_DELIVERING : timer->state;
}

/* True if a part of this or an earlier firing is not over. */
bool fanout_is_open(const struct timer *timer);

#endif
