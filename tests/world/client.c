/* client.c - draws and sends the calls of simulated clients, and handles their answers. */
#include "client.h"

#include "tenants.h"
#include "timer/firing.h"
#include "timer/runs.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

#define PACE_MS_MAX (UINT64_C(2) * 24 * 3600 * 1000) /* any timer may be paused as long */

void clients_init(struct world *world)
{
    list_init(&world->clients.in_flight);
    list_init(&world->clients.answered);
    list_init(&world->clients.walks);
}

static void free_ops(struct list *ops)
{
    struct list *link;

    while ((link = list_pop(ops)))
        free(list_item(link, struct op, link));
}

void clients_deinit(struct world *world)
{
    free_ops(&world->clients.in_flight);
    free_ops(&world->clients.answered);
    struct list *link;
    while ((link = list_pop(&world->clients.walks))) {
        struct walk *walk = list_item(link, struct walk, link);

        free(walk->seen);
        free(walk);
    }
}

size_t clients_in_flight(const struct world *world, uint16_t partition)
{
    size_t count = 0;

    LIST_FOR_EACH (&world->clients.in_flight, link)
        count += list_item(link, struct op, link)->partition == partition;
    return count;
}

/* The engine may still have been looking for names. */
void clients_drop(struct op *op)
{
    timer_free(op->command.patch);
    op->command.patch = NULL;
    for (size_t i = 0; i < op->command.timer_count; i++)
        if (!op->results[i].id.serial && !op->results[i].error)
            timer_free(op->timers[i]);
    free(op->command.names_.ids);
    op->command.names_.ids = NULL;
}

void clients_crash(struct world *world)
{
    struct clients *clients = &world->clients;

    LIST_FOR_EACH (&clients->in_flight, link) {
        struct op *op = list_item(link, struct op, link);

        clients_drop(op);
        world->totals->unanswered++;
    }
    list_join(&clients->answered, &clients->in_flight);
}

/* ---- contents of requests ---- */

static struct wall draw_due(struct world *world)
{
    const struct sim_plan *plan = &world->plan;
    const struct wall now = world_now(world);
    const uint64_t window_ms = plan->engine.window_ms;
    struct wall due = now;

    switch (plan_pick(&world->random, plan->due_weights, DUE_CLASSES)) {
    case DUE_PAST:
        due.ms -= world_skewed(world, now.ms);
        break;
    case DUE_NOW:
        break;
    case DUE_NEAR:
        due = wall_add(now, world_below(world, window_ms + 1));
        break;
    case DUE_BEYOND:
        due = wall_add(now, window_ms + world_below(world, 3 * window_ms));
        break;
    case DUE_FAR:
        due = wall_add(now, world_skewed(world, 24 * 3600 * 1000));
        break;
    case DUE_VERY_FAR:
        due = wall_add(now, world_skewed(world, WALL_MS_MAX));
        break;
    default:
        if (world->model.count > 0)
            due = world->model.twins[world_below(world, world->model.count)]->asked.due;
        break;
    }
    return wall_min(due, (struct wall){WALL_MS_MAX});
}

/* Drawn beside the random draws of the run, so that old seeds keep their runs. */
static uint64_t draw_give_up_ms(const struct world *world)
{
    const uint64_t drawn = random_mix(world->settings->seed ^ (uint64_t)world->model.token << 16);

    return random_mix(world->settings->seed) % 2 ? 1 + drawn % (drawn % 3 ? 500 : 20000) : 0;
}

/* Drawn like draw_give_up_ms. */
static bool draw_until_next(const struct world *world)
{
    return random_mix(world->settings->seed ^ (uint64_t)world->model.token << 24) % 4 == 0;
}

static struct retry_policy draw_retry(struct world *world)
{
    const struct sim_plan *plan = &world->plan;

    return (struct retry_policy){
        .attempts_max = 1 + (uint32_t)world_skewed(world, plan->attempts_max_max - 1),
        .base_ms = world_skewed(world, plan->base_ms_max),
        .cap_ms = world_skewed(world, plan->cap_ms_max),
        .timeout_ms = 1 + world_skewed(world, plan->timeout_ms_max),
        .give_up_ms = draw_give_up_ms(world),
        .until_next = draw_until_next(world),
    };
}

