/*
 * zone_fuzz - whatever is read as a zone keeps every invariant, its stretches lie side by side, and
 * a cron expression finds its way through it in both directions.
 */
#include "base/check.h"
#include "calendar/zone.h"

#include "calendar/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_stretches(const struct zone *zone, int64_t at)
{
    struct zone_stretch stretch = zone_stretch_at(zone, at);

    for (int i = 0; i < 50 && stretch.end != INT64_MAX; i++) {
        struct zone_stretch next = zone_stretch_at(zone, stretch.end);
        CHECK(next.start == stretch.end && next.end > next.start);
        CHECK(next.offset_before_s == stretch.offset_s && next.offset_s != stretch.offset_s);
        stretch = zone_stretch_at(zone, stretch.end - 1);
        CHECK(stretch.end == next.start);
        stretch = next;
    }
}

static void check_cron(const struct zone *zone, const char *text)
{
    struct cron cron;

    CHECK(cron_parse(bytes_of(text), &cron, NULL) == ERROR_NONE);
    for (unsigned dst = 0; dst < 4; dst++) {
        struct wall at = {0};

        for (int i = 0; i < 50; i++) {
            struct wall next = cron_next(&cron, zone, (enum cron_dst)dst, at);

            if (next.ms == WALL_NEVER.ms)
                break;
            CHECK(next.ms > at.ms);
            CHECK(cron_last(&cron, zone, (enum cron_dst)dst, next).ms == next.ms);
            if (i)
                CHECK(cron_last(&cron, zone, (enum cron_dst)dst, (struct wall){next.ms - 1}).ms ==
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
