/*
 * Goal: URLs of brokers are read as they are written or refused, and no refusal repeats a secret.
 * Method: tables.
 */
#include "delivery/broker_url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_connection(void **state)
{
    (void)state;
    struct broker_url url;
    struct error error;
    assert_int_equal(broker_url_parse(BYTES("amqps://us%65r:p%40ss:%2f@h.example:5671/v%2Fhost"
                                            "?heartbeat=10&cacert=/etc/ca%20.pem"),
                                      &url, &error),
                     ERROR_NONE);
    assert_string_equal(url.scheme, "amqps");
    assert_string_equal(url.user, "user");
    assert_string_equal(url.password, "p@ss:/");
    assert_string_equal(url.hosts, "h.example:5671");
    assert_string_equal(url.path, "v/host");
    assert_true(url.has_path);
    assert_int_equal(url.parameter_count, 2);
    assert_string_equal(url.parameters[0].name, "heartbeat");
    assert_string_equal(url.parameters[0].value, "10");
    assert_string_equal(url.parameters[1].value, "/etc/ca .pem");
    char host[256];
    uint16_t port;
    assert_int_equal(broker_url_host(&url, 1, host, &port, &error), ERROR_NONE);
    assert_string_equal(host, "h.example");
    assert_int_equal(port, 5671);

    assert_int_equal(broker_url_parse(BYTES("redis://[::1]"), &url, &error), ERROR_NONE);
    assert_int_equal(broker_url_host(&url, 6379, host, &port, &error), ERROR_NONE);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 6379);
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "");
    assert_false(url.has_path);

    assert_int_equal(broker_url_parse(BYTES("redis://:secret@h/"), &url, &error), ERROR_NONE);
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "secret");
    assert_true(url.has_path && *url.path == '\0');
}

/* proves: broker-url, broker-url-parameters */
static void test_bad_connections(void **state)
{
    static const char *const bad[] = {
        "",
        "hush",
        "://hush",
        "redis:hush",
        "redis:/hush",
        "redis://",
        "redis://hush@",
        "redis:///hush",
        "redis://hu%sh@h",
        "redis://hush%0",
        "redis://hu%00sh@h",
        "redis://hush@b@c",
        "redis://hush h",
        "redis://h/hush?x",
        "redis://h/hush?=x",
        "redis://h/hush?a=1&b",
    };
    static const char *const bad_hosts[] = {"redis://[::1/",   "redis://h:0",
                                            "redis://h:65536", "redis://h:",
                                            "redis://h:12x",   "redis://h:1,i:2",
                                            "redis://[]:1",    "redis://:1",
                                            "redis://[::1]1",  "redis://h:99999999999999999999"};
    char large[BROKER_URL_SIZE_MAX + 10], many[512] = "redis://h/?";

    (void)state;
    struct broker_url url;
    struct error error;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (broker_url_parse(bytes_of(bad[i]), &url, &error) != ERROR_INVALID)
            fail_msg("%s", bad[i]);
        assert_null(strstr(error.text, "hush"));
    }
    char host[256];
    uint16_t port;
    for (size_t i = 0; i < COUNT(bad_hosts); i++) {
        assert_int_equal(broker_url_parse(bytes_of(bad_hosts[i]), &url, &error), ERROR_NONE);
        if (broker_url_host(&url, 1, host, &port, &error) != ERROR_INVALID)
            fail_msg("%s", bad_hosts[i]);
    }
    memset(large, 'a', sizeof(large));
    memcpy(large, "redis://", 8);
    assert_int_equal(broker_url_parse((struct bytes){large, BROKER_URL_SIZE_MAX}, &url, &error),
                     ERROR_NONE);
    assert_int_equal(broker_url_host(&url, 1, host, &port, &error), ERROR_INVALID);
    assert_int_equal(broker_url_parse((struct bytes){large, BROKER_URL_SIZE_MAX + 1}, &url, &error),
                     ERROR_INVALID);
    for (int i = 0; i <= BROKER_URL_PARAMETERS_MAX; i++) {
        memcpy(many + 11 + 4 * i, i ? "&a=1" : "ab=1", 5);
        assert_int_equal(broker_url_parse(bytes_of(many), &url, &error),
                         i < BROKER_URL_PARAMETERS_MAX ? ERROR_NONE : ERROR_INVALID);
    }
    assert_int_equal(url.parameter_count, BROKER_URL_PARAMETERS_MAX);
}

static void test_broker_url_decode(void **state)
{
    (void)state;
    struct buffer text;
    buffer_init(&text);
    broker_url_decode(BYTES("%41b%c3%BC+%25"), &text);
    assert_int_equal(text.size, 7);
    assert_string_equal(text.data, "Ab\xc3\xbc+%");
    buffer_deinit(&text);
}

static void test_a_parameter_is_taken(void **state)
{
    static const struct {
        const char *text, *value, *rest;
    } cases[] = {
        {"a://h?x=1", "1", "a://h"},
        {"a://h/p?x=1&y=2", "1", "a://h/p?y=2"},
        {"a://h?y=2&x=1", "1", "a://h?y=2"},
        {"a://h?y=2&x=1&z=3", "1", "a://h?y=2&z=3"},
        {"a://h?%78=%31&", "1", "a://h?"},
        {"a://h?xx=1", NULL, "a://h?xx=1"},
        {"a://h", NULL, "a://h"},
        {"a://h?x=1&x=2", "1", "a://h?x=2"},
        {"a://h?x=12345678901234567", "123456789012345", "a://h"},
    };
    struct broker_url url, rest;
    char value[16];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(broker_url_parse(bytes_of(cases[i].text), &url, NULL), ERROR_NONE);
        assert_int_equal(broker_url_take(&url, "x", value), cases[i].value != NULL);
        if (cases[i].value)
            assert_string_equal(value, cases[i].value);
        assert_string_equal(url.text, cases[i].rest);
        assert_int_equal(broker_url_parse(bytes_of(cases[i].rest), &rest, NULL), ERROR_NONE);
        assert_true(broker_url_is_equal(&url, &rest));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connection),
        cmocka_unit_test(test_bad_connections),
        cmocka_unit_test(test_broker_url_decode),
        cmocka_unit_test(test_a_parameter_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
