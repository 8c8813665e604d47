/* dead_json.c - reads the body of a redrive. */
#include "api/timers/timers.h"
#include "api/json/strict.h"
#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>

#define DEAD_FIELD_LIST(X) \
    X(ids) X(all) X(target) X(origin) X(error) X(labels) X(limit) X(cursor) X(rate) X(new_target)

enum dead_field {
#define X(name) DEAD_##name,
    DEAD_FIELD_LIST(X)
#undef X
        DEAD_FIELD_COUNT,
};

static const char *const fields[] = {
#define X(name) #name,
    DEAD_FIELD_LIST(X)
#undef X
};

#define BIT(field) (1u << DEAD_##field)

struct dead_reading {
    struct timer_parse parse; /* for its strings and problems */
    struct dead_ask *ask;
    unsigned seen;
    size_t room_used; /* at most the size of the request, because strings do not grow */
};

/* Keeps a string beyond the life of the request's body. */
static enum error_code dead_json_keep_string(struct dead_reading *reading, const char *pointer,
                                             struct bytes *ret_text)
{
    struct bytes text;
    enum error_code code = timer_parse_string(&reading->parse, pointer, &text);

    if (code)
        return code;
    *ret_text = (struct bytes){reading->ask->room + reading->room_used, text.size};
    memcpy(reading->ask->room + reading->room_used, text.data, text.size);
    reading->room_used += text.size;
    return ERROR_NONE;
}

static void dead_json_take_id(void *context, struct bytes text)
{
    struct dead_reading *reading = context;
    struct timer_id *id = &reading->ask->ids[reading->ask->id_count++];

    if (timer_id_parse(text, id))
        *id = (struct timer_id){.partition = UINT16_MAX};
}

static enum error_code dead_json_read_ids(struct dead_reading *reading)
{
    reading->ask->ids = calloc(DEAD_IDS_MAX, sizeof(*reading->ask->ids));
    if (!reading->ask->ids)
        return timer_parse_no_memory(&reading->parse);
    return strict_strings(&reading->parse, "#/ids", DEAD_IDS_MAX, dead_json_take_id, reading);
}

static enum error_code dead_json_read_all(struct dead_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    enum json_type type = json_peek(&parse->reader);

    if (type == JSON_NONE)
        return timer_parse_not_json(parse);
    if (type != JSON_TRUE)
        return timer_parse_invalid(parse, "#/all", "It must be true");
    return json_skip(&parse->reader, NULL) ? ERROR_NONE : timer_parse_not_json(parse);
}

static enum error_code dead_json_read_labels(struct dead_reading *reading)
{
    struct timer_parse *parse = &reading->parse;
    struct list_query *query = &reading->ask->query;
    enum json_type type = json_peek(&parse->reader);

    if (type != JSON_OBJECT && type != JSON_NONE)
        return timer_parse_invalid(parse, "#/labels", "It must be an object of strings");
    if (type == JSON_NONE || !json_enter_object(&parse->reader))
        return timer_parse_not_json(parse);
    struct json_string name;
    while (json_next_member(&parse->reader, &name)) {
        char *to = reading->ask->room + reading->room_used;

        if (query->filter.label_count == LIST_LABELS_MAX)
            return timer_parse_invalid(parse, "#/labels", "There may be at most %d",
                                       LIST_LABELS_MAX);
        size_t size;
        if (!json_string_decode(&name, to, parse->json.size - reading->room_used, &size))
            abort(); /* it never grows */
        reading->room_used += size;
        query->filter.labels[query->filter.label_count].key = (struct bytes){to, size};
        enum error_code code = dead_json_keep_string(
            reading, "#/labels", &query->filter.labels[query->filter.label_count].value);
        if (code)
            return code;
        query->filter.label_count++;
    }
    if (json_error(&parse->reader))
        return timer_parse_not_json(parse);
    if (query->filter.label_count == 0)
        return timer_parse_invalid(parse, "#/labels", "There must be at least one");
    return ERROR_NONE;
}

enum { DEAD_TIME_TEXT_SIZE = 13 }; /* a dash and the digits of a time */

static void dead_append_time(struct wall time, char *ret_text)
{
    snprintf(ret_text, DEAD_TIME_TEXT_SIZE + 1, "-%012llx",
             (unsigned long long)(time.ms & UINT64_C(0xffffffffffff)));
}

void dead_cursor_format(const struct dead_cursor *cursor, char ret_text[DEAD_CURSOR_TEXT_SIZE])
{
    cursor_format(&cursor->place, ret_text);
    dead_append_time(cursor->began, ret_text + CURSOR_TEXT_SIZE - 1);
    if (cursor->paced.ms)
        dead_append_time(cursor->paced, ret_text + CURSOR_TEXT_SIZE - 1 + DEAD_TIME_TEXT_SIZE);
}

/* Removes a dash and a time from the front of a text. */
static bool dead_cut_time(struct bytes *text, struct wall *ret_time)
{
    if (text->size < DEAD_TIME_TEXT_SIZE ||
        !number_parse((struct bytes){text->data + 1, DEAD_TIME_TEXT_SIZE - 1}, 16, &ret_time->ms) ||
        ret_time->ms == 0 || ret_time->ms > WALL_MS_MAX)
        return false;
    text->data += DEAD_TIME_TEXT_SIZE;
    text->size -= DEAD_TIME_TEXT_SIZE;
    return true;
}

enum error_code dead_cursor_parse(struct bytes text, struct dead_cursor *ret_cursor)
{
    const size_t plain_size = CURSOR_TEXT_SIZE - 1;

