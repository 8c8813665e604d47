/* Goal: the bytes of a plan are those of planner.h, and no plan that contradicts
 * itself is taken. Method: golden bytes, each cut of them, and fields that do not fit to each
 * other; chosen members for which node takes over. The model test has the rest. */
#include "cluster/planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

static const uint8_t planner_golden[] = {
    1, 1, 2, 0, 0, 0, 0, 0, 0, 2, 0, /* version 513, two partitions */
    1, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
    9, 8, 7, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};

static void test_golden_plan(void **state)
{
    struct plan *plan = calloc(2, sizeof(*plan));
    struct buffer buffer;

    (void)state;
    assert_non_null(plan);
    plan->version = 513;
    plan->partition_count = 2;
    plan->entries[0] = (struct plan_entry){1, 3, {2, 3, 0}};
    plan->entries[1] = (struct plan_entry){.owner = 0x06070809};
    buffer_init(&buffer);
    plan_encode(plan, &buffer);
    assert_int_equal(buffer.size, sizeof(planner_golden));
    assert_memory_equal(buffer.data, planner_golden, sizeof(planner_golden));
    assert_int_equal(plan_decode(buffer_bytes(&buffer), &plan[1], NULL), ERROR_NONE);
    assert_memory_equal(&plan[0], &plan[1], sizeof(*plan));
    for (size_t size = 0; size < buffer.size; size++) {
        char *copy = malloc(size + !size);
        assert_non_null(copy);
        memcpy(copy, buffer.data, size);
        assert_int_equal(plan_decode((struct bytes){copy, size}, &plan[1], NULL), ERROR_CORRUPT);
        free(copy);
    }
    buffer_append(&buffer, "", 1);
    assert_int_equal(plan_decode(buffer_bytes(&buffer), &plan[1], NULL), ERROR_CORRUPT);
    buffer_deinit(&buffer);
    free(plan);
}

static void test_contradictions_of_a_plan(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } cases[] = {
        {0, 2},           /* a form to come */
        {9, 0},  {10, 5}, /* no partition, and more than there may be */
        {11, 0},          /* standbys of no owner */
        {15, 1},          /* next is the owner */
        {19, 1},          /* a standby is the owner */
        {19, 3},          /* one standby twice */
        {19, 0},          /* a standby behind none */
    };
    struct plan *plan = calloc(1, sizeof(*plan));

    (void)state;
    assert_non_null(plan);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[sizeof(planner_golden)];

        memcpy(bytes, planner_golden, sizeof(bytes));
        bytes[cases[i].at] = cases[i].value;
        if (plan_decode((struct bytes){(char *)bytes, sizeof(bytes)}, plan, NULL) != ERROR_CORRUPT)
            fail_msg("case %zu", i);
    }
    free(plan);
}

/* What a member says of itself and of partition 0. */
static void planner_tell_weight(struct roster *roster, uint32_t node, uint16_t weight,
                                enum roster_role role, uint64_t next)
{
    struct roster_note *note = calloc(1, sizeof(*note));
    struct frame frame = {.kind = FRAME_NOTE, .node = node, .incarnation = 1};
    struct buffer buffer;

    assert_non_null(note);
    note->weight = weight;
    note->place_count = role != ROSTER_ABSENT;
    note->places[0] = (struct roster_place){0, role, next, 0};
    buffer_init(&buffer);
    roster_note_encode(note, &buffer);
    frame.body = buffer_bytes(&buffer);
    assert_int_equal(roster_read(roster, &frame, 0, NULL), ERROR_NONE);
    buffer_deinit(&buffer);
    free(note);
}

static void planner_tell(struct roster *roster, uint32_t node, enum roster_role role, uint64_t next)
{
    planner_tell_weight(roster, node, 1, role, next);
}

/* The one that read most; never one on which the partition is broken, or that stops. */
static void test_who_takes_over(void **state)
{
    const struct plan_options options = {.standby_count = 3, .clock_skew_ms_max = 500};
    struct plan *plans = calloc(2, sizeof(*plans));
    struct roster *roster = roster_create(1);

    (void)state;
    assert_true(plans && roster);
    planner_tell(roster, 1, ROSTER_ABSENT, 0);
    planner_tell(roster, 2, ROSTER_STANDBY, 70);
    planner_tell(roster, 3, ROSTER_STANDBY, 90);
    planner_tell(roster, 4, ROSTER_BROKEN, 100);
    plans[0].partition_count = 1;
    plans[0].entries[0] = (struct plan_entry){9, 0, {4, 2, 3}}; /* 9 is no member any more */
    assert_int_equal(plan_make(&plans[0], roster, &options, &plans[1]), PLAN_CHANGED);
    const struct plan_entry *entry = &plans[1].entries[0];
    assert_int_equal(entry->owner, 3);
    assert_true(entry->standbys[0] == 2 && entry->standbys[1] == 1 && entry->standbys[2] == 0);
    planner_tell_weight(roster, 3, 0, ROSTER_STANDBY, 90);
    assert_int_equal(plan_make(&plans[0], roster, &options, &plans[1]), PLAN_CHANGED);
    assert_int_equal(entry->owner, 2);
    planner_tell(roster, 1, ROSTER_OWNER, 5); /* by its claim */
    assert_int_equal(plan_make(&plans[0], roster, &options, &plans[1]), PLAN_CHANGED);
    assert_int_equal(entry->owner, 1);
    roster_destroy(roster);
    free(plans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_plan),
        cmocka_unit_test(test_contradictions_of_a_plan),
        cmocka_unit_test(test_who_takes_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
