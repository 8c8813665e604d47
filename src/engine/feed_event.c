/* feed_event.c - copies of a timer without its content, for the clients that watch. */
#include "engine/feed_event.h"

#include "base/footprint.h"

#include <stdlib.h>

const char *feed_kind_text(enum feed_kind kind)
{
    static const char *const texts[] = {
#define X(name, text) [FEED_##name] = text,
        FEED_KIND_LIST(X)
#undef X
    };

    return texts[kind];
}

struct feed_event *feed_event_create(enum feed_kind kind, struct wall at, const struct timer *timer)
{
    const struct timer_texts texts = {
        .target = timer->texts.target,
        .labels = timer->texts.labels,
        .last_error = timer->texts.last_error,
        .key = timer->texts.key,
        .tenant = timer->texts.tenant,
        .report_of = timer->texts.report_of,
    };
    struct feed_event *event = malloc(sizeof(*event));

    if (!event)
        return NULL;
    *event = (struct feed_event){.kind = kind, .at = at, .timer = timer_copy(timer, &texts)};
    list_init(&event->link);
    if (event->timer)
        return event;
    free(event);
    return NULL;
}

void feed_event_destroy(struct feed_event *event)
{
    if (!event)
        return;
    timer_free(event->timer);
    free(event);
}

size_t feed_event_bytes(const struct feed_event *event)
{
    return footprint_of(sizeof(*event)) + event->timer->footprint;
}