/* Drawn beside the random draws of the run, so that old seeds keep their runs. */
static uint8_t draw_report(const struct world *world, uint64_t token)
{
    const struct sim_plan *plan = &world->plan;
    const uint64_t drawn = random_mix(world->settings->seed ^ token << 8);
    const uint64_t targets = plan->origin_count + (plan->queue_permille > 0);

    if (drawn % 1000 >= plan->report_permille)
        return 0;
    const uint64_t origin = drawn / 1000 % targets;
    return 1 + (origin == plan->origin_count ? QUEUE_ORIGIN : (uint8_t)origin);
}

/* Drawn like draw_report. */
static uint8_t draw_flow(const struct world *world, uint64_t token)
{
    const uint64_t drawn = random_mix(world->settings->seed ^ ~token << 9);

    return drawn % 1000 < world->plan.flow_permille ? 1 + drawn / 1000 % FLOWS_MAX : 0;
}

/* Drawn like draw_report. */
static uint32_t draw_ack_timeout_ms(const struct world *world, uint64_t token)
{
    static const uint32_t TIMEOUTS[] = {0, 0, 1000, 2500, 12 * 3600 * 1000};

    return world->plan.later_permille
               ? TIMEOUTS[random_mix(world->settings->seed ^ token << 17) % 5]
               : 0;
}

/* Draws a debounce in place of a time, like draw_report. */
static void draw_debounce(struct world *world, struct content *content)
{
    static const uint64_t FORS[] = {1, 20, 500, 5000, 3600 * 1000};
    const uint64_t drawn = random_mix(world->settings->seed ^ (uint64_t)content->labels << 15);

    if (!content->key || rhythm_recurs(&content->rhythm) ||
        drawn % 1000 >= world->plan.debounce_permille)
        return;
    content->debounce.for_ms = FORS[drawn / 1000 % (sizeof(FORS) / sizeof(*FORS))];
    content->debounce.at_most_ms = content->debounce.for_ms * (1 + drawn / 10000 % 4);
    content_debounce(content, content->created, content->created);
}

/* Last due time of a timer with several targets: while it waits for its parts, its row moves on
 * by up to an hour, and a part may be retried for long. */
#define FAN_DUE_MAX ((struct wall){WALL_MS_MAX - UINT64_C(366) * 24 * 3600 * 1000})

/* Draws several targets, like draw_report. Such a timer fires once, and no event and no label finds
 * it. */
static void draw_fan(struct world *world, struct content *content)
{
    const uint64_t drawn = random_mix(world->settings->seed ^ (uint64_t)content->labels << 13);
    const uint64_t origins = world->plan.origin_count + (world->plan.queue_permille > 0);

    if (rhythm_recurs(&content->rhythm) || drawn % 1000 >= world->plan.fan_permille)
        return;
    content->fan_count = (uint8_t)(1 + drawn / 1000 % FAN_MAX);
    for (size_t i = 0; i < content->fan_count; i++) {
        const uint64_t origin = random_mix(drawn + i) % origins;
        const bool is_queued = origin == world->plan.origin_count;

        content->fan[i].origin = is_queued ? QUEUE_ORIGIN : (uint8_t)origin;
        /* targets differ, and so do the priorities of a queue */
        content->fan[i].target = is_queued ? 1 + (uint32_t)i : ++world->model.token;
    }
    content->target = content->fan[0].target;
    content->origin = content->fan[0].origin;
    content->watch = content->group = 0;
    if (content->due.ms > FAN_DUE_MAX.ms) {
        content->debounce.for_ms = 0;
        content->due = FAN_DUE_MAX;
    }
}

struct content clients_draw_content(struct world *world)
{
    uint32_t *token = &world->model.token;
    const bool is_queued = world_chance(world, world->plan.queue_permille);
    struct content content = {
        .due = draw_due(world),
        .created = world_now(world),
        .retry = draw_retry(world),
        .target = is_queued ? 1 + (uint32_t)world_below(world, QUEUE_PRIORITIES) : ++*token,
        .origin = is_queued ? QUEUE_ORIGIN : (uint8_t)world_below(world, world->plan.origin_count),
        .payload = world_chance(world, 800) ? ++*token : 0,
        .payload_size = (uint32_t)world_skewed(world, world->plan.text_bytes_max),
        .headers = world_chance(world, 300) ? ++*token : 0,
        .labels = ++*token,
    };

