/*
 * Goal: a definition is found by its tenant, kind and name alone; tables keep their limits, and
 * come back from their bytes or are refused. Method: rows by hand, golden bytes, every cut and
 * random changes of bytes.
 */
#include "timer/definitions.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct definitions *definitions_test_put(struct definitions *definitions, const char *tenant,
                                                const char *key, struct bytes value,
                                                enum error_code expected)
{
    const struct definition row = {bytes_of(tenant), bytes_of(key), value, {5}, 7};
    struct definitions *next = definitions;

    assert_int_equal(definitions_put(definitions, &row, &next), expected);
    if (!expected)
        definitions_leave(definitions);
    return next;
}

/* proves: definition-name */
static void a_row_is_found_by_its_name(void **state)
{
    struct definitions *definitions = definitions_create(), *next;
    size_t count;

    (void)state;
    definitions = definitions_test_put(definitions, "", "tbilling", BYTES("1"), ERROR_NONE);
    definitions = definitions_test_put(definitions, "shop", "tbilling", BYTES("2"), ERROR_NONE);
    definitions = definitions_test_put(definitions, "shop", "cbilling", BYTES("3"), ERROR_NONE);
    definitions = definitions_test_put(definitions, "shop", "ta", BYTES("4"), ERROR_NONE);
    definitions = definitions_test_put(definitions, "shop", "tbilling", BYTES("5"), ERROR_NONE);
    const struct definition *row =
        definitions_find(definitions, BYTES("shop"), DEFINITION_TARGET, BYTES("billing"));
    assert_true(row && bytes_equal(row->value, BYTES("5")) && row->version == 7);
    assert_true(definition_kind(row) == DEFINITION_TARGET);
    assert_true(bytes_equal(definition_name(row), BYTES("billing")));
    row = definitions_find(definitions, BYTES(""), DEFINITION_TARGET, BYTES("billing"));
    assert_true(row && bytes_equal(row->value, BYTES("1")));
    assert_null(definitions_find(definitions, BYTES(""), DEFINITION_CALENDAR, BYTES("billing")));
    assert_null(definitions_find(definitions, BYTES("sho"), DEFINITION_TARGET, BYTES("billing")));
    row = definitions_of(definitions, BYTES("shop"), DEFINITION_TARGET, &count);
    assert_true(count == 2 && bytes_equal(definition_name(row), BYTES("a")));
    definitions_of(definitions, BYTES("shop"), DEFINITION_FLOW, &count);
    assert_int_equal(count, 0);
    char longest[DEFINITION_NAME_SIZE_MAX + 1];
    memset(longest, 'x', sizeof(longest));
    assert_null(definitions_find(definitions, BYTES("shop"), DEFINITION_TARGET,
                                 (struct bytes){longest, sizeof(longest)}));
    assert_false(definition_name_is_valid((struct bytes){longest, sizeof(longest)}));
    assert_true(definition_name_is_valid((struct bytes){longest, sizeof(longest) - 1}));
    assert_int_equal(definitions_remove(definitions, BYTES("shop"), BYTES("ta"), &next),
                     ERROR_NONE);
    assert_int_equal(next->count, 3);
    definitions_leave(next);
    definitions_leave(definitions);
}

/* proves: definitions-tenant, definitions-bytes-tenant, definitions-bytes-all */
static void definitions_keep_their_limits(void **state)
{
    struct definitions *definitions = definitions_create();
    char *value = calloc(1, DEFINITIONS_BYTES_TENANT_MAX + 1);
    char key[16], tenant[16];

    (void)state;
    assert_non_null(value);
    for (unsigned i = 0; i <= DEFINITIONS_TENANT_MAX; i++) {
        snprintf(key, sizeof(key), "t%u", i);
        definitions =
            definitions_test_put(definitions, "shop", key, BYTES("1"),
                                 i < DEFINITIONS_TENANT_MAX ? ERROR_NONE : ERROR_TOO_MANY);
    }
    definitions = definitions_test_put(definitions, "shop", "t0", BYTES("2"), ERROR_NONE);
    definitions = definitions_test_put(definitions, "shop", "c0", BYTES("1"), ERROR_NONE);
    const size_t rest = DEFINITIONS_BYTES_TENANT_MAX - DEFINITIONS_TENANT_MAX;
    definitions =
        definitions_test_put(definitions, "shop", "c0", (struct bytes){value, rest}, ERROR_NONE);
    definitions = definitions_test_put(definitions, "shop", "c0", (struct bytes){value, rest + 1},
                                       ERROR_TOO_MANY);
    unsigned count = 0;
    for (bool is_full = false; !is_full; count += !is_full) {
        const struct definition row = {.tenant = bytes_of(tenant),
                                       .key = BYTES("f1"),
                                       .value = {value, DEFINITIONS_BYTES_TENANT_MAX}};
        struct definitions *next;

        snprintf(tenant, sizeof(tenant), "other%u", count);
        is_full = definitions_put(definitions, &row, &next) == ERROR_TOO_MANY;
        if (!is_full) {
            definitions_leave(definitions);
            definitions = next;
        }
    }
    assert_int_equal(count, (DEFINITIONS_BYTES_MAX - DEFINITIONS_BYTES_TENANT_MAX) /
                                DEFINITIONS_BYTES_TENANT_MAX);
    free(value);
    definitions_leave(definitions);
}

