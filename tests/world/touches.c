/* touches.c - draws touches, and checks that a row was moved by a touch and only as far. */
#include "client.h"

#include "judge.h"
#include "tenants.h"
#include "world.h"

enum { TOUCHED_MAX = 8 };

static void submit(struct world *world, struct op *op, struct wall due)
{
    struct change *change = &op->change;

    change->fields = PATCH_DUE;
    change->content = clients_draw_content(world);
    change->content.due = due;
    clients_patch(world, op);
    world_note(world, "touch", op->partition, op->twin ? op->twin->number : 0, due.ms,
               change->if_version);
    host_submit(world, op);
}

static void touch(struct world *world, struct twin *twin, struct wall due)
{
    struct op *op = clients_call(world, COMMAND_TOUCH, twin->partition, twin);

    if (world_chance(world, 300))
        op->command.if_version = op->change.if_version = clients_draw_if_version(world, twin);
    twin->change_count++;
    submit(world, op, due);
}

static void touch_by_key(struct world *world, uint16_t partition, struct wall due)
{
    struct op *op = clients_op(world, COMMAND_TOUCH, partition);

    op->key = (uint8_t)(1 + world_below(world, world->plan.keys_max));
    op->command.name = content_key_text(op->key, op->name);
    tenants_sign(world, op, tenants_draw(world));
    op->change.kind = COMMAND_TOUCH;
    submit(world, op, due);
}

/* Draws a due time: mostly a little later than those of most timers. */
static struct wall draw_due(struct world *world)
{
    const uint64_t window_ms = world->plan.engine.window_ms;
    const uint64_t max_ms = world_chance(world, 800) ? 4 * window_ms + 100 : 24 * 3600 * 1000;

    return wall_min(wall_add(world_now(world), world_below(world, max_ms)),
                    (struct wall){WALL_MS_MAX});
}

void touches_act(struct world *world, uint16_t partition)
{
    const struct wall due = draw_due(world);
    const uint64_t count = world_chance(world, 300) ? 1 + world_below(world, TOUCHED_MAX) : 1;

    if (world->plan.key_permille && world_chance(world, 300)) {
        touch_by_key(world, partition, due);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        struct twin *twin = clients_draw_twin(world, ACTION_TOUCH);

        if (twin && twin->change_count < CHANGES_MAX &&
            !world->host.partitions[twin->partition].is_draining)
            touch(world, twin, due);
    }
}

/* ---- what a touch may do ---- */

/* True if the engine may have been told this time, or a later one, before it handled the touch. */
static bool was_reached(const struct world *world, const struct op *op, struct wall at)
{
    const struct told *told = &world->model.told[op->partition];

    for (size_t i = told->count; i-- > op->told_index;)
        if (told->nows[i].ms >= at.ms)
            return true;
    return false;
}

static bool was_not_reached(const struct world *world, const struct op *op, struct wall at)
{
    const struct told *told = &world->model.told[op->partition];

    for (size_t i = told->count; i-- > op->told_index;)
        if (told->nows[i].ms < at.ms)
            return true;
    return false;
}

bool touches_could(const struct world *world, const struct op *op, const struct twin *twin,
                   const struct timer *timer)
{
    const struct sim_row *row = &twin->row;
    const struct wall due = op->change.content.due;
    const bool is_untried = row->state == TIMER_SCHEDULED && row->attempts == 0;

    if (due.ms <= row->content.due.ms || !pauses_stay(twin, timer) || timer->attempts)
        return false;
    if (row->state == TIMER_PAUSED)
        return true;
    if (timer->state != TIMER_SCHEDULED)
        return false;
    if (timer->at.ms == row->at.ms && is_untried && due.ms > row->at.ms)
        return was_not_reached(world, op, row->content.due);
    return timer->at.ms >= due.ms &&
           timer->at.ms <= wall_max(due, world->model.now_max[twin->partition]).ms &&
           (!is_untried || due.ms <= row->at.ms || was_reached(world, op, row->content.due));
}

bool touches_moved_on(const struct twin *twin, const struct timer *timer)
{
    return twin->row.at.ms < twin->row.content.due.ms && timer->at.ms == timer->due.ms;
}

void touches_judge(struct world *world, struct op *op)
{
    const struct timer *timer = op->command.timer;
    const struct wall due = op->change.content.due;
    struct twin *twin = op->twin;

    judge_shown(world, op, twin, timer);
    if (timer->due.ms < due.ms)
        world_fail(world, twin->number, "a touched timer is not due before", "%llu, not %llu",
                   (unsigned long long)timer->due.ms, (unsigned long long)due.ms);
    const struct wall shown =
        timer->state == TIMER_DELIVERING /* it may be a later firing, in place of missed ones */
            ? rhythm_latest(&twin->row.content.rhythm, due, timer->due)
            : due;
    if (timer->due.ms == shown.ms && cause_claim(world, op, twin, timer->version)) {
        if (op->change.if_version && timer->version != op->change.if_version + 1)
            world_fail(world, twin->number, "a stale version changes nothing",
                       "version %u was touched into %u", op->change.if_version, timer->version);
        world->totals->touched++;
        return;
    }
    if (!cause_claim_count(world, op, 0))
        world_fail(world, twin->number, "a touch never shortens", "but it changed the timer");
    if (op->change.if_version && timer->version != op->change.if_version)
        world_fail(world, twin->number, "a stale version changes nothing", "but is answered");
}
