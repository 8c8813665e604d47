/* Goal: a founding is read as it was written, and secrets are told apart. Method: golden bytes, of
 * which the digest is from `openssl dgst -sha256 -hmac`. */
#include "cluster/founding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define GOLDEN \
    "\x18\0"   \
    "\xf9\x99\xf9\x69\x95\xa9\xcb\x62\x06\xa4\x93\xe6\x85\x1a\x23\xa5"

static void test_bytes(void **state)
{
    struct founding founding = {.partition_count = 24}, again;
    char body[FOUNDING_SIZE_LARGEST];

    (void)state;
    assert_int_equal(founding_encode(&founding, body), 2);
    assert_memory_equal(body, "\x18\0", 2);
    assert_true(founding_decode((struct bytes){body, 2}, &again));
    assert_true(again.partition_count == 24 && !again.has_digest);
    assert_true(founding_set_secret(&founding, BYTES("a secret of the cluster")));
    assert_int_equal(founding_encode(&founding, body), FOUNDING_SIZE_LARGEST);
    assert_memory_equal(body, GOLDEN, FOUNDING_SIZE_LARGEST);
    assert_true(founding_decode((struct bytes){body, sizeof(body)}, &again));
    assert_memory_equal(&again, &founding, sizeof(again));
    for (size_t size = 0; size < sizeof(body); size++)
        assert_int_equal(founding_decode((struct bytes){body, size}, &again), size == 2);
}

static void test_secrets(void **state)
{
    struct founding none = {0}, one = {0}, other = {0};

    (void)state;
    assert_true(founding_set_secret(&none, BYTES("")) && !none.has_digest);
    assert_true(founding_set_secret(&one, BYTES("a secret of the cluster")));
    assert_true(founding_set_secret(&other, BYTES("a secret of the cluster ")));
    assert_true(founding_agrees(&one, &one) && founding_agrees(&one, &none));
    assert_true(founding_agrees(&none, &one));
    assert_false(founding_agrees(&one, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_secrets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
