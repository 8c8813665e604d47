/*
 * zones.h - time zones by name, from the tz database that is installed.
 *
 *     struct zones *zones;
 *     if (zones_create(ZONES_FOLDER, &zones, &error) == ERROR_NONE)
 *         code = zones_get(zones, BYTES("Europe/Berlin"), &zone, &error);
 *
 * A zone is read when it is first asked for and kept until zones_destroy; a newer database is seen
 * after a restart. Neither TZ nor any other variable of the environment is looked at.
 *
 * Errors     ERROR_INVALID for a name that cannot be one, is not installed, or whose file is none;
 *            ERROR_TOO_MANY over ZONES_COUNT_MAX; ERROR_IO; ERROR_NO_MEMORY.
 * Ownership  A zone lives as long as its zones.
 * Threads    Any. The first to ask for a zone waits for the disk, with no lock held.
 */
#ifndef TICKWHEEL_CALENDAR_ZONES_H
#define TICKWHEEL_CALENDAR_ZONES_H

#include "calendar/zone.h"

#define ZONES_FOLDER    "/usr/share/zoneinfo"
#define ZONES_COUNT_MAX 1024 /* the database has about 600 names */

struct zones;

/* `folder` is where the tz database lies. ERROR_NOT_FOUND when it has no UTC, so that a machine
 * without the database is noticed at the start. */
enum error_code zones_create(const char *folder, struct zones **ret_zones, struct error *ret_error);

/* Frees the zones too; NULL is fine. */
void zones_destroy(struct zones *zones);

/* The version of the database, such as "2025b"; "unknown" when its files do not tell. */
const char *zones_version(const struct zones *zones);

/* The zone of that very name, upper and lower case as IANA has them. */
enum error_code zones_get(struct zones *zones, struct bytes name, const struct zone **ret_zone,
                          struct error *ret_error);

#endif
