/* wheel_test.c - the wheel's contract, sentence by sentence. */
#include "wheel_private.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Takes out all that is due by `now`, a few at a time, and returns how many; the first into
 * `ret_due`. */
static size_t drain(struct tw_wheel *wheel, uint64_t now, struct tw_expired *ret_due, size_t room)
{
    struct tw_expired due[7];
    size_t count = 0;
    do {
        size_t n = tw_wheel_expire(wheel, now, due, 7);
        for (size_t i = 0; i < n; i++, count++)
            if (count < room)
                ret_due[count] = due[i];
        tw_wheel_check(wheel);
    } while (tw_wheel_is_behind(wheel));
    return count;
}

static size_t drain_count(struct tw_wheel *wheel, uint64_t now)
{
    return drain(wheel, now, NULL, 0);
}

/* Goal: a timer fires at its tick, not before, whatever level it starts on. Method: one timer per
 * distance of 2^k, and the tick before its deadline. */
static void fires_at_its_tick_and_not_before(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        struct tw_wheel *wheel = tw_wheel_create(NULL);
        uint64_t deadline = UINT64_C(1) << bit;
        struct tw_expired due;
        tw_handle timer = tw_wheel_schedule(wheel, deadline, 40 + bit);
        assert_true(timer != TW_NONE);
        assert_int_equal(tw_wheel_wake_at(wheel), deadline);
        assert_int_equal(drain_count(wheel, deadline - 1), 0);
        assert_int_equal(tw_wheel_wake_at(wheel), deadline);
        assert_int_equal(drain(wheel, deadline, &due, 1), 1);
        assert_int_equal(due.data, 40 + bit);
        assert_int_equal(due.deadline, deadline);
        assert_int_equal(due.timer, timer);
        assert_int_equal(tw_wheel_wake_at(wheel), TW_NEVER);
        assert_int_equal(tw_wheel_count(wheel), 0);
        tw_wheel_destroy(wheel);
    }
}

static void fires_in_order_of_deadline(void **state)
{
    (void)state;
    static const uint64_t deadlines[] = {70000, 5, 300, UINT64_C(1) << 40, 299, 70001, 5, 256};
    static const uint64_t in_order[] = {5, 5, 256, 299, 300, 70000, 70001, UINT64_C(1) << 40};
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    struct tw_expired due[8];
    for (size_t i = 0; i < 8; i++)
        assert_true(tw_wheel_schedule(wheel, deadlines[i], i) != TW_NONE);
    assert_int_equal(drain(wheel, UINT64_C(1) << 50, due, 8), 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(due[i].deadline, in_order[i]);
    tw_wheel_destroy(wheel);
}

static void a_deadline_already_reached_is_due_at_once(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.start = 1000});
    struct tw_expired due[2];
    assert_true(tw_wheel_schedule(wheel, 3, 1) != TW_NONE);
    assert_true(tw_wheel_schedule(wheel, 1000, 2) != TW_NONE);
    assert_true(tw_wheel_is_behind(wheel));
    assert_true(tw_wheel_wake_at(wheel) <= 1000);
    assert_int_equal(drain(wheel, 1000, due, 2), 2);
    assert_int_equal(due[0].deadline + due[1].deadline, 1003);
    tw_wheel_destroy(wheel);
}

static void never_never_comes(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle timer = tw_wheel_schedule(wheel, TW_NEVER, 1);
    assert_true(timer != TW_NONE);
    assert_true(tw_wheel_schedule(wheel, TW_NEVER - 1, 2) != TW_NONE);
    assert_int_equal(tw_wheel_count(wheel), 1);
    assert_int_equal(drain_count(wheel, TW_NEVER), 1);
    assert_int_equal(tw_wheel_now(wheel), TW_NEVER - 1);
    assert_int_equal(tw_wheel_wake_at(wheel), TW_NEVER);
    assert_true(tw_wheel_reschedule(wheel, timer, 7)); /* overdue at the end of time */
    assert_int_equal(drain_count(wheel, TW_NEVER), 1);
    tw_wheel_destroy(wheel);
}

