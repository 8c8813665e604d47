/*
 * world.h - one run: a process of engines, a disk, clients, origins and a clock, all from one seed;
 * or several nodes on one log (cluster.h).
 *
 *     program.c  the program: seeds, runs, the summary
 *     plan.h     what the run is like
 *     host.h     the process: its engines, their calls, crash and recovery
 *     logs.h     commits that come late, fail, or are cut off; their log, and its replicas
 *     disk.h     reads that come late, or fail
 *     origin.h   the targets
 *     workers.h  workers that pull from the queue
 *     client.h   clients; requests.c: calls by name, and repeated calls
 *     touches.c  clients that extend due times
 *     releases.c clients that end leases
 *     answers.c  receivers that answer later
 *     rhythm.h   schedules of timers that repeat
 *     model.h    the durable state, and whether each written row was asked for
 *     doubts.c   failed batches that are in the log nevertheless
 *     cause.h    the request behind each row
 *     tenants.h  tenants and their limits
 *     made.c     timers that the engine makes: firings that may overlap, parts
 *     claims.c   holders of keys and Idempotency-Keys
 *     completes.c  whether an event ended all that wait for it
 *     judge.h    whether the engine's output keeps the promises
 *     ending.h   the end of an engine with work in flight
 *     finish.c   the end of a run: faults stop, and every promise must be kept
 *
 * Time       `time_us` is true time and only grows. The wall clock, the only time an engine sees,
 *            is true time plus an offset that steps.
 */
#ifndef TICKWHEEL_WORLD_WORLD_H
#define TICKWHEEL_WORLD_WORLD_H

#include "cause.h"
#include "client.h"
#include "disk.h"
#include "events.h"
#include "host.h"
#include "logs.h"
#include "model.h"
#include "origin.h"
#include "plan.h"
#include "totals.h"
#include "trace.h"
#include "workers.h"

struct settings {
    uint64_t seed;
    uint64_t steps; /* length of the part with faults, in steps; the end of the run follows it */
    enum plan_nodes nodes;
    enum plan_log log;
    enum plan_store store;
    uint64_t without; /* removed features: a bit for each of enum feature */
    bool is_verbose;
};

struct world {
    const struct settings *settings;
    struct totals *totals;
    struct random random;
    struct sim_plan plan;
    uint64_t time_us;
    uint64_t clock_offset_ms; /* modulo 2^64: it may be negative */
    uint64_t step;
    bool is_quiet; /* whether faults have ended */
    struct events events;
    struct trace trace;
    struct host host;
    struct disk disk;
    struct sim_logs logs;
    struct origins origins;
    struct clients clients;
    struct sim_model model;
    struct doubts doubts;
    struct causes causes;
    struct workers workers;
};

/* Runs one seed to its end; a broken promise ends the process. The hash covers all events. */
void world_run(const struct settings *settings, struct totals *totals, uint64_t *ret_hash);

/* Serves the next event or wake-up of an engine that is due by `until_ms`. Returns false if there
 * is none; true time is then `until_ms`. */
bool world_step(struct world *world, uint64_t until_ms);

/* Prints the promise and how it was broken, the trace, and how to replay it; does not return.
 * `timer` is the number of the timer it is about, or 0. */
_Noreturn void world_fail(struct world *world, uint32_t timer, const char *promise,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Adds an event to the trace. `place` is a partition, or in a cluster a node. */
void world_note(struct world *world, const char *what, uint16_t place, uint32_t timer, uint64_t a,
                uint64_t b);

static inline uint64_t world_ms(const struct world *world)
{
    return world->time_us / 1000;
}

static inline struct wall world_now(const struct world *world)
{
    return (struct wall){world_ms(world) + world->clock_offset_ms};
}

static inline uint64_t world_below(struct world *world, uint64_t bound)
{
    return random_below(&world->random, bound);
}

static inline bool world_chance(struct world *world, uint32_t permille)
{
    return permille > 0 && world_below(world, 1000) < permille;
}

/* Draws a number from 0 to max. Each order of magnitude is equally likely. */
static inline uint64_t world_skewed(struct world *world, uint64_t max)
{
    const uint64_t bits = max ? 64 - (uint64_t)__builtin_clzll(max) : 0;
    const uint64_t drawn = world_below(world, bits + 1);
    const uint64_t value = drawn ? world_below(world, drawn < 64 ? UINT64_C(1) << drawn : max) : 0;

    return value < max ? value : max;
}

/* Sometimes plans a kill of the process within this time. Called where work has just begun, which
 * the kill may then interrupt. */
void world_tempt(struct world *world, uint64_t within_ms);

/* Posts an event for that time. */
void world_post_at(struct world *world, uint64_t at_ms, enum event_kind kind, uint32_t life,
                   void *subject);

/* Posts an event after up to `delay_max_ms`. */
void world_post(struct world *world, uint64_t delay_max_ms, enum event_kind kind, uint32_t life,
                void *subject);

#endif
