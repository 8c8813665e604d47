/* tenure_ops.c - draws and judges the calls of clients in a run of several nodes. */
#include "tenure_ops.h"

#include "tenants.h"
#include "world.h"

#include "base/check.h"

#include <stdlib.h>

enum { CREATE_MAX = 4, RECENT_MAX = 40, LISTED_MAX = 20, MESSAGE_PERMILLE = 300 };

static struct op *ops_alloc(enum command_kind kind)
{
    struct op *op = calloc(1, sizeof(*op));

    CHECK(op);
    op->command.kind = op->change.kind = kind;
    return op;
}

void tenure_ops_free(struct op *op)
{
    clients_drop(op);
    free(op);
}

static void ops_sign(struct op *op, struct bytes tenant)
{
    for (uint8_t i = 0; i < TENANTS_MAX; i++)
        if (bytes_equal(tenants_text(i), tenant))
            op->tenant = i;
    op->command.tenant = tenants_text(op->tenant);
}

/* ---- creates ---- */

/* Draws a content. Some timers have a message that is committed with their end: they fire once, and
 * no call by a name gives them another target. */
static struct content ops_draw_content(struct world *world)
{
    struct content content = clients_draw_content(world);

    if (!content.key && !rhythm_recurs(&content.rhythm) && !content.fan_count &&
        world_chance(world, MESSAGE_PERMILLE))
        content.origin = MESSAGE_ORIGIN;
    return content;
}

static void ops_add_timer(struct world *world, struct op *op, const struct content *content)
{
    const size_t i = op->command.timer_count++;

    op->created[i] = model_ask(world, 0, content);
    op->timers[i] = content_timer(&op->created[i]->asked);
}

static struct op *ops_create(struct world *world, enum action action)
{
    struct op *op = ops_alloc(action == ACTION_PUT ? COMMAND_PUT : COMMAND_CREATE);
    const uint64_t count =
        action == ACTION_CREATE_MANY ? 2 + world_below(world, CREATE_MAX - 1) : 1;
    const uint8_t tenant = tenants_draw(world);

    op->command.timers = op->timers;
    op->command.results = op->results;
    for (uint64_t i = 0; i < count; i++) {
        struct content content = ops_draw_content(world);

        content.tenant = tenant;
        if (action == ACTION_PUT) {
            content.key = requests_draw_key(world);
            content.origin = 0;
        }
        ops_add_timer(world, op, &content);
    }
    ops_sign(op, tenants_text(tenant));
    return op;
}

/* Repeats a request with its name. */
static struct op *ops_repeat(struct world *world)
{
    const struct sim_model *model = &world->model;
    const uint64_t known = model->count < RECENT_MAX ? model->count : RECENT_MAX;
    const struct twin *twin =
        known > 0 ? model->twins[model->count - 1 - world_below(world, known)] : NULL;

    if (!twin || (!twin->asked.key && !twin->asked.request))
        return NULL;
    struct op *op = ops_alloc(COMMAND_CREATE);
    op->command.timers = op->timers;
    op->command.results = op->results;
    const struct content content = twin->asked;
    ops_add_timer(world, op, &content);
    ops_sign(op, tenants_text(content.tenant));
    return op;
}

/* ---- calls on what there is ---- */

/* Draws the content of a change. A timer with a message keeps its target. */
static void ops_patch(struct world *world, struct op *op, bool has_message)
{
    struct change *change = &op->change;

    change->content = clients_draw_content(world);
    if (change->kind == COMMAND_TOUCH || op->command.kind == COMMAND_COMPLETE)
        change->fields = PATCH_DUE;
    else
        change->fields = (1 + (uint32_t)world_below(world, 63)) | clients_draw_fields(world);
    if (has_message)
        change->fields = (change->fields & ~(uint32_t)(PATCH_TARGET | PATCH_SCHEDULE)) | PATCH_DUE;
    clients_patch(world, op);
}

