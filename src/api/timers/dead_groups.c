/*
 * dead_groups.c - counts dead letters by origin and error.
 *
 * Walks the dead letters (walk.h), and counts those of the caller that pass the filters.
 */
#include "api/timers/timers.h"

#include "api/timers/list.h"
#include "api/timers/walk.h"
#include "base/json_write.h"
#include "base/map.h"
#include "calendar/rfc3339.h"

#include <stdlib.h>

struct dead_group {
    uint64_t count;
    struct wall first, last; /* deaths of the first and the last of them */
    struct timer_id example; /* the last */
    size_t origin_size, error_size;
    char texts[]; /* origin, then error */
};

struct dead_groups {
    struct timer_walk walk;
    struct list_query query;
    struct map table; /* groups by a hash of their texts */
    uint64_t others;  /* letters of groups that are not in the table */
};

void dead_groups_closed(struct call *call)
{
    struct dead_groups *groups = call->state;

    if (!groups)
        return;
    struct dead_group *group;
    for (size_t cursor = 0; (group = map_next(&groups->table, &cursor));)
        free(group);
    map_deinit(&groups->table);
    free(groups);
}

/* ---- counting; on the shard's thread, while the rows are valid ---- */

static struct bytes dead_group_origin(const struct dead_group *group)
{
    return (struct bytes){group->texts, group->origin_size};
}

static struct bytes dead_group_error(const struct dead_group *group)
{
    return (struct bytes){group->texts + group->origin_size, group->error_size};
}

/* Returns the group of these texts, and makes it if there is room. NULL without room or memory. */
static struct dead_group *dead_groups_find(struct dead_groups *groups, struct bytes origin,
                                           struct bytes error)
{
    uint64_t key = bytes_hash(bytes_hash(0, origin), error);
    struct dead_group *group;

    /* Texts with equal hashes use the next free keys. */
    for (; (group = map_get(&groups->table, key)); key++)
        if (bytes_equal(dead_group_origin(group), origin) &&
            bytes_equal(dead_group_error(group), error))
            return group;
    if (map_count(&groups->table) == DEAD_GROUPS_MAX)
        return NULL;
    group = calloc(1, sizeof(*group) + origin.size + error.size);
    if (!group || !map_put(&groups->table, key, group)) {
        free(group);
        groups->walk.error = ERROR_NO_MEMORY;
        return NULL;
    }
    group->first = WALL_NEVER;
    group->origin_size = origin.size;
    group->error_size = error.size;
    memcpy(group->texts, origin.data, origin.size);
    if (error.size)
        memcpy(group->texts + origin.size, error.data, error.size);
    return group;
}

static void dead_groups_take(struct timer_walk *walk, const struct timer *timer)
{
    struct dead_groups *groups = list_item(walk, struct dead_groups, walk);

    if (!list_wants(&groups->query, timer))
        return;
    struct dead_group *group =
        dead_groups_find(groups, timer_shown_origin(timer), timer->texts.last_error);
    if (!group) {
        groups->others++;
        return;
    }
    group->count++;
    group->first = wall_min(group->first, timer->ended);
    if (timer->ended.ms >= group->last.ms) {
        group->last = timer->ended;
        group->example = timer->id;
    }
}

/* ---- the answer ---- */

static int dead_group_compare(const void *a, const void *b)
{
    const struct dead_group *left = *(struct dead_group *const *)a;
    const struct dead_group *right = *(struct dead_group *const *)b;

    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return left->last.ms > right->last.ms ? -1 : left->last.ms < right->last.ms;
}

static void dead_group_format(const struct dead_group *group, struct buffer *out)
{
    json_open(out, NULL, '{');
    json_put_string(out, "origin", dead_group_origin(group));
    json_put_string(out, "error", dead_group_error(group));
    json_put_number(out, "count", group->count);
    rfc3339_put(out, "first", group->first);
    rfc3339_put(out, "last", group->last);
    timer_id_put(out, "example", &group->example);
    json_close(out, '}');
}

static void dead_groups_finish(struct timer_walk *walk)
{
    struct dead_groups *groups = list_item(walk, struct dead_groups, walk);
    const size_t count = map_count(&groups->table);
    struct dead_group **sorted = calloc(count + 1, sizeof(struct dead_group *));

    if (walk->error || !sorted) {
        free(sorted);
        call_answer_error(walk->call, walk->error ? walk->error : ERROR_NO_MEMORY, "");
        return;
    }
    for (size_t cursor = 0, i = 0; i < count; i++)
        sorted[i] = map_next(&groups->table, &cursor);
    qsort(sorted, count, sizeof(struct dead_group *), dead_group_compare);
    uint64_t others = groups->others;
    struct buffer body;
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "groups", '[');
    for (size_t i = 0; i < count; i++) {
        if (i >= groups->query.limit) {
            others += sorted[i]->count;
            continue;
        }
        dead_group_format(sorted[i], &body);
    }
    json_close(&body, ']');
    json_put_number(&body, "others", others);
    json_put_flag(&body, "complete", !walk->is_cut);
    json_close(&body, '}');
    free(sorted);
    call_answer_json(walk->call, 200, &body);
}

/* ---- the call ---- */

void dead_groups(struct call *call)
{
    struct dead_groups *groups = calloc(1, sizeof(*groups));

    if (!groups) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    call->state = groups;
    groups->walk = (struct timer_walk){.from = {STORAGE_DEAD_FROM, 0},
                                       .to = {WALL_NEVER, 0},
                                       .kind = STORAGE_SCAN_ALL,
                                       .rows_max = DEAD_GROUPS_ROWS_MAX,
                                       .take = dead_groups_take,
                                       .finish = dead_groups_finish};
    map_init(&groups->table);
    struct problem problem;
    if (list_query_parse(call->query, LIST_DEAD_GROUPS, call->query_room, &groups->query, &problem))
        call_answer_problem(call, &problem);
    else
        timer_walk_begin(&groups->walk, call);
}
