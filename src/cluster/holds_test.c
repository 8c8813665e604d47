/* Goal: the bytes of changes and copies are those of docs/cluster-design.md, no others are taken,
 * and changes are made as they say, within the limits. Method: golden bytes, each cut of them,
 * fields that do not fit, and chosen changes. */
#include "cluster/holds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

static const struct holds_change holds_pause = {
    .kind = HOLDS_PAUSE,
    .ask = 0x0102,
    .at = {3},
    .pause = {BYTES("t"), BYTES("queue:a"), BYTES("why"), {3}, {9}},
};

static const uint8_t holds_golden_pause[] =
    {
        2,   2,   1,   0,   0,   0,   0,   0,   0,   1,   3,   0,   0,
        0,   0,   0,   0,   0,                                         /* form to at */
        'T', 'W', 'P', 'A', 'U', 'S', 'E', '1', 1,   0,   0,   0,      /* a table */
        1,   7,   0,   3,   0,   3,   0,   0,   0,   0,   0,   0,   0, /* its row */
        9,   0,   0,   0,   0,   0,   0,   0,   't', 'q', 'u', 'e', 'u',
        'e', ':', 'a', 'w', 'h', 'y',
};

static const uint8_t holds_golden_maintain[] = {2, 1, 0, 0, 0, 0, 0, 0,   0,   3,   5,
                                                0, 0, 0, 0, 0, 0, 0, 'd', 'i', 's', 'k'};

static const uint8_t holds_golden_copy[] = {
    3, 0, 1, 0,   0,   0,   0,   0,   0, /* up to 256 */
    1, 4, 0, 'd', 'i', 's', 'k', 'T', 'W', 'P', 'A', 'U', 'S', 'E', '1', 0, 0, 0, 0,
};

static void holds_expect(const struct buffer *buffer, const uint8_t *golden, size_t size)
{
    assert_false(buffer_failed(buffer));
    assert_true(buffer->size >= size);
    assert_memory_equal(buffer->data, golden, size);
}

/* No part of the bytes is taken, and none with a byte more. */
static void holds_expect_whole(struct buffer *buffer)
{
    buffer_append(buffer, "", 1);
    for (size_t size = 0; size <= buffer->size; size++) {
        char *copy = malloc(size + !size);
        struct holds_change change;
        struct holds holds;
        uint64_t read_to;

        assert_non_null(copy);
        memcpy(copy, buffer->data, size);
        const bool is_change = !holds_change_decode((struct bytes){copy, size}, &change);
        const bool is_copy = !holds_decode((struct bytes){copy, size}, &holds, &read_to);
        assert_int_equal(is_change || is_copy, size == buffer->size - 1);
        if (is_change)
            holds_change_deinit(&change);
        if (is_copy)
            holds_deinit(&holds);
        free(copy);
    }
}

static void test_golden_bytes(void **state)
{
    const struct holds_change maintain = {
        .kind = HOLDS_MAINTAIN, .ask = 1, .at = {5}, .pause.note = BYTES("disk")};
    struct buffer buffer;
    struct holds holds;

    (void)state;
    buffer_init(&buffer);
    holds_change_encode(&holds_pause, &buffer);
    holds_expect(&buffer, holds_golden_pause, sizeof(holds_golden_pause));
    assert_int_equal(buffer.size, sizeof(holds_golden_pause) + 4);
    holds_expect_whole(&buffer);
    buffer_clear(&buffer);
    holds_change_encode(&maintain, &buffer);
    holds_expect(&buffer, holds_golden_maintain, sizeof(holds_golden_maintain));
    assert_int_equal(buffer.size, sizeof(holds_golden_maintain));
    assert_true(holds_init(&holds));
    assert_int_equal(holds_apply(&holds, &maintain), ERROR_NONE);
    buffer_clear(&buffer);
    holds_encode(&holds, 256, &buffer);
    holds_expect(&buffer, holds_golden_copy, sizeof(holds_golden_copy));
    assert_int_equal(buffer.size, sizeof(holds_golden_copy) + 4);
    holds_expect_whole(&buffer);
    holds_deinit(&holds);
    buffer_deinit(&buffer);
}

