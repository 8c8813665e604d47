/* Goal: a name of SQL cannot end its own quotes. Method: names and what PostgreSQL's manual says of
 * quoted identifiers. */
#include "base/sql_name.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_sql_names(void **state)
{
    static const struct {
        const char *name, *sql;
    } cases[] = {
        {"orders", "\"orders\""},
        {"shop.Orders", "\"shop\".\"Orders\""},
        {"a\"; DROP TABLE b; --", "\"a\"\"; DROP TABLE b; --\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buffer to;

        buffer_init(&to);
        sql_name_append(&to, bytes_of(cases[i].name));
        assert_false(buffer_failed(&to));
        assert_true(bytes_equal(buffer_bytes(&to), bytes_of(cases[i].sql)));
        buffer_deinit(&to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sql_names)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
