/*
 * route.h - a row of the table of routes (api/routes.c), and the search for the row of a request.
 *
 * Threads    None; pure functions over a constant table.
 */
#ifndef TICKWHEEL_API_CORE_ROUTE_H
#define TICKWHEEL_API_CORE_ROUTE_H

#include "api/core/access.h"
#include "api/json/problem.h"
#include "base/error.h"

#define ROUTE_PARAMETER_SIZE 256 /* the longest {id} or {key} that is looked at */
#define ROUTE_ALLOW_SIZE     64

struct call;

/* An answer that a route describes itself; its schema is the route's `response`, from 400 on
 * Problem. */
struct route_answer {
    int status; /* 0: none */
    const char *words;
};

#define ROUTE_ANSWERS 2

/* The documentation of a route, for api/operations/document.h. Parameters, long descriptions and
 * unusual bodies stand in openapi_parts.json, under the name of the operation. */
struct route_docs {
    const char *operation, *tag, *summary;
    const char *section;            /* of docs/, seen from api.md; NULL: none */
    const char *parameter;          /* of the path, in components/parameters; NULL: none */
    const char *request, *response; /* names of schemas; NULL: in openapi_parts.json, if any */
    struct route_answer answers[ROUTE_ANSWERS];
    uint64_t refusals; /* bits of enum error_code, besides those of route_refusals() */
};

/* A row of the table: the scope that a request needs, and the function of each of its steps
 * (http/server.h). */
struct route {
    const char *method;
    const char *path; /* "/v1/timers/{id}" */
    enum access_need need;
    const char *label;                /* in the metrics */
    void (*begin)(struct call *call); /* looks at the head, may answer; NULL: nothing to look at */
    size_t (*body)(struct call *call, struct bytes chunk); /* NULL: the body is ignored */
    void (*end)(struct call *call);
    void (*resumed)(struct call *call); /* NULL: never resumes */
    /* After call_stream: as http/server.h has it. */
    bool (*streamed)(struct call *call, bool is_idle, struct buffer *out);
    void (*left)(struct call *call);   /* likewise; NULL: it makes no difference */
    void (*closed)(struct call *call); /* frees `state`; NULL: nothing to free */
    struct route_docs docs;
};

struct route_match {
    const struct route *route;    /* NULL: the path does not exist, or does not have the method */
    struct bytes parameter;       /* the {id}, decoded into the room given; data NULL without one */
    char allow[ROUTE_ALLOW_SIZE]; /* without a route: the methods of the path, as Allow names them;
                                     empty: no such path */
};

/* "/v1/key/fire?key=a/b" is "/v1/keys/a%2Fb/fire": a key in the query passes a proxy that decodes
 * the path. Puts the path into `room` and takes the query away; any other target stays as it is. A
 * query that is not one key is returned as a problem, and the path is then that of some key: who
 * asks learns of it after the check of the token. */
#define ROUTE_PATH_SIZE 1024
enum error_code route_take_key(struct bytes *path, struct bytes *query, char room[ROUTE_PATH_SIZE],
                               struct problem *ret_problem);

/* The path with the key in the query, of a path with the key in itself: "/v1/key/fire" of
 * "/v1/keys/{key}/fire". False: the path has no key. */
bool route_key_path(const char *path, char ret_path[ROUTE_PARAMETER_SIZE]);

/* The first route in the table whose path fits; HEAD counts as GET. `room` takes the parameter;
 * a longer one fits no path. */
void route_find(const struct route *routes, size_t count, struct bytes method, struct bytes path,
                char room[ROUTE_PARAMETER_SIZE], struct route_match *ret_match);

#endif
