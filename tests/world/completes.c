/*
 * completes.c - checks that a command about many timers changed each of them, and counted each
 * once.
 */
#include "client.h"

#include "judge.h"
#include "world.h"

static const char EACH[] = "each that an event is about is counted once";
static const char MISSED[] = "an event ends all that wait for it";

/* True if the command must have found the timer: it was about the timer from its start until now,
 * or until the timer ended. */
static bool was_meant(const struct op *op, const struct twin *twin)
{
    return cause_is_about(op, twin) && !twin->was_damaged && twin->told_step &&
           twin->told_step < op->step && twin->live_step < op->step && twin->put_step < op->step &&
           twin_lived_since(twin, op->step);
}

/* True if nothing has changed the timer since the command came. A patch of its labels or its time
 * may hide it from a search by labels. */
static bool was_at_rest(const struct op *op, const struct twin *twin)
{
    return twin->row.changed_step < op->step && !twin_was_busy(twin, op->step);
}

/* True if the command leaves the timer as it is. By labels that is so if it is due already, or as
 * requested. By event it is so for a resume, if it is not paused. */
static bool has_nothing_to_change(const struct world *world, const struct op *op,
                                  const struct twin *twin)
{
    if (op->event)
        return op->change.kind == COMMAND_RESUME && pauses_are_as_asked(op, twin);
    return pauses_are_as_asked(op, twin) ||
           (op->change.kind == COMMAND_FIRE && wall_max(twin->row.at, twin->row.content.due).ms <=
                                                   world->model.now_max[op->partition].ms) ||
           (op->change.kind == COMMAND_PATCH && op->change.fields & PATCH_DUE &&
            twin->row.content.due.ms == op->change.content.due.ms);
}

static void judge_missed(struct world *world, const struct op *op)
{
    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *twin = world->model.twins[i];

        if (!was_meant(op, twin) || !twin_is_live(twin) || twin_was_busy(twin, op->step) ||
            has_nothing_to_change(world, op, twin))
            continue;
        if (was_at_rest(op, twin) ||
            (op->event && op->change.kind == COMMAND_CANCEL && !twin->has_outcome))
            world_fail(world, twin->number, MISSED, "it is %s, version %u",
                       timer_state_text(twin->row.state), twin->row.version);
    }
}

/* Checks the number of firing timers in the answer: it includes those that were out all the time,
 * and may include those that were out at some time. */
static void judge_firing(struct world *world, const struct op *op)
{
    const uint64_t firing = op->command.completed.firing;
    uint64_t least = 0, most = 0;

    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *twin = world->model.twins[i];

        if (twin->partition != op->partition || twin->life != TWIN_DURABLE)
            continue;
        if (twin_was_busy(twin, op->step) &&
            (cause_is_about(op, twin) || twin->was_damaged || twin->row.changed_step >= op->step))
            most++;
        if (was_meant(op, twin) && twin->is_out && twin->out_step < op->step &&
            !has_nothing_to_change(world, op, twin))
            least++;
    }
    if (firing < least || firing > most)
        world_fail(world, 0, EACH, "%llu are told as firing, there were %llu to %llu",
                   (unsigned long long)firing, (unsigned long long)least, (unsigned long long)most);
}

static void judge_failed(struct world *world, const struct sim_partition *partition,
                         const struct op *op)
{
    const enum error_code error = op->command.error;

    world->totals->refused++;
    if (error == ERROR_OVERLOADED && op->change.kind != COMMAND_CANCEL &&
        partition->options.near_bytes_max < 1 << 20)
        return;
    judge_storage_error(world, partition, op, 0, error);
}

void completes_judge(struct world *world, const struct sim_partition *partition, struct op *op)
{
    const struct command *command = &op->command;

    world_note(world, "completed", op->partition, 0, command->error, command->completed.changed);
    if (command->error) {
        judge_failed(world, partition, op);
        return;
    }
    if (!cause_claim_count(world, op, command->completed.changed))
        world_fail(world, 0, EACH, "%llu are told as changed, and are not",
                   (unsigned long long)command->completed.changed);
    judge_firing(world, op);
    judge_missed(world, op);
    world->totals->completes++;
    world->totals->completed += command->completed.changed;
}
