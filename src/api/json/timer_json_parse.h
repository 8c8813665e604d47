/*
 * timer_json_parse.h - the state and the functions that the readers of a timer's JSON share:
 * strict.c (values of any kind), timer_json_parse.c (fields, create), timer_json_patch.c (patch),
 * timer_json_texts.c (target, payload, headers, labels), timer_json_targets.c (several targets),
 * timer_json_flow.c (flow), timer_json_names.c (key, watch), timer_json_schedule.c (recurrence),
 * timer_json_problem.c (problems and pointers); and the readers of other strict bodies.
 *
 * Ownership  Texts point into the request or into `scratch`, until timer_alloc has copied them.
 */
#ifndef TICKWHEEL_API_JSON_TIMER_JSON_PARSE_H
#define TICKWHEEL_API_JSON_TIMER_JSON_PARSE_H

#include "api/json/timer_fields.h"
#include "api/json/timer_json.h"
#include "base/json.h"
#include "timer/debounce.h"
#include "timer/fanout.h"
#include "timer/flow.h"
#include "timer/awaits.h"

#define TIMER_JSON_HEADERS_MAX   64   /* headers of one timer */
#define TIMER_JSON_MEMBERS_LOCAL 16   /* members of an object that are kept without an allocation */
#define TIMER_JSON_WATCH_MAX     16   /* events that one timer watches */
#define TIMER_JSON_TYPE_SIZE_MAX 256  /* of content_type */
#define TIMER_JSON_NAME_ROOM     260  /* more than a name may have */
#define TIMER_JSON_SCRATCH_SIZE  1024 /* a request up to this size costs no allocation to decode */

#define TIMER_KEY_STAYS "The key stays for the timer's life"

#define TIMER_DEBOUNCE_STAYS "A put by key changes it"
#define TIMER_UNTIL_REPEATS  "It goes with `every` or `cron`"

/* Decoded texts. Those of one request fit into the size of the request: a decoded string is
 * never longer than its JSON, and its quotes and colon take more room than the separator that
 * replaces them. */
struct timer_scratch {
    char *data; /* NULL until needed */
    size_t size, capacity;
};

/* How the targets of a timer stand that is restored. */
struct timer_restored_targets {
    struct fanout fanout; /* its errors are in `errors` */
    char errors[FANOUT_PARTS_MAX][FANOUT_ERROR_SIZE_MAX];
};

struct timer_parse {
    struct json_reader reader;
    const struct timer_json_limits *limits;
    struct wall now;
    struct problem *problem;
    struct bytes json;
    /* a merge patch on its own: null removes, and a field may need others that are missing */
    bool is_patch;
    uint64_t seen;    /* bits of enum timer_field */
    uint64_t removed; /* bits of `seen`: null in a patch */
    uint64_t kept;    /* bits of `seen`: from the timer that is changed, not from the request */
    struct wall due;
    struct retry_policy retry;
    struct schedule_spec schedule;
    char zoned[SCHEDULE_MARK_SIZE]; /* texts.zoned */
    struct debounce debounce;
    char debounced[DEBOUNCE_TEXT_SIZE]; /* texts.debounce */
    char ack_timeout[ACK_TIMEOUT_TEXT_SIZE];
    uint64_t spread_window_ms;
    struct flow flow; /* of texts.flow; its key is borrowed */
    uint64_t flow_period_ms;
    struct timer_texts texts;
    struct target target; /* texts.target, parsed */
    /* a timer that is restored: how its targets stand. NULL if the request makes a new timer */
    struct timer_restored_targets *restored;
    struct timer_scratch scratch;
    char *local; /* TIMER_JSON_SCRATCH_SIZE bytes on the caller's stack */
};

/* ---- timer_json_problem.c ---- */

/* Reports ERROR_NOT_JSON with the reader's reason. */
enum error_code timer_parse_not_json(struct timer_parse *parse);

/* Returns ERROR_NOT_JSON if the text is invalid JSON at any later place, otherwise `code`: a
 * syntax error is reported before a wrong field. */
