/*
 * Goal: each particular of the ring: offsets, intervals forwards, backwards and of whole rotations,
 * the current tick, dealing out, handlers that change the ring. Method: small rings by hand, then
 * random operations beside a table.
 */
#include "allocator_oracle.h"
#include "oracles.h"
#include "seed.h"

#include <tickwheel/ring.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ITEMS_MAX = 64 };

static struct tw_ring *ring_new(uint32_t size)
{
    struct tw_ring *ring = tw_ring_create(&(struct tw_ring_options){.size = size});

    assert_non_null(ring);
    return ring;
}

/* Goes on to the next sector that has items and takes them all; returns how many. */
static size_t turn(struct tw_ring *ring, struct tw_ring_item *ret_items)
{
    size_t count = 0, taken;

    tw_ring_advance(ring, tw_ring_size(ring));
    while ((taken = tw_ring_take(ring, ret_items + count, ITEMS_MAX - count)) > 0)
        count += taken;
    tw_ring_check(ring);
    return count;
}

/* The next `count` sectors that `item`, alone in the ring, is handed out at. */
static void assert_visits(struct tw_ring *ring, const uint32_t *sectors, size_t count)
{
    struct tw_ring_item items[ITEMS_MAX];

    for (size_t i = 0; i < count; i++) {
        assert_int_equal(turn(ring, items), 1);
        assert_int_equal(items[0].tick, sectors[i]);
        assert_int_equal(tw_ring_tick(ring), sectors[i]);
    }
}

static unsigned handled[2];

static void handle(struct tw_ring *ring, const struct tw_ring_item *item)
{
    handled[item->data]++;
    assert_true(tw_ring_tick(ring) == item->tick);
}

static void the_example_of_the_header(void **state)
{
    uint64_t session = 0, monitor = 1, ticks_passed = 121;
    (void)state;

    struct tw_ring *ring = tw_ring_create(&(struct tw_ring_options){.size = 60});
    tw_ring_add(ring, 1, session);            // next tick, then once a rotation
    tw_ring_add_moving(ring, 1, 15, monitor); // next tick, then each 15 ticks

    struct tw_ring_item items[64];
    for (uint64_t left = ticks_passed; left > 0;) {
        left -= tw_ring_advance(ring, left);
        for (size_t n; (n = tw_ring_take(ring, items, 64)) > 0;)
            for (size_t i = 0; i < n; i++)
                handle(ring, &items[i]);
    }
    assert_int_equal(handled[0], 3); /* ticks 1, 61, 121 */
    assert_int_equal(handled[1], 9); /* ticks 1, 16, … 121 */
    tw_ring_destroy(ring);
    tw_ring_destroy(NULL);
}

static void a_plain_item_comes_up_once_a_rotation_in_its_sector(void **state)
{
    const uint32_t visits[] = {3, 3, 3};
    struct tw_ring *ring = ring_new(5);
    (void)state;

    assert_true(tw_ring_wake_in(ring) == TW_NEVER);
    assert_true(tw_ring_add(ring, 3, 9) != TW_NONE);
    assert_int_equal(tw_ring_wake_in(ring), 3);
    assert_visits(ring, visits, 3);
    assert_int_equal(tw_ring_wake_in(ring), 5);
    tw_ring_destroy(ring);
}

static void offsets_count_from_the_current_tick(void **state)
{
    const int64_t offsets[] = {1, 0, 5, -1, -5, 6, -6, 1000002, INT64_MIN, INT64_MAX};
    const uint64_t waits[] = {1, 5, 5, 4, 5, 1, 4, 2, 2, 2};
    struct tw_ring *ring = ring_new(5);
    (void)state;

    assert_true(tw_ring_set_tick(ring, 3));
    for (size_t i = 0; i < 10; i++) {
        tw_handle item = tw_ring_add(ring, offsets[i], i);
        assert_int_equal(tw_ring_wake_in(ring), waits[i]);
        assert_int_equal(tw_ring_count_at(ring, (int64_t)waits[i]), 1);
        assert_int_equal(tw_ring_count_at(ring, offsets[i]), 1);
        assert_true(tw_ring_reschedule(ring, item, 2));
        assert_true(tw_ring_reschedule(ring, item, offsets[i]));
        assert_int_equal(tw_ring_wake_in(ring), waits[i]);
        assert_true(tw_ring_remove(ring, item));
    }
    tw_ring_destroy(ring);
}

