/* pauses.c - draws pauses and resumptions, and checks that a row was paused or resumed for a reason
 * and as was asked. */
#include "client.h"

#include "judge.h"
#include "tenants.h"
#include "world.h"

#include <assert.h>
#include <stdio.h>

/* ---- what clients ask ---- */

/* Returns a number below `of` without a random draw, so that old seeds keep their runs. */
static uint64_t pauses_drawn(const struct world *world, uint64_t of)
{
    return random_mix(world->settings->seed ^ random_mix(world->step ^ of << 48));
}

static struct bytes pauses_note(uint32_t note, char text[PAUSES_NOTE_SIZE])
{
    return (struct bytes){text, note ? (size_t)snprintf(text, PAUSES_NOTE_SIZE, "n%u", note) : 0};
}

void pauses_ask(struct world *world, struct op *op)
{
    const uint64_t drawn = pauses_drawn(world, 1), window_ms = world->plan.engine.window_ms;
    struct change *change = &op->change;

    if (change->kind == COMMAND_RESUME)
        return;
    change->note = drawn % 4 ? (uint32_t)(1 + drawn % 1000) : 0;
    change->until = STORAGE_PAUSED_AT;
    if (drawn / 1000 % 2)
        change->until =
            wall_min(wall_add(world_now(world), 1 + drawn / 2000 % (4 * window_ms + 100)),
                     (struct wall){WALL_MS_MAX});
    char note[PAUSES_NOTE_SIZE];
    struct timer *patch =
        timer_alloc(&(struct timer_texts){.note = pauses_note(change->note, note)});
    assert(patch);
    patch->at = change->until;
    op->command.patch = patch;
}

void pauses_hold(struct world *world, enum pauses_maintenance maintenance)
{
    const bool holds = maintenance == PAUSES_HOLD;

    if (atomic_load(&world->host.is_held) == holds)
        return;
    atomic_store(&world->host.is_held, holds);
    world->host.held_step = world->step;
    world->totals->maintenances += holds;
    host_slept(world); /* timers that waited may be late */
    world_note(world, holds ? "maintenance" : "goes on", 0, 0, 0, 0);
}

void pauses_draw_hold(struct world *world)
{
    const bool is_held = atomic_load(&world->host.is_held);

    if (world->plan.pause_permille && pauses_drawn(world, 4) % (is_held ? 8 : 60) == 0)
        pauses_hold(world, is_held ? PAUSES_GO_ON : PAUSES_HOLD);
}

/* ---- targets that are paused ---- */

/* Shows the engines a table of the pauses of all targets. This target is in it if it is paused. */
static void pauses_show(struct world *world, uint8_t tenant, uint8_t origin,
                        const struct target_pause_twin *twin)
{
    struct target_pause_board *board = &world->host.pauses;
    uint64_t version;
    struct target_pauses *next, *last = target_pause_board_take(board, &version);
    char text[64], room[TARGET_PAUSE_NAME_SIZE_MAX];
    struct bytes name = BYTES("queue:sim");
    snprintf(text, sizeof(text), "http://host-%u.example:8%u/", (unsigned)origin, (unsigned)origin);
    if (origin != QUEUE_ORIGIN && target_pause_parse_name(bytes_of(text), room, &name, NULL))
        assert(!"an origin");
    const struct target_pause pause = {.tenant = tenants_text(tenant),
                                       .name = name,
                                       .since = world_now(world),
                                       .until = twin->until};

    if (!last)
        last = target_pauses_create();
    assert(last);
    const enum error_code code =
        twin->is_on ? target_pauses_put(last, (struct wall){0}, &pause, &next)
                    : target_pauses_remove(last, (struct wall){0}, pause.tenant, pause.name, &next);
    assert(!code);
    (void)code;
    target_pause_board_show(board, next);
    target_pauses_leave(last);
}

static void pauses_turn_target(struct world *world, uint8_t tenant, uint8_t origin,
                               struct wall until)
{
    struct target_pause_twin *twin = &world->host.target_pauses[tenant][origin];

    *twin = (struct target_pause_twin){.is_on = until.ms > 0, .until = until, .step = world->step};
    pauses_show(world, tenant, origin, twin);
    world->totals->target_pauses += twin->is_on;
    host_slept(world); /* timers that waited may be late */
    world_note(world, twin->is_on ? "pause target" : "resume target", 0, origin, tenant, until.ms);
}

