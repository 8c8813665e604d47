/*
 * route.c - finds the row of a request in the table of routes, and the methods that its path
 * allows.
 */
#include "api/core/route.h"

#include "http/target.h"

#include <assert.h>
#include <stdio.h>

/* Whether the path begins with the text before the {parameter}; most rows differ there. */
static bool path_begins(const char *pattern, struct bytes path)
{
    const char *parameter = strchr(pattern, '{');
    size_t size = parameter ? (size_t)(parameter - pattern) : strlen(pattern);

    return bytes_has_prefix(path, (struct bytes){pattern, size});
}

/* Compares segment by segment; a {parameter} takes any segment that is not empty. */
static bool path_fits(const char *pattern, struct bytes path, char room[ROUTE_PARAMETER_SIZE],
                      struct bytes *ret_parameter)
{
    struct bytes wanted = bytes_of(pattern);

    *ret_parameter = (struct bytes){0};
    if (!path_begins(pattern, path))
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

/* Adds a method to a list as Allow has it. */
static void allow_add(char allow[ROUTE_ALLOW_SIZE], const char *method)
{
    size_t size = strlen(allow), room = ROUTE_ALLOW_SIZE - size;
    int added = snprintf(allow + size, room, "%s%s%s", size ? ", " : "", method,
                         strcmp(method, "GET") == 0 ? ", HEAD" : "");

    assert(added > 0 && (size_t)added < room);
    (void)added;
}

/* The row that has the path's pattern and the method, or NULL. `ret_pattern` becomes the pattern of
 * the first row that fits the path. */
static const struct route *route_search(const struct route *routes, size_t count,
                                        struct bytes method, struct bytes path,
                                        char room[ROUTE_PARAMETER_SIZE],
                                        struct bytes *ret_parameter, const char **ret_pattern)
{
    const char *pattern = NULL;

    for (size_t i = 0; i < count; i++) {
        if (pattern ? strcmp(pattern, routes[i].path) != 0
                    : !path_fits(routes[i].path, path, room, ret_parameter))
            continue;
        *ret_pattern = pattern = routes[i].path;
        if (bytes_equal(method, bytes_of(routes[i].method)))
            return &routes[i];
    }
    return NULL;
}

void route_take_key(struct bytes *path, struct bytes *query, char room[ROUTE_PATH_SIZE])
{
    const struct bytes prefix = BYTES("/v1/key/");
    const struct bytes verb = {path->data + prefix.size, path->size - prefix.size};
    struct http_parameter parameter;
    char decoded[3 * ROUTE_PARAMETER_SIZE];
    size_t count, size;

    if (!bytes_has_prefix(*path, prefix) || verb.size > 16 || query->size > sizeof(decoded) ||
        http_query_parse(*query, decoded, &parameter, 1, &count) || count != 1 ||
        !bytes_equal(parameter.name, BYTES("key")) || parameter.value.size > ROUTE_PARAMETER_SIZE)
        return;
    size = (size_t)snprintf(room, ROUTE_PATH_SIZE, "/v1/keys/");
    for (size_t i = 0; i < parameter.value.size; i++)
        size += (size_t)snprintf(room + size, ROUTE_PATH_SIZE - size, "%%%02X",
                                 (unsigned)(unsigned char)parameter.value.data[i]);
    size +=
        (size_t)snprintf(room + size, ROUTE_PATH_SIZE - size, "/%.*s", (int)verb.size, verb.data);
    assert(size < ROUTE_PATH_SIZE);
    *path = (struct bytes){room, size};
    *query = (struct bytes){room, 0};
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
        if (strcmp(pattern, routes[i].path) == 0)
            allow_add(ret_match->allow, routes[i].method);
}
