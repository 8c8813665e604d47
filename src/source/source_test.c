/* Goal: the setting of sources is read as documented, and each fault names its source without its
 * URL. Method: settings, right and wrong, at each limit. */
#include "source/source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void assert_sources(const char *setting, const char *fault)
{
    struct error error = {.text = ""};
    const enum error_code code = sources_check_settings(setting, &error);

    if (!fault && code)
        fail_msg("%s: %s", setting, error.text);
    if (!fault)
        return;
    assert_int_equal(code, ERROR_INVALID);
    if (!strstr(error.text, fault))
        fail_msg("%s: %s", setting, error.text);
    assert_null(strstr(error.text, "secret"));
}

static void test_sources_are_read(void **state)
{
    (void)state;
    assert_sources("", NULL);
    assert_sources("  ", NULL);
    assert_sources("shop=postgres://timers:secret@db/shop", NULL);
    assert_sources("shop:tenant-1=postgres://db1,db2/shop?sslmode=verify-full  b=postgres://c/d",
                   NULL);
    assert_sources("shop", "source 1 is not NAME=URL");
    assert_sources("=postgres://secret@db", "source 1 is not NAME=URL");
    assert_sources("shop=", "source 1 is not NAME=URL");
    assert_sources("a=postgres://db/x sh/op=postgres://secret@db", "source 2 is not NAME=URL");
    assert_sources("shop:=postgres://secret@db", "source 1 is not NAME=URL");
    assert_sources("shop:no good=postgres://secret@db", "source 1 is not NAME=URL");
    assert_sources("shop=mysql://timers:secret@db", "no kind of source");
    assert_sources("shop=postgres://%zz:secret@db", "shop: libpq does not take");
    assert_sources("a=postgres://db/x a=postgres://db/secret", "two of this name");
}

/* proves: source-count, source-name */
static void test_sources_have_limits(void **state)
{
    char name[SOURCE_NAME_SIZE_MAX + 2] = "", setting[1024] = "";

    (void)state;
    memset(name, 'n', SOURCE_NAME_SIZE_MAX);
    snprintf(setting, sizeof(setting), "%s=postgres://db/x", name);
    assert_sources(setting, NULL);
    memset(name, 'n', SOURCE_NAME_SIZE_MAX + 1);
    snprintf(setting, sizeof(setting), "%s=postgres://db/x", name);
    assert_sources(setting, "source 1 is not NAME=URL");
    setting[0] = '\0';
    for (int i = 0; i <= SOURCES_MAX; i++) {
        const size_t size = strlen(setting);

        assert_sources(setting, NULL);
        snprintf(setting + size, sizeof(setting) - size, "s%d=postgres://db/x ", i);
    }
    assert_sources(setting, "more than 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources_are_read),
        cmocka_unit_test(test_sources_have_limits),
    };

#ifndef TICKWHEEL_WITH_POSTGRES
    return 0; /* there is no kind of source */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
