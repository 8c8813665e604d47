/* feed_event.c - copies of a timer without its content, and of a pause, for the clients that watch.
 */
#include "engine/feed_event.h"

#include "base/footprint.h"

#include <assert.h>
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
        .firing_of = timer->texts.firing_of,
        .targets = timer->texts.targets,
        .parts = timer->texts.parts,
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

static size_t feed_event_hold_bytes(const struct target_pause *hold)
{
    return hold->tenant.size + hold->name.size + hold->note.size;
}

/* Copies a text to `to`, sets `text` to the copy, and returns the end of the copy. */
static char *feed_event_keep(struct bytes *text, char *to)
{
    if (text->size)
        memcpy(to, text->data, text->size);
    text->data = to;
    return to + text->size;
}

struct feed_event *feed_event_create_hold(enum feed_kind kind, struct wall at,
                                          const struct target_pause *hold, size_t reset_count)
{
    struct feed_event *event = malloc(sizeof(*event) + feed_event_hold_bytes(hold));

    assert(kind >= FEED_QUEUE_PAUSED);
    if (!event)
        return NULL;
    *event = (struct feed_event){.kind = kind, .at = at, .hold = *hold, .reset_count = reset_count};
    list_init(&event->link);
    char *to = (char *)(event + 1);
    to = feed_event_keep(&event->hold.tenant, to);
    to = feed_event_keep(&event->hold.name, to);
    feed_event_keep(&event->hold.note, to);
    return event;
}

struct bytes feed_event_reader(const struct feed_event *event)
{
    if (event->kind >= FEED_MAINTENANCE_BEGUN)
        return BYTES("*");
    return event->timer ? event->timer->texts.tenant : event->hold.tenant;
}

bool feed_event_is_of(const struct feed_event *event, struct bytes tenant)
{
    return event->kind >= FEED_MAINTENANCE_BEGUN || bytes_equal(feed_event_reader(event), tenant);
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
    return event->timer ? footprint_of(sizeof(*event)) + event->timer->footprint
                        : footprint_of(sizeof(*event) + feed_event_hold_bytes(&event->hold));
}
