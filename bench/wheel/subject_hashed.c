/* subject_hashed.c - hashed.h with 65,536 buckets of 1 ms, as configured for its peers. */
#include "bench.h"

#include <tickwheel/hashed.h>

struct hashed_self {
    struct tw_hashed *wheel;
    tw_handle *timers;
};

typedef struct hashed_self self_t;

/* cancel receives the handle, move the timer's number, because the handle changes when the timer
 * fires. */
typedef tw_handle what_t;

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = bench_allocate(sizeof(*self));
    self->timers = bench_allocate(count * sizeof(tw_handle));
    self->wheel =
        tw_hashed_create(&(struct tw_hashed_options){.start = start, .wheel_size = 65536});
    tw_hashed_reserve(self->wheel, count);
    return self;
}

static void destroy(self_t *self)
{
    tw_hashed_destroy(self->wheel);
}

static inline void place(self_t *self, uint32_t i, uint64_t deadline)
{
    self->timers[i] = tw_hashed_schedule(self->wheel, deadline, i);
}

static inline void again(self_t *self, size_t k, uint32_t i, uint64_t deadline)
{
    (void)k;
    place(self, i, deadline);
}

static inline what_t lookup(self_t *self, uint32_t i)
{
    return self->timers[i];
}

static inline what_t pick(self_t *self, uint32_t i)
{
    (void)self;
    return i;
}

static inline void cancel(self_t *self, what_t what)
{
    tw_hashed_cancel(self->wheel, what);
}

/* The wheel has no prefetch. */
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
    __builtin_prefetch(&self->timers[i], 1);
}

static inline void move(self_t *self, what_t what, uint64_t deadline)
{
    tw_hashed_reschedule(self->wheel, self->timers[what], deadline);
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    struct tw_expired due[BATCH];
    size_t n = tw_hashed_expire(self->wheel, now, due, BATCH);
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)due[i].data;
    return n;
}

static inline int is_behind(self_t *self)
{
    return tw_hashed_is_behind(self->wheel);
}

#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "hashed.h, 65,536 buckets",
    .kind = "ours",
    .version = bench_version_here,
    .run = run,
};