/* A copy without drained nodes is that of builds that knew of none. */
static void test_drained_nodes(void **state)
{
    static const uint8_t drain[] = {2, 1, 0, 0, 0, 0, 0, 0, 0, 6, 5, 0, 0,
                                    0, 0, 0, 0, 0, 7, 0, 0, 0, 2, 1, 0, 0};
    static const uint8_t undrain[] = {2, 1, 0, 0, 0, 0, 0, 0, 0, 7, 5,
                                      0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0};
    static const uint8_t copy[] = {3, 0, 1, 0, 0, 0, 0, 0, 0, 2,   0,   0,
                                   2, 7, 0, 0, 0, 9, 0, 0, 0, 'T', 'W', 'P'};
    struct holds_change change = {
        .kind = HOLDS_DRAIN, .ask = 1, .at = {5}, .node = 7, .witness = 258};
    struct buffer buffer;
    struct holds holds, back;
    uint64_t read_to;

    (void)state;
    buffer_init(&buffer);
    holds_change_encode(&change, &buffer);
    assert_int_equal(buffer.size, sizeof(drain));
    holds_expect(&buffer, drain, sizeof(drain));
    holds_expect_whole(&buffer);
    assert_true(holds_init(&holds));
    change.node = 9;
    assert_int_equal(holds_apply(&holds, &change), ERROR_NONE);
    change.node = 7;
    assert_int_equal(holds_apply(&holds, &change), ERROR_NONE);
    assert_int_equal(holds_apply(&holds, &change), ERROR_NONE); /* a repetition */
    assert_true(holds_is_drained(&holds, 7) && holds_is_drained(&holds, 9));
    assert_false(holds_is_drained(&holds, 8));
    buffer_clear(&buffer);
    holds_encode(&holds, 256, &buffer);
    holds_expect(&buffer, copy, sizeof(copy));
    assert_int_equal(holds_decode(buffer_bytes(&buffer), &back, &read_to), ERROR_NONE);
    assert_int_equal(back.drained_count, 2);
    assert_memory_equal(back.drained, holds.drained, 2 * sizeof(holds.drained[0]));
    holds_deinit(&back);
    buffer.data[13] = 9; /* twice the same node */
    assert_int_equal(holds_decode(buffer_bytes(&buffer), &back, &read_to), ERROR_CORRUPT);
    buffer.data[13] = 7;
    holds_expect_whole(&buffer);
    change.kind = HOLDS_UNDRAIN;
    buffer_clear(&buffer);
    holds_change_encode(&change, &buffer);
    assert_int_equal(buffer.size, sizeof(undrain));
    holds_expect(&buffer, undrain, sizeof(undrain));
    holds_expect_whole(&buffer);
    for (int i = 0; i < 2; i++)
        assert_int_equal(holds_apply(&holds, &change), ERROR_NONE);
    assert_false(holds_is_drained(&holds, 7));
    assert_true(holds_is_drained(&holds, 9));
    holds_deinit(&holds);
    buffer_deinit(&buffer);
}

static const struct holds_change holds_definition = {
    .kind = HOLDS_DEFINE,
    .ask = 1,
    .at = {5},
    .definition = {BYTES("t"), BYTES("tbilling"), BYTES("url"), {0}, HOLDS_ANY_VERSION},
};

