/*
 * database.h - the tz database as the tests see it: the names of all zones, which of them are the
 * same, and the C library's opinion on each.
 */
#ifndef TICKWHEEL_TESTS_ZONES_DATABASE_H
#define TICKWHEEL_TESTS_ZONES_DATABASE_H

#include "base/random.h"
#include "calendar/zones.h"

#include <stdio.h>
#include <stdlib.h>

struct database {
    struct zones *zones;
    char (*names)[ZONE_NAME_SIZE_MAX + 1]; /* one for each different file, in order by chance */
    size_t count;
    size_t name_count; /* with those that are links or copies */
};

/* Finds the zones that are installed; ends the program when there are none. */
void database_open(struct database *database, struct random *random);
void database_close(struct database *database);

/* Makes the zone the C library's own, by TZ. This test is a process of its own. */
const struct zone *database_enter(struct database *database, size_t index);

/* What the C library shows at `at`, as seconds east of UTC. */
int32_t database_offset(int64_t at);

/* The seed, printed, and how many of `all` the rounds are: TEST_ROUNDS, which may be "all". */
struct random database_random(void);
size_t database_rounds(size_t usual, size_t all);

#define REQUIRE(condition, ...)                                    \
    do {                                                           \
        if (!(condition)) {                                        \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                   \
            printf("\n");                                          \
            exit(1);                                               \
        }                                                          \
    } while (0)

#endif