    content.on_dead = draw_report(world, content.labels);
    content.on_success = draw_report(world, ~(uint64_t)content.labels);
    content.flow = draw_flow(world, content.labels);
    content.tenant = tenants_draw(world);
    content.rhythm = rhythm_draw(world, content.created, &content.due);
    content.ack_timeout_ms = draw_ack_timeout_ms(world, content.labels);
    requests_name(world, &content);
    draw_debounce(world, &content);
    draw_fan(world, &content);
    return content;
}

/* True if the call patches a part, which must get neither several targets nor a schedule. */
static bool is_of_part(const struct op *op)
{
    return op->command.kind == COMMAND_PATCH && op->twin && op->twin->row.content.part_of.serial;
}

/* Keeps timers with several targets from getting a schedule, an event or a label, and others from
 * getting several targets. */
static void strip_fan(const struct world *world, struct op *op)
{
    struct content *content = &op->change.content;

    if (!world->plan.fan_permille)
        return;
    /* while a part waits for long, the row of its timer moves on each hour */
    content->due = wall_min(content->due, wall_add(world_now(world), PACE_MS_MAX));
    content->due = wall_min(content->due, FAN_DUE_MAX);
    if (is_of_part(op))
        return;
    content->fan_count = 0;
    content->watch = content->group = 0;
    if (rhythm_recurs(&content->rhythm)) {
        const uint64_t drop_after_ms = content->rhythm.drop_after_ms;

        content->rhythm = RHYTHM_NONE;
        content->rhythm.drop_after_ms = drop_after_ms;
    }
}

/* ---- commands ---- */

struct op *clients_op(struct world *world, enum command_kind kind, uint16_t partition)
{
    struct op *op = calloc(1, sizeof(*op));

    assert(op);
    struct engine_stats stats;
    engine_stats(world->host.partitions[partition].engine, &stats);
    op->partition = partition;
    op->step = world->step;
    op->submitted_ms = world_ms(world);
    op->faults = world->host.partitions[partition].faults;
    op->near_bytes = stats.near_bytes;
    op->told_index = world->model.told[partition].count;
    op->told_index -= op->told_index > 0;
    op->command.kind = kind;
    op->command.partition = partition;
    list_push(&world->clients.in_flight, &op->link);
    return op;
}

/* Returns the number of redrives in flight: their timers count as living from the request on. */
static size_t redriven_count(const struct world *world, uint16_t partition)
{
    size_t count = 0;

    LIST_FOR_EACH (&world->clients.in_flight, link) {
        const struct op *op = list_item(link, struct op, link);

        count += op->partition == partition && op->command.kind == COMMAND_REDRIVE;
    }
    return count;
}

bool clients_puts(const struct op *op, size_t i)
{
    return op->command.kind == COMMAND_PUT || op->created[i]->asked.debounce.for_ms > 0;
}

void clients_ask(struct world *world, enum command_kind kind, uint16_t partition,
                 const struct content *contents, size_t count, uint32_t if_version)
{
    struct op *op = clients_op(world, kind, partition);

    for (size_t i = 0; i < count; i++) {
        struct twin *twin = op->created[i] = model_ask(world, partition, &contents[i]);

        op->timers[i] = content_timer(&twin->asked);
        const uint64_t runs_bytes = rhythm_recurs(&contents[i].rhythm) ? RUNS_BYTES_MAX : 0;
        const uint64_t bytes = engine_footprint(op->timers[i]) + runs_bytes + PAUSES_NOTE_SIZE;
        if (bytes > world->clients.created_bytes_max)
            world->clients.created_bytes_max = bytes;
        world_note(world, kind == COMMAND_PUT ? "put" : "create", partition, twin->number,
                   contents[i].due.ms, contents[i].origin);
    }
    if (clients_puts(op, 0)) {
        op->key = contents[0].key;
        op->change = (struct change){
            .kind = COMMAND_PUT, .content = op->created[0]->asked, .if_version = if_version};
        op->command.if_version = if_version;
    }
    op->pending = model_pending_max(&world->model, partition) + redriven_count(world, partition);
    tenants_sign(world, op, contents[0].tenant);
    op->tenant_count = tenants_count_max(world, op->tenant);
    op->command.timers = op->timers;
    op->command.results = op->results;
    op->command.timer_count = count;
    host_submit(world, op);
}