/* A copy without definitions is that of builds that knew of none. */
static void test_definitions(void **state)
{
    static const uint8_t copy[] = {3, 0, 1, 0, 0, 0, 0,  0, 0, 4, 0,   0,   1,  0,
                                   0, 0, 0, 0, 0, 0, 50, 0, 0, 0, 'T', 'W', 'D'};
    struct holds_change change = holds_definition;
    struct holds holds, back;
    struct buffer buffer;
    uint64_t read_to;

    (void)state;
    buffer_init(&buffer);
    holds_change_encode(&change, &buffer);
    holds_expect_whole(&buffer);
    assert_true(holds_init(&holds));
    change.definition.version = 1;
    assert_int_equal(holds_apply(&holds, &change), ERROR_VERSION_MISMATCH);
    change.definition.version = 0;
    assert_int_equal(holds_apply(&holds, &change), ERROR_NONE);
    assert_int_equal(holds_apply(&holds, &change), ERROR_VERSION_MISMATCH);
    assert_int_equal(holds.defined, 1);
    assert_true(holds.definitions->rows[0].version == 1 &&
                holds.definitions->rows[0].since.ms == 5);
    buffer_clear(&buffer);
    holds_encode(&holds, 256, &buffer);
    holds_expect(&buffer, copy, sizeof(copy));
    assert_int_equal(holds_decode(buffer_bytes(&buffer), &back, &read_to), ERROR_NONE);
    assert_true(back.defined == 1 && back.definitions->count == 1 && back.pauses->count == 0);
    assert_true(bytes_equal(back.definitions->rows[0].value, BYTES("url")));
    holds_deinit(&back);
    holds_expect_whole(&buffer);
    buffer.data[12] = 0; /* a version later than the last */
    assert_int_equal(holds_decode(buffer_bytes(&buffer), &back, &read_to), ERROR_CORRUPT);
    change.kind = HOLDS_UNDEFINE;
    change.definition.version = 2;
    assert_int_equal(holds_apply(&holds, &change), ERROR_VERSION_MISMATCH);
    change.definition.version = 1;
    assert_int_equal(holds_apply(&holds, &change), ERROR_NONE);
    assert_int_equal(holds_apply(&holds, &change), ERROR_NOT_FOUND);
    assert_int_equal(holds.definitions->count, 0);
    buffer_clear(&buffer);
    holds_change_encode(&change, &buffer);
    holds_expect_whole(&buffer);
    change = holds_definition; /* made anew, it has a version that it never had */
    assert_int_equal(holds_apply(&holds, &change), ERROR_NONE);
    assert_int_equal(holds.definitions->rows[0].version, 2);
    holds_deinit(&holds);
    buffer_deinit(&buffer);
}

/* Of two drains that name each other's node as the one that stays, the later one is refused. */
static void test_the_last_node_is_not_drained(void **state)
{
    struct holds_change change = {.kind = HOLDS_DRAIN, .node = 1, .witness = 2};
    struct holds holds;

    (void)state;
    assert_true(holds_init(&holds));
    assert_int_equal(holds_apply(&holds, &change), ERROR_NONE);
    change.node = 2;
    change.witness = 1;
    assert_int_equal(holds_apply(&holds, &change), ERROR_INVALID);
    assert_int_equal(holds.drained_count, 1);
    change.witness = 1000;
    for (change.node = 2; change.node <= HOLDS_DRAINED_MAX; change.node++)
        assert_int_equal(holds_apply(&holds, &change), ERROR_NONE);
    assert_int_equal(holds_apply(&holds, &change), ERROR_TOO_MANY);
    assert_int_equal(holds.drained_count, HOLDS_DRAINED_MAX);
    holds_deinit(&holds);
}

