/*
 * census.h - the waiting timers by name, of a queue or a tenant, for the page of metrics: a row for
 * each name while there is room, and one for the others, so that no client can make it grow.
 *
 *     census_begin(census, shard);
 *     census_add(census, shard, tenant, name, ready, oldest);   for each queue of the shard
 *     census_end(census);
 *
 * A name gets a row when it is first counted and one is free, or is of a name without
 * waiting timers; it keeps the row until then. A group, such as the queues of a tenant, has at most
 * `group_max` rows, so that it leaves some for the others.
 *
 * Threads    Any; a shard's counting holds the lock from begin to end.
 */
#ifndef TICKWHEEL_NODE_CENSUS_H
#define TICKWHEEL_NODE_CENSUS_H

#include "base/bytes.h"
#include "base/time.h"

#define CENSUS_ROWS_MAX  256
#define CENSUS_NAME_SIZE 129

struct census_count {
    uint64_t ready;     /* waiting timers */
    struct wall oldest; /* earliest due time; 0 if nothing waits */
};

struct census_row {
    char name[CENSUS_NAME_SIZE];
    uint8_t name_size, group_size;
    struct census_count count;
};

struct census;

/* `seed` is secret, so that no client can choose names with equal hashes. Returns NULL if out of
 * memory. */
struct census *census_create(unsigned shard_count, size_t group_max, uint64_t seed);
void census_destroy(struct census *census);

/* Begins a new count of the shard, which then adds all of its names. */
void census_begin(struct census *census, unsigned shard);
void census_add(struct census *census, unsigned shard, struct bytes group, struct bytes name,
                const struct census_count *count);
void census_end(struct census *census);

/* Copies the rows, and the sum of the names without a row. Returns the number of rows. */
size_t census_read(struct census *census, struct census_row ret_rows[CENSUS_ROWS_MAX],
                   struct census_count *ret_others);

/* For tests: aborts unless every invariant holds. */
void census_check(struct census *census);

#endif
