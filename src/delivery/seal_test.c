/* Goal: a sealed secret opens with its key and at its place alone, and no text shows it. Method:
 * keys by hand, every changed byte, and a text that another implementation sealed. */
#include "delivery/seal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define ZEROS "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define ONES  "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="

static struct seal_keys *seal_test_keys(const char *text)
{
    struct seal_keys *keys;

    assert_int_equal(seal_keys_create(text, &keys, NULL), ERROR_NONE);
    return keys;
}

/* proves: secrets-keys, secret-keys, secret-key-name */
static void keys_are_read_or_refused(void **state)
{
    static const struct {
        const char *text, *reason;
    } rows[] = {
        {"a=" ZEROS "x", "not base64 of 32 bytes"},
        {"a=AAAA", "not base64 of 32 bytes"},
        {"a", "NAME=BASE64"},
        {"=" ZEROS, "NAME=BASE64"},
        {"a/b=" ZEROS, "NAME=BASE64"},
        {"a23456789012345678901234567890123=" ZEROS, "NAME=BASE64"},
        {"a=" ZEROS " a=" ONES, "twice"},
        {"a=" ZEROS " b=" ZEROS " c=" ZEROS " d=" ZEROS " e=" ZEROS " f=" ZEROS " g=" ZEROS
         " h=" ZEROS " i=" ZEROS,
         "at most 8"},
    };
    struct seal_keys *keys;
    struct error error;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(seal_keys_create(rows[i].text, &keys, &error), ERROR_INVALID);
        assert_non_null(strstr(error.text, rows[i].reason));
        assert_null(strstr(error.text, "AAAA"));
    }
    seal_keys_destroy(seal_test_keys("a2345678901234567890123456789012=" ZEROS " b=" ZEROS
                                     " c=" ZEROS " d=" ZEROS " e=" ZEROS " f=" ZEROS " g=" ZEROS
                                     " h=" ZEROS));
    keys = seal_test_keys("");
    struct buffer out;
    buffer_init(&out);
    assert_int_equal(seal_append(keys, BYTES("b"), BYTES("s"), &out), ERROR_INVALID);
    buffer_deinit(&out);
    seal_keys_destroy(keys);
}

/* proves: secrets-sealed */
static void a_secret_opens_at_its_place(void **state)
{
    struct seal_keys *keys = seal_test_keys("new=" ONES "  old=" ZEROS);
    struct seal_keys *old = seal_test_keys("old=" ZEROS);
    struct buffer text, back;
    struct error error;

    (void)state;
    buffer_init(&text);
    buffer_init(&back);
    assert_int_equal(seal_append(old, BYTES("place"), BYTES("hush-hush"), &text), ERROR_NONE);
    assert_true(bytes_has_prefix(buffer_bytes(&text), BYTES("old:")));
    assert_int_equal(seal_open(keys, BYTES("place"), buffer_bytes(&text), &back, &error), 0);
    assert_true(bytes_equal(buffer_bytes(&back), BYTES("hush-hush")));
    assert_true(seal_is_newest(old, buffer_bytes(&text)));
    assert_false(seal_is_newest(keys, buffer_bytes(&text)));
    buffer_clear(&back);
    assert_int_equal(seal_open(keys, BYTES("other"), buffer_bytes(&text), &back, &error),
                     ERROR_INVALID);
    for (size_t i = 0; i < text.size; i++) {
        const char was = text.data[i];

        text.data[i] = was == 'A' ? 'B' : 'A';
        assert_int_equal(seal_open(keys, BYTES("place"), buffer_bytes(&text), &back, &error),
                         ERROR_INVALID);
        assert_true(back.size == 0 && error.text[0]);
        text.data[i] = was;
    }
    for (size_t size = 0; size < text.size; size++)
        assert_int_equal(
            seal_open(keys, BYTES("place"), (struct bytes){text.data, size}, &back, &error),
            ERROR_INVALID);
    buffer_clear(&text);
    assert_int_equal(seal_append(keys, BYTES("place"), BYTES(""), &text), ERROR_NONE);
    assert_true(bytes_has_prefix(buffer_bytes(&text), BYTES("new:")));
    assert_int_equal(seal_open(old, BYTES("place"), buffer_bytes(&text), &back, &error),
                     ERROR_INVALID);
    assert_non_null(strstr(error.text, "the key new"));
    seal_wipe(&text);
    seal_wipe(&back);
    seal_keys_destroy(keys);
    seal_keys_destroy(old);
}

/* Sealed by the package cryptography of Python: AESGCM(32 zeros).encrypt(12 zeros, b"secret",
 * b"k:place"), with the nonce in front. */
static void another_implementation_seals_alike(void **state)
{
    struct seal_keys *keys = seal_test_keys("k=" ZEROS);
    struct buffer back;

    (void)state;
    buffer_init(&back);
    assert_int_equal(seal_open(keys, BYTES("place"),
                               BYTES("k:AAAAAAAAAAAAAAAAvcIjTygUdh4s/CBL/30DI0Gfv4FCEw=="), &back,
                               NULL),
                     ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&back), BYTES("secret")));
    seal_wipe(&back);
    seal_keys_destroy(keys);
}

/* proves: sealed-secret-bytes */
static void a_secret_has_a_limit(void **state)
{
    struct seal_keys *keys = seal_test_keys("k=" ZEROS);
    char *secret = calloc(1, SEAL_PLAIN_BYTES_MAX + 1);
    struct buffer text;

    (void)state;
    assert_non_null(secret);
    buffer_init(&text);
    assert_int_equal(
        seal_append(keys, BYTES(""), (struct bytes){secret, SEAL_PLAIN_BYTES_MAX}, &text), 0);
    assert_int_equal(
        seal_append(keys, BYTES(""), (struct bytes){secret, SEAL_PLAIN_BYTES_MAX + 1}, &text),
        ERROR_INVALID);
    buffer_deinit(&text);
    free(secret);
    seal_keys_destroy(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_read_or_refused),
        cmocka_unit_test(a_secret_opens_at_its_place),
        cmocka_unit_test(another_implementation_seals_alike),
        cmocka_unit_test(a_secret_has_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
