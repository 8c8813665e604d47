/*
 * Goal: a debounce says what was asked, and moves a time no later than it may. Method: known texts,
 * damaged ones, and instants reckoned by hand.
 */
#include "timer/debounce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_debounce_text(void **state)
{
    const struct debounce asked = {30000, 600000, {UINT64_C(1795132800250)}};
    struct debounce read;
    char room[DEBOUNCE_TEXT_SIZE];

    (void)state;
    const struct bytes text = debounce_write(&asked, room);
    assert_true(bytes_equal(text, BYTES("{\"for\":\"30s\",\"at_most\":\"10m\","
                                        "\"first\":\"2026-11-20T00:00:00.250Z\"}")));
    assert_int_equal(debounce_read(text, &read), ERROR_NONE);
    assert_true(read.for_ms == asked.for_ms && read.at_most_ms == asked.at_most_ms);
    assert_int_equal(read.first.ms, asked.first.ms);
    for (size_t size = 0; size < text.size; size++)
        assert_int_equal(debounce_read((struct bytes){text.data, size}, &read), ERROR_CORRUPT);
}

static void test_debounce_damaged_texts(void **state)
{
    static const char *const texts[] = {
        "[]",
        "{}",
        "{\"for\":\"30s\",\"at_most\":\"10m\"}",
        "{\"for\":\"0s\",\"at_most\":\"10m\",\"first\":\"2026-11-20T00:00:00Z\"}",
        "{\"for\":\"11m\",\"at_most\":\"10m\",\"first\":\"2026-11-20T00:00:00Z\"}",
        "{\"for\":30,\"at_most\":\"10m\",\"first\":\"2026-11-20T00:00:00Z\"}",
        "{\"for\":\"30s\",\"at_most\":\"10m\",\"first\":\"2026-11-20T00:00:00Z\",\"x\":\"1s\"}",
    };
    struct debounce read;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        assert_int_equal(debounce_read(bytes_of(texts[i]), &read), ERROR_CORRUPT);
}

static void test_debounce_due(void **state)
{
    const struct debounce debounce = {30000, 600000, {1000000}};
    const struct debounce far = {30000, UINT64_MAX / 2, {WALL_MS_MAX - 1}};

    (void)state;
    assert_int_equal(debounce_due(&debounce, (struct wall){1000000}).ms, 1030000);
    assert_int_equal(debounce_due(&debounce, (struct wall){1570000}).ms, 1600000);
    assert_int_equal(debounce_due(&debounce, (struct wall){1570001}).ms, 1600000);
    assert_int_equal(debounce_due(&debounce, (struct wall){9000000}).ms, 1600000);
    assert_int_equal(debounce_due(&far, (struct wall){WALL_MS_MAX}).ms, WALL_MS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_debounce_text),
        cmocka_unit_test(test_debounce_damaged_texts),
        cmocka_unit_test(test_debounce_due),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
