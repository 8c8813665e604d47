/*
 * The model is an array in order of deadline, walked from the start for everything. What it demands
 * is only what the headers promise, so one model serves every wheel:
 *  - nothing comes out before its deadline, twice, or after it was cancelled;
 *  - once expire has nothing left, all is out that was overdue when scheduled or due a tick ago;
 *  - what comes out is in order of tick, save what was overdue when scheduled;
 *  - wake_at is at most the tick of the next timer, and later than now once nothing is left.
 */
#include "conformance_oracle.h"

#include <stdio.h>
#include <string.h>

struct conformance_entry {
    uint64_t deadline;
    uint64_t due_max; /* a tick that it may come out in: later than the deadline if overdue */
    bool is_overdue;  /* was when scheduled: due at once, whatever the tick */
    uint32_t id;
};

/* In order of deadline. */
struct conformance_model {
    struct conformance_entry entries[CONFORMANCE_IDS];
    size_t count;
    uint64_t now;
    uint64_t tick;
};

struct conformance_run {
    struct conformance_source *source;
    const struct conformance_kind *kind;
    struct conformance_wheel *wheel;
    struct conformance_model model;
    struct conformance_tally tally;
    uint64_t latest; /* in this drain: no earlier tick may come out any more */
};

/* SplitMix64, after Steele, Lea and Flood. */
uint64_t conformance_choose(struct conformance_source *source)
{
    if (source->bytes) {
        uint8_t word[8] = {0};
        size_t take = source->byte_count < sizeof word ? source->byte_count : sizeof word;
        for (size_t i = 0; i < take; i++)
            word[i] = source->bytes[i];
        source->bytes += take;
        source->byte_count -= take;
        uint64_t value = 0;
        for (size_t i = 0; i < sizeof word; i++)
            value = value << 8 | word[i];
        return value;
    }
    uint64_t mixed = source->state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

uint64_t conformance_below(struct conformance_source *source, uint64_t bound)
{
    if (source->bytes && bound <= 256) { /* a fuzzer's byte is a choice of its own */
        if (source->byte_count == 0)
            return 0;
        source->byte_count--;
        return *source->bytes++ % bound;
    }
    return conformance_choose(source) % bound;
}

/* A power of the wheel's size, in units of time, saturated. */
static uint64_t level_span(struct conformance_source *source, const struct conformance_kind *kind)
{
    uint64_t span = kind->tick;
    uint64_t power = conformance_below(source, 12);

    for (uint64_t i = 0; i < power && kind->size > 1; i++) {
        if (span > TW_NEVER / kind->size)
            return TW_NEVER;
        span *= kind->size;
    }
    return span;
}

uint64_t conformance_span(struct conformance_source *source, const struct conformance_kind *kind)
{
    uint64_t near_by = conformance_below(source, 5);

    switch (conformance_below(source, 8)) {
    case 0:
    case 1:
        return conformance_below(source, 40);
    case 2:
        return conformance_below(source, 3 * (uint64_t)kind->size + 1) * kind->tick;
    case 3:
    case 4:
        return conformance_choose(source) >> conformance_below(source, 64);
    case 5:
    case 6:
        return level_span(source, kind) - 2 + near_by;
    default:
        return (UINT64_C(1) << (conformance_below(source, 2) ? 32 : 63)) - 2 + near_by;
    }
}

uint64_t conformance_instant(struct conformance_source *source, const struct conformance_kind *kind)
{
    uint64_t span = conformance_span(source, kind);

    switch (conformance_below(source, 4)) {
    case 0: /* near the end of time */
        return CONFORMANCE_TIME_LAST - span;
    case 1: /* near a multiple of a level's span */
        return level_span(source, kind) * conformance_below(source, 1000) - 3 +
               conformance_below(source, 7);
    default:
        return span;
    }
}

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a > CONFORMANCE_TIME_LAST - b || b > CONFORMANCE_TIME_LAST ? CONFORMANCE_TIME_LAST
                                                                      : a + b;
}

static size_t model_find(const struct conformance_model *model, uint32_t id)
{
    size_t at = 0;

    while (at < model->count && model->entries[at].id != id)
        at++;
    return at;
}

