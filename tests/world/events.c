/* events.c - a heap of future events, ordered by time. */
#include "events.h"

#include "base/random.h"

#include <assert.h>
#include <stdlib.h>

void events_init(struct events *events)
{
    *events = (struct events){0};
}

void events_deinit(struct events *events)
{
    free(events->heap);
}

static bool before(const struct event *a, const struct event *b)
{
    return a->time_us < b->time_us || (a->time_us == b->time_us && a->order < b->order);
}

static void swap(struct event *a, struct event *b)
{
    struct event c = *a;

    *a = *b;
    *b = c;
}

static void sift_up(struct events *events, size_t at)
{
    for (size_t up; at > 0 && before(&events->heap[at], &events->heap[up = (at - 1) / 2]); at = up)
        swap(&events->heap[at], &events->heap[up]);
}

static void sift_down(struct events *events, size_t at)
{
    for (size_t down; (down = 2 * at + 1) < events->count; at = down) {
        if (down + 1 < events->count && before(&events->heap[down + 1], &events->heap[down]))
            down++;
        if (!before(&events->heap[down], &events->heap[at]))
            return;
        swap(&events->heap[at], &events->heap[down]);
    }
}

/* Returns the place among events of the same time. What the disk does stays in order, and so does
 * all in a cluster, whose times are finer. All else comes first, last or where it was posted. */
static uint64_t order_of(struct events *events, enum event_kind kind)
{
    const uint64_t last = UINT64_C(1) << 32, order = ++events->order;

    if (kind <= EVENT_READ_DONE || kind >= EVENT_CLUSTER)
        return last + order;
    switch (random_mix(order) % 4) {
    case 0:
        return order;
    case 1:
        return 2 * last + random_mix(order) % last;
    default:
        return last + order;
    }
}

void events_post(struct events *events, struct event event)
{
    if (events->count == events->capacity) {
        events->capacity = events->capacity ? 2 * events->capacity : 64;
        events->heap = realloc(events->heap, events->capacity * sizeof(*events->heap));
        assert(events->heap);
    }
    event.order = order_of(events, event.kind);
    events->heap[events->count] = event;
    sift_up(events, events->count++);
}

uint64_t events_next_us(const struct events *events)
{
    return events->count ? events->heap[0].time_us : UINT64_MAX;
}

struct event events_take(struct events *events)
{
    struct event event = events->heap[0];

    assert(events->count > 0);
    events->heap[0] = events->heap[--events->count];
    sift_down(events, 0);
    return event;
}

void events_drop(struct events *events, uint32_t life)
{
    size_t kept = 0;

    for (size_t i = 0; i < events->count; i++)
        if (events->heap[i].life != life)
            events->heap[kept++] = events->heap[i];
    events->count = kept;
    for (size_t i = kept / 2; i-- > 0;)
        sift_down(events, i);
}
