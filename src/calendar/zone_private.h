/*
 * zone_private.h - how a zone is kept: shared by its reader and its queries.
 */
#ifndef TICKWHEEL_CALENDAR_ZONE_PRIVATE_H
#define TICKWHEEL_CALENDAR_ZONE_PRIVATE_H

#include "calendar/calendar.h"
#include "calendar/zone.h"

struct zone_transition {
    int64_t at;       /* first instant with the new offset */
    int32_t offset_s; /* offset from `at` on */
};

struct zone {
    int32_t offset_first_s; /* offset before the first transition */
    uint32_t transition_count;

    /* Index of the first transition that repeats every 400 years; the count if none does. */
    uint32_t cycle_first;

    /* Sorted by `at`. Each changes the offset. The distance of two is at least the sum of their
     * changes, so that what they skip or repeat cannot overlap. */
    struct zone_transition transitions[];
};

#define ZONE_CYCLE_S ((int64_t)DAYS_PER_400_YEARS * SECONDS_PER_DAY)

/* ---- the rule of a footer: "CET-1CEST,M3.5.0,M10.5.0/3" ---- */

struct zone_rule_day {
    char kind;             /* 'J': day 1 .. 365, never the leap day; 'D': 0 .. 365; 'M' */
    uint8_t month, week;   /* M: 1 .. 12; 1 .. 5, where 5 is the last */
    uint16_t day;          /* M: 0 .. 6, 0 is Sunday */
    int32_t time_of_day_s; /* of the change, by the clock before it; may exceed a day */
};

struct zone_rule {
    int32_t offset_s; /* offset of standard time */
    bool has_summer;  /* otherwise the rest is unused */
    int32_t summer_offset_s;
    struct zone_rule_day summer_start, summer_end;
};

/* Parses the whole text strictly. Returns false if it is no rule, or names a summer time without
 * its dates. */
bool zone_rule_parse(struct bytes text, struct zone_rule *ret_rule);

/* Returns the begin and the end of summer in `year`. In a southern zone the end is earlier. */
void zone_rule_year(const struct zone_rule *rule, int year, int64_t *ret_start, int64_t *ret_end);

#endif
