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

#ifdef TICKWHEEL_WITH_RABBITMQ

static void test_queues_are_read(void **state)
{
    (void)state;
    assert_sources("late=amqp://timers:secret@mq/shop?queue=late", NULL);
    assert_sources("late:a=amqps://mq?cacert=/ca.pem&queue=l%20ate&exchange=e&connection=main"
                   "&prefetch=1&dead_letter=false",
                   NULL);
    assert_sources("late=amqp://timers:secret@mq/shop", "late: it needs the parameter queue");
    assert_sources("late=amqp://timers:secret@mq/shop?queue=",
                   "late: it needs the parameter queue");
    assert_sources("late=amqp://:secret@mq?queue=a&dead_letter=yes", "neither true nor false");
    assert_sources("late=amqp://:secret@mq?queue=a&tls=secret", "late: tls: no such parameter");
    assert_sources("late=amqp://:secret@mq?queue=a&cacert=secret", "cacert: no such parameter");
    assert_sources("late=amqps://:secret@mq?queue=a", "late: amqps needs the parameter cacert");
    assert_sources("late=amqp://:secret@a,b?queue=a", "late: it must name one host");
    assert_sources("late=amqp://:sec%zzret@a?queue=a", "two hexadecimal digits");
}

/* proves: rabbitmq-prefetch, rabbitmq-queue */
static void test_queues_have_limits(void **state)
{
    char name[300] = "", setting[400];

    (void)state;
    assert_sources("late=amqp://mq?queue=a&prefetch=4000", NULL);
    assert_sources("late=amqp://mq?queue=a&prefetch=4001", "prefetch is not a number of 1 to 4000");
    assert_sources("late=amqp://mq?queue=a&prefetch=0", "prefetch is not a number of 1 to 4000");
    memset(name, 'q', 246);
    snprintf(setting, sizeof(setting), "late=amqp://mq?queue=%s", name);
    assert_sources(setting, NULL);
    name[246] = 'q';
    snprintf(setting, sizeof(setting), "late=amqp://mq?queue=%s", name);
    assert_sources(setting, "it needs the parameter queue, a name of 1 to 246 bytes");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources_are_read),
        cmocka_unit_test(test_sources_have_limits),
#ifdef TICKWHEEL_WITH_RABBITMQ
        cmocka_unit_test(test_queues_are_read),
        cmocka_unit_test(test_queues_have_limits),
#endif
    };

#ifndef TICKWHEEL_WITH_POSTGRES
    return 0; /* most of it is about outboxes */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
