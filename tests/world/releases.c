/* releases.c - draws calls that end leases, and checks their answers. */
#include "client.h"

#include "judge.h"
#include "tenants.h"
#include "world.h"

enum { RELEASE_TRIES = 40 };

static const char RELEASED[] = "a released lease has ended when that is answered";

/* Returns a timer that a worker has, mostly; NULL if there is none. */
static struct twin *draw_leased(struct world *world)
{
    const struct sim_model *model = &world->model;

    for (int tries = 0; tries < RELEASE_TRIES && model->count > 0; tries++) {
        struct twin *twin = model->twins[world_below(world, model->count)];

        if (twin->life == TWIN_DURABLE && twin->change_count < CHANGES_MAX &&
            ((twin->is_out && twin->row.content.origin == QUEUE_ORIGIN) || world_chance(world, 80)))
            return twin;
    }
    return NULL;
}

void releases_act(struct world *world, uint16_t partition)
{
    struct twin *twin = draw_leased(world);

    if (!twin || world->host.partitions[twin->partition].is_draining)
        return;
    if (twin->row.content.key && world_chance(world, 300)) {
        struct op *op = clients_op(world, COMMAND_RELEASE, twin->partition);

        op->key = twin->row.content.key;
        op->command.name = content_key_text(op->key, op->name);
        tenants_sign(world, op, twin->row.content.tenant);
        world_note(world, "release key", partition, twin->number, op->key, 0);
        host_submit(world, op);
        return;
    }
    struct op *op = clients_call(world, COMMAND_RELEASE, twin->partition, twin);
    op->change.kind = COMMAND_GET; /* the outcome changes the row, not this call */
    if (world_chance(world, 300))
        op->command.if_version = clients_draw_if_version(world, twin);
    world_note(world, "release", twin->partition, twin->number, op->command.if_version, 0);
    twin->change_count++;
    host_submit(world, op);
}

bool releases_find(struct world *world, struct op *op)
{
    struct command *command = &op->command;

    if (command->kind != COMMAND_RELEASE || command->error || command->has_acted)
        return false;
    struct twin *twin = model_find(world, &command->timer->id);
    if (!twin)
        world_fail(world, 0, RELEASED, "a timer that is not there");
    if (op->twin && op->twin != twin)
        world_fail(world, twin->number, RELEASED, "another one was asked for");
    if (!twin->is_out || twin->row.content.origin != QUEUE_ORIGIN)
        world_fail(world, twin->number, RELEASED, "no worker had it");
    if (command->if_version && command->if_version != twin->row.version)
        world_fail(world, twin->number, "a stale version changes nothing",
                   "version %u is released as %u", twin->row.version, command->if_version);
    command->id = command->timer->id;
    if (!op->key)
        return true;
    if (claims_judge_named(world, op) != twin)
        world_fail(world, twin->number, RELEASED, "another key was asked for");
    op->key = 0; /* from here on it means this timer */
    op->twin = twin;
    twin->change_count++;
    return true;
}

void releases_judge(struct world *world, struct op *op)
{
    const struct command *command = &op->command;
    const struct twin *twin = op->twin;

    judge_shown(world, op, twin, command->timer);
    if (!command->has_acted)
        world_fail(world, twin->number, RELEASED, "it is answered before");
    if (twin->was_damaged)
        return;
    if (command->timer->version <= op->acted_version || twin->row.version <= op->acted_version)
        world_fail(world, twin->number, RELEASED, "version %u is answered, %u is durable",
                   command->timer->version, twin->row.version);
}

bool releases_may_miss(const struct world *world, const struct op *op)
{
    return op->command.kind == COMMAND_RELEASE && !op->command.has_acted &&
           !workers_hold(world, op->twin, op->step);
}
