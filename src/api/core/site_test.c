/*
 * Goal: of the requests that browsers and other clients send, exactly those of foreign pages are
 * found. Method: tables of heads.
 */
#include "api/core/site.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct bytes text_of(const char *text)
{
    return text ? bytes_of(text) : (struct bytes){0};
}

static struct config config_of(const char *address, const char *hosts, const char *origins)
{
    struct config config;

    config_init(&config);
    struct error error;
    if (config_set(&config, "listen_address", address, &error) ||
        config_set(&config, "allowed_hosts", hosts, &error) ||
        config_set(&config, "allowed_origins", origins, &error))
        fail_msg("%s", error.text);
    return config;
}

/* proves: foreign-host */
static void test_site_hosts(void **state)
{
    static const struct {
        const char *listen, *host;
        bool is_ours;
    } cases[] = {
        {"127.0.0.1", NULL, true},
        {"127.0.0.1", "localhost", true},
        {"127.0.0.1", "LocalHost:1", true},
        {"127.0.0.1", "127.0.0.1:8463", true},
        {"127.0.0.1", "127.255.0.1", true},
        {"127.0.0.1", "[::1]:8463", true},
        {"127.0.0.1", "[::ffff:127.0.0.1]", true},
        {"127.0.0.1", "timers.example:8463", true},
        {"127.0.0.1", "TIMERS.example", true},
        {"127.0.0.1", "10.0.0.9", true},
        {"127.0.0.1", "", false},
        {"127.0.0.1", "evil.example", false},
        {"127.0.0.1", "evil.example:8463", false},
        {"127.0.0.1", "evil.timers.example", false},
        {"127.0.0.1", "timers.example.", false},
        {"127.0.0.1", "timers.exampl", false},
        {"127.0.0.1", "timers.example:8463:1", false},
        {"127.0.0.1", "timers.example,localhost", false},
        {"127.0.0.1", "localhost.evil.example", false},
        {"127.0.0.1", "127.0.0.1.evil.example", false},
        {"127.0.0.1", "localhost evil.example", false},
        {"127.0.0.1", "user@localhost", false},
        {"127.0.0.1", "localhost:x", false},
        {"127.0.0.1", "localhost@evil.example", false},
        {"127.0.0.1", ":8463", false},
        {"127.0.0.1", "[::1", false},
        {"127.0.0.1", "[::1]x", false},
        {"127.0.0.1", "[]", false},
        {"127.0.0.1", "0.0.0.0", false},
        {"127.0.0.1", "[::]", false},
        {"127.0.0.1", "10.0.0.5", false},
        {"10.0.0.5", "10.0.0.5:80", true},
        {"10.0.0.5", "[::ffff:10.0.0.5]", true},
        {"10.0.0.5", "10.0.0.6", false},
        {"10.0.0.5", "localhost", true},
        {"fd00::5", "[FD00:0::5]:80", true},
        {"fd00::5", "fd00::5", false},
        {"fd00::5", "[fd00::6]", false},
        {"0.0.0.0", "10.0.0.5", true},
        {"0.0.0.0", "[fd00::5]", true},
        {"0.0.0.0", "evil.example", false},
        {"::", "10.0.0.5:8463", true},
        {"::", "evil.example", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config config = config_of(cases[i].listen, "timers.example,10.0.0.9", "");
        struct site_request request = {.host = text_of(cases[i].host)};

        if (site_is_ours(&config, &request) != cases[i].is_ours)
            fail_msg("Host %s at %s", cases[i].host, cases[i].listen);
        request =
            (struct site_request){.host = BYTES("localhost"), .authority = text_of(cases[i].host)};
        if (site_is_ours(&config, &request) != cases[i].is_ours)
            fail_msg("authority %s at %s", cases[i].host, cases[i].listen);
    }
}

/* proves: foreign-page */
static void test_site_origins(void **state)
{
    static const struct {
        const char *host, *origin, *fetch_site;
        bool is_foreign;
    } cases[] = {
        {"localhost:8463", NULL, NULL, false},
        {NULL, NULL, NULL, false},
        {"localhost:8463", "http://localhost:8463", NULL, false},
        {"LOCALHOST:8463", "http://localhost:8463", NULL, false},
        {"timers.example", "https://timers.example", NULL, false},
        {"localhost:8463", "http://localhost:8463", "same-origin", false},
        {"localhost:8463", NULL, "none", false},
        /* A proxy that sets another Host. */
        {"10.0.0.5", "https://timers.example", "same-origin", false},
        {"localhost:8463", "null", "same-origin", false},
        {"localhost:8463", "https://shop.example", "cross-site", false},
        {"localhost:8463", "https://shop.example", NULL, false},
        {"localhost:8463", "http://shop.example", NULL, true},
        {"localhost:8463", "https://shop.example:444", NULL, true},
        {"localhost:8463", "https://shop.example.evil.example", NULL, true},
        {"localhost:8463", "http://localhost:9", NULL, true},
        {"localhost:8463", "http://localhost", NULL, true},
        {"localhost:8463", "http://127.0.0.1:8463", NULL, true},
        {"localhost:8463", "http://evil.example", NULL, true},
        {"localhost:8463", "null", NULL, true},
        {"localhost:8463", "", NULL, true},
        {"localhost:8463", "file://", NULL, true},
        {"localhost:8463", "localhost:8463", NULL, true},
        {"", "http://", NULL, true},
        {NULL, "http://evil.example", NULL, true},
        {"localhost:8463", NULL, "cross-site", true},
        {"localhost:8463", NULL, "same-site", true},
        {"localhost:8463", NULL, "", true},
        {"localhost:8463", NULL, "something-new", true},
        {"localhost:8463", "http://localhost:9", "same-site", true},
        {"localhost:8463", "http://localhost:8463", "cross-site", true},
    };
    const struct config config = config_of("127.0.0.1", "evil.example", "https://shop.example");
    const struct bytes changing[] = {BYTES("POST"), BYTES("PUT"), BYTES("PATCH"), BYTES("DELETE")};
    const struct bytes reading[] = {BYTES("GET"), BYTES("HEAD")};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct site_request request = {.host = text_of(cases[i].host),
                                       .origin = text_of(cases[i].origin),
                                       .fetch_site = text_of(cases[i].fetch_site)};

        for (size_t j = 0; j < sizeof(changing) / sizeof(changing[0]); j++) {
            request.method = changing[j];
            if (site_is_foreign(&config, &request) != cases[i].is_foreign)
                fail_msg("Host %s, Origin %s, Sec-Fetch-Site %s", cases[i].host, cases[i].origin,
                         cases[i].fetch_site);
        }
        for (size_t j = 0; j < sizeof(reading) / sizeof(reading[0]); j++) {
            request.method = reading[j];
            assert_false(site_is_foreign(&config, &request));
        }
    }
}

