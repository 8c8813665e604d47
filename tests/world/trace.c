/* trace.c - records the events of a run for the report of a failure, and their hash. */
#include "trace.h"

#include "base/random.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHOWN_OF_TIMER = 60, SHOWN_OF_ALL = 40 };

void trace_init(struct trace *trace, bool is_shown)
{
    *trace = (struct trace){.is_shown = is_shown};
}

void trace_deinit(struct trace *trace)
{
    free(trace->events);
}

static void show(const struct trace_event *event)
{
    printf("  %9" PRIu64 ".%03u ms  wall %" PRIu64 "  %u  ", event->time_us / 1000,
           (unsigned)(event->time_us % 1000), event->wall_ms, event->place);
    if (event->timer)
        printf("#%-4" PRIu32, event->timer);
    else
        printf("     ");
    printf(" %-22s %" PRIu64 " %" PRIu64 "\n", event->what, event->a, event->b);
}

static void mix(struct trace *trace, uint64_t value)
{
    trace->hash = random_mix(trace->hash ^ value) + UINT64_C(0x9e3779b97f4a7c15);
}

void trace_add(struct trace *trace, struct trace_event event)
{
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity ? 2 * trace->capacity : 1024;
        trace->events = realloc(trace->events, trace->capacity * sizeof(*trace->events));
        assert(trace->events);
    }
    trace->events[trace->count++] = event;
    mix(trace, event.time_us);
    mix(trace, event.wall_ms);
    for (const char *c = event.what; *c; c++)
        trace->hash = trace->hash * 31 + (unsigned char)*c;
    mix(trace, (uint64_t)event.timer << 16 | event.place);
    mix(trace, event.a);
    mix(trace, event.b);
    if (trace->is_shown)
        show(&event);
}

void trace_show(const struct trace *trace, uint32_t timer)
{
    size_t first = trace->count;

    if (trace->is_shown)
        return;
    size_t shown = 0;
    while (timer && first > 0 && shown < SHOWN_OF_TIMER)
        shown += trace->events[--first].timer == timer;
    if (shown)
        printf("timer #%" PRIu32 ":\n", timer);
    for (size_t i = first; i < trace->count; i++)
        if (trace->events[i].timer == timer)
            show(&trace->events[i]);
    printf("the last events:\n");
    for (size_t i = trace->count > SHOWN_OF_ALL ? trace->count - SHOWN_OF_ALL : 0; i < trace->count;
         i++)
        show(&trace->events[i]);
}
