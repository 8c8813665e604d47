/*
 * Goal: cron_next and cron_last give exactly the planned instants, around every change of the
 * clocks of every zone and in whole years, for every dst policy.
 * Method: a walk with the C library's localtime_r(), which knows nothing of zone.h: minute by
 * minute for two days around a change and for a whole year by chance, second by second where the
 * change begins and ends to matter. A reading is shown again when the walk has met it before; it is
 * skipped when the clock jumps over it from one second to the next. Whether a reading is planned is
 * what cron_oracle.h says. TEST_VERBOSE=1 names each zone.
 */
#include "calendar/cron_oracle.h"
#include "calendar/zone.h"
#include "database.h"

static const struct {
    int first, last;
} years[] = {{1970, 2040}, {2100, 2100}, {2400, 2400}, {2437, 2438}, {2838, 2838}, {9998, 9999}};

enum {
    DST_COUNT = 4,
    EXPRESSION_COUNT_MAX = 24,
    MANY = 100, /* instants along a walk: then one in seven is looked at, each time another */
    STEP_COUNT_MAX = 700000,         /* the minutes of a year, and what a walk adds near changes */
    READING_COUNT_MAX = 86400 * 384, /* that a walk may meet, from the first on */
    SECONDS_AROUND = 70,
};

/* Always looked at; others come by chance, for each zone. */
static const char *const texts[] = {
    "* * * * *",       "*/15 * * * *",  "30 * * * *",        "30 2 * * *",    "0 0 * * *",
    "15,45 1-3 * * *", "0 3 * * SUN",   "59 23 L * *",       "10 2 8-14 * 0", "*/7 0-22 * * *",
    "0 1 * * SUN#2",   "0 2 * * 0L",    "30 0,1,2,3 1W * *", "* * * * * *",   "30 59 1,2 * * *",
    "*/17 * * * * *",  "59 59 * * * *",
};

struct expression {
    const char *text;
    struct cron cron;
    struct cron_oracle oracle;
    bool is_hourly, has_seconds;
    char by_chance[ORACLE_TEXT_SIZE];
};

struct step {
    int64_t at, reading;
    struct cron_moment moment; /* the reading's */
    bool is_again;
    int64_t skipped_from; /* the clock jumped from here to `reading`; equal when it did not */
};

struct cron_walk {
    struct step *steps;
    size_t count;
    int64_t first, end; /* instants */
    int64_t reading_base;
    uint64_t reading_count;
    uint8_t *met; /* one bit a reading, from `reading_base` on */
};

static struct expression *expressions;
static size_t expression_count;
static uint64_t walk_count, change_count, compared_count, instant_count;

static void read_expressions(struct random *random)
{
    const size_t fixed = sizeof(texts) / sizeof(texts[0]);

    for (expression_count = 0; expression_count < EXPRESSION_COUNT_MAX;) {
        struct expression *expression = &expressions[expression_count];

        expression->text = expression->by_chance;
        if (expression_count < fixed)
            expression->text = texts[expression_count];
        else
            oracle_random(random, (int)(expression_count % 4 == 0), expression->by_chance);
        if (!oracle_read(bytes_of(expression->text), &expression->oracle))
            continue;
        REQUIRE(cron_parse(bytes_of(expression->text), &expression->cron, NULL) == ERROR_NONE, "%s",
                expression->text);
        expression->has_seconds = false;
        expression->is_hourly = oracle_is_hourly(&expression->oracle);
        for (unsigned second = 1; second < 60; second++)
            if (oracle_field(&expression->oracle, 0, second))
                expression->has_seconds = true;
        expression_count++;
    }
}

/* ---- the walk ---- */

static bool meets_again(struct cron_walk *walk, int64_t reading)
{
    uint64_t index = (uint64_t)(reading - walk->reading_base);

    REQUIRE(index < walk->reading_count, "a walk too long");
    bool was = walk->met[index / 8] >> index % 8 & 1;
    walk->met[index / 8] |= (uint8_t)(1u << index % 8);
    return was;
}

static void add_step(struct cron_walk *walk, int64_t at, int64_t reading, int64_t skipped_from)
{
    bool is_again = meets_again(walk, reading);

    REQUIRE(walk->count < STEP_COUNT_MAX, "too many steps");
    walk->steps[walk->count++] =
        (struct step){at, reading, oracle_moment(reading), is_again, skipped_from};
}

/* From `first` to `end`: each second, or each full minute on the clock and each second at which the
 * clock jumps. */
