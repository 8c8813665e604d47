/* list_query.c - reads the query of a list: times, states, labels, target, limit and cursor. */
#include "api/timers/list.h"

#include "api/core/query.h"
#include "api/timers/timers.h"
#include "timer/runs.h"

enum {
    LIST_PARAMETERS_MAX = 32,
};

#define STATES_ALIVE \
    (1u << TIMER_SCHEDULED | 1u << TIMER_DELIVERING | 1u << TIMER_RETRYING | 1u << TIMER_PAUSED)

static bool list_query_parse_state(struct bytes text, uint32_t *states)
{
#define X(name, word)                     \
    if (bytes_equal(text, BYTES(word))) { \
        *states |= 1u << TIMER_##name;    \
        return true;                      \
    }
    TIMER_STATE_LIST(X)
#undef X
    return false;
}

static bool list_query_parse_label(struct bytes text, struct list_query *query)
{
    struct bytes name;

    if (query->filter.label_count == LIST_LABELS_MAX || !bytes_cut_name(&text, ':', &name))
        return false;
    query->filter.labels[query->filter.label_count].key = name;
    query->filter.labels[query->filter.label_count++].value = text;
    return true;
}

/* Parameters; the forms differ in the last ones. */
enum {
    LIST_DUE_AFTER,
    LIST_DUE_BEFORE,
    LIST_LABEL,
    LIST_TARGET,
    LIST_KEY_PREFIX,
    LIST_KEY_CONTAINS,
    LIST_LIMIT,
    LIST_CURSOR,
    LIST_COMMON, /* number of the parameters before, which all forms have */
    LIST_ORIGIN = LIST_COMMON,
    LIST_STATE,
    LIST_FLOW,
    LIST_ERROR = LIST_STATE,
    LIST_LAST = LIST_STATE,
    LIST_ALL = LIST_ERROR + 1,
    LIST_SORT = LIST_ALL,
};

#define LIST_PARAMETERS \
    "due_after", "due_before", "label", "target", "key_prefix", "key_contains", "limit", "cursor"

static const char *const list_parameters[] = {LIST_PARAMETERS, "origin", "state", "flow"};
static const char *const list_dead_parameters[] = {LIST_PARAMETERS, "origin", "error", "all"};

static const char *const list_schedule_parameters[] = {LIST_PARAMETERS, "origin", "last", "sort"};

static const char *const list_event_parameters[] = {"label",  "target", "key_prefix",
                                                    "origin", "type",   "last_event_id"};
enum { LIST_EVENT_TYPE = 4, LIST_EVENT_LAST };

static void list_query_take(void *context, size_t index, struct bytes value,
                            struct problem *problem)
{
    const char *name = list_parameters[index];
    struct list_query *query = context;

    switch (index) {
    case LIST_DUE_AFTER:
        query_wall(name, value, &query->after, problem);
        break;
    case LIST_DUE_BEFORE:
        query_wall(name, value, &query->before, problem);
        break;
    case LIST_LABEL:
        if (!list_query_parse_label(value, query))
            query_fault(problem, name,
                        "It takes the form name:value, or \"name\":value, at most %d times",
                        LIST_LABELS_MAX);
        break;
    case LIST_TARGET:
        query->filter.target = value;
        if (value.size == 0)
            query_fault(problem, name, "It is empty");
        break;
    case LIST_KEY_PREFIX:
        query->filter.key_prefix = value;
        if (value.size == 0)
            query_fault(problem, name, "It is empty");
        break;
    case LIST_KEY_CONTAINS:
        query->filter.key_contains = value;
        if (value.size == 0)
            query_fault(problem, name, "It is empty");
        break;
    case LIST_ORIGIN:
        query->filter.origin = value;
        if (value.size == 0)
            query_fault(problem, name, "It is empty");
        break;
    case LIST_FLOW:
        query->filter.flow = value;
        if (value.size == 0)
            query_fault(problem, name, "It is empty");
        break;
    case LIST_LIMIT:
        query_number(name, value, 1, LIST_LIMIT_MAX, &query->limit, problem);
        break;
    case LIST_CURSOR:
        query->has_cursor = true;
        if (cursor_parse(value, &query->cursor))
            query_fault(problem, name, "It is not one that this server gave");
        break;
    default:
        if (++query->state_count > LIST_STATES_MAX ||
            !list_query_parse_state(value, &query->states))
            query_fault(problem, name, "It must be a state of timers, at most %d times",
                        LIST_STATES_MAX);
    }
}

static void list_dead_take(void *context, size_t index, struct bytes value, struct problem *problem)
{
    struct list_query *query = context;

    switch (index) {
    case LIST_ERROR:
        query->filter.error = value;
        break;
    case LIST_ALL:
        query->is_of_all = true;
        if (!bytes_equal(value, BYTES("true")))
            query_fault(problem, "all", "It must be true");
        break;
    default:
        list_query_take(context, index, value, problem);
    }
}

static bool list_parse_last(struct bytes text, uint32_t *last)
{
#define X(name, word)                             \
    if (bytes_equal(text, BYTES(word))) {         \
        *last |= UINT32_C(1) << RUNS_LAST_##name; \
        return true;                              \
    }
    RUNS_LAST_LIST(X)
#undef X
    return false;
}

static bool list_parse_sort(struct bytes text, enum list_sort *sort)
{
#define X(name, word)                     \
    if (bytes_equal(text, BYTES(word))) { \
        *sort = LIST_SORT_##name;         \
        return true;                      \
    }
    LIST_SORT_LIST(X)
#undef X
    return false;
}

static void list_schedule_take(void *context, size_t index, struct bytes value,
                               struct problem *problem)
{
    struct list_query *query = context;

