/*
 * dead_groups.c - counts dead letters by origin and error.
 *
 * Reads the dead letters of one partition after the other, a page at a time and a bounded number in
 * all, and counts those of the caller that pass the filters.
 */
#include "api/timers/timers.h"

#include "api/timers/list.h"
#include "base/json_write.h"
#include "base/map.h"
#include "calendar/rfc3339.h"

#include <stdlib.h>

enum {
    PAGE_ROWS = 1000,
    PAGE_BYTES = 4 << 20, /* of footprint */
};

struct dead_group {
    uint64_t count;
    struct wall first, last; /* deaths of the first and the last of them */
    struct timer_id example; /* the last */
    size_t origin_size, error_size;
    char texts[]; /* origin, then error */
};

struct dead_groups {
    struct concurrency_start start; /* for the read of a page */
    struct node_request node;
    struct call *call;
    struct list_query query;
    struct map table; /* groups by a hash of their texts */
    uint64_t others;  /* letters of groups that are not in the table */
    uint64_t rows;    /* rows read; in a partition's last page those of other tenants are unknown */
    bool is_cut;      /* there is more than was read */
    enum error_code error;
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
        groups->error = ERROR_NO_MEMORY;
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

static void dead_groups_count(struct dead_groups *groups, const struct timer *timer)
{
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

static void dead_groups_resume(struct call *call);

/* Takes a page: the scan continues after it, or with the next partition. */
static void dead_groups_read(struct node_request *request)
{
    struct dead_groups *groups = list_item(request, struct dead_groups, node);
    const struct storage_page *page = &request->command.page;

    groups->error = request->command.error;
    groups->rows +=
        storage_position_before(page->next, request->command.scan.to) ? PAGE_ROWS : page->count;
    for (size_t i = 0; i < page->count && !groups->error; i++)
        if (list_wants(&groups->query, page->timers[i]))
            dead_groups_count(groups, page->timers[i]);
    call_resume(groups->call, dead_groups_resume);
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

static void dead_groups_answer(struct dead_groups *groups)
{
    const size_t count = map_count(&groups->table);
    struct dead_group **sorted = calloc(count + 1, sizeof(struct dead_group *));

    if (!sorted) {
        call_answer_error(groups->call, ERROR_NO_MEMORY, "");
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
    json_put_flag(&body, "complete", !groups->is_cut);
    json_close(&body, '}');
    free(sorted);
    call_answer_json(groups->call, 200, &body);
}

/* ---- the call ---- */

static void dead_groups_ask(struct concurrency_start *start)
{
    struct dead_groups *groups = list_item(start, struct dead_groups, start);

    /* After it is submitted, the reply may be there and the call ended. */
    enum error_code refused = call_ask(groups->call, &groups->node);
    if (!refused)
        return;
    groups->error = refused;
    call_resume(groups->call, dead_groups_resume);
}

/* Requests the next page from the node. */
static void dead_groups_next(struct dead_groups *groups, uint16_t partition,
                             struct storage_position from)
{
    groups->node.done = dead_groups_read;
    groups->node.command = (struct command){.kind = COMMAND_LIST,
                                            .partition = partition,
                                            .scan = {.partition = partition,
                                                     .kind = STORAGE_SCAN_ALL,
                                                     .from = from,
                                                     .to = {WALL_NEVER, 0},
                                                     .rows_max = PAGE_ROWS,
                                                     .bytes_max = PAGE_BYTES}};
    concurrency_enter(&groups->call->api->lists, &groups->start, caller_key(&groups->call->caller));
}

static void dead_groups_resume(struct call *call)
{
    struct dead_groups *groups = call->state;
    const struct command *command = &groups->node.command;
    uint16_t partition = command->partition;
    struct storage_position from = command->page.next;

    concurrency_leave(&call->api->lists, caller_key(&call->caller));
    if (groups->error) {
        call_answer_error(call, groups->error, "");
        return;
    }
    if (!storage_position_before(from, command->scan.to)) {
        partition++;
        from = (struct storage_position){STORAGE_DEAD_FROM, 0};
    }
    const bool has_more = partition < node_partition_count(call->api->options.node);
    groups->is_cut = has_more && groups->rows >= DEAD_GROUPS_ROWS_MAX;
    if (has_more && !groups->is_cut)
        dead_groups_next(groups, partition, from);
    else
        dead_groups_answer(groups);
}

void dead_groups(struct call *call)
{
    struct dead_groups *groups = calloc(1, sizeof(*groups));

    if (!groups) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    call->state = groups;
    groups->call = call;
    groups->start.begin = dead_groups_ask;
    map_init(&groups->table);
    struct problem problem;
    if (list_query_parse(call->query, LIST_DEAD_GROUPS, call->query_room, &groups->query, &problem))
        call_answer_problem(call, &problem);
    else
        dead_groups_next(groups, 0, (struct storage_position){STORAGE_DEAD_FROM, 0});
}