static void an_interval_moves_an_item_on_or_back(void **state)
{
    static const struct {
        int64_t interval;
        uint32_t visits[6];
    } cases[] = {
        {-2, {0, 3, 1, 4, 2, 0}}, {2, {0, 2, 4, 1, 3, 0}}, {-1, {0, 4, 3, 2, 1, 0}},
        {1, {0, 1, 2, 3, 4, 0}},  {0, {0, 0, 0, 0, 0, 0}}, {5, {0, 0, 0, 0, 0, 0}},
        {-5, {0, 0, 0, 0, 0, 0}},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tw_ring *ring = ring_new(5);
        assert_true(tw_ring_add_moving(ring, 0, cases[i].interval, 1) != TW_NONE);
        assert_visits(ring, cases[i].visits, 6);
        tw_ring_destroy(ring);
    }
}

static void an_interval_larger_than_the_ring_is_refused(void **state)
{
    const int64_t intervals[] = {6, -6, 10, INT64_MAX, INT64_MIN, INT64_C(1) << 32};
    struct tw_ring *ring = ring_new(5);
    tw_handle item = tw_ring_add_moving(ring, 1, 5, 1);
    struct tw_ring_item copy;
    (void)state;

    for (size_t i = 0; i < 6; i++) {
        assert_true(tw_ring_add_moving(ring, 1, intervals[i], 2) == TW_NONE);
        assert_false(tw_ring_set_interval(ring, item, intervals[i]));
    }
    assert_true(tw_ring_set_interval(ring, item, -5));
    assert_true(tw_ring_find(ring, item, &copy));
    assert_int_equal(copy.interval, -5);
    assert_int_equal(tw_ring_count(ring), 1);
    tw_ring_destroy(ring);
}

static void the_current_tick_is_read_set_and_reset(void **state)
{
    struct tw_ring *ring = ring_new(5);
    struct tw_ring_item items[ITEMS_MAX];
    (void)state;

    assert_int_equal(tw_ring_tick(ring), 0);
    assert_true(tw_ring_set_tick(ring, 4));
    assert_false(tw_ring_set_tick(ring, 5));
    assert_false(tw_ring_set_tick(ring, UINT64_MAX));
    assert_int_equal(tw_ring_tick(ring), 4);
    tw_ring_add(ring, 1, 7); /* sector 0 */
    assert_int_equal(tw_ring_advance(ring, 3), 1);
    assert_int_equal(tw_ring_tick(ring), 0);
    tw_ring_reset(ring); /* gives up the turn that was not taken */
    assert_int_equal(tw_ring_take(ring, items, ITEMS_MAX), 0);
    assert_int_equal(tw_ring_wake_in(ring), 5);
    assert_int_equal(tw_ring_advance(ring, 3), 3);
    assert_int_equal(tw_ring_tick(ring), 3);
    tw_ring_reset(ring);
    assert_int_equal(tw_ring_tick(ring), 0);
    assert_int_equal(turn(ring, items), 1);
    assert_int_equal(items[0].data, 7);
    tw_ring_destroy(ring);
}

