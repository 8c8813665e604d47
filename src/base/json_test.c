/* Goal: exactly the texts of RFC 8259 are accepted, slices and values are right, and no byte beyond
 * the text is read. Method: tables of good and bad texts, each read twice (skipped as one value,
 * and pulled item by item) from memory of exactly its size; every prefix; strings written and read
 * back. */
#include "base/json.h"
#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* Pulls a value of any type, down to its last item. */
static bool json_test_pull(struct json_reader *reader)
{
    struct json_string string;
    struct bytes number;

    switch (json_peek(reader)) {
    case JSON_NONE:
        return false;
    case JSON_OBJECT:
        if (json_enter_object(reader))
            while (json_next_member(reader, &string) && json_test_pull(reader))
                ;
        return !json_error(reader);
    case JSON_ARRAY:
        if (json_enter_array(reader))
            while (json_next_element(reader) && json_test_pull(reader))
                ;
        return !json_error(reader);
    case JSON_STRING:
        return json_read_string(reader, &string);
    case JSON_NUMBER:
        return json_read_number(reader, &number);
    default:
        return json_skip(reader, NULL);
    }
}

/* Reads the text both ways out of memory that ends where it ends. */
static bool json_test_is_valid(struct bytes text, size_t *ret_offset)
{
    char *exact = malloc(text.size + !text.size);

    memcpy(exact, text.size ? text.data : "", text.size);
    struct json_reader skipping;
    json_reader_init(&skipping, (struct bytes){exact, text.size});
    struct bytes raw;
    bool skipped = json_skip(&skipping, &raw) && json_finish(&skipping);
    struct json_reader pulling;
    json_reader_init(&pulling, (struct bytes){exact, text.size});
    bool pulled = json_test_pull(&pulling) && json_finish(&pulling);
    if (skipped != pulled)
        fail_msg("skip and pull differ on %.*s", (int)text.size, text.data);
    assert_int_equal(skipped, !json_error(&skipping));
    if (!skipped)
        assert_int_equal(json_error_offset(&skipping), json_error_offset(&pulling));
    *ret_offset = json_error_offset(&skipping);
    free(exact);
    return skipped;
}

static void test_json_good(void **state)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "7",
        "-12",
        "0.5",
        "10.25e3",
        "1E5",
        "1e+5",
        "1E-05",
        "123456789012345678901234567890",
        "1e999999",
        "\"\"",
        "\"a\"",
        "true",
        "false",
        "null",
        " null ",
        "\t\r\n 1 \n",
        "[]",
        "[ ]",
        "{}",
        "{ }",
        "[1]",
        "[1,2 , 3]",
        "[[],[[]],{}]",
        "{\"\":0}",
        "{\"a\":1,\"b\":[true,{\"c\":null}]}",
        "{\"a\" : 1 , \"a\" : 2}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\u0000\\u001f\\uFFFF\\uabcd\"",
        "\"\\ud83d\\ude00\"",
        "\"\\uD800\\uDC00\\uDBFF\\uDFFF\"",
        "\"\x7f\"",
        "\"\xc2\x80\"",
        "\"\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"",
        "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
        "\"0123456\\n01234567\xc3\xa9\"",
    };

    (void)state;
    size_t offset;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (!json_test_is_valid(bytes_of(texts[i]), &offset))
            fail_msg("refused at %zu: %s", offset, texts[i]);
}

/* Each with the byte at which it goes wrong. */
static const struct {
    const char *text;
    size_t offset;
} bad_texts[] = {
    {"", 0},
    {" ", 1},
    {"\xef\xbb\xbf"
     "1",
     0},
    {"\v1", 0},
    {"\xc2\xa0"
     "1",
     0},
    {"nul", 0},
    {"nulll", 4},
    {"True", 0},
    {"NaN", 0},
    {"Infinity", 0},
    {"-Infinity", 1},
    {"undefined", 0},
    {"01", 1},
    {"-", 1},
    {"-01", 2},
    {"+1", 0},
    {".5", 0},
    {"1.", 2},
    {"1.e5", 2},
    {"1e", 2},
    {"1e+", 3},
    {"0x10", 1},
    {"1_000", 1},
    {"1 2", 2},
    {"--1", 1},
    {"00", 1},
    {"'a'", 0},
    {"\"", 1},
    {"\"abc", 4},
    {"\"abcdefgh", 9},
    {"\"a\nb\"", 2},
    {"\"\t\"", 1},
    {"\"\x1f\"", 1},
    {"\"\\", 1},
    {"\"\\\"", 3},
    {"\"\\x41\"", 1},
    {"\"\\a\"", 1},
    {"\"\\u12\"", 1},
    {"\"\\u12g4\"", 1},
    {"\"\\U1234\"", 1},
    {"\"\\ud800\"", 1},
    {"\"\\udc00\"", 1},
    {"\"\\ud800\\u0041\"", 1},
    {"\"\\ud800\\ud800\"", 1},
    {"\"\\ud800x\"", 1},
    {"\"\\ud800\\", 1},
    {"\"\\ud800\\udc0\"", 1},
    {"\"\x80\"", 1},
    {"\"\xc0\x80\"", 1},
    {"\"\xc1\xbf\"", 1},
    {"\"\xc3\"", 1},
    {"\"\xe0\x9f\xbf\"", 1},
    {"\"\xed\xa0\x80\"", 1},
    {"\"\xe2\x82\"", 1},
    {"\"\xf0\x8f\xbf\xbf\"", 1},
    {"\"\xf4\x90\x80\x80\"", 1},
    {"\"\xf5\x80\x80\x80\"", 1},
    {"\"\xf0\x9f\x98\"", 1},
    {"\"\xff\"", 1},
    {"\"1234567\xff\"", 8},
    {"[", 1},
    {"]", 0},
    {"[1", 2},
    {"[1,]", 3},
    {"[,1]", 1},
    {"[1 2]", 3},
    {"[1}", 2},
    {"[1]]", 3},
    {"[,]", 1},
    {"{", 1},
    {"}", 0},
    {"{a:1}", 1},
    {"{'a':1}", 1},
    {"{\"a\"}", 4},
    {"{\"a\":}", 5},
    {"{\"a\":1,}", 7},
    {"{\"a\":1 \"b\":2}", 7},
    {"{\"a\" 1}", 5},
    {"{,}", 1},
    {"{\"a\":1]", 6},
    {"{1:2}", 1},
    {"{\"a\"::1}", 5},
    {"{\"a\":1}}", 7},
    {"/**/1", 0},
    {"1//", 1},
    {"[1,//\n2]", 3},
};