/* Bytes come back as the table that they were written from; fewer or other ones do not. */
static void definitions_come_back(void **state)
{
    static const uint8_t golden[] = {
        'T', 'W', 'D', 'E', 'F', 'I', 'N', '1', 1,   0,   0,   0, /* mark and number of rows */
        1,   2,   0,   3,   0,   0,   5,   0,   0,   0,   0,   0,
        0,   0, /* sizes, time of the change */
        7,   0,   0,   0,   0,   0,   0,   0,   's', 't', 'b', 0,
        1,   255, /* version, texts */
    };
    struct definitions *definitions = definitions_create(), *back;
    struct random random = random_seeded(7);
    struct buffer bytes, again;

    (void)state;
    definitions =
        definitions_test_put(definitions, "s", "tb", (struct bytes){"\0\1\377", 3}, ERROR_NONE);
    buffer_init(&bytes);
    buffer_init(&again);
    definitions_encode(definitions, &bytes);
    assert_int_equal(bytes.size, sizeof(golden) + 4);
    assert_memory_equal(bytes.data, golden, sizeof(golden));
    assert_int_equal(definitions_decode(buffer_bytes(&bytes), &back), ERROR_NONE);
    definitions_encode(back, &again);
    assert_true(bytes_equal(buffer_bytes(&bytes), buffer_bytes(&again)));
    definitions_leave(back);
    for (size_t size = 0; size < bytes.size; size++)
        assert_int_equal(definitions_decode((struct bytes){bytes.data, size}, &back),
                         ERROR_CORRUPT);
    for (unsigned i = 0; i < 1000; i++) {
        const size_t at = random_below(&random, bytes.size);
        const char last = bytes.data[at];

        bytes.data[at] ^= (char)(1u << random_below(&random, 8));
        assert_int_equal(definitions_decode(buffer_bytes(&bytes), &back), ERROR_CORRUPT);
        bytes.data[at] = last;
    }
    buffer_deinit(&again);
    buffer_deinit(&bytes);
    definitions_leave(definitions);
}

/* A join has each key once, in order, whatever both tables have. */
static void a_join_prefers_the_second_table(void **state)
{
    struct random random = random_seeded(7);

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct definitions *tables[2] = {definitions_create(), definitions_create()};
        const char *values[2] = {"1", "2"};
        unsigned has[2] = {0, 0};

        for (int i = 0; i < 2; i++)
            for (int key = 0; key < 8; key++) {
                char name[] = {'t', (char)('a' + key % 4), '\0'};

                if (random_below(&random, 2))
                    continue;
                has[i] |= 1u << key;
                tables[i] = definitions_test_put(tables[i], key < 4 ? "" : "shop", name,
                                                 bytes_of(values[i]), ERROR_NONE);
            }
        struct definitions *joined = definitions_join(tables[0], tables[1]);
        definitions_leave(tables[0]);
        definitions_leave(tables[1]);
        assert_non_null(joined);
        assert_int_equal(joined->count, __builtin_popcount(has[0] | has[1]));
        for (int key = 0; key < 8; key++) {
            const char name[] = {'t', (char)('a' + key % 4)};
            const struct definition *row = definitions_at(joined, bytes_of(key < 4 ? "" : "shop"),
                                                          (struct bytes){name, sizeof(name)});

            assert_int_equal(row != NULL, ((has[0] | has[1]) >> key) & 1);
            if (row)
                assert_true(bytes_equal(row->value, bytes_of(values[(has[1] >> key) & 1])));
        }
        definitions_leave(joined);
    }
}

static void the_board_shows_the_latest_definitions(void **state)
{
    struct definition_board board;
    uint64_t version;

    (void)state;
    definition_board_init(&board);
    assert_null(definition_board_take(&board, &version));
    definition_board_show(&board, definitions_create());
    struct definitions *first = definition_board_take(&board, &version);
    assert_true(version == 1 && first->count == 0);
    definition_board_show(
        &board, definitions_test_put(definitions_hold(first), "", "fx", BYTES("1"), ERROR_NONE));
    struct definitions *second = definition_board_take(&board, &version);
    assert_true(version == 2 && second->count == 1 && first->count == 0);
    definitions_leave(second);
    definitions_leave(first);
    definition_board_deinit(&board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_found_by_its_name),
        cmocka_unit_test(definitions_keep_their_limits),
        cmocka_unit_test(definitions_come_back),
        cmocka_unit_test(a_join_prefers_the_second_table),
        cmocka_unit_test(the_board_shows_the_latest_definitions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
