/* Goal: the bytes of a note are those of roster.h, no damaged note is taken, and a
 * node is dead exactly when the planner has written five notes since its last one. Method: golden
 * bytes; each cut of them, and fields out of their bounds; notes in chosen orders. */
#include "cluster/roster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

static const uint8_t roster_golden[] = {
    4, 2, 'a', ':', 2, 'b', ':', 1, 'z', 0xfe, 0xff, 0xff, 0xff, 4, 0, 0xf4, 1,   2,
    0, 0, 0,   3,   7, 0,   0,   0, 0,   0,    0,    0,    6,    0, 0, 0,    0,   0,
    0, 0, 3,   0,   2, 9,   1,   0, 0,   0,    0,    0,    0,    0, 2, 1,    's', 1,
    0, 0, 0,   0,   0, 0,   0,   1, 't', 2,    0,    0,    0,    0, 0, 0,    0,
};

static struct roster_note *note_make(void)
{
    struct roster_note *note = calloc(1, sizeof(*note));

    assert_non_null(note);
    note->address = BYTES("a:");
    note->internal_address = BYTES("b:");
    note->zone = BYTES("z");
    note->clock_offset_ms = -2;
    note->weight = 4;
    note->load = 500;
    note->place_count = 2;
    note->places[0] = (struct roster_place){0, ROSTER_OWNER, 7, 6};
    note->places[1] = (struct roster_place){3, ROSTER_STANDBY, 265, 0};
    note->tenant_count = 2;
    note->tenants[0] = (struct roster_tally){BYTES("s"), 1};
    note->tenants[1] = (struct roster_tally){BYTES("t"), 2};
    return note;
}

/* The bytes of a note, in memory of their size. */
static enum error_code decode_copy(const uint8_t *bytes, size_t size)
{
    struct roster_note *note = malloc(sizeof(*note));
    char *copy = malloc(size + !size);

    assert_true(note && copy);
    memcpy(copy, bytes, size);
    const enum error_code code = roster_note_decode((struct bytes){copy, size}, note, NULL);
    free(copy);
    free(note);
    return code;
}

static void test_golden_note(void **state)
{
    struct roster_note *note = note_make(), *again = calloc(1, sizeof(*again));
    struct buffer buffer;

    (void)state;
    assert_non_null(again);
    buffer_init(&buffer);
    roster_note_encode(note, &buffer);
    assert_int_equal(buffer.size, sizeof(roster_golden));
    assert_memory_equal(buffer.data, roster_golden, sizeof(roster_golden));
    assert_int_equal(roster_note_decode(buffer_bytes(&buffer), again, NULL), ERROR_NONE);
    assert_true(again->clock_offset_ms == -2 && again->weight == 4 && again->load == 500);
    assert_true(bytes_equal(again->internal_address, BYTES("b:")));
    assert_true(again->places[1].partition == 3 && again->places[1].next == 265);
    assert_true(again->places[0].pending == 6 && again->places[1].pending == 0);
    assert_true(bytes_equal(again->tenants[1].name, BYTES("t")));
    for (size_t size = 0; size < sizeof(roster_golden); size++)
        assert_int_equal(decode_copy(roster_golden, size), ERROR_CORRUPT);
    buffer_append(&buffer, "", 1);
    assert_int_equal(roster_note_decode(buffer_bytes(&buffer), again, NULL), ERROR_CORRUPT);
    buffer_deinit(&buffer);
    free(again);
    free(note);
}

/* One byte is set to a value that does not fit. */
static void test_notes_out_of_bounds(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } cases[] = {
        {0, 1},    {0, 5},    /* forms of before, and to come */
        {2, 10},   {8, '\t'}, /* control characters */
        {4, 200},             /* a text longer than the note */
        {14, 4},              /* a weight */
        {18, 5},              /* more partitions than there are */
        {21, 0},   {21, 5},   /* roles */
        {38, 0},   {39, 4},   /* partitions in no order, and beyond the last one */
        {49, 1},   {50, 65},  /* more counts than there may be */
        {52, 't'}, {52, 'u'}, /* names in no order */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[sizeof(roster_golden)];

        memcpy(bytes, roster_golden, sizeof(bytes));
        bytes[cases[i].at] = cases[i].value;
        if (decode_copy(bytes, sizeof(bytes)) != ERROR_CORRUPT)
            fail_msg("byte %zu", cases[i].at);
    }
}