static void model_add(struct conformance_model *model, uint32_t id, uint64_t deadline)
{
    size_t at = 0;

    while (at < model->count && model->entries[at].deadline <= deadline)
        at++;
    memmove(&model->entries[at + 1], &model->entries[at],
            (model->count - at) * sizeof model->entries[0]);
    model->entries[at] = (struct conformance_entry){
        .deadline = deadline,
        .due_max = deadline > model->now ? deadline : model->now,
        .is_overdue = deadline <= model->now,
        .id = id,
    };
    model->count++;
}

static void model_remove(struct conformance_model *model, size_t at)
{
    model->count--;
    memmove(&model->entries[at], &model->entries[at + 1],
            (model->count - at) * sizeof model->entries[0]);
}

/* Whether the wheel must have handed it out by now, if asked to. */
static bool entry_must_be_out(const struct conformance_model *model,
                              const struct conformance_entry *entry)
{
    if (entry->deadline == TW_NEVER)
        return false;
    if (entry->is_overdue || model->now == CONFORMANCE_TIME_LAST)
        return true;
    return entry->deadline <= model->now && model->now - entry->deadline >= model->tick - 1;
}

static bool model_has_due(const struct conformance_model *model)
{
    for (size_t i = 0; i < model->count; i++)
        if (entry_must_be_out(model, &model->entries[i]))
            return true;
    return false;
}

static void run_compare(struct conformance_run *run)
{
    const struct conformance_model *model = &run->model;
    uint64_t wake_at = run->kind->wake_at(run->wheel);
    size_t count = 0;

    run->kind->check(run->wheel);
    while (count < model->count && model->entries[count].deadline != TW_NEVER)
        count++;
    REQUIRE(run->kind->count(run->wheel) == count);
    REQUIRE(run->kind->now(run->wheel) == model->now);
    if (count == 0)
        REQUIRE(wake_at == TW_NEVER);
    else
        REQUIRE(wake_at <= model->now ||
                wake_at <= add_saturating(model->entries[0].due_max, model->tick - 1));
    if (model_has_due(model))
        REQUIRE(run->kind->is_behind(run->wheel) && wake_at <= model->now);
}

static uint64_t run_deadline(struct conformance_run *run)
{
    uint64_t min = run->kind->deadline_min(run->wheel);
    uint64_t max = run->kind->deadline_max(run->wheel);
    uint64_t deadline;

    switch (conformance_below(run->source, 16)) {
    case 0:
        deadline = conformance_instant(run->source, run->kind);
        break;
    case 1:
        deadline = TW_NEVER;
        break;
    case 2:
        deadline = run->model.now - conformance_below(run->source, 100);
        break;
    default:
        deadline = add_saturating(run->model.now, conformance_span(run->source, run->kind));
    }
    if (deadline >= min && deadline <= max)
        return deadline;
    return min + (max == TW_NEVER ? 0 : conformance_below(run->source, max - min + 1));
}

/* Schedules, reschedules or cancels one timer, whatever state it is in. */
static void run_change(struct conformance_run *run)
{
    uint32_t id = (uint32_t)conformance_below(run->source, CONFORMANCE_IDS);
    size_t at = model_find(&run->model, id);
    bool is_scheduled = at < run->model.count;

    if (conformance_below(run->source, 3) == 0) {
        REQUIRE(run->kind->cancel(run->wheel, id) == is_scheduled);
        if (is_scheduled)
            model_remove(&run->model, at);
        return;
    }
    if (run->kind->deadline_min(run->wheel) > run->kind->deadline_max(run->wheel))
        return; /* a ring at the end of time */
    uint64_t deadline = run_deadline(run);
    if (!is_scheduled) {
        REQUIRE(!run->kind->reschedule(run->wheel, id, deadline));
        run->kind->schedule(run->wheel, id, deadline);
    } else {
        REQUIRE(run->kind->reschedule(run->wheel, id, deadline));
        model_remove(&run->model, at);
    }
    model_add(&run->model, id, deadline);
}

