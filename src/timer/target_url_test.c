/* Goal: a URL passes only if no two programs can read it differently, and its host is told exactly.
 * Method: tables of good and bad URLs out of memory of exactly their size, and every prefix. */
#include "timer/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static enum error_code target_url_check(struct bytes url, char *ret_host, struct error *ret_error)
{
    char *exact = malloc(url.size + !url.size);
    const struct bytes text = {exact, url.size};
    struct target target = {.port = 7};

    memcpy(exact, url.size ? url.data : "", url.size);
    enum error_code code = target_parse(text, &target, ret_error);
    if (!code)
        snprintf(ret_host, 300, "%.*s", target.name.size, exact + target.name.at);
    else
        assert_int_equal(target.port, 7);
    free(exact);
    return code;
}

#define LABEL_63 "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-012345678"
#define LABEL_61 "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-0123456"

/* proves: target-url, host-bytes (at), host-label-bytes (at) */
static void test_good_urls(void **state)
{
    static const struct {
        const char *url, *host;
    } cases[] = {
        {"http://a", "a"},
        {"https://shop.example/recheck", "shop.example"},
        {"HTTPS://Shop.Example/", "Shop.Example"},
        {"http://shop.example:8080/a/b?c=d&e=%20f", "shop.example"},
        {"http://shop.example?x", "shop.example"},
        {"http://shop.example.", "shop.example."},
        {"http://a_b-c.example:1", "a_b-c.example"},
        {"http://h:65535/", "h"},
        {"http://h:00080/", "h"},
        {"http://127.0.0.1:80", "127.0.0.1"},
        {"http://2130706433/", "2130706433"},
        {"http://0x7f.1/", "0x7f.1"},
        {"http://[::]/", "[::]"},
        {"http://[::1]:8080/", "[::1]"},
        {"http://[2001:db8::1]", "[2001:db8::1]"},
        {"http://[1:2:3:4:5:6:7:8]/", "[1:2:3:4:5:6:7:8]"},
        {"http://[1:2:3:4:5:6:7::]/", "[1:2:3:4:5:6:7::]"},
        {"http://[::2:3:4:5:6:7:8]/", "[::2:3:4:5:6:7:8]"},
        {"http://[::ffff:127.0.0.1]/", "[::ffff:127.0.0.1]"},
        {"http://[1:2:3:4:5:6:1.2.3.4]/", "[1:2:3:4:5:6:1.2.3.4]"},
        {"http://[FE80::ABCD]/", "[FE80::ABCD]"},
        {"http://h/-._~!$&'()*+,;=:@/?%7e%FF", "h"},
        {"http://h/a@b:c", "h"},
        {"http://" LABEL_63 ".x/", LABEL_63 ".x"},
        {"http://" LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61 "/",
         LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61},
        {"http://" LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61 "./",
         LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61 "."},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error error = {0};
        char host[300];

        if (target_url_check(bytes_of(cases[i].url), host, &error))
            fail_msg("%s: %s", cases[i].url, error.text);
        assert_string_equal(host, cases[i].host);
    }
}

