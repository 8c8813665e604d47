/*
 * cron_fuzz - a text is an expression for cron.h exactly when it is one for cron_oracle.h; and
 * then, in a zone whose clocks are changed, what comes next is later, is planned, and is what came
 * last.
 */
#include "base/check.h"
#include "calendar/cron.h"

#include "calendar/cron_oracle.h"
#include "calendar/zone_testing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* At the start of a stretch the reading may be another: one that the clocks jumped over. */
static void check_planned(struct cron_oracle *oracle, const struct zone *zone, struct wall wall)
{
    int64_t at = (int64_t)(wall.ms / 1000);
    struct zone_stretch stretch = zone_stretch_at(zone, at);
    struct cron_moment moment = oracle_moment(at + stretch.offset_s);
    int64_t skipped = at + stretch.offset_before_s;
    bool is_planned = oracle_plans(oracle, &moment);

    for (; !is_planned && at == stretch.start && skipped < at + stretch.offset_s; skipped++) {
        moment = oracle_moment(skipped);
        is_planned = oracle_plans(oracle, &moment);
    }
    CHECK(is_planned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cron_oracle oracle;
    static struct zone *zone;
    struct bytes text = {(const char *)data, size};
    struct random random = random_seeded(size);

    if (!zone)
        zone = zone_testing_rule("EST5EDT,M3.2.0,M11.1.0");
    struct cron cron;
    if (cron_parse(text, &cron, NULL)) {
        CHECK(!oracle_read(text, &oracle));
        return 0;
    }
    CHECK(oracle_read(text, &oracle));
    CHECK(cron_can_fire(&cron));
    for (size_t i = 0; i < size; i++)
        random.state_ = random_mix(random.state_ + data[i]);
    for (int i = 0; i < 8; i++) {
        struct wall after = {random_below(&random, UINT64_C(8000000000000))};
        enum cron_dst dst = (enum cron_dst)(i % 4);
        struct wall next = cron_next(&cron, zone, dst, after);

        if (next.ms == WALL_NEVER.ms) { /* planned for what no clock there shows */
            CHECK(dst == CRON_DST_SKIP);
            continue;
        }
        CHECK(next.ms > after.ms && next.ms % 1000 == 0);
        check_planned(&oracle, zone, next);
        CHECK(cron_last(&cron, zone, dst, next).ms == next.ms);
        CHECK(cron_next(&cron, zone, dst, (struct wall){next.ms - 1}).ms == next.ms);
        after = cron_last(&cron, zone, dst, (struct wall){next.ms - 1});
        CHECK(after.ms == WALL_NEVER.ms || cron_next(&cron, zone, dst, after).ms == next.ms);
    }
    return 0;
}