static enum error_code note_read_as(struct roster *roster, uint32_t node, uint64_t incarnation,
                                    uint32_t planner, const struct roster_note *note)
{
    struct frame frame = {.kind = FRAME_NOTE, .node = node, .incarnation = incarnation};
    struct buffer buffer;

    buffer_init(&buffer);
    roster_note_encode(note, &buffer);
    frame.body = buffer_bytes(&buffer);
    const enum error_code code = roster_read(roster, &frame, planner, NULL);
    buffer_deinit(&buffer);
    return code;
}

/* Notes of others do not count, nor does any note while there is no planner. */
static void test_five_notes_of_the_planner(void **state)
{
    struct roster *roster = roster_create(4);
    struct roster_note *note = note_make();

    (void)state;
    assert_non_null(roster);
    for (int i = 0; i < 20; i++)
        assert_int_equal(note_read_as(roster, 9, 1, 0, note), ERROR_NONE);
    assert_int_equal(note_read_as(roster, 2, 1, 0, note), ERROR_NONE);
    for (int i = 0; i < 20; i++)
        assert_int_equal(note_read_as(roster, 9, 1, 7, note), ERROR_NONE);
    assert_true(roster_is_alive(roster, roster_find(roster, 2)));
    for (int i = 0; i < 5; i++) {
        assert_true(roster_is_alive(roster, roster_find(roster, 2)));
        assert_int_equal(note_read_as(roster, 7, 1, 7, note), ERROR_NONE);
    }
    assert_false(roster_is_alive(roster, roster_find(roster, 2)));
    assert_false(roster_is_alive(roster, roster_find(roster, 9)));
    assert_true(roster_is_alive(roster, roster_find(roster, 7)));
    assert_int_equal(note_read_as(roster, 2, 1, 7, note), ERROR_NONE);
    assert_true(roster_is_alive(roster, roster_find(roster, 2)));
    for (int i = 0; i < ROSTER_NOTES_FORGOTTEN; i++)
        assert_int_equal(note_read_as(roster, 7, 1, 7, note), ERROR_NONE);
    assert_int_equal(roster_count(roster), 1);
    free(note);
    roster_destroy(roster);
    roster_destroy(NULL);
}

/* The claim of its successor counts as three notes, until the planner before has a note again. */
static void test_a_planner_is_replaced(void **state)
{
    struct roster *roster = roster_create(4);
    struct roster_note *note = note_make();

    (void)state;
    assert_non_null(roster);
    for (int i = 0; i < 20; i++)
        assert_int_equal(note_read_as(roster, 7, 1, 7, note), ERROR_NONE);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(note_read_as(roster, 7, 1, 7, note), ERROR_NONE);
        roster_supersede(roster, 7);
        assert_int_equal(note_read_as(roster, 8, 1, 8, note), ERROR_NONE);
        assert_true(roster_is_alive(roster, roster_find(roster, 7)));
        if (round == 0)
            assert_int_equal(note_read_as(roster, 7, 1, 8, note), ERROR_NONE);
        assert_int_equal(note_read_as(roster, 8, 1, 8, note), ERROR_NONE);
        assert_int_equal(roster_is_alive(roster, roster_find(roster, 7)), round == 0);
    }
    roster_supersede(roster, 99); /* no such member */
    free(note);
    roster_destroy(roster);
}

