/*
 * memory.h - storage in memory, for tests and for the simulation: changes that were not synced can
 * be lost.
 *
 * A change is what one call of storage_apply or storage_partition_clear does. A test may hold
 * changes, and decides how many of them a crash keeps.
 */
#ifndef TICKWHEEL_STORE_TESTING_MEMORY_H
#define TICKWHEEL_STORE_TESTING_MEMORY_H

#include "store/storage.h"

/* Returns NULL if out of memory. */
struct storage *memory_storage_create(uint16_t partition_count);

/* Holds changes until memory_storage_sync. Readers see them at once. */
void memory_storage_hold(struct storage *storage);

/* Makes all changes so far survive memory_storage_crash. */
void memory_storage_sync(struct storage *storage);

/* Drops the changes that are held, except the first `kept`. */
void memory_storage_crash(struct storage *storage, size_t kept);

/* Returns the number of changes that are held. */
size_t memory_storage_held(const struct storage *storage);

/* Lets the n-th change from now fail with `code` without effect; 1 is the next, 0 none. */
void memory_storage_fail_commit(struct storage *storage, size_t n, enum error_code code);

/* Lets the n-th scan or find from now fail with `code`. */
void memory_storage_fail_read(struct storage *storage, size_t n, enum error_code code);

/* Damages the record of a timer, so that its checksum is wrong. Returns false if there is none. */
bool memory_storage_damage(struct storage *storage, const struct timer_id *id);

/* For tests: aborts unless table, index and counters agree. O(timers). */
void memory_storage_check(const struct storage *storage);

#endif
