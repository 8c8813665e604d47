/* subject_hierarchy.c - hierarchy.h with its default size, 256 buckets of 1 ms a wheel. */
#include "bench.h"

#include <tickwheel/hierarchy.h>

/* The caller's objects, which here consist of the task only. */
struct hierarchy_self {
    struct tw_hierarchy *wheel;
    struct tw_task *tasks;
};

typedef struct hierarchy_self self_t;
typedef struct tw_task *what_t;

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = bench_allocate(sizeof(*self));
    self->tasks = bench_allocate(count * sizeof(struct tw_task));
    self->wheel = tw_hierarchy_create(&(struct tw_hierarchy_options){.start = start});
    tw_hierarchy_reserve(self->wheel, HOUR);
    return self;
}

static void destroy(self_t *self)
{
    tw_hierarchy_destroy(self->wheel);
}

static inline void place(self_t *self, uint32_t i, uint64_t deadline)
{
    tw_hierarchy_schedule(self->wheel, &self->tasks[i], deadline);
}

static inline void again(self_t *self, size_t k, uint32_t i, uint64_t deadline)
{
    (void)k;
    place(self, i, deadline);
}

static inline what_t lookup(self_t *self, uint32_t i)
{
    return &self->tasks[i];
}

static inline what_t pick(self_t *self, uint32_t i)
{
    return &self->tasks[i];
}

static inline void cancel(self_t *self, what_t what)
{
    tw_hierarchy_cancel(self->wheel, what);
}

static inline void ask(self_t *self, what_t what)
{
    (void)self;
    __builtin_prefetch(what, 1);
}

static inline void ask_to_move(self_t *self, what_t what)
{
    ask(self, what);
}

static inline void look_ahead(self_t *self, uint32_t i)
{
    (void)self, (void)i;
}

static inline void move(self_t *self, what_t what, uint64_t deadline)
{
    tw_hierarchy_schedule(self->wheel, what, deadline);
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    struct tw_task *due[BATCH];
    size_t n = tw_hierarchy_expire(self->wheel, now, due, BATCH);
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)(due[i] - self->tasks);
    return n;
}

static inline int is_behind(self_t *self)
{
    return tw_hierarchy_is_behind(self->wheel);
}

#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "hierarchy.h, 256 a wheel",
    .kind = "ours",
    .note = "bytes: the task alone, 24 bytes in the caller's object",
    .version = bench_version_here,
    .run = run,
};
