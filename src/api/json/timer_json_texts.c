/* timer_json_texts.c - reads the texts of a timer's JSON: target, payload, headers and labels. */
#include "api/json/timer_json_parse.h"

#include "base/base64.h"
#include "base/json_write.h"
#include "delivery/webhook.h"
#include "timer/sensitive_headers.h"
#include "timer/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- target, payload ---- */

enum error_code timer_parse_target_at(struct timer_parse *parse, const char *pointer,
                                      struct bytes *ret_text, struct target *ret_target)
{
    const struct timer_json_limits *limits = parse->limits;
    struct bytes text;
    enum error_code code = timer_parse_string(parse, pointer, &text);

    if (code)
        return code;
    if (text.size > limits->target_bytes_max)
        return timer_parse_invalid(parse, pointer, "It may have at most %zu bytes",
                                   limits->target_bytes_max);
    struct error error;
    struct target target;
    code = target_parse(text, &target, &error);
    if (!code && limits->target_check)
        code = limits->target_check(limits->target_context, limits->tenant, text, &target, &error);
    if (code)
        return timer_parse_invalid_error(parse, pointer, &error);
    *ret_text = text;
    *ret_target = target;
    return ERROR_NONE;
}

enum error_code timer_parse_target(struct timer_parse *parse)
{
    return timer_parse_target_at(parse, "#/target", &parse->texts.target, &parse->target);
}

static enum error_code timer_texts_read_report(struct timer_parse *parse, const char *pointer,
                                               struct bytes name, bool *is_seen,
                                               struct bytes *ret_text)
{
    static const char *const known[] = {"target"};
    char at[32];

    if (!bytes_equal(name, BYTES("target")))
        return timer_parse_unknown(parse, pointer, name, known, 1);
    timer_pointer(pointer, name, at, sizeof(at));
    if (*is_seen)
        return timer_parse_invalid(parse, at, "It is given twice");
    *is_seen = true;
    if (timer_parse_removes(parse))
        return timer_parse_invalid(parse, at, "A report needs a target");
    struct target target;
    return timer_parse_target_at(parse, at, ret_text, &target);
}

/* Reads an object with the target of reports, whose text becomes `ret_text`. */
static enum error_code timer_texts_report(struct timer_parse *parse, const char *pointer,
                                          struct bytes *ret_text)
{
    enum error_code code = timer_parse_enter_object(parse, pointer);

    if (code)
        return code;
    bool is_seen = false;
    struct json_string name;
    while (json_next_member(&parse->reader, &name)) {
        char local[32];
        code = timer_texts_read_report(
            parse, pointer, timer_member_name(&name, local, sizeof(local)), &is_seen, ret_text);
        if (code)
            return code;
    }
    if (json_error(&parse->reader))
        return timer_parse_not_json(parse);
    if (!parse->is_patch && !is_seen)
        return timer_parse_invalid(parse, pointer, "A `target` is needed");
    return ERROR_NONE;
}

enum error_code timer_parse_on_dead(struct timer_parse *parse)
{
    return timer_texts_report(parse, "#/on_dead", &parse->texts.on_dead);
}

enum error_code timer_parse_on_success(struct timer_parse *parse)
{
    return timer_texts_report(parse, "#/on_success", &parse->texts.on_success);
}

static enum error_code texts_too_large(struct timer_parse *parse, const char *pointer)
{
    return problem_set(parse->problem, ERROR_TOO_LARGE, pointer, "It may have at most %zu bytes",
                       parse->limits->payload_bytes_max);
}

enum error_code timer_parse_payload(struct timer_parse *parse)
{
    if (!json_skip(&parse->reader, &parse->texts.payload))
        return timer_parse_not_json(parse);
    if (!parse->is_patch && parse->texts.payload.size > parse->limits->payload_bytes_max)
        return texts_too_large(parse, "#/payload");
    return ERROR_NONE;
}

enum error_code timer_parse_body_base64(struct timer_parse *parse)
{
    struct timer_scratch *scratch = &parse->scratch;
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/body_base64", &text);

    if (!code)
        code = timer_scratch_need(parse);
    if (code)
        return code;
    /* An escaped text is in the scratch already and is decoded in place. */
    if (text.size && text.data + text.size == scratch->data + scratch->size)
        scratch->size -= text.size;
    if (base64_decoded_size_max(text.size) > scratch->capacity - scratch->size)
        abort(); /* bytes are fewer than their text */
    size_t size;
    if (!base64_decode(text, scratch->data + scratch->size, &size))
        return timer_parse_invalid(parse, "#/body_base64",
                                   "It is not base64 (RFC 4648, with padding)");
    if (size > parse->limits->payload_bytes_max)
        return texts_too_large(parse, "#/body_base64");
    parse->texts.payload = (struct bytes){scratch->data + scratch->size, size};
    scratch->size += size;
    return ERROR_NONE;
}

