/* world.c - runs one seed: true time, the wall clock, and the loop over events and wake-ups. */
#include "world.h"

#include "cluster.h"
#include "judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The latest wall time of a run, after the year 9999 and the time to trim it. */
#define CLOCK_MS_MAX (UINT64_C(1) << 48)

enum { LATENESS_EVERY = 8, COMPARE_EVERY = 256, RELAPSE_MS_MAX = 5 };

void world_note(struct world *world, const char *what, uint16_t place, uint32_t timer, uint64_t a,
                uint64_t b)
{
    trace_add(&world->trace,
              (struct trace_event){world->time_us, world_now(world).ms, what, place, timer, a, b});
}

void world_fail(struct world *world, uint32_t timer, const char *promise, const char *format, ...)
{
    trace_show(&world->trace, timer);
    printf("BROKEN: %s: ", promise);
    if (timer)
        printf("timer #%" PRIu32 ": ", timer);
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    exit(EXIT_FAILURE);
}

void world_post_at(struct world *world, uint64_t at_ms, enum event_kind kind, uint32_t life,
                   void *subject)
{
    events_post(
        &world->events,
        (struct event){.time_us = 1000 * at_ms, .kind = kind, .life = life, .subject = subject});
}

void world_post(struct world *world, uint64_t delay_max_ms, enum event_kind kind, uint32_t life,
                void *subject)
{
    world_post_at(world, world_ms(world) + world_skewed(world, delay_max_ms), kind, life, subject);
}

void world_tempt(struct world *world, uint64_t within_ms)
{
    if (!world->is_quiet && world_chance(world, world->plan.sharp_permille))
        world_post(world, within_ms + 1, EVENT_CRASH, world->host.life, NULL);
}

/* ---- what goes on by itself ---- */

/* Posts the next event of a recurring kind. `gap_ms` is the mean time between two; 0 for none. */
static void again(struct world *world, enum event_kind kind, uint64_t gap_ms)
{
    if (gap_ms > 0)
        world_post_at(world, world_ms(world) + world_below(world, 2 * gap_ms + 1), kind,
                      kind == EVENT_CRASH ? world->host.life : 0, NULL);
}

/* Sometimes kills the process before it has corrected what a clock that was ahead has moved. This
 * is drawn beside the random draws of the run, so that the other runs keep their draws. */
static void tempt_by_step(struct world *world)
{
    const uint64_t drawn = random_mix(world->settings->seed + world->step);

    if (world->host.is_up && drawn % 1000 < world->plan.relapse_permille)
        world_post_at(world, world_ms(world) + drawn / 1000 % RELAPSE_MS_MAX, EVENT_CRASH,
                      world->host.life, NULL);
}

static void step_clock(struct world *world)
{
    const uint64_t by_ms = 1 + world_skewed(world, world->plan.clock_step_max_ms);
    const uint64_t now_ms = world_now(world).ms;

    if (world_chance(world, 200) && now_ms + by_ms < CLOCK_MS_MAX / 2) {
        world->time_us += 1000 * by_ms; /* the machine slept: events of that time are late */
        world->totals->suspends++;
    } else if (world_chance(world, 500) && now_ms + by_ms < CLOCK_MS_MAX / 2) {
        world->clock_offset_ms += by_ms;
        world->totals->clock_forward++;
    } else {
        world->clock_offset_ms -= by_ms < now_ms ? by_ms : now_ms - 1;
        world->totals->clock_back++;
    }
    world_note(world, "clock step", 0, 0, now_ms, by_ms);
    host_slept(world);
    if (world_now(world).ms < now_ms)
        tempt_by_step(world);
    for (uint16_t p = 0; p < world->plan.partition_count && world->host.is_up; p++)
        if (world_now(world).ms < now_ms)
            host_advance(world, p);
}

/* Bit rot: the record of some timer no longer fits its checksum. */
static void damage(struct world *world)
{
    struct sim_model *model = &world->model;

    if (model->count == 0 || world->doubts.count > 0 || !world->host.is_up ||
        !world_chance(world, world->plan.damage_permille))
        return;
    struct twin *twin = model->twins[world_below(world, model->count)];
    disk_sync(world); /* a crash does not undo the damage */
    if (!twin_is_live(twin) || twin->is_damaged || !disk_damage(world, &twin->id))
        return;
    twin->is_damaged = twin->was_damaged = true;
    world->totals->damaged++;
    world_note(world, "damaged", twin->partition, twin->number, 0, 0);
}

static uint8_t draw_origin(struct world *world)
{
    const uint8_t origin = (uint8_t)world_below(world, world->plan.origin_count + 1u);

    return origin == world->plan.origin_count ? QUEUE_ORIGIN : origin;
}

