/* Goal: a timer's target names a definition exactly if no other kind of target can be meant, and
 * its path cannot leave the URL of the definition. Method: tables of good and bad texts, out of
 * memory of exactly their size. */
#include "timer/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static enum error_code named_url_check(const char *text, struct target *ret_target)
{
    const size_t size = strlen(text);
    char *exact = malloc(size + !size);
    struct error error = {.text = ""};

    assert_non_null(exact);
    memcpy(exact, text, size);
    const enum error_code code = target_parse((struct bytes){exact, size}, ret_target, &error);
    assert_true(!code || error.text[0]);
    free(exact);
    return code;
}

/* proves: named-target-path */
static void good_names(void **state)
{
    static const struct {
        const char *text;
        size_t name;
    } rows[] = {
        {"billing:", 7},
        {"billing:/", 7},
        {"billing:/recheck?x=1&y=..", 7},
        {"a:/b", 1},
        {"A.b_c-9:/x", 7},
        {"billing:/a..b/.../..c", 7},
        {"billing:/a%2F..b%2fc;../...;/;..", 7},
        {"https2:/x", 6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct target target;

        if (named_url_check(rows[i].text, &target))
            fail_msg("%s", rows[i].text);
        assert_int_equal(target.kind, TARGET_NAMED);
        assert_true(target.name.at == 0 && target.name.size == rows[i].name);
        assert_int_equal(target.origin_size, rows[i].name + 1);
        assert_int_equal(target_sharing(&target), TARGET_SHARES_ORIGIN);
    }
}

/* proves: named-target-path, named-target-name */
static void bad_names(void **state)
{
    static const char *const rows[] = {
        "",
        "billing",
        ":/x",
        "billing://x",
        "billing:x",
        "billing:?x",
        "billing:#x",
        "billing:/x#y",
        "billing:/a b",
        "billing:/%zz",
        "http:/x",
        "HTTPS:/x",
        "Queue:/x",
        "log/x",
        "Kafka:/x",
        "9a:/x",
        "a b:/x",
        "billing:/..",
        "billing:/a%2f..%2Fb",
        "billing:/..%5Cb",
        "billing:/..;/admin",
        "billing:/a/%2e.;x=1?y",
        "billing:/.%3b",
        "billing:/../x",
        "billing:/a/./b",
        "billing:/.",
        "billing:/a/%2e%2E/b",
        "billing:/a/.%2e",
        "mailto:/x",
        "billing:/a\\..\\b",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:/x",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct target target;

        if (named_url_check(rows[i], &target) != ERROR_INVALID)
            fail_msg("%s", rows[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_names),
        cmocka_unit_test(bad_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
