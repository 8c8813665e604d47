/* made.c - checks the timers that the engine makes itself beside others: firings and parts. */
#include "model.h"

#include "client.h"
#include "world.h"

#include <stdio.h>

/* Adds the twin of a timer that the engine has made. */
static struct twin *add_made(struct world *world, uint16_t partition, const struct content *content,
                             const struct timer *timer)
{
    uint64_t *bytes_max = &world->clients.created_bytes_max;
    struct awaited *awaited = &world->model.awaited;
    struct twin *twin = model_ask(world, partition, content);

    twin->asked.number = content->number; /* a patch by key may have set it to 0 */
    if (engine_footprint(timer) > *bytes_max)
        *bytes_max = engine_footprint(timer);
    world->model.made_count++;
    if (--awaited->made_left == 0)
        awaited->of = NULL;
    return twin;
}

/* ---- firings that begin beside the one before ---- */

static const char BEGUN[] = "a firing that may overlap begins as a timer of its own";

/* True if the next row of the batch is a new timer that is a firing of the twin. */
static bool begins_firing(const struct world *world, const struct twin *twin)
{
    const struct timer *next = world->model.next_row;
    char id[TIMER_ID_TEXT_SIZE];

    timer_id_format(&twin->id, id);
    return next && bytes_equal(next->texts.firing_of, bytes_of(id)) &&
           !map_get(&world->model.by_serial[twin->partition], next->id.serial);
}

/* True if the firing and the next time of the timer are those of a timer that begins a firing at
 * `now`: the last one that was missed, which is not too late. */
static bool begins_at(const struct twin *twin, const struct timer *timer,
                      const struct timer *firing, struct wall now)
{
    const struct rhythm *rhythm = &twin->row.content.rhythm;
    const struct wall due = twin->row.content.due;

    return due.ms <= now.ms && firing->due.ms == rhythm_latest(rhythm, due, now).ms &&
           !rhythm_drops(rhythm, due, now) && timer->due.ms != WALL_NEVER.ms &&
           rhythm_follows(rhythm, firing->due, now, timer->due) && firing->created.ms == now.ms &&
           model_is_placed(rhythm, timer, now, now);
}

/* Checks the row of a timer one of whose firings begins as the next row. */
static void check_begun(struct world *world, struct twin *twin, const struct timer *timer)
{
    const struct told *told = &world->model.told[twin->partition];
    const struct timer *firing = world->model.next_row;
    const struct sim_row *row = &twin->row;
    size_t i = told->count;

    if (!row->content.rhythm.is_apart || twin->is_out || twin->has_outcome || row->attempts > 0 ||
        timer_is_final(row->state) || row->state == TIMER_PAUSED || timer->attempts > 0 ||
        timer->version != row->version + 1)
        model_wrong(world, twin, timer, "no firing may begin beside it");
    while (i > row->told_index && !begins_at(twin, timer, firing, told->nows[i - 1]))
        i--;
    if (i <= row->told_index)
        model_wrong(world, twin, timer, "the firing that begins is not the one planned");
    firings_add_skipped(twin, row->content.due, firing->due);
    twin->row.content.due = firing->due;
    firings_add_begun(twin, &firing->id);
    world->model.awaited = (struct awaited){.of = twin, .made_left = 1};
    twin->row.content.due = timer->due;
    if (!content_matches(&row->content, timer))
        model_wrong(world, twin, timer, "it is changed by a firing that begins");
    twin->received = 0;
    world->totals->begun += !world->model.is_doubtful;
}

/* Returns the twin of a firing, from its first row. */
static struct twin *take_firing(struct world *world, uint16_t partition, const struct timer *timer)
{
    const struct twin *of = world->model.awaited.of;
    struct content content = content_of_firing(&of->row.content, &of->id, timer->due);

    content.created = timer->created;
    if (!content_matches(&content, timer))
        world_fail(world, of->number, BEGUN, "its firing has another content");
    return add_made(world, partition, &content, timer);
}

/* ---- parts of a timer with several targets ---- */

static const char PARTS[] = "a timer is over when all its targets are";

/* The longest time for which the row of a timer that waits for its parts stays where it is. */
#define PARTS_WAIT_MS_MAX (UINT64_C(3600) * 1000)

static size_t count_parts(const struct fan_row *fan, size_t count, enum fanout_state state)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += fan->states[i] == state;
    return found;
}

/* True if the engine was told this time since the timer's last row. */
static bool was_told(const struct world *world, const struct twin *twin, struct wall now)
{
    const struct told *told = &world->model.told[twin->partition];

    for (size_t i = told->count; i-- > twin->row.told_index;)
        if (told->nows[i].ms == now.ms)
            return true;
    return false;
}