/* proves: not-json */
static void test_json_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_texts) / sizeof(bad_texts[0]); i++) {
        size_t offset;

        if (json_test_is_valid(bytes_of(bad_texts[i].text), &offset))
            fail_msg("accepted: %s", bad_texts[i].text);
        if (offset != bad_texts[i].offset)
            fail_msg("wrong at %zu, not %zu: %s", offset, bad_texts[i].offset, bad_texts[i].text);
    }
    assert_false(json_test_is_valid(BYTES("1\0"), &(size_t){0}));
    assert_false(json_test_is_valid(BYTES("\"a\0\""), &(size_t){0}));
    assert_false(json_test_is_valid((struct bytes){0}, &(size_t){0}));
}

/* Each byte at each place of a string that is read eight bytes at a time. */
static void test_json_bytes(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        for (size_t at = 1; at <= 18; at++) {
            char text[] = "\"abcdefghijklmnopqr\"";
            bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';

            text[at] = (char)byte;
            if (byte == '\\' && at < 18 && strchr("bfnrt", text[at + 1]))
                plain = true;
            size_t offset;
            if (json_test_is_valid((struct bytes){text, sizeof(text) - 1}, &offset) != plain)
                fail_msg("byte %02x at %zu", byte, at);
            if (!plain)
                assert_int_equal(offset, byte == '\\' && at == 18 ? 20 : byte == '"' ? at + 1 : at);
        }
    }
}

static void test_prefixes(void **state)
{
    struct bytes text =
        BYTES("{\"after\":\"1h\\u00e930m\\ud83d\\ude00\",\"n\":[-12.5e+3,true,false,null,"
              "{\"\xf0\x9f\x98\x80\":[]}],\"x\":{\"long enough\":\"for eight bytes\"}}");

    (void)state;
    size_t offset;
    assert_true(json_test_is_valid(text, &offset));
    for (size_t size = 0; size < text.size; size++)
        if (json_test_is_valid((struct bytes){text.data, size}, &offset))
            fail_msg("accepted the first %zu bytes", size);
}

/* Levels of arrays (or objects) around a number. */
static bool is_nested_json(size_t levels, const char *open, const char *close)
{
    struct buffer buffer;

    buffer_init(&buffer);
    for (size_t i = 0; i < levels; i++)
        buffer_append_text(&buffer, open);
    buffer_append_text(&buffer, "1");
    for (size_t i = 0; i < levels; i++)
        buffer_append_text(&buffer, close);
    size_t offset;
    bool result = json_test_is_valid(buffer_bytes(&buffer), &offset);
    buffer_deinit(&buffer);
    return result;
}

/* proves: json-depth */
static void test_depth(void **state)
{
    (void)state;
    assert_true(is_nested_json(JSON_DEPTH_MAX, "[", "]"));
    assert_true(is_nested_json(JSON_DEPTH_MAX, "{\"a\":", "}"));
    assert_false(is_nested_json(JSON_DEPTH_MAX + 1, "[", "]"));
    assert_false(is_nested_json(JSON_DEPTH_MAX + 1, "{\"a\":", "}"));
    assert_false(is_nested_json(100000, "[", "]"));

    struct buffer buffer;
    /* Levels that were entered count for what is skipped inside. */
    buffer_init(&buffer);
    for (size_t i = 0; i < JSON_DEPTH_MAX + 1; i++)
        buffer_append_text(&buffer, "[");
    struct json_reader reader;
    json_reader_init(&reader, buffer_bytes(&buffer));
    for (size_t i = 0; i < JSON_DEPTH_MAX / 2; i++) {
        assert_int_equal(json_peek(&reader), JSON_ARRAY);
        assert_true(json_enter_array(&reader));
        assert_true(json_next_element(&reader));
    }
    assert_false(json_skip(&reader, NULL));
    assert_int_equal(json_error_offset(&reader), JSON_DEPTH_MAX);
    buffer_deinit(&buffer);
}

