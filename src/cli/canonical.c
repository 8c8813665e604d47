/* canonical.c - JSON in one form, and the differences between two of them. */
#include "cli/canonical.h"

#include "base/json.h"
#include "base/json_write.h"
#include "cli/value.h"

#include <stdlib.h>

/* A member of an object that is sorted. */
struct canonical_member {
    struct buffer name; /* decoded */
    struct bytes value;
};

static int canonical_compare(const void *a, const void *b)
{
    const struct canonical_member *left = a, *right = b;

    return bytes_compare(buffer_bytes(&left->name), buffer_bytes(&right->name));
}

/* Appends a string from its text between the quotes. */
static void canonical_append_text(struct buffer *out, struct bytes raw)
{
    struct buffer decoded;

    buffer_init(&decoded);
    cli_append_value(&decoded, (struct bytes){raw.data - 1, raw.size + 2});
    json_append_string(out, buffer_bytes(&decoded));
    out->failed |= buffer_failed(&decoded);
    buffer_deinit(&decoded);
}

static void canonical_append_sorted(struct buffer *out, struct canonical_member *members,
                                    size_t count)
{
    if (count)
        qsort(members, count, sizeof(*members), canonical_compare);
    buffer_append_text(out, "{");
    for (size_t i = 0; i < count; i++) {
        if (i)
            buffer_append_text(out, ",");
        json_append_string(out, buffer_bytes(&members[i].name));
        buffer_append_text(out, ":");
        canonical_append(out, members[i].value);
        out->failed |= buffer_failed(&members[i].name);
        buffer_deinit(&members[i].name);
    }
    buffer_append_text(out, "}");
}

static void canonical_append_object(struct buffer *out, struct json_reader *reader)
{
    struct json_string name;
    struct buffer members;

    buffer_init(&members);
    json_enter_object(reader);
    while (json_next_member(reader, &name)) {
        struct canonical_member member = {.value = {NULL, 0}};

        cli_append_value(&member.name, (struct bytes){name.raw.data - 1, name.raw.size + 2});
        json_skip(reader, &member.value);
        buffer_append(&members, &member, sizeof(member));
        if (buffer_failed(&members))
            buffer_deinit(&member.name);
    }
    out->failed |= buffer_failed(&members);
    canonical_append_sorted(out, (struct canonical_member *)(void *)members.data,
                            members.size / sizeof(struct canonical_member));
    buffer_deinit(&members);
}

void canonical_append(struct buffer *out, struct bytes json)
{
    struct json_reader reader;
    struct json_string string;
    struct bytes value;

    json_reader_init(&reader, json);
    switch (json_peek(&reader)) {
    case JSON_OBJECT:
        canonical_append_object(out, &reader);
        break;
    case JSON_ARRAY:
        buffer_append_text(out, "[");
        json_enter_array(&reader);
        for (bool is_first = true; json_next_element(&reader) && json_skip(&reader, &value);
             is_first = false) {
            if (!is_first)
                buffer_append_text(out, ",");
            canonical_append(out, value);
        }
        buffer_append_text(out, "]");
        break;
    case JSON_STRING:
        if (json_read_string(&reader, &string))
            canonical_append_text(out, string.raw);
        break;
    default:
        if (json_skip(&reader, &value))
            buffer_append_bytes(out, value);
    }
}

/* ---- differences ---- */

struct canonical_walk {
    canonical_difference each;
    void *context;
    struct buffer name;
};

static void canonical_walk(struct canonical_walk *walk, struct bytes old, struct bytes new);

static bool canonical_next(struct json_reader *reader, bool is_object, struct json_string *ret_name,
                           struct bytes *ret_value)
{
    return is_object && json_next_member(reader, ret_name) && json_skip(reader, ret_value);
}

static void canonical_walk_member(struct canonical_walk *walk, struct bytes name, struct bytes old,
                                  struct bytes new)
{
    const size_t size = walk->name.size;

    if (size)
        buffer_append_text(&walk->name, ".");
    cli_append_value(&walk->name, (struct bytes){name.data - 1, name.size + 2});
    canonical_walk(walk, old, new);
    walk->name.size = size;
}

static bool canonical_is_object(struct bytes value)
{
    return value.size && value.data[0] == '{';
}

/* Merges the members of both, which are sorted. An object on one side alone is walked as well. */
static void canonical_walk_objects(struct canonical_walk *walk, struct bytes old, struct bytes new)
{
    struct json_reader left, right;
    struct json_string left_name = {.raw = {NULL, 0}}, right_name = {.raw = {NULL, 0}};
    struct bytes left_value = {NULL, 0}, right_value = {NULL, 0};
    const struct bytes none = {NULL, 0};
    const bool has_old = canonical_is_object(old), has_new = canonical_is_object(new);

    json_reader_init(&left, old);
    json_reader_init(&right, new);
    bool has_left = has_old && json_peek(&left) == JSON_OBJECT && json_enter_object(&left);
    bool has_right = has_new && json_peek(&right) == JSON_OBJECT && json_enter_object(&right);
    has_left = canonical_next(&left, has_left, &left_name, &left_value);
    has_right = canonical_next(&right, has_right, &right_name, &right_value);
    while (has_left || has_right) {
        const int order = !has_left    ? 1
                          : !has_right ? -1
                                       : bytes_compare(left_name.raw, right_name.raw);

        canonical_walk_member(walk, order <= 0 ? left_name.raw : right_name.raw,
                              order <= 0 ? left_value : none, order >= 0 ? right_value : none);
        if (order <= 0)
            has_left = canonical_next(&left, true, &left_name, &left_value);
        if (order >= 0)
            has_right = canonical_next(&right, true, &right_name, &right_value);
    }
}

static void canonical_walk(struct canonical_walk *walk, struct bytes old, struct bytes new)
{
    const bool has_old = canonical_is_object(old), has_new = canonical_is_object(new);

    if (bytes_equal(old, new))
        return;
    if ((has_old && (has_new || !new.data)) || (has_new && !old.data))
        canonical_walk_objects(walk, old, new);
    else
        walk->each(walk->context, buffer_bytes(&walk->name), old, new);
}

void canonical_differ(struct bytes old, struct bytes new, canonical_difference each, void *context)
{
    struct canonical_walk walk = {.each = each, .context = context};

    buffer_init(&walk.name);
    canonical_walk(&walk, old, new);
    buffer_deinit(&walk.name);
}
