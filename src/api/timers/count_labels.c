/*
 * count_labels.c - counts the live timers of the caller by the value of a label, and by state and
 * origin if those are wanted too.
 *
 * A label may have any number of values, and a timer any labels, so nothing counts them as timers
 * change. The timers are read when somebody asks.
 */
#include "api/timers/timers.h"

#include "api/timers/walk.h"
#include "base/json_write.h"
#include "base/map.h"
#include "timer/fanout.h"
#include "timer/labels.h"

#include <stdlib.h>

struct count_group {
    uint64_t count;
    enum timer_state state;
    bool has_label;
    size_t origin_size, label_size;
    char texts[]; /* origin, then the label's value */
};

struct count_labels {
    struct timer_walk walk;
    struct count_by by;
    struct map table; /* groups by a hash of what they have in common */
    uint64_t total;
};

void count_labels_closed(struct call *call)
{
    struct count_labels *count = call->state;
    struct count_group *group;

    for (size_t cursor = 0; (group = map_next(&count->table, &cursor));)
        free(group);
    map_deinit(&count->table);
    free(count);
}

/* ---- counting ---- */

/* Texts of a group, or of a timer that is looked for. */
struct count_name {
    enum timer_state state;
    bool has_label;
    struct bytes origin, label;
};

static struct count_name count_group_name(const struct count_group *group)
{
    return (struct count_name){group->state,
                               group->has_label,
                               {group->texts, group->origin_size},
                               {group->texts + group->origin_size, group->label_size}};
}

/* Compares by label, a timer without it last; then by state and origin. */
static int count_name_compare(const struct count_name *a, const struct count_name *b)
{
    if (a->has_label != b->has_label)
        return a->has_label ? -1 : 1;
    const int label = bytes_compare(a->label, b->label);
    if (label)
        return label;
    return a->state != b->state ? (int)a->state - (int)b->state
                                : bytes_compare(a->origin, b->origin);
}

static struct count_group *count_group_create(const struct count_name *name)
{
    struct count_group *group = calloc(1, sizeof(*group) + name->origin.size + name->label.size);

    if (!group)
        return NULL;
    group->state = name->state;
    group->has_label = name->has_label;
    group->origin_size = name->origin.size;
    group->label_size = name->label.size;
    if (name->origin.size)
        memcpy(group->texts, name->origin.data, name->origin.size);
    if (name->label.size)
        memcpy(group->texts + name->origin.size, name->label.data, name->label.size);
    return group;
}

/* Returns the group of this name, and makes it if there is room. NULL without room or memory. */
static struct count_group *count_labels_find(struct count_labels *count,
                                             const struct count_name *name)
{
    uint64_t key = bytes_hash(bytes_hash((uint64_t)name->state << 1 | name->has_label, name->label),
                              name->origin);
    struct count_group *group;

    /* Names with equal hashes use the next free keys. */
    for (; (group = map_get(&count->table, key)); key++) {
        const struct count_name found = count_group_name(group);

        if (count_name_compare(&found, name) == 0)
            return group;
    }
    if (map_count(&count->table) == COUNT_GROUPS_MAX)
        return NULL;
    group = count_group_create(name);
    if (!group || !map_put(&count->table, key, group)) {
        free(group);
        count->walk.error = ERROR_NO_MEMORY;
        return NULL;
    }
    return group;
}

static void count_labels_take(struct timer_walk *walk, const struct timer *timer)
{
    struct count_labels *count = list_item(walk, struct count_labels, walk);
    char value[LABEL_SIZE_MAX];
    size_t size = 0;
    struct count_name name = {0};

    if (timer_is_final(timer->state))
        return;
    name.has_label = labels_find(timer->texts.labels, count->by.label, value, &size);
    name.label = (struct bytes){value, size};
    if (count->by.state)
        name.state = fanout_shown_state(timer);
    if (count->by.origin)
        name.origin = timer_shown_origin(timer);
    struct count_group *group = count_labels_find(count, &name);
    count->total++;
    if (group)
        group->count++;
}

/* ---- the answer ---- */

static int count_group_compare(const void *a, const void *b)
{
    const struct count_group *left = *(struct count_group *const *)a;
    const struct count_group *right = *(struct count_group *const *)b;
    const struct count_name left_name = count_group_name(left);
    const struct count_name right_name = count_group_name(right);

    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return count_name_compare(&left_name, &right_name);
}

static void count_group_put(const struct count_by *by, const struct count_group *group,
                            struct buffer *out)
{
    const struct count_name name = count_group_name(group);

    json_open(out, NULL, '{');
    if (by->state)
        json_put_text(out, "state", timer_state_text(name.state));
    if (by->origin)
        json_put_string(out, "origin", name.origin);
    if (name.has_label)
        json_put_string(out, "label", name.label);
    else
        json_put_raw(out, "label", BYTES("null"));
    json_put_number(out, "count", group->count);
    json_close(out, '}');
}

static void count_labels_finish(struct timer_walk *walk)
{
    struct count_labels *count = list_item(walk, struct count_labels, walk);
    const size_t groups = map_count(&count->table);
    struct count_group **sorted = calloc(groups + 1, sizeof(struct count_group *));
    uint64_t others = count->total;

    if (walk->error || !sorted) {
        free(sorted);
        call_answer_error(walk->call, walk->error ? walk->error : ERROR_NO_MEMORY, "");
        return;
    }
    for (size_t cursor = 0, i = 0; i < groups; i++)
        sorted[i] = map_next(&count->table, &cursor);
    qsort(sorted, groups, sizeof(struct count_group *), count_group_compare);
    struct buffer body;
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_number(&body, "count", count->total);
    json_open(&body, "groups", '[');
    for (size_t i = 0; i < groups; i++) {
        count_group_put(&count->by, sorted[i], &body);
        others -= sorted[i]->count;
    }
    json_close(&body, ']');
    json_put_number(&body, "others", others);
    json_put_flag(&body, "complete", !walk->is_cut);
    json_close(&body, '}');
    free(sorted);
    call_answer_json(walk->call, 200, &body);
}

void count_labels(struct call *call, const struct count_by *by)
{
    struct count_labels *count = calloc(1, sizeof(*count));

    if (!count) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    call->state = count;
    count->by = *by;
    count->walk = (struct timer_walk){.to = {STORAGE_DEAD_FROM, 0},
                                      .kind = STORAGE_SCAN_LIVE,
                                      .rows_max = COUNT_ROWS_MAX,
                                      .take = count_labels_take,
                                      .finish = count_labels_finish};
    map_init(&count->table);
    timer_walk_begin(&count->walk, call);
}
