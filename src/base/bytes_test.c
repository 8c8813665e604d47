/* Goal: numbers keep value and order as bytes, and a buffer holds exactly what was appended.
 * Method: edges, and random appends against one flat array. */
#include "base/bytes.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

static void test_compare(void **state)
{
    const struct bytes none = {0};

    (void)state;
    assert_true(bytes_equal(none, BYTES("")));
    assert_true(bytes_equal(BYTES("ab"), bytes_of("ab")));
    assert_false(bytes_equal(BYTES("ab"), BYTES("abc")));
    assert_false(bytes_equal(BYTES("ab"), BYTES("ac")));
    assert_int_equal(BYTES("a\0b").size, 3);
    assert_true(bytes_compare(BYTES("ab"), BYTES("ac")) < 0);
    assert_true(bytes_compare(BYTES("b"), BYTES("abc")) > 0);
    assert_true(bytes_compare(BYTES("ab"), BYTES("abc")) < 0);
    assert_true(bytes_compare(BYTES("a\xff"), BYTES("ab")) > 0);
    assert_true(bytes_compare(none, BYTES("a")) < 0);
    assert_int_equal(bytes_compare(none, none), 0);
    assert_int_equal(bytes_compare(BYTES("ab"), BYTES("ab")), 0);
    assert_true(bytes_has_prefix(BYTES("abc"), BYTES("ab")));
    assert_true(bytes_has_prefix(BYTES("abc"), none));
    assert_true(bytes_has_prefix(none, none));
    assert_false(bytes_has_prefix(BYTES("ab"), BYTES("abc")));
    assert_false(bytes_has_prefix(BYTES("abc"), BYTES("b")));
}

static void test_control(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        const char text[] = {'a', (char)c, 'b'};

        assert_int_equal(bytes_has_control((struct bytes){text, sizeof(text)}),
                         c == 0x7f || (c < 0x20 && c != '\t'));
    }
    assert_false(bytes_has_control(BYTES("")));
}

static void test_bytes_trim(void **state)
{
    const struct bytes none = {0};

    (void)state;
    assert_true(bytes_equal(bytes_trim(BYTES(" \ta b\t ")), BYTES("a b")));
    assert_true(bytes_equal(bytes_trim(BYTES("a\n")), BYTES("a\n")));
    assert_int_equal(bytes_trim(BYTES(" \t ")).size, 0);
    assert_int_equal(bytes_trim(none).size, 0);
}

static void test_bytes_words(void **state)
{
    struct bytes text = BYTES("  one\ttwo "), word = BYTES("kept");

    (void)state;
    assert_true(bytes_next_word(&text, &word));
    assert_true(bytes_equal(word, BYTES("one")));
    assert_true(bytes_next_word(&text, &word));
    assert_true(bytes_equal(word, BYTES("two")));
    assert_false(bytes_next_word(&text, &word));
    assert_true(bytes_equal(word, BYTES("two")));
    struct bytes none = {0};
    assert_false(bytes_next_word(&none, &word));
}

static void test_bytes_cut(void **state)
{
    struct bytes text = BYTES("a,,b");

    (void)state;
    assert_true(bytes_equal(bytes_cut(&text, ','), BYTES("a")));
    assert_true(bytes_equal(bytes_cut(&text, ','), BYTES("")));
    assert_true(bytes_equal(bytes_cut(&text, ','), BYTES("b")));
    assert_int_equal(text.size, 0);
    assert_int_equal(bytes_cut(&text, ',').size, 0);
    struct bytes none = {0};
    assert_int_equal(bytes_cut(&none, ',').size, 0);
}

static void test_bytes_numbers(void **state)
{
    static const uint8_t little[8] = {0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01};
    struct random random = random_seeded(1);

    (void)state;
    uint8_t bytes[16];
    put_le(bytes, UINT64_C(0x0102030405060708), 8);
    assert_memory_equal(bytes, little, 8);
    put_be(bytes + 1, UINT64_C(0x0102030405060708), 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(bytes[1 + i], little[7 - i]);
    for (size_t width = 0; width <= 8; width++) {
        uint64_t mask = width == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * width)) - 1;

        for (int i = 0; i < 100; i++) {
            uint64_t value = random_next(&random);

            put_le(bytes + 1, value, width);
            assert_true(get_le(bytes + 1, width) == (value & mask));
            put_be(bytes + 1, value, width);
            assert_true(get_be(bytes + 1, width) == (value & mask));
        }
    }
}

