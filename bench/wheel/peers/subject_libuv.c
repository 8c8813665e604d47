/* subject_libuv.c - uv_timer_t in a loop of its own, a turn of the loop for each tick. */
#include "bench.h"
#include "virtual.h"

#include <uv.h>

struct libuv_self {
    uv_loop_t loop;
    uv_timer_t *timers;
    struct fired fired;
};

typedef struct libuv_self self_t;
typedef uv_timer_t *what_t;

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = bench_allocate(sizeof(*self));
    self->timers = bench_allocate(count * sizeof(uv_timer_t));
    fired_init(&self->fired, count, start);
    virtual_set(start);
    uv_loop_init(&self->loop);
    uv_update_time(&self->loop);
    self->loop.data = self;
    for (uint32_t i = 0; i < count; i++)
        uv_timer_init(&self->loop, &self->timers[i]);
    return self;
}

/* The loop and its timers are not freed: the process ends. */
static void destroy(self_t *self)
{
    (void)self;
}

static void on_timer(uv_timer_t *timer)
{
    self_t *self = timer->loop->data;
    fired_add(&self->fired, (uint32_t)(timer - self->timers));
}

static inline void move(self_t *self, what_t what, uint64_t deadline)
{
    uv_timer_start(what, on_timer, deadline - self->fired.now, 0);
}

static inline void place(self_t *self, uint32_t i, uint64_t deadline)
{
    move(self, &self->timers[i], deadline);
}

static inline void again(self_t *self, size_t k, uint32_t i, uint64_t deadline)
{
    (void)k;
    place(self, i, deadline);
}

static inline what_t lookup(self_t *self, uint32_t i)
{
    return &self->timers[i];
}

static inline what_t pick(self_t *self, uint32_t i)
{
    return &self->timers[i];
}

static inline void cancel(self_t *self, what_t what)
{
    (void)self;
    uv_timer_stop(what);
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

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    if (self->fired.now != now) {
        self->fired.now = now;
        virtual_set(now);
        uv_run(&self->loop, UV_RUN_NOWAIT);
    }
    return fired_take(&self->fired, ids, BATCH);
}

static inline int is_behind(self_t *self)
{
    (void)self;
    return 0;
}

#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "libuv",
    .kind = "peer",
    .note = "uv_run without waiting, each tick; clock and poll are virtual",
    .version = uv_version_string,
    .run = run,
};
