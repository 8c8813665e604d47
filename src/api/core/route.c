/*
 * route.c - finds the row of a request in the table of routes, and the methods that its path
 * allows.
 */
#include "api/core/route.h"

#include "api/core/query.h"
#include "http/target.h"

#include <assert.h>
#include <stdio.h>

/* True if the path begins with the text before the {parameter}, where most rows differ. */
static bool route_path_begins(const char *pattern, struct bytes path)
{
    const char *parameter = strchr(pattern, '{');
    size_t size = parameter ? (size_t)(parameter - pattern) : strlen(pattern);

    return bytes_has_prefix(path, (struct bytes){pattern, size});
}

/* Compares segment by segment; a {parameter} matches any segment that is not empty. */
static bool route_path_fits(const char *pattern, struct bytes path, char room[ROUTE_PARAMETER_SIZE],
                            struct bytes *ret_parameter)
{
    struct bytes wanted = bytes_of(pattern);

    *ret_parameter = (struct bytes){0};
    if (!route_path_begins(pattern, path))
        return false;
    struct bytes want;
    while (http_path_next(&wanted, &want)) {
        struct bytes have;
        if (!http_path_next(&path, &have))
            return false;
        if (want.size == 0 || want.data[0] != '{') {
            if (!bytes_equal(want, have))
                return false;
        } else if (have.size == 0 || have.size > 3 * ROUTE_PARAMETER_SIZE) {
            return false;
        } else {
            char decoded[3 * ROUTE_PARAMETER_SIZE];

            if (http_percent_decode(have, decoded, ret_parameter) ||
                ret_parameter->size > ROUTE_PARAMETER_SIZE)
                return false;
            memcpy(room, decoded, ret_parameter->size);
            ret_parameter->data = room;
        }
    }
    return path.size == 0;
}

/* Adds a method to a list in the form of Allow. */
static void route_allow_add(char allow[ROUTE_ALLOW_SIZE], const char *method)
{
    size_t size = strlen(allow), room = ROUTE_ALLOW_SIZE - size;
    int added = snprintf(allow + size, room, "%s%s%s", size ? ", " : "", method,
                         strcmp(method, "GET") == 0 ? ", HEAD" : "");

    assert(added > 0 && (size_t)added < room);
    (void)added;
}

/* Returns the row with the path's pattern and the method, or NULL. `ret_pattern` is the pattern
 * of the first row that matches the path, or of the first after those that may also be names. */
static const struct route *route_search(const struct route *routes, size_t count,
                                        struct bytes method, struct bytes path,
                                        char room[ROUTE_PARAMETER_SIZE],
                                        struct bytes *ret_parameter, const char **ret_pattern)
{
    const char *pattern = NULL;

    for (size_t i = 0; i < count; i++) {
        if (pattern ? strcmp(pattern, routes[i].path) != 0
                    : !route_path_fits(routes[i].path, path, room, ret_parameter))
            continue;
        *ret_pattern = pattern = routes[i].path;
        if (bytes_equal(method, bytes_of(routes[i].method)))
            return &routes[i];
        if (routes[i].is_name)
            pattern = NULL;
    }
    return NULL;
}

/* ---- a key in the query ---- */

#define ROUTE_KEY_PATH  "/v1/key/"
#define ROUTE_KEYS_PATH "/v1/keys/"
#define ROUTE_VERB_SIZE 16 /* longest verb after a key */

static void route_take_key_value(void *context, size_t index, struct bytes value,
                                 struct problem *problem)
{
    struct bytes *key = context;

    (void)index;
    if (value.size == 0 || value.size > ROUTE_PARAMETER_SIZE)
        query_fault(problem, "key", "It must have 1 to %u bytes", ROUTE_PARAMETER_SIZE);
    else
        *key = value;
}

static enum error_code route_read_key(struct bytes query, char *room, size_t size,
                                      struct bytes *ret_key, struct problem *ret_problem)
{
    static const char *const names[] = {"key"};
    const struct query_form form = {
        .names = names, .count = 1, .parameters_max = 8, .take = route_take_key_value};

    problem_init(ret_problem);
    if (query.size > size)
        return query_fault(ret_problem, "key", "It must have 1 to %u bytes", ROUTE_PARAMETER_SIZE);
    const enum error_code code = query_read(query, room, &form, ret_key, ret_problem);
    return code || ret_key->size
               ? code
               : query_fault(ret_problem, "key", "This call needs the key of its timer");
}

enum error_code route_take_key(struct bytes *path, struct bytes *query, char room[ROUTE_PATH_SIZE],
                               struct problem *ret_problem)
{
    const struct bytes prefix = BYTES(ROUTE_KEY_PATH);
    struct bytes key = {0};
    char decoded[3 * ROUTE_PARAMETER_SIZE + sizeof("key=")];

    if (!bytes_has_prefix(*path, prefix) || path->size > prefix.size + ROUTE_VERB_SIZE)
        return ERROR_NONE;
    const struct bytes verb = {path->data + prefix.size, path->size - prefix.size};
    const enum error_code code =
        route_read_key(*query, decoded, sizeof(decoded), &key, ret_problem);
    if (code)
        key = BYTES("-");
    size_t size = (size_t)snprintf(room, ROUTE_PATH_SIZE, ROUTE_KEYS_PATH);
    for (size_t i = 0; i < key.size; i++)
        size += (size_t)snprintf(room + size, ROUTE_PATH_SIZE - size, "%%%02X",
                                 (unsigned)(unsigned char)key.data[i]);
    size +=
        (size_t)snprintf(room + size, ROUTE_PATH_SIZE - size, "/%.*s", (int)verb.size, verb.data);
    assert(size < ROUTE_PATH_SIZE);
    *path = (struct bytes){room, size};
    *query = (struct bytes){room, 0};
    return code;
}

bool route_key_path(const char *path, char ret_path[ROUTE_PARAMETER_SIZE])
{
    static const char prefix[] = ROUTE_KEYS_PATH "{key}/";
    const size_t size = sizeof(prefix) - 1;

    if (strncmp(path, prefix, size) != 0)
        return false;
    snprintf(ret_path, ROUTE_PARAMETER_SIZE, ROUTE_KEY_PATH "%s", path + size);
    return true;
}

void route_find(const struct route *routes, size_t count, struct bytes method, struct bytes path,
                char room[ROUTE_PARAMETER_SIZE], struct route_match *ret_match)
{
    memset(ret_match, 0, sizeof(*ret_match));
    if (bytes_equal(method, BYTES("HEAD")))
        method = BYTES("GET");
    const char *pattern = NULL;
    ret_match->route =
        route_search(routes, count, method, path, room, &ret_match->parameter, &pattern);
    if (ret_match->route || !pattern)
        return;
    for (size_t i = 0; i < count; i++)
        if (strcmp(pattern, routes[i].path) == 0 ||
            (routes[i].is_name && bytes_equal(path, bytes_of(routes[i].path))))
            route_allow_add(ret_match->allow, routes[i].method);
}
