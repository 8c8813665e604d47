/* tenants.c - draws tenants and checks their counts, limits and isolation. */
#include "tenants.h"

#include "judge.h"
#include "world.h"

#include <assert.h>

#define U64(value) ((unsigned long long)(value))

struct bytes tenants_text(uint8_t tenant)
{
    static const char *const names[TENANTS_MAX] = {"", "shop", "rival"};

    return bytes_of(names[tenant]);
}

uint8_t tenants_draw(struct world *world)
{
    return world->plan.tenant_count > 1 ? (uint8_t)world_below(world, world->plan.tenant_count) : 0;
}

void tenants_sign(struct world *world, struct op *op, uint8_t tenant)
{
    const struct sim_plan *plan = &world->plan;

    op->is_foreign = op->twin && !world->is_quiet && world_chance(world, plan->foreign_permille);
    if (op->is_foreign)
        tenant = (uint8_t)((tenant + 1 + world_below(world, plan->tenant_count - 1u)) %
                           plan->tenant_count);
    op->tenant = tenant;
    op->command.tenant = tenants_text(tenant);
    op->command.tenant_pending_max = plan->tenant_pending_max[tenant];
}

static uint64_t live_count(const struct sim_model *model, uint8_t tenant)
{
    uint64_t count = 0;

    for (size_t i = 0; i < model->count; i++)
        count += model->twins[i]->row.content.tenant == tenant && twin_is_live(model->twins[i]);
    return count;
}

uint64_t tenants_count_max(const struct world *world, uint8_t tenant)
{
    const struct sim_model *model = &world->model;
    uint64_t count = live_count(model, tenant);

    for (size_t i = 0; i < model->count; i++) {
        const struct twin *twin = model->twins[i];

        count += twin->life == TWIN_ASKED && twin->asked.tenant == tenant;
        count += twin->was_damaged;
        count += twin->row.content.tenant == tenant && twin_may_report(twin);
        count += twin->row.content.tenant == tenant && twin_may_begin(twin);
        count += twin->row.content.tenant == tenant ? twin_may_part(twin) : 0;
        /* it counts until its engine knows that its end is durable */
        count += twin->life == TWIN_DURABLE && twin->row.content.tenant == tenant &&
                 timer_is_final(twin->row.state) && twin->told_version < twin->row.version;
    }
    LIST_FOR_EACH (&world->clients.in_flight, link)
        count += list_item(link, struct op, link)->command.kind == COMMAND_REDRIVE;
    return count;
}

void tenants_start(struct world *world)
{
    tenant_counts_clear(&world->host.tenant_counts);
    for (uint8_t tenant = 1; tenant < world->plan.tenant_count; tenant++)
        tenant_counts_limit(&world->host.tenant_counts, tenants_text(tenant),
                            world->plan.tenant_pending_max[tenant]);
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        const enum error_code result =
            storage_load_tenant_counts(world->disk.storage, p, &world->host.tenant_counts, NULL);

        assert(result == ERROR_NONE);
        (void)result;
    }
}

/* Checks the limit. Reports are counted and never refused. */
void tenants_judge_new(struct world *world, const struct twin *twin)
{
    const struct sim_model *model = &world->model;
    const uint8_t tenant = twin->row.content.tenant;
    const uint64_t max = world->plan.tenant_pending_max[tenant];
    uint64_t count = live_count(model, tenant);

    for (size_t i = 0; i < model->count; i++)
        count -= model->twins[i]->row.content.tenant == tenant && twin_is_live(model->twins[i]) &&
                 content_is_report(&model->twins[i]->row.content);
    /* parts are not refused either, nor their timer when one of them lives again */
    if (max && !world->plan.damage_permille && !world->plan.fan_permille && count > max)
        world_fail(world, twin->number, "a tenant has no more timers than it may",
                   "tenant %u has %llu of %llu", tenant, U64(count), U64(max));
}

void tenants_judge_foreign(struct world *world, const struct sim_partition *partition,
                           struct op *op)
{
    static const char PROMISE[] = "to another tenant a timer is not there";
    const enum error_code error = op->command.error;

    if (!cause_claim_count(world, op, 0))
        world_fail(world, op->twin->number, PROMISE, "it was changed");
    if (!error || error == ERROR_GONE || op->command.timer)
        world_fail(world, op->twin->number, PROMISE, "it is shown");
    if (error != ERROR_NOT_FOUND && !(error == ERROR_CORRUPT && op->twin->was_damaged))
        judge_storage_error(world, partition, op, op->twin->number, error);
    world->totals->strangers++;
}

void tenants_check(struct world *world)
{
    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        const struct engine *engine = world->host.partitions[p].engine;

        if (!engine || !engine_is_idle(engine) || clients_in_flight(world, p) > 0)
            return;
    }
    uint64_t damaged = 0;
    for (size_t i = 0; i < world->model.count; i++)
        damaged += world->model.twins[i]->was_damaged;
    for (uint8_t tenant = 1; tenant < world->plan.tenant_count; tenant++) {
        const uint64_t live = live_count(&world->model, tenant);
        const uint64_t count =
            tenant_counts_count(&world->host.tenant_counts, tenants_text(tenant));

        if (count > live + damaged || count + damaged < live)
            world_fail(world, 0, "the timers of a tenant are counted",
                       "the engines count %llu of tenant %u, there are %llu", U64(count), tenant,
                       U64(live));
    }
}