    if (index == LIST_CURSOR) { /* is read when the order is known */
        query->has_cursor = true;
        query->cursor_text = value;
    } else if (index < LIST_LAST) {
        list_query_take(context, index, value, problem);
    } else if (index == LIST_LAST) {
        if (++query->last_count > LIST_LASTS_MAX || !list_parse_last(value, &query->last))
            query_fault(problem, "last",
                        "It must be ok, failed, skipped or never, at most %d times",
                        LIST_LASTS_MAX);
    } else if (!list_parse_sort(value, &query->sort)) {
        query_fault(problem, "sort", "It must be next, last or failures");
    }
}

/* Takes the parameters of a delete of many. */
static void list_delete_take(void *context, size_t index, struct bytes value,
                             struct problem *problem)
{
    struct list_query *query = context;
    struct dead_cursor cursor = {0};

    if (index != LIST_CURSOR) {
        list_dead_take(context, index, value, problem);
        return;
    }
    if (dead_cursor_parse(value, &cursor))
        query_fault(problem, "cursor", "It is not one that this server gave");
    query->has_cursor = true;
    query->cursor = cursor.place;
    query->began = cursor.began;
}

static bool list_parse_kind(struct bytes text, uint32_t *kinds)
{
    for (unsigned kind = FEED_NONE + 1; kind < FEED_KIND_COUNT; kind++)
        if (bytes_equal(text, bytes_of(feed_kind_text((enum feed_kind)kind)))) {
            *kinds |= 1u << kind;
            return true;
        }
    return false;
}

static void list_event_take(void *context, size_t index, struct bytes value,
                            struct problem *problem)
{
    static const size_t filters[] = {LIST_LABEL, LIST_TARGET, LIST_KEY_PREFIX, LIST_ORIGIN};
    struct list_query *query = context;

    if (index < LIST_EVENT_TYPE)
        list_query_take(context, filters[index], value, problem);
    else if (index == LIST_EVENT_LAST)
        query->last_event = value;
    else if (!list_parse_kind(value, &query->kinds))
        query_fault(problem, "type", "It must be a type of events");
}

/* Refuses a delete without a filter or the explicit `all`. */
static void list_delete_check(const struct list_query *query, struct problem *problem)
{
    const bool has_filter = query->after.ms > 0 || query->before.ms != WALL_NEVER.ms ||
                            timer_filter_has_text(&query->filter) || query->filter.error.data;

    if (has_filter == query->is_of_all)
        query_fault(problem, "all",
                    "Give either `target`, `origin`, `error`, `label`, `key_prefix`, "
                    "`key_contains`, `due_after` or `due_before`, or all=true");
}

enum error_code list_query_parse(struct bytes text, enum list_form form, char *room,
                                 struct list_query *ret_query, struct problem *ret_problem)
{
    static const size_t counts[] = {
        [LIST_TIMERS] = LIST_FLOW + 1,        [LIST_DEAD] = LIST_ERROR + 1,
        [LIST_DEAD_GROUPS] = LIST_CURSOR,     [LIST_EVENTS] = LIST_EVENT_LAST + 1,
        [LIST_DEAD_TO_DELETE] = LIST_ALL + 1, [LIST_SCHEDULES] = LIST_SORT + 1};
    static const uint32_t repeatable[] = {[LIST_TIMERS] = 1u << LIST_LABEL | 1u << LIST_STATE,
                                          [LIST_DEAD] = 1u << LIST_LABEL,
                                          [LIST_DEAD_GROUPS] = 1u << LIST_LABEL,
                                          [LIST_EVENTS] = 1u << 0 | 1u << LIST_EVENT_TYPE,
                                          [LIST_DEAD_TO_DELETE] = 1u << LIST_LABEL,
                                          [LIST_SCHEDULES] = 1u << LIST_LABEL | 1u << LIST_LAST};
    const bool deletes = form == LIST_DEAD_TO_DELETE;
    const struct query_form parameters = {
        .names = form == LIST_TIMERS      ? list_parameters
                 : form == LIST_EVENTS    ? list_event_parameters
                 : form == LIST_SCHEDULES ? list_schedule_parameters
                                          : list_dead_parameters,
        .count = counts[form],
        .repeatable = repeatable[form],
        .parameters_max = LIST_PARAMETERS_MAX,
        .take = form == LIST_TIMERS      ? list_query_take
                : form == LIST_EVENTS    ? list_event_take
                : form == LIST_SCHEDULES ? list_schedule_take
                : deletes                ? list_delete_take
                                         : list_dead_take,
    };

    *ret_query = (struct list_query){.before = WALL_NEVER,
                                     .filter = {.repeats = form == LIST_SCHEDULES},
                                     .limit = deletes ? LIST_LIMIT_MAX : LIST_LIMIT_DEFAULT};
    enum error_code code = query_read(text, room, &parameters, ret_query, ret_problem);
    if (!code && deletes) {
        list_delete_check(ret_query, ret_problem);
        code = ret_problem->code;
    }
    if (!code && form == LIST_SCHEDULES && ret_query->has_cursor &&
        cursor_parse_order(ret_query->cursor_text, ret_query->sort, &ret_query->cursor)) {
        query_fault(ret_problem, "cursor", "It is not one that this server gave for this `sort`");
        code = ret_problem->code;
    }
    if (!ret_query->states)
        ret_query->states = form == LIST_TIMERS || form == LIST_SCHEDULES ? STATES_ALIVE
                            : form == LIST_EVENTS                         ? UINT32_MAX
                                                                          : 1u << TIMER_DEAD;
    if (!ret_query->kinds)
        ret_query->kinds = UINT32_MAX;
    return code;
}
