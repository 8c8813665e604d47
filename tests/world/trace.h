/*
 * trace.h - what happened in a run: a list to show when it fails, and a hash to compare two runs
 * by.
 *
 * Nothing that differs between two runs of one seed (an address, a real time) may be put in.
 */
#ifndef TICKWHEEL_WORLD_TRACE_H
#define TICKWHEEL_WORLD_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_event {
    uint64_t time_us;
    uint64_t wall_ms;
    const char *what; /* a literal */
    uint16_t place;   /* partition; in a cluster the node */
    uint32_t timer;   /* number of the timer in this run; 0 for none */
    uint64_t a, b;
};

struct trace {
    struct trace_event *events;
    size_t count, capacity;
    uint64_t hash;
    bool is_shown; /* whether each event is printed at once */
};

void trace_init(struct trace *trace, bool is_shown);
void trace_deinit(struct trace *trace);

void trace_add(struct trace *trace, struct trace_event event);

/* Prints the events of the timer (if not 0) and of its partition, and then the last events of
 * all. */
void trace_show(const struct trace *trace, uint32_t timer);

#endif
