/* Goal: strings and numbers have the value that their text says, and strings are written so that
 * they read back. Method: tables, buffers of exactly the size, and random strings there and back.
 */
#include "base/json.h"
#include "base/json_write.h"
#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* The string that the whole text is. */
static struct json_string string_of(struct bytes text)
{
    struct json_reader reader;
    struct json_string string = {{0}, false};

    json_reader_init(&reader, text);
    assert_int_equal(json_peek(&reader), JSON_STRING);
    assert_true(json_read_string(&reader, &string));
    assert_true(json_finish(&reader));
    return string;
}

static void test_json_text_decode(void **state)
{
    static const struct {
        const char *text;
        struct bytes value;
    } cases[] = {
        {"\"\"", {"", 0}},
        {"\"plain\"", {"plain", 5}},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", {"\"\\/\b\f\n\r\t", 8}},
        {"\"a\\u0000b\"", {"a\0b", 3}},
        {"\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
         {"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 11}},
        {"\"\\ud83d\\uDE00\"", {"\xf0\x9f\x98\x80", 4}},
        {"\"\\ud800\\udc00\\udbff\\udfff\"", {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8}},
        {"\"\xc3\xa9\\u00e9\xc3\xa9\"", {"\xc3\xa9\xc3\xa9\xc3\xa9", 6}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct json_string string = string_of(bytes_of(cases[i].text));
        char *exact = malloc(cases[i].value.size + 1);
        size_t size = 99;

        assert_true(json_string_decode(&string, exact, cases[i].value.size, &size));
        assert_true(bytes_equal((struct bytes){exact, size}, cases[i].value));
        assert_true(size <= string.raw.size);
        if (size > 0) {
            free(exact);
            exact = malloc(size); /* one byte too few is refused, and not written */
            assert_false(json_string_decode(&string, exact, size - 1, &size));
        }
        free(exact);
    }
}

static void test_integers(void **state)
{
    static const struct {
        const char *text;
        enum json_u64 result;
        uint64_t value;
    } cases[] = {
        {"0", JSON_U64_OK, 0},
        {"-0", JSON_U64_OK, 0},
        {"-0.000e-7", JSON_U64_OK, 0},
        {"0e99999999999999999999", JSON_U64_OK, 0},
        {"1", JSON_U64_OK, 1},
        {"1.0", JSON_U64_OK, 1},
        {"10e-1", JSON_U64_OK, 1},
        {"0.001e3", JSON_U64_OK, 1},
        {"12.50e1", JSON_U64_OK, 125},
        {"1e3", JSON_U64_OK, 1000},
        {"1E+3", JSON_U64_OK, 1000},
        {"100", JSON_U64_OK, 100},
        {"1020.30e2", JSON_U64_OK, 102030},
        {"5000e-3", JSON_U64_OK, 5},
        {"9007199254740993", JSON_U64_OK, UINT64_C(9007199254740993)},
        {"18446744073709551615", JSON_U64_OK, UINT64_MAX},
        {"18446744073709551615.000", JSON_U64_OK, UINT64_MAX},
        {"1844674407370955161500000e-5", JSON_U64_OK, UINT64_MAX},
        {"18446744073709551616", JSON_U64_TOO_LARGE, 0},
        {"18446744073709551620", JSON_U64_TOO_LARGE, 0},
        {"99999999999999999999", JSON_U64_TOO_LARGE, 0},
        {"2e19", JSON_U64_TOO_LARGE, 0},
        {"1e20", JSON_U64_TOO_LARGE, 0},
        {"1e9223372036854775808", JSON_U64_TOO_LARGE, 0},
        {"1e99999999999999999999999", JSON_U64_TOO_LARGE, 0},
        {"1.5", JSON_U64_FRACTION, 0},
        {"1e-1", JSON_U64_FRACTION, 0},
        {"0.1", JSON_U64_FRACTION, 0},
        {"15e-1", JSON_U64_FRACTION, 0},
        {"1e-99999999999999999999999", JSON_U64_FRACTION, 0},
        {"10.01", JSON_U64_FRACTION, 0},
        {"-1", JSON_U64_NEGATIVE, 0},
        {"-0.5", JSON_U64_NEGATIVE, 0},
        {"-1e99", JSON_U64_NEGATIVE, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t value = 77;
        enum json_u64 result = json_number_u64(bytes_of(cases[i].text), &value);

        if (result != cases[i].result || value != (result ? 77 : cases[i].value))
            fail_msg("%s: %d, %llu", cases[i].text, (int)result, (unsigned long long)value);
    }
}

static void assert_written(struct bytes text, const char *expected)
{
    struct buffer buffer;

    buffer_init(&buffer);
    json_append_string(&buffer, text);
    assert_true(bytes_equal(buffer_bytes(&buffer), bytes_of(expected)));
    buffer_deinit(&buffer);
}

static void test_write(void **state)
{
    (void)state;
    assert_written((struct bytes){0}, "\"\"");
    assert_written(BYTES("plain /path"), "\"plain /path\"");
    assert_written(BYTES("\"\\\b\f\n\r\t"), "\"\\\"\\\\\\b\\f\\n\\r\\t\"");
    assert_written(BYTES("a\0\x1f\x7f"), "\"a\\u0000\\u001f\x7f\"");
    assert_written(BYTES("\xc3\xa9\xf0\x9f\x98\x80"), "\"\xc3\xa9\xf0\x9f\x98\x80\"");
    assert_written(BYTES("a\xff"
                         "b\xc3"),
                   "\"a\xef\xbf\xbd"
                   "b\xef\xbf\xbd\"");
}

/* Random characters, written and read back. */
static void test_write_and_read(void **state)
{
    struct random rng = random_seeded(testing_seed());

    (void)state;
    for (int run = 0; run < 2000; run++) {
        char text[64];
        size_t size = random_below(&rng, sizeof(text) - 3);

        for (size_t i = 0; i < size; i++)
            text[i] = (char)random_below(&rng, 128);
        if (size >= 4 && run % 2)
            memcpy(text + random_below(&rng, size - 3), "\xe2\x82\xac", 3);
        struct buffer buffer;
        buffer_init(&buffer);
        json_append_string(&buffer, (struct bytes){text, size});
        struct json_string string = string_of(buffer_bytes(&buffer));
        char decoded[64];
        size_t decoded_size;
        if (!json_string_decode(&string, decoded, sizeof(decoded), &decoded_size) ||
            !bytes_equal((struct bytes){decoded, decoded_size}, (struct bytes){text, size}))
            fail_msg("not the same in run %d", run);
        buffer_deinit(&buffer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_text_decode),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_write_and_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