/* A resume and a reset have no note and no time. */
static void test_one_encoding(void **state)
{
    struct holds_change change = holds_pause;
    struct buffer buffer;

    (void)state;
    buffer_init(&buffer);
    holds_change_encode(&change, &buffer);
    buffer.data[9] = HOLDS_RESUME;
    assert_int_equal(holds_change_decode(buffer_bytes(&buffer), &change), ERROR_CORRUPT);
    buffer.data[9] = HOLDS_RESET;
    assert_int_equal(holds_change_decode(buffer_bytes(&buffer), &change), ERROR_CORRUPT);
    buffer.data[9] = HOLDS_DRAIN;
    assert_int_equal(holds_change_decode(buffer_bytes(&buffer), &change), ERROR_CORRUPT);
    buffer.data[9] = HOLDS_UNDEFINE + 1;
    assert_int_equal(holds_change_decode(buffer_bytes(&buffer), &change), ERROR_CORRUPT);
    buffer.data[9] = HOLDS_DEFINE;
    assert_int_equal(holds_change_decode(buffer_bytes(&buffer), &change), ERROR_CORRUPT);
    buffer.data[9] = HOLDS_END;
    assert_int_equal(holds_change_decode(buffer_bytes(&buffer), &change), ERROR_CORRUPT);
    buffer_clear(&buffer);
    change = holds_pause;
    change.kind = HOLDS_RESUME;
    holds_change_encode(&change, &buffer);
    assert_int_equal(holds_change_decode(buffer_bytes(&buffer), &change), ERROR_NONE);
    assert_true(bytes_equal(change.pause.name, BYTES("queue:a")) && change.pause.note.size == 0);
    holds_change_deinit(&change);
    buffer.data[9] = HOLDS_RESET;
    assert_int_equal(holds_change_decode(buffer_bytes(&buffer), &change), ERROR_NONE);
    assert_true(change.kind == HOLDS_RESET && bytes_equal(change.pause.tenant, BYTES("t")));
    holds_change_deinit(&change);
    buffer_deinit(&buffer);
}

/* All pauses fit into one record, with the longest notes, too. */
/* proves: definitions-pauses */
static void test_the_limit_of_bytes(void **state)
{
    char name[TARGET_PAUSE_NAME_SIZE_MAX + 1], tenant[24], note[TARGET_PAUSE_NOTE_SIZE_MAX];
    enum error_code code = ERROR_NONE;
    struct buffer buffer;
    struct holds holds;
    size_t count = 0;

    (void)state;
    memset(note, 'n', sizeof(note));
    assert_true(holds_init(&holds));
    while (!code) {
        struct holds_change change = {.kind = HOLDS_PAUSE};

        snprintf(tenant, sizeof(tenant), "t%zu", count / TARGET_PAUSES_TENANT_MAX);
        snprintf(name, sizeof(name), "http://%0300zu", count);
        change.pause = (struct target_pause){
            bytes_of(tenant), bytes_of(name), {note, sizeof(note)}, {1}, WALL_NEVER};
        code = holds_apply(&holds, &change);
        count += !code;
    }
    assert_int_equal(code, ERROR_TOO_MANY);
    assert_int_equal(holds.pauses->count, count); /* it is as it was */
    assert_true(count > 1000 && count < TARGET_PAUSES_MAX);
    struct holds_change definition = holds_definition;
    definition.definition.value = (struct bytes){name, sizeof(name)};
    definition.definition.version = HOLDS_ANY_VERSION;
    for (code = ERROR_NONE; !code; definition.definition.tenant = bytes_of(tenant)) {
        code = holds_apply(&holds, &definition);
        snprintf(tenant, sizeof(tenant), "t%zu", holds.definitions->count);
    }
    assert_int_equal(code, ERROR_TOO_MANY);
    buffer_init(&buffer);
    holds_encode(&holds, 0, &buffer);
    assert_true(buffer.size > HOLDS_BYTES_MAX - 1000 && buffer.size < HOLDS_BYTES_MAX + 1000);
    buffer_deinit(&buffer);
    holds_deinit(&holds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_bytes), cmocka_unit_test(test_drained_nodes),
        cmocka_unit_test(test_definitions),  cmocka_unit_test(test_the_last_node_is_not_drained),
        cmocka_unit_test(test_one_encoding), cmocka_unit_test(test_the_limit_of_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
