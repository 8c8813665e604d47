/*
 * timer_testing.h - for tests: the seed of a run, and timers made from numbers.
 */
#ifndef TICKWHEEL_TIMER_TIMER_TESTING_H
#define TICKWHEEL_TIMER_TIMER_TESTING_H

#include "base/random.h"
#include "sys/entropy.h"
#include "timer/timer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- seeds ---- */

/* TEST_SEED when it is set, else a new one; printed either way. */
static inline uint64_t testing_seed(void)
{
    const char *text = getenv("TEST_SEED");
    uint64_t seed = 0;

    if (text)
        seed = strtoull(text, NULL, 0);
    else if (entropy_u64(&seed))
        abort();
    printf("TEST_SEED=%" PRIu64 "\n", seed);
    fflush(stdout);
    return seed;
}

/* ---- timers ---- */

static inline struct timer *testing_timer(uint16_t partition, uint64_t serial, uint64_t at_ms)
{
    char payload[64];
    struct timer_texts texts = {.target = BYTES("http://127.0.0.1:8080/hook"),
                                .labels = BYTES("{\"team\":\"checkout\"}")};
    struct timer *timer;

    texts.payload.data = payload;
    texts.payload.size = (size_t)snprintf(payload, sizeof(payload), "{\"n\":%" PRIu64 "}", serial);
    timer = timer_alloc(&texts);
    assert_non_null(timer);
    timer->id = (struct timer_id){{at_ms}, partition, serial};
    timer->due.ms = timer->at.ms = at_ms;
    timer->created.ms = 1;
    return timer;
}

#endif
