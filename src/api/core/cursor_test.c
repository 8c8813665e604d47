/*
 * Goal: a cursor comes back as it was written, and any change of its text is noticed; the positions
 * it stands for split the list without a gap or an overlap. Method: extreme values, every
 * single-character change, and a comparison of positions with the order of places.
 */
#include "api/core/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct cursor samples[] = {
    {{0}, 0, 0},
    {{1795219199250}, 3, TIMER_SERIAL(1, 2)},
    {{WALL_MS_MAX}, 255, UINT64_MAX},
    {{UINT64_MAX}, UINT16_MAX, UINT64_MAX},
    {{UINT64_MAX - 1}, 0, UINT64_MAX - 1},
};

enum {
    SAMPLE_COUNT = sizeof(samples) / sizeof(samples[0]),
};

static void comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        char text[CURSOR_TEXT_SIZE];

        cursor_format(&samples[i], text);
        assert_int_equal(strlen(text), CURSOR_TEXT_SIZE - 1);
        struct cursor cursor;
        assert_int_equal(cursor_parse(bytes_of(text), &cursor), ERROR_NONE);
        assert_true(!cursor_before(&cursor, &samples[i]) && !cursor_before(&samples[i], &cursor));
    }
}

/* proves: list-cursor */
static void notices_changes(void **state)
{
    static const char replacements[] = "0123456789abcdefABCDEF g-";

    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        char text[CURSOR_TEXT_SIZE + 1] = {0};

        cursor_format(&samples[i], text);
        struct cursor cursor;
        for (size_t at = 0; at < CURSOR_TEXT_SIZE - 1; at++) {
            char kept = text[at];

            for (size_t j = 0; j < sizeof(replacements); j++) {
                if (replacements[j] == kept)
                    continue;
                text[at] = replacements[j];
                assert_int_equal(cursor_parse((struct bytes){text, CURSOR_TEXT_SIZE - 1}, &cursor),
                                 ERROR_INVALID);
            }
            text[at] = kept;
        }
        for (size_t size = 0; size < CURSOR_TEXT_SIZE - 1; size++)
            assert_int_equal(cursor_parse((struct bytes){text, size}, &cursor), ERROR_INVALID);
        text[CURSOR_TEXT_SIZE - 1] = '0';
        assert_int_equal(cursor_parse((struct bytes){text, CURSOR_TEXT_SIZE}, &cursor),
                         ERROR_INVALID);
    }
}

static void goes_with_one_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        for (unsigned given = 0; given <= CURSOR_ORDER_LAST; given++) {
            char text[CURSOR_TEXT_SIZE];
            struct cursor cursor;

            cursor_format_order(&samples[i], given, text);
            for (unsigned order = 0; order <= CURSOR_ORDER_LAST; order++)
                assert_int_equal(cursor_parse_order(bytes_of(text), order, &cursor),
                                 order == given ? ERROR_NONE : ERROR_INVALID);
            text[1] = text[1] == '1' ? '2' : '1'; /* another order, with the old check sum */
            for (unsigned order = 0; order <= CURSOR_ORDER_LAST; order++)
                assert_int_equal(cursor_parse_order(bytes_of(text), order, &cursor), ERROR_INVALID);
        }
    }
}

/* A row of a partition lies at or behind the partition's position exactly when its place does. */
/* proves: list-cursor */
static void positions_agree_with_places(void **state)
{
    static const uint64_t values[] = {0, 1, 2, 7};

    (void)state;
    for (size_t i = 0; i < 4 * 4 * 4; i++) {
        struct cursor cursor = {{values[i % 4]}, (uint16_t)values[i / 4 % 4], values[i / 16]};

        for (size_t j = 0; j < 4 * 4 * 4; j++) {
            struct cursor row = {{values[j % 4]}, (uint16_t)values[j / 4 % 4], values[j / 16]};
            struct storage_position position = cursor_position(&cursor, row.partition);
            struct storage_position at = {row.at, row.serial};

            assert_int_equal(storage_position_before(at, position), cursor_before(&row, &cursor));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(notices_changes),
        cmocka_unit_test(goes_with_one_order),
        cmocka_unit_test(positions_agree_with_places),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