/* True for a token of RFC 9110: a header's name, or half of a media type. */
static bool texts_is_token(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        if (!((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
              (c && strchr("!#$%&'*+-.^_`|~", c))))
            return false;
    }
    return text.size > 0;
}

/* True for a header's value: printable, not empty, without space at its ends (which a receiver
 * would not see). */
static bool texts_is_header_value(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((uint8_t)text.data[i] < 0x20 || text.data[i] == 0x7f)
            return false;
    return text.size > 0 && text.data[0] != ' ' && text.data[text.size - 1] != ' ';
}

enum error_code timer_parse_content_type(struct timer_parse *parse)
{
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/content_type", &text);

    if (code)
        return code;
    if (text.size > TIMER_JSON_TYPE_SIZE_MAX)
        return timer_parse_invalid(parse, "#/content_type", "It may have at most %d bytes",
                                   TIMER_JSON_TYPE_SIZE_MAX);
    const char *end = text.size ? memchr(text.data, ';', text.size) : NULL;
    if (!end)
        end = text.data + text.size;
    while (end > text.data && end[-1] == ' ')
        end--;
    const char *slash = end > text.data ? memchr(text.data, '/', (size_t)(end - text.data)) : NULL;
    struct bytes type = {text.data, slash ? (size_t)(slash - text.data) : 0};
    struct bytes subtype = {slash ? slash + 1 : NULL, slash ? (size_t)(end - slash - 1) : 0};
    if (!texts_is_token(type) || !texts_is_token(subtype) || !texts_is_header_value(text))
        return timer_parse_invalid(parse, "#/content_type",
                                   "It must be a media type such as text/plain");
    parse->texts.content_type = text;
    return ERROR_NONE;
}

/* ---- the time for a later answer ---- */

enum error_code timer_parse_ack_timeout(struct timer_parse *parse)
{
    uint64_t ms;
    enum error_code code = timer_parse_duration_in(parse, "#/ack_timeout", ACK_TIMEOUT_MS_MIN,
                                                   ACK_TIMEOUT_MS_MAX, &ms);

    if (code)
        return code;
    ack_timeout_format(ms, parse->ack_timeout);
    parse->texts.ack_timeout = bytes_of(parse->ack_timeout);
    return ERROR_NONE;
}

/* ---- the method ---- */

enum error_code timer_parse_method(struct timer_parse *parse)
{
    static const struct bytes methods[] = {BYTES("POST"), BYTES("PUT"), BYTES("PATCH"),
                                           BYTES("GET"), BYTES("DELETE")};
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/method", &text);

    for (size_t i = 0; !code && i < sizeof(methods) / sizeof(methods[0]); i++)
        if (bytes_equal(text, methods[i])) {
            parse->texts.method = i ? methods[i] : (struct bytes){0};
            return ERROR_NONE;
        }
    return code ? code
                : timer_parse_invalid(parse, "#/method",
                                      "It must be POST, PUT, PATCH, GET or DELETE");
}

enum error_code timer_parse_check_method(struct timer_parse *parse, struct bytes method,
                                         const struct timer_texts *texts)
{
    struct target target;
    const bool is_named = !texts->targets.size && !target_parse(texts->target, &target, NULL) &&
                          target.kind == TARGET_NAMED;

    if (is_named && texts->headers.size)
        return timer_parse_invalid(parse, "#/headers",
                                   "The headers of a named target are those of its definition");
    if (is_named && method.size)
        return timer_parse_invalid(parse, "#/method",
                                   "The method of a named target is that of its definition");
    if (!method.size)
        return ERROR_NONE;
    if (!timer_texts_have_webhook(texts))
        return timer_parse_invalid(parse, "#/method", "It goes with an http or https `target`");
    if (method.data[0] != 'P' && (texts->payload.size || texts->content_type.size))
        return timer_parse_invalid(parse, "#/method",
                                   "GET and DELETE have no body: leave `payload` out");
    return ERROR_NONE;
}

/* ---- the order ---- */

enum error_code timer_parse_order(struct timer_parse *parse)
{
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/order", &text);

    if (!code && !bytes_equal(text, BYTES("strict")))
        code = timer_parse_invalid(parse, "#/order", "It must be strict");
    if (!code)
        parse->texts.order = BYTES("strict");
    return code;
}

