/* routes.c - the table of routes, from routes.def. */
#include "api/api.h"

#include "api/core/scatter.h"
#include "api/core/tally.h"
#include "api/timers/list.h"
#include "api/timers/timers.h"

#define REFUSES(name) (UINT64_C(1) << ERROR_##name)
#define REFUSES_INPUT (REFUSES(BAD_REQUEST) | REFUSES(INVALID))
#define REFUSES_CHANGE                                                                     \
    (REFUSES(BAD_REQUEST) | REFUSES(NOT_FOUND) | REFUSES(ALREADY_FIRING) | REFUSES(GONE) | \
     REFUSES(VERSION_MISMATCH))

#define REFUSES_LEASED                                                                 \
    (REFUSES(BAD_REQUEST) | REFUSES(NOT_FOUND) | REFUSES(NOT_LEASED) | REFUSES(GONE) | \
     REFUSES(VERSION_MISMATCH))

const struct route routes[] = {
#define ROUTE(handler, ...) {__VA_ARGS__, .end = handler},
#include "api/core/routes.def"
};

const size_t routes_count = sizeof(routes) / sizeof(routes[0]);