/* The late note of an incarnation that was replaced does not bring it back. */
static void test_incarnations(void **state)
{
    struct roster *roster = roster_create(4);
    struct roster_note *note = note_make();

    (void)state;
    assert_int_equal(note_read_as(roster, 2, 11, 0, note), ERROR_NONE);
    assert_true(roster_find(roster, 2)->standings[0].before == UINT64_MAX);
    note->places[0].next = 20;
    assert_int_equal(note_read_as(roster, 2, 11, 0, note), ERROR_NONE);
    assert_true(roster_find(roster, 2)->standings[0].before == 7);
    assert_int_equal(note_read_as(roster, 2, 12, 0, note), ERROR_NONE);
    assert_true(roster_find(roster, 2)->standings[0].before == UINT64_MAX);
    note->weight = 5;
    assert_int_equal(note_read_as(roster, 2, 11, 0, note), ERROR_NONE);
    assert_int_equal(roster_find(roster, 2)->weight, 4);
    assert_true(roster_find(roster, 2)->incarnation == 12);
    note->place_count = 1; /* partition 3 is dropped */
    assert_int_equal(note_read_as(roster, 2, 12, 0, note), ERROR_NONE);
    assert_int_equal(roster_find(roster, 2)->standings[3].role, ROSTER_ABSENT);
    free(note);
    roster_destroy(roster);
}

/* A partition has the timers that its last owner told. The counts of tenants stay when their node
 * owns nothing any more, as one that begins anew. */
static void test_live_timers(void **state)
{
    struct roster *roster = roster_create(4);
    struct roster_note *note = note_make();

    (void)state;
    assert_int_equal(roster_owned(roster, 0)->node, 0);
    assert_int_equal(note_read_as(roster, 2, 11, 0, note), ERROR_NONE);
    assert_true(roster_owned(roster, 0)->node == 2 && roster_owned(roster, 0)->pending == 6);
    assert_int_equal(roster_owned(roster, 3)->node, 0); /* it has a copy */
    const struct roster_member *member = roster_find(roster, 2);
    assert_true(member->pending == 6 && member->tenant_count == 2);
    assert_true(member->tenants[1].count == 2 && member->tenants[1].name_size == 1);
    assert_int_equal(member->tenants[1].name[0], 't');
    note->places[0].role = ROSTER_STANDBY;
    note->tenant_count = 0;
    assert_int_equal(note_read_as(roster, 2, 12, 0, note), ERROR_NONE);
    assert_true(roster_owned(roster, 0)->node == 2 && roster_owned(roster, 0)->pending == 6);
    assert_true(member->pending == 6 && member->tenant_count == 2);
    note->places[0].role = ROSTER_OWNER;
    note->places[0].pending = 9;
    assert_int_equal(note_read_as(roster, 7, 1, 0, note), ERROR_NONE);
    assert_true(roster_owned(roster, 0)->node == 7 && roster_owned(roster, 0)->pending == 9);
    free(note);
    roster_destroy(roster);
}

static void test_limits_of_the_roster(void **state)
{
    struct roster *roster = roster_create(3); /* the note names partition 3 */
    struct roster_note *note = note_make();

    (void)state;
    assert_int_equal(note_read_as(roster, 1, 1, 0, note), ERROR_CORRUPT);
    note->place_count = 1;
    assert_int_equal(note_read_as(roster, 0, 1, 0, note), ERROR_CORRUPT);
    for (uint32_t i = ROSTER_MAX; i > 0; i--)
        assert_int_equal(note_read_as(roster, i, 1, 1, note), ERROR_NONE);
    for (size_t i = 0; i < ROSTER_MAX; i++)
        assert_int_equal(roster_at(roster, i)->node, i + 1);
    assert_int_equal(note_read_as(roster, 99, 1, 1, note), ERROR_TOO_MANY);
    for (int i = 0; i < ROSTER_NOTES_MISSED_MAX; i++)
        assert_int_equal(note_read_as(roster, 1, 1, 1, note), ERROR_NONE);
    assert_int_equal(note_read_as(roster, 99, 1, 1, note), ERROR_NONE); /* for a dead one */
    assert_int_equal(roster_count(roster), ROSTER_MAX);
    assert_non_null(roster_find(roster, 99));
    free(note);
    roster_destroy(roster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_note),
        cmocka_unit_test(test_notes_out_of_bounds),
        cmocka_unit_test(test_five_notes_of_the_planner),
        cmocka_unit_test(test_a_planner_is_replaced),
        cmocka_unit_test(test_incarnations),
        cmocka_unit_test(test_live_timers),
        cmocka_unit_test(test_limits_of_the_roster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
