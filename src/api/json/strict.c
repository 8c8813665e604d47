/* strict.c - reads the values of strict bodies: objects, strings, numbers, durations, times. */
#include "api/json/strict.h"

#include "calendar/duration.h"
#include "calendar/rfc3339.h"

#include <assert.h>
#include <stdlib.h>

/* ---- objects ---- */

enum error_code strict_twice(struct timer_parse *parse, const char *parent, struct bytes name)
{
    char pointer[64];

    timer_pointer(parent, name, pointer, sizeof(pointer));
    return timer_parse_invalid(parse, pointer, "It is given twice");
}

struct bytes timer_member_name(const struct json_string *name, char *local, size_t capacity)
{
    struct bytes text = {local, 0};

    if (!name->escaped || !json_string_decode(name, local, capacity, &text.size))
        return name->raw;
    return text;
}

enum error_code timer_parse_enter_object(struct timer_parse *parse, const char *pointer)
{
    enum json_type type = json_peek(&parse->reader);

    if (type != JSON_OBJECT && type != JSON_NONE)
        return timer_parse_invalid(parse, pointer, "It must be an object");
    if (type == JSON_NONE || !json_enter_object(&parse->reader))
        return timer_parse_not_json(parse);
    return ERROR_NONE;
}

enum error_code timer_parse_body(struct timer_parse *parse,
                                 enum error_code (*read_field)(void *reading, struct bytes name),
                                 void *reading)
{
    problem_init(parse->problem);
    enum error_code code = timer_parse_enter_object(parse, "#");
    if (code)
        return code;
    struct json_string name;
    while (json_next_member(&parse->reader, &name)) {
        struct json_reader value = parse->reader;
        char local[32];
        enum error_code fault = read_field(reading, timer_member_name(&name, local, sizeof(local)));

        if (!fault)
            continue;
        code = fault;
        if (fault != ERROR_INVALID || parse->problem->fault_count == PROBLEM_FAULTS)
            return fault;
        parse->reader = value;
        if (!json_skip(&parse->reader, NULL))
            break;
    }
    return json_finish(&parse->reader) ? code : timer_parse_not_json(parse);
}

bool timer_parse_removes(struct timer_parse *parse)
{
    return parse->is_patch && json_peek(&parse->reader) == JSON_NULL;
}

bool timer_parse_is_absent(struct timer_parse *parse)
{
    return !parse->is_patch && json_peek(&parse->reader) == JSON_NULL;
}

enum error_code timer_parse_skip(struct timer_parse *parse)
{
    return json_skip(&parse->reader, NULL) ? ERROR_NONE : timer_parse_not_json(parse);
}

enum error_code
timer_parse_members(struct timer_parse *parse, const char *pointer, const char *const *known,
                    size_t count, enum error_code (*read)(struct timer_parse *parse, size_t field))
{
    enum error_code code = timer_parse_enter_object(parse, pointer);
    struct json_string raw;
    unsigned seen = 0;

    while (!code && json_next_member(&parse->reader, &raw)) {
        char local[32];
        const struct bytes name = timer_member_name(&raw, local, sizeof(local));
        size_t field = 0;

        while (field < count && !bytes_equal(name, bytes_of(known[field])))
            field++;
        if (field == count)
            return timer_parse_unknown(parse, pointer, name, known, count);
        if (timer_parse_is_absent(parse)) {
            code = timer_parse_skip(parse);
            continue;
        }
        if (seen & 1u << field)
            return strict_twice(parse, pointer, name);
        seen |= 1u << field;
        code = timer_parse_removes(parse) ? timer_parse_skip(parse) : read(parse, field);
    }
    return !code && json_error(&parse->reader) ? timer_parse_not_json(parse) : code;
}

/* ---- strings ---- */

enum error_code timer_scratch_need(struct timer_parse *parse)
{
    struct timer_scratch *scratch = &parse->scratch;

    if (scratch->data)
        return ERROR_NONE;
    scratch->data =
        parse->json.size <= TIMER_JSON_SCRATCH_SIZE ? parse->local : malloc(parse->json.size);
    if (!scratch->data)
        return timer_parse_no_memory(parse);
    scratch->capacity = parse->json.size;
    return ERROR_NONE;
}