void pauses_draw_target(struct world *world)
{
    const uint64_t drawn = pauses_drawn(world, 5);
    const uint8_t tenant = (uint8_t)(drawn / 1000 % world->plan.tenant_count);
    const uint8_t origins = (uint8_t)(world->plan.origin_count + 1);
    const uint8_t nth = (uint8_t)(drawn / 8000 % origins);
    const uint8_t origin = nth == world->plan.origin_count ? QUEUE_ORIGIN : nth;
    const struct target_pause_twin *twin = &world->host.target_pauses[tenant][origin];

    if (!world->plan.pause_permille || drawn % (twin->is_on ? 8 : 60) > 0)
        return;
    const uint64_t until_ms = 1 + drawn / 100000 % (4 * world->plan.engine.window_ms + 100);
    struct wall until = {0};
    if (!twin->is_on)
        until = drawn / 70000 % 2 ? WALL_NEVER : wall_add(world_now(world), until_ms);
    pauses_turn_target(world, tenant, origin, until);
}

void pauses_resume_targets(struct world *world)
{
    for (uint8_t tenant = 0; tenant < TENANTS_MAX; tenant++)
        for (uint8_t origin = 0; origin < ORIGINS_MAX; origin++)
            if (world->host.target_pauses[tenant][origin].is_on)
                pauses_turn_target(world, tenant, origin, (struct wall){0});
}

static const struct target_pause_twin *pauses_of_target(const struct world *world,
                                                        const struct twin *twin)
{
    return &world->host.target_pauses[twin->row.content.tenant][twin->row.content.origin];
}

bool pauses_hold_target(const struct world *world, const struct twin *twin)
{
    const struct target_pause_twin *pause = pauses_of_target(world, twin);

    return pause->is_on && pause->step < world->step && pause->until.ms > world_now(world).ms;
}

bool pauses_may_hold_target(const struct world *world, const struct twin *twin)
{
    const struct target_pause_twin *pause = pauses_of_target(world, twin);

    return pause->is_on || pause->step == world->step;
}

struct wall pauses_target_until(const struct world *world, const struct twin *twin)
{
    return pauses_of_target(world, twin)->until;
}

void pauses_note_ends(struct world *world)
{
    for (uint8_t tenant = 0; tenant < TENANTS_MAX; tenant++)
        for (uint8_t origin = 0; origin < ORIGINS_MAX; origin++) {
            struct target_pause_twin *twin = &world->host.target_pauses[tenant][origin];
            const bool is_over = twin->is_on && twin->until.ms <= world_now(world).ms;

            if (is_over && !twin->was_told_over)
                host_slept(world);
            twin->was_told_over = is_over;
        }
}

/* ---- what clients ask ---- */

bool pauses_instead(const struct world *world)
{
    return pauses_drawn(world, 2) % 1000 < world->plan.pause_permille;
}

enum command_kind pauses_kind(const struct world *world, const struct twin *twin)
{
    const bool is_paused = twin && twin->row.state == TIMER_PAUSED;

    return pauses_drawn(world, 3) % 4 < (is_paused ? 3 : 1) ? COMMAND_RESUME : COMMAND_PAUSE;
}

void pauses_end_all(struct world *world)
{
    for (size_t i = 0; i < world->model.count; i++) {
        struct twin *twin = world->model.twins[i];

        if (!twin_is_live(twin) || twin->is_damaged || twin->row.state != TIMER_PAUSED ||
            twin->row.at.ms < STORAGE_PAUSED_AT.ms || twin->change_count > 0 ||
            world->host.partitions[twin->partition].is_draining)
            continue;
        struct op *op = clients_call(world, COMMAND_RESUME, twin->partition, twin);
        twin->change_count++;
        host_submit(world, op);
    }
}

/* ---- what may become of a row ---- */

static bool pauses_was_told(const struct world *world, const struct op *op, struct wall now)
{
    const struct told *told = &world->model.told[op->partition];

    for (size_t i = told->count; i-- > op->told_index;)
        if (told->nows[i].ms == now.ms)
            return true;
    return false;
}