static void a_list_is_dealt_out_sector_by_sector(void **state)
{
    const uint64_t data[] = {10, 11, 12, 13, 14, 15, 16};
    struct tw_ring_options options = {.size = 3};
    struct tw_ring_item items[ITEMS_MAX], copy;
    tw_handle handles[7];
    struct tw_ring *ring = tw_ring_create_dealt(&options, data, 7, handles);
    (void)state;

    assert_non_null(ring);
    for (uint32_t i = 0; i < 7; i++) {
        assert_true(tw_ring_find(ring, handles[i], &copy));
        assert_int_equal(copy.tick, i % 3);
        assert_int_equal(copy.data, data[i]);
    }
    assert_int_equal(tw_ring_count_at(ring, 0), 3);
    assert_int_equal(turn(ring, items), 2);
    assert_true(items[0].data + items[1].data == 11 + 14);
    tw_ring_destroy(ring);

    options.item_count_max = 6;
    assert_null(tw_ring_create_dealt(&options, data, 7, NULL));
    ring = tw_ring_create_dealt(&options, NULL, 0, NULL);
    assert_int_equal(tw_ring_count(ring), 0);
    tw_ring_destroy(ring);
}

static void many_are_added_and_removed_at_an_offset(void **state)
{
    const uint64_t data[] = {1, 2, 3, 4};
    struct tw_ring *ring =
        tw_ring_create(&(struct tw_ring_options){.size = 5, .item_count_max = 6});
    tw_handle handles[4];
    (void)state;

    assert_true(tw_ring_add_many(ring, -2, data, 4, handles));
    assert_int_equal(tw_ring_count_at(ring, 3), 4);
    assert_false(tw_ring_add_many(ring, 1, data, 3, NULL)); /* all or none */
    assert_int_equal(tw_ring_count(ring), 4);
    assert_true(tw_ring_add_many(ring, 1, data, 2, NULL));
    assert_true(tw_ring_remove(ring, handles[2]));
    assert_false(tw_ring_remove(ring, handles[2]));
    assert_int_equal(tw_ring_remove_many(ring, handles, 3), 2);
    assert_int_equal(tw_ring_remove_at(ring, 1), 2);
    assert_int_equal(tw_ring_remove_at(ring, 1), 0);
    assert_int_equal(tw_ring_remove_at(ring, 3), 1);
    assert_int_equal(tw_ring_count(ring), 0);
    assert_true(tw_ring_wake_in(ring) == TW_NEVER);
    tw_ring_check(ring);
    tw_ring_destroy(ring);
}

static void the_ring_waits_until_a_sector_is_taken(void **state)
{
    struct tw_ring *ring = ring_new(5);
    struct tw_ring_item items[ITEMS_MAX];
    (void)state;

    for (uint64_t i = 0; i < 5; i++)
        tw_ring_add(ring, 2, i);
    assert_int_equal(tw_ring_take(ring, items, 3), 0);
    assert_int_equal(tw_ring_advance(ring, 1), 1);
    assert_int_equal(tw_ring_take(ring, items, 3), 0);
    assert_int_equal(tw_ring_advance(ring, 100), 1);
    assert_int_equal(tw_ring_take(ring, items, 3), 3);
    assert_int_equal(tw_ring_wake_in(ring), 0);
    assert_int_equal(tw_ring_advance(ring, 100), 0);
    assert_int_equal(tw_ring_take(ring, items, 0), 0);
    assert_int_equal(tw_ring_take(ring, items, 3), 2);
    assert_int_equal(tw_ring_take(ring, items, 3), 0);
    assert_int_equal(tw_ring_advance(ring, 0), 0);
    assert_int_equal(tw_ring_advance(ring, 100), 5);
    tw_ring_destroy(ring);
}

/* An item of interval 1 is never passed by, however late the driver comes. */
static void missed_ticks_are_caught_up_with(void **state)
{
    struct tw_ring *ring = ring_new(7);
    struct tw_ring_item items[ITEMS_MAX];
    uint64_t taken = 0;
    (void)state;

    tw_ring_add_moving(ring, 1, 1, 1);
    for (uint64_t left = 1000000; left > 0;) {
        left -= tw_ring_advance(ring, left);
        taken += tw_ring_take(ring, items, ITEMS_MAX);
    }
    assert_int_equal(taken, 1000000);
    assert_true(tw_ring_remove(ring, items[0].item));
    assert_true(tw_ring_advance(ring, UINT64_MAX) == UINT64_MAX); /* no items: in one step */
    tw_ring_destroy(ring);
}

