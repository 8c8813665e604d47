/* firing.c - makes timers that are one firing of another. */
#include "timer/firing.h"

#include <assert.h>

struct timer *firing_create(const struct timer *timer, struct wall due)
{
    struct schedule_spec spec, late = SCHEDULE_SPEC_DEFAULT;
    struct timer_texts texts = timer->texts;
    char id[TIMER_ID_TEXT_SIZE];
    struct buffer schedule;

    assert(!timer_is_final(timer->state) && timer->texts.schedule.size > 0);
    if (schedule_read(timer->texts.schedule, &spec, NULL))
        return NULL;
    late.drop_after_ms = spec.drop_after_ms;
    buffer_init(&schedule);
    schedule_write(&late, &schedule);
    timer_id_format(&timer->id, id);
    texts.schedule = buffer_bytes(&schedule);
    texts.firing_of = bytes_of(id);
    texts.key = texts.request = texts.runs = texts.zoned = texts.note = texts.last_error =
        texts.debounce = (struct bytes){0};
    struct timer *firing = buffer_failed(&schedule) ? NULL : timer_copy(timer, &texts);
    buffer_deinit(&schedule);
    if (!firing)
        return NULL;
    firing->due = due;
    firing->created = firing->failing = firing->paused = (struct wall){0};
    firing->version = 1;
    firing->attempts = 0;
    firing->state = TIMER_SCHEDULED;
    return firing;
}