bool pauses_stay(const struct twin *twin, const struct timer *timer)
{
    const struct sim_row *row = &twin->row;
    char note[PAUSES_NOTE_SIZE];

    if (row->state != TIMER_PAUSED)
        return timer->state != TIMER_PAUSED;
    return timer->state == TIMER_PAUSED && timer->at.ms == row->at.ms &&
           timer->paused.ms == row->paused.ms &&
           bytes_equal(timer->texts.note, pauses_note(row->note, note));
}

bool pauses_could(const struct world *world, const struct op *op, const struct twin *twin,
                  const struct timer *timer)
{
    const struct change *change = &op->change;
    const bool was_paused = twin->row.state == TIMER_PAUSED;
    char note[PAUSES_NOTE_SIZE];

    if (timer->attempts != twin->row.attempts)
        return false;
    if (change->kind == COMMAND_RESUME)
        return was_paused && timer->state == (timer->attempts ? TIMER_RETRYING : TIMER_SCHEDULED) &&
               (timer->at.ms == timer->due.ms ||
                (timer->at.ms > timer->due.ms && pauses_was_told(world, op, timer->at)));
    return timer->state == TIMER_PAUSED &&
           (timer->at.ms == change->until.ms ||
            (timer->at.ms > change->until.ms && pauses_was_told(world, op, timer->at))) &&
           (was_paused ? timer->paused.ms == twin->row.paused.ms
                       : pauses_was_told(world, op, timer->paused)) &&
           bytes_equal(timer->texts.note, pauses_note(change->note, note));
}

bool pauses_ended(const struct world *world, const struct twin *twin, const struct timer *timer)
{
    const struct sim_row *row = &twin->row;
    const struct told *told = &world->model.told[twin->partition];

    if (row->state != TIMER_PAUSED || timer->version != row->version + 1 ||
        timer->attempts != row->attempts || !content_matches(&row->content, timer) ||
        timer->state != (timer->attempts ? TIMER_RETRYING : TIMER_SCHEDULED))
        return false;
    for (size_t i = told->count; i-- > row->told_index;)
        if (told->nows[i].ms >= row->at.ms &&
            timer->at.ms == wall_max(timer->due, told->nows[i]).ms)
            return true;
    return false;
}

void pauses_keep(struct twin *twin, const struct timer *timer)
{
    const struct bytes note = timer->texts.note;

    twin->row.paused = timer->paused;
    twin->row.note = 0;
    for (size_t i = 1; timer->state == TIMER_PAUSED && i < note.size; i++)
        twin->row.note = 10 * twin->row.note + (uint32_t)(note.data[i] - '0');
}

bool pauses_are_as_asked(const struct op *op, const struct twin *twin)
{
    const bool is_paused = twin->row.state == TIMER_PAUSED;

    switch (op->change.kind) {
    case COMMAND_PAUSE:
        return is_paused && twin->row.at.ms == op->change.until.ms &&
               twin->row.note == op->change.note;
    case COMMAND_RESUME:
        return !is_paused;
    default:
        return op->change.kind == COMMAND_FIRE && is_paused;
    }
}

/* ---- answers ---- */

void pauses_judge(struct world *world, struct op *op)
{
    const struct timer *timer = op->command.timer;
    const uint32_t if_version = op->command.if_version;
    struct twin *twin = op->twin;
    const bool resumes = op->command.kind == COMMAND_RESUME;

    judge_shown(world, op, twin, timer);
    if ((timer->state == TIMER_PAUSED) == resumes)
        world_fail(world, twin->number, "a timer is paused until it is resumed",
                   "it is answered as %s", timer_state_text(timer->state));
    /* it may not have been paused before; then an equal answer names an older change */
    if (resumes) {
        const uint32_t version = timer->version;

        world->totals->resumed++;
        if (if_version && version != if_version && version != if_version + 1)
            world_fail(world, twin->number, "a stale version changes nothing", "but is answered");
        return;
    }
    if (!cause_claim(world, op, twin, timer->version))
        world_fail(world, twin->number, "acknowledged is durable", "the pause is not");
    if (if_version && timer->version != if_version + 1)
        world_fail(world, twin->number, "a stale version changes nothing",
                   "version %u was changed into %u", if_version, timer->version);
    world->totals->paused++;
}
