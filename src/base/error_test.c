/* Goal: the table of errors is complete and unambiguous, and a cause never overflows its text. */
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const enum error_code all[] = {
#define X(name, slug, title) ERROR_##name,
    ERROR_LIST(X)
#undef X
};

enum { COUNT = sizeof(all) / sizeof(all[0]) };

static void test_table(void **state)
{
    (void)state;
    assert_int_equal(ERROR_NONE, 0);
    for (size_t i = 0; i < COUNT; i++) {
        const char *slug = error_slug(all[i]), *title = error_title(all[i]);

        assert_int_equal(all[i], i);
        assert_true(strlen(slug) > 0 &&
                    strspn(slug, "abcdefghijklmnopqrstuvwxyz-") == strlen(slug));
        assert_true(title[0] >= 'A' && title[0] <= 'Z' && title[strlen(title) - 1] != '.');
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(slug, error_slug(all[j]));
            assert_string_not_equal(title, error_title(all[j]));
        }
    }
    assert_string_equal(error_slug(ERROR_ALREADY_FIRING), "already-firing");
}

static void test_set(void **state)
{
    (void)state;
    struct error error = {0};
    assert_int_equal(error_set(&error, ERROR_IO, "open %s: %d", "wal", 12), ERROR_IO);
    assert_int_equal(error.code, ERROR_IO);
    assert_string_equal(error.text, "open wal: 12");
    assert_int_equal(error_set(NULL, ERROR_CORRUPT, "%s", "nobody asks"), ERROR_CORRUPT);
    char wide[400];
    memset(wide, 'x', sizeof(wide) - 1);
    wide[sizeof(wide) - 1] = '\0';
    assert_int_equal(error_set(&error, ERROR_INVALID, "%s", wide), ERROR_INVALID);
    assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
