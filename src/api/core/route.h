/*
 * route.h - a row of the table of routes (api/routes.c), and the search for the row of a request.
 *
 * Threads    None; pure functions over a constant table.
 */
#ifndef TICKWHEEL_API_CORE_ROUTE_H
#define TICKWHEEL_API_CORE_ROUTE_H

#include "api/core/access.h"
#include "ops/metrics.h"

#define ROUTE_PARAMETER_SIZE 256 /* the longest {id} or {key} that is looked at */
#define ROUTE_ALLOW_SIZE     64

struct call;

/* What a route does at the steps of a request (http/server.h). */
struct route {
    const char *method;
    const char *path; /* "/v1/timers/{id}" */
    enum access_need need;
    enum metric_route metric;
    void (*begin)(struct call *call); /* looks at the head, may answer; NULL: nothing to look at */
    size_t (*body)(struct call *call, struct bytes chunk); /* NULL: the body is ignored */
    void (*end)(struct call *call);
    void (*resumed)(struct call *call); /* NULL: never resumes */
    void (*closed)(struct call *call);  /* frees `state`; NULL: nothing to free */
};

struct route_match {
    const struct route *route;    /* NULL: no such path, or not by this method */
    struct bytes parameter;       /* the {id}, decoded into the room given; data NULL without one */
    char allow[ROUTE_ALLOW_SIZE]; /* the methods of the path, as Allow names them; empty: no such
                                     path */
};

/* The first route in the table whose path fits; HEAD counts as GET. `room` takes the parameter;
 * a longer one fits no path. */
void route_find(const struct route *routes, size_t count, struct bytes method, struct bytes path,
                char room[ROUTE_PARAMETER_SIZE], struct route_match *ret_match);

#endif
