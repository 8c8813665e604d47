/*
 * zone_fuzz - whatever is read as a zone keeps every invariant, its stretches lie side by side, and
 * a cron expression finds its way through it in both directions.
 */
#include "calendar/zone.h"

#include "calendar/cron.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void zone_fuzz_require(bool condition)
{
    if (!condition)
        abort();
}

static void check_stretches(const struct zone *zone, int64_t at)
{
    struct zone_stretch stretch = zone_stretch_at(zone, at);

    for (int i = 0; i < 50 && stretch.end != INT64_MAX; i++) {
        struct zone_stretch next = zone_stretch_at(zone, stretch.end);
        zone_fuzz_require(next.start == stretch.end && next.end > next.start);
        zone_fuzz_require(next.offset_before_s == stretch.offset_s &&
                          next.offset_s != stretch.offset_s);
        stretch = zone_stretch_at(zone, stretch.end - 1);
        zone_fuzz_require(stretch.end == next.start);
        stretch = next;
    }
}

static void check_cron(const struct zone *zone, const char *text)
{
    struct cron cron;

    zone_fuzz_require(cron_parse(bytes_of(text), &cron, NULL) == ERROR_NONE);
    for (unsigned dst = 0; dst < 4; dst++) {
        struct wall at = {0};

        for (int i = 0; i < 50; i++) {
            struct wall next = cron_next(&cron, zone, (enum cron_dst)dst, at);

            if (next.ms == WALL_NEVER.ms)
                break;
            zone_fuzz_require(next.ms > at.ms);
            zone_fuzz_require(cron_last(&cron, zone, (enum cron_dst)dst, next).ms == next.ms);
            if (i)
                zone_fuzz_require(
                    cron_last(&cron, zone, (enum cron_dst)dst, (struct wall){next.ms - 1}).ms ==
                    at.ms);
            at = next;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zone *zone;

    if (zone_parse((struct bytes){(const char *)data, size}, &zone, NULL))
        return 0;
    zone_check(zone);
    check_stretches(zone, INT64_MIN);
    check_stretches(zone, 0);
    check_stretches(zone, INT64_C(4102444800));
    check_stretches(zone, INT64_C(253402300799));
    check_cron(zone, "30 2 * * *");
    check_cron(zone, "15 */7 L * *");
    zone_destroy(zone);
    return 0;
}