/* Checks the row with which the parts of the timer begin: it is due, and they follow in its
 * batch. */
static void check_parted(struct world *world, struct twin *twin, const struct timer *timer,
                         const struct fanout *fanout)
{
    struct sim_row *row = &twin->row;
    struct fan_row *fan = &row->fan;

    if (timer->version != row->version + 1 || timer_is_final(row->state) ||
        row->state == TIMER_PAUSED || timer->state != TIMER_RETRYING || timer->attempts != 1 ||
        !content_matches(&row->content, timer))
        model_wrong(world, twin, timer, "its parts begin, and should not");
    if (fanout->due.ms != row->content.due.ms || fanout->due.ms > fanout->started.ms ||
        !was_told(world, twin, fanout->started) ||
        rhythm_drops(&row->content.rhythm, row->content.due, fanout->started))
        model_wrong(world, twin, timer, "its parts do not begin at a time at which it is due");
    *fan = (struct fan_row){.is_begun = true, .started = fanout->started};
    for (size_t i = 0; i < row->content.fan_count; i++) {
        if (fanout->parts[i].state != FANOUT_OPEN || !fanout->parts[i].has_id)
            model_wrong(world, twin, timer, "a target has no part");
        fan->ids[i] = fanout->parts[i].id;
        fan->states[i] = FANOUT_OPEN;
    }
    world->model.awaited = (struct awaited){.of = twin, .made_left = row->content.fan_count};
    world->totals->parted += !world->model.is_doubtful;
}

/* Returns the twin of a part, from its first row. */
static struct twin *take_part(struct world *world, uint16_t partition, const struct timer *timer)
{
    struct twin *of = world->model.awaited.of;
    struct fan_row *fan = &of->row.fan;
    size_t i = 0;

    while (i < of->row.content.fan_count && !timer_id_equal(&fan->ids[i], &timer->id))
        i++;
    if (i == of->row.content.fan_count || fan->parts[i])
        world_fail(world, of->number, PARTS, "a part that it does not name, or twice");
    struct content content = content_of_part(&of->row.content, &of->id, i);
    content.created = timer->created;
    if (!content_matches(&content, timer) || timer->created.ms != fan->started.ms)
        world_fail(world, of->number, PARTS, "the part for target %zu is something else", i);
    world->totals->parts += !world->model.is_doubtful;
    return fan->parts[i] = add_made(world, partition, &content, timer);
}

/* True if the part is, or was, in this state. If its record is gone, its end may be unknown. */
static bool was_part(const struct world *world, const struct twin *part, enum fanout_state state)
{
    static const enum timer_state STATES[] = {[FANOUT_FIRED] = TIMER_FIRED,
                                              [FANOUT_DEAD] = TIMER_DEAD,
                                              [FANOUT_CANCELLED] = TIMER_CANCELLED};
    bool was_dead = false;

    if (state == FANOUT_DEAD && timer_is_final(part->row.state) &&
        (!part->row.is_stored || model_may_forget(world, part)))
        return true;
    for (size_t i = 0; i < part->version_count; i++) {
        const enum timer_state then = part->versions[i].state;

        if (state == FANOUT_OPEN ? was_dead && !timer_is_final(then) : then == STATES[state])
            return true;
        was_dead |= then == TIMER_DEAD;
    }
    return false;
}

/* Takes how the parts stand from the row. Returns how many of them have changed. */
static size_t take_notes(struct world *world, struct twin *twin, const struct timer *timer,
                         const struct fanout *fanout)
{
    struct fan_row *fan = &twin->row.fan;
    size_t changed = 0;

    for (size_t i = 0; i < twin->row.content.fan_count; i++) {
        const struct fanout_part *part = &fanout->parts[i];

        if (!part->has_id || !timer_id_equal(&part->id, &fan->ids[i]) ||
            part->state == FANOUT_UNMADE)
            model_wrong(world, twin, timer, "it has another part");
        if (part->state == fan->states[i])
            continue;
        if (!was_part(world, fan->parts[i], part->state))
            world_fail(world, twin->number, PARTS, "part #%u is shown as %s, and never was",
                       fan->parts[i]->number, fanout_state_text(part->state));
        fan->states[i] = part->state;
        changed++;
    }
    return changed;
}

/* Returns the state of a timer whose parts stand like that. */
static enum timer_state state_of_parts(const struct twin *twin)
{
    const size_t count = twin->row.content.fan_count;
    const struct fan_row *fan = &twin->row.fan;

