/* document_fields.c - the members of the schemas of the OpenAPI document: the fields of a timer. */
#include "api/operations/document.h"

#include "api/json/timer_fields.h"
#include "base/json.h"
#include "base/json_write.h"

#include <stdio.h>

struct bytes document_member(struct bytes object, struct bytes name)
{
    struct json_reader reader;

    json_reader_init(&reader, object);
    if (object.size == 0 || !json_enter_object(&reader))
        return (struct bytes){0};
    struct json_string member;
    while (json_next_member(&reader, &member)) {
        bool is_found = bytes_equal(member.raw, name);

        struct bytes value;
        if (!json_skip(&reader, &value))
            break;
        if (is_found)
            return value;
    }
    return (struct bytes){0};
}

/* Appends a schema that refers to a path below #/components/schemas/. */
static void document_put_path(struct buffer *out, const char *name, struct bytes path,
                              const char *more, struct bytes member)
{
    json_open(out, name, '{');
    json_put_name(out, "$ref");
    buffer_printf(out, "\"#/components/schemas/%.*s%s%.*s\"", (int)path.size, path.data, more,
                  (int)member.size, member.data);
    json_close(out, '}');
}

/* The same, or null, which removes the value. */
static void document_put_removable(struct buffer *out, const char *name, struct bytes path,
                                   const char *more, struct bytes member)
{
    json_open(out, name, '{');
    json_open(out, "anyOf", '[');
    document_put_path(out, NULL, path, more, member);
    json_open(out, NULL, '{');
    json_put_text(out, "type", "null");
    json_close(out, '}');
    json_close(out, ']');
    json_close(out, '}');
}

/* True if the array of strings has this one. */
static bool document_names(struct bytes array, struct bytes name)
{
    struct json_reader reader;
    struct json_string text;

    json_reader_init(&reader, array);
    if (!array.size || !json_enter_array(&reader))
        return false;
    while (json_next_element(&reader) && json_read_string(&reader, &text))
        if (bytes_equal(text.raw, name))
            return true;
    return false;
}

/* Appends the members of an object that is merged: null removes each, unless it is required. */
static void document_put_merged_members(struct bytes object, struct bytes path, struct buffer *out)
{
    struct json_reader reader;
    struct json_string name;

    json_reader_init(&reader, document_member(object, BYTES("properties")));
    json_enter_object(&reader);
    json_put_flag(out, "additionalProperties", false);
    json_open(out, "properties", '{');
    while (json_next_member(&reader, &name) && json_skip(&reader, NULL)) {
        char member[64];

        snprintf(member, sizeof(member), "%.*s", (int)name.raw.size, name.raw.data);
        if (document_names(document_member(object, BYTES("required")), name.raw))
            document_put_path(out, member, path, "/properties/", name.raw);
        else
            document_put_removable(out, member, path, "/properties/", name.raw);
    }
    json_close(out, '}');
}

/* Appends the schema of a field that a patch merges: an object whose own schema is at `path`. */
static void document_put_merged(const char *name, struct bytes path, struct bytes schema,
                                struct buffer *out)
{
    const struct bytes none = {0};

    json_open(out, name, '{');
    json_put_raw(out, "type", BYTES("[\"object\",\"null\"]"));
    if (document_member(schema, BYTES("properties")).size) {
        document_put_merged_members(schema, path, out);
    } else {
        document_put_path(out, "propertyNames", path, "/propertyNames", none);
        document_put_removable(out, "additionalProperties", path, "/additionalProperties", none);
    }
    json_close(out, '}');
}

/* Appends the schema of a field in a patch, by reference to its schema in a create. */
static void document_put_patch(const struct timer_field_row *row, struct bytes schemas,
                               struct buffer *out)
{
    const struct bytes prefix = BYTES("\"#/components/schemas/"), none = {0};
    char text[64];
    const int size = snprintf(text, sizeof(text), "TimerCreate/properties/%s", row->name);
    struct bytes path = {text, (size_t)size}, schema = bytes_of(row->asked);
    const struct bytes reference = document_member(schema, BYTES("$ref"));

    if (bytes_has_prefix(reference, prefix)) {
        path = (struct bytes){reference.data + prefix.size, reference.size - prefix.size - 1};
        schema = document_member(schemas, path);
    }
    const bool is_any = !reference.size && !document_member(schema, BYTES("type")).size &&
                        !document_member(schema, BYTES("anyOf")).size;

    if (row->change == FIELD_MERGED)
        document_put_merged(row->name, path, schema, out);
    else if (row->kept || is_any) /* any value may be null */
        document_put_path(out, row->name, path, "", none);
    else
        document_put_removable(out, row->name, path, "", none);
}

void document_append_fields(struct bytes schema, struct bytes schemas, struct buffer *out)
{
    const bool is_create = bytes_equal(schema, BYTES("TimerCreate"));
    const bool is_patch = bytes_equal(schema, BYTES("TimerPatch"));

    if (!is_create && !is_patch && !bytes_equal(schema, BYTES("Timer")))
        return;
    json_open(out, "properties", '{');
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct timer_field_row *row = &timer_fields[i];

        if (is_patch && row->asked)
            document_put_patch(row, schemas, out);
        else if (is_create && row->asked)
            json_put_raw(out, row->name, bytes_of(row->asked));
        else if (!is_create && !is_patch && row->shown)
            json_put_raw(out, row->name, bytes_of(row->shown));
    }
    json_close(out, '}');
}
