/* debounce.c - a time that calls move, as text and as an instant. */
#include "timer/debounce.h"

#include "base/json.h"
#include "calendar/duration.h"
#include "calendar/rfc3339.h"

#include <assert.h>
#include <stdio.h>

struct bytes debounce_write(const struct debounce *debounce, char room[DEBOUNCE_TEXT_SIZE])
{
    char first[RFC3339_TEXT_SIZE], wait[DURATION_TEXT_SIZE], most[DURATION_TEXT_SIZE];

    assert(debounce->for_ms <= debounce->at_most_ms);
    duration_format(debounce->for_ms, wait);
    duration_format(debounce->at_most_ms, most);
    rfc3339_format(debounce->first, first);
    const int size =
        snprintf(room, DEBOUNCE_TEXT_SIZE, "{\"for\":\"%s\",\"at_most\":\"%s\",\"first\":\"%s\"}",
                 wait, most, first);
    assert(size > 0 && size < DEBOUNCE_TEXT_SIZE);
    return (struct bytes){room, (size_t)size};
}

static bool debounce_read_member(struct json_reader *reader, struct bytes name,
                                 struct debounce *debounce)
{
    struct json_string text;

    if (json_peek(reader) != JSON_STRING || !json_read_string(reader, &text) || text.escaped)
        return false;
    if (bytes_equal(name, BYTES("for")))
        return !duration_parse(text.raw, &debounce->for_ms, NULL);
    if (bytes_equal(name, BYTES("at_most")))
        return !duration_parse(text.raw, &debounce->at_most_ms, NULL);
    return bytes_equal(name, BYTES("first")) && !rfc3339_parse(text.raw, &debounce->first, NULL);
}

enum error_code debounce_read(struct bytes text, struct debounce *ret_debounce)
{
    struct debounce debounce = {.first = WALL_NEVER};
    struct json_reader reader;
    struct json_string name;

    json_reader_init(&reader, text);
    bool is_good = json_peek(&reader) == JSON_OBJECT && json_enter_object(&reader);
    while (is_good && json_next_member(&reader, &name))
        is_good = debounce_read_member(&reader, name.raw, &debounce);
    if (!is_good || !json_finish(&reader) || !debounce.for_ms ||
        debounce.for_ms > debounce.at_most_ms || debounce.first.ms > WALL_MS_MAX)
        return ERROR_CORRUPT;
    *ret_debounce = debounce;
    return ERROR_NONE;
}

struct wall debounce_due(const struct debounce *debounce, struct wall call)
{
    const struct wall due =
        wall_min(wall_add(call, debounce->for_ms), wall_add(debounce->first, debounce->at_most_ms));

    return wall_min(due, (struct wall){WALL_MS_MAX});
}
