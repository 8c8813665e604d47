/* Goal: no secret stays in a text, wherever it stands and however it was cut, and nothing else is
 * lost. Method: a table, out of memory of exactly the text's size. */
#include "delivery/hide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* proves: delivery-log-answer-hidden */
static void secrets_are_replaced(void **state)
{
    static const struct {
        const char *secret, *text, *wanted;
    } rows[] = {
        {"abcd", "", ""},
        {"abcd", "abcd", "***"},
        {"abcd", "xabcdy", "x***y"},
        {"abcd", "abcdabcd", "******"},
        {"abcd", "abcabcd", "abc***"},
        {"abcd", "abcx", "abcx"},
        {"abcdef", "x abcd", "x ***"},
        {"abcdef", "x abc", "x abc"},
        {"a/b/c", "{\"a\":\"a\\/b\\/c\"}", "{\"a\":\"***\"}"},
        {"a\"bc", "a\\\"bc", "***"},
        {"a\\bc", "a\\bc", "***"},
        {"a/b/cd", "a\\/b\\/c\\", "***"},
        {"abc", "abc", "abc"},
        {"", "abc", "abc"},
        {"aaaa", "aaaaaaa", "***aaa"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t size = (uint32_t)strlen(rows[i].text);
        char *exact = malloc(size + !size);

        assert_non_null(exact);
        memcpy(exact, rows[i].text, size);
        hide_secret(bytes_of(rows[i].secret), exact, &size);
        if (!bytes_equal((struct bytes){exact, size}, bytes_of(rows[i].wanted)))
            fail_msg("%zu: %.*s", i, (int)size, exact);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(secrets_are_replaced)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