void timer_scratch_put(struct timer_scratch *scratch, const void *data, size_t size)
{
    assert(size <= scratch->capacity - scratch->size);
    if (size > 0)
        memcpy(scratch->data + scratch->size, data, size);
    scratch->size += size;
}

void timer_scratch_decode(struct timer_scratch *scratch, const struct json_string *string)
{
    size_t size;

    if (!json_string_decode(string, scratch->data + scratch->size,
                            scratch->capacity - scratch->size, &size))
        abort(); /* a string never grows, see struct timer_scratch */
    scratch->size += size;
}

struct bytes timer_scratch_since(const struct timer_scratch *scratch, size_t start)
{
    return (struct bytes){scratch->data + start, scratch->size - start};
}

/* Decodes a string that was read. */
static enum error_code strict_decode(struct timer_parse *parse, const struct json_string *string,
                                     struct bytes *ret_text)
{
    size_t start = parse->scratch.size;

    if (!string->escaped) {
        *ret_text = string->raw;
        return ERROR_NONE;
    }
    enum error_code code = timer_scratch_need(parse);
    if (code)
        return code;
    timer_scratch_decode(&parse->scratch, string);
    *ret_text = timer_scratch_since(&parse->scratch, start);
    return ERROR_NONE;
}

enum error_code timer_parse_string(struct timer_parse *parse, const char *pointer,
                                   struct bytes *ret_text)
{
    struct json_string string;
    enum json_type type = json_peek(&parse->reader);

    if (type == JSON_STRING && json_read_string(&parse->reader, &string))
        return strict_decode(parse, &string, ret_text);
    if (json_error(&parse->reader))
        return timer_parse_not_json(parse);
    return timer_parse_invalid(parse, pointer, "It must be a string");
}

enum error_code timer_parse_string_into(struct timer_parse *parse, const char *pointer,
                                        char room[TIMER_JSON_NAME_ROOM], struct bytes *ret_text)
{
    enum json_type type = json_peek(&parse->reader);

    if (type != JSON_STRING && !json_error(&parse->reader))
        return timer_parse_invalid(parse, pointer, "It must be a string");
    struct json_string string;
    if (!json_read_string(&parse->reader, &string))
        return timer_parse_not_json(parse);
    *ret_text = string.raw;
    if (string.escaped) {
        *ret_text = (struct bytes){room, TIMER_JSON_NAME_ROOM};
        if (json_string_decode(&string, room, TIMER_JSON_NAME_ROOM, &ret_text->size))
            return ERROR_NONE;
        ret_text->size = TIMER_JSON_NAME_ROOM;
    }
    return ERROR_NONE;
}

enum error_code timer_parse_keep(struct timer_parse *parse, struct bytes text, char end)
{
    enum error_code code = timer_scratch_need(parse);

    if (code)
        return code;
    timer_scratch_put(&parse->scratch, text.data, text.size);
    timer_scratch_put(&parse->scratch, &end, 1);
    return ERROR_NONE;
}

struct bytes timer_parse_kept(const struct timer_parse *parse, size_t start)
{
    if (parse->scratch.size == start)
        return (struct bytes){0};
    return timer_scratch_since(&parse->scratch, start);
}

enum error_code strict_strings(struct timer_parse *parse, const char *pointer, size_t count_max,
                               void (*take)(void *reading, struct bytes text), void *reading)
{
    enum json_type type = json_peek(&parse->reader);

    if (type != JSON_ARRAY && type != JSON_NONE)
        return timer_parse_invalid(parse, pointer, "It must be an array of strings");
    if (type == JSON_NONE || !json_enter_array(&parse->reader))
        return timer_parse_not_json(parse);
    size_t count = 0;
    for (; json_next_element(&parse->reader); count++) {
        struct bytes text;
        enum error_code code = timer_parse_string(parse, pointer, &text);

        if (code)
            return code;
        if (count == count_max)
            return timer_parse_invalid(parse, pointer, "There may be at most %zu", count_max);
        take(reading, text);
    }
    if (json_error(&parse->reader))
        return timer_parse_not_json(parse);
    return count ? ERROR_NONE : timer_parse_invalid(parse, pointer, "There must be at least one");
}