static void ops_change(struct world *world, struct op *op, bool has_message)
{
    if (op->change.kind == COMMAND_PAUSE)
        pauses_ask(world, op);
    if (op->change.kind == COMMAND_PATCH || op->change.kind == COMMAND_TOUCH)
        ops_patch(world, op, has_message);
}

static enum command_kind ops_kind(struct world *world, enum action action, enum timer_state state)
{
    if (state == TIMER_DEAD && action != ACTION_GET)
        return world_chance(world, 500) ? COMMAND_REDRIVE : COMMAND_FORGET;
    if (state == TIMER_DELIVERING && action != ACTION_GET && action != ACTION_CANCEL)
        return COMMAND_ANSWER;
    if (action != ACTION_GET && pauses_instead(world))
        return state == TIMER_PAUSED ? COMMAND_RESUME : COMMAND_PAUSE;
    switch (action) {
    case ACTION_PATCH:
        return COMMAND_PATCH;
    case ACTION_CANCEL:
        return COMMAND_CANCEL;
    case ACTION_FIRE:
        return COMMAND_FIRE;
    case ACTION_TOUCH:
        return COMMAND_TOUCH;
    default:
        return COMMAND_GET;
    }
}

/* Answers the attempt that the timer waits for. */
static void ops_answer(struct world *world, struct op *op, const struct timer *timer)
{
    static const enum command_answer_verb verbs[] = {ANSWER_ACK, ANSWER_ACK, ANSWER_NACK,
                                                     ANSWER_EXTEND};

    CHECK(timer->texts.awaits.size == AWAITS_TEXT_SIZE);
    memcpy(op->name, timer->texts.awaits.data, AWAITS_TOKEN_SIZE);
    op->command.answer = (struct command_answer){.verb = verbs[world_below(world, 4)],
                                                 .token = {op->name, AWAITS_TOKEN_SIZE},
                                                 .reason = BYTES("no such order"),
                                                 .by_ms = ACK_TIMEOUT_MS_MIN};
}

static struct op *ops_call(struct world *world, struct truth *truth, enum action action,
                           const struct timer *timer)
{
    struct op *op = ops_alloc(ops_kind(world, action, timer->state));
    struct tracked *tracked = truth_track(truth, timer->id.serial);

    op->command.id = timer->id;
    op->told_version = tracked->version_acked;
    if (op->command.kind == COMMAND_ANSWER)
        ops_answer(world, op, timer);
    else if (world_chance(world, world->plan.stale_permille))
        op->command.if_version = timer->version;
    ops_sign(op, timer->texts.tenant);
    ops_change(world, op, timer->target.kind == TARGET_KAFKA);
    tracked->is_cancel_asked |= op->command.kind == COMMAND_CANCEL;
    tracked->is_moved |= op->command.kind == COMMAND_PATCH || op->command.kind == COMMAND_TOUCH ||
                         op->command.kind == COMMAND_FIRE || op->command.kind == COMMAND_REDRIVE;
    tracked->patches_open += op->command.kind == COMMAND_PATCH;
    tracked->is_loose |=
        op->command.kind == COMMAND_PATCH
            ? (op->change.fields & ~(uint32_t)(PATCH_DUE | PATCH_TARGET)) != 0
            : op->command.kind != COMMAND_GET && op->command.kind != COMMAND_CANCEL;
    return op;
}

/* Makes a call on a timer that lives, mostly; otherwise on any that has a row. */
static struct op *ops_call_one(struct world *world, struct truth *truth, enum action action,
                               struct storage *storage)
{
    struct storage_page page =
        mirror_rows(storage, world_chance(world, 800) ? STORAGE_SCAN_LIVE : STORAGE_SCAN_ALL);
    struct op *op = NULL;

    if (page.count > 0)
        op = ops_call(world, truth, action, page.timers[world_below(world, page.count)]);
    storage_page_free(&page);
    return op;
}

