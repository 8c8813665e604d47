/*
 * holidays_testing.h - for tests: holidays as they are published, and days that rules of RFC 5545
 * name.
 *
 * The days were computed by other programs: the holidays of Bavaria by the Python package holidays,
 * those of the rules by icalendar with recurring-ical-events, from 2026 to 2028.
 */
#ifndef TICKWHEEL_CALENDAR_HOLIDAYS_TESTING_H
#define TICKWHEEL_CALENDAR_HOLIDAYS_TESTING_H

struct holidays_testing_day {
    const char *day, *name; /* names of several events have " | " between them */
};

static const struct holidays_testing_day holidays_testing_bavaria[] = {
    {"2026-01-01", "Neujahr"},
    {"2026-01-06", "Heilige Drei Könige"},
    {"2026-04-03", "Karfreitag"},
    {"2026-04-06", "Ostermontag"},
    {"2026-05-01", "Erster Mai"},
    {"2026-05-14", "Christi Himmelfahrt"},
    {"2026-05-25", "Pfingstmontag"},
    {"2026-06-04", "Fronleichnam"},
    {"2026-10-03", "Tag der Deutschen Einheit"},
    {"2026-11-01", "Allerheiligen"},
    {"2026-12-25", "Erster Weihnachtstag"},
    {"2026-12-26", "Zweiter Weihnachtstag"},
    {"2027-01-01", "Neujahr"},
    {"2027-01-06", "Heilige Drei Könige"},
    {"2027-03-26", "Karfreitag"},
    {"2027-03-29", "Ostermontag"},
    {"2027-05-01", "Erster Mai"},
    {"2027-05-06", "Christi Himmelfahrt"},
    {"2027-05-17", "Pfingstmontag"},
    {"2027-05-27", "Fronleichnam"},
    {"2027-10-03", "Tag der Deutschen Einheit"},
    {"2027-11-01", "Allerheiligen"},
    {"2027-12-25", "Erster Weihnachtstag"},
    {"2027-12-26", "Zweiter Weihnachtstag"},
    {"2028-01-01", "Neujahr"},
    {"2028-01-06", "Heilige Drei Könige"},
    {"2028-04-14", "Karfreitag"},
    {"2028-04-17", "Ostermontag"},
    {"2028-05-01", "Erster Mai"},
    {"2028-05-25", "Christi Himmelfahrt"},
    {"2028-06-05", "Pfingstmontag"},
    {"2028-06-15", "Fronleichnam"},
    {"2028-10-03", "Tag der Deutschen Einheit"},
    {"2028-11-01", "Allerheiligen"},
    {"2028-12-25", "Erster Weihnachtstag"},
    {"2028-12-26", "Zweiter Weihnachtstag"},
};

