/*
 * json_fuzz - json.h against jansson: both accept a text or both refuse it, and then they read the
 * same.
 *
 * They differ on purpose in this:
 *   depth             ours stops at JSON_DEPTH_MAX, jansson at 2048
 *   numbers           ours keeps the text of any; jansson refuses what its types cannot hold
 *   NUL in a name     jansson cannot hold one
 *   NUL as a byte     jansson passes over one that follows a number or a word
 *   duplicate names   both accept them here; jansson keeps the last, so values are compared without
 * any
 */
#include "base/check.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/json_oracle.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* jansson's own macros for this would find our names. */
static bool is_type(const json_t *json, int type)
{
    return json && (int)json_typeof(json) == type;
}

/* The string's value; the caller frees it. */
static struct bytes decoded(const struct json_string *string)
{
    char *to = malloc(string->raw.size + 1);
    size_t size;

    CHECK(json_string_decode(string, to, string->raw.size, &size));
    if (!string->escaped)
        CHECK(size == string->raw.size && !memcmp(to, string->raw.data, size));
    to[size] = '\0';
    return (struct bytes){to, size};
}

/* Written and read again it is the same, and written again too. */
static void json_fuzz_check_written(struct bytes value)
{
    struct buffer buffer;

    buffer_init(&buffer);
    json_append_string(&buffer, value);
    struct json_reader reader;
    json_reader_init(&reader, buffer_bytes(&buffer));
    struct json_string string;
    CHECK(json_peek(&reader) == JSON_STRING && json_read_string(&reader, &string) &&
          json_finish(&reader));
    struct bytes again = decoded(&string);
    CHECK(bytes_equal(again, value));
    free((char *)again.data);
    buffer_deinit(&buffer);
}

static void compare_number(struct bytes text, const json_t *json)
{
    uint64_t value;
    enum json_u64 result = json_number_u64(text, &value);

    if (is_type(json, JSON_INTEGER)) {
        json_int_t expected = json_integer_value(json);

        CHECK(result == (expected < 0 ? JSON_U64_NEGATIVE : JSON_U64_OK));
        CHECK(expected < 0 || value == (uint64_t)expected);
    } else {
        double expected = json_real_value(json);

        if (result == JSON_U64_OK)
            CHECK(fabs((double)value - expected) <= expected * 1e-15);
        else if (result == JSON_U64_NEGATIVE)
            CHECK(expected <= 0);
        else if (result == JSON_U64_TOO_LARGE)
            CHECK(expected >= 18446744073709551615.0);
        else
            CHECK(expected >= 0); /* of any size */
    }
}

static void json_fuzz_compare(struct json_reader *reader, json_t *json);

static void compare_object(struct json_reader *reader, json_t *json)
{
    void *member = json_object_iter(json);

    CHECK(json_enter_object(reader));
    struct json_string name;
    for (; json_next_member(reader, &name); member = json_object_iter_next(json, member)) {
        struct bytes value = decoded(&name);

        CHECK(member != NULL);
        CHECK(bytes_equal(
            value, (struct bytes){json_object_iter_key(member), json_object_iter_key_len(member)}));
        free((char *)value.data);
        json_fuzz_compare(reader, json_object_iter_value(member));
    }
    CHECK(member == NULL);
}

static void compare_array(struct json_reader *reader, json_t *json)
{
    CHECK(json_enter_array(reader));
    size_t i = 0;
    for (; json_next_element(reader); i++)
        json_fuzz_compare(reader, json_array_get(json, i));
    CHECK(i == json_array_size(json));
}

/* Pulls the value and finds the same in jansson's. */
static void json_fuzz_compare(struct json_reader *reader, json_t *json)
{
    struct json_string string;
    struct bytes text = {0};

    switch (json_peek(reader)) {
    case JSON_OBJECT:
        CHECK(is_type(json, JANSSON_OBJECT));
        compare_object(reader, json);
        break;
    case JSON_ARRAY:
        CHECK(is_type(json, JANSSON_ARRAY));
        compare_array(reader, json);
        break;
    case JSON_STRING:
        CHECK(is_type(json, JANSSON_STRING) && json_read_string(reader, &string));
        text = decoded(&string);
        CHECK(bytes_equal(text, (struct bytes){json_string_value(json), json_string_length(json)}));
        json_fuzz_check_written(text);
        free((char *)text.data);
        break;
    case JSON_NUMBER:
        CHECK((is_type(json, JSON_INTEGER) || is_type(json, JSON_REAL)) &&
              json_read_number(reader, &text));
        compare_number(text, json);
        break;
    case JSON_TRUE:
        CHECK(is_type(json, JANSSON_TRUE) && json_skip(reader, NULL));
        break;
    case JSON_FALSE:
        CHECK(is_type(json, JANSSON_FALSE) && json_skip(reader, NULL));
        break;
    case JSON_NULL:
        CHECK(is_type(json, JANSSON_NULL) && json_skip(reader, NULL));
        break;
    default:
        abort();
    }
}

/* Whether ours alone may refuse the text. */
static bool is_our_refusal(const struct json_reader *reader, struct bytes text)
{
    size_t offset = json_error_offset(reader);

    return strcmp(json_error(reader), "this is nested too deeply") == 0 ||
           (offset < text.size && text.data[offset] == '\0');
}

/* Whether jansson alone may refuse the text. */
static bool is_their_refusal(const json_error_t *error)
{
    return json_error_code(error) == json_error_numeric_overflow ||
           json_error_code(error) == json_error_null_byte_in_key ||
           json_error_code(error) == json_error_null_character;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    struct bytes text = {(const char *)data, size};
    struct json_reader reader;
    json_error_t error;
    json_t *json = json_loadb(text.data, text.size, flags, &error);

    json_reader_init(&reader, text);
    struct bytes raw;
    bool accepted = json_skip(&reader, &raw) && json_finish(&reader);
    CHECK(json_error_offset(&reader) <= size);
    if (accepted)
        CHECK(json || is_their_refusal(&error));
    else
        CHECK(!json || is_our_refusal(&reader, text));
    if (accepted) /* the slice is a text of its own */
        json_reader_init(&reader, raw);
    CHECK(!accepted || (json_skip(&reader, NULL) && json_finish(&reader)));
    json_decref(json);

    json =
        accepted ? json_loadb(text.data, text.size, flags | JSON_REJECT_DUPLICATES, &error) : NULL;
    if (json) {
        json_reader_init(&reader, text);
        json_fuzz_compare(&reader, json);
        CHECK(json_finish(&reader));
        json_decref(json);
    }
    return 0;
}
