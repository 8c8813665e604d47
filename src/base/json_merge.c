/*
 * json_merge.c - JSON Merge Patch. The members of the patch become nodes, in the order of the text,
 * and a list sorted by object and name; then the target is read once, and each of its members looks
 * up the node that changes it.
 */
#include "base/json_merge.h"

#include "base/json.h"

#include <stdlib.h>

/* A value of the patch. */
struct merge_node {
    struct bytes raw;    /* the value */
    struct bytes quoted; /* name, with its quotes */
    struct bytes name;   /* name, decoded */
    size_t parent;       /* index of the object that contains the member */
    size_t next;         /* index of the node after its last member; its members are between */
    enum json_type type;
    bool is_plain; /* no null in it removes a member, so it can be written as `raw` */
    /* another member replaces it: a later one with its name, or it was merged into the target
     * already */
    bool is_ignored;
};

struct merge {
    struct buffer *out;
    struct merge_node *nodes; /* array of nodes; the first is the whole patch */
    size_t count, capacity;
    struct merge_node **sorted; /* all nodes except the first, sorted by object and name */
    char *names;                /* memory for the decoded names of the patch */
    size_t names_size;
    char *target_name; /* memory for a decoded name of the target */
    struct bytes patch;
    size_t target_size;
    bool is_out_of_memory;
};

/* ---- the patch ---- */

static struct merge_node *merge_add(struct merge *merge)
{
    if (merge->count == merge->capacity) {
        size_t capacity = merge->capacity ? 2 * merge->capacity : 16;
        struct merge_node *nodes = realloc(merge->nodes, capacity * sizeof(nodes[0]));

        if (!nodes) {
            merge->is_out_of_memory = true;
            return NULL;
        }
        merge->nodes = nodes;
        merge->capacity = capacity;
    }
    merge->nodes[merge->count] = (struct merge_node){0};
    return &merge->nodes[merge->count++];
}

/* Returns the decoded name. If it has escapes, it is decoded into `*room`, which is allocated with
 * `capacity` when first needed. */
static struct bytes merge_name(struct merge *merge, const struct json_string *name, char **room,
                               size_t capacity, size_t *used)
{
    if (!name->escaped)
        return name->raw;
    if (!*room)
        *room = malloc(capacity);
    struct bytes text = {0};
    if (!*room) {
        merge->is_out_of_memory = true;
        return text;
    }
    text.data = *room + *used;
    (void)json_string_decode(name, *room + *used, capacity - *used, &text.size);
    *used += text.size;
    return text;
}

static bool merge_read_value(struct merge *merge, struct json_reader *reader, size_t index);

static bool merge_read_members(struct merge *merge, struct json_reader *reader, size_t parent)
{
    if (!json_enter_object(reader))
        return false;
    struct json_string name;
    while (json_next_member(reader, &name)) {
        size_t index = merge->count;
        struct merge_node *node = merge_add(merge);

        if (!node)
            return false;
        node->parent = parent;
        node->quoted = (struct bytes){name.raw.data - 1, name.raw.size + 2};
        node->name = merge_name(merge, &name, &merge->names, merge->patch.size, &merge->names_size);
        if (merge->is_out_of_memory || !merge_read_value(merge, reader, index))
            return false;
        node = &merge->nodes[index];
        if (node->type == JSON_NULL || !node->is_plain)
            merge->nodes[parent].is_plain = false;
    }
    return !json_error(reader);
}

/* Reads a value into the node at `index`, and the members of an object into nodes after it. */
static bool merge_read_value(struct merge *merge, struct json_reader *reader, size_t index)
{
    enum json_type type = json_peek(reader);
    size_t begin = json_error_offset(reader);

    merge->nodes[index].type = type;
    merge->nodes[index].is_plain = true;
    if (type == JSON_NONE)
        return false;
    if (type == JSON_OBJECT ? !merge_read_members(merge, reader, index) : !json_skip(reader, NULL))
        return false;
    merge->nodes[index].raw =
        (struct bytes){merge->patch.data + begin, json_error_offset(reader) - begin};
    merge->nodes[index].next = merge->count;
    return true;
}

static int merge_compare_name(size_t parent, struct bytes name, const struct merge_node *node)
{
    size_t size = name.size < node->name.size ? name.size : node->name.size;
    int order = size ? memcmp(name.data, node->name.data, size) : 0;

    if (parent != node->parent)
        return parent < node->parent ? -1 : 1;
    return order ? order : (name.size > node->name.size) - (name.size < node->name.size);
}

/* Compares for sorting by object and name; equal names stay in the order of the text. */
static int merge_compare(const void *a, const void *b)
{
    const struct merge_node *left = *(struct merge_node *const *)a;
    const struct merge_node *right = *(struct merge_node *const *)b;
    int order = merge_compare_name(left->parent, left->name, right);

    return order ? order : (left > right) - (left < right);
}

