/*
 * Goal: only what docs/brokers.md calls a target of a broker is one. Method: tables of spellings.
 */
#include "timer/target.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void broker_target_check_slice(struct bytes text, struct target_slice slice,
                                      const char *expected)
{
    assert_true(bytes_equal(target_slice(text, slice), bytes_of(expected)));
}

/* proves: target-broker */
static void test_one_place(void **state)
{
    const struct bytes text = BYTES("kafka://c/a/b?key=k%2F?1");

    (void)state;
    struct target target;
    assert_int_equal(target_parse(text, &target, NULL), ERROR_NONE);
    assert_int_equal(target.kind, TARGET_KAFKA);
    assert_int_equal(target_sharing(&target), TARGET_SHARES_CONNECTION);
    broker_target_check_slice(text, target.name, "c");
    assert_int_equal(target.path_count, 1);
    broker_target_check_slice(text, target.paths[0], "a/b");
    assert_true(target.has_key);
    broker_target_check_slice(text, target.key, "k%2F?1");
    assert_true(bytes_equal(target_origin(text, &target), BYTES("kafka://c")));
}

/* proves: target-broker */
static void test_two_places(void **state)
{
    const struct bytes text = BYTES("amqp://c/e%2Fx/r/k"), no_exchange = BYTES("amqp://c//q");

    (void)state;
    struct target target;
    assert_int_equal(target_parse(text, &target, NULL), ERROR_NONE);
    assert_int_equal(target.kind, TARGET_AMQP);
    assert_int_equal(target.path_count, 2);
    broker_target_check_slice(text, target.paths[0], "e%2Fx");
    broker_target_check_slice(text, target.paths[1], "r/k");
    assert_false(target.has_key);
    assert_int_equal(target_parse(no_exchange, &target, NULL), ERROR_NONE);
    assert_int_equal(target.paths[0].size, 0);
    broker_target_check_slice(no_exchange, target.paths[1], "q");
}

/* proves: target-broker */
static void test_one_place_or_two(void **state)
{
    const struct bytes table = BYTES("postgres://db/shop.call%2Fx"),
                       function = BYTES("postgres://db/call/f/g");

    (void)state;
    struct target target;
    assert_int_equal(target_parse(table, &target, NULL), ERROR_NONE);
    assert_int_equal(target.kind, TARGET_POSTGRES);
    assert_int_equal(target.path_count, 1);
    broker_target_check_slice(table, target.paths[0], "shop.call%2Fx");
    assert_true(bytes_equal(target_origin(table, &target), BYTES("postgres://db")));
    assert_int_equal(target_parse(function, &target, NULL), ERROR_NONE);
    assert_int_equal(target.path_count, 2);
    broker_target_check_slice(function, target.paths[0], "call");
    broker_target_check_slice(function, target.paths[1], "f/g");
}

/* proves: target-broker */
static void test_bad_broker_targets(void **state)
{
    static const struct {
        const char *text, *reason;
    } bad[] = {
        {"KAFKA://c/t", "small letters"},
        {"redis:", "begin with one of"},
        {"redis://c", "no place"},
        {"redis://c?key=1", "no place"},
        {"redis://c/a%", "hexadecimal"},
        {"redis://c/a%0", "hexadecimal"},
        {"redis://c/s%zz", "hexadecimal"},
        {"redis://c/a%00", "NUL"},
        {"redis://c/a\n", "control"},
        {"redis://c/a b", "blanks"},
        {"redis://c/a#b", "%23"},
        {"redis://c/a?b=1", "only parameter"},
        {"redis://c/a?key=%", "hexadecimal"},
        {"redis://c/a?key=1&key=2", "only parameter"},
        {"amqp://c/e", "/ is missing"},
        {"postgres://c", "no place"},
        {"postgres://c/t?x=1", "only parameter"},
        {"amqp://c/e?key=/", "/ is missing"},
    };

    (void)state;
    struct target target;
    struct error error;
    for (size_t i = 0; i < COUNT(bad); i++)
        if (target_parse(bytes_of(bad[i].text), &target, &error) != ERROR_INVALID ||
            !strstr(error.text, bad[i].reason))
            fail_msg("%s: %s", bad[i].text, error.text);
}

/* proves: broker-name-bytes, target-size */
static void test_broker_target_sizes(void **state)
{
    (void)state;
    char large[TARGET_SIZE_MAX + 1];
    memset(large, 'a', sizeof(large));
    memcpy(large, "redis://c/", 10);
    struct target target;
    assert_int_equal(target_parse((struct bytes){large, TARGET_PATH_SIZE_MAX + 10}, &target, NULL),
                     ERROR_NONE);
    assert_int_equal(target_parse((struct bytes){large, TARGET_PATH_SIZE_MAX + 11}, &target, NULL),
                     ERROR_INVALID);
    memcpy(large, "http://c/a", 10);
    assert_int_equal(target_parse((struct bytes){large, TARGET_SIZE_MAX}, &target, NULL),
                     ERROR_NONE);
    assert_int_equal(target_parse((struct bytes){large, TARGET_SIZE_MAX + 1}, &target, NULL),
                     ERROR_INVALID);
    target = target_unknown((struct bytes){large, TARGET_SIZE_MAX + 1});
    assert_int_equal(target.origin_size, TARGET_SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_place),           cmocka_unit_test(test_two_places),
        cmocka_unit_test(test_one_place_or_two),    cmocka_unit_test(test_bad_broker_targets),
        cmocka_unit_test(test_broker_target_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
