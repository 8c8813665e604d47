/* wheel_memory_test.c - memory: when there is none, and that it stays bounded; the endless runs are
 * in wheel_endless_test.c. */
#include "wheel_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <stdlib.h>

/* Takes out all that is due by `now` and returns how many. */
static size_t drain_count(struct tw_wheel *wheel, uint64_t now)
{
    struct tw_expired due[256];
    size_t count = 0;
    do
        count += tw_wheel_expire(wheel, now, due, 256);
    while (tw_wheel_is_behind(wheel));
    tw_wheel_check(wheel);
    return count;
}

/* The allocator of the fault tests: gives memory `left` times and then no more. */
struct purse {
    long left; /* negative: without end */
    size_t bytes;
};

static void *purse_allocate(void *context, size_t alignment, size_t size)
{
    struct purse *purse = context;
    if (purse->left == 0)
        return NULL;
    purse->left -= purse->left > 0;
    purse->bytes += size;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void purse_release(void *context, void *memory, size_t size)
{
    struct purse *purse = context;
    purse->bytes -= size;
    free(memory);
}

static struct tw_wheel *create_with(struct purse *purse)
{
    return tw_wheel_create(&(struct tw_wheel_options){
        .allocate = purse_allocate, .release = purse_release, .context = purse});
}

/* Goal: a failed allocation loses nothing and leaks nothing, wherever it strikes. Method: the first
 * N allocations succeed, for N = 0, 1, ... until all do. */
static void survives_the_failure_of_any_allocation(void **state)
{
    (void)state;
    enum { TIMERS = 10000 };
    bool was_enough = false;
    for (long given = 0; !was_enough; given++) {
        struct purse purse = {given, 0};
        struct tw_wheel *wheel = create_with(&purse);
        if (!wheel) {
            assert_int_equal(given, 0);
            continue;
        }
        size_t held = 0;
        was_enough = true;
        for (uint64_t i = 0; i < TIMERS; i++) {
            tw_handle timer =
                i % 3 ? tw_wheel_schedule(wheel, i * 97 % 100000, i) : tw_wheel_open(wheel, i);
            held += timer != TW_NONE && i % 3;
            was_enough = was_enough && timer != TW_NONE;
            if (timer != TW_NONE && i % 3 == 0) {
                assert_true(tw_wheel_arm(wheel, timer, i * 89 % 100000));
                held++;
            }
            if (i % 1000 == 0)
                tw_wheel_check(wheel);
        }
        assert_int_equal(tw_wheel_memory(wheel), purse.bytes);
        assert_int_equal(drain_count(wheel, 100000), held);
        tw_wheel_destroy(wheel);
        assert_int_equal(purse.bytes, 0);
        assert_true(given < 200);
    }
}

/* Goal: once a timer is held, moving it cannot fail, even when there is no memory at all any more.
 * Method: take the memory away and move all timers to earlier deadlines over and over, which needs
 * new entries each time: of few timers, for which there is little memory, more than it holds. */
static void check_moving_without_memory(uint64_t timers, uint64_t moves)
{
    const uint64_t last = 100000000, rounds = moves / timers, stretch = last / (rounds + 1);
    struct purse purse = {-1, 0};
    struct tw_wheel *wheel = create_with(&purse);
    tw_handle *handles = test_calloc(timers, sizeof(*handles));
    for (uint64_t i = 0; i < timers; i++)
        handles[i] = tw_wheel_schedule(wheel, last, i);
    purse.left = 0;
    for (uint64_t round = 1; round <= rounds; round++) {
        for (uint64_t i = 0; i < timers; i++) {
            uint64_t deadline = last - round * stretch - i * 601 % stretch;
            assert_true(tw_wheel_reschedule(wheel, handles[i], deadline));
        }
        if (round % (rounds / 40) == 0)
            tw_wheel_check(wheel);
    }
    assert_int_equal(drain_count(wheel, last), timers);
    tw_wheel_destroy(wheel);
    test_free(handles);
    assert_int_equal(purse.bytes, 0);
}

static void moving_a_timer_needs_no_memory(void **state)
{
    (void)state;
    check_moving_without_memory(1, 20000);
    check_moving_without_memory(10, 40000);
    check_moving_without_memory(300, 60000);
    check_moving_without_memory(3000, 120000);
}

static void reserve_takes_the_memory_beforehand(void **state)
{
    (void)state;
    enum { TIMERS = 150000 };
    struct purse purse = {-1, 0};
    struct tw_wheel *wheel = create_with(&purse);
    assert_true(tw_wheel_reserve(wheel, TIMERS));
    tw_wheel_check(wheel);
    purse.left = 0;
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < TIMERS; i++)
            assert_true(tw_wheel_schedule(wheel, tw_wheel_now(wheel) + i * 31, i) != TW_NONE);
        assert_int_equal(drain_count(wheel, tw_wheel_now(wheel) + TIMERS * 31), TIMERS);
    }
    assert_false(tw_wheel_reserve(wheel, TIMERS * 10));
    assert_true(tw_wheel_schedule(wheel, 5, 5) != TW_NONE);
    tw_wheel_check(wheel);
    tw_wheel_destroy(wheel);
    assert_int_equal(purse.bytes, 0);
}