static const char holidays_testing_rules[] =
    "BEGIN:VCALENDAR\n"
    "VERSION:2.0\n"
    "PRODID:-//example//holidays//US\n"
    "BEGIN:VTIMEZONE\n"
    "TZID:America/New_York\n"
    "BEGIN:STANDARD\n"
    "DTSTART:20071104T020000\n"
    "TZOFFSETFROM:-0400\n"
    "TZOFFSETTO:-0500\n"
    "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=1SU\n"
    "END:STANDARD\n"
    "END:VTIMEZONE\n"
    "BEGIN:VEVENT\n"
    "UID:thanksgiving\n"
    "SUMMARY:Thanksgiving\n"
    "DTSTART;VALUE=DATE:20201126\n"
    "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH\n"
    "END:VEVENT\n"
    "BEGIN:VEVENT\n"
    "UID:memorial\n"
    "SUMMARY:Memorial Day\n"
    "DTSTART;VALUE=DATE:20200525\n"
    "RRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO;UNTIL=20280101\n"
    "END:VEVENT\n"
    "BEGIN:VEVENT\n"
    "UID:july4\n"
    "SUMMARY:Independence Day\n"
    "DTSTART;VALUE=DATE:20200704\n"
    "RRULE:FREQ=YEARLY\n"
    "EXDATE;VALUE=DATE:20270704\n"
    "END:VEVENT\n"
    "BEGIN:VEVENT\n"
    "UID:july4\n"
    "RECURRENCE-ID;VALUE=DATE:20260704\n"
    "SUMMARY:Independence Day (observed)\n"
    "DTSTART;VALUE=DATE:20260703\n"
    "END:VEVENT\n"
    "BEGIN:VEVENT\n"
    "UID:closed\n"
    "SUMMARY:Stocktaking\\, both days\n"
    "DTSTART;TZID=America/New_York:20260615T180000\n"
    "DTEND;TZID=America/New_York:20260617T000000\n"
    "RDATE;TZID=America/New_York:20270614T180000,20280612T180000\n"
    "END:VEVENT\n"
    "BEGIN:VEVENT\n"
    "UID:gone\n"
    "SUMMARY:Cancelled\n"
    "DTSTART;VALUE=DATE:20260901\n"
    "STATUS:CANCELLED\n"
    "END:VEVENT\n"
    "BEGIN:VEVENT\n"
    "UID:leap\n"
    "SUMMARY:Leap Day\n"
    "DTSTART;VALUE=DATE:20200229\n"
    "RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29\n"
    "END:VEVENT\n"
    "BEGIN:VEVENT\n"
    "UID:shutdown\n"
    "SUMMARY:Shut\n"
    " down\n"
    "DTSTART;VALUE=DATE:20261224\n"
    "DURATION:P9D\n"
    "RRULE:FREQ=YEARLY;COUNT=2\n"
    "END:VEVENT\n"
    "BEGIN:VEVENT\n"
    "UID:friday\n"
    "SUMMARY:First Friday\n"
    "DTSTART;VALUE=DATE:20260102\n"
    "RRULE:FREQ=MONTHLY;INTERVAL=3;BYDAY=FR;BYSETPOS=1;COUNT=6\n"
    "END:VEVENT\n"
    "BEGIN:VEVENT\n"
    "UID:weekly\n"
    "SUMMARY:Half term\n"
    "DTSTART;VALUE=DATE:20261005\n"
    "RRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=5\n"
    "END:VEVENT\n"
    "END:VCALENDAR\n";

static const struct holidays_testing_day holidays_testing_rule_days[] = {
    {"2026-01-02", "First Friday"},
    {"2026-04-03", "First Friday"},
    {"2026-05-25", "Memorial Day"},
    {"2026-06-15", "Stocktaking, both days"},
    {"2026-06-16", "Stocktaking, both days"},
    {"2026-07-03", "First Friday | Independence Day (observed)"},
    {"2026-10-02", "First Friday"},
    {"2026-10-05", "Half term"},
    {"2026-10-07", "Half term"},
    {"2026-10-12", "Half term"},
    {"2026-10-14", "Half term"},
    {"2026-10-19", "Half term"},
    {"2026-11-26", "Thanksgiving"},
    {"2026-12-24", "Shutdown"},
    {"2026-12-25", "Shutdown"},
    {"2026-12-26", "Shutdown"},
    {"2026-12-27", "Shutdown"},
    {"2026-12-28", "Shutdown"},
    {"2026-12-29", "Shutdown"},
    {"2026-12-30", "Shutdown"},
    {"2026-12-31", "Shutdown"},
    {"2027-01-01", "First Friday | Shutdown"},
    {"2027-04-02", "First Friday"},
    {"2027-05-31", "Memorial Day"},
    {"2027-06-14", "Stocktaking, both days"},
    {"2027-06-15", "Stocktaking, both days"},
    {"2027-11-25", "Thanksgiving"},
    {"2027-12-24", "Shutdown"},
    {"2027-12-25", "Shutdown"},
    {"2027-12-26", "Shutdown"},
    {"2027-12-27", "Shutdown"},
    {"2027-12-28", "Shutdown"},
    {"2027-12-29", "Shutdown"},
    {"2027-12-30", "Shutdown"},
    {"2027-12-31", "Shutdown"},
    {"2028-01-01", "Shutdown"},
    {"2028-02-29", "Leap Day"},
    {"2028-06-12", "Stocktaking, both days"},
    {"2028-06-13", "Stocktaking, both days"},
    {"2028-07-04", "Independence Day"},
    {"2028-11-23", "Thanksgiving"},
};

#endif