static void a_limit_hands_out_the_rest_later(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    struct tw_expired due[1000];
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(tw_wheel_schedule(wheel, 500 + i / 400, i) != TW_NONE);
    assert_int_equal(tw_wheel_expire(wheel, 600, due, 0), 0);
    assert_true(tw_wheel_is_behind(wheel));
    size_t count = 0;
    for (size_t limit = 1; count < 1000; limit++) {
        assert_true(tw_wheel_is_behind(wheel));
        assert_true(tw_wheel_wake_at(wheel) <= 600);
        size_t n = tw_wheel_expire(wheel, 600, &due[count], limit);
        assert_int_equal(n, limit < 1000 - count ? limit : 1000 - count);
        count += n;
        tw_wheel_check(wheel);
    }
    for (size_t i = 1; i < 1000; i++)
        assert_true(due[i - 1].deadline <= due[i].deadline);
    assert_int_equal(drain_count(wheel, 600), 0);
    tw_wheel_destroy(wheel);
}

static void an_earlier_now_changes_nothing(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    assert_int_equal(drain_count(wheel, 5000), 0);
    assert_true(tw_wheel_schedule(wheel, 6000, 1) != TW_NONE);
    assert_int_equal(drain_count(wheel, 10), 0);
    assert_int_equal(tw_wheel_now(wheel), 5000);
    assert_int_equal(drain_count(wheel, 5999), 0);
    assert_int_equal(drain_count(wheel, 6000), 1);
    tw_wheel_destroy(wheel);
}

static void a_handle_is_stale_after_firing_and_after_cancelling(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle fired = tw_wheel_schedule(wheel, 10, 1);
    tw_handle cancelled = tw_wheel_schedule(wheel, 20, 2);
    assert_int_equal(drain_count(wheel, 10), 1);
    assert_true(tw_wheel_cancel(wheel, cancelled));
    assert_false(tw_wheel_cancel(wheel, cancelled));
    /* Both slots are used again, and the old handles do not reach their new timers. */
    tw_handle first = tw_wheel_schedule(wheel, 30, 3);
    tw_handle second = tw_wheel_schedule(wheel, 30, 4);
    assert_true((uint32_t)first == (uint32_t)cancelled || (uint32_t)first == (uint32_t)fired);
    assert_true((uint32_t)second == (uint32_t)cancelled || (uint32_t)second == (uint32_t)fired);
    assert_false(tw_wheel_cancel(wheel, fired));
    assert_false(tw_wheel_cancel(wheel, cancelled));
    assert_false(tw_wheel_reschedule(wheel, fired, 11));
    assert_false(tw_wheel_reschedule(wheel, cancelled, 11));
    assert_false(tw_wheel_cancel(wheel, TW_NONE));
    assert_int_equal(drain_count(wheel, 29), 0);
    assert_int_equal(drain_count(wheel, 30), 2);
    tw_wheel_destroy(wheel);
}

/* Goal: no handle ever comes back to life. Method: a slot set near the end of its generations is
 * let until it is let no more, and every old handle is tried. */
static void a_slot_whose_generations_are_used_up_is_let_no_more(void **state)
{
    (void)state;
    enum { LEFT = 5 };
    struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.timer_count_max = 1});
    tw_handle olds[LEFT + 3];
    assert_true(tw_wheel_cancel(wheel, tw_wheel_schedule(wheel, 1, 0)));
    struct wheel_record *record = tw__wheel_record(wheel, 0);
    record->generation =
        (GENERATION_RETIRED - LEFT * GENERATION_STEP) | (record->generation & NOT_IN_HANDLE);
    for (int i = 0; i < LEFT + 3; i++) {
        olds[i] = tw_wheel_schedule(wheel, 50 + (uint64_t)i, 7);
        assert_true(olds[i] != TW_NONE);
        assert_int_equal((uint32_t)olds[i], i < LEFT ? 0 : 1);
        assert_int_equal(tw_wheel_schedule(wheel, 9, 9), TW_NONE); /* the limit still holds */
        assert_true(tw_wheel_cancel(wheel, olds[i]));
        for (int j = 0; j <= i; j++)
            assert_false(tw_wheel_cancel(wheel, olds[j]));
        tw_wheel_check(wheel);
    }
    assert_int_equal(wheel->retired_count, 1);
    assert_int_equal(drain_count(wheel, 1000), 0);
    tw_wheel_destroy(wheel);
}

