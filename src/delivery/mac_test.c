/*
 * Goal: the digest is RFC 4231's, whatever the parts are cut into, and one after the other. Method:
 * its test cases 1, 2 and 6.
 */
#include "delivery/mac.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void assert_digest(struct bytes key, struct bytes text, const char *expected)
{
    struct mac *mac = mac_create(key);

    assert_non_null(mac);
    for (size_t cut = 0; cut <= text.size; cut += text.size / 3) {
        const struct bytes parts[] = {{text.data, cut}, {text.data + cut, text.size - cut}};
        uint8_t digest[MAC_SIZE];

        assert_true(mac_compute(mac, parts, 2, digest));
        char hex[2 * MAC_SIZE + 1];
        for (size_t i = 0; i < MAC_SIZE; i++)
            snprintf(hex + 2 * i, 3, "%02x", digest[i]);
        assert_string_equal(hex, expected);
    }
    mac_destroy(mac);
}

static void test_mac_vectors(void **state)
{
    (void)state;
    char key[131];
    memset(key, 0x0b, 20);
    assert_digest((struct bytes){key, 20}, BYTES("Hi There"),
                  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_digest(BYTES("Jefe"), BYTES("what do ya want for nothing?"),
                  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    assert_digest((struct bytes){key, sizeof(key)},
                  BYTES("Test Using Larger Than Block-Size Key - Hash Key First"),
                  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    mac_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mac_vectors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
