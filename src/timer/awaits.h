/*
 * awaits.h - the attempt of a timer whose receiver answers later: the text `awaits` of its row.
 *
 * Such a timer is DELIVERING with a row at the time until which it waits, so that a restart, or
 * another node, waits on. The attempt has no outcome yet and is not counted in `attempts`. Who has
 * the token, random and new with each attempt, ends it or puts that time off.
 *
 * Threads    None; pure functions.
 */
#ifndef TICKWHEEL_TIMER_AWAITS_H
#define TICKWHEEL_TIMER_AWAITS_H

#include "timer/timer.h"

#define AWAITS_TOKEN_SIZE 32 /* lower-case hexadecimal digits: 128 random bits */
#define AWAITS_TEXT_SIZE  (AWAITS_TOKEN_SIZE + 16)

#define ACK_TIMEOUT_MS_MIN UINT64_C(1000)
#define ACK_TIMEOUT_MS_MAX (UINT64_C(12) * 3600 * 1000)

struct awaits {
    struct bytes token;  /* slice of the text */
    uint64_t started_us; /* begin of the attempt, in microseconds since 1970 */
};

void awaits_format(struct bytes token, uint64_t started_us, char ret_text[AWAITS_TEXT_SIZE]);

/* Returns false for any text that awaits_format would not write. */
bool awaits_read(struct bytes text, struct awaits *ret_awaits);

/* True for 32 lower-case hexadecimal digits. */
bool awaits_is_token(struct bytes text);

/* True if the timer waits for the later answer of its receiver. */
static inline bool timer_awaits(const struct timer *timer)
{
    return timer->state == TIMER_DELIVERING && timer->texts.awaits.size > 0;
}

#define ACK_TIMEOUT_TEXT_SIZE 9 /* digits of ACK_TIMEOUT_MS_MAX, and the NUL */

/* Writes the text `ack_timeout` of a timer, a number of milliseconds. */
void ack_timeout_format(uint64_t ms, char ret_text[ACK_TIMEOUT_TEXT_SIZE]);

/* Returns the time that the timer's receiver has, in milliseconds; `usual_ms` if the timer says
 * nothing. */
uint64_t ack_timeout_ms(const struct timer *timer, uint64_t usual_ms);

#endif
