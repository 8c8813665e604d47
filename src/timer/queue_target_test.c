/*
 * Goal: only what docs/queues.md calls a target of the queue is one. Method: a table of spellings.
 */
#include "timer/queue_target.h"

#include "timer/target_parsers.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NAME_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"

/* proves: target-queue */
static void test_queue_targets(void **state)
{
    static const struct {
        const char *text, *name;
        unsigned priority;
    } good[] = {
        {"queue:mail", "mail", 5},
        {"queue:a", "a", 5},
        {"queue:mail?priority=0", "mail", 0},
        {"queue:mail?priority=9", "mail", 9},
        {"queue:a.b_c-9", "a.b_c-9", 5},
        {"queue:" NAME_64, NAME_64, 5},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const struct bytes text = bytes_of(good[i].text);
        struct target target;

        assert_int_equal(target_parse(text, &target, NULL), ERROR_NONE);
        assert_int_equal(target.kind, TARGET_QUEUE);
        assert_int_equal(target_sharing(&target), TARGET_SHARES_WORKERS);
        assert_true(bytes_equal(target_slice(text, target.name), bytes_of(good[i].name)));
        assert_true(bytes_equal(target_origin(text, &target), text));
        assert_int_equal(target.priority, good[i].priority);
    }
}

/* proves: target-queue */
static void test_bad_queue_targets(void **state)
{
    static const char *const bad[] = {
        "",
        "queue",
        "queue:",
        "Queue:mail",
        "queue:?priority=1",
        "queue:mail?",
        "queue:mail?priority=",
        "queue:mail?priority=10",
        "queue:mail?priority=-1",
        "queue:mail?priority=a",
        "queue:mail?Priority=1",
        "queue:mail?priority=1&priority=2",
        "queue:mail/x",
        "queue:ma il",
        "queue:m\xc3\xa4il",
        "queue:" NAME_64 "0",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct target target = {.priority = 77};

        assert_int_equal(target_parse(bytes_of(bad[i]), &target, NULL), ERROR_INVALID);
        assert_int_equal(target.priority, 77);
    }
    assert_false(queue_name_is_valid((struct bytes){"a\0b", 3}));
}

/* Of a kind that needs no more than a name. */
static void test_names_of_targets(void **state)
{
    static const char *const good[] = {"x:", "x:a", "x:a.b_c-9"};
    static const char *const bad[] = {"x: ", "x:a?priority=1", "x:a/b", "x:a\n", "x:" NAME_64 "0"};

    (void)state;
    struct error error;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const struct bytes text = bytes_of(good[i]);
        struct target target = {0};

        assert_int_equal(target_parser_name(text, 2, &target, &error), ERROR_NONE);
        assert_true(bytes_equal(target_slice(text, target.name), bytes_of(good[i] + 2)));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct target target = {0};

        assert_int_equal(target_parser_name(bytes_of(bad[i]), 2, &target, &error), ERROR_INVALID);
        assert_non_null(strstr(error.text, "its name is"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_targets),
        cmocka_unit_test(test_bad_queue_targets),
        cmocka_unit_test(test_names_of_targets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
