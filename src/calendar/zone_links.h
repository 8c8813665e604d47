/*
 * zone_links.h - old names of time zones, such as US/Pacific for America/Los_Angeles. Systems leave
 * them out: Debian has them in tzdata-legacy since version 13.
 *
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_CALENDAR_ZONE_LINKS_H
#define TICKWHEEL_CALENDAR_ZONE_LINKS_H

/* Returns the present name of the zone, which is no old name itself; NULL if `name` is none. */
const char *zone_link_target(const char *name);

#endif
