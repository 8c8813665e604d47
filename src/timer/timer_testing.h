/*
 * timer_testing.h - for tests: timers made from numbers.
 */
#ifndef TICKWHEEL_TIMER_TIMER_TESTING_H
#define TICKWHEEL_TIMER_TIMER_TESTING_H

#include "base/random.h"
#include "timer/timer.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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
