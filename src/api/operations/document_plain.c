/*
 * document_plain.c - makes the plain OpenAPI document of the strict one.
 *
 * JSON Schema can say which fields go together; generators of clients cannot express that, and
 * stumble over it. So the plain document keeps the types and drops the rules:
 *
 *   anyOf, oneOf           of an object dropped: they say which fields go together; of another
 *                          value its first alternative, and null if that is one of them
 *   $ref into properties   the schema itself; so is any reference below webhooks, because
 *                          generators do not look for the schemas that webhooks refer to
 *   other keywords         pattern, not and others of the list below are dropped; default too,
 *                          which clients would send
 */
#include "api/operations/document.h"

#include "base/json.h"
#include "base/json_write.h"

/* Deeper than the document; the JSON reader has its own limit. */
#define PLAIN_DEPTH 60

static const char *const plain_dropped[] = {
    "anyOf",
    "oneOf",
    "not",
    "dependentRequired",
    "dependentSchemas",
    "propertyNames",
    "pattern",
    "minProperties",
    "const",
    "contentEncoding",
    "uniqueItems",
    "links",
    "examples",
    "default",
    "application/merge-patch+json", /* it has application/json too */
};

/* Members whose value is not a part of a schema. */
static const char *const plain_copied[] = {"example", "enum", "required", "security"};

struct plain {
    struct bytes root;
    struct buffer *out;
    unsigned depth;
    bool inlines_all; /* replaces every reference */
};

/* How an object is written: `outer` are existing members, which take precedence; empty for none. */
struct plain_way {
    struct bytes outer;
    bool is_nullable;
};

static bool plain_has(const char *const *names, size_t count, struct bytes name)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(name, bytes_of(names[i])))
            return true;
    return false;
}
#define PLAIN_HAS(names, name) plain_has(names, sizeof(names) / sizeof((names)[0]), name)

/* ---- reading ---- */

/* Resolves "#/components/schemas/Timer"; empty if there is none. */
static struct bytes plain_resolve(const struct plain *plain, struct bytes reference)
{
    struct bytes found = plain->root;

    bytes_cut(&reference, '/');
    while (reference.size)
        found = document_member(found, bytes_cut(&reference, '/'));
    return found;
}

/* Returns a text without its quotes. */
static struct bytes plain_unquoted(struct bytes text)
{
    return text.size < 2 ? (struct bytes){0} : (struct bytes){text.data + 1, text.size - 2};
}

/* Returns the first alternative of a value with several kinds; empty if it has one kind. */
static struct bytes plain_alternative(struct bytes object, bool *ret_is_nullable)
{
    struct bytes all = document_member(object, BYTES("anyOf"));

    if (!all.size)
        all = document_member(object, BYTES("oneOf"));
    *ret_is_nullable = false;
    struct json_reader reader;
    json_reader_init(&reader, all);
    if (!all.size || document_member(object, BYTES("properties")).size ||
        !json_enter_array(&reader))
        return (struct bytes){0};
    struct bytes first = {0}, next;
    while (json_next_element(&reader) && json_skip(&reader, &next)) {
        if (!first.size)
            first = next;
        *ret_is_nullable |= bytes_equal(document_member(next, BYTES("type")), BYTES("\"null\""));
    }
    return first;
}

/* ---- writing ---- */

static void plain_value(struct plain *plain, struct bytes value, bool are_names);

static void plain_name(struct plain *plain, struct bytes name)
{
    json_put_string(plain->out, NULL, name); /* no name in the document has an escape */
    buffer_append_text(plain->out, ":");
}

/* Writes the members of a schema, or of another object with keywords. */
static void plain_members(struct plain *plain, struct bytes object, struct plain_way way)
{
    if (++plain->depth > PLAIN_DEPTH) {
        plain->out->failed = true;
        return;
    }
    struct bytes reference = plain_unquoted(document_member(object, BYTES("$ref")));
    bool is_inlined =
        reference.size &&
        (plain->inlines_all || memmem(reference.data, reference.size, "/properties/", 12));
    struct json_reader reader;
    struct json_string name;
    struct bytes value;

    json_reader_init(&reader, object);
    json_enter_object(&reader);
    while (json_next_member(&reader, &name) && json_skip(&reader, &value)) {
        if (PLAIN_HAS(plain_dropped, name.raw) || document_member(way.outer, name.raw).size ||
            (is_inlined && bytes_equal(name.raw, BYTES("$ref"))) ||
            (way.is_nullable && bytes_equal(name.raw, BYTES("enum"))))
            continue;
        plain_name(plain, name.raw);
        if (way.is_nullable && bytes_equal(name.raw, BYTES("type")) && value.data[0] == '"') {
            buffer_append_text(plain->out, "[");
            buffer_append_bytes(plain->out, value);
            buffer_append_text(plain->out, ",\"null\"]");
        } else if (PLAIN_HAS(plain_copied, name.raw)) {
            buffer_append_bytes(plain->out, value);
        } else {
            bool inlines_all = plain->inlines_all;

            plain->inlines_all |= bytes_equal(name.raw, BYTES("webhooks"));
            plain_value(plain, value, bytes_equal(name.raw, BYTES("properties")));
            plain->inlines_all = inlines_all;
        }
    }
    struct plain_way inner = {object, way.is_nullable};
    if (is_inlined)
        plain_members(plain, plain_resolve(plain, reference), inner);
    struct bytes first = plain_alternative(object, &inner.is_nullable);
    inner.is_nullable |= way.is_nullable;
    if (first.size)
        plain_members(plain, first, inner);
    plain->depth--;
}

/* `are_names`: the members of this object are fields, whose names may equal keywords. */
static void plain_value(struct plain *plain, struct bytes value, bool are_names)
{
    struct json_reader reader;

    json_reader_init(&reader, value);
    enum json_type type = json_peek(&reader);
    if (type == JSON_OBJECT) {
        buffer_append_text(plain->out, "{");
        struct json_string name;
        struct bytes member;
        if (!are_names)
            plain_members(plain, value, (struct plain_way){0});
        else if (json_enter_object(&reader))
            while (json_next_member(&reader, &name) && json_skip(&reader, &member)) {
                plain_name(plain, name.raw);
                plain_value(plain, member, false);
            }
        buffer_append_text(plain->out, "}");
    } else if (type == JSON_ARRAY && json_enter_array(&reader)) {
        buffer_append_text(plain->out, "[");
        struct bytes element;
        for (size_t i = 0; json_next_element(&reader) && json_skip(&reader, &element); i++) {
            if (i)
                buffer_append_text(plain->out, ",");
            plain_value(plain, element, false);
        }
        buffer_append_text(plain->out, "]");
    } else {
        buffer_append_bytes(plain->out, value);
    }
}

void document_format_plain(struct bytes strict, struct buffer *out)
{
    struct plain plain = {.root = strict, .out = out};

    plain_value(&plain, strict, false);
    buffer_append_text(out, "\n");
}
