/*
 * timer_json_parse.h - what the files that read a timer's JSON share: timer_json_parse.c (fields,
 * create, patch), timer_json_texts.c (target, payload, headers, labels), timer_json_names.c (key,
 * watch), timer_json_schedule.c (recurrence) and timer_json_problem.c (what is wrong, and where).
 * For nobody else.
 *
 * Ownership  Texts point into the request or into `scratch`, until timer_alloc has copied them.
 */
#ifndef TICKWHEEL_API_JSON_TIMER_JSON_PARSE_H
#define TICKWHEEL_API_JSON_TIMER_JSON_PARSE_H

#include "api/json/timer_json.h"
#include "base/json.h"

#define TIMER_JSON_HEADERS_MAX   64   /* how many */
#define TIMER_JSON_MEMBERS_LOCAL 16   /* of an object that cost no allocation */
#define TIMER_JSON_WATCH_MAX     16   /* events that one timer watches */
#define TIMER_JSON_TYPE_SIZE_MAX 256  /* of content_type */
#define TIMER_JSON_NAME_ROOM     260  /* more than a name may have */
#define TIMER_JSON_SCRATCH_SIZE  1024 /* a request up to this size costs no allocation to decode */

/* How a field of a timer may be used in a request. */
enum timer_field_use {
    FIELD_SETTABLE,
    FIELD_READ_ONLY, /* the server says it */
};

/* X(name, use): every field of a timer and of a request; the common ones first. */
#define TIMER_FIELD_LIST(X)   \
    X(after, SETTABLE)        \
    X(at, SETTABLE)           \
    X(target, SETTABLE)       \
    X(payload, SETTABLE)      \
    X(labels, SETTABLE)       \
    X(retry, SETTABLE)        \
    X(headers, SETTABLE)      \
    X(body_base64, SETTABLE)  \
    X(content_type, SETTABLE) \
    X(key, SETTABLE)          \
    X(watch, SETTABLE)        \
    X(every, SETTABLE)        \
    X(cron, SETTABLE)         \
    X(timezone, SETTABLE)     \
    X(dst, SETTABLE)          \
    X(count, SETTABLE)        \
    X(until, SETTABLE)        \
    X(late, SETTABLE)         \
    X(spread, SETTABLE)       \
    X(id, READ_ONLY)          \
    X(due, READ_ONLY)         \
    X(state, READ_ONLY)       \
    X(version, READ_ONLY)     \
    X(attempts, READ_ONLY)    \
    X(created, READ_ONLY)     \
    X(ended, READ_ONLY)       \
    X(last_error, READ_ONLY)  \
    X(schedule, READ_ONLY)

enum timer_field {
#define X(name, use) FIELD_##name,
    TIMER_FIELD_LIST(X)
#undef X
        FIELD_COUNT, /* no field */
};

/* Decoded texts. All that one request keeps fits into as many bytes as the request has: a string
 * never grows, and the quotes and the colon around a member outweigh what is put in their place. */
struct timer_scratch {
    char *data; /* NULL until needed */
    size_t size, capacity;
};

struct timer_parse {
    struct json_reader reader;
    const struct timer_json_limits *limits;
    struct wall now;
    struct problem *problem;
    struct bytes json;
    uint32_t seen; /* bits of enum timer_field */
    struct wall due;
    struct retry_policy retry;
    struct schedule_spec schedule;
    uint64_t spread_window_ms;
    struct timer_texts texts;
    struct target target; /* texts.target, parsed */
    struct timer_scratch scratch;
    char *local; /* TIMER_JSON_SCRATCH_SIZE bytes on the caller's stack */
};

/* ---- timer_json_problem.c ---- */

/* ERROR_NOT_JSON with what the reader says. */
enum error_code timer_parse_not_json(struct timer_parse *parse);

/* `code`, or ERROR_NOT_JSON: a text that is no JSON is told as such, whatever else came first. */
enum error_code timer_parse_prefer_not_json(struct timer_parse *parse, enum error_code code);

/* ERROR_INVALID at `pointer`. */
#define timer_parse_invalid(parse, pointer, ...) \
    problem_set((parse)->problem, ERROR_INVALID, pointer, __VA_ARGS__)

