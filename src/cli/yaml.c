/*
 * yaml.c - reads YAML by libyaml, event by event, and writes it as JSON; see specs.h.
 *
 * libyaml finds the structure and decodes strings; what a plain scalar means is decided here, by
 * the core schema of YAML 1.2.
 */
#include "cli/yaml.h"

#include "base/json.h"
#include "base/json_write.h"

#include <stdio.h>
#include <yaml.h>

struct yaml {
    yaml_parser_t parser;
    yaml_event_t event; /* the last one; deleted before the next */
    bool has_event;
    struct spec_draft draft;
    struct error *error;
};

enum yaml_meaning {
    YAML_MEANS_STRING,
    YAML_MEANS_JSON,  /* null, true, false, or a number as JSON writes it */
    YAML_MEANS_OTHER, /* a number in a form that JSON has not */
};

/* ---- events ---- */

static uint32_t yaml_line(const struct yaml *yaml)
{
    return (uint32_t)yaml->event.start_mark.line + 1;
}

static enum error_code yaml_refuse(struct yaml *yaml, const char *why)
{
    return error_set(yaml->error, ERROR_INVALID, "line %u: %s", yaml_line(yaml), why);
}

static enum error_code yaml_next(struct yaml *yaml)
{
    const yaml_parser_t *parser = &yaml->parser;

    if (yaml->has_event)
        yaml_event_delete(&yaml->event);
    yaml->has_event = yaml_parser_parse(&yaml->parser, &yaml->event) != 0;
    if (yaml->has_event)
        return ERROR_NONE;
    if (parser->error == YAML_MEMORY_ERROR)
        return error_set(yaml->error, ERROR_NO_MEMORY, "out of memory");
    const size_t line =
        parser->error == YAML_READER_ERROR ? parser->mark.line : parser->problem_mark.line;
    return error_set(yaml->error, ERROR_INVALID, "line %zu: this is no YAML: %s", line + 1,
                     parser->problem ? parser->problem : "");
}

/* ---- scalars ---- */

static bool yaml_is_one_of(struct bytes text, const char *const *words)
{
    for (; *words; words++)
        if (bytes_equal(text, bytes_of(*words)))
            return true;
    return false;
}

static size_t yaml_digits(struct bytes text, size_t at, const char *digits)
{
    while (at < text.size && text.data[at] && strchr(digits, text.data[at]))
        at++;
    return at;
}

/* True if the core schema reads the text as a number. */
static bool yaml_is_number(struct bytes text)
{
    static const char *const words[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf",
                                        "+.INF", "-.inf", "-.Inf", "-.INF", ".nan",
                                        ".NaN",  ".NAN",  NULL};
    const char *decimal = "0123456789";

    if (yaml_is_one_of(text, words))
        return true;
    if (text.size > 2 && text.data[0] == '0' && text.data[1] == 'o')
        return yaml_digits(text, 2, "01234567") == text.size;
    if (text.size > 2 && text.data[0] == '0' && text.data[1] == 'x')
        return yaml_digits(text, 2, "0123456789abcdefABCDEF") == text.size;
    const size_t begin = text.size && (text.data[0] == '-' || text.data[0] == '+');
    const size_t whole = yaml_digits(text, begin, decimal);
    size_t at = whole;
    if (at < text.size && text.data[at] == '.')
        at = yaml_digits(text, at + 1, decimal);
    if (whole == begin && at <= whole + 1)
        return false; /* no digit, neither before nor after the point */
    if (at < text.size && (text.data[at] == 'e' || text.data[at] == 'E')) {
        at++;
        if (at < text.size && (text.data[at] == '-' || text.data[at] == '+'))
            at++;
        const size_t exponent = at;
        at = yaml_digits(text, at, decimal);
        if (at == exponent)
            return false;
    }
    return at == text.size;
}

static bool yaml_is_json(struct bytes text)
{
    struct json_reader reader;

    json_reader_init(&reader, text);
    json_skip(&reader, NULL);
    return json_finish(&reader);
}

/* Decides what a plain scalar means, and sets its JSON. */
static enum yaml_meaning yaml_resolve(struct bytes text, struct bytes *ret_json)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};

    *ret_json = yaml_is_one_of(text, nulls)    ? BYTES("null")
                : yaml_is_one_of(text, trues)  ? BYTES("true")
                : yaml_is_one_of(text, falses) ? BYTES("false")
                                               : text;
    if (ret_json->data != text.data)
        return YAML_MEANS_JSON;
    if (!yaml_is_number(text))
        return YAML_MEANS_STRING;
    return yaml_is_json(text) ? YAML_MEANS_JSON : YAML_MEANS_OTHER;
}

static struct bytes yaml_text(const struct yaml *yaml)
{
    return (struct bytes){(const char *)yaml->event.data.scalar.value,
                          yaml->event.data.scalar.length};
}

static enum yaml_meaning yaml_scalar_means(const struct yaml *yaml, struct bytes *ret_json)
{
    return yaml->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE
               ? yaml_resolve(yaml_text(yaml), ret_json)
               : YAML_MEANS_STRING;
}

static enum error_code yaml_scalar(struct yaml *yaml)
{
    struct bytes json;

    switch (yaml_scalar_means(yaml, &json)) {
    case YAML_MEANS_STRING:
        json_append_string(&yaml->draft.json, yaml_text(yaml));
        return ERROR_NONE;
    case YAML_MEANS_JSON:
        buffer_append_bytes(&yaml->draft.json, json);
        return ERROR_NONE;
    default:
        return yaml_refuse(yaml, "readers of YAML disagree about this number: write it as JSON "
                                 "does, or in quotes");
    }
}