static void test_site_settings(void **state)
{
    static const char *const bad_hosts[] = {
        "a:80", "a,,b", ",a", "http://a", "a b", "a/", "[::1", "[::1]:80", "a@b", "*.example",
    };
    static const char *const bad_origins[] = {
        "shop.example",     "https://", "https://a/", "https://a?b", "https://a, https://b",
        "https://a,,http:", "null",     "*",          "ftp://a",     "https://u@a",
    };
    struct config config = config_of("127.0.0.1", "a,b.example,[fd00::5],10.0.0.5",
                                     "https://a,http://b.example:80,http://[fd00::5]:80");

    (void)state;
    struct error error;
    assert_int_equal(site_check_settings(&config, &error), ERROR_NONE);
    for (size_t i = 0; i < sizeof(bad_hosts) / sizeof(bad_hosts[0]); i++) {
        config = config_of("127.0.0.1", bad_hosts[i], "");
        assert_int_equal(site_check_settings(&config, &error), ERROR_INVALID);
        assert_non_null(strstr(error.text, "allowed_hosts: "));
    }
    for (size_t i = 0; i < sizeof(bad_origins) / sizeof(bad_origins[0]); i++) {
        config = config_of("127.0.0.1", "", bad_origins[i]);
        assert_int_equal(site_check_settings(&config, &error), ERROR_INVALID);
        assert_non_null(strstr(error.text, "allowed_origins: "));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_site_hosts),
        cmocka_unit_test(test_site_origins),
        cmocka_unit_test(test_site_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
