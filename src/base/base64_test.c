/* Goal: each run of bytes has exactly one text. Method: the vectors of RFC 4648; every text of four
 * characters that differs from a right one in one place; random bytes written and read back. */
#include "base/base64.h"
#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* Decodes out of and into memory of exactly the right size. */
static bool base64_test_decode(struct bytes text, char *ret_bytes, size_t *ret_size)
{
    char *from = malloc(text.size + !text.size);
    char *to = malloc(base64_decoded_size_max(text.size) + !text.size);

    memcpy(from, text.size ? text.data : "", text.size);
    size_t size = 0;
    bool decoded = base64_decode((struct bytes){from, text.size}, to, &size);
    if (decoded) {
        memcpy(ret_bytes, to, size);
        *ret_size = size;
    }
    free(from);
    free(to);
    return decoded;
}

static void base64_test_assert_same(struct bytes bytes, const char *text)
{
    struct buffer buffer;

    buffer_init(&buffer);
    base64_append(&buffer, bytes);
    assert_true(bytes_equal(buffer_bytes(&buffer), bytes_of(text)));
    char decoded[64];
    size_t size = 99;
    assert_true(base64_test_decode(bytes_of(text), decoded, &size));
    assert_true(bytes_equal((struct bytes){decoded, size}, bytes));
    buffer_deinit(&buffer);
}

static void test_vectors(void **state)
{
    (void)state;
    base64_test_assert_same(BYTES(""), "");
    base64_test_assert_same(BYTES("f"), "Zg==");
    base64_test_assert_same(BYTES("fo"), "Zm8=");
    base64_test_assert_same(BYTES("foo"), "Zm9v");
    base64_test_assert_same(BYTES("foob"), "Zm9vYg==");
    base64_test_assert_same(BYTES("fooba"), "Zm9vYmE=");
    base64_test_assert_same(BYTES("foobar"), "Zm9vYmFy");
    base64_test_assert_same(BYTES("\0"), "AA==");
    base64_test_assert_same(BYTES("\xfb\xff\xbf"), "+/+/");
}

/* The bytes whose text has both characters that are not of a URL; each padding. */
static void test_base64_url(void **state)
{
    static const char *const wanted[] = {"-_-_", "-_8", "-w", ""};
    static const struct bytes bytes = {"\xfb\xff\xbf", 3};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct buffer buffer;

        buffer_init(&buffer);
        buffer_append_text(&buffer, "+/=");
        base64_append_url(&buffer, (struct bytes){bytes.data, bytes.size - i});
        buffer_append(&buffer, "", 1);
        assert_memory_equal(buffer.data, "+/=", 3);
        assert_string_equal(buffer.data + 3, wanted[i]);
        buffer_deinit(&buffer);
    }
}

static void test_base64_bad(void **state)
{
    static const char *const texts[] = {
        "Z",    "Zg",       "Zg=",   "Zm8",    "=",     "====",       "Z===",     "Zh==",
        "Zm9=", "Zg==Zg==", "Zg= =", "Zm9v\n", " Zm9v", "Zm\n9v",     "Zm9vZm9",  "Zm-v",
        "Zm_v", "Zm9v====", "=m9v",  "Z=9v",   "Zm=v",  "Zm\xc3\xa9", "Zm9vZg=A", "Zm9v=A==",
    };

    (void)state;
    char decoded[64];
    size_t size = 99;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (base64_test_decode(bytes_of(texts[i]), decoded, &size))
            fail_msg("accepted %s", texts[i]);
    assert_int_equal(size, 99);
    assert_false(base64_test_decode(BYTES("Zm\0v"), decoded, &size));
}

/* Whatever is read is written back as the same text. */
static void test_one_text(void **state)
{
    static const char *const texts[] = {"Zm9v", "Zm8=", "Zg=="};

    (void)state;
    for (size_t i = 0; i < 3 * 4 * 256; i++) {
        char text[5];

        memcpy(text, texts[i / 1024], 5);
        text[i / 256 % 4] = (char)(i % 256);
        char decoded[3];
        size_t size;
        if (!base64_test_decode((struct bytes){text, 4}, decoded, &size))
            continue;
        struct buffer buffer;
        buffer_init(&buffer);
        base64_append(&buffer, (struct bytes){decoded, size});
        assert_true(bytes_equal(buffer_bytes(&buffer), (struct bytes){text, 4}));
        buffer_deinit(&buffer);
    }
}

static void test_base64_random(void **state)
{
    uint64_t seed = testing_seed();

    (void)state;
    struct random random = random_seeded(seed);
    for (int run = 0; run < 2000; run++) {
        size_t size = random_below(&random, 100);
        char *bytes = malloc(size + !size);

        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)random_next(&random);
        struct buffer buffer;
        buffer_init(&buffer);
        base64_append(&buffer, (struct bytes){bytes, size});
        size_t back_size = 0;
        char back[100];
        assert_true(base64_test_decode(buffer_bytes(&buffer), back, &back_size));
        assert_int_equal(back_size, size);
        assert_true(size == 0 || memcmp(bytes, back, size) == 0);
        /* in place, as the timer's codec does */
        assert_true(base64_decode(buffer_bytes(&buffer), buffer.data, &back_size));
        assert_true(size == 0 || memcmp(bytes, buffer.data, size) == 0);
        buffer_deinit(&buffer);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),       cmocka_unit_test(test_base64_url),
        cmocka_unit_test(test_base64_bad),    cmocka_unit_test(test_one_text),
        cmocka_unit_test(test_base64_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
