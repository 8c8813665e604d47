/* Goal: settings of a server that endanger timers are refused with words that say which one and
 * why, what acknowledged means is said, and a cluster is founded once. Method: values as servers
 * give them; and the server that POSTGRES_URI names, which has no standby. */
#include "cluster/postgres/tables_postgres.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_settings_of_a_server(void **state)
{
    static const struct {
        struct tables_postgres_settings settings;
        enum tables_postgres_durability durability;
        const char *refusal, *means, *warning; /* refusal NULL: it may be */
    } cases[] = {
        {{150003, "on", "s1", "on"}, 0, NULL, "by the synchronous standby (s1)", NULL},
        {{170000, "remote_apply", "ANY 1 (a, b)", "on"}, 0, NULL, "standby (ANY 1 (a, b))", NULL},
        {{130000, "remote_write", "s1", "on"}, 0, NULL, "in the memory of", "lose their power"},
        {{150003, "on", "", "on"}, 0, "synchronous_standby_names is empty", NULL, NULL},
        {{150003, "local", "s1", "on"}, 0, "synchronous_commit is local", NULL, NULL},
        {{150003, "on", "", "on"}, TABLES_POSTGRES_SERVER, NULL, "synced by one server", "on one"},
        {{150003, "off", "s1", "on"}, TABLES_POSTGRES_SERVER, "when it crashes", NULL, NULL},
        {{150003, "on", "s1", "off"}, TABLES_POSTGRES_SERVER, "with its power", NULL, NULL},
        {{120019, "on", "s1", "on"}, 0, "version 12: 13 or later", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tables_postgres_report report = {.means = ""};
        struct error error = {.text = ""};
        const enum error_code code =
            tables_postgres_judge(&cases[i].settings, cases[i].durability, &report, &error);

        assert_int_equal(code, cases[i].refusal ? ERROR_INVALID : ERROR_NONE);
        if (cases[i].refusal)
            assert_non_null(strstr(error.text, cases[i].refusal));
        else
            assert_non_null(strstr(report.means, cases[i].means));
        if (cases[i].warning)
            assert_non_null(strstr(report.warning, cases[i].warning));
        else
            assert_string_equal(report.warning, "");
    }
}

static void test_a_founding_on_postgres(void **state)
{
    struct tables_postgres_options options = {.uri = getenv("POSTGRES_URI"),
                                              .name = "shop-1.x",
                                              .partition_count = 24,
                                              .durability = TABLES_POSTGRES_SERVER,
                                              .secret = BYTES("secret of all the nodes")};
    struct tables_postgres_report first, second;
    struct error error = {.text = ""};

    (void)state;
    if (!options.uri)
        skip();
    assert_int_equal(tables_postgres_check(&options, &first, &error), ERROR_NOT_FOUND);
    if (tables_postgres_create(&options, &first, &error) ||
        tables_postgres_create(&options, &second, &error))
        fail_msg("%s", error.text);
    assert_true(first.is_founded);
    assert_false(second.is_founded);
    assert_int_equal(first.cluster, second.cluster);
    assert_int_equal(tables_postgres_check(&options, &second, &error), ERROR_NONE);
    assert_int_equal(first.cluster, second.cluster);
    assert_true(second.founding.has_digest);
    options.secret = BYTES("another secret of the nodes");
    assert_int_equal(tables_postgres_change_secret(&options, &error), ERROR_NONE);
    options.partition_count = 6;
    assert_int_equal(tables_postgres_check(&options, &second, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "founded with 24 partitions, not 6"));
    options.partition_count = 24;
    options.durability = TABLES_POSTGRES_REPLICATED;
    assert_int_equal(tables_postgres_check(&options, &second, &error), ERROR_INVALID);
    options.name = "a\"b";
    assert_int_equal(tables_postgres_create(&options, &second, &error), ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_of_a_server),
        cmocka_unit_test(test_a_founding_on_postgres),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
