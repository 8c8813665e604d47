/* Goal: labels are compared as the texts that they stand for. Method: what is there and what is
 * not, with escapes, empty texts, and labels that are part of others. */
#include "timer/labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* proves: list-label */
static void test_have(void **state)
{
    struct bytes labels = BYTES("{\"a\":\"1\",\"b\":\"\",\"\\u00e4\":\"x\\ny\",\"a2\":\"a\"}");

    (void)state;
    assert_true(labels_have(labels, BYTES("a"), BYTES("1")));
    assert_true(labels_have(labels, BYTES("b"), BYTES("")));
    assert_true(labels_have(labels, BYTES("\xc3\xa4"), BYTES("x\ny")));
    assert_true(labels_have(labels, BYTES("a2"), BYTES("a")));
    assert_false(labels_have(labels, BYTES("a"), BYTES("2")));
    assert_false(labels_have(labels, BYTES("1"), BYTES("a")));
    assert_false(labels_have(labels, BYTES("c"), BYTES("")));
    assert_false(labels_have(BYTES("{}"), BYTES("a"), BYTES("")));
    assert_false(labels_have((struct bytes){0}, BYTES("a"), BYTES("")));
}

/* proves: count-label */
static void test_find(void **state)
{
    const struct bytes labels = BYTES("{\"a\":\"x\\ny\",\"b\":\"\",\"\\u00e4\":\"1\"}");
    char value[LABEL_SIZE_MAX];
    size_t size = 9;

    (void)state;
    assert_true(labels_find(labels, BYTES("a"), value, &size));
    assert_int_equal(size, 3);
    assert_memory_equal(value, "x\ny", 3);
    assert_true(labels_find(labels, BYTES("b"), value, &size));
    assert_int_equal(size, 0);
    assert_true(labels_find(labels, BYTES("\xc3\xa4"), value, &size));
    assert_int_equal(size, 1);
    assert_false(labels_find(labels, BYTES("1"), value, &size));
    assert_false(labels_find((struct bytes){0}, BYTES("a"), value, &size));
}

static void test_have_all(void **state)
{
    struct bytes labels = BYTES("{\"a\":\"1\",\"b\":\"\",\"c\":\"x\\ny\"}");

    (void)state;
    assert_true(labels_have_all(labels, labels));
    assert_true(labels_have_all(labels, BYTES("{\"c\":\"x\\ny\",\"a\":\"1\"}")));
    assert_true(labels_have_all(labels, BYTES("{}")));
    assert_true(labels_have_all(labels, (struct bytes){0}));
    assert_true(labels_have_all((struct bytes){0}, BYTES("{}")));
    assert_false(labels_have_all(labels, BYTES("{\"a\":\"1\",\"b\":\"1\"}")));
    assert_false(labels_have_all(labels, BYTES("{\"1\":\"a\"}")));
    assert_false(labels_have_all((struct bytes){0}, BYTES("{\"a\":\"1\"}")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_have),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_have_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