static void rescheduling_moves_both_ways(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle timer = tw_wheel_schedule(wheel, 1000, 1);
    assert_true(tw_wheel_reschedule(wheel, timer, 100));
    assert_int_equal(tw_wheel_wake_at(wheel), 100);
    assert_true(tw_wheel_reschedule(wheel, timer, 5000));
    assert_true(tw_wheel_reschedule(wheel, timer, TW_NEVER));
    assert_int_equal(tw_wheel_count(wheel), 0);
    assert_int_equal(tw_wheel_wake_at(wheel), TW_NEVER);
    assert_int_equal(drain_count(wheel, 2000), 0);
    assert_true(tw_wheel_reschedule(wheel, timer, 70000));
    assert_true(tw_wheel_reschedule(wheel, timer, 2500));
    assert_int_equal(drain_count(wheel, 2499), 0);
    assert_int_equal(drain_count(wheel, 2500), 1);
    assert_false(tw_wheel_reschedule(wheel, timer, 3000));
    assert_int_equal(drain_count(wheel, 100000), 0);
    tw_wheel_destroy(wheel);
}

/* Goal: extending a deadline is a store. Method: count the entries a million of them make. */
static void a_later_deadline_makes_no_entry(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle timer = tw_wheel_schedule(wheel, 1000, 1);
    uint32_t chunks = wheel->chunk_used;
    for (uint64_t i = 1; i <= 1000000; i++)
        assert_true(tw_wheel_reschedule(wheel, timer, 1000 + i));
    assert_int_equal(wheel->chunk_used, chunks);
    assert_int_equal(wheel->stale_count, 0);
    assert_int_equal(wheel->visit_count, 0);
    assert_int_equal(drain_count(wheel, 1000999), 0);
    assert_int_equal(drain_count(wheel, 1001000), 1);
    tw_wheel_destroy(wheel);
}

static void an_opened_timer_is_armed_many_times(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    struct tw_expired due;
    tw_handle timer = tw_wheel_open(wheel, 77);
    assert_int_equal(tw_wheel_count(wheel), 0);
    assert_int_equal(drain_count(wheel, 10), 0);
    assert_false(tw_wheel_disarm(wheel, timer));
    for (uint64_t round = 1; round <= 100; round++) {
        assert_true(tw_wheel_arm(wheel, timer, round * 1000));
        assert_int_equal(tw_wheel_count(wheel), 1);
        assert_int_equal(drain_count(wheel, round * 1000 - 1), 0);
        assert_int_equal(drain(wheel, round * 1000, &due, 1), 1);
        assert_int_equal(due.data, 77);
        assert_int_equal(due.timer, timer);
        assert_int_equal(drain_count(wheel, round * 1000 + 500), 0);
    }
    assert_true(tw_wheel_arm(wheel, timer, 200000));
    assert_true(tw_wheel_disarm(wheel, timer));
    assert_false(tw_wheel_disarm(wheel, timer));
    assert_int_equal(drain_count(wheel, 300000), 0);
    assert_true(tw_wheel_arm(wheel, timer, 400000));
    assert_true(tw_wheel_close(wheel, timer));
    assert_false(tw_wheel_close(wheel, timer));
    assert_false(tw_wheel_arm(wheel, timer, 1));
    assert_false(tw_wheel_disarm(wheel, timer));
    assert_int_equal(drain_count(wheel, 500000), 0);
    tw_wheel_destroy(wheel);
}

static void the_limit_on_timers_holds(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.timer_count_max = 100});
    tw_handle timers[100];
    assert_false(tw_wheel_reserve(wheel, 101));
    assert_true(tw_wheel_reserve(wheel, 100));
    for (int i = 0; i < 100; i++) {
        timers[i] = i % 2 ? tw_wheel_open(wheel, 1) : tw_wheel_schedule(wheel, 50, 1);
        assert_true(timers[i] != TW_NONE);
    }
    assert_int_equal(tw_wheel_schedule(wheel, 50, 1), TW_NONE);
    assert_int_equal(tw_wheel_open(wheel, 1), TW_NONE);
    assert_true(tw_wheel_close(wheel, timers[99]));
    assert_true(tw_wheel_schedule(wheel, 50, 1) != TW_NONE);
    assert_int_equal(tw_wheel_open(wheel, 1), TW_NONE);
    tw_wheel_check(wheel);
    tw_wheel_destroy(wheel);
}

