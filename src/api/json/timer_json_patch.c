/*
 * timer_json_patch.c - the body of a PATCH, a merge patch (RFC 7396) of the fields of a create.
 *
 * It is read twice: once by itself, so that its faults are told before the timer is asked for, and
 * then merged with the fields of the timer that it names. Fields that it does not name are not read
 * again: a limit that was lowered since must not refuse the change of another field.
 */
#include "api/json/timer_json_parse.h"

#include "base/json_merge.h"
#include "base/json_write.h"

#define BIT(field) TIMER_FIELD_BIT(field)

#define FIELDS_CONTENT (BIT(payload) | BIT(body_base64) | BIT(content_type))

/* Fields whose new value does not depend on the timer, and is good for every timer. */
#define FIELDS_WHOLE (BIT(after) | BIT(at) | BIT(target) | BIT(targets) | BIT(watch))

/* Returns the bits of enum timer_patch_field for the fields of a request. */
static uint32_t patch_fields_of(uint64_t named)
{
    uint32_t fields = 0;

    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (named >> i & 1)
            fields |= timer_fields[i].patch;
    return fields;
}

static enum error_code patch_refuse_empty(struct timer_parse *parse)
{
    return parse->seen ? ERROR_NONE
                       : timer_parse_invalid(parse, "#", "There is no field to change");
}

enum error_code timer_json_parse_values(struct bytes json, const struct timer_json_limits *limits,
                                        struct wall now, uint32_t *ret_fields,
                                        struct timer **ret_timer, struct problem *ret_problem)
{
    struct timer_parse parse;
    char local[TIMER_JSON_SCRATCH_SIZE];

    timer_parse_init(&parse, json, limits, now, ret_problem, local);
    enum error_code code = timer_parse_read_fields(&parse);

    if (!code)
        code = patch_refuse_empty(&parse);
    if (!code && parse.seen & BIT(key))
        code = timer_parse_invalid(&parse, "#/key", TIMER_KEY_STAYS);
    if (!code && parse.seen & BIT(debounce))
        code = timer_parse_invalid(&parse, "#/debounce", TIMER_DEBOUNCE_STAYS);
    if (!code)
        code = timer_parse_make(&parse, ret_timer);
    if (!code)
        *ret_fields = patch_fields_of(parse.seen);
    return timer_parse_end(&parse, code);
}

/* ---- by itself ---- */

/* True if the new values of a patch's fields do not depend on the timer. */
static bool patch_is_whole(const struct timer_parse *parse)
{
    return !(parse->seen & ~FIELDS_WHOLE) && !parse->removed;
}

enum error_code timer_json_check_patch(struct bytes json, const struct timer_json_limits *limits,
                                       struct wall now, uint32_t *ret_fields,
                                       struct timer **ret_timer, struct problem *ret_problem)
{
    struct timer_parse parse;
    char local[TIMER_JSON_SCRATCH_SIZE];

    timer_parse_init(&parse, json, limits, now, ret_problem, local);
    parse.is_patch = true;
    enum error_code code = timer_parse_read_fields(&parse);

    if (!code)
        code = patch_refuse_empty(&parse);
    const bool is_whole = patch_is_whole(&parse);

    code = timer_parse_end(&parse, code);
    if (!code && is_whole)
        return timer_json_parse_values(json, limits, now, ret_fields, ret_timer, ret_problem);
    if (!code)
        *ret_timer = NULL;
    return code;
}

/* ---- merged ---- */

/* Members of a patch. */
struct patch_names {
    uint64_t given;   /* members with a value */
    uint64_t removed; /* null */
};

/* Reads the names of a checked patch. */
static void patch_read_names(struct bytes json, struct patch_names *ret_names)
{
    struct json_reader reader;
    struct json_string name;
    char local[32];

    *ret_names = (struct patch_names){0};
    json_reader_init(&reader, json);
    if (json_peek(&reader) != JSON_OBJECT || !json_enter_object(&reader))
        return;
    while (json_next_member(&reader, &name)) {
        enum timer_field field = timer_field_find(timer_member_name(&name, local, sizeof(local)));
        uint64_t *bits = json_peek(&reader) == JSON_NULL ? &ret_names->removed : &ret_names->given;

        if (field < FIELD_COUNT)
            *bits |= UINT64_C(1) << field;
        if (!json_skip(&reader, NULL))
            return;
    }
}

/* True if a patch of the content needs the old one: a `payload` replaces a body, and a body a
 * payload. */
