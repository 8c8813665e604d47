/* rhythm.c - draws schedules, and tells which instants they plan. */
#include "rhythm.h"

#include "world.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *text;
    uint64_t period_ms;
} crons[RHYTHM_CRONS] = {
    {"* * * * * *", 1000},    {"*/10 * * * * *", 10 * 1000},   {"* * * * *", 60 * 1000},
    {"@hourly", 3600 * 1000}, {"0 0 * * *", 24 * 3600 * 1000},
};

/* ---- planned instants ---- */

static uint64_t base_ms(const struct rhythm *rhythm)
{
    return rhythm->cron ? 0 : rhythm->from.ms;
}

static bool is_planned(const struct rhythm *rhythm, uint64_t ms)
{
    const uint64_t base = base_ms(rhythm);

    return ms >= base && (ms - base) % rhythm->period_ms == 0 && ms <= rhythm->until.ms &&
           ms <= WALL_MS_MAX && (!rhythm->count || (ms - base) / rhythm->period_ms < rhythm->count);
}

/* Returns the first instant after `after`, as if the schedule had no end. */
static uint64_t next_ms(const struct rhythm *rhythm, uint64_t after)
{
    const uint64_t base = base_ms(rhythm);

    if (after < base)
        return base;
    return after - (after - base) % rhythm->period_ms + rhythm->period_ms;
}

static bool follows(const struct rhythm *rhythm, uint64_t previous, uint64_t now, uint64_t next)
{
    const uint64_t period = rhythm->period_ms;

    if (now > rhythm->drop_after_ms && previous < now - rhythm->drop_after_ms - 1)
        previous = now - rhythm->drop_after_ms - 1; /* earlier instants are too late */
    if (next == WALL_NEVER.ms)
        return !is_planned(rhythm, next_ms(rhythm, previous));
    if (next <= previous || !is_planned(rhythm, next))
        return false;
    /* the last instant that was missed: the next one is still to come */
    if (!rhythm->is_each && next <= now)
        return next + period > now || !is_planned(rhythm, next + period);
    return next < base_ms(rhythm) + period || next - period <= previous;
}

bool rhythm_follows(const struct rhythm *rhythm, struct wall due, struct wall now, struct wall next)
{
    const uint64_t spread_ms = rhythm->spread_ms;
    const uint64_t previous = due.ms > spread_ms ? due.ms - spread_ms : 0;
    const uint64_t at = now.ms > spread_ms ? now.ms - spread_ms : 0;

    if (!rhythm_recurs(rhythm))
        return next.ms == WALL_NEVER.ms;
    if (next.ms == WALL_NEVER.ms)
        return follows(rhythm, previous, at, WALL_NEVER.ms);
    if (next.ms == WALL_MS_MAX) /* the largest time, at which the spread is cut off */
        return follows(rhythm, previous, at, next_ms(rhythm, previous)) ||
               follows(rhythm, previous, at, next_ms(rhythm, at) - rhythm->period_ms);
    return next.ms >= spread_ms && follows(rhythm, previous, at, next.ms - spread_ms);
}

struct wall rhythm_after(const struct rhythm *rhythm, struct wall due)
{
    const uint64_t spread_ms = rhythm->spread_ms;

    if (!rhythm_recurs(rhythm))
        return WALL_NEVER;
    const uint64_t next = next_ms(rhythm, due.ms > spread_ms ? due.ms - spread_ms : 0);
    if (!is_planned(rhythm, next))
        return WALL_NEVER;
    return wall_min((struct wall){next + spread_ms}, (struct wall){WALL_MS_MAX});
}

bool rhythm_skips_to(const struct rhythm *rhythm, struct wall due, struct wall now,
                     struct wall next)
{
    return rhythm_after(rhythm, wall_max(due, now)).ms == next.ms;
}

struct wall rhythm_latest(const struct rhythm *rhythm, struct wall due, struct wall now)
{
    const uint64_t period = rhythm->period_ms, spread_ms = rhythm->spread_ms;