/* A bucket of many timers on the level of the digit at `bits`, in no order, every other one moved
 * on or cancelled, is opened in portions and then fires in order. */
static void check_that_work_is_bounded(unsigned bits, uint64_t timers)
{
    enum { LIMIT = 100 };
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    struct tw_expired due[LIMIT];
    for (uint64_t i = 0; i < timers; i++) {
        uint64_t mixed = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        uint64_t deadline = (UINT64_C(5) << bits) + (mixed >> (64 - bits));
        tw_handle timer = tw_wheel_schedule(wheel, deadline, i);
        if (i % 4 == 1)
            assert_true(tw_wheel_reschedule(wheel, timer, deadline + 1));
        else if (i % 4 == 3)
            assert_true(tw_wheel_cancel(wheel, timer));
    }
    uint64_t waiting = tw_wheel_count(wheel), now = (UINT64_C(6) << bits) + 1;
    uint64_t empty = 0, last = 0, count = 0;
    do {
        uint64_t before = wheel->visit_count;
        size_t n = tw_wheel_expire(wheel, now, due, LIMIT);
        assert_true(wheel->visit_count - before <= n + LIMIT + TW_WHEEL_MOVES_MAX);
        for (size_t i = 0; i < n; i++) {
            assert_true(due[i].deadline >= last);
            last = due[i].deadline;
        }
        count += n;
        empty += n == 0;
    } while (tw_wheel_is_behind(wheel));
    assert_int_equal(count, waiting);
    assert_true(wheel->visit_count >= waiting);
    assert_true(empty >= waiting / (TW_WHEEL_MOVES_MAX + LIMIT)); /* portions before the first */
    assert_int_equal(tw_wheel_count(wheel), 0);
    tw_wheel_check(wheel);
    tw_wheel_destroy(wheel);
}

/* Goal: no call works long because a high bucket is full. Method: count what each call looks at,
 * since counts do not depend on the machine, on levels where the entry tells the tick and on those
 * where the record does. */
static void the_work_of_one_call_is_bounded(void **state)
{
    (void)state;
    check_that_work_is_bounded(16, 30000);
    check_that_work_is_bounded(24, 1000000);
    check_that_work_is_bounded(32, 100000);
    check_that_work_is_bounded(48, 1000000);
    check_that_work_is_bounded(56, 100000);
}

/* Goal: nor because time-outs that were extended come up together. Method: the same count, with all
 * at one tick and with a few at each of many. */
static void the_work_of_moving_on_is_bounded(void **state)
{
    (void)state;
    enum { TIMERS = 100000, TICKS = 60000, LIMIT = 10 };
    for (uint64_t ticks = 1; ticks <= TICKS; ticks += TICKS - 1) {
        struct tw_wheel *wheel = tw_wheel_create(NULL);
        struct tw_expired due[LIMIT];
        for (uint64_t i = 0; i < TIMERS; i++) {
            tw_handle timer = tw_wheel_schedule(wheel, 10 + i % ticks, i);
            assert_true(tw_wheel_reschedule(wheel, timer, 10 * TICKS));
        }
        uint64_t calls = 0;
        do {
            uint64_t before = wheel->visit_count;
            assert_int_equal(tw_wheel_expire(wheel, 2 * TICKS, due, LIMIT), 0);
            assert_true(wheel->visit_count - before <= LIMIT + TW_WHEEL_MOVES_MAX);
            calls++;
        } while (tw_wheel_is_behind(wheel));
        assert_true(calls >= TIMERS / (LIMIT + TW_WHEEL_MOVES_MAX));
        assert_int_equal(drain_count(wheel, 10 * TICKS - 1), 0);
        assert_int_equal(tw_wheel_count(wheel), TIMERS);
        tw_wheel_destroy(wheel);
    }
}