static const char scheme_reason[] = "it must begin with one of http:// https:// ";
static const char user_reason[] = "it must not name a user or password";
static const char none_reason[] = "it names no host";
static const char host_reason[] = "its host is neither a name nor an address";
static const char ipv6_reason[] = "there is no IPv6 address in its brackets";
static const char port_reason[] = "its port is not a number of 1 to 65535";
static const char fragment_reason[] = "a fragment (#) is never sent: leave it out";
static const struct {
    const char *url, *reason;
} bad_urls[] = {
    {"", scheme_reason},
    {"http", scheme_reason},
    {"http:", scheme_reason},
    {"http:/a", scheme_reason},
    {"//a/b", scheme_reason},
    {"/b", scheme_reason},
    {"ftp://a", scheme_reason},
    {"httpx://a", scheme_reason},
    {" http://a", scheme_reason},
    {"javascript:alert(1)", scheme_reason},
    {"file:///etc/passwd", scheme_reason},
    {"http://", none_reason},
    {"http:///a", none_reason},
    {"http://:80/", none_reason},
    {"http://?a", none_reason},
    {"http://user@a/", user_reason},
    {"http://user:secret@a/", user_reason},
    {"http://@a/", user_reason},
    {"http://a:80@b/", user_reason},
    {"http://a\\@b/", user_reason},
    {"http://a b/", host_reason},
    {"http://a..b/", host_reason},
    {"http://.a/", host_reason},
    {"http://./", host_reason},
    {"http://a,b/", host_reason},
    {"http://%61/", host_reason},
    {"http://a\\b/", host_reason},
    {"http://b\xc3\xbc"
     "cher.example/",
     host_reason},
    {"http://a\tb/", host_reason},
    {"http://a;b/", host_reason},
    {"http://" LABEL_63 "4.x/", host_reason},
    {"http://" LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_63 "/", host_reason},
    {"http://" LABEL_63 "." LABEL_63 "." LABEL_63 "." LABEL_61 "a/", host_reason},
    {"http://[]/", ipv6_reason},
    {"http://[::1/", ipv6_reason},
    {"http://a[::1]/", ipv6_reason},
    {"http://[1:2:3:4:5:6:7]/", ipv6_reason},
    {"http://[1:2:3:4:5:6:7:8:9]/", ipv6_reason},
    {"http://[1::2::3]/", ipv6_reason},
    {"http://[:::]/", ipv6_reason},
    {"http://[:1]/", ipv6_reason},
    {"http://[1:]/", ipv6_reason},
    {"http://[1:2:3:4::5:6:7:8]/", ipv6_reason},
    {"http://[12345::]/", ipv6_reason},
    {"http://[::g]/", ipv6_reason},
    {"http://[::1.2.3]/", ipv6_reason},
    {"http://[::1.2.3.256]/", ipv6_reason},
    {"http://[::1.2.3.4.5]/", ipv6_reason},
    {"http://[::01.2.3.4]/", ipv6_reason},
    {"http://[::1.2.3.4:5]/", ipv6_reason},
    {"http://[1.2.3.4]/", ipv6_reason},
    {"http://[1:2:3:4:5:6:7:1.2.3.4]/", ipv6_reason},
    {"http://[fe80::1%25eth0]/", ipv6_reason},
    {"http://[v1.a]/", ipv6_reason},
    {"http://[::1]a/", port_reason},
    {"http://[::1]]/", port_reason},
    {"http://a:/", port_reason},
    {"http://a:0/", port_reason},
    {"http://a:65536/", port_reason},
    {"http://a:99999999999/", port_reason},
    {"http://a:8 0/", port_reason},
    {"http://a:-1/", port_reason},
    {"http://a:80:80/", port_reason},
    {"http://::1/", none_reason},
    {"http://a#b", fragment_reason},
    {"http://a/b#", fragment_reason},
    {"http://a/b c", "the character at byte 10 must be written as % and two hexadecimal digits"},
    {"http://a/\x7f", "the character at byte 9 must be written as % and two hexadecimal digits"},
    {"http://a/\n", "the character at byte 9 must be written as % and two hexadecimal digits"},
    {"http://a/\xc3\xa9",
     "the character at byte 9 must be written as % and two hexadecimal digits"},
    {"http://a/%2", "the character at byte 9 must be written as % and two hexadecimal digits"},
    {"http://a/%g0", "the character at byte 9 must be written as % and two hexadecimal digits"},
    {"http://a/?q=\"", "the character at byte 12 must be written as % and two hexadecimal digits"},
    {"http://a/{id}", "the character at byte 9 must be written as % and two hexadecimal digits"},
    {"http://a/\\", "the character at byte 9 must be written as % and two hexadecimal digits"},
};

/* proves: target-url, no-credentials, host-bytes (beyond), host-label-bytes (beyond) */
static void test_bad_urls(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_urls) / sizeof(bad_urls[0]); i++) {
        struct error error = {0};
        char found[300];

        if (target_url_check(bytes_of(bad_urls[i].url), found, &error) != ERROR_INVALID)
            fail_msg("accepted %s", bad_urls[i].url);
        if (strncmp(error.text, bad_urls[i].reason, strlen(bad_urls[i].reason)) != 0)
            fail_msg("%s: %s", bad_urls[i].url, error.text);
    }
}

/* The origin ends where path or query begin, and a port that is not written is the scheme's. */
static void test_url_origin(void **state)
{
    static const struct {
        const char *url, *origin;
        enum target_kind kind;
        uint16_t port;
    } cases[] = {
        {"http://a", "http://a", TARGET_HTTP, 80},
        {"HTTP://a/", "HTTP://a", TARGET_HTTP, 80},
        {"https://a", "https://a", TARGET_HTTPS, 443},
        {"https://a.example:8443/b?c", "https://a.example:8443", TARGET_HTTPS, 8443},
        {"http://a?b/c", "http://a", TARGET_HTTP, 80},
        {"http://[::1]:00080/x", "http://[::1]:00080", TARGET_HTTP, 80},
        {"http://a/b@c:9", "http://a", TARGET_HTTP, 80},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct bytes text = bytes_of(cases[i].url);
        struct target target;

        assert_int_equal(target_parse(text, &target, NULL), ERROR_NONE);
        assert_int_equal(target.kind, cases[i].kind);
        assert_int_equal(target.port, cases[i].port);
        assert_int_equal(target_sharing(&target), TARGET_SHARES_ORIGIN);
        assert_true(bytes_equal(target_origin(text, &target), bytes_of(cases[i].origin)));
    }
}

/* No byte behind the end is read, and a NUL is no way to hide the rest. */
/* proves: target-url */
static void test_url_prefixes(void **state)
{
    const struct bytes urls[] = {
        BYTES("https://[2001:db8::ffff:1.2.3.4]:8443/a%20b?c"),
        BYTES("http://shop.example.:8080/a/%C3%A9"),
    };

    (void)state;
    struct error error;
    char host[300];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(target_url_check(urls[i], host, &error), ERROR_NONE);
        for (size_t size = 0; size < urls[i].size; size++)
            target_url_check((struct bytes){urls[i].data, size}, host, &error);
    }
    assert_int_equal(target_url_check(BYTES("http://a\0.b/"), host, &error), ERROR_INVALID);
    assert_int_equal(target_url_check(BYTES("http://a/\0b"), host, &error), ERROR_INVALID);
    assert_int_equal(target_url_check(BYTES("http://a:8\0/"), host, &error), ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_urls),
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_url_origin),
        cmocka_unit_test(test_url_prefixes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