/* timer-wheel issue 2: the handler of one item removes others of the sector that is handed out. */
static void lesson_removing_a_sibling_in_the_current_sector(void **state)
{
    struct tw_ring_item item, rest[ITEMS_MAX];
    (void)state;

    for (size_t victim = 0; victim < 4; victim++) {
        struct tw_ring *ring = ring_new(5);
        tw_handle handles[4];
        for (size_t i = 0; i < 4; i++)
            handles[i] = tw_ring_add(ring, 1, i);
        tw_ring_advance(ring, 1);
        assert_int_equal(tw_ring_take(ring, &item, 1), 1);
        assert_true(tw_ring_remove(ring, handles[victim]));
        tw_ring_check(ring);
        assert_int_equal(turn(ring, rest), item.data == victim ? 3 : 2);
        assert_int_equal(turn(ring, rest), 3);
        tw_ring_destroy(ring);
    }
}

/* Chronos issue 221: an item has moved on before it is handed out, so what its handler decides
 * about it, or about a sibling that still waits, is the last word. */
static void lesson_an_update_from_the_handler_stands(void **state)
{
    struct tw_ring *ring = ring_new(10);
    struct tw_ring_item items[ITEMS_MAX], copy;
    tw_handle self = tw_ring_add_moving(ring, 1, 3, 0), sibling = tw_ring_add(ring, 1, 1);
    (void)state;

    tw_ring_advance(ring, 1);
    assert_int_equal(tw_ring_take(ring, items, 1), 1);
    assert_true(items[0].item == self && items[0].interval == 3);
    assert_true(tw_ring_set_interval(ring, self, -4));
    assert_true(tw_ring_reschedule(ring, self, 2));
    assert_true(tw_ring_reschedule(ring, sibling, 0)); /* a whole rotation later, so not now */
    assert_int_equal(tw_ring_take(ring, items, ITEMS_MAX), 0);
    assert_true(tw_ring_find(ring, self, &copy) && copy.tick == 3 && copy.interval == -4);
    assert_int_equal(tw_ring_wake_in(ring), 2);
    assert_int_equal(turn(ring, items), 1);
    assert_true(tw_ring_find(ring, self, &copy) && copy.tick == 9);
    assert_int_equal(turn(ring, items), 1);
    assert_int_equal(turn(ring, items), 1);
    assert_true(items[0].item == sibling && items[0].tick == 1);
    tw_ring_destroy(ring);
}

static void what_a_handler_adds_to_its_sector_waits_a_rotation(void **state)
{
    struct tw_ring *ring = ring_new(4);
    struct tw_ring_item items[ITEMS_MAX];
    (void)state;

    tw_ring_add(ring, 1, 0);
    tw_ring_advance(ring, 1);
    for (uint64_t i = 1; tw_ring_take(ring, items, 1) == 1; i++) {
        assert_true(i < 5);
        tw_ring_add(ring, 0, i);
        tw_ring_add_moving(ring, 4, -4, i);
    }
    assert_int_equal(tw_ring_wake_in(ring), 4);
    assert_int_equal(turn(ring, items), 3);
    tw_ring_destroy(ring);
}

static void stale_handles_are_harmless(void **state)
{
    struct tw_ring *ring = ring_new(5);
    tw_handle stale = tw_ring_add(ring, 1, 1);
    struct tw_ring_item copy;
    (void)state;

    assert_true(tw_ring_remove(ring, stale));
    tw_handle other = tw_ring_add(ring, 1, 2);
    assert_true(other != stale);
    assert_false(tw_ring_remove(ring, stale));
    assert_false(tw_ring_reschedule(ring, stale, 3));
    assert_false(tw_ring_set_interval(ring, stale, 3));
    assert_false(tw_ring_find(ring, stale, &copy));
    assert_false(tw_ring_remove(ring, TW_NONE));
    assert_int_equal(tw_ring_count(ring), 1);
    tw_ring_destroy(ring);
}

