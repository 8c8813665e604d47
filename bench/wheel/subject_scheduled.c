/* subject_scheduled.c - the chunk wheel, a new handle for every scheduling. */
#include "bench.h"

#include <tickwheel/wheel.h>

struct scheduled_self {
    struct tw_wheel *wheel;
    struct tw_expired due[BATCH];
    tw_handle *timers;
};

typedef struct scheduled_self self_t;

/* cancel receives the handle, move the timer's number, because the handle changes with each move.
 */
typedef tw_handle what_t;

static self_t *create(uint32_t count, uint64_t start)
{
    self_t *self = bench_allocate(sizeof(*self));
    self->timers = bench_allocate(count * sizeof(tw_handle));
    self->wheel = tw_wheel_create(&(struct tw_wheel_options){.start = start});
    tw_wheel_reserve(self->wheel, count);
    return self;
}

static void destroy(self_t *self)
{
    tw_wheel_destroy(self->wheel);
}

static inline void place(self_t *self, uint32_t i, uint64_t deadline)
{
    self->timers[i] = tw_wheel_schedule(self->wheel, deadline, i);
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

static inline void cancel(self_t *self, what_t what)
{
    tw_wheel_cancel(self->wheel, what);
}

static inline what_t pick(self_t *self, uint32_t i)
{
    (void)self;
    return i;
}

static inline void ask(self_t *self, what_t what)
{
    tw_wheel_prefetch(self->wheel, what);
}

static inline void ask_to_move(self_t *self, what_t what)
{
    tw_wheel_prefetch(self->wheel, self->timers[what]);
}

static inline void look_ahead(self_t *self, uint32_t i)
{
    __builtin_prefetch(&self->timers[i], 1);
}

static inline void move(self_t *self, what_t what, uint64_t deadline)
{
    tw_wheel_cancel(self->wheel, self->timers[what]);
    self->timers[what] = tw_wheel_schedule(self->wheel, deadline, what);
}

static inline size_t expire(self_t *self, uint64_t now, uint32_t *ids)
{
    size_t n = tw_wheel_expire(self->wheel, now, self->due, BATCH);
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)self->due[i].data;
    return n;
}

static inline int is_behind(self_t *self)
{
    return tw_wheel_is_behind(self->wheel);
}

#define HAS_MANY
static void place_many(self_t *self, uint32_t first, const uint64_t *deadlines, size_t count)
{
    uint64_t numbers[CROWD];
    for (size_t i = 0; i < count; i++)
        numbers[i] = first + i;
    tw_wheel_schedule_many(self->wheel, deadlines, numbers, count, self->timers + first);
}

static void cancel_many(self_t *self, const what_t *whats, size_t count)
{
    tw_wheel_cancel_many(self->wheel, whats, count);
}

/* The handles change with each move, and one timer may occur twice. */
static void move_many(self_t *self, const what_t *whats, const uint64_t *deadlines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tw_wheel_prefetch(self->wheel, self->timers[whats[i + AHEAD < count ? i + AHEAD : i]]);
        move(self, whats[i], deadlines[i]);
    }
}

#include "workloads.h"

const struct wheel_subject bench_subject = {
    .name = "wheel.h, scheduled each time",
    .kind = "ours",
    .version = bench_version_here,
    .run = run,
};
