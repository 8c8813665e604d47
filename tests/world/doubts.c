/*
 * doubts.c - keeps what failed appends wrote that are in the log nevertheless, until they are
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

void doubts_begin(struct world *world)
{
    assert(world->doubts.count == 0 && !world->doubts.before.twins);
    world->doubts.before = copy(&world->model);
    world->model.is_doubtful = true;
}

void doubts_add(struct world *world, const struct storage_batch *batch)
{
    model_durable(world, batch);
    for (size_t i = 0; i < batch->write_count; i++)
        model_twin_of(world, batch->partition, batch->writes[i].timer)->is_in_doubt = true;
}

void doubts_keep(struct world *world)
{
    struct doubts *doubts = &world->doubts;

    assert(doubts->count < PARTITIONS_MAX);
    doubts->after[doubts->count++] = copy(&world->model);
    world->totals->in_doubt++;
}

/* Restores the twin as it was. The versions that the doubts added stay, after the last one that
 * counts. */
static void put_back(struct world *world, struct twin *twin, const struct twin *before)
{
    struct version *const versions = twin->versions;
    const size_t capacity = twin->version_capacity;

    if (twin->life == TWIN_DURABLE && (!before || before->life != TWIN_DURABLE))
        map_remove(&world->model.by_serial[twin->partition], twin->id.serial);
    if (!before) {
        twin->life = TWIN_NEVER; /* a report */
        twin->row = (struct sim_row){0};
        twin->is_in_doubt = false;
        return;
    }
    *twin = *before;
    twin->versions = versions;
    twin->version_capacity = capacity;
}

void doubts_put_back(struct world *world)
{
    const struct model_copy *before = &world->doubts.before;
    struct sim_model *model = &world->model;

    for (size_t i = 0; i < model->count; i++)
        put_back(world, model->twins[i], i < before->count ? &before->twins[i] : NULL);
    for (size_t p = 0; p < PARTITIONS_MAX; p++)
        model->metas[p] = before->metas[p];
    model->is_doubtful = false;
}

void doubts_end(struct world *world)
{
    struct doubts *doubts = &world->doubts;

    while (doubts->count > 0)
        free(doubts->after[--doubts->count].twins);
    free(doubts->before.twins);
    doubts->before.twins = NULL;
}

/* Takes the contents of the row. What was observed of the timer stays. */
static void take(struct world *world, struct twin *twin, const struct twin *after)
{
    if (!after->is_in_doubt && twin->row.is_stored == after->row.is_stored)
        return;
    if (twin->life != TWIN_DURABLE) {
        twin->life = TWIN_DURABLE;
        twin->id = after->id;
        map_put(&world->model.by_serial[twin->partition], twin->id.serial, twin);
    }
    twin->row = after->row;
    twin->row.written_step = world->step;
    twin->version_count = after->version_count;
    twin->live_step = after->live_step;
    twin->put_step = after->put_step;
    twin->is_spilled = after->is_spilled;
    twin->is_damaged = after->is_damaged;
    twin->has_lost_names = after->has_lost_names;
    if (!after->received) /* the next firing has begun */
        twin->received = 0;
    world_note(world, "was written", twin->partition, twin->number, twin->row.version, 0);
}

void doubts_crash(struct world *world, size_t kept)
{
    struct doubts *doubts = &world->doubts;

    if (kept > 0) {
        const struct model_copy *after = &doubts->after[kept - 1];

        world->totals->doubts_kept += kept;
        for (size_t i = 0; i < after->count; i++)
            take(world, world->model.twins[i], &after->twins[i]);
        for (size_t p = 0; p < PARTITIONS_MAX; p++)
            world->model.metas[p] = after->metas[p];
    }
    doubts_end(world);
}
