/*
 * ical.h - reads the days of an iCalendar file (RFC 5545), by libical.
 *
 * Each VEVENT names the days from its DTSTART to its DTEND or DURATION, again by RRULE and RDATE,
 * without those of EXDATE. A VEVENT with RECURRENCE-ID replaces one of these, and STATUS:CANCELLED
 * removes it. The date of a time is the one that is written, whatever its zone. Other components
 * are skipped.
 *
 * Errors     As holidays_parse. ERROR_INVALID for rules that repeat more often than daily, have
 *            BYWEEKNO, or do not name their own DTSTART: one line of them could cost hours.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CALENDAR_ICAL_H
#define TICKWHEEL_CALENDAR_ICAL_H

#include "calendar/holidays.h"

#define ICAL_EVENTS_MAX 2000   /* maximum of VEVENTs of a file */
#define ICAL_STEPS_MAX  100000 /* maximum of instances and exceptions of all rules, until 2100 */

/* Adds the days of the file to `draft`. */
enum error_code ical_parse(struct bytes text, struct holidays_draft *draft,
                           struct error *ret_error);

#endif