static void create_some(struct world *world, uint16_t partition, size_t count)
{
    const struct wall due = draw_due(world);
    const bool is_one_due = world_chance(world, 500);
    const struct sim_plan *plan = &world->plan;

    if (world->model.count - world->model.made_count + count > plan->timers_max ||
        model_pending_max(&world->model, partition) + count > plan->live_max + 1)
        return;
    struct content contents[CREATE_MANY_MAX];
    for (size_t i = 0; i < count; i++) {
        contents[i] = clients_draw_content(world);
        contents[i].tenant = contents[0].tenant; /* the request is that tenant's */
        if (count > 1)
            contents[i].debounce.for_ms = 0; /* one request changes one timer */
        if (is_one_due && !rhythm_recurs(&contents[i].rhythm) && !contents[i].debounce.for_ms)
            contents[i].due = contents[i].fan_count ? wall_min(due, FAN_DUE_MAX) : due;
    }
    clients_ask(world, COMMAND_CREATE, partition, contents, count, 0);
}

void clients_create(struct world *world, uint16_t partition, struct wall due)
{
    struct content content = clients_draw_content(world);

    content.due = due;
    content.debounce.for_ms = 0;
    content.rhythm = RHYTHM_NONE;
    content.key = content.request = content.watch = content.tenant = 0;
    clients_ask(world, COMMAND_CREATE, partition, &content, 1, 0);
}

/* Checks that the daemon makes the backfill that is asked for. */
static void check_backfill(struct world *world, const struct twin *twin,
                           const struct content *content)
{
    const struct rhythm *rhythm = &content->rhythm;
    struct timer *of = content_timer(&twin->row.content);
    char id[TIMER_ID_TEXT_SIZE];

    timer_id_format(&twin->id, id);
    const struct backfill asked = {.of = bytes_of(id),
                                   .from = rhythm->backfill.from,
                                   .to = rhythm->backfill.to,
                                   .rate = rhythm_rate(rhythm),
                                   .pace_ms = rhythm_pace_ms(rhythm),
                                   .count = rhythm->backfill.count};
    struct timer *made = firing_create_backfill(
        of, &asked, content->due, (struct wall){rhythm->until.ms + rhythm->spread_ms});
    assert(made);
    made->created = content->created;
    if (!content_matches(content, made))
        world_fail(world, twin->number, "a backfill fires what was asked for", "it is %.*s",
                   (int)made->texts.schedule.size, made->texts.schedule.data);
    timer_free(made);
    timer_free(of);
}

/* Asks for past instants of a timer that repeats to fire now, in a timer of its own. */
static void backfill(struct world *world)
{
    struct twin *twin = clients_draw_twin(world, ACTION_BACKFILL);
    struct content content;

    if (!twin || !rhythm_recurs(&twin->row.content.rhythm) || !twin->row.content.number ||
        !twin_is_live(twin) || twin->row.content.rhythm.backfill.of.serial ||
        content_is_report(&twin->row.content) ||
        world->host.partitions[twin->partition].is_draining ||
        world->model.count - world->model.made_count >= world->plan.timers_max ||
        model_pending_max(&world->model, twin->partition) > world->plan.live_max)
        return;
    content = twin->row.content;
    if (!rhythm_draw_backfill(world, &twin->row.content.rhythm, &twin->id, world_now(world),
                              &content.rhythm, &content.due))
        return;
    content.created = world_now(world);
    content.key = content.request = 0;
    content.debounce.for_ms = 0; /* of a timer that got its schedule later */
    content.retry.until_next = false;
    world_note(world, "backfill", twin->partition, twin->number, content.due.ms,
               content.rhythm.backfill.count);
    check_backfill(world, twin, &content);
    world->totals->backfills++;
    clients_ask(world, COMMAND_CREATE, twin->partition, &content, 1, 0);
}

/* An id that was never issued: an unused serial, a used serial with another first position, or a
 * guess at a timer that is being created. */