/* ---- numbers, durations, times ---- */

enum error_code timer_parse_integer(struct timer_parse *parse, const char *pointer,
                                    uint64_t *ret_value)
{
    struct bytes number;

    if (!json_read_number(&parse->reader, &number))
        return timer_parse_not_json(parse);
    switch (json_number_u64(number, ret_value)) {
    case JSON_U64_OK:
        return ERROR_NONE;
    case JSON_U64_FRACTION:
        return timer_parse_invalid(parse, pointer, "It must be a whole number");
    case JSON_U64_NEGATIVE:
        return timer_parse_invalid(parse, pointer, "It must not be negative");
    case JSON_U64_TOO_LARGE:
        break;
    }
    return timer_parse_invalid(parse, pointer, "The number is too large");
}

enum error_code strict_integer(struct timer_parse *parse, const char *pointer, uint64_t min,
                               uint64_t max, uint64_t *ret_value)
{
    enum json_type type = json_peek(&parse->reader);

    if (type == JSON_NONE)
        return timer_parse_not_json(parse);
    if (type != JSON_NUMBER)
        return timer_parse_invalid(parse, pointer, "It must be a number");
    uint64_t value;
    enum error_code code = timer_parse_integer(parse, pointer, &value);
    if (code)
        return code;
    if (value < min || value > max)
        return timer_parse_invalid(parse, pointer, "It must be %llu to %llu",
                                   (unsigned long long)min, (unsigned long long)max);
    *ret_value = value;
    return ERROR_NONE;
}

enum error_code timer_parse_duration(struct timer_parse *parse, const char *pointer,
                                     uint64_t *ret_ms)
{
    struct bytes text;
    struct error error;
    enum error_code code;

    switch (json_peek(&parse->reader)) {
    case JSON_NONE:
        return timer_parse_not_json(parse);
    case JSON_NUMBER:
        return timer_parse_integer(parse, pointer, ret_ms);
    case JSON_STRING:
        code = timer_parse_string(parse, pointer, &text);
        if (!code && duration_parse(text, ret_ms, &error))
            code = timer_parse_invalid_error(parse, pointer, &error);
        return code;
    default:
        return timer_parse_invalid(
            parse, pointer, "It must be a duration such as \"1h30m\" or a number of milliseconds");
    }
}

enum error_code timer_parse_duration_in(struct timer_parse *parse, const char *pointer,
                                        uint64_t ms_min, uint64_t ms_max, uint64_t *ret_ms)
{
    uint64_t ms;
    enum error_code code = timer_parse_duration(parse, pointer, &ms);

    if (code)
        return code;
    if (ms < ms_min || ms > ms_max) {
        char least[DURATION_TEXT_SIZE];
        duration_format(ms_min, least);
        char most[DURATION_TEXT_SIZE];
        duration_format(ms_max, most);
        return timer_parse_invalid(parse, pointer, "It must be %s to %s", least, most);
    }
    *ret_ms = ms;
    return ERROR_NONE;
}

enum error_code timer_parse_wall(struct timer_parse *parse, const char *pointer,
                                 struct wall *ret_wall)
{
    struct bytes text;
    struct error error;
    enum error_code code;

    switch (json_peek(&parse->reader)) {
    case JSON_NONE:
        return timer_parse_not_json(parse);
    case JSON_NUMBER:
        code = timer_parse_integer(parse, pointer, &ret_wall->ms);
        break;
    case JSON_STRING:
        code = timer_parse_string(parse, pointer, &text);
        if (!code && rfc3339_parse(text, ret_wall, &error))
            code = timer_parse_invalid_error(parse, pointer, &error);
        break;
    default:
        return timer_parse_invalid(
            parse, pointer,
            "It must be a time such as \"2026-11-20T23:59:59Z\" or Unix milliseconds");
    }
    if (!code && ret_wall->ms > WALL_MS_MAX)
        code = timer_parse_invalid(parse, pointer, "It is beyond the year 9999");
    return code;
}
