/*
 * doubts.c - keeps the rows of failed batches that are on disk nevertheless, until they are
 * decided.
 */
#include "model.h"

#include "world.h"

#include <assert.h>
#include <stdlib.h>

static struct model_copy copy(const struct sim_model *model)
{
    struct model_copy copy = {
        malloc((model->count + 1) * sizeof(struct twin)), model->count, {{0}}};

    assert(copy.twins);
    for (size_t i = 0; i < model->count; i++)
        copy.twins[i] = *model->twins[i];
    for (size_t p = 0; p < PARTITIONS_MAX; p++)
        copy.metas[p] = model->metas[p];
    return copy;
}

/* Only the contents of the row go back; observations of the timer stay. */
static void put_back(struct world *world, struct twin *twin, const struct twin *before)
{
    if (!twin->is_in_doubt && twin->row.is_stored == before->row.is_stored)
        return;
    if (before->life != TWIN_DURABLE && twin->life == TWIN_DURABLE) {
        map_remove(&world->model.by_serial[twin->partition], twin->id.serial);
        twin->life = TWIN_NEVER;
    }
    twin->row = before->row;
    twin->row.written_step = world->step;
    twin->version_count = before->version_count;
    twin->live_step = before->live_step;
    twin->put_step = before->put_step;
    twin->is_spilled = before->is_spilled;
    twin->is_damaged = before->is_damaged;
    twin->is_in_doubt = before->is_in_doubt;
    /* The engine writes the outcome again: a crash may find that batch on disk, and not this. */
    twin->has_outcome = before->has_outcome;
    twin->outcome = before->outcome;
    if (twin->received < before->received)
        twin->received = before->received;
    world_note(world, "was never written", twin->partition, twin->number, twin->row.version, 0);
}

void doubts_add(struct world *world, const struct storage_batch *batch)
{
    struct sim_model *model = &world->model;
    struct doubts *doubts = &world->doubts;

    assert(doubts->count < DOUBTS_MAX);
    doubts->doubts[doubts->count++].before = copy(model);
    model->is_doubtful = true;
    model_durable(world, batch);
    model->is_doubtful = false;
    for (size_t i = 0; i < batch->write_count; i++) {
        struct twin *twin = model_twin_of(world, batch->partition, batch->writes[i].timer);

        twin->is_in_doubt = twin->was_in_doubt = true;
        twin->was_made_in_doubt |= batch->writes[i].timer->version == 1;
    }
    world->totals->in_doubt++;
}

static void forget(struct doubts *doubts)
{
    while (doubts->count > 0)
        free(doubts->doubts[--doubts->count].before.twins);
}

void doubts_end(struct world *world)
{
    if (world->doubts.count == 0)
        return;
    forget(&world->doubts);
    for (size_t i = 0; i < world->model.count; i++)
        world->model.twins[i]->is_in_doubt = false;
}

void doubts_crash(struct world *world, size_t kept)
{
    struct doubts *doubts = &world->doubts;

    if (kept < doubts->count) {
        const struct model_copy *before = &doubts->doubts[kept].before;
        const struct twin nothing = {0};

        world->totals->doubts_lost += doubts->count - kept;
        for (size_t i = 0; i < world->model.count; i++)
            put_back(world, world->model.twins[i],
                     i < before->count ? &before->twins[i] : &nothing);
        for (size_t p = 0; p < PARTITIONS_MAX; p++)
            world->model.metas[p] = before->metas[p];
    }
    doubts_end(world);
}
