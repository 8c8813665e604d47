/*
 * second_scan.h - walks the rows of the partition a second time, slowly, beside the scans that feed
 * the wheel: a row that should have fired ten minutes ago and that no phase knows was lost by the
 * engine. Each minute it reads the rows that are overdue. After a start, and when the data of time
 * zones changed, it reads all live rows, and counts those whose time zone is missing.
 *
 * Errors     Without memory, or when the storage fails, it goes on after storage_retry_ms.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_SECOND_SCAN_H
#define TICKWHEEL_ENGINE_SECOND_SCAN_H

#include "engine/engine.h"
#include "engine/entries.h"

/* Lateness from which a row must be in some phase. */
#define SECOND_SCAN_LATE_MS UINT64_C(600000)

struct second_scan;

struct second_scan *second_scan_create(void); /* returns NULL if out of memory */
void second_scan_destroy(struct second_scan *second_scan);

/* Requests the next page if it is time. Called in turns without a running scan. */
void second_scan_read(struct engine *engine);

/* True while such a read runs. */
bool second_scan_is_reading(const struct engine *engine);

/* True if a read is one of second_scan_read. */
bool second_scan_has_read(const struct engine *engine, const struct engine_read *read);

/* Takes the read back. Leaves in the page the timers that were overlooked (overdue, before
 * `frontier`, and not in memory), or whose zone's rules have changed since they were written.
 * The caller owns them; all others are freed. */
void second_scan_read_back(struct engine *engine, struct engine_read *read,
                           struct storage_position frontier);

struct wall second_scan_wake_at(const struct engine *engine);
void second_scan_clock_went_back(struct engine *engine);

#endif