enum error_code timer_parse_prefer_not_json(struct timer_parse *parse, enum error_code code);

/* Adds a fault ERROR_INVALID at `pointer`. */
#define timer_parse_invalid(parse, pointer, ...) \
    problem_add((parse)->problem, ERROR_INVALID, pointer, __VA_ARGS__)

/* Reports ERROR_NO_MEMORY. */
enum error_code timer_parse_no_memory(struct timer_parse *parse);

/* Reports ERROR_INVALID at `pointer`, with the reason of a lower layer. */
enum error_code timer_parse_invalid_error(struct timer_parse *parse, const char *pointer,
                                          const struct error *error);

/* Returns a name for use in a sentence: without control characters, cut if it is long. */
#define TIMER_NAME_TEXT_SIZE 48
void timer_name_text(struct bytes name, char ret_text[TIMER_NAME_TEXT_SIZE]);

/* Formats "#/parent/name", escaped; "#/parent" if that is too long. */
void timer_pointer(const char *parent, struct bytes name, char *ret_text, size_t capacity);

/* Reports ERROR_INVALID for an unknown field, and suggests the nearest of the `known` names, if
 * one is near. */
enum error_code timer_parse_unknown(struct timer_parse *parse, const char *parent,
                                    struct bytes name, const char *const *known,
                                    size_t known_count);

/* ---- strict.c ---- */

/* Returns a member's name without escapes. A name longer than `local` stays escaped, because no
 * field's name is that long. */
struct bytes timer_member_name(const struct json_string *name, char *local, size_t capacity);

/* True if the next value is a null that removes a member: in a patch. */
bool timer_parse_removes(struct timer_parse *parse);

/* True if the next value is a null that counts as a missing field: outside a patch. */
bool timer_parse_is_absent(struct timer_parse *parse);

/* Skips the next value. */
enum error_code timer_parse_skip(struct timer_parse *parse);

/* Reads the object at `pointer`. Its members are the `known` ones, each at most once. `read` reads
 * the value of known[field]. A null is skipped. */
enum error_code
timer_parse_members(struct timer_parse *parse, const char *pointer, const char *const *known,
                    size_t count, enum error_code (*read)(struct timer_parse *parse, size_t field));

/* Enters the object at `pointer`, before its first member. */
enum error_code timer_parse_enter_object(struct timer_parse *parse, const char *pointer);

/* Reads the whole body, an object: passes each field to `read_field`, and continues after an
 * invalid field, so that every fault is reported (at most PROBLEM_FAULTS). */
enum error_code timer_parse_body(struct timer_parse *parse,
                                 enum error_code (*read_field)(void *reading, struct bytes name),
                                 void *reading);

/* Reads a string and decodes it: the result is a slice of the request or of the scratch. */
enum error_code timer_parse_string(struct timer_parse *parse, const char *pointer,
                                   struct bytes *ret_text);

/* Reads a string and decodes it into `room` of TIMER_JSON_NAME_ROOM bytes, cut when it is longer.
 * The result is valid until the next string is read. */
enum error_code timer_parse_string_into(struct timer_parse *parse, const char *pointer,
                                        char room[TIMER_JSON_NAME_ROOM], struct bytes *ret_text);

/* Allocates the scratch, at most once per request. */
enum error_code timer_scratch_need(struct timer_parse *parse);

/* Append to the scratch, which has room. timer_scratch_since returns it from `start` on. */
void timer_scratch_put(struct timer_scratch *scratch, const void *data, size_t size);
void timer_scratch_decode(struct timer_scratch *scratch, const struct json_string *string);
struct bytes timer_scratch_since(const struct timer_scratch *scratch, size_t start);

/* Appends a text and a byte to the scratch. timer_parse_kept returns the scratch from `start` on.
 * */
enum error_code timer_parse_keep(struct timer_parse *parse, struct bytes text, char end);
struct bytes timer_parse_kept(const struct timer_parse *parse, size_t start);

enum error_code timer_parse_integer(struct timer_parse *parse, const char *pointer,
                                    uint64_t *ret_value);
