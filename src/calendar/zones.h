/*
 * zones.h - time zones by name, from the tz database that is installed. An old name (US/Pacific)
 * whose file is missing is read from the file of the present name.
 *
 *     struct zones *zones;
 *     if (zones_create(ZONES_FOLDER, &zones, &error) == ERROR_NONE)
 *         code = zones_get(zones, BYTES("Europe/Berlin"), &zone, &error);
 *
 * A zone is read when it is first asked for, and again by zones_refresh after its file changed. A
 * zone whose file goes away stays as it was. Neither TZ nor any other variable of the environment
 * is looked at.
 *
 * Errors     ERROR_INVALID for a name that cannot be one, is not installed, or whose file is none;
 *            ERROR_TOO_MANY over ZONES_COUNT_MAX; ERROR_IO; ERROR_NO_MEMORY.
 * Ownership  A zone lives as long as its zones, also after zones_refresh has read another.
 * Threads    Any. The first to ask for a zone waits for the disk, with no lock held.
 */
#ifndef TICKWHEEL_CALENDAR_ZONES_H
#define TICKWHEEL_CALENDAR_ZONES_H

#include "calendar/absent.h"
#include "calendar/zone.h"

#include <stdatomic.h>

#define ZONES_FOLDER    "/usr/share/zoneinfo"
#define ZONES_COUNT_MAX 1024 /* the tz database has about 600 names */

struct zones;

/* Opens the tz database in `folder`. ERROR_NOT_FOUND if it has no UTC, so that a machine without
 * the database is noticed at the start. */
enum error_code zones_create(const char *folder, struct zones **ret_zones, struct error *ret_error);

/* Like zones_create, but also succeeds if the database is missing, because it may be installed
 * later. Fails only if memory is out. */
enum error_code zones_create_anyway(const char *folder, struct zones **ret_zones,
                                    struct error *ret_error);

/* Also frees the zones. NULL has no effect. */
void zones_destroy(struct zones *zones);

/* Returns the version of the database, such as "2025b"; "unknown" if its files do not say it. */
#define ZONES_VERSION_SIZE 16
void zones_version(struct zones *zones, char ret_version[ZONES_VERSION_SIZE]);

/* Returns the zone of exactly this name, in IANA's letter case. */
enum error_code zones_get(struct zones *zones, struct bytes name, const struct zone **ret_zone,
                          struct error *ret_error);

#define ZONES_SUGGESTION_SIZE 96

/* Finds the zone that is meant by a name in small letters or without its region, such as
 * "new_york". Returns false if there is none. */
bool zones_suggest(const struct zones *zones, struct bytes name,
                   char ret_name[ZONES_SUGGESTION_SIZE]);

/* Like zones_get, for a timer that needs the zone: if it is missing, the name is stored for
 * zones_missing. */
enum error_code zones_get_used(struct zones *zones, struct bytes name, const struct zone **ret_zone,
                               struct error *ret_error);

/* Returns the names for which zones_get_used found no zone, and which are still missing. */
void zones_missing(struct zones *zones, struct absent_names *ret_missing);

/* Reads the zones of changed files again, and looks for missing names. Reads the disk. */
void zones_refresh(struct zones *zones);

/* Returns a counter that changes when zones_refresh, or a name that was missing, has loaded
 * other data. */
const _Atomic uint64_t *zones_generation(const struct zones *zones);

#endif