    return count_parts(fan, count, FANOUT_OPEN)        ? TIMER_RETRYING
           : count_parts(fan, count, FANOUT_DEAD)      ? TIMER_DEAD
           : count_parts(fan, count, FANOUT_CANCELLED) ? TIMER_CANCELLED
                                                       : TIMER_FIRED;
}

/* Notes the end of a timer by that of its last part. */
static void end_parted(struct world *world, struct twin *twin, const struct timer *timer)
{
    const struct fan_row *fan = &twin->row.fan;
    const uint64_t duration_ms = wall_since(fan->started, timer->ended);
    struct firing firing = {
        .planned_ms = twin->row.content.due.ms,
        .started_ms = fan->started.ms,
        .duration_ms = duration_ms < UINT32_MAX ? duration_ms : UINT32_MAX,
        .attempts = 1,
        .outcome = timer->state == TIMER_FIRED ? RUN_DONE : RUN_FAILED,
    };
    char *error = twin->outcome.error;

    if (!was_told(world, twin, timer->ended))
        model_wrong(world, twin, timer, "it ended at another time");
    twin->outcome_at = timer->ended;
    if (timer->state == TIMER_CANCELLED) {
        twin->parted_version = timer->version;
        return;
    }
    *error = '\0';
    if (timer->state == TIMER_DEAD) {
        const size_t dead = count_parts(fan, twin->row.content.fan_count, FANOUT_DEAD);
        char begin[40];

        snprintf(begin, sizeof(begin), "%zu of %u targets failed: ", dead,
                 twin->row.content.fan_count);
        if (!bytes_has_prefix(timer->texts.last_error, bytes_of(begin)))
            model_wrong(world, twin, timer, "its error does not say how many targets failed");
        snprintf(error, sizeof(twin->outcome.error), "%.*s", (int)timer->texts.last_error.size,
                 timer->texts.last_error.data);
        firings_check_told(world, twin);
    }
    model_await_report(world, twin, &firing, error);
}

/* Checks a row of a timer whose parts are made. */
static void check_noted(struct world *world, struct twin *twin, const struct timer *timer,
                        const struct fanout *fanout)
{
    const struct sim_row *row = &twin->row;
    const size_t changed = take_notes(world, twin, timer, fanout);
    const enum timer_state state = state_of_parts(twin);

    if (fanout->started.ms != row->fan.started.ms || fanout->due.ms != row->content.due.ms)
        model_wrong(world, twin, timer, "its parts began at another time");
    if (changed > 1 || timer->version != row->version + changed)
        model_wrong(world, twin, timer, "each end of a part is a version");
    if (changed == 0 && timer_is_final(row->state))
        model_wrong(world, twin, timer, "a timer that is over is written again");
    if (timer->state != state || timer->attempts != 1 || !content_matches(&row->content, timer))
        model_wrong(world, twin, timer, "it does not stand as its parts do");
    if (state == TIMER_RETRYING &&
        timer->at.ms > wall_add(world->model.now_max[twin->partition], PARTS_WAIT_MS_MAX).ms &&
        timer->at.ms != row->at.ms)
        model_wrong(world, twin, timer, "it waits too long");
    if (timer_is_final(state))
        end_parted(world, twin, timer);
}

static bool parts_explain(struct world *world, struct twin *twin, const struct timer *timer)
{
    struct fanout fanout;

    if (!twin->row.content.fan_count)
        return false;
    if (!fanout_read(timer, &fanout) || fanout.count != twin->row.content.fan_count) {
        if (twin->row.fan.is_begun)
            model_wrong(world, twin, timer, "its parts are gone");
        return false;
    }
    if (twin->row.fan.is_begun)
        check_noted(world, twin, timer, &fanout);
    else if (timer->texts.parts.size)
        check_parted(world, twin, timer, &fanout);
    else
        return false;
    twin->busy_step = world->step;
    return true;
}

bool made_could_be_by_parent(struct world *world, const struct twin *twin,
                             const struct timer *timer, struct content *ret_content)
{
    const struct twin *parent =
        twin->row.content.part_of.serial ? model_find(world, &twin->row.content.part_of) : NULL;

    return parent && cause_by_parent(world, parent, twin, timer, ret_content);
}

/* ---- both ---- */

bool made_explains(struct world *world, struct twin *twin, const struct timer *timer)
{
    if (!begins_firing(world, twin))
        return parts_explain(world, twin, timer);
    check_begun(world, twin, timer);
    return true;
}

struct twin *made_take(struct world *world, uint16_t partition, const struct timer *timer)
{
    return timer->texts.parts.size ? take_part(world, partition, timer)
                                   : take_firing(world, partition, timer);
}