/* Fails the N-th allocation for N = 1, 2, …: what fails leaves the ring as it was. */
static void allocation_failures_are_answers(void **state)
{
    static uint64_t data[3000];
    (void)state;

    for (size_t calls_left = 0; calls_left < 10; calls_left++) {
        struct allocator allocator = {.calls_left = calls_left};
        struct tw_ring_options options = {.size = 8,
                                          .allocate = allocator_take,
                                          .release = allocator_give,
                                          .context = &allocator};
        struct tw_ring *ring = tw_ring_create_dealt(&options, data, 1000, NULL);
        assert_int_equal(ring != NULL, calls_left >= 5);
        if (ring) {
            bool is_added = tw_ring_add_many(ring, 1, data, 3000, NULL);
            assert_int_equal(is_added, calls_left >= 6); /* one run of blocks */
            assert_int_equal(tw_ring_count(ring), is_added ? 4000 : 1000);
            assert_int_equal(allocator.bytes, tw_ring_memory(ring));
            while (tw_ring_add(ring, 1, 1) != TW_NONE && tw_ring_count(ring) < 20000)
                ;
            assert_true(tw_ring_count(ring) < 20000);
            assert_false(tw_ring_reserve(ring, 100000));
            tw_ring_check(ring);
        }
        tw_ring_destroy(ring);
        assert_int_equal(allocator.bytes, 0);
    }
}

static void removed_items_hold_no_memory(void **state)
{
    struct tw_ring *ring = ring_new(60);
    tw_handle items[500] = {0};
    size_t memory = 0;
    (void)state;

    for (uint64_t i = 0; i < 500000; i++) {
        tw_ring_remove(ring, items[i % 500]);
        items[i % 500] = tw_ring_add(ring, (int64_t)i, i);
        if (i == 1000)
            memory = tw_ring_memory(ring);
    }
    assert_int_equal(tw_ring_memory(ring), memory);
    assert_int_equal(tw_ring_count(ring), 500);
    tw_ring_destroy(ring);
}

static void random_operations_agree_with_a_table(void **state)
{
    struct conformance_source source = {.state = testing_seed()};
    struct ring_tally tally = ring_model_run(&source, 200000);
    (void)state;

    print_message("%llu steps, %llu taken\n", (unsigned long long)tally.steps,
                  (unsigned long long)tally.taken);
    assert_true(tally.taken > 10000);
}

/* Goal: a rescheduling ring begins with items in its sectors. Method: dealt round, and a list for
 * each sector; then where they are, when they come, and what is refused. */
static void a_rescheduling_ring_is_built_at_once(void **state)
{
    const struct tw_ring_entry entries[] = {{10, 1}, {11, -2}, {12, 0}, {13, 5}, {14, -5}, {15, 3}};
    const struct tw_ring_entry wide[] = {{1, 6}}, narrow[] = {{1, -6}};
    const struct tw_ring_list lists[5] = {
        {entries, 2}, {NULL, 0}, {entries + 2, 1}, {NULL, 0}, {entries + 3, 3}};
    const struct tw_ring_list bad[5] = {{entries, 2}, {wide, 1}};
    struct tw_ring_options five = {.size = 5}, few = {.size = 5, .item_count_max = 5};
    struct tw_ring_item items[ITEMS_MAX];
    tw_handle handles[6];
    (void)state;

    struct tw_ring *ring = tw_ring_create_dealt_moving(&five, entries, 6, handles);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(tw_ring_find(ring, handles[i], &items[0]));
        assert_int_equal(items[0].tick, i % 5);
        assert_int_equal(items[0].data, entries[i].data);
        assert_int_equal(items[0].interval, entries[i].interval);
    }
    assert_int_equal(turn(ring, items), 1);
    assert_int_equal(items[0].data, 11); /* of sector 1; now 2 sectors back, in 4 */
    assert_true(tw_ring_find(ring, handles[1], &items[0]) && items[0].tick == 4);
    tw_ring_destroy(ring);
    assert_null(tw_ring_create_dealt_moving(&five, wide, 1, NULL));
    assert_null(tw_ring_create_dealt_moving(&five, narrow, 1, NULL));
    assert_null(tw_ring_create_dealt_moving(&few, entries, 6, NULL));

    ring = tw_ring_create_from_lists(&(struct tw_ring_options){.size = 60}, lists, 5, handles);
    assert_int_equal(tw_ring_size(ring), 5);
    assert_int_equal(tw_ring_count_at(ring, 0), 2);
    assert_int_equal(tw_ring_count_at(ring, 2), 1);
    assert_int_equal(tw_ring_count_at(ring, -1), 3);
    assert_true(tw_ring_find(ring, handles[5], &items[0]) && items[0].data == 15);
    tw_ring_check(ring);
    tw_ring_destroy(ring);
    assert_null(tw_ring_create_from_lists(NULL, bad, 5, NULL));
    assert_null(tw_ring_create_from_lists(&few, lists, 5, NULL));
    assert_null(tw_ring_create_from_lists(NULL, lists, 0, NULL));
    assert_null(tw_ring_create_from_lists(NULL, lists, (size_t)INT32_MAX + 1, NULL));
}