static bool patch_merges_content(const struct timer *timer, const struct patch_names *names)
{
    const bool has_body = timer->texts.content_type.size > 0;

    if ((names->given | names->removed) & FIELDS_CONTENT)
        return !(names->given & (has_body ? BIT(payload) : BIT(body_base64)));
    return false;
}

/* Appends the timer's fields that the patch names, as a JSON object. */
static enum error_code patch_format_old(const struct timer *timer, const struct patch_names *names,
                                        struct buffer *out)
{
    const uint64_t named = names->given | names->removed;
    uint64_t fields = patch_merges_content(timer, names) ? FIELDS_CONTENT : 0;
    enum error_code code = ERROR_NONE;

    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (timer_fields[i].change == FIELD_MERGED)
            fields |= named & UINT64_C(1) << i;
    json_open(out, NULL, '{');
    timer_json_put_fields(timer, fields, out);
    if (named & TIMER_FIELDS_SCHEDULE)
        code = timer_schedule_keep(timer, names->given, names->removed, out);
    json_close(out, '}');
    return buffer_failed(out) ? ERROR_NO_MEMORY : code;
}

/* A method that stays goes with a target that is no webhook. */
static enum error_code patch_check_method(struct timer_parse *parse, const struct timer *timer,
                                          uint32_t fields)
{
    struct timer_texts texts = timer->texts;

    timer_texts_patch(&texts, fields, &parse->texts);
    if (fields & PATCH_METHOD)
        texts.method = parse->texts.method;
    const enum error_code code = timer_parse_check_method(parse, texts.method, &texts);
    return code ? code : timer_parse_check_order(parse, &texts);
}

/* Retries can end with the next firing only if the timer repeats. */
static enum error_code patch_check_until(struct timer_parse *parse, const struct timer *timer,
                                         uint64_t named)
{
    const bool recurs = named & TIMER_FIELDS_SCHEDULE ? parse->seen & (BIT(every) | BIT(cron))
                                                      : schedule_recurs(timer->texts.schedule);

    return !(named & BIT(retry)) || !parse->retry.until_next || recurs
               ? ERROR_NONE
               : timer_parse_invalid(parse, "#/retry/until", TIMER_UNTIL_REPEATS);
}

static enum error_code patch_read_merged(struct timer_parse *parse, const struct timer *timer,
                                         const struct patch_names *names, uint32_t *ret_fields)
{
    const uint64_t named = names->given | names->removed;
    uint32_t fields = patch_fields_of(named);
    enum error_code code = timer_parse_read_fields(parse);

    parse->kept = parse->seen & ~named;
    if (!code && parse->seen & BIT(key) && !bytes_equal(parse->texts.key, timer->texts.key))
        code = timer_parse_invalid(parse, "#/key", TIMER_KEY_STAYS);
    parse->texts.key = timer->texts.key;
    if (!code && named & BIT(debounce))
        code = timer_parse_invalid(parse, "#/debounce", TIMER_DEBOUNCE_STAYS);
    if (!code && named & BIT(order))
        code = timer_parse_invalid(parse, "#/order", "It goes with a new timer; no patch sets it");
    if (!code)
        code = patch_check_method(parse, timer, fields);
    if (!code)
        code = patch_check_until(parse, timer, named);
    if (!code)
        code = timer_parse_when_changed(parse, timer, named, &fields);
    if (!code)
        *ret_fields = fields;
    return code;
}

enum error_code timer_json_merge_patch(struct bytes json, const struct timer *timer,
                                       const struct timer_json_limits *limits, struct wall now,
                                       uint32_t *ret_fields, struct timer **ret_timer,
                                       struct problem *ret_problem)
{
    struct timer_parse parse;
    struct patch_names names;
    struct buffer old, merged;
    char local[TIMER_JSON_SCRATCH_SIZE];
    uint32_t fields = 0;

    buffer_init(&old);
    buffer_init(&merged);
    patch_read_names(json, &names);
    enum error_code code = patch_format_old(timer, &names, &old);

    if (!code)
        code = json_merge(buffer_bytes(&old), json, &merged);
    if (code) {
        problem_set(ret_problem, code, "", "%s", "");
    } else {
        timer_parse_init(&parse, buffer_bytes(&merged), limits, now, ret_problem, local);
        code = patch_read_merged(&parse, timer, &names, &fields);
        if (!code)
            code = timer_parse_make(&parse, ret_timer);
        if (!code)
            *ret_fields = fields;
        code = timer_parse_end(&parse, code);
    }
    buffer_deinit(&old);
    buffer_deinit(&merged);
    return code;
}
