/* Goal: the texts of a wait and of its time come back as they were written, and nothing else is
 * read. Method: one of each, and each way to be wrong. */
#include "timer/awaits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TOKEN BYTES("0123456789abcdef0123456789abcdef")

static void test_awaits(void **state)
{
    char text[AWAITS_TEXT_SIZE];
    struct awaits awaits;

    (void)state;
    awaits_format(TOKEN, UINT64_C(0x12345), text);
    assert_true(bytes_equal((struct bytes){text, sizeof(text)},
                            BYTES("0123456789abcdef0123456789abcdef0000000000012345")));
    assert_true(awaits_read((struct bytes){text, sizeof(text)}, &awaits));
    assert_true(bytes_equal(awaits.token, TOKEN));
    assert_true(awaits.started_us == 0x12345);
    assert_false(awaits_read((struct bytes){text, sizeof(text) - 1}, &awaits));
    for (size_t i = 0; i < sizeof(text); i++) {
        const char was = text[i];

        text[i] = 'A';
        assert_false(awaits_read((struct bytes){text, sizeof(text)}, &awaits));
        text[i] = was;
    }
    assert_false(awaits_is_token(BYTES("")));
    assert_false(awaits_is_token((struct bytes){TOKEN.data, 31}));
}

static void test_time(void **state)
{
    static const uint64_t times[] = {ACK_TIMEOUT_MS_MIN, 1001, ACK_TIMEOUT_MS_MAX};
    struct timer timer = {.state = TIMER_DELIVERING};
    char text[ACK_TIMEOUT_TEXT_SIZE];

    (void)state;
    assert_false(timer_awaits(&timer));
    assert_true(ack_timeout_ms(&timer, 7) == 7);
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        ack_timeout_format(times[i], text);
        timer.texts.ack_timeout = bytes_of(text);
        assert_true(ack_timeout_ms(&timer, 7) == times[i]);
    }
    timer.texts.ack_timeout = BYTES("999"); /* a damaged row */
    assert_true(ack_timeout_ms(&timer, 7) == 7);
    timer.texts.awaits = TOKEN;
    assert_true(timer_awaits(&timer));
    timer.state = TIMER_RETRYING;
    assert_false(timer_awaits(&timer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_awaits),
        cmocka_unit_test(test_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
