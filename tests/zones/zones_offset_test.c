/*
 * Goal: a zone shows what the C library shows, at every hour from 1970 to 2040, in years far on,
 * and at each second around each change of the clocks.
 * Method: the C library reads the same database by TZ, with code of its own. It is asked every
 * hour, and where its answer changes, at each step of a bisection down to the second: so a change
 * that zone.h does not know is found too.
 */
#include "calendar/calendar.h"
#include "calendar/zone.h"
#include "database.h"

static const struct {
    int first, last;
} years[] = {{1970, 2040}, {2099, 2101}, {2399, 2401}, {2436, 2439}, {2836, 2839}, {9998, 9999}};

static uint64_t moment_count, change_count;

/* Returns the offset. */
static int32_t check_moment(const char *name, const struct zone *zone, int64_t at)
{
    struct zone_stretch stretch = zone_stretch_at(zone, at);
    int32_t expected = database_offset(at);

    REQUIRE(stretch.start <= at && at < stretch.end, "%s at %lld", name, (long long)at);
    REQUIRE(stretch.offset_s == expected, "%s at %lld: %d, not %d", name, (long long)at,
            stretch.offset_s, expected);
    moment_count++;
    return expected;
}

/* The clocks change after `low` and not after `high`: finds the second. */
static void check_change(const char *name, const struct zone *zone, int64_t low, int64_t high)
{
    int32_t before = database_offset(low);

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (check_moment(name, zone, middle) == before)
            low = middle;
        else
            high = middle;
    }
    struct zone_stretch stretch = zone_stretch_at(zone, high);
    REQUIRE(stretch.start == high && stretch.offset_before_s == before, "%s at %lld", name,
            (long long)high);
    REQUIRE(zone_stretch_at(zone, low).end == high, "%s at %lld", name, (long long)low);
    change_count++;
}

static void check_zone(const char *name, const struct zone *zone)
{
    zone_check(zone);
    for (size_t i = 0; i < sizeof(years) / sizeof(years[0]); i++) {
        int64_t end = calendar_days(years[i].last + 1, 1, 1) * SECONDS_PER_DAY;
        int64_t at = calendar_days(years[i].first, 1, 1) * SECONDS_PER_DAY;
        int32_t before = check_moment(name, zone, at), offset_s;

        for (; at < end; at += 3600, before = offset_s) {
            offset_s = check_moment(name, zone, at);
            if (offset_s != before)
                check_change(name, zone, at - 3600, at);
        }
    }
}

int main(void)
{
    struct random random = database_random();
    struct database database;

    database_open(&database, &random);
    size_t rounds = database_rounds(8, database.count);
    for (size_t i = 0; i < rounds; i++)
        check_zone(database.names[i], database_enter(&database, i));
    printf("%zu of %zu zones: %llu moments and %llu changes, all as the C library has them\n",
           rounds, database.count, (unsigned long long)moment_count,
           (unsigned long long)change_count);
    database_close(&database);
    return 0;
}