static struct timer_id strange_id(struct world *world, enum command_kind kind, uint16_t partition)
{
    const struct sim_model *model = &world->model;
    struct timer_id id = {world_now(world), partition, random_next(&world->random)};

    if (model->count > 0 && world_chance(world, 700)) {
        const struct twin *twin = model->twins[world_below(world, model->count)];

        if (twin->life == TWIN_DURABLE && twin->partition == partition) {
            id = twin->id;
            id.first.ms += 1 + world_below(world, 3);
        } else if (kind == COMMAND_GET && twin->life == TWIN_ASKED &&
                   twin->partition == partition) {
            id.first = wall_max(twin->asked.due, id.first);
            id.serial = TIMER_SERIAL(world->host.partitions[partition].epoch,
                                     world_below(world, model->count));
        }
    }
    return id;
}

struct op *clients_call(struct world *world, enum command_kind kind, uint16_t partition,
                        struct twin *twin)
{
    struct op *op = clients_op(world, kind, partition);

    op->twin = twin;
    op->command.id = twin ? twin->id : strange_id(world, kind, partition);
    op->told_version = twin ? twin->told_version : 0;
    tenants_sign(world, op, twin ? twin->row.content.tenant : tenants_draw(world));
    op->change.kind = kind;
    return op;
}

/* Some calls ask for an explanation, chosen without a random draw, so that old seeds keep their
 * runs. */
static enum command_kind draw_get(const struct world *world)
{
    const uint64_t drawn = random_mix(world->settings->seed ^ world->step) % 1000;

    return drawn < world->plan.explain_permille ? COMMAND_EXPLAIN : COMMAND_GET;
}

void clients_get(struct world *world, struct twin *twin)
{
    world_note(world, "get", twin->partition, twin->number, 0, 0);
    host_submit(world, clients_call(world, draw_get(world), twin->partition, twin));
}

/* A wrong version is mostly a version that has just been replaced. */
uint32_t clients_draw_if_version(struct world *world, const struct twin *twin)
{
    const uint32_t version = twin ? twin->row.version : 1;

    if (world_chance(world, world->plan.stale_permille))
        return version > 1 && world_chance(world, 800) ? version - 1 : version + 1;
    return world_chance(world, 500) ? version : 0;
}

uint32_t clients_draw_fields(const struct world *world)
{
    const uint64_t drawn = random_mix(~world->settings->seed ^ world->step);

    return (uint32_t)drawn &
           (PATCH_WATCH | PATCH_SCHEDULE | (world->plan.flow_permille ? PATCH_FLOW : 0) |
            (world->plan.later_permille ? PATCH_ACK_TIMEOUT : 0) |
            (world->plan.report_permille ? PATCH_ON_DEAD | PATCH_ON_SUCCESS : 0));
}

void clients_patch(struct world *world, struct op *op)
{
    strip_fan(world, op);
    op->command.patch_fields = op->change.fields;
    op->command.patch = content_timer(&op->change.content);
    if (engine_footprint(op->command.patch) > world->clients.patch_bytes_max)
        world->clients.patch_bytes_max = engine_footprint(op->command.patch);
}

/* One redrive in four has another target. */
static bool draw_is_retargeted(const struct world *world)
{
    return random_mix(world->settings->seed + world->step) % 4 == 0;
}

static void change(struct world *world, enum command_kind kind, uint16_t partition,
                   struct twin *twin)
{
    static const char *const words[] = {
        [COMMAND_PATCH] = "patch",  [COMMAND_CANCEL] = "cancel", [COMMAND_FIRE] = "fire",
        [COMMAND_PAUSE] = "pause",  [COMMAND_RESUME] = "resume", [COMMAND_REDRIVE] = "redrive",
        [COMMAND_FORGET] = "forget"};
    struct op *op = clients_call(world, kind, partition, twin);
    struct change *asked = &op->change;