static void run_fired(struct conformance_run *run, const struct conformance_expired *expired)
{
    size_t at = model_find(&run->model, expired->id);

    REQUIRE(at < run->model.count);
    const struct conformance_entry *entry = &run->model.entries[at];
    REQUIRE(entry->deadline == expired->deadline);
    REQUIRE(entry->deadline <= run->model.now);
    REQUIRE(run->latest <= add_saturating(entry->due_max, run->model.tick - 1));
    /* One that was overdue within a tick is due before that tick ends, and says nothing. */
    if (entry->deadline > run->latest && !(entry->is_overdue && run->model.tick > 1))
        run->latest = entry->deadline;
    model_remove(&run->model, at);
    run->tally.fired++;
}

/* Moves time on and pulls until nothing is left; between pulls, timers are changed as by a handler.
 */
static void run_expire(struct conformance_run *run, uint64_t now)
{
    struct conformance_expired due[32];
    unsigned changes_left = 20;
    unsigned calls_left = 2000; /* each takes or moves something, so a drain ends long before */

    if (now > CONFORMANCE_TIME_LAST)
        now = CONFORMANCE_TIME_LAST;
    if (now > run->model.now) {
        run->tally.time += (double)(now - run->model.now);
        run->model.now = now;
    }
    run->latest = 0;
    do {
        size_t limit =
            conformance_below(run->source, 4) ? 32 : 1 + conformance_below(run->source, 3);
        size_t count = run->kind->expire(run->wheel, now, due, limit);
        REQUIRE(count <= limit);
        REQUIRE(calls_left-- > 0);
        for (size_t i = 0; i < count; i++)
            run_fired(run, &due[i]);
        run_compare(run);
        while (count > 0 && changes_left > 0 && conformance_below(run->source, 2)) {
            changes_left--;
            run_change(run);
            run_compare(run);
        }
    } while (run->kind->is_behind(run->wheel));
    REQUIRE(!model_has_due(&run->model));
    REQUIRE(run->kind->wake_at(run->wheel) > run->model.now);
}

static uint64_t run_next_time(struct conformance_run *run)
{
    uint64_t now = run->model.now;
    uint64_t wake_at = run->kind->wake_at(run->wheel);

    switch (conformance_below(run->source, 12)) {
    case 0:
        return now - conformance_below(run->source, 3) * (now / 2); /* back, or no change */
    case 1:
        return add_saturating(now, 1);
    case 2:
        return wake_at == TW_NEVER ? now : wake_at - 1;
    case 3:
        return add_saturating(now, conformance_below(run->source, 1000));
    case 4:
        return add_saturating(now, conformance_span(run->source, run->kind));
    case 5: /* just before a boundary, or on it */
        return now - now % level_span(run->source, run->kind) + level_span(run->source, run->kind) -
               conformance_below(run->source, 2);
    case 6:
        return run->model.count ? run->model.entries[0].deadline : now;
    default:
        return wake_at == TW_NEVER ? now : wake_at;
    }
}

struct conformance_tally conformance_model_run(const struct conformance_kind *kind,
                                               struct conformance_source *source, uint64_t steps)
{
    struct conformance_run run = {.source = source, .kind = kind};

    while (run.tally.steps < steps && (!source->bytes || source->byte_count > 0)) {
        uint64_t start = conformance_instant(source, kind);
        if (start > CONFORMANCE_TIME_LAST)
            start = CONFORMANCE_TIME_LAST;
        run.model = (struct conformance_model){.now = start, .tick = kind->tick};
        run.wheel = kind->create(kind, start);
        REQUIRE(run.wheel);
        uint64_t end = run.tally.steps + conformance_below(source, 3000);
        while (run.tally.steps++ < end && (!source->bytes || source->byte_count > 0)) {
            if (conformance_below(source, 5) < 3)
                run_change(&run);
            else
                run_expire(&run, run_next_time(&run));
            run_compare(&run);
            if (run.model.now == CONFORMANCE_TIME_LAST && conformance_below(source, 10) == 0)
                break; /* little more can happen */
        }
        kind->destroy(run.wheel);
    }
    return run.tally;
}
