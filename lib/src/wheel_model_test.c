/*
 * wheel_model_test.c - random verbs to a wheel and to a model, which must agree on everything.
 *
 * Each seed is a run of its own: where its clock starts, how far its deadlines and its jumps reach,
 * how many timers there are and which verbs prevail are drawn first. TEST_SEED replays one seed,
 * TEST_SEEDS says how many to run.
 */
#include "wheel_oracle.h"

#include "wheel_private.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { VERBS = 4000, VERB_KINDS = 9, SEEDS_DEFAULT = 300 };

static uint64_t draw(uint64_t *state)
{
    uint64_t mixed = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return mixed ^ mixed >> 31;
}

static uint64_t below(uint64_t *state, uint64_t bound)
{
    return draw(state) % bound;
}

/* A number of up to `bits` bits, small ones as likely as large ones. */
static uint64_t magnitude(uint64_t *state, unsigned bits)
{
    unsigned used = (unsigned)below(state, bits + 1u);
    return used == 0 ? 0 : draw(state) >> (64 - used);
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > TW_NEVER - b ? TW_NEVER : a + b;
}

/* Just before the places where carries run: each power of 256, 2^32, 2^63, the end of time. */
static uint64_t draw_start(uint64_t *state)
{
    uint64_t before = below(state, 600);
    switch (below(state, 5)) {
    case 0:
        return below(state, 1000);
    case 1:
        return draw(state);
    case 2:
        return TW_NEVER - before;
    case 3:
        return (UINT64_C(1) << 63) - before;
    default:
        return (UINT64_C(1) << (8 * (1 + below(state, 7)))) - (before < 256 ? before : 256);
    }
}

struct wheel_model_plan {
    unsigned reach_bits; /* of deadlines, from now */
    unsigned jump_bits;  /* of time */
    size_t timers;
    unsigned weights[VERB_KINDS]; /* of the verbs, in the order of the switch below */
};

static struct wheel_model_plan draw_plan(uint64_t *state)
{
    struct wheel_model_plan plan = {.reach_bits = 3 + (unsigned)below(state, 61),
                                    .jump_bits = (unsigned)below(state, 64),
                                    .timers = 1 + magnitude(state, 9)};
    if (below(state, 2)) /* most time-outs are near */
        plan.reach_bits = plan.reach_bits % 20 + 3;
    if (below(state, 2))
        plan.jump_bits = plan.jump_bits % (plan.reach_bits + 1);
    for (int i = 0; i < VERB_KINDS; i++)
        plan.weights[i] = 1 + (unsigned)magnitude(state, 6);
    return plan;
}

static uint64_t draw_deadline(uint64_t *state, const struct wheel_model_plan *plan, uint64_t now)
{
    uint64_t reach = magnitude(state, plan->reach_bits);
    switch (below(state, 12)) {
    case 0:
        return TW_NEVER - below(state, 3);
    case 1:
        return now - (reach < now ? reach : now); /* overdue */
    case 2:
        return add(now, reach) & ~UINT64_C(0xff); /* at a boundary */
    case 3:
        return add(now, reach) | 0xffff;
    default:
        return add(now, reach);
    }
}

static uint64_t draw_now(uint64_t *state, const struct wheel_model_plan *plan,
                         const struct trial *trial)
{
    uint64_t wake_at = tw_wheel_wake_at(trial->wheel);
    uint64_t earliest = trial_earliest(trial);
    switch (below(state, 8)) {
    case 0:
        return wake_at;
    case 1:
        return wake_at - (wake_at > 0);
    case 2:
        return earliest == TW_NEVER ? trial->now : earliest;
    case 3:
        return trial->now - magnitude(state, 8) % (trial->now + 1); /* backwards */
    case 4:
        return add(trial->now, 1);
    default:
        return add(trial->now, magnitude(state, plan->jump_bits));
    }
}

static void do_many(struct trial *trial, const struct wheel_model_plan *plan, uint64_t *state,
                    size_t which, uint64_t deadline)
{
    enum trial_many verb = (enum trial_many)below(state, TRIAL_MANY_COUNT);
    size_t count = (size_t)magnitude(state, 8);
    if (verb == TRIAL_SCHEDULE_MANY && count > plan->timers - trial->count)
        count = plan->timers - trial->count;
    trial_many(trial, verb, which, count, deadline, magnitude(state, plan->reach_bits));
}

