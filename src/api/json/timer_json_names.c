/* timer_json_names.c - reads the key in a timer's JSON, and the events that the timer watches. */
#include "api/json/timer_json_parse.h"

#include "api/json/names.h"

#include <stdio.h>

enum error_code timer_parse_key(struct timer_parse *parse)
{
    struct error error;
    enum error_code code = timer_parse_string(parse, "#/key", &parse->texts.key);

    if (!code && name_check_new(parse->texts.key, &error))
        code = timer_parse_invalid_error(parse, "#/key", &error);
    return code;
}

/* True if `names`, each with a newline, has this one. */
static bool names_has_name(struct bytes names, struct bytes name)
{
    struct bytes other;

    while (timer_watch_next(&names, &other))
        if (bytes_equal(other, name))
            return true;
    return false;
}

static enum error_code timer_names_read_event(struct timer_parse *parse, size_t index, size_t start)
{
    char pointer[32];

    snprintf(pointer, sizeof(pointer), "#/watch/%zu", index);
    if (index == TIMER_JSON_WATCH_MAX)
        return timer_parse_invalid(parse, "#/watch", "It may have at most %d events",
                                   TIMER_JSON_WATCH_MAX);
    char room[TIMER_JSON_NAME_ROOM];
    struct bytes name;
    enum error_code code = timer_parse_string_into(parse, pointer, room, &name);
    if (code)
        return code;
    struct error error;
    if (name_check_new(name, &error))
        return timer_parse_invalid_error(parse, pointer, &error);
    if (names_has_name(timer_parse_kept(parse, start), name))
        return timer_parse_invalid(parse, pointer, "It is given twice");
    return timer_parse_keep(parse, name, '\n');
}

enum error_code timer_parse_watch(struct timer_parse *parse)
{
    struct json_reader *reader = &parse->reader;
    enum json_type type = json_peek(reader);
    const size_t start = parse->scratch.size;

    if (type != JSON_ARRAY && type != JSON_NONE)
        return timer_parse_invalid(parse, "#/watch", "It must be an array of strings");
    if (type == JSON_NONE || !json_enter_array(reader))
        return timer_parse_not_json(parse);
    for (size_t i = 0; json_next_element(reader); i++) {
        enum error_code code = timer_names_read_event(parse, i, start);

        if (code)
            return code;
    }
    if (json_error(reader))
        return timer_parse_not_json(parse);
    parse->texts.watch = timer_parse_kept(parse, start);
    return ERROR_NONE;
}