/* Goal: the work of schedule, arm and reschedule is bounded as well, though they pay for the sweep.
 */
static void the_work_of_one_move_is_bounded(void **state)
{
    (void)state;
    enum { TIMERS = 20000 };
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle *timers = test_calloc(TIMERS, sizeof(*timers));
    for (uint64_t i = 0; i < TIMERS; i++)
        timers[i] = tw_wheel_schedule(wheel, 10000000, i);
    uint64_t all = 0;
    for (uint64_t round = 1; round <= 20; round++)
        for (uint64_t i = 0; i < TIMERS; i++) {
            uint64_t before = wheel->visit_count;
            assert_true(tw_wheel_reschedule(wheel, timers[i], 10000000 - round * 1000 - i % 500));
            assert_true(wheel->visit_count - before <= CHUNK_ENTRIES);
            all += wheel->visit_count - before;
        }
    assert_true(all > TIMERS); /* it did sweep */
    tw_wheel_check(wheel);
    test_free(timers);
    tw_wheel_destroy(wheel);
}

/* A timer re-armed for the present tick again and again, by whoever handles it, starves no other.
 */
static void rearming_for_now_starves_nobody(void **state)
{
    (void)state;
    enum { TIMERS = 500 };
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    tw_handle eager = tw_wheel_open(wheel, 0);
    struct tw_expired due;
    size_t others = 0;
    assert_true(tw_wheel_arm(wheel, eager, 10));
    for (uint64_t i = 1; i <= TIMERS; i++)
        assert_true(tw_wheel_schedule(wheel, 10, i) != TW_NONE);
    for (int calls = 0; others < TIMERS; calls++) {
        assert_true(calls < 2 * TIMERS + 10);
        assert_int_equal(tw_wheel_expire(wheel, 10, &due, 1), 1);
        if (due.timer == eager)
            assert_true(tw_wheel_arm(wheel, eager, 10));
        else
            others++;
    }
    tw_wheel_destroy(wheel);
}

/* The sentence on wake_at: exact for a bucket that is small enough, the bucket's start for others.
 */
static void wake_at_is_exact_for_small_buckets(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.start = 5});
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(tw_wheel_schedule(wheel, 3000000 - i * 7, i) != TW_NONE);
        assert_int_equal(tw_wheel_wake_at(wheel), 3000000 - i * 7);
    }
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(tw_wheel_schedule(wheel, 3000000, i) != TW_NONE);
    assert_int_equal(tw_wheel_wake_at(wheel), 3000000 & ~0xffff);
    /* Waking when told costs a few calls per level and no more. */
    int calls = 0;
    for (uint64_t at; (at = tw_wheel_wake_at(wheel)) < 3000000 - 99 * 7; calls++)
        assert_int_equal(drain_count(wheel, at), 0);
    assert_true(calls <= 3);
    tw_wheel_destroy(wheel);
}

/* Goal: what was moved away, far off where its entry stays behind, lets nobody sleep past the
 * others. Method: on each level a timer put off past another, driven by wake_at alone. */
static void the_time_out_of_poll_lasts_until_wake_at(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    assert_int_equal(tw_wheel_timeout(wheel, 0), -1);
    assert_true(tw_wheel_schedule(wheel, UINT64_C(1) << 40, 1) != TW_NONE);
    assert_int_equal(tw_wheel_timeout(wheel, 0), INT_MAX);
    tw_handle timer = tw_wheel_schedule(wheel, 100, 2);
    assert_int_equal(tw_wheel_timeout(wheel, 30), 70);
    assert_int_equal(tw_wheel_timeout(wheel, 99), 1);
    assert_int_equal(tw_wheel_timeout(wheel, 100), 0);
    assert_int_equal(tw_wheel_timeout(wheel, TW_NEVER), 0);
    assert_true(tw_wheel_cancel(wheel, timer));
    assert_int_equal(drain_count(wheel, 100), 0);
    uint64_t wake_at = tw_wheel_wake_at(wheel);
    assert_int_equal(tw_wheel_timeout(wheel, wake_at - INT_MAX), INT_MAX);
    assert_int_equal(tw_wheel_timeout(wheel, wake_at - INT_MAX + 1), INT_MAX - 1);
    tw_wheel_destroy(wheel);
}