static struct op *ops_by_key(struct world *world, struct truth *truth)
{
    static const enum command_kind kinds[] = {COMMAND_GET, COMMAND_PATCH, COMMAND_CANCEL,
                                              COMMAND_FIRE};
    struct op *op = ops_alloc(kinds[world_below(world, 4)]);

    op->key = requests_draw_key(world);
    op->command.name = content_key_text(op->key, op->name);
    ops_sign(op, tenants_text(tenants_draw(world)));
    ops_change(world, op, false);
    truth->is_cancelled_by_name |= op->command.kind == COMMAND_CANCEL;
    truth->is_moved_by_name |=
        op->command.kind == COMMAND_PATCH || op->command.kind == COMMAND_FIRE;
    return op;
}

static struct op *ops_complete(struct world *world, struct truth *truth)
{
    static const enum command_kind kinds[] = {COMMAND_CANCEL, COMMAND_FIRE,   COMMAND_PATCH,
                                              COMMAND_PAUSE,  COMMAND_RESUME, COMMAND_CANCEL};
    struct op *op = ops_alloc(COMMAND_COMPLETE);

    op->change.kind = kinds[world_below(world, world->plan.pause_permille ? 6 : 3)];
    if (op->change.kind != COMMAND_PATCH && world_chance(world, 700)) {
        op->event = requests_draw_event(world);
        op->command.name = content_event_text(op->event, op->name);
    } else {
        op->group = requests_draw_group(world);
        op->command.labels = content_group_text(op->group, op->name);
    }
    op->command.each = op->change.kind;
    ops_sign(op, tenants_text(tenants_draw(world)));
    ops_change(world, op, false);
    truth->is_cancelled_by_name |= op->change.kind == COMMAND_CANCEL;
    truth->is_moved_by_name |= op->change.kind == COMMAND_PATCH || op->change.kind == COMMAND_FIRE;
    return op;
}

static struct op *ops_list(struct world *world)
{
    struct op *op = ops_alloc(COMMAND_LIST);

    op->command.scan = (struct storage_scan){
        .kind = world_chance(world, 500) ? STORAGE_SCAN_LIVE : STORAGE_SCAN_ALL,
        .to = {{WALL_MS_MAX + 1}, 0},
        .rows_max = 1 + world_below(world, LISTED_MAX),
        .bytes_max = SIZE_MAX,
    };
    ops_sign(op, tenants_text(tenants_draw(world)));
    return op;
}

static struct op *ops_draw(struct world *world, struct truth *truth, struct storage *storage,
                           enum action action)
{
    switch (action) {
    case ACTION_PUT:
        truth->is_moved_by_name = true;
        return ops_create(world, action);
    case ACTION_REPEAT:
        truth->is_moved_by_name |= world->plan.debounce_permille > 0;
        return ops_repeat(world);
    case ACTION_CREATE:
    case ACTION_CREATE_MANY:
        truth->is_moved_by_name |= world->plan.debounce_permille > 0;
        return ops_create(world, action);
    case ACTION_LIST:
        return ops_list(world);
    case ACTION_BY_KEY:
        return ops_by_key(world, truth);
    case ACTION_COMPLETE:
        return ops_complete(world, truth);
    default:
        return ops_call_one(world, truth, action, storage);
    }
}

struct op *tenure_ops_draw(struct world *world, struct truth *truth, struct storage *storage)
{
    static const char *const words[] = {
        [COMMAND_CREATE] = "create",     [COMMAND_PUT] = "put",       [COMMAND_GET] = "get",
        [COMMAND_PATCH] = "patch",       [COMMAND_TOUCH] = "touch",   [COMMAND_CANCEL] = "cancel",
        [COMMAND_FIRE] = "fire",         [COMMAND_PAUSE] = "pause",   [COMMAND_RESUME] = "resume",
        [COMMAND_LIST] = "list",         [COMMAND_FORGET] = "forget", [COMMAND_REDRIVE] = "redrive",
        [COMMAND_COMPLETE] = "complete", [COMMAND_ANSWER] = "answer",
    };
    const enum action action =
        (enum action)plan_pick(&world->random, world->plan.action_weights, ACTIONS);
    struct op *op = ops_draw(world, truth, storage, action);

