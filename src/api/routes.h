/*
 * routes.h - the table of routes: a row for each endpoint of the API.
 */
#ifndef TICKWHEEL_API_ROUTES_H
#define TICKWHEEL_API_ROUTES_H

#include "api/core/route.h"

extern const struct route routes[];
extern const size_t routes_count;

#endif