    if (!rhythm_recurs(rhythm) || rhythm->is_each || now.ms < spread_ms + base_ms(rhythm) ||
        rhythm->until.ms < base_ms(rhythm)) /* created by a clock that was ahead */
        return due;
    uint64_t at = now.ms - spread_ms;
    at -= (at - base_ms(rhythm)) % period;
    if (at > rhythm->until.ms)
        at = rhythm->until.ms - (rhythm->until.ms - base_ms(rhythm)) % period;
    if (rhythm->count && (at - base_ms(rhythm)) / period >= rhythm->count)
        at = base_ms(rhythm) + (rhythm->count - 1) * period;
    return wall_max(due, (struct wall){at + spread_ms});
}

bool rhythm_plans_same(const struct rhythm *a, const struct rhythm *b)
{
    if (!rhythm_recurs(a) || !rhythm_recurs(b) || a->cron != b->cron ||
        a->spread_ms != b->spread_ms || a->is_from_named != b->is_from_named)
        return false;
    return a->cron || (a->period_ms == b->period_ms && a->count == b->count &&
                       (!a->is_from_named || a->from.ms == b->from.ms));
}

/* ---- requested schedules ---- */

static void draw_end(struct world *world, struct rhythm *rhythm, uint64_t first)
{
    const uint64_t more = world_skewed(world, 12);

    if (rhythm->cron || world_chance(world, 500))
        rhythm->until.ms = first + more * rhythm->period_ms + world_below(world, 2);
    else
        rhythm->count = (first - rhythm->from.ms) / rhythm->period_ms + 1 + more;
}

static void draw_every(struct world *world, struct rhythm *rhythm, struct wall created)
{
    static const uint64_t periods[] = {1, 7, 50, 1000, 10000, 3600 * 1000, UINT64_C(40) * 86400000};

    rhythm->period_ms = periods[world_below(world, sizeof(periods) / sizeof(*periods))];
    rhythm->is_from_named = world_chance(world, 400);
    rhythm->from = wall_add(created, rhythm->period_ms);
    if (rhythm->is_from_named) {
        rhythm->from.ms = created.ms + world_skewed(world, 3 * rhythm->period_ms);
        if (world_chance(world, 300) && created.ms > 5 * rhythm->period_ms)
            rhythm->from.ms = created.ms - world_below(world, 5 * rhythm->period_ms);
    }
}

static uint64_t draw_drop(struct world *world)
{
    static const uint64_t afters[] = {1, 20, 500, 20000, 3600 * 1000};

    return world_chance(world, world->plan.drop_permille)
               ? afters[world_below(world, sizeof(afters) / sizeof(*afters))]
               : UINT64_MAX;
}

struct rhythm rhythm_draw(struct world *world, struct wall created, struct wall *ret_due)
{
    struct rhythm rhythm = RHYTHM_NONE;

    rhythm.drop_after_ms = draw_drop(world);
    if (!world_chance(world, world->plan.rhythm_permille))
        return rhythm;
    if (world_chance(world, 300)) {
        rhythm.cron = (uint8_t)(1 + world_below(world, RHYTHM_CRONS));
        rhythm.period_ms = crons[rhythm.cron - 1].period_ms;
    } else {
        draw_every(world, &rhythm, created);
    }
    uint64_t first = next_ms(&rhythm, created.ms - 1);
    rhythm.is_each = world_chance(world, 400);
    if (rhythm.is_each || world_chance(world, 700))
        draw_end(world, &rhythm, first);
    if (world_chance(world, 200))
        rhythm.spread_ms = world_skewed(world, rhythm.period_ms);
    if (!is_planned(&rhythm, first) || first + rhythm.spread_ms >= WALL_MS_MAX)
        return RHYTHM_NONE; /* the API would refuse it */
    /* drawn beside the random draws of the run, so that old seeds keep their runs */
    rhythm.is_skipping =
        !rhythm.is_each &&
        random_mix(world->settings->seed ^ (uint64_t)world->model.token << 7) % 4 == 0;
    rhythm.is_apart =
        !rhythm.is_skipping &&
        random_mix(world->settings->seed ^ (uint64_t)world->model.token << 11) % 1000 <
            world->plan.apart_permille;
    ret_due->ms = first + rhythm.spread_ms;
    return rhythm;
}

/* ---- backfills ---- */

enum { BACKFILLED_MAX = 8 };