    if (kind != COMMAND_REDRIVE)
        op->command.if_version = asked->if_version = clients_draw_if_version(world, twin);
    else if (world_chance(world, world->plan.pace_permille))
        op->command.not_before = wall_add(world_now(world), world_skewed(world, PACE_MS_MAX));
    if (kind == COMMAND_PAUSE)
        pauses_ask(world, op);
    if (kind == COMMAND_REDRIVE && draw_is_retargeted(world)) {
        asked->fields = PATCH_TARGET;
        asked->content = clients_draw_content(world);
        clients_patch(world, op);
    }
    if (kind == COMMAND_PATCH) {
        do {
            uint64_t few = world_below(world, 64);

            asked->fields = (uint32_t)(few & world_below(world, 64));
        } while (asked->fields == 0);
        asked->fields |= clients_draw_fields(world);
        asked->content = clients_draw_content(world);
        asked->content.number = twin ? twin->row.content.number : 0;
        clients_patch(world, op);
    }
    world_note(world, words[kind], partition, twin ? twin->number : 0, asked->fields,
               asked->if_version);
    if (twin)
        twin->change_count++;
    if (twin && kind == COMMAND_FORGET)
        twin->is_forget_asked = true;
    host_submit(world, op);
}

void clients_cancel(struct world *world, struct twin *twin)
{
    struct op *op = clients_call(world, COMMAND_CANCEL, twin->partition, twin);

    world_note(world, "cancel", twin->partition, twin->number, 0, 0);
    twin->change_count++;
    host_submit(world, op);
}

/* ---- listings ---- */

static void next_page(struct world *world, struct walk *walk)
{
    struct op *op = clients_op(world, COMMAND_LIST, walk->scan.partition);

    op->walk = walk;
    tenants_sign(world, op, walk->tenant);
    op->command.scan = walk->scan;
    host_submit(world, op);
}

static void list(struct world *world, uint16_t partition, struct wall from, struct wall to,
                 uint8_t key)
{
    struct walk *walk = calloc(1, sizeof(*walk));

    assert(walk);
    walk->scan = (struct storage_scan){
        .partition = partition,
        .kind = world_chance(world, 500) ? STORAGE_SCAN_LIVE : STORAGE_SCAN_ALL,
        .from = {from, 0},
        .to = {to, 0},
        .rows_max = 1 + world_skewed(world, 100),
        .bytes_max = world_chance(world, 500) ? SIZE_MAX : 1 + world_skewed(world, 10000),
    };
    walk->key = key;
    if (key) {
        walk->filter.key_prefix = content_key_text(walk->key, walk->key_text);
        walk->scan.filter = &walk->filter;
    }
    walk->first = walk->scan.from;
    walk->tenant = tenants_draw(world);
    walk->step = world->step;
    walk->seen_count = world->model.count;
    walk->seen = calloc(walk->seen_count + 1, 1);
    assert(walk->seen);
    list_push(&world->clients.walks, &walk->link);
    world_note(world, "list", partition, 0, from.ms, to.ms);
    next_page(world, walk);
}

void clients_list(struct world *world, uint16_t partition)
{
    list(world, partition, (struct wall){0}, (struct wall){WALL_MS_MAX + 1}, 0);
}

/* Returns a key to search for, or 0. Not drawn, so that a seed stays the run that it was. */
static uint8_t clients_search_key(const struct world *world)
{
    const uint32_t keys_max = world->plan.keys_max;

    return keys_max ? (uint8_t)(1 + world->step % keys_max) : 0;
}

void clients_search(struct world *world, uint16_t partition)
{
    list(world, partition, (struct wall){0}, (struct wall){WALL_MS_MAX + 1},
         clients_search_key(world));
}

static void list_some(struct world *world, uint16_t partition)
{
    const struct wall now = world_now(world);
    struct wall from = {now.ms - world_skewed(world, now.ms)};

    if (world_chance(world, 500))
        clients_list(world, partition);
    else
        list(world, partition, from, wall_add(from, 1 + world_skewed(world, WALL_MS_MAX)),
             world->step % 2 ? clients_search_key(world) : 0);
}

void clients_answered(struct world *world, struct op *op)
{
    struct walk *walk = op->walk;

    list_remove(&op->link);
    list_push(&world->clients.answered, &op->link);
    if (!walk || op->command.error || world->host.partitions[op->partition].is_draining ||
        !storage_position_before(walk->scan.from, walk->scan.to))
        return;
    list_remove(&walk->link);
    list_push_front(&world->clients.walks, &walk->link);
    walk->is_waiting = true;
}

/* ---- choice of calls ---- */

