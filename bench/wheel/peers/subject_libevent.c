/* subject_libevent.c - time-out events in a loop of its own, a turn of the loop for each tick. */
#include "bench.h"
#include "virtual.h"

#include <event2/event.h>
#include <event2/event_struct.h>

struct libevent_self {
    struct event_base *base;
    struct event *timers;
    struct fired fired;
};

typedef struct libevent_self self_t;
typedef struct event *what_t;

static void on_timer(evutil_socket_t socket, short events, void *context)
{
    self_t *self = context;
    (void)socket, (void)events;
    /* The callback receives no timer's number: the context is the base, and the running event
     * identifies the timer. */
    fired_add(&self->fired, (uint32_t)(event_base_get_running_event(self->base) - self->timers));
}

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = bench_allocate(sizeof(*self));
    self->timers = bench_allocate(count * sizeof(struct event));
    fired_init(&self->fired, count, start);
    virtual_set(start);
    self->base = event_base_new();
    for (uint32_t i = 0; i < count; i++)
        evtimer_assign(&self->timers[i], self->base, on_timer, self);
    return self;
}

/* The loop and its timers are not freed: the process ends. */
static void destroy(self_t *self)
{
    (void)self;
}

static inline void move(self_t *self, what_t what, uint64_t deadline)
{
    uint64_t delay = deadline - self->fired.now;
    struct timeval time = {(time_t)(delay / 1000), (suseconds_t)(delay % 1000 * 1000)};
    event_add(what, &time);
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
    event_del(what);
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
        event_base_loop(self->base, EVLOOP_NONBLOCK);
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
    .name = "libevent",
    .kind = "peer",
    .note = "event_base_loop without waiting, each tick; clock and poll are virtual",
    .version = event_get_version,
    .run = run,
};