static void do_verb(struct trial *trial, const struct wheel_model_plan *plan, uint64_t *state)
{
    unsigned total = 0, verb = 0;
    for (int i = 0; i < VERB_KINDS; i++)
        total += plan->weights[i];
    unsigned pick = (unsigned)below(state, total);
    while (pick >= plan->weights[verb])
        pick -= plan->weights[verb++];
    uint64_t deadline = draw_deadline(state, plan, trial->now);
    size_t which = (size_t)draw(state) % TRIAL_TIMERS_MAX;
    size_t limit = (size_t)magnitude(state, 8);
    switch (verb) {
    case 0:
        if (trial->count < plan->timers)
            trial_schedule(trial, deadline);
        break;
    case 1:
        if (trial->count < plan->timers)
            trial_open(trial);
        break;
    case 2:
        trial_set(trial, which, deadline);
        break;
    case 3:
        trial_disarm(trial, which);
        break;
    case 4:
        trial_end(trial, which);
        break;
    case 5:
        trial_use_stale(trial, which, deadline);
        break;
    case 6:
        trial_expire(trial, draw_now(state, plan, trial), limit);
        break;
    case 7:
        trial_drain(trial, draw_now(state, plan, trial), 1 + limit);
        break;
    default:
        do_many(trial, plan, state, which, deadline);
    }
}

static void run_seed(uint64_t seed, struct trial *ret_sums)
{
    uint64_t state = seed;
    struct trial *trial = test_malloc(sizeof(*trial));
    struct wheel_model_plan plan = draw_plan(&state);
    struct tw_wheel_options options = {.start = draw_start(&state)};
    static const uint32_t moves[] = {64, 100, 1000, TW_WHEEL_MOVES_MAX};
    static const uint32_t slacks[] = {0, 16, 200, STALE_SLACK};
    trial_init(trial, &options, moves[below(&state, 4)], slacks[below(&state, 4)]);
    unsigned every = 1u << below(&state, 6);
    for (unsigned i = 0; i < VERBS; i++) {
        do_verb(trial, &plan, &state);
        if (i % every == 0)
            trial_check(trial);
    }
    /* In the end all come out or are ended, and nothing is left. */
    while (trial->count && below(&state, 4))
        trial_end(trial, 0);
    trial_drain(trial, TW_NEVER, 7);
    trial_check(trial);
    ret_sums->fired_count += trial->fired_count;
    ret_sums->verb_count += trial->verb_count;
    trial_deinit(trial);
    test_free(trial);
}

/* Goal: no sequence of verbs makes the wheel differ from the model. Method: many seeds, each
 * printed before it runs. */
static void wheel_agrees_with_the_model(void **state)
{
    (void)state;
    const char *many = getenv("TEST_SEEDS");
    struct trial *sums = test_calloc(1, sizeof(*sums));
    uint64_t first = testing_seed();
    uint64_t count = getenv("TEST_SEED") ? 1 : many ? strtoull(many, NULL, 0) : SEEDS_DEFAULT;
    for (uint64_t seed = first; seed < first + count; seed++) {
        testing_seed_print(seed);
        run_seed(seed, sums);
    }
    printf("%" PRIu64 " seeds from TEST_SEED=%" PRIu64 ": %" PRIu64 " verbs, %" PRIu64 " fired\n",
           count, first, sums->verb_count, sums->fired_count);
    test_free(sums);
}

/* A random run met this once in a few hundred thousand. Goal: a timer armed for a past tick while
 * the bucket of its stale entry is being opened fires once. Method: its two entries look equal,
 * because the bucket starts at a multiple of 2^32 and both are at tick 0 of the low half. */
static void overdue_while_its_bucket_is_opened(void **state)
{
    (void)state;
    enum { OTHERS = 7 }; /* more than a bucket has in its line */
    const uint64_t start = UINT64_C(1) << 32;
    struct tw_wheel_options options = {.start = start - 10};
    struct trial *trial = test_malloc(sizeof(*trial));
    trial_init(trial, &options, 64, STALE_SLACK);
    for (unsigned i = 0; i < OTHERS; i++)
        trial_schedule(trial, start);
    trial_open(trial);
    trial_set(trial, OTHERS, start);
    trial_set(trial, OTHERS, start - 5);
    trial_expire(trial, start - 5, 1);
    assert_int_equal(trial->fired_count, 1);
    trial_expire(trial, start, 1);
    assert_true(trial->wheel->phase == PHASE_OPENING && trial->wheel->taken.head);
    trial_set(trial, OTHERS, start - 5);
    trial_check(trial);
    trial_drain(trial, start, 1);
    trial_check(trial);
    assert_int_equal(trial->fired_count, 2 + OTHERS);
    trial_deinit(trial);
    test_free(trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overdue_while_its_bucket_is_opened),
        cmocka_unit_test(wheel_agrees_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