static void serve_own(struct world *world, const struct event *event)
{
    const struct sim_plan *plan = &world->plan;

    switch (event->kind) {
    case EVENT_CLIENT:
        clients_act(world);
        damage(world);
        again(world, EVENT_CLIENT, plan->client_gap_ms);
        break;
    case EVENT_ORIGIN:
        origins_change(world, draw_origin(world),
                       (enum origin_mode)world_below(world, ORIGIN_STUCK));
        again(world, EVENT_ORIGIN, plan->origin_gap_ms);
        break;
    case EVENT_CLOCK:
        step_clock(world);
        again(world, EVENT_CLOCK, plan->clock_gap_ms);
        break;
    case EVENT_OUTAGE:
        disk_outage(world);
        again(world, EVENT_OUTAGE, plan->outage_gap_ms);
        break;
    case EVENT_DRAIN:
        if (world->host.is_up)
            host_drain(world, (uint16_t)world_below(world, plan->partition_count));
        again(world, EVENT_DRAIN, plan->drain_gap_ms);
        break;
    case EVENT_CRASH:
        if (world->is_quiet)
            break;
        host_crash(world);
        world_post_at(world, world_ms(world) + world_skewed(world, 5000), EVENT_START, 0, NULL);
        break;
    default:
        host_start(world);
        again(world, EVENT_CRASH, plan->crash_gap_ms);
        break;
    }
}

static void serve(struct world *world)
{
    const struct event event = events_take(&world->events);

    if (event.kind <= EVENT_COMMITTED)
        logs_serve(world, &event);
    else if (event.kind <= EVENT_READ_DONE)
        disk_serve(world, &event);
    else if (event.kind == EVENT_DELIVERED)
        origins_answer(world, event.subject);
    else if (event.kind == EVENT_WORKER)
        workers_speak(world, event.subject);
    else
        serve_own(world, &event);
}

/* ---- steps ---- */

/* Returns the partition that is woken first, and when. */
static uint16_t next_wake(const struct world *world, uint64_t *ret_ms)
{
    *ret_ms = UINT64_MAX;
    uint16_t first = 0;
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        const uint64_t at_ms = host_wake_ms(world, p);

        if (at_ms < *ret_ms) {
            *ret_ms = at_ms;
            first = p;
        }
    }
    return first;
}

bool world_step(struct world *world, uint64_t until_ms)
{
    const uint64_t event_us = events_next_us(&world->events);
    const uint64_t event_ms = event_us == UINT64_MAX ? UINT64_MAX : event_us / 1000;
    uint64_t wake_ms;
    const uint16_t partition = next_wake(world, &wake_ms);

    uint64_t next_ms = event_ms < wake_ms ? event_ms : wake_ms;
    if (next_ms == UINT64_MAX || next_ms > until_ms) {
        if (until_ms != UINT64_MAX && until_ms > world_ms(world))
            world->time_us = 1000 * until_ms;
        return false;
    }
    if (next_ms > world_ms(world))
        world->time_us = 1000 * next_ms;
    world->step++;
    if (wake_ms < event_ms || (wake_ms == event_ms && world_chance(world, 500)))
        host_advance(world, partition);
    else
        serve(world);
    if (world->step % LATENESS_EVERY == 0)
        judge_lateness(world);
    if (world->step % COMPARE_EVERY == 0 && world->host.is_up)
        model_compare(world);
    return true;
}

static void begin(struct world *world)
{
    const struct sim_plan *plan = &world->plan;

    model_init(&world->model);
    causes_init(&world->causes);
    workers_init(world);
    disk_init(world);
    logs_init(world);
    origins_init(world);
    clients_init(world);
    host_init(world);
    world->clock_offset_ms = plan->clock_start_ms;
    host_start(world);
    again(world, EVENT_CLIENT, plan->client_gap_ms);
    again(world, EVENT_ORIGIN, plan->origin_gap_ms);
    again(world, EVENT_CLOCK, plan->clock_gap_ms);
    again(world, EVENT_OUTAGE, plan->outage_gap_ms);
    again(world, EVENT_DRAIN, plan->drain_gap_ms);
    again(world, EVENT_CRASH, plan->crash_gap_ms);
}

/* Runs one node, in a process that crashes and is stopped. */
static void run_node(struct world *world)
{
    plan_draw(&world->plan, &world->random);
    plan_without(&world->plan, world->settings->without);
    begin(world);
    while (world->step < world->settings->steps && world_step(world, UINT64_MAX))
        ;
    finish_run(world);
    doubts_end(world);
    host_deinit(world);
    clients_deinit(world);
    logs_deinit(world);
    disk_deinit(world);
    workers_forget(world);
    causes_deinit(&world->causes);
    model_deinit(&world->model);
}

void world_run(const struct settings *settings, struct totals *totals, uint64_t *ret_hash)
{
    struct world world = {
        .settings = settings, .totals = totals, .random = random_seeded(settings->seed)};

    events_init(&world.events);
    trace_init(&world.trace, settings->is_verbose);
    if (plan_is_cluster(settings->seed, settings->nodes))
        cluster_run(&world);
    else
        run_node(&world);
    totals->runs++;
    totals->steps += world.step;
    totals->simulated_ms += world_ms(&world);
    *ret_hash = world.trace.hash;
    trace_deinit(&world.trace);
    events_deinit(&world.events);
}