    if (text.size < plain_size)
        return ERROR_INVALID;
    struct bytes times = {text.data + plain_size, text.size - plain_size};
    struct dead_cursor cursor = {0};
    if (cursor_parse((struct bytes){text.data, plain_size}, &cursor.place) ||
        !dead_cut_time(&times, &cursor.began) ||
        (times.size && !dead_cut_time(&times, &cursor.paced)))
        return ERROR_INVALID;
    char again[DEAD_CURSOR_TEXT_SIZE];
    dead_cursor_format(&cursor, again);
    if (!bytes_equal(text, bytes_of(again)))
        return ERROR_INVALID;
    *ret_cursor = cursor;
    return ERROR_NONE;
}

static enum error_code dead_json_read_cursor(struct dead_reading *reading)
{
    struct list_query *query = &reading->ask->query;
    struct bytes text;
    enum error_code code = timer_parse_string(&reading->parse, "#/cursor", &text);

    if (code)
        return code;
    struct dead_cursor cursor;
    if (dead_cursor_parse(text, &cursor))
        return timer_parse_invalid(&reading->parse, "#/cursor",
                                   "It is not one that this server gave");
    query->has_cursor = true;
    query->cursor = cursor.place;
    query->began = cursor.began;
    reading->ask->paced = cursor.paced;
    return ERROR_NONE;
}

static enum error_code dead_json_read_new_target(struct dead_reading *reading)
{
    struct timer_texts texts = {0};
    struct target target;
    enum error_code code =
        timer_parse_target_at(&reading->parse, "#/new_target", &texts.target, &target);

    if (code)
        return code;
    reading->ask->patch = timer_alloc_parsed(&texts, &target);
    return reading->ask->patch ? ERROR_NONE : timer_parse_no_memory(&reading->parse);
}

/* Reads a filter, which must not be empty, because no timer would pass it. */
static enum error_code dead_json_read_filter(struct dead_reading *reading, const char *pointer,
                                             struct bytes *ret_text)
{
    enum error_code code = dead_json_keep_string(reading, pointer, ret_text);

    if (!code && ret_text->size == 0)
        return timer_parse_invalid(&reading->parse, pointer, "It is empty");
    return code;
}

static enum error_code dead_json_read_field(void *context, struct bytes name)
{
    struct dead_reading *reading = context;
    struct list_query *query = &reading->ask->query;
    enum dead_field field;

    for (field = 0; field < DEAD_FIELD_COUNT; field++)
        if (bytes_equal(name, bytes_of(fields[field])))
            break;
    if (field == DEAD_FIELD_COUNT)
        return timer_parse_unknown(&reading->parse, "#", name, fields, DEAD_FIELD_COUNT);
    if (timer_parse_is_absent(&reading->parse))
        return timer_parse_skip(&reading->parse);
    if (reading->seen & 1u << field)
        return strict_twice(&reading->parse, "#", name);
    reading->seen |= 1u << field;
    switch (field) {
    case DEAD_ids:
        return dead_json_read_ids(reading);
    case DEAD_all:
        return dead_json_read_all(reading);
    case DEAD_target:
        return dead_json_read_filter(reading, "#/target", &query->filter.target);
    case DEAD_origin:
        return dead_json_read_filter(reading, "#/origin", &query->filter.origin);
    case DEAD_error:
        return dead_json_keep_string(reading, "#/error", &query->filter.error);
    case DEAD_labels:
        return dead_json_read_labels(reading);
    case DEAD_limit:
        return strict_integer(&reading->parse, "#/limit", 1, LIST_LIMIT_MAX,
                              &reading->ask->query.limit);
    case DEAD_rate:
        return strict_integer(&reading->parse, "#/rate", 1, DEAD_RATE_MAX, &reading->ask->rate);
    case DEAD_new_target:
        return dead_json_read_new_target(reading);
    default:
        return dead_json_read_cursor(reading);
    }
}

static enum error_code dead_json_check_together(struct dead_reading *reading)
{
    unsigned seen = reading->seen, filters = BIT(target) | BIT(origin) | BIT(error) | BIT(labels);
    bool is_ok = seen & BIT(ids)   ? (seen & ~(BIT(rate) | BIT(new_target))) == BIT(ids)
                 : seen & BIT(all) ? !(seen & filters)
                                   : (seen & filters) != 0;

    if (!is_ok)
        return timer_parse_invalid(
            &reading->parse, "#",
            "Give either `ids`, or `target`, `origin`, `error` and `labels`, or `all`");
    return ERROR_NONE;
}

static enum error_code dead_json_read_fields(struct dead_reading *reading)
{
    enum error_code code = timer_parse_body(&reading->parse, dead_json_read_field, reading);

    return code ? code : dead_json_check_together(reading);
}

enum error_code dead_json_parse(struct bytes json, const struct timer_json_limits *limits,
                                struct dead_ask *ret_ask, struct problem *ret_problem)
{
    char local[TIMER_JSON_SCRATCH_SIZE];
    struct dead_ask ask = {
        .query = {.before = WALL_NEVER, .limit = LIST_LIMIT_MAX, .states = 1u << TIMER_DEAD},
        .room = malloc(json.size + 1)};
    struct dead_reading reading = {
        .parse = {.limits = limits, .problem = ret_problem, .json = json, .local = local},
        .ask = &ask};

    json_reader_init(&reading.parse.reader, json);
    enum error_code code =
        ask.room ? dead_json_read_fields(&reading) : timer_parse_no_memory(&reading.parse);
    code = timer_parse_prefer_not_json(&reading.parse, code);
    if (reading.parse.scratch.data != local)
        free(reading.parse.scratch.data);
    if (code)
        dead_ask_free(&ask);
    else
        *ret_ask = ask;
    return code;
}

void dead_ask_free(struct dead_ask *ask)
{
    free(ask->ids);
    free(ask->room);
    timer_free(ask->patch);
}