static const struct {
    const char *text;
    uint64_t pace_ms;
} rates[] = {{"1000/s", 1}, {"10/s", 100}, {"60/m", 1000}, {"1/m", 60 * 1000}};

uint64_t rhythm_pace_ms(const struct rhythm *rhythm)
{
    return rhythm->backfill.count ? rates[rhythm->backfill.rate].pace_ms : 0;
}

struct bytes rhythm_rate(const struct rhythm *rhythm)
{
    return bytes_of(rates[rhythm->backfill.rate].text);
}

bool rhythm_draw_backfill(struct world *world, const struct rhythm *rhythm,
                          const struct timer_id *of, struct wall now, struct rhythm *ret_backfill,
                          struct wall *ret_due)
{
    const uint64_t period = rhythm->period_ms, base = base_ms(rhythm);
    const uint64_t wanted = 1 + world_below(world, BACKFILLED_MAX);

    if (now.ms < base + rhythm->spread_ms + period)
        return false;
    uint64_t last = now.ms - rhythm->spread_ms - 1, count = 1;
    last -= (last - base) % period;
    if (!is_planned(rhythm, last))
        return false;
    uint64_t first = last;
    while (count < wanted && first >= base + period) {
        first -= period;
        count++;
    }
    struct rhythm backfill = *rhythm;
    backfill.is_from_named = !rhythm->cron;
    backfill.until.ms = last;
    backfill.is_each = true;
    backfill.is_skipping = false;
    backfill.drop_after_ms = UINT64_MAX;
    backfill.backfill.of = *of;
    backfill.backfill.from.ms = first + rhythm->spread_ms;
    backfill.backfill.to.ms = last + rhythm->spread_ms + 1;
    backfill.backfill.rate = (uint8_t)world_below(world, sizeof(rates) / sizeof(*rates));
    backfill.backfill.count = count;
    backfill.backfill.done = 0;
    *ret_backfill = backfill;
    ret_due->ms = first + rhythm->spread_ms;
    return true;
}

struct bytes rhythm_text(const struct rhythm *rhythm, char ret_text[RHYTHM_TEXT_SIZE])
{
    struct bytes text = {ret_text, 0};

    if (!rhythm_recurs(rhythm) && rhythm->drop_after_ms == UINT64_MAX &&
        !rhythm->backfill.of.serial)
        return text;
    struct schedule_spec spec = SCHEDULE_SPEC_DEFAULT;
    char of[TIMER_ID_TEXT_SIZE];
    if (rhythm->cron)
        spec.cron = bytes_of(crons[rhythm->cron - 1].text);
    else
        spec.every_ms = rhythm->period_ms;
    if (rhythm->backfill.of.serial) {
        timer_id_format(&rhythm->backfill.of, of);
        spec.backfill.of = bytes_of(of);
    }
    if (rhythm->backfill.count) {
        spec.backfill.from = rhythm->backfill.from;
        spec.backfill.to = rhythm->backfill.to;
        spec.backfill.rate = bytes_of(rates[rhythm->backfill.rate].text);
        spec.backfill.pace_ms = rates[rhythm->backfill.rate].pace_ms;
        spec.backfill.count = rhythm->backfill.count;
        spec.backfill.done = rhythm->backfill.done;
    }
    if (rhythm->is_from_named)
        spec.from = rhythm->from;
    spec.count = rhythm->count;
    spec.until = rhythm->until;
    spec.overlap = rhythm->is_skipping ? SCHEDULE_OVERLAP_SKIP
                   : rhythm->is_apart  ? SCHEDULE_OVERLAP_ALLOW
                                       : SCHEDULE_OVERLAP_WAIT;
    spec.missed = rhythm->is_each ? RECURRENCE_MISSED_EACH : RECURRENCE_MISSED_LAST;
    spec.drop_after_ms = rhythm->drop_after_ms;
    spec.spread_ms = rhythm->spread_ms;
    struct buffer buffer;
    buffer_init(&buffer);
    schedule_write(&spec, &buffer);
    assert(!buffer_failed(&buffer) && buffer.size <= RHYTHM_TEXT_SIZE);
    memcpy(ret_text, buffer.data, buffer.size);
    text.size = buffer.size;
    buffer_deinit(&buffer);
    return text;
}