enum error_code timer_parse_check_order(struct timer_parse *parse, const struct timer_texts *texts)
{
    struct target target;

    if (!texts->order.size)
        return ERROR_NONE;
    if (texts->targets.size || target_parse(texts->target, &target, NULL) ||
        target_sharing(&target) != TARGET_SHARES_WORKERS)
        return timer_parse_invalid(parse, "#/order", "It goes with a `target` that is a queue");
    if (texts->key.size)
        return timer_parse_invalid(parse, "#/order",
                                   "It goes with no `key`, which selects the partition");
    if (texts->flow.size)
        return timer_parse_invalid(parse, "#/order",
                                   "It goes with no `flow`, in which later items may be first");
    return ERROR_NONE;
}

/* ---- headers, labels: objects of strings ---- */

struct member {
    struct json_string name, value;
    struct bytes stored_name; /* for finding a repeated name */
};

struct members {
    struct member *at; /* `local` until there are more */
    size_t count, capacity;
    struct member local[TIMER_JSON_MEMBERS_LOCAL];
};

static void members_deinit(struct members *members)
{
    if (members->at != members->local)
        free(members->at);
}

static bool members_grow(struct members *members)
{
    struct member *grown = malloc(2 * members->capacity * sizeof(*grown));

    if (!grown)
        return false;
    memcpy(grown, members->at, members->count * sizeof(*grown));
    members_deinit(members);
    members->at = grown;
    members->capacity *= 2;
    return true;
}

static enum error_code member_invalid(struct timer_parse *parse, const char *parent,
                                      const struct json_string *name, const char *detail)
{
    char pointer[sizeof(parse->problem->faults[0].pointer)], decoded[sizeof(pointer)];
    struct bytes text = {decoded, 0};

    if (!json_string_decode(name, decoded, sizeof(decoded), &text.size))
        return timer_parse_invalid(parse, parent, "%s", detail);
    timer_pointer(parent, text, pointer, sizeof(pointer));
    return timer_parse_invalid(parse, pointer, "%s", detail);
}

/* Reads an object of strings, the field at `pointer`. Call members_deinit() in any case. */
static enum error_code timer_texts_read_members(struct timer_parse *parse, const char *pointer,
                                                size_t max, struct members *members)
{
    struct json_reader *reader = &parse->reader;
    enum json_type type = json_peek(reader);

    members->at = members->local;
    members->count = 0;
    members->capacity = TIMER_JSON_MEMBERS_LOCAL;
    if (type != JSON_OBJECT && type != JSON_NONE)
        return timer_parse_invalid(parse, pointer, "It must be an object of strings");
    if (type == JSON_NONE || !json_enter_object(reader))
        return timer_parse_not_json(parse);
    struct json_string name;
    while (json_next_member(reader, &name)) {
        type = json_peek(reader);
        if (type == JSON_NONE)
            break;
        if (timer_parse_removes(parse)) {
            (void)json_skip(reader, NULL);
            continue;
        }
        if (type != JSON_STRING)
            return member_invalid(parse, pointer, &name, "It must be a string");
        if (members->count == max)
            return timer_parse_invalid(parse, pointer, "It may have at most %zu members", max);
        if (members->count == members->capacity && !members_grow(members))
            return timer_parse_no_memory(parse);
        struct member *member = &members->at[members->count];
        member->name = name;
        if (!json_read_string(reader, &member->value))
            break;
        members->count++;
    }
    return json_error(reader) ? timer_parse_not_json(parse) : timer_scratch_need(parse);
}

/* Appends "Name: value\n". */
static enum error_code texts_store_header(struct timer_parse *parse, const struct members *members,
                                          struct member *member)
{
    struct timer_scratch *scratch = &parse->scratch;
    size_t start = scratch->size;

    timer_scratch_decode(scratch, &member->name);
    struct bytes name = timer_scratch_since(scratch, start);
    if (!texts_is_token(name))
        return member_invalid(parse, "#/headers", &member->name, "This is no name of a header");
    if (webhook_header_is_reserved(name))
        return member_invalid(parse, "#/headers", &member->name,
                              "The server sets this header itself");
    for (const struct member *before = members->at; before < member; before++)
        if (before->stored_name.size == name.size &&
            strncasecmp(before->stored_name.data, name.data, name.size) == 0)
            return member_invalid(parse, "#/headers", &member->name, "This header is named twice");
    timer_scratch_put(scratch, ": ", 2);
    start = scratch->size;
    timer_scratch_decode(scratch, &member->value);
    struct bytes value = timer_scratch_since(scratch, start);
    if (!texts_is_header_value(value))
        return member_invalid(parse, "#/headers", &member->name,
                              "A header's value is not empty, has no space at its ends and no "
                              "control characters");
    if (bytes_equal(value, BYTES(HEADER_MASK)) &&
        header_is_sensitive(name, parse->limits->sensitive_headers))
        return member_invalid(parse, "#/headers", &member->name,
                              "*** stands for a value that the token may not see");
    timer_scratch_put(scratch, "\n", 1);
    member->stored_name = name;
    return ERROR_NONE;
}

