/*
 * memory.h - storage in memory, for tests and for the simulation: commits that were not synced can
 * be lost.
 *
 * Commits go to a volatile layer first when asked to, so that a test decides what a crash keeps.
 */
#ifndef TICKWHEEL_STORE_MEMORY_H
#define TICKWHEEL_STORE_MEMORY_H

#include "store/storage.h"

/* NULL when out of memory. */
struct storage *memory_storage_create(uint16_t partition_count);

/* From now on readers see a commit at once, but it stays volatile until memory_storage_sync. */
void memory_storage_hold(struct storage *storage);

/* Makes everything committed so far survive memory_storage_crash. */
void memory_storage_sync(struct storage *storage);

/* Forgets every commit that was held and not synced, beginning with the one after the first `kept`
 * of them (0: all are lost). */
void memory_storage_crash(struct storage *storage, size_t kept);

/* How many commits are held and not synced. */
size_t memory_storage_held(const struct storage *storage);

/* The n-th commit from now fails with `code` and changes nothing; 1 is the next. 0: none. */
void memory_storage_fail_commit(struct storage *storage, size_t n, enum error_code code);

/* The n-th scan or find from now on fails with `code`. */
void memory_storage_fail_read(struct storage *storage, size_t n, enum error_code code);

/* Damages the record of a timer so that its checksum does not fit. False when there is none. */
bool memory_storage_damage(struct storage *storage, const struct timer_id *id);

/* For tests: aborts unless table, index and counters agree. O(timers). */
void memory_storage_check(const struct storage *storage);

#endif