enum error_code timer_parse_wall(struct timer_parse *parse, const char *pointer,
                                 struct wall *ret_wall);

/* Reads "1h30m", or a number of milliseconds. */
enum error_code timer_parse_duration(struct timer_parse *parse, const char *pointer,
                                     uint64_t *ret_ms);

/* The same, from `ms_min` to `ms_max`. */
enum error_code timer_parse_duration_in(struct timer_parse *parse, const char *pointer,
                                        uint64_t ms_min, uint64_t ms_max, uint64_t *ret_ms);

/* ---- timer_json_parse.c ---- */

/* Begins to read `json`; `local` has TIMER_JSON_SCRATCH_SIZE bytes, and lives until the end. */
void timer_parse_init(struct timer_parse *parse, struct bytes json,
                      const struct timer_json_limits *limits, struct wall now,
                      struct problem *problem, char *local);

/* Reads the value of the field with this name; `reading` is a struct timer_parse. */
enum error_code timer_parse_read_field(void *reading, struct bytes name);

/* Checks the combinations of fields. */
enum error_code timer_parse_check_together(struct timer_parse *parse);

/* Reads all fields, and checks those that go together. */
enum error_code timer_parse_read_fields(struct timer_parse *parse);

/* Makes a timer of what was read. */
enum error_code timer_parse_make(struct timer_parse *parse, struct timer **ret_timer);

/* Frees the scratch. Returns the error of the request: `code`, or that the text is not JSON. */
enum error_code timer_parse_end(struct timer_parse *parse, enum error_code code);

/* ---- timer_json_schedule.c ---- */

/* Sets the first due time, from the fields read before. */
enum error_code timer_parse_when(struct timer_parse *parse);

/* Fields of a schedule, of one that repeats, and of its dates. */
#define TIMER_FIELDS_DATES \
    (TIMER_FIELD_BIT(except) | TIMER_FIELD_BIT(only) | TIMER_FIELD_BIT(on_holiday))
#define TIMER_FIELDS_RECURRENCE                                                   \
    (TIMER_FIELD_BIT(every) | TIMER_FIELD_BIT(cron) | TIMER_FIELD_BIT(timezone) | \
     TIMER_FIELD_BIT(dst) | TIMER_FIELD_BIT(count) | TIMER_FIELD_BIT(until) |     \
     TIMER_FIELD_BIT(overlap) | TIMER_FIELDS_DATES)
#define TIMER_FIELDS_SCHEDULE \
    (TIMER_FIELDS_RECURRENCE | TIMER_FIELD_BIT(late) | TIMER_FIELD_BIT(spread))

/* timer_parse_when of a timer that is changed, after its fields and those of the patch were read:
 * adds PATCH_SCHEDULE to `fields` where the patch names fields of the schedule (`named`), and
 * PATCH_DUE where they move the next firing. */
enum error_code timer_parse_when_changed(struct timer_parse *parse, const struct timer *timer,
                                         uint64_t named, uint32_t *fields);

/* Appends, as members of the open object, those fields of the timer's schedule that stay while the
 * fields `given` of a patch are set and `removed` are taken away: `every` and `cron` replace each
 * other with their own fields, and what needs a recurrence goes with it. */
enum error_code timer_schedule_keep(const struct timer *timer, uint64_t given, uint64_t removed,
                                    struct buffer *out);

/* ---- timer_json_texts.c ---- */

/* Reads the target in a field of another name. The text is valid like that of
 * timer_parse_string. */
enum error_code timer_parse_target_at(struct timer_parse *parse, const char *pointer,
                                      struct bytes *ret_text, struct target *ret_target);

/* Refuses a method of a timer that is no webhook, and one without a body if the timer has one. */
enum error_code timer_parse_check_method(struct timer_parse *parse, struct bytes method,
                                         const struct timer_texts *texts);

/* Refuses a strict order of a timer that is not for one queue, or has a key or a flow. */
enum error_code timer_parse_check_order(struct timer_parse *parse, const struct timer_texts *texts);

#endif