/* The same with the reason of a lower layer as the sentence. */
enum error_code timer_parse_invalid_error(struct timer_parse *parse, const char *pointer,
                                          const struct error *error);

/* A name as it is put into a sentence: without control characters, cut when it is long. */
#define TIMER_NAME_TEXT_SIZE 48
void timer_name_text(struct bytes name, char ret_text[TIMER_NAME_TEXT_SIZE]);

/* "#/parent/name" with what must be escaped; "#/parent" when it would be too long. */
void timer_pointer(const char *parent, struct bytes name, char *ret_text, size_t capacity);

/* A field that is none: with the nearest of `known` names, if one is near. */
enum error_code timer_parse_unknown(struct timer_parse *parse, const char *parent,
                                    struct bytes name, const char *const *known,
                                    size_t known_count);

/* ---- timer_json_parse.c ---- */

/* A member's name without its escapes. One that does not fit stays as it was written: it is no
 * field's name either way. */
struct bytes timer_member_name(const struct json_string *name, char *local, size_t capacity);

/* Before the first member. */
enum error_code timer_parse_enter_object(struct timer_parse *parse, const char *pointer);

/* Reads the whole body, an object: each field by `read_field`, until one of them is refused. */
enum error_code timer_parse_body(struct timer_parse *parse,
                                 enum error_code (*read_field)(void *reading, struct bytes name),
                                 void *reading);

enum error_code timer_parse_integer(struct timer_parse *parse, const char *pointer,
                                    uint64_t *ret_value);
enum error_code timer_parse_wall(struct timer_parse *parse, const char *pointer,
                                 struct wall *ret_wall);

/* "1h30m", or a number of milliseconds, from `ms_min` to `ms_max`. */
enum error_code timer_parse_duration_in(struct timer_parse *parse, const char *pointer,
                                        uint64_t ms_min, uint64_t ms_max, uint64_t *ret_ms);

/* ---- timer_json_schedule.c ---- */

enum error_code timer_parse_every(struct timer_parse *parse);
enum error_code timer_parse_count(struct timer_parse *parse);
enum error_code timer_parse_until(struct timer_parse *parse);
enum error_code timer_parse_cron(struct timer_parse *parse);
enum error_code timer_parse_timezone(struct timer_parse *parse);
enum error_code timer_parse_dst(struct timer_parse *parse);
enum error_code timer_parse_late(struct timer_parse *parse);
enum error_code timer_parse_spread(struct timer_parse *parse);

/* What follows from all of them: the first due time. */
enum error_code timer_parse_when(struct timer_parse *parse);

/* ---- timer_json_texts.c ---- */

/* The string that comes next, decoded: a slice of the request or of the scratch. */
enum error_code timer_parse_string(struct timer_parse *parse, const char *pointer,
                                   struct bytes *ret_text);

/* The same without a place in the scratch: valid until the next string is read. `room` has
 * TIMER_JSON_NAME_ROOM bytes; a text that does not fit ends where the room does. */
enum error_code timer_parse_string_into(struct timer_parse *parse, const char *pointer,
                                        char room[TIMER_JSON_NAME_ROOM], struct bytes *ret_text);

/* Appends a text and a byte to what is kept, and says what was kept since `start` bytes of it. */
enum error_code timer_parse_keep(struct timer_parse *parse, struct bytes text, char end);
struct bytes timer_parse_kept(const struct timer_parse *parse, size_t start);

enum error_code timer_parse_target(struct timer_parse *parse);
enum error_code timer_parse_payload(struct timer_parse *parse);
enum error_code timer_parse_body_base64(struct timer_parse *parse);
enum error_code timer_parse_content_type(struct timer_parse *parse);
enum error_code timer_parse_headers(struct timer_parse *parse);
enum error_code timer_parse_labels(struct timer_parse *parse);

/* ---- timer_json_names.c ---- */

enum error_code timer_parse_key(struct timer_parse *parse);
enum error_code timer_parse_watch(struct timer_parse *parse);

#endif
