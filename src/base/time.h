/*
 * time.h - wall time, instants and how they differ.
 *
 * Wall time is what a calendar says: it can step forward and back. An instant is monotonic: it
 * measures intervals and means nothing to people. They are different types so that they cannot be
 * mixed; a duration is a plain number with its unit in its name (`timeout_ms`).
 */
#ifndef TICKWHEEL_BASE_TIME_H
#define TICKWHEEL_BASE_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* Wall time: milliseconds since 1970-01-01T00:00:00Z. WALL_NEVER means no time. */
struct wall {
    uint64_t ms;
};

/* Monotonic time: nanoseconds since some moment before the process began. */
struct instant {
    uint64_t ns;
};

#define WALL_NEVER ((struct wall){UINT64_MAX})

/* 9999-12-31T23:59:59.999Z: the last due time that a client may set. */
#define WALL_MS_MAX UINT64_C(253402300799999)

/* Adds, saturating at the largest value, so that a sum never wraps around to the past. */
static inline struct wall wall_add(struct wall wall, uint64_t ms)
{
    return (struct wall){wall.ms > UINT64_MAX - ms ? UINT64_MAX : wall.ms + ms};
}

/* Returns how long `later` is after `earlier`; 0 if it is not. */
static inline uint64_t wall_since(struct wall earlier, struct wall later)
{
    return later.ms > earlier.ms ? later.ms - earlier.ms : 0;
}

static inline struct wall wall_min(struct wall a, struct wall b)
{
    return a.ms < b.ms ? a : b;
}

static inline struct wall wall_max(struct wall a, struct wall b)
{
    return a.ms > b.ms ? a : b;
}

static inline struct instant instant_add_ms(struct instant instant, uint64_t ms)
{
    uint64_t ns = ms > UINT64_MAX / 1000000 ? UINT64_MAX : ms * 1000000;

    return (struct instant){instant.ns > UINT64_MAX - ns ? UINT64_MAX : instant.ns + ns};
}

static inline uint64_t instant_since_ns(struct instant earlier, struct instant later)
{
    return later.ns > earlier.ns ? later.ns - earlier.ns : 0;
}

#endif