/* A few levels are mixed at random; the stack of bits must tell them apart. */
static void test_nesting(void **state)
{
    struct random rng = random_seeded(testing_seed());

    (void)state;
    for (int run = 0; run < 300; run++) {
        struct buffer buffer;
        size_t depth = 1 + random_below(&rng, JSON_DEPTH_MAX - 1);

        buffer_init(&buffer);
        char close[JSON_DEPTH_MAX];
        for (size_t i = 0; i < depth; i++) {
            bool is_object = random_below(&rng, 2);

            buffer_append_text(&buffer, is_object ? "{\"x\":[],\"y\":" : "[{}, ");
            close[i] = is_object ? '}' : ']';
        }
        buffer_append_text(&buffer, "0");
        size_t wrong = random_below(&rng, depth);
        for (size_t i = depth; i-- > 0;)
            buffer_append(&buffer, &close[i], 1);
        size_t offset;
        if (!json_test_is_valid(buffer_bytes(&buffer), &offset))
            fail_msg("refused at %zu in run %d", offset, run);
        offset = buffer.size - 1 - wrong;
        buffer.data[offset] = close[wrong] == '}' ? ']' : '}';
        if (json_test_is_valid(buffer_bytes(&buffer), &wrong) || wrong != offset)
            fail_msg("a wrong bracket passed in run %d", run);
        buffer_deinit(&buffer);
    }
}

static void test_pull(void **state)
{
    (void)state;
    struct json_reader reader;
    json_reader_init(&reader,
                     BYTES(" {\"a\" : \"x\\ny\", \"b\": [ 1 , -2.5e1 ] , \"c\":{ \"d\" :  {} } }"));
    assert_int_equal(json_peek(&reader), JSON_OBJECT);
    assert_true(json_enter_object(&reader));
    struct json_string name;
    assert_true(json_next_member(&reader, &name));
    assert_true(bytes_equal(name.raw, BYTES("a")));
    assert_false(name.escaped);
    assert_int_equal(json_peek(&reader), JSON_STRING);
    struct json_string string;
    assert_true(json_read_string(&reader, &string));
    assert_true(bytes_equal(string.raw, BYTES("x\\ny")));
    assert_true(string.escaped);
    assert_true(json_next_member(&reader, &name));
    assert_int_equal(json_peek(&reader), JSON_ARRAY);
    assert_true(json_enter_array(&reader));
    assert_true(json_next_element(&reader));
    assert_int_equal(json_peek(&reader), JSON_NUMBER);
    struct bytes raw;
    assert_true(json_read_number(&reader, &raw));
    assert_true(bytes_equal(raw, BYTES("1")));
    assert_true(json_next_element(&reader));
    assert_true(json_skip(&reader, &raw));
    assert_true(bytes_equal(raw, BYTES("-2.5e1")));
    assert_false(json_next_element(&reader));
    assert_true(json_next_member(&reader, &name));
    assert_true(json_skip(&reader, &raw));
    assert_true(bytes_equal(raw, BYTES("{ \"d\" :  {} }")));
    assert_false(json_next_member(&reader, &name));
    assert_true(json_finish(&reader));
    assert_null(json_error(&reader));
}

/* After an error nothing is read any more, and the first error stays. */
static void test_error_stays(void **state)
{
    (void)state;
    struct json_reader reader;
    json_reader_init(&reader, BYTES("{\"a\":tru,\"b\":1}"));
    assert_int_equal(json_peek(&reader), JSON_OBJECT);
    assert_true(json_enter_object(&reader));
    struct json_string name;
    assert_true(json_next_member(&reader, &name));
    assert_false(json_skip(&reader, NULL));
    assert_int_equal(json_error_offset(&reader), 5);
    assert_int_equal(json_peek(&reader), JSON_NONE);
    assert_false(json_next_member(&reader, &name));
    assert_false(json_next_element(&reader));
    assert_false(json_enter_object(&reader));
    assert_false(json_enter_array(&reader));
    assert_false(json_read_string(&reader, &name));
    struct bytes number;
    assert_false(json_read_number(&reader, &number));
    assert_false(json_skip(&reader, NULL));
    assert_false(json_finish(&reader));
    assert_int_equal(json_error_offset(&reader), 5);
    assert_string_equal(json_error(&reader), "a value is expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_good),  cmocka_unit_test(test_json_bad),
        cmocka_unit_test(test_json_bytes), cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_depth),      cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_pull),       cmocka_unit_test(test_error_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
