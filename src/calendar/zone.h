/*
 * zone.h - a time zone: what the clocks of a place show, and when they were or will be changed.
 *
 * Read from the contents of a TZif file (RFC 9636) that the caller brings; nothing here touches a
 * disk, the environment or the C library's idea of a zone. The rule in the file's footer, which
 * holds for the years after its table, is written out once for 400 years, after which the calendar
 * repeats; so every question is one binary search, also for the year 9999:
 *
 *     struct zone *zone;
 *     if (zone_parse(contents, &zone, &error) == ERROR_NONE)
 *         shown = at + zone_stretch_at(zone, at).offset_s;
 *
 * Time       Seconds since 1970 in UTC, 64 bits. A query is O(log transitions). Transitions before
 *            1969 are not kept: earlier times use the offset at the start of 1969.
 * Errors     ERROR_INVALID with the reason for a file that breaks the format, counts leap seconds
 *            or changes its clocks so often that a reading could be shown three times;
 *            ERROR_NO_MEMORY.
 * Ownership  The caller owns the zone. It never changes after zone_parse.
 * Memory     16 bytes for each change of the clocks, about 13 KiB where they change twice a year.
 * Threads    Any number may ask one zone.
 */
#ifndef TICKWHEEL_CALENDAR_ZONE_H
#define TICKWHEEL_CALENDAR_ZONE_H

#include "base/bytes.h"
#include "base/error.h"

#define ZONE_FILE_SIZE_MAX (64 * 1024) /* the largest file has about 4 KiB */
#define ZONE_NAME_SIZE_MAX 63          /* the longest name has 32 */

/* Largest offset from UTC, in both directions. */
#define ZONE_OFFSET_S_MAX (26 * 3600)

struct zone;

/* A time without changes of the clocks: instants t with start <= t < end show t + offset_s. What
 * the clocks skip or repeat at its start follows from offset_before_s. */
struct zone_stretch {
    int64_t start;    /* INT64_MIN if it has no start */
    int64_t end;      /* INT64_MAX if it has no end */
    int32_t offset_s; /* east of UTC is positive */
    /* offset before `start`; equal to offset_s if the stretch has no start */
    int32_t offset_before_s;
};

/* Parses the contents of a TZif file, version 2 or later. */
enum error_code zone_parse(struct bytes file, struct zone **ret_zone, struct error *ret_error);

/* NULL and zone_utc() have no effect. */
void zone_destroy(struct zone *zone);

/* Returns UTC, which needs no file. */
const struct zone *zone_utc(void);

/* Returns the stretch that contains `at`. */
struct zone_stretch zone_stretch_at(const struct zone *zone, int64_t at);

/* Checks that `name` has the form of a zone's: parts of letters, digits, `_`, `+` and `-`,
 * joined by `/`, such as "America/Argentina/Buenos_Aires". So it is never absolute and never
 * leaves a folder. Names with another meaning on each machine ("localtime") and those that are
 * no zones of IANA ("posix/...", "right/...") are refused. ERROR_INVALID with the reason. */
enum error_code zone_name_check(struct bytes name, struct error *ret_error);

/* For tests: aborts unless every invariant of the zone holds. O(transitions). */
void zone_check(const struct zone *zone);

#endif
