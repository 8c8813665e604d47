/*
 * Goal: a fingerprint is that of its document alone, says nothing about it, and no other text is
 * taken for one. Method: equal and other documents, and broken fingerprints.
 */
#include "cli/apply_fingerprint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_fingerprints(void **state)
{
    static const enum apply_secrecy secrecies[] = {APPLY_OPEN, APPLY_SECRET};
    const struct bytes document = BYTES("{\"token\":\"s3cret\"}"),
                       other = BYTES("{\"token\":\"\"}");

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char one[APPLY_FINGERPRINT_SIZE], two[APPLY_FINGERPRINT_SIZE];
        const struct bytes text = {one, sizeof(one) - 1};

        assert_true(apply_fingerprint_make(document, secrecies[i], one));
        assert_true(apply_fingerprint_make(document, secrecies[i], two));
        assert_string_not_equal(one, two); /* each has a salt */
        assert_true(apply_fingerprint_is(text, document, secrecies[i]));
        assert_true(apply_fingerprint_is(bytes_of(two), document, secrecies[i]));
        assert_false(apply_fingerprint_is(text, other, secrecies[i]));
        assert_false(apply_fingerprint_is(text, document, secrecies[1 - i]));
        assert_false(
            apply_fingerprint_is((struct bytes){one, text.size - 1}, document, secrecies[i]));
        assert_false(apply_fingerprint_is(BYTES(""), document, secrecies[i]));
        one[APPLY_FINGERPRINT_SIZE - 2] ^= 1;
        assert_false(apply_fingerprint_is(text, document, secrecies[i]));
        one[0] = 'x';
        assert_false(apply_fingerprint_is(text, document, secrecies[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fingerprints),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
