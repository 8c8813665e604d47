/*
 * second_scan.h - walks the rows of the partition a second time, slowly, besides the scans that
 * fill the wheel. If a row should have fired ten minutes ago and its timer has no entry, the engine
 * has overlooked it. Each minute the walk reads the overdue rows. After a start, and as soon as the
 * data of time zones or calendars has changed, it reads all live rows, and counts those whose time
 * zone is missing.
 *
 * Errors     Without memory, or when the storage fails, it goes on after storage_retry_ms.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_SECOND_SCAN_H
#define TICKWHEEL_ENGINE_SECOND_SCAN_H

#include "engine/engine.h"
#include "engine/entries.h"

/* Lateness, in milliseconds, from which a row must be in memory. */
#define SECOND_SCAN_LATE_MS UINT64_C(600000)

struct second_scan;

struct second_scan *second_scan_create(void); /* returns NULL if out of memory */
void second_scan_destroy(struct second_scan *second_scan);

/* Requests the next page if it is time. Called in turns without a running scan. */
void second_scan_read(struct engine *engine);

/* True while a read of second_scan_read runs. */
bool second_scan_is_reading(const struct engine *engine);

/* True if a read is one of second_scan_read. */
bool second_scan_has_read(const struct engine *engine, const struct engine_read *read);

/* Handles the read. In the page it leaves the overlooked timers (overdue, before `frontier`, and
 * not in memory), and those whose zone's or calendars' rules changed since their rows were written,
 * which may be in memory. The caller owns them. All others are freed. */
void second_scan_read_back(struct engine *engine, struct engine_read *read,
                           struct storage_position frontier);

/* True while the end of a write may bring a due time that was computed by earlier rules of zones or
 * calendars. The walk cannot see such a time, because its row is not on disk yet, or moves to where
 * the walk has been. So the caller compares each written timer with the present rules. */
bool second_scan_checks_writes(const struct engine *engine);

struct wall second_scan_wake_at(const struct engine *engine);
void second_scan_clock_went_back(struct engine *engine);

#endif