static void wake_at_does_not_follow_what_was_moved_away(void **state)
{
    (void)state;
    for (unsigned shift = 8; shift <= 56; shift += 8) {
        struct tw_wheel *wheel = tw_wheel_create(NULL);
        struct tw_expired due[2];
        tw_handle timer = tw_wheel_schedule(wheel, UINT64_C(5) << shift, 1);
        assert_true(tw_wheel_reschedule(wheel, timer, UINT64_C(9) << shift));
        assert_true(tw_wheel_schedule(wheel, UINT64_C(7) << shift, 2) != TW_NONE);
        uint64_t at = 0;
        size_t count = 0;
        while (count == 0) {
            at = tw_wheel_wake_at(wheel);
            count = tw_wheel_expire(wheel, at, due, 2);
        }
        assert_int_equal(count, 1);
        assert_int_equal(due[0].data, 2);
        assert_int_equal(at, UINT64_C(7) << shift);
        tw_wheel_destroy(wheel);
    }
}

/* Goal: is_behind and wake_at tell the same story. Method: the ways to stop early: at the limit
 * with nothing else due, between two ticks, and by arming for the present. */
static void behind_is_to_have_to_wake_at_once(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    struct tw_expired due[4];
    assert_true(tw_wheel_schedule(wheel, 10, 1) != TW_NONE);
    assert_true(tw_wheel_schedule(wheel, 70000, 2) != TW_NONE);
    assert_int_equal(tw_wheel_expire(wheel, 10, due, 1), 1); /* the limit, but all that was due */
    assert_false(tw_wheel_is_behind(wheel));
    assert_int_equal(tw_wheel_wake_at(wheel), 70000);

    assert_int_equal(tw_wheel_expire(wheel, 69000, due, 0), 0); /* its bucket is not yet open */
    assert_true(tw_wheel_is_behind(wheel));
    assert_true(tw_wheel_wake_at(wheel) <= 69000);
    assert_int_equal(tw_wheel_expire(wheel, 69000, due, 1), 0);
    assert_false(tw_wheel_is_behind(wheel));
    assert_int_equal(tw_wheel_wake_at(wheel), 70000);

    tw_handle timer = tw_wheel_schedule(wheel, 69000, 3);
    assert_true(tw_wheel_is_behind(wheel));
    assert_int_equal(tw_wheel_wake_at(wheel), 69000);
    assert_true(tw_wheel_reschedule(wheel, timer, 80000)); /* the entry at the present stays */
    assert_true(tw_wheel_is_behind(wheel));
    assert_int_equal(tw_wheel_wake_at(wheel), 69000);
    assert_int_equal(tw_wheel_expire(wheel, 69000, due, 4), 0);
    assert_false(tw_wheel_is_behind(wheel));
    assert_int_equal(tw_wheel_wake_at(wheel), 70000);
    tw_wheel_destroy(wheel);
}

static void destroying_nothing_is_fine(void **state)
{
    (void)state;
    tw_wheel_destroy(NULL);
    tw_wheel_destroy(tw_wheel_create(NULL));
}

/* Goal: a timer is said to lie on the level of the highest digit in which it differs from the
 * present, and further down as that comes nearer. Method: deadlines one digit apart, then time. */