static void walk_along(struct cron_walk *walk, int64_t first, int64_t end, int stride)
{
    int64_t at = first, reading = at + database_offset(at);

    for (; stride > 1 && reading % stride; at++, reading++)
        ; /* no change of the clocks begins a walk */
    walk->first = at;
    walk->end = end;
    walk->count = 0;
    add_step(walk, at, reading, reading);
    for (;;) {
        int64_t near = at + stride - floor_modulo(reading, stride);

        if (near >= end)
            break;
        int64_t shown = near + database_offset(near);
        if (shown - reading == near - at) {
            at = near;
            reading = shown;
            add_step(walk, at, reading, reading);
            continue;
        }
        for (near = at + 1;; near++) { /* where, to the second */
            shown = near + database_offset(near);
            if (shown - reading != near - at)
                break;
        }
        add_step(walk, near, shown, reading + (near - at));
        at = near;
        reading = shown;
    }
}

/* A walk of so many days, and what its readings may lie beside it. */
static void begin(struct cron_walk *walk, int64_t first, unsigned days)
{
    walk->reading_count = (days + 4) * SECONDS_PER_DAY;
    walk->reading_base = first - 2 * SECONDS_PER_DAY;
    REQUIRE(walk->reading_count <= READING_COUNT_MAX, "a walk too long");
    memset(walk->met, 0, walk->reading_count / 8);
    walk_count++;
}

/* ---- what is planned on it ---- */

/* Whether a reading from `from` up to `to` is planned, minute by minute or second by second. */
static bool skips_planned(struct expression *expression, int64_t from, int64_t to)
{
    int stride = expression->has_seconds ? 1 : 60;

    for (from += floor_modulo(-from, stride); from < to; from += stride) {
        struct cron_moment moment = oracle_moment(from);

        if (oracle_plans(&expression->oracle, &moment))
            return true;
    }
    return false;
}

static bool fires(const struct expression *expression, enum cron_dst dst, const struct step *step,
                  bool has_planned, bool has_skipped)
{
    if (has_skipped && dst != CRON_DST_SKIP)
        return true;
    if (!has_planned)
        return false;
    return !step->is_again || dst == CRON_DST_BOTH ||
           (dst != CRON_DST_FIRST && expression->is_hourly);
}

/* From the end of the walk back to the last of it, over what nothing is planned for; -1: none. */
static void check_end(const char *name, const struct zone *zone,
                      const struct expression *expression, enum cron_dst dst,
                      const struct cron_walk *walk, int64_t planned)
{
    struct wall end = {(uint64_t)walk->end * 1000 - 1};
    struct wall last = cron_last(&expression->cron, zone, dst, end);

    REQUIRE(planned >= 0 ? last.ms == (uint64_t)planned * 1000
                         : last.ms == WALL_NEVER.ms || last.ms < (uint64_t)walk->first * 1000,
            "%s, '%s' %s: %llu before %lld", name, expression->text, cron_dst_text(dst),
            (unsigned long long)last.ms / 1000, (long long)walk->end);
}

/* What follows on each planned instant is the next; what comes before, the one before. */
static void compare(const char *name, const struct zone *zone, const struct expression *expression,
                    enum cron_dst dst, const struct cron_walk *walk, const int64_t *planned,
                    size_t count)
{
    size_t stride = count > MANY ? 7 : 1;

    for (size_t i = compared_count % stride; i <= count; i += stride) {
        int64_t before = i ? planned[i - 1] : walk->first - 1;
        struct wall next =
            cron_next(&expression->cron, zone, dst, (struct wall){(uint64_t)before * 1000 + 999});

        if (i == count) {
            REQUIRE(next.ms >= (uint64_t)walk->end * 1000, "%s, '%s' %s: %llu is not planned", name,
                    expression->text, cron_dst_text(dst), (unsigned long long)next.ms / 1000);
            break;
        }
        REQUIRE(next.ms == (uint64_t)planned[i] * 1000, "%s, '%s' %s: %llu, not %lld", name,
                expression->text, cron_dst_text(dst), (unsigned long long)next.ms / 1000,
                (long long)planned[i]);
        REQUIRE(cron_last(&expression->cron, zone, dst, next).ms == next.ms, "%s, '%s' %s: %lld",
                name, expression->text, cron_dst_text(dst), (long long)planned[i]);
        struct wall last = cron_last(&expression->cron, zone, dst, (struct wall){next.ms - 1});
        REQUIRE(i ? last.ms == (uint64_t)planned[i - 1] * 1000
                  : last.ms == WALL_NEVER.ms || last.ms < (uint64_t)walk->first * 1000,
                "%s, '%s' %s: before %lld", name, expression->text, cron_dst_text(dst),
                (long long)planned[i]);
    }
    check_end(name, zone, expression, dst, walk, count ? planned[count - 1] : -1);
    instant_count += count;
    compared_count++;
}

/* All policies of one expression along a walk. */
static void check_expression(const char *name, const struct zone *zone,
                             struct expression *expression, const struct cron_walk *walk)
{
    static int64_t planned[DST_COUNT][STEP_COUNT_MAX];
    size_t counts[DST_COUNT] = {0};