/* ---- values ---- */

/* Refuses tags and anchors. */
static enum error_code yaml_check_properties(struct yaml *yaml)
{
    const yaml_char_t *tag = NULL, *anchor = NULL;

    switch (yaml->event.type) {
    case YAML_SCALAR_EVENT:
        tag = yaml->event.data.scalar.tag;
        anchor = yaml->event.data.scalar.anchor;
        break;
    case YAML_MAPPING_START_EVENT:
        tag = yaml->event.data.mapping_start.tag;
        anchor = yaml->event.data.mapping_start.anchor;
        break;
    case YAML_SEQUENCE_START_EVENT:
        tag = yaml->event.data.sequence_start.tag;
        anchor = yaml->event.data.sequence_start.anchor;
        break;
    default:
        anchor = yaml->event.data.alias.anchor;
    }
    if (anchor)
        return yaml_refuse(yaml, "anchors (&) and aliases (*) are not read: write the value out, "
                                 "or put it in quotes");
    if (tag)
        return yaml_refuse(yaml, "tags (!) are not read: put a string in quotes");
    return ERROR_NONE;
}

static enum error_code yaml_value(struct yaml *yaml, unsigned depth);

/* Reads the value of the key that was read last. */
static enum error_code yaml_member(struct yaml *yaml, unsigned depth)
{
    struct bytes json;
    enum error_code code = yaml_check_properties(yaml);

    if (code)
        return code;
    if (yaml->event.type != YAML_SCALAR_EVENT ||
        yaml_scalar_means(yaml, &json) != YAML_MEANS_STRING)
        return yaml_refuse(yaml, "a key is a string: put it in quotes");
    const size_t path = spec_enter(&yaml->draft, yaml_text(yaml), yaml_line(yaml));
    json_append_string(&yaml->draft.json, yaml_text(yaml));
    buffer_append_text(&yaml->draft.json, ":");
    code = yaml_next(yaml);
    if (!code)
        code = yaml_value(yaml, depth);
    spec_leave(&yaml->draft, path);
    return code;
}

static enum error_code yaml_element(struct yaml *yaml, unsigned depth, unsigned index)
{
    char name[16];
    const int size = snprintf(name, sizeof(name), "%u", index);
    const size_t path =
        spec_enter(&yaml->draft, (struct bytes){name, (size_t)size}, yaml_line(yaml));
    const enum error_code code = yaml_value(yaml, depth);

    spec_leave(&yaml->draft, path);
    return code;
}

/* Reads a mapping or a sequence, up to its end. */
static enum error_code yaml_collection(struct yaml *yaml, unsigned depth)
{
    const bool is_mapping = yaml->event.type == YAML_MAPPING_START_EVENT;
    const yaml_event_type_t end = is_mapping ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    enum error_code code;

    if (depth == SPEC_DEPTH_MAX)
        return yaml_refuse(yaml, "it is nested too deeply");
    buffer_append_text(&yaml->draft.json, is_mapping ? "{" : "[");
    for (unsigned i = 0; !(code = yaml_next(yaml)) && yaml->event.type != end; i++) {
        if (i)
            buffer_append_text(&yaml->draft.json, ",");
        code = is_mapping ? yaml_member(yaml, depth + 1) : yaml_element(yaml, depth + 1, i);
        if (code)
            return code;
    }
    buffer_append_text(&yaml->draft.json, is_mapping ? "}" : "]");
    return code;
}

/* Reads the value that begins with the last event. */
static enum error_code yaml_value(struct yaml *yaml, unsigned depth)
{
    const enum error_code code = yaml_check_properties(yaml);

    if (code)
        return code;
    return yaml->event.type == YAML_SCALAR_EVENT ? yaml_scalar(yaml) : yaml_collection(yaml, depth);
}

/* ---- documents ---- */

static enum error_code yaml_document(struct yaml *yaml, spec_take take, void *context)
{
    enum error_code code = yaml_next(yaml); /* its value */

    if (code)
        return code;
    yaml->draft.line = yaml_line(yaml);
    const bool is_empty = yaml->event.type == YAML_SCALAR_EVENT && !yaml_text(yaml).size &&
                          yaml->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    code = yaml_value(yaml, 0);
    if (code)
        return code;
    if (!is_empty)
        return spec_finish(&yaml->draft, take, context, yaml->error);
    buffer_clear(&yaml->draft.json);
    return ERROR_NONE;
}

enum error_code yaml_read(struct bytes text, spec_take take, void *context, struct error *ret_error)
{
    struct yaml yaml = {.error = ret_error};
    enum error_code code = ERROR_NONE;

    if (!yaml_parser_initialize(&yaml.parser))
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    spec_draft_init(&yaml.draft);
    yaml_parser_set_encoding(&yaml.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&yaml.parser, (const unsigned char *)text.data, text.size);
    while (!code && !(code = yaml_next(&yaml)) && yaml.event.type != YAML_STREAM_END_EVENT)
        if (yaml.event.type == YAML_DOCUMENT_START_EVENT)
            code = yaml_document(&yaml, take, context);
    if (yaml.has_event)
        yaml_event_delete(&yaml.event);
    yaml_parser_delete(&yaml.parser);
    spec_draft_deinit(&yaml.draft);
    return code;
}
