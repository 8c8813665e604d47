/*
 * Goal: the counts of live timers are those of the rows and the timers in memory, while a walk goes
 * on and after it. Method: random timers move between a model of rows and a model of memory, as the
 * engine moves them; the counts are compared with a count of all of them when the walk is complete.
 */
#include "engine/live.h"

#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { TIMERS = 2000, ORIGINS = 300, TENANTS = 3, STEPS = 40000 };

struct model_timer {
    struct timer *timer;
    struct live_mark mark;
    bool is_in_memory;
    bool is_queued;
};

static const struct bytes tenants[TENANTS] = {{"", 0}, {"a", 1}, {"shop", 4}};

static struct timer *live_model_alloc(struct random *random, uint64_t serial)
{
    char target[64];
    const int size = snprintf(target, sizeof(target), "https://h%u.example/x",
                              (unsigned)random_below(random, ORIGINS));
    struct timer *timer = timer_alloc(&(struct timer_texts){
        .target = {target, (size_t)size},
        .last_error = random_below(random, 2) ? BYTES("not tried: it failed") : BYTES("HTTP 500"),
        .tenant = tenants[random_below(random, TENANTS)]});

    assert_non_null(timer);
    timer->id.serial = serial;
    timer->at.ms = 1 + random_below(random, 1000);
    return timer;
}

static void live_model_change(struct random *random, struct live *live, struct model_timer *of)
{
    static const enum timer_state states[] = {TIMER_SCHEDULED, TIMER_RETRYING, TIMER_PAUSED,
                                              TIMER_DELIVERING, TIMER_FIRED};

    of->timer->state = states[random_below(random, 5)];
    of->timer->at.ms = 1 + random_below(random, 1000);
    live_show(live, &of->mark, of->timer);
    of->is_queued = random_below(random, 2) && !timer_is_final(of->timer->state);
    if (of->is_queued)
        live_queue(live, &of->mark);
    if (of->timer->state != TIMER_FIRED)
        return;
    live_leave(live, &of->mark, of->timer);
    timer_free(of->timer);
    *of = (struct model_timer){0};
}

static void live_model_step(struct random *random, struct live *live, struct model_timer *of,
                            uint64_t serial)
{
    if (!of->timer) {
        of->timer = live_model_alloc(random, serial);
        of->is_in_memory = true;
        of->mark.as = LIVE_AS_NOTHING;
        live_show(live, &of->mark, of->timer);
    } else if (!of->is_in_memory) {
        of->mark = (struct live_mark){.as = LIVE_AS_ROW};
        live_take_in(live, &of->mark, of->timer);
        of->is_in_memory = true;
    } else if (random_below(random, 2)) {
        live_model_change(random, live, of);
    } else if (of->timer->state != TIMER_DELIVERING) {
        live_leave(live, &of->mark, of->timer);
        of->is_queued = false;
        of->is_in_memory = false;
    }
}

/* A page of a walk: all rows before the position that are not in memory. */
static void live_model_walk(struct live *live, struct model_timer *timers, uint64_t from,
                            uint64_t to)
{
    for (size_t i = 0; i < TIMERS; i++)
        if (timers[i].timer && !timers[i].is_in_memory && timers[i].timer->at.ms >= from &&
            timers[i].timer->at.ms < to)
            live_walk_row(live, timers[i].timer);
    live_walked(live, (struct storage_position){{from}, 0}, (struct storage_position){{to}, 0});
}

/* The postponed timers are those that are in no queue, and none is due before their oldest. */
static void live_model_compare_postponed(const struct live *live, const struct model_timer *timers)
{
    const struct live_postponed *postponed = NULL;
    uint64_t counts[TENANTS] = {0}, expected[TENANTS] = {0};
    struct wall oldest[TENANTS], due[TENANTS];

    for (size_t t = 0; t < TENANTS; t++)
        oldest[t] = due[t] = WALL_NEVER;
    while ((postponed = live_next_postponed(live, postponed)))
        for (size_t t = 0; t < TENANTS; t++)
            if (bytes_equal(live_postponed_tenant(postponed), tenants[t])) {
                counts[t] += postponed->count;
                oldest[t] = wall_min(oldest[t], live_postponed_oldest(postponed));
            }
    for (size_t i = 0; i < TIMERS; i++)
        for (size_t t = 0; t < TENANTS; t++)
            if (timers[i].timer && !timers[i].is_queued && timer_is_postponed(timers[i].timer) &&
                bytes_equal(timers[i].timer->texts.tenant, tenants[t])) {
                expected[t]++;
                due[t] = wall_min(due[t], timers[i].timer->due);
            }
    assert_memory_equal(counts, expected, sizeof(counts));
    for (size_t t = 0; t < TENANTS; t++)
        assert_true(expected[t] > 0 && oldest[t].ms <= due[t].ms);
}

static void live_model_compare(struct live *live, const struct model_timer *timers)
{
    live_check(live);
    live_model_compare_postponed(live, timers);
    for (size_t t = 0; t < TENANTS; t++) {
        uint64_t expected[LIVE_STATES] = {0}, counted[LIVE_STATES] = {0};
        const struct live_row *row = NULL;

        for (size_t i = 0; i < TIMERS; i++)
            if (timers[i].timer && bytes_equal(timers[i].timer->texts.tenant, tenants[t]))
                expected[timers[i].timer->state]++;
        while ((row = live_next(live, tenants[t], row))) {
            const struct bytes origin = {row->origin, row->origin_size};
            uint64_t of_origin = 0;

            for (size_t i = 0; i < TIMERS; i++)
                of_origin += timers[i].timer && origin.size &&
                             bytes_equal(timers[i].timer->texts.tenant, tenants[t]) &&
                             bytes_equal(timer_shown_origin(timers[i].timer), origin);
            assert_true(!origin.size || row->total == of_origin);
            for (size_t s = 0; s < LIVE_STATES; s++)
                counted[s] += row->counts[s];
        }
        assert_memory_equal(expected, counted, sizeof(expected));
    }
}

/* proves: count */
static void counts_are_those_of_all_timers(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct model_timer *timers = calloc(TIMERS, sizeof(*timers));
    struct live *live = live_create();
    uint64_t serial = 0, walked = 0;

    (void)state;
    for (size_t step = 0; step < STEPS; step++) {
        live_model_step(&random, live, &timers[random_below(&random, TIMERS)], ++serial);
        if (step % 1000 || walked > 1000)
            continue;
        assert_false(live_is_complete(live));
        live_model_walk(live, timers, walked, walked + 50);
        walked += 50;
    }
    live_walked(live, (struct storage_position){{walked}, 0},
                (struct storage_position){STORAGE_DEAD_FROM, 0});
    assert_true(live_is_complete(live));
    live_model_compare(live, timers);
    for (size_t step = 0; step < STEPS; step++)
        live_model_step(&random, live, &timers[random_below(&random, TIMERS)], ++serial);
    live_model_compare(live, timers);
    for (size_t i = 0; i < TIMERS; i++)
        timer_free(timers[i].timer);
    free(timers);
    live_destroy(live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_all_timers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