    for (size_t i = 0; i < walk->count; i++) {
        const struct step *step = &walk->steps[i];
        bool has_planned = oracle_plans(&expression->oracle, &step->moment);
        bool has_skipped = step->skipped_from < step->reading &&
                           skips_planned(expression, step->skipped_from, step->reading);

        if (!has_planned && !has_skipped)
            continue;
        for (unsigned dst = 0; dst < DST_COUNT; dst++)
            if (fires(expression, (enum cron_dst)dst, step, has_planned, has_skipped))
                planned[dst][counts[dst]++] = step->at;
    }
    for (unsigned dst = 0; dst < DST_COUNT; dst++)
        compare(name, zone, expression, (enum cron_dst)dst, walk, planned[dst], counts[dst]);
}

static void check_expressions(const char *name, const struct zone *zone,
                              const struct cron_walk *walk, int stride)
{
    for (size_t i = 0; i < expression_count; i++)
        if (stride == 1 || !expressions[i].has_seconds)
            check_expression(name, zone, &expressions[i], walk);
}

/* ---- a zone ---- */

/* The minutes of two days and more around the change; then the seconds around it, and around where
 * what it repeats begins and ends. */
static void check_change(const char *name, const struct zone *zone, int64_t at, int64_t jump,
                         struct cron_walk *walk)
{
    int64_t from = at - jump - SECONDS_AROUND;

    begin(walk, at - jump - SECONDS_PER_DAY, 6);
    walk_along(walk, at - jump - SECONDS_PER_DAY, at + jump + SECONDS_PER_DAY, 60);
    check_expressions(name, zone, walk, 60);

    begin(walk, from, 4);
    for (int side = -1; side <= 1; side++) {
        int64_t middle = at + side * jump;
        walk_along(walk, from > middle - SECONDS_AROUND ? from : middle - SECONDS_AROUND,
                   middle + SECONDS_AROUND, 1);
        check_expressions(name, zone, walk, 1);
        from = middle + SECONDS_AROUND;
    }
    change_count++;
}

static int64_t year_start(int year)
{
    return calendar_days(year, 1, 1) * SECONDS_PER_DAY;
}

static void check_zone(const char *name, const struct zone *zone, struct random *random,
                       struct cron_walk *walk)
{
    int year = 1971 + (int)random_below(random, 130);

    for (size_t i = 0; i < sizeof(years) / sizeof(years[0]); i++) {
        int64_t last = year_start(years[i].last + 1) - 4 * SECONDS_PER_DAY;
        int64_t at = year_start(years[i].first) + 4 * SECONDS_PER_DAY;

        while ((at = zone_stretch_at(zone, at).end) < last) {
            struct zone_stretch stretch = zone_stretch_at(zone, at);
            check_change(name, zone, at, labs(stretch.offset_s - stretch.offset_before_s), walk);
        }
    }
    int64_t start = year_start(year); /* not where something could be shown again */
    while (zone_stretch_at(zone, start).start > start - 2 * SECONDS_PER_DAY)
        start += SECONDS_PER_DAY;
    begin(walk, start, 367);
    walk_along(walk, start, year_start(year + 1), 60);
    check_expressions(name, zone, walk, 60);
}

int main(void)
{
    struct random random = database_random();

    setvbuf(stdout, NULL, _IOLBF, 0);
    struct database database;
    database_open(&database, &random);
    struct cron_walk walk;
    walk.steps = calloc(STEP_COUNT_MAX, sizeof(*walk.steps));
    walk.met = malloc(READING_COUNT_MAX / 8);
    REQUIRE(walk.steps && walk.met, "memory");
    size_t rounds = database_rounds(4, database.count);
    expressions = calloc(EXPRESSION_COUNT_MAX, sizeof(*expressions));
    REQUIRE(expressions, "memory");
    for (size_t i = 0; i < rounds; i++) {
        read_expressions(&random);
        if (getenv("TEST_VERBOSE"))
            printf("%s\n", database.names[i]);
        check_zone(database.names[i], database_enter(&database, i), &random, &walk);
    }
    printf("%zu of %zu zones (%zu names) x years 1970-2040, 2100, 2400, 2437-2438, 2838, 9998-9999 "
           "x %d policies x %zu expressions: %llu changes of the clocks, %llu walks, %llu "
           "comparisons, %llu instants, all equal\n",
           rounds, database.count, database.name_count, DST_COUNT, expression_count,
           (unsigned long long)change_count, (unsigned long long)walk_count,
           (unsigned long long)compared_count, (unsigned long long)instant_count);
    free(walk.steps);
    free(walk.met);
    free(expressions);
    database_close(&database);
    return 0;
}
