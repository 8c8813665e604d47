/*
 * route.h - which route a method and a path lead to.
 *
 * Threads    None; pure functions over a constant table.
 */
#ifndef TICKWHEEL_API_CORE_ROUTE_H
#define TICKWHEEL_API_CORE_ROUTE_H

#include "api/core/call.h"

#define ROUTE_ALLOW_SIZE 64

struct route_match {
    const struct route *route;    /* NULL: no such path, or not by this method */
    struct bytes parameter;       /* the {id}, decoded into the room given; data NULL without one */
    char allow[ROUTE_ALLOW_SIZE]; /* the methods of the path, as Allow names them; empty: no such
                                     path */
};

/* The first route in the table whose path fits; HEAD counts as GET. `room` takes the parameter;
 * a longer one fits no path. */
void route_find(const struct route *routes, size_t count, struct bytes method, struct bytes path,
                char room[CALL_PARAMETER_SIZE], struct route_match *ret_match);

/* The table of the API. */
extern const struct route route_table[];
extern const size_t route_count;

#endif