static void find_says_level_and_bucket(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(&(struct tw_wheel_options){.start = 0x10000});
    struct tw_wheel_place place;
    struct tw_expired due[8];
    tw_handle near = tw_wheel_schedule(wheel, 0x10005, 1);
    tw_handle next = tw_wheel_schedule(wheel, 0x10307, 2);
    tw_handle far = tw_wheel_schedule(wheel, 0x70000000000, 3);
    tw_handle opened = tw_wheel_open(wheel, 4);
    assert_true(tw_wheel_find(wheel, near, &place));
    assert_true(place.deadline == 0x10005 && place.level == 0 && place.bucket == 5);
    assert_true(tw_wheel_find(wheel, next, &place) && place.level == 1 && place.bucket == 3);
    assert_true(tw_wheel_find(wheel, far, &place) && place.level == 5 && place.bucket == 7);
    assert_false(tw_wheel_find(wheel, opened, &place));
    assert_false(tw_wheel_find(wheel, TW_NONE, &place));
    assert_true(tw_wheel_reschedule(wheel, near, 0x10409));
    assert_true(tw_wheel_find(wheel, near, &place));
    assert_true(place.deadline == 0x10409 && place.level == 1 && place.bucket == 4);
    assert_int_equal(tw_wheel_expire(wheel, 0x10300, due, 8), 0);
    assert_true(tw_wheel_find(wheel, next, &place) && place.level == 0 && place.bucket == 7);
    assert_true(tw_wheel_find(wheel, near, &place) && place.level == 1 && place.bucket == 4);
    assert_int_equal(tw_wheel_expire(wheel, 0x10307, due, 8), 1);
    assert_false(tw_wheel_find(wheel, next, &place));
    tw_wheel_destroy(wheel);
}

/* Goal: every entry is counted, and the fullest bucket is found. Method: one bucket of a thousand,
 * some of a few, on several levels; then some cancelled, which stay until they come up. */
static void occupancy_counts_what_lies_in_buckets(void **state)
{
    (void)state;
    struct tw_wheel *wheel = tw_wheel_create(NULL);
    struct tw_wheel_occupancy occupancy;
    tw_wheel_get_occupancy(wheel, &occupancy);
    assert_true(!occupancy.bucket_count && !occupancy.entry_count && !occupancy.entry_count_max);
    tw_handle first = tw_wheel_schedule(wheel, 7, 0);
    for (unsigned i = 1; i < 1000; i++)
        tw_wheel_schedule(wheel, 7, i);
    for (unsigned shift = 8; shift < 64; shift += 8)
        for (unsigned i = 0; i < shift; i++)
            tw_wheel_schedule(wheel, UINT64_C(3) << shift, i);
    tw_wheel_cancel(wheel, first);
    tw_wheel_get_occupancy(wheel, &occupancy);
    assert_int_equal(occupancy.bucket_count, 8);
    assert_int_equal(occupancy.entry_count, 1000 + 8 + 16 + 24 + 32 + 40 + 48 + 56);
    assert_int_equal(occupancy.entry_count_max, 1000);
    assert_int_equal(drain_count(wheel, 7), 999);
    tw_wheel_get_occupancy(wheel, &occupancy);
    assert_int_equal(occupancy.bucket_count, 7);
    assert_int_equal(occupancy.entry_count_max, 56);
    tw_wheel_destroy(wheel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fires_at_its_tick_and_not_before),
        cmocka_unit_test(fires_in_order_of_deadline),
        cmocka_unit_test(a_deadline_already_reached_is_due_at_once),
        cmocka_unit_test(never_never_comes),
        cmocka_unit_test(a_limit_hands_out_the_rest_later),
        cmocka_unit_test(an_earlier_now_changes_nothing),
        cmocka_unit_test(a_handle_is_stale_after_firing_and_after_cancelling),
        cmocka_unit_test(a_slot_whose_generations_are_used_up_is_let_no_more),
        cmocka_unit_test(rescheduling_moves_both_ways),
        cmocka_unit_test(a_later_deadline_makes_no_entry),
        cmocka_unit_test(an_opened_timer_is_armed_many_times),
        cmocka_unit_test(the_limit_on_timers_holds),
        cmocka_unit_test(the_work_of_one_call_is_bounded),
        cmocka_unit_test(the_work_of_moving_on_is_bounded),
        cmocka_unit_test(the_work_of_one_move_is_bounded),
        cmocka_unit_test(rearming_for_now_starves_nobody),
        cmocka_unit_test(wake_at_is_exact_for_small_buckets),
        cmocka_unit_test(the_time_out_of_poll_lasts_until_wake_at),
        cmocka_unit_test(wake_at_does_not_follow_what_was_moved_away),
        cmocka_unit_test(behind_is_to_have_to_wake_at_once),
        cmocka_unit_test(find_says_level_and_bucket),
        cmocka_unit_test(occupancy_counts_what_lies_in_buckets),
        cmocka_unit_test(destroying_nothing_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
