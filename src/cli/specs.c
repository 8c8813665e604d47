/* specs.c - reads documents of JSON, and finds lines; yaml.c reads the others. */
#include "cli/specs.h"

#include "base/json.h"
#include "cli/value.h"
#include "cli/yaml.h"

#include <stdio.h>

/* ---- JSON ---- */

struct specs_json {
    struct bytes text;
    const char *counted; /* position up to which lines are counted */
    uint32_t line;       /* line of that position, from 1 */
    unsigned depth;      /* number of objects and arrays of the document that are open */
    uint32_t deep_line;  /* line of what is nested too deeply; 0 if nothing is */
    struct spec_draft draft;
};

/* Returns the line of a position, which is not before an earlier one. */
static uint32_t specs_count(struct specs_json *json, const char *at)
{
    for (; json->counted < at; json->counted++)
        json->line += *json->counted == '\n';
    return json->line;
}

static void specs_walk(struct specs_json *json, struct json_reader *reader);

static void specs_walk_object(struct specs_json *json, struct json_reader *reader)
{
    struct buffer *out = &json->draft.json;
    struct json_string name;

    buffer_append_text(out, "{");
    json_enter_object(reader);
    while (json_next_member(reader, &name)) {
        const struct bytes quoted = {name.raw.data - 1, name.raw.size + 2};
        struct buffer decoded;

        buffer_init(&decoded);
        cli_append_value(&decoded, quoted);
        const size_t path =
            spec_enter(&json->draft, buffer_bytes(&decoded), specs_count(json, name.raw.data));
        json->draft.path.failed |= buffer_failed(&decoded);
        buffer_deinit(&decoded);
        if (out->size && out->data[out->size - 1] != '{')
            buffer_append_text(out, ",");
        buffer_append_bytes(out, quoted);
        buffer_append_text(out, ":");
        specs_walk(json, reader);
        spec_leave(&json->draft, path);
    }
    buffer_append_text(out, "}");
}

static void specs_walk_array(struct specs_json *json, struct json_reader *reader)
{
    struct buffer *out = &json->draft.json;
    char index[24];

    buffer_append_text(out, "[");
    json_enter_array(reader);
    for (unsigned i = 0; json_next_element(reader); i++) {
        const int size = snprintf(index, sizeof(index), "%u", i);
        const size_t path =
            spec_enter(&json->draft, (struct bytes){index, (size_t)size}, json->line);

        if (i)
            buffer_append_text(out, ",");
        specs_walk(json, reader);
        spec_leave(&json->draft, path);
    }
    buffer_append_text(out, "]");
}

/* Copies a value without white space. The text is valid JSON, whose depth has a limit. */
static void specs_walk(struct specs_json *json, struct json_reader *reader)
{
    const enum json_type type = json_peek(reader);
    struct bytes raw;

    if (type != JSON_OBJECT && type != JSON_ARRAY) {
        if (json_skip(reader, &raw))
            buffer_append_bytes(&json->draft.json, raw);
        return;
    }
    if (++json->depth > SPEC_DEPTH_MAX && !json->deep_line)
        json->deep_line = json->line;
    if (type == JSON_OBJECT)
        specs_walk_object(json, reader);
    else
        specs_walk_array(json, reader);
    json->depth--;
}

static enum error_code specs_json_document(struct specs_json *json, struct bytes value,
                                           spec_take take, void *context, struct error *ret_error)
{
    struct json_reader reader;

    json->draft.line = specs_count(json, value.data);
    json_reader_init(&reader, value);
    specs_walk(json, &reader);
    if (json->deep_line)
        return error_set(ret_error, ERROR_INVALID, "line %u: it is nested too deeply",
                         json->deep_line);
    return spec_finish(&json->draft, take, context, ret_error);
}

static enum error_code specs_read_json(struct bytes text, spec_take take, void *context,
                                       struct error *ret_error)
{
    struct specs_json json = {.text = text, .counted = text.data, .line = 1};
    enum error_code code = ERROR_NONE;
    struct json_reader reader;

    spec_draft_init(&json.draft);
    json_reader_init(&reader, text);
    if (json_peek(&reader) == JSON_ARRAY) {
        struct cli_list list;
        struct bytes value;

        cli_list_init(&list, text);
        while (!code && cli_list_next(&list, &value))
            code = specs_json_document(&json, value, take, context, ret_error);
    } else {
        struct bytes value = {NULL, 0};

        json_skip(&reader, &value);
        code = specs_json_document(&json, value, take, context, ret_error);
    }
    spec_draft_deinit(&json.draft);
    return code;
}

enum error_code specs_read(struct bytes text, spec_take take, void *context,
                           struct error *ret_error)
{
    return cli_is_json(text, NULL, NULL) ? specs_read_json(text, take, context, ret_error)
                                         : yaml_read(text, take, context, ret_error);
}
