/*
 * route.h - a row of the table of routes (routes.def), and the search for the row of a request.
 *
 * Threads    None; pure functions over a constant table.
 */
#ifndef TICKWHEEL_API_CORE_ROUTE_H
#define TICKWHEEL_API_CORE_ROUTE_H

#include "api/core/access.h"
#include "api/json/problem.h"
#include "base/error.h"

#define ROUTE_PARAMETER_SIZE 256 /* maximum size of an {id} or {key} */
#define ROUTE_ALLOW_SIZE     64

struct call;

/* An answer described by its route; its schema is the route's `response`, from 400 on Problem. */
struct route_answer {
    int status; /* 0: none */
    const char *words;
};

#define ROUTE_ANSWERS 2

/* Documentation of a route, for api/operations/document.h. openapi_parts.json has parameters,
 * long descriptions and unusual bodies, by operation. */
struct route_docs {
    const char *operation, *tag, *summary;
    const char *section; /* section of docs/, relative to api.md; NULL for none */
    /* parameter of the path, in components/parameters; NULL for none */
    const char *parameter;
    /* names of schemas; NULL if openapi_parts.json has them, or none */
    const char *request, *response;
    struct route_answer answers[ROUTE_ANSWERS];
    uint64_t refusals; /* bits of enum error_code, besides those of route_refusals() */
};

/* A row of the table: the scope that a request needs, and the function of each step
 * (http/server.h). */
struct route {
    const char *method;
    const char *path; /* "/v1/timers/{id}" */
    enum access_need need;
    const char *label;                /* label in the metrics */
    bool is_name;                     /* the last part of the path may also be a name: other methods
                                       * of the path go to the next row that matches */
    bool takes_query;                 /* a handler reads the query; otherwise it must be empty */
    void (*begin)(struct call *call); /* checks the head, may answer; NULL for no check */
    size_t (*body)(struct call *call, struct bytes chunk); /* NULL if the body is ignored */
    void (*end)(struct call *call);
    void (*resumed)(struct call *call); /* NULL if it never resumes */
    /* After call_stream: see http/server.h. */
    bool (*streamed)(struct call *call, bool is_idle, struct buffer *out);
    void (*left)(struct call *call);   /* see http/server.h; NULL if it has no effect */
    void (*closed)(struct call *call); /* frees `state`; NULL if there is nothing to free */
    struct route_docs docs;
};

struct route_match {
    const struct route *route; /* NULL if the path does not exist, or lacks the method */
    struct bytes parameter;    /* the {id}, decoded into `room`; data is NULL without one */
    /* without a route: methods of the path for Allow; empty if there is no such path */
    char allow[ROUTE_ALLOW_SIZE];
};

/* Rewrites "/v1/key/fire?key=a/b" to "/v1/keys/a%2Fb/fire", because a key in the query passes a
 * proxy that decodes the path. Puts the path into `room` and removes the query; any other target
 * is unchanged. A query that is not one key is returned as a problem with the path of some key,
 * so that the client learns of it only after the check of the token. */
#define ROUTE_PATH_SIZE 1024
enum error_code route_take_key(struct bytes *path, struct bytes *query, char room[ROUTE_PATH_SIZE],
                               struct problem *ret_problem);

/* Returns the path with the key in the query: "/v1/key/fire" for "/v1/keys/{key}/fire". False if
 * the path has no key. */
bool route_key_path(const char *path, char ret_path[ROUTE_PARAMETER_SIZE]);

/* Finds the first route whose path matches; HEAD counts as GET. `room` gets the parameter; a
 * longer one matches no path. */
void route_find(const struct route *routes, size_t count, struct bytes method, struct bytes path,
                char room[ROUTE_PARAMETER_SIZE], struct route_match *ret_match);

#endif
