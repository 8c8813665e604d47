/* firing.c - makes timers that are one firing of another. */
#include "timer/firing.h"

#include <assert.h>

/* Copies the timer as one that has not begun, with these texts, and without those that belong to
 * the name and the past of `timer`. */
static struct timer *firing_copy(const struct timer *timer, struct timer_texts *texts,
                                 const struct schedule_spec *spec, struct wall due)
{
    struct buffer schedule;
    struct timer *copy = NULL;

    buffer_init(&schedule);
    schedule_write(spec, &schedule);
    texts->schedule = buffer_bytes(&schedule);
    texts->key = texts->request = texts->runs = texts->zoned = texts->counted = texts->note =
        texts->last_error = texts->debounce = texts->parts = (struct bytes){0};
    if (!buffer_failed(&schedule))
        copy = timer_copy(timer, texts);
    buffer_deinit(&schedule);
    if (!copy)
        return NULL;
    copy->due = due;
    copy->created = copy->failing = copy->paused = copy->ended = (struct wall){0};
    copy->version = 1;
    copy->attempts = 0;
    copy->state = TIMER_SCHEDULED;
    return copy;
}

void firing_write_mark(const struct timer *timer, struct buffer *to)
{
    struct schedule_spec mark = SCHEDULE_SPEC_DEFAULT;
    struct backfill backfill;

    if (!schedule_backfill(timer->texts.schedule, &backfill))
        return;
    mark.backfill.of = backfill.of;
    schedule_write(&mark, to);
}

struct timer *firing_create(const struct timer *timer, struct wall due)
{
    struct schedule_spec spec, once = SCHEDULE_SPEC_DEFAULT;
    struct timer_texts texts = timer->texts;
    char id[TIMER_ID_TEXT_SIZE];

    assert(!timer_is_final(timer->state) && timer->texts.schedule.size > 0);
    if (schedule_read(timer->texts.schedule, &spec, NULL))
        return NULL;
    once.drop_after_ms = spec.drop_after_ms;
    once.backfill.of = spec.backfill.of;
    timer_id_format(&timer->id, id);
    texts.firing_of = bytes_of(id);
    return firing_copy(timer, &texts, &once, due);
}

struct timer *firing_create_backfill(const struct timer *timer, const struct backfill *backfill,
                                     struct wall first, struct wall last)
{
    struct timer_texts texts = timer->texts;
    struct schedule_spec spec;

    assert(backfill->of.size > 0 && backfill->count > 0 && first.ms <= last.ms);
    if (schedule_read(timer->texts.schedule, &spec, NULL))
        return NULL;
    if (spec.every_ms && spec.from.ms == WALL_NEVER.ms)
        spec.from = wall_add(timer->created, spec.every_ms);
    spec.until = (struct wall){last.ms - spec.spread_ms};
    if (spec.cron.size || spec.except.size || spec.only.size)
        spec.count = 0; /* it was counted along, and `until` is the end */
    spec.missed = RECURRENCE_MISSED_EACH;
    spec.drop_after_ms = UINT64_MAX;
    if (spec.overlap == SCHEDULE_OVERLAP_SKIP)
        spec.overlap = SCHEDULE_OVERLAP_WAIT;
    spec.backfill = *backfill;
    struct timer *copy = firing_copy(timer, &texts, &spec, first);
    if (copy)
        copy->retry.until_next = false; /* the next instant is always past */
    return copy;
}
