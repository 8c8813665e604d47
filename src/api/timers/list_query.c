#include "api/timers/list.h"

#include "calendar/rfc3339.h"

enum {
    LIST_PARAMETERS_MAX = 32,
};

#define STATES_ALIVE (1u << TIMER_SCHEDULED | 1u << TIMER_DELIVERING | 1u << TIMER_RETRYING)

/* A decimal number of at most 15 digits. */
static bool parse_number(struct bytes text, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (text.size == 0 || text.size > 15)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    *ret_value = value;
    return true;
}

static bool parse_wall(struct bytes text, struct wall *ret_wall)
{
    struct wall wall;

    if (!parse_number(text, &wall.ms) && rfc3339_parse(text, &wall, NULL))
        return false;
    if (wall.ms > WALL_MS_MAX)
        return false;
    *ret_wall = wall;
    return true;
}

static bool parse_state(struct bytes text, uint32_t *states)
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

static bool parse_label(struct bytes text, struct list_query *query)
{
    const char *colon = text.size ? memchr(text.data, ':', text.size) : NULL;
    size_t key_size = colon ? (size_t)(colon - text.data) : 0;

    if (key_size == 0 || query->label_count == LIST_LABELS_MAX)
        return false;
    query->labels[query->label_count].key = (struct bytes){text.data, key_size};
    query->labels[query->label_count++].value = (struct bytes){colon + 1, text.size - key_size - 1};
    return true;
}

static bool parse_limit(struct bytes text, struct list_query *query)
{
    uint64_t limit;

    if (!parse_number(text, &limit) || limit < 1 || limit > LIST_LIMIT_MAX)
        return false;
    query->limit = (size_t)limit;
    return true;
}

#define WRONG(...) problem_set(ret_problem, ERROR_INVALID, "", __VA_ARGS__)

/* Which of the parameters that may stand only once have been seen. */
enum seen {
    SEEN_AFTER = 1,
    SEEN_BEFORE = 2,
    SEEN_LIMIT = 4,
    SEEN_CURSOR = 8,
    SEEN_TARGET = 16,
};

static enum error_code parse_once(const struct http_parameter *parameter, enum seen which,
                                  struct list_query *query, struct problem *ret_problem)
{
    const struct bytes value = parameter->value;

    switch (which) {
    case SEEN_AFTER:
        return parse_wall(value, &query->after) ? ERROR_NONE : WRONG("%s", "due_after is no time");
    case SEEN_BEFORE:
        return parse_wall(value, &query->before) ? ERROR_NONE
                                                 : WRONG("%s", "due_before is no time");
    case SEEN_LIMIT:
        return parse_limit(value, query)
                   ? ERROR_NONE
                   : WRONG("limit must be a number from 1 to %d", LIST_LIMIT_MAX);
    case SEEN_TARGET:
        query->target = value;
        return value.size ? ERROR_NONE : WRONG("%s", "target is empty");
    default:
        query->has_cursor = true;
        return cursor_parse(value, &query->cursor)
                   ? WRONG("%s", "cursor is not one that this server gave")
                   : ERROR_NONE;
    }
}

static enum error_code parse_parameter(const struct http_parameter *parameter,
                                       struct list_query *query, unsigned *seen,
                                       struct problem *ret_problem)
{
    struct bytes name = parameter->name, value = parameter->value;
    unsigned bit;

    if (bytes_equal(name, BYTES("state")))
        return ++query->state_count <= LIST_STATES_MAX && parse_state(value, &query->states)
                   ? ERROR_NONE
                   : WRONG("state is one of a timer's states, at most %d times", LIST_STATES_MAX);
    if (bytes_equal(name, BYTES("label")))
        return parse_label(value, query)
                   ? ERROR_NONE
                   : WRONG("label takes the form key:value, at most %d times", LIST_LABELS_MAX);
    bit = bytes_equal(name, BYTES("due_after"))    ? SEEN_AFTER
          : bytes_equal(name, BYTES("due_before")) ? SEEN_BEFORE
          : bytes_equal(name, BYTES("limit"))      ? SEEN_LIMIT
          : bytes_equal(name, BYTES("cursor"))     ? SEEN_CURSOR
          : bytes_equal(name, BYTES("target"))     ? SEEN_TARGET
                                                   : 0;
    if (!bit)
        return WRONG("%s", "there is no query parameter of this name");
    if (*seen & bit)
        return WRONG("%s", "a query parameter stands twice");
    *seen |= bit;
    return parse_once(parameter, bit, query, ret_problem);
}

enum error_code list_query_parse(struct bytes query, uint32_t states, char *room,
                                 struct list_query *ret_query, struct problem *ret_problem)
{
    struct http_parameter parameters[LIST_PARAMETERS_MAX];
    unsigned seen = 0;
    size_t count;

    *ret_query = (struct list_query){.before = WALL_NEVER, .limit = LIST_LIMIT_DEFAULT};
    if (http_query_parse(query, room, parameters, LIST_PARAMETERS_MAX, &count))
        return problem_set(ret_problem, ERROR_BAD_REQUEST, "",
                           "The query is not well formed, or has more than %d parameters",
                           LIST_PARAMETERS_MAX);
    for (size_t i = 0; i < count; i++)
        if (parse_parameter(&parameters[i], ret_query, &seen, ret_problem))
            return ERROR_INVALID;
    if (states && ret_query->states)
        return problem_set(ret_problem, ERROR_INVALID, "", "%s",
                           "there is no query parameter of this name");
    if (!ret_query->states)
        ret_query->states = states ? states : STATES_ALIVE;
    return ERROR_NONE;
}