struct twin *clients_draw_twin(struct world *world, enum action action)
{
    const struct sim_model *model = &world->model;

    for (int tries = 0; tries < 8 && model->count > 0; tries++) {
        struct twin *twin = model->twins[world_below(world, model->count)];
        const bool is_fit =
            action == ACTION_REDRIVE ? twin->row.state == TIMER_DEAD : twin_is_live(twin);

        if (twin->life != TWIN_DURABLE || twin->change_count == CHANGES_MAX ||
            (twin->change_count > 0 && !world_chance(world, world->plan.hasty_permille)) ||
            (!is_fit && !world_chance(world, 80)))
            continue;
        return twin;
    }
    return NULL;
}

static enum command_kind command_of(struct world *world, enum action action)
{
    const uint32_t forget_permille = world->plan.forget_permille;

    switch (action) {
    case ACTION_PATCH:
        return COMMAND_PATCH;
    case ACTION_FIRE:
        return COMMAND_FIRE;
    case ACTION_REDRIVE:
        return forget_permille && world_chance(world, forget_permille) ? COMMAND_FORGET
                                                                       : COMMAND_REDRIVE;
    default:
        return COMMAND_CANCEL;
    }
}

static void act_on(struct world *world, struct twin *twin, enum action action)
{
    const bool is_strange = world_chance(world, world->plan.stale_permille / 4);

    if (!twin && !is_strange)
        return;
    uint16_t partition =
        twin ? twin->partition : (uint16_t)world_below(world, world->plan.partition_count);
    if (world->host.partitions[partition].is_draining)
        return;
    if (is_strange)
        twin = NULL;
    if (action == ACTION_GET && twin)
        clients_get(world, twin);
    else if (action == ACTION_GET)
        host_submit(world, clients_call(world, COMMAND_GET, partition, NULL));
    else if (action != ACTION_REDRIVE && pauses_instead(world))
        change(world, pauses_kind(world, twin), partition, twin);
    else
        change(world, command_of(world, action), partition, twin);
}

bool clients_go_on(struct world *world)
{
    LIST_FOR_EACH (&world->clients.walks, link) {
        struct walk *walk = list_item(link, struct walk, link);

        if (!walk->is_waiting)
            return false; /* walks that wait are first in the list */
        walk->is_waiting = false;
        list_remove(&walk->link);
        list_push(&world->clients.walks, &walk->link);
        if (world->host.partitions[walk->scan.partition].is_draining)
            continue;
        next_page(world, walk);
        return true;
    }
    return false;
}

void clients_act(struct world *world)
{
    const enum action action =
        (enum action)plan_pick(&world->random, world->plan.action_weights, ACTIONS);
    const uint16_t partition = (uint16_t)world_below(world, world->plan.partition_count);

    pauses_draw_hold(world);
    pauses_draw_target(world);
    if (!world->host.is_up || (world_chance(world, 200) && clients_go_on(world)))
        return;
    if (action <= ACTION_CREATE_MANY || action == ACTION_LIST) {
        if (world->host.partitions[partition].is_draining)
            return;
        if (action == ACTION_LIST)
            list_some(world, partition);
        else
            create_some(world, partition,
                        action == ACTION_CREATE ? 1 : 2 + world_below(world, CREATE_MANY_MAX - 1));
        return;
    }
    if (action == ACTION_TOUCH) {
        if (!world->host.partitions[partition].is_draining)
            touches_act(world, partition);
        return;
    }
    if (action == ACTION_BACKFILL) {
        backfill(world);
        return;
    }
    if (action == ACTION_ANSWER) {
        answers_act(world);
        return;
    }
    if (action == ACTION_RELEASE) {
        if (!world->host.partitions[partition].is_draining)
            releases_act(world, partition);
        return;
    }
    if (action >= ACTION_PUT) {
        if (!world->host.partitions[partition].is_draining)
            requests_act(world, action, partition);
        return;
    }
    struct twin *twin = clients_draw_twin(world, action);
    act_on(world, twin, action);
    while (twin && twin->change_count < CHANGES_MAX &&
           world_chance(world, world->plan.hasty_permille / 2))
        act_on(world, twin, ACTION_GET + (enum action)world_below(world, 3));
}