static void test_big_endian_sorts(void **state)
{
    struct random random = random_seeded(2);

    (void)state;
    for (int i = 0; i < 10000; i++) {
        uint64_t a = random_next(&random) >> random_below(&random, 64);
        uint64_t b = random_below(&random, 2) ? a ^ 1 : random_next(&random);
        uint8_t left[8];

        put_be(left, a, 8);
        uint8_t right[8];
        put_be(right, b, 8);
        assert_true((memcmp(left, right, 8) < 0) == (a < b));
    }
}

static void test_append(void **state)
{
    static char expected[1 << 16];
    struct random random = random_seeded(3);

    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    assert_true(bytes_equal(buffer_bytes(&buffer), (struct bytes){0}));
    size_t size = 0;
    for (;;) {
        char text[300];
        size_t more = (size_t)random_below(&random, sizeof(text));

        if (size + more > sizeof(expected))
            break;
        memset(text, (int)('a' + more % 26), sizeof(text));
        buffer_append(&buffer, text, more);
        memcpy(expected + size, text, more);
        size += more;
        assert_int_equal(buffer.size, size);
    }
    assert_memory_equal(buffer.data, expected, size);
    assert_false(buffer_failed(&buffer));
    buffer_clear(&buffer);
    assert_int_equal(buffer.size, 0);
    assert_true(buffer.capacity >= size);
    buffer_deinit(&buffer);
    assert_null(buffer.data);
}

static void test_append_kinds(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_append_text(&buffer, "a=");
    buffer_append_u64(&buffer, 0);
    buffer_append_bytes(&buffer, BYTES(" b="));
    buffer_append_u64(&buffer, UINT64_MAX);
    buffer_printf(&buffer, " %s%d", "c=", -7);
    buffer_append(&buffer, NULL, 0);
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("a=0 b=18446744073709551615 c=-7")));
    buffer_clear(&buffer);
    for (int i = 0; i < 500; i++)
        buffer_printf(&buffer, "%04d", i);
    assert_int_equal(buffer.size, 2000);
    assert_memory_equal(buffer.data + 1996, "0499", 4);
    buffer_deinit(&buffer);
}

static void test_bytes_too_large(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_append_text(&buffer, "kept");
    assert_null(buffer_reserve(&buffer, SIZE_MAX - 2));
    assert_true(buffer_failed(&buffer));
    assert_true(bytes_equal(buffer_bytes(&buffer), BYTES("kept")));
    buffer_append_text(&buffer, "!"); /* goes on, but the failure stays known */
    assert_true(buffer_failed(&buffer));
    buffer_clear(&buffer);
    assert_false(buffer_failed(&buffer));
    buffer_deinit(&buffer);
}

static void test_cut_names(void **state)
{
    static const struct {
        const char *text, *name, *rest;
    } cases[] = {
        {"team:checkout", "team", "checkout"},
        {"a:b:c", "a", "b:c"},
        {"a:", "a", ""},
        {"\"urn:team\":a", "urn:team", "a"},
        {"\"a\"\"b\":\"c\"", "a\"b", "\"c\""},
        {"\"a\":b", "a", "b"},
        {"a\":b", "a\"", "b"},
        {"", NULL, NULL},
        {"a", NULL, NULL},
        {":a", NULL, NULL},
        {"\"", NULL, NULL},
        {"\"a", NULL, NULL},
        {"\"a\"", NULL, NULL},
        {"\"\":a", NULL, NULL},
        {"\"a\"b:c", NULL, NULL},
        {"\"a:b", NULL, NULL},
        {"\"a\"\":b", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char room[32];
        struct bytes text = {room, strlen(cases[i].text)}, name;

        memcpy(room, cases[i].text, text.size);
        assert_int_equal(bytes_cut_name(&text, ':', &name), cases[i].name != NULL);
        if (!cases[i].name)
            continue;
        assert_true(bytes_equal(name, bytes_of(cases[i].name)));
        assert_true(bytes_equal(text, bytes_of(cases[i].rest)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_control),          cmocka_unit_test(test_bytes_trim),
        cmocka_unit_test(test_bytes_words),      cmocka_unit_test(test_bytes_cut),
        cmocka_unit_test(test_compare),          cmocka_unit_test(test_bytes_numbers),
        cmocka_unit_test(test_big_endian_sorts), cmocka_unit_test(test_append),
        cmocka_unit_test(test_append_kinds),     cmocka_unit_test(test_cut_names),
        cmocka_unit_test(test_bytes_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
