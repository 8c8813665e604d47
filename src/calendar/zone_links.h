/*
 * zone_links.h - old names of time zones, such as US/Pacific for America/Los_Angeles. Systems leave
 * them out: Debian has them in tzdata-legacy since version 13.
 *
 * Threads    Any: pure functions.
 */
#ifndef TICKWHEEL_CALENDAR_ZONE_LINKS_H
#define TICKWHEEL_CALENDAR_ZONE_LINKS_H

/* Returns the present name of an old name of a zone; NULL if `name` is no old name. */
const char *zone_link_target(const char *name);

#endif