/* Goal: entries of one timer at one tick, which all look alike, do not pile up. Method: timers in
 * turn are moved to the next tick and then back to the same far one, so each round makes an entry
 * at the far tick that looks like those before, while the other timers' entries there count. */
static void moving_to_and_fro_leaves_no_pile(void **state)
{
    (void)state;
    enum { TIMERS = 50, ROUNDS = 300000, FAR = 1 << 20 };
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle timers[TIMERS];
    for (uint64_t i = 0; i < TIMERS; i++)
        timers[i] = tw_wheel_schedule(wheel, FAR, i);
    size_t memory = tw_wheel_memory(wheel);
    for (uint64_t now = 1; now < ROUNDS; now++) {
        struct tw_expired due;
        assert_true(tw_wheel_reschedule(wheel, timers[now % TIMERS], now));
        assert_true(tw_wheel_reschedule(wheel, timers[now % TIMERS], FAR));
        assert_int_equal(tw_wheel_expire(wheel, now, &due, 1), 0);
    }
    tw_wheel_check(wheel);
    assert_true(tw_wheel_memory(wheel) < memory + 400000);
    assert_int_equal(drain_count(wheel, FAR), TIMERS);
    tw_wheel_destroy(wheel);
}

/* Goal: the number of entries stays below the bound of docs/wheel.md, however few timers there are.
 * Method: each move to an earlier deadline makes an entry in a bucket that the caller of this
 * function chooses: every bucket in turn, or one that the sweep has just left. */
static void check_entries_are_bounded(uint64_t timers, bool is_behind_the_sweep)
{
    enum { MOVES = 120000, LAST = LEVELS * BUCKETS - 2 };
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle *handles = test_calloc(timers, sizeof(*handles));
    size_t bound = timers + timers * 3 / 2 + 2 * STALE_SLACK + BUCKET_INLINED * LEVELS * BUCKETS;
    for (uint64_t i = 0; i < timers; i++)
        handles[i] = tw_wheel_schedule(wheel, TW_NEVER - 1, i);
    for (uint64_t i = 0; i < MOVES; i++) {
        unsigned swept = wheel->sweep_level * BUCKETS + wheel->sweep_slot;
        unsigned end = is_behind_the_sweep && swept > 1 && swept <= LAST ? swept : LAST;
        unsigned place = 1 + (unsigned)(i * 7919 % (end - 1));
        uint64_t slot = place % BUCKETS ? place % BUCKETS : 1;
        tw_handle timer = handles[i % timers];
        assert_true(tw_wheel_reschedule(wheel, timer, slot << (place / BUCKETS * DIGIT_BITS)));
        assert_true(tw_wheel_reschedule(wheel, timer, TW_NEVER - 1));
        struct tw_wheel_occupancy occupancy;
        if (i % 64 == 0) {
            tw_wheel_get_occupancy(wheel, &occupancy);
            assert_true(occupancy.entry_count <= bound);
        }
    }
    tw_wheel_check(wheel);
    tw_wheel_destroy(wheel);
    test_free(handles);
}

static void stale_entries_are_bounded(void **state)
{
    (void)state;
    check_entries_are_bounded(1, false);
    check_entries_are_bounded(1, true);
    check_entries_are_bounded(100, true);
    check_entries_are_bounded(3000, false);
    check_entries_are_bounded(3000, true);
}

/* Goal: a sweep keeps what counts on every level, near and far. Method: timers at each distance of
 * 2^k are moved a little earlier until there have been sweeps, and then all fire at their ticks. */
static void sweeping_loses_no_timer_at_any_distance(void **state)
{
    (void)state;
    enum { ROUNDS = 200, BITS = 63, FIRST_BIT = 10 };
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle timers[BITS + 1];
    for (uint64_t bit = FIRST_BIT; bit <= BITS; bit++)
        timers[bit] = tw_wheel_schedule(wheel, UINT64_C(1) << bit, bit);
    uint32_t first_sweep = wheel->sweep_number;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (uint64_t bit = FIRST_BIT; bit <= BITS; bit++)
            assert_true(tw_wheel_reschedule(wheel, timers[bit], (UINT64_C(1) << bit) - round));
        tw_wheel_check(wheel);
    }
    assert_true(wheel->sweep_number - first_sweep >= 2);
    for (uint64_t bit = FIRST_BIT; bit <= BITS; bit++) {
        uint64_t deadline = (UINT64_C(1) << bit) - ROUNDS;
        assert_int_equal(drain_count(wheel, deadline - 1), 0);
        assert_int_equal(drain_count(wheel, deadline), 1);
    }
    tw_wheel_destroy(wheel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_the_failure_of_any_allocation),
        cmocka_unit_test(moving_a_timer_needs_no_memory),
        cmocka_unit_test(reserve_takes_the_memory_beforehand),
        cmocka_unit_test(moving_to_and_fro_leaves_no_pile),
        cmocka_unit_test(stale_entries_are_bounded),
        cmocka_unit_test(sweeping_loses_no_timer_at_any_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