/* Sorts the nodes. Of nodes with equal names, only the last one counts. */
static bool merge_sort(struct merge *merge)
{
    size_t count = merge->count - 1;

    if (count == 0)
        return true;
    merge->sorted = malloc(count * sizeof(merge->sorted[0]));
    if (!merge->sorted) {
        merge->is_out_of_memory = true;
        return false;
    }
    for (size_t i = 0; i < count; i++)
        merge->sorted[i] = &merge->nodes[i + 1];
    qsort(merge->sorted, count, sizeof(merge->sorted[0]), merge_compare);
    for (size_t i = 1; i < count; i++) {
        struct merge_node *node = merge->sorted[i - 1];

        if (merge_compare_name(node->parent, node->name, merge->sorted[i]))
            continue;
        node->is_ignored = true;
        for (size_t at = node->parent; merge->nodes[at].is_plain; at = merge->nodes[at].parent)
            merge->nodes[at].is_plain = false; /* ends at the first node, which is its own parent */
    }
    return true;
}

/* Returns the node that changes the member `name` of an object; NULL if the patch has none. */
static struct merge_node *merge_find(const struct merge *merge, size_t parent, struct bytes name)
{
    size_t begin = 0, end = merge->count - 1;

    while (begin < end) { /* finds the last of the nodes with equal names */
        size_t middle = begin + (end - begin) / 2;

        if (merge_compare_name(parent, name, merge->sorted[middle]) < 0)
            end = middle;
        else
            begin = middle + 1;
    }
    if (begin == 0 || merge_compare_name(parent, name, merge->sorted[begin - 1]))
        return NULL;
    return merge->sorted[begin - 1];
}

/* ---- the result ---- */

static void merge_write_new(struct merge *merge, const struct merge_node *node);

static void merge_write_name(struct merge *merge, struct bytes quoted, bool *is_first)
{
    if (!*is_first)
        buffer_append(merge->out, ",", 1);
    *is_first = false;
    buffer_append_bytes(merge->out, quoted);
    buffer_append(merge->out, ":", 1);
}

/* Writes the members of `node` that the target does not have. */
static void merge_write_rest(struct merge *merge, const struct merge_node *node, bool is_first)
{
    const struct merge_node *end = &merge->nodes[node->next];

    for (const struct merge_node *at = node + 1; at < end; at = &merge->nodes[at->next]) {
        if (at->is_ignored || at->type == JSON_NULL)
            continue;
        merge_write_name(merge, at->quoted, &is_first);
        merge_write_new(merge, at);
    }
}

/* Writes a value of the patch that replaces one, or is new. */
static void merge_write_new(struct merge *merge, const struct merge_node *node)
{
    if (node->is_plain) {
        buffer_append_bytes(merge->out, node->raw);
        return;
    }
    buffer_append(merge->out, "{", 1);
    merge_write_rest(merge, node, true);
    buffer_append(merge->out, "}", 1);
}

/* Reads an object of the target, and writes it with the changes of `node`. */
static bool merge_write_object(struct merge *merge, struct json_reader *reader,
                               const struct merge_node *node)
{
    if (!json_enter_object(reader))
        return false;
    buffer_append(merge->out, "{", 1);
    bool is_first = true;
    struct json_string name;
    while (json_next_member(reader, &name)) {
        size_t used = 0;
        struct bytes quoted = {name.raw.data - 1, name.raw.size + 2};
        struct bytes text =
            merge_name(merge, &name, &merge->target_name, merge->target_size, &used);
        struct merge_node *change = merge_find(merge, (size_t)(node - merge->nodes), text);
        const bool merges = change && !change->is_ignored && change->type == JSON_OBJECT &&
                            json_peek(reader) == JSON_OBJECT;

        struct bytes raw;
        if (merge->is_out_of_memory || (!merges && !json_skip(reader, &raw)))
            return false;
        if (change && (change->is_ignored || change->type == JSON_NULL))
            continue;
        merge_write_name(merge, change ? change->quoted : quoted, &is_first);
        if (merges && !merge_write_object(merge, reader, change))
            return false;
        if (!change)
            buffer_append_bytes(merge->out, raw);
        else if (!merges)
            merge_write_new(merge, change);
        if (change)
            change->is_ignored = true;
    }
    merge_write_rest(merge, node, is_first);
    buffer_append(merge->out, "}", 1);
    return !json_error(reader);
}

/* ---- all of it ---- */

static bool merge_read_patch(struct merge *merge, struct bytes patch)
{
    struct json_reader reader;

    json_reader_init(&reader, patch);
    return merge_add(merge) && merge_read_value(merge, &reader, 0) && json_finish(&reader) &&
           merge_sort(merge);
}

static bool merge_write(struct merge *merge, struct bytes target)
{
    struct json_reader reader;

    json_reader_init(&reader, target);
    if (merge->nodes[0].type == JSON_OBJECT && target.size && json_peek(&reader) == JSON_OBJECT)
        return merge_write_object(merge, &reader, merge->nodes) && json_finish(&reader);
    merge_write_new(merge, merge->nodes);
    return !target.size || (json_skip(&reader, NULL) && json_finish(&reader));
}

enum error_code json_merge(struct bytes target, struct bytes patch, struct buffer *out)
{
    struct merge merge = {.out = out, .patch = patch, .target_size = target.size};
    enum error_code code = ERROR_NONE;

    if (!merge_read_patch(&merge, patch) || !merge_write(&merge, target))
        code = ERROR_NOT_JSON;
    if (merge.is_out_of_memory || buffer_failed(out))
        code = ERROR_NO_MEMORY;
    free(merge.nodes);
    free(merge.sorted);
    free(merge.names);
    free(merge.target_name);
    return code;
}