enum error_code timer_parse_headers(struct timer_parse *parse)
{
    struct members members;
    enum error_code code =
        timer_texts_read_members(parse, "#/headers", TIMER_JSON_HEADERS_MAX, &members);
    size_t start = parse->scratch.size;

    for (size_t i = 0; i < members.count && !code; i++)
        code = texts_store_header(parse, &members, &members.at[i]);
    members_deinit(&members);
    if (code)
        return code;
    parse->texts.headers = timer_scratch_since(&parse->scratch, start);
    if (parse->texts.headers.size > parse->limits->headers_bytes_max)
        return timer_parse_invalid(parse, "#/headers", "They may have at most %zu bytes together",
                                   parse->limits->headers_bytes_max);
    return ERROR_NONE;
}

static enum error_code texts_label_too_long(struct timer_parse *parse,
                                            const struct json_string *name)
{
    char detail[80];

    snprintf(detail, sizeof(detail), "A label's name and its value may have at most %d bytes each",
             LABEL_SIZE_MAX);
    return member_invalid(parse, "#/labels", name, detail);
}

/* Appends the string as json_append_string writes it, so that equal strings have equal bytes;
 * `ret_raw` is the text between its quotes. */
static enum error_code texts_store_label_text(struct timer_parse *parse,
                                              const struct member *member,
                                              const struct json_string *string,
                                              struct bytes *ret_raw)
{
    struct timer_scratch *scratch = &parse->scratch;
    struct bytes text = string->raw;
    size_t start = scratch->size;
    char local[LABEL_SIZE_MAX];

    if (string->escaped) {
        text.data = local;
        if (!json_string_decode(string, local, sizeof(local), &text.size))
            text.size = sizeof(local) + 1;
    }
    if (text.size > LABEL_SIZE_MAX)
        return texts_label_too_long(parse, &member->name);
    if (string->escaped) {
        struct buffer buffer;

        buffer_init(&buffer);
        json_append_string(&buffer, text);
        if (!buffer_failed(&buffer))
            timer_scratch_put(scratch, buffer.data, buffer.size);
        buffer_deinit(&buffer);
        if (scratch->size == start)
            return timer_parse_no_memory(parse);
    } else {
        timer_scratch_put(scratch, "\"", 1);
        timer_scratch_put(scratch, text.data, text.size);
        timer_scratch_put(scratch, "\"", 1);
    }
    *ret_raw = (struct bytes){scratch->data + start + 1, scratch->size - start - 2};
    return ERROR_NONE;
}

static enum error_code texts_store_label(struct timer_parse *parse, const struct members *members,
                                         struct member *member)
{
    timer_scratch_put(&parse->scratch, member == members->at ? "{" : ",", 1);
    enum error_code code =
        texts_store_label_text(parse, member, &member->name, &member->stored_name);
    if (code)
        return code;
    if (member->stored_name.size == 0)
        return member_invalid(parse, "#/labels", &member->name, "A label needs a name");
    for (const struct member *before = members->at; before < member; before++)
        if (bytes_equal(before->stored_name, member->stored_name))
            return member_invalid(parse, "#/labels", &member->name, "This label is named twice");
    timer_scratch_put(&parse->scratch, ":", 1);
    struct bytes value;
    return texts_store_label_text(parse, member, &member->value, &value);
}

enum error_code timer_parse_labels(struct timer_parse *parse)
{
    struct members members;
    enum error_code code =
        timer_texts_read_members(parse, "#/labels", parse->limits->labels_max, &members);
    size_t start = parse->scratch.size;

    for (size_t i = 0; i < members.count && !code; i++)
        code = texts_store_label(parse, &members, &members.at[i]);
    if (members.count && !code)
        timer_scratch_put(&parse->scratch, "}", 1);
    members_deinit(&members);
    if (!code)
        parse->texts.labels = timer_scratch_since(&parse->scratch, start);
    return code;
}