/* Goal: reading a sector takes nothing out of it. Method: read it before it is due, while it is
 * taken, and after that. */
static void a_sector_is_read_without_taking(void **state)
{
    struct tw_ring *ring = tw_ring_create(&(struct tw_ring_options){.size = 5});
    struct tw_ring_item items[ITEMS_MAX];
    (void)state;

    for (uint64_t i = 0; i < 3; i++)
        assert_true(tw_ring_add_moving(ring, 2, 1, i) != TW_NONE);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(tw_ring_read_at(ring, 2, items, ITEMS_MAX), 3);
        assert_int_equal(tw_ring_read_at(ring, -3, items, 2), 2);
        assert_true(items[0].data == 0 && items[1].data == 1 && items[0].tick == 2);
    }
    assert_int_equal(tw_ring_read_at(ring, 2, NULL, 0), 0);
    assert_int_equal(tw_ring_read_at(ring, 1, items, ITEMS_MAX), 0);
    assert_int_equal(tw_ring_advance(ring, 5), 2);
    assert_int_equal(tw_ring_take(ring, items, 1), 1);
    assert_int_equal(tw_ring_read_at(ring, 0, items, ITEMS_MAX), 2);
    assert_int_equal(items[0].data, 1);
    assert_int_equal(tw_ring_read_at(ring, 1, items, ITEMS_MAX), 1);
    assert_int_equal(tw_ring_take(ring, items, ITEMS_MAX), 2);
    assert_int_equal(tw_ring_read_at(ring, 1, items, ITEMS_MAX), 3);
    tw_ring_check(ring);
    tw_ring_destroy(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_header),
        cmocka_unit_test(a_plain_item_comes_up_once_a_rotation_in_its_sector),
        cmocka_unit_test(offsets_count_from_the_current_tick),
        cmocka_unit_test(an_interval_moves_an_item_on_or_back),
        cmocka_unit_test(an_interval_larger_than_the_ring_is_refused),
        cmocka_unit_test(the_current_tick_is_read_set_and_reset),
        cmocka_unit_test(a_list_is_dealt_out_sector_by_sector),
        cmocka_unit_test(a_rescheduling_ring_is_built_at_once),
        cmocka_unit_test(a_sector_is_read_without_taking),
        cmocka_unit_test(many_are_added_and_removed_at_an_offset),
        cmocka_unit_test(the_ring_waits_until_a_sector_is_taken),
        cmocka_unit_test(missed_ticks_are_caught_up_with),
        cmocka_unit_test(lesson_removing_a_sibling_in_the_current_sector),
        cmocka_unit_test(lesson_an_update_from_the_handler_stands),
        cmocka_unit_test(what_a_handler_adds_to_its_sector_waits_a_rotation),
        cmocka_unit_test(stale_handles_are_harmless),
        cmocka_unit_test(allocation_failures_are_answers),
        cmocka_unit_test(removed_items_hold_no_memory),
        cmocka_unit_test(random_operations_agree_with_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
