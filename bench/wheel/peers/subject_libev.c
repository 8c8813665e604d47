/* subject_libev.c - ev_timer in a loop of its own, a turn of the loop for each tick. */
#include "bench.h"
#include "virtual.h"

#include <ev.h>

#include <stdio.h>

struct libev_self {
    struct ev_loop *loop;
    ev_timer *timers;
    struct fired fired;
};

typedef struct libev_self self_t;
typedef ev_timer *what_t;

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    self_t *self = ev_userdata(loop);
    (void)events;
    fired_add(&self->fired, (uint32_t)(timer - self->timers));
}

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = bench_allocate(sizeof(*self));
    self->timers = bench_allocate(count * sizeof(ev_timer));
    fired_init(&self->fired, count, start);
    virtual_set(start);
    self->loop = ev_loop_new(EVFLAG_NOENV | EVBACKEND_EPOLL);
    ev_set_userdata(self->loop, self);
    for (uint32_t i = 0; i < count; i++)
        ev_init(&self->timers[i], on_timer);
    return self;
}

/* The loop and its timers are not freed: the process ends. */
static void destroy(self_t *self)
{
    (void)self;
}

/* Half a tick early, so that rounding up a sum of fractions does not cost a tick. */
static inline double delay_s(self_t *self, uint64_t deadline)
{
    return ((double)(deadline - self->fired.now) - 0.5) * 1e-3;
}

static inline void place(self_t *self, uint32_t i, uint64_t deadline)
{
    ev_timer_set(&self->timers[i], delay_s(self, deadline), 0.);
    ev_timer_start(self->loop, &self->timers[i]);
}

/* ev_timer_again moves an active timer in its place; without the repeat it then fires once. */
static inline void move(self_t *self, what_t what, uint64_t deadline)
{
    what->repeat = delay_s(self, deadline);
    ev_timer_again(self->loop, what);
    what->repeat = 0.;
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
    ev_timer_stop(self->loop, what);
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
        ev_run(self->loop, EVRUN_NOWAIT);
    }
    return fired_take(&self->fired, ids, BATCH);
}

static inline int is_behind(self_t *self)
{
    (void)self;
    return 0;
}

#include "workloads.h"

static const char *version(void)
{
    static char text[16];
    snprintf(text, sizeof(text), "%d.%d", ev_version_major(), ev_version_minor());
    return text;
}

const struct wheel_subject bench_subject = {
    .name = "libev",
    .kind = "peer",
    .note = "ev_run without waiting, each tick; clock and poll are virtual",
    .version = version,
    .run = run,
};
