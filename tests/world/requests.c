/* requests.c - draws calls by key, repeated calls, and calls by event or label. */
#include "client.h"

#include "tenants.h"
#include "world.h"

enum {
    REPEATS_MAX = 40,  /* how many requests back a repeated one may be */
    COMPLETES_MAX = 2, /* maximum of commands about many timers at a time in one partition */
};

/* ---- names ---- */

uint8_t requests_draw_key(struct world *world)
{
    return (uint8_t)(1 + world_below(world, world->plan.keys_max));
}

uint8_t requests_draw_event(struct world *world)
{
    return (uint8_t)(1 + world_below(world, world->plan.events_max));
}

uint8_t requests_draw_group(struct world *world)
{
    return (uint8_t)(1 + world_below(world, 3));
}

void requests_name(struct world *world, struct content *content)
{
    const struct sim_plan *plan = &world->plan;

    if (world_chance(world, plan->key_permille))
        content->key = requests_draw_key(world);
    if (world_chance(world, plan->request_permille))
        content->request = (uint8_t)(1 + world_below(world, plan->requests_max));
    while (world_chance(world, plan->watch_permille))
        content->watch |= (uint8_t)(1u << requests_draw_event(world));
    if (world_chance(world, plan->group_permille))
        content->group = requests_draw_group(world);
}

/* ---- creates ---- */

static bool may_create(const struct world *world, uint16_t partition)
{
    return world->model.count - world->model.made_count < world->plan.timers_max &&
           model_pending_max(&world->model, partition) <= world->plan.live_max;
}

static void put(struct world *world, uint16_t partition)
{
    struct content content = clients_draw_content(world);

    content.key = requests_draw_key(world);
    uint32_t if_version = 0;
    if (world_chance(world, 300))
        if_version = 1 + (uint32_t)world_below(world, 4);
    clients_ask(world, COMMAND_PUT, partition, &content, 1, if_version);
}

/* Draws a repeated request: an equal one, an equal one whose delay counts from now, or by mistake
 * another request under the same name. */
static struct content again(struct world *world, const struct twin *twin)
{
    const struct wall now = world_now(world);
    struct content content = twin->asked;

    if (content.debounce.for_ms) {
        content.created = now;
        content_debounce(&content, now, now);
    } else if (!rhythm_recurs(&content.rhythm) && world_chance(world, 300) &&
               content.due.ms >= content.created.ms) {
        content.due = wall_min(wall_add(now, content.due.ms - content.created.ms),
                               (struct wall){WALL_MS_MAX});
        content.created = now;
    }
    if (world_chance(world, 150))
        content.variant ^= 1;
    if (world_chance(world, 150))
        content.payload = ++world->model.token;
    return content;
}

static void repeat(struct world *world)
{
    const struct sim_model *model = &world->model;

    for (int tries = 0; tries < 8 && model->count > 0; tries++) {
        const size_t back =
            1 + world_below(world, model->count < REPEATS_MAX ? model->count : REPEATS_MAX);
        const struct twin *twin = model->twins[model->count - back];

        if ((!twin->asked.key && !twin->asked.request) || !may_create(world, twin->partition) ||
            world->host.partitions[twin->partition].is_draining)
            continue;
        struct content content = again(world, twin);
        clients_ask(world, content.key && world_chance(world, 100) ? COMMAND_PUT : COMMAND_CREATE,
                    twin->partition, &content, 1, 0);
        return;
    }
}

/* ---- by key ---- */

static void by_key(struct world *world, uint16_t partition)
{
    static const enum command_kind kinds[] = {COMMAND_GET, COMMAND_PATCH, COMMAND_CANCEL,
                                              COMMAND_FIRE};
    const enum command_kind kind = kinds[world_below(world, 4)];
    struct op *op = clients_op(world, kind, partition);
    struct change *change = &op->change;

    op->key = requests_draw_key(world);
    op->command.name = content_key_text(op->key, op->name);
    tenants_sign(world, op, tenants_draw(world));
    change->kind = kind;
    if (kind != COMMAND_GET)
        op->command.if_version = change->if_version = clients_draw_if_version(world, NULL);
    if (kind == COMMAND_PATCH) {
        change->fields = (1 + (uint32_t)world_below(world, 63)) | clients_draw_fields(world);
        change->content = clients_draw_content(world);
        clients_patch(world, op);
    }
    world_note(world, "by key", partition, 0, op->key, kind);
    host_submit(world, op);
}

/* ---- many ---- */

/* True if another command about many timers may be sent. With more at a time their effects could
 * not be distinguished. */
static bool may_complete(const struct world *world, uint16_t partition)
{
    size_t count = 0;

    LIST_FOR_EACH (&world->clients.in_flight, link) {
        const struct op *op = list_item(link, struct op, link);

        count += op->partition == partition && op->command.kind == COMMAND_COMPLETE;
    }
    return count < COMPLETES_MAX;
}

static void complete(struct world *world, uint16_t partition)
{
    struct op *op = clients_op(world, COMMAND_COMPLETE, partition);
    struct change *change = &op->change;

    change->kind = world_chance(world, 650) ? COMMAND_CANCEL : COMMAND_FIRE;
    if (world->plan.watch_permille && world_chance(world, 700)) {
        op->event = requests_draw_event(world);
        op->command.name = content_event_text(op->event, op->name);
    } else {
        op->group = requests_draw_group(world);
        op->command.labels = content_group_text(op->group, op->name);
        if (world_chance(world, 300))
            change->kind = COMMAND_PATCH;
    }
    if (pauses_instead(world))
        change->kind = pauses_kind(world, NULL);
    if (change->kind == COMMAND_PAUSE)
        pauses_ask(world, op);
    if (change->kind == COMMAND_PATCH) {
        change->fields = PATCH_DUE;
        change->content = clients_draw_content(world);
        clients_patch(world, op);
    }
    op->command.each = change->kind;
    tenants_sign(world, op, tenants_draw(world));
    world_note(world, "complete", partition, 0, op->event ? op->event : 100u + op->group,
               change->kind);
    host_submit(world, op);
}

void requests_act(struct world *world, enum action action, uint16_t partition)
{
    switch (action) {
    case ACTION_PUT:
        if (may_create(world, partition))
            put(world, partition);
        break;
    case ACTION_REPEAT:
        repeat(world);
        break;
    case ACTION_BY_KEY:
        by_key(world, partition);
        break;
    default:
        if (may_complete(world, partition))
            complete(world, partition);
        break;
    }
}