    if (op)
        world_note(world, words[op->command.kind], 0, op->created[0] ? op->created[0]->number : 0,
                   op->command.id.serial, op->change.kind);
    return op;
}

/* ---- answers ---- */

static void ops_judge_create(struct world *world, struct truth *truth, const struct op *op)
{
    for (size_t i = 0; i < op->command.timer_count; i++) {
        const struct content *asked = &op->created[i]->asked;

        if (op->results[i].error || op->results[i].existed)
            continue;
        truth_created(truth, &op->results[i].id, asked);
        truth_track(truth, op->results[i].id.serial)->is_loose |=
            asked->key || asked->watch || asked->group || asked->fan_count ||
            asked->retry.give_up_ms || rhythm_recurs(&asked->rhythm) ||
            asked->rhythm.drop_after_ms != UINT64_MAX;
        world->totals->created++;
    }
}

/* True if NOT_FOUND means that there is no timer with the id of the call. */
static bool ops_names_one(const struct op *op)
{
    return !op->key && op->command.kind != COMMAND_COMPLETE && op->command.kind != COMMAND_ANSWER &&
           op->command.kind != COMMAND_REDRIVE && op->command.kind != COMMAND_FORGET;
}

/* Judges an answer that shows a present state, which no commit proves. */
static void ops_judge_state(struct truth *truth, const struct op *op, uint64_t epoch)
{
    const struct command *command = &op->command;

    if (command->error != ERROR_NONE && command->error != ERROR_GONE &&
        command->error != ERROR_NOT_FOUND)
        return;
    if (command->kind == COMMAND_LIST)
        for (size_t i = 0; i < command->page.count; i++)
            truth_read(truth, epoch, &command->page.timers[i]->id, command->page.timers[i], 0);
    else if (command->error != ERROR_NOT_FOUND && command->timer)
        truth_read(truth, epoch, &command->timer->id, command->timer, op->told_version);
    else if (ops_names_one(op))
        truth_read(truth, epoch, &command->id, NULL, 0);
}

static void ops_count(struct totals *totals, const struct op *op)
{
    const struct command *command = &op->command;

    for (size_t i = 0; i < command->timer_count; i++)
        totals->keys_met += !op->results[i].error && op->results[i].existed;
    if (command->error)
        return;
    totals->cancelled += command->kind == COMMAND_CANCEL;
    totals->patched += command->kind == COMMAND_PATCH;
    totals->touched += command->kind == COMMAND_TOUCH;
    totals->made_due += command->kind == COMMAND_FIRE;
    totals->paused += command->kind == COMMAND_PAUSE;
    totals->resumed += command->kind == COMMAND_RESUME;
    totals->redriven += command->kind == COMMAND_REDRIVE;
    totals->forgotten += command->kind == COMMAND_FORGET;
    totals->answered += command->kind == COMMAND_ANSWER;
    totals->gets += command_gets(command);
    totals->pages += command->kind == COMMAND_LIST;
    totals->completes += command->kind == COMMAND_COMPLETE;
    totals->completed += command->completed.changed;
}

void tenure_ops_judge(struct world *world, struct truth *truth, const struct op *op, uint64_t epoch)
{
    const struct command *command = &op->command;
    const bool is_done = command->error == ERROR_NONE;

    ops_count(world->totals, op);
    if (command->kind == COMMAND_CREATE || command->kind == COMMAND_PUT) {
        ops_judge_create(world, truth, op);
    } else if (command->kind == COMMAND_CANCEL && is_done) {
        truth_cancelled(truth, &command->timer->id);
    } else if (command->kind == COMMAND_PATCH && is_done) {
        truth_patched(truth, command->timer);
        truth_track(truth, command->timer->id.serial)->patches_open -= !op->key;
    } else if (epoch) {
        ops_judge_state(truth, op, epoch);
    } else {
        world->totals->silenced++;
    }
}
