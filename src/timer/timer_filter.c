/* timer_filter.c - compares a timer with a filter, cheap conditions first. */
#include "timer/timer_filter.h"

#include "timer/flow.h"
#include "timer/labels.h"
#include "timer/schedule.h"

bool timer_filter_has_text(const struct timer_filter *filter)
{
    return filter->target.data || filter->origin.data || filter->key_prefix.data ||
           filter->key_contains.data || filter->flow.data || filter->label_count;
}

static bool timer_filter_finds(struct bytes text, struct bytes part)
{
    return part.size == 0 ||
           (text.size >= part.size && memmem(text.data, text.size, part.data, part.size));
}

/* Every origin is the begin of its target, so most targets need not be parsed. */
static bool timer_filter_has_origin(const struct timer *timer, struct bytes origin)
{
    struct timer parsed = {.texts.target = timer->texts.target, .target = timer->target};

    if (!bytes_has_prefix(timer->texts.target, origin))
        return false;
    if (timer->target.kind == TARGET_UNKNOWN &&
        target_parse(parsed.texts.target, &parsed.target, NULL))
        parsed.target = target_unknown(parsed.texts.target);
    return bytes_equal(timer_shown_origin(&parsed), origin);
}

bool timer_filter_fits(const struct timer_filter *filter, const struct timer *timer)
{
    const struct timer_texts *texts = &timer->texts;

    if (filter->states && !(filter->states & 1u << timer->state))
        return false;
    if (filter->key_prefix.data && !bytes_has_prefix(texts->key, filter->key_prefix))
        return false;
    if (filter->key_contains.data && !timer_filter_finds(texts->key, filter->key_contains))
        return false;
    if (filter->target.data && !bytes_equal(texts->target, filter->target))
        return false;
    if (filter->error.data && !bytes_equal(texts->last_error, filter->error))
        return false;
    if (filter->flow.data && !bytes_equal(flow_key(texts->flow), filter->flow))
        return false;
    if (filter->repeats && !schedule_recurs(texts->schedule))
        return false;
    if (filter->origin.data && !timer_filter_has_origin(timer, filter->origin))
        return false;
    for (size_t i = 0; i < filter->label_count; i++)
        if (!labels_have(texts->labels, filter->labels[i].key, filter->labels[i].value))
            return false;
    return true;
}
