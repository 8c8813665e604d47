/*
 * subject_ring.c - ring.h with 32,768 sectors of 1 ms, more than churn's time-out: for the
 * workloads whose delays fit. Its items are plain items, moved by a call as in the other subjects.
 */
#include "bench.h"

#include <tickwheel/ring.h>

enum { SECTORS = 32768 };

struct ring_self {
    struct tw_ring *ring;
    tw_handle *items;
    uint64_t now, target;
    struct tw_ring_item due[BATCH];
};

typedef struct ring_self self_t;
typedef tw_handle what_t;

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = bench_allocate(sizeof(*self));
    self->items = bench_allocate(count * sizeof(tw_handle));
    self->ring = tw_ring_create(&(struct tw_ring_options){.size = SECTORS});
    self->now = self->target = start;
    tw_ring_reserve(self->ring, count);
    return self;
}

static void destroy(self_t *self)
{
    tw_ring_destroy(self->ring);
}

static inline int64_t offset_of(self_t *self, uint64_t deadline)
{
    return (int64_t)(deadline - self->now);
}

static inline void place(self_t *self, uint32_t i, uint64_t deadline)
{
    self->items[i] = tw_ring_add(self->ring, offset_of(self, deadline), i);
}

static inline void again(self_t *self, size_t k, uint32_t i, uint64_t deadline)
{
    (void)i;
    tw_ring_reschedule(self->ring, self->due[k].item, offset_of(self, deadline));
}

static inline what_t lookup(self_t *self, uint32_t i)
{
    return self->items[i];
}

static inline what_t pick(self_t *self, uint32_t i)
{
    return self->items[i];
}

static inline void cancel(self_t *self, what_t what)
{
    tw_ring_remove(self->ring, what);
}

static inline void ask(self_t *self, what_t what)
{
    (void)self, (void)what;
}

static inline void ask_to_move(self_t *self, what_t what)
{
    (void)self, (void)what;
}

static inline void look_ahead(self_t *self, uint32_t i)
{
    (void)self, (void)i;
}

static inline void move(self_t *self, what_t what, uint64_t deadline)
{
    tw_ring_reschedule(self->ring, what, offset_of(self, deadline));
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    size_t n;
    self->target = now;
    while ((n = tw_ring_take(self->ring, self->due, BATCH)) == 0 && self->now < now)
        self->now += tw_ring_advance(self->ring, now - self->now);
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)self->due[i].data;
    return n;
}

static inline int is_behind(self_t *self)
{
    return self->now < self->target;
}

#define LACKS                                                                              \
    (1u << FIGURE_FILL | 1u << FIGURE_CANCEL | 1u << FIGURE_EXPIRE | 1u << FIGURE_COARSE | \
     1u << FIGURE_SLOW_STEPS)
#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "ring.h, 32,768 sectors",
    .kind = "ours",
    .note = "only what fits the ring: an hour does not",
    .version = bench_version_here,
    .run = run,
};
