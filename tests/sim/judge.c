#include "judge.h"

#include "world.h"

static const char EARLY[] = "never early";
static const char OVER[] = "nothing after a timer is over";
static const char ANSWER[] = "an answer shows what is durable";
static const char REFUSAL[] = "a refusal has a reason";
static const char DURABLE[] = "acknowledged is durable";
static const char LIMIT[] = "limits hold";

#define U64(value) ((unsigned long long)(value))

/* ---- deliveries ---- */

/* The outcome of the attempt before asked for a pause, and the client for a due time. */
static void check_due(struct world *world, const struct twin *twin, struct wall now)
{
    if (now.ms < twin->row.content.due.ms)
        world_fail(world, twin->number, EARLY, "due %llu, delivered at %llu",
                   U64(twin->row.content.due.ms), U64(now.ms));
    if (now.ms < twin->row.at.ms)
        world_fail(world, twin->number, EARLY, "next attempt at %llu, delivered at %llu",
                   U64(twin->row.at.ms), U64(now.ms));
}

static void check_room(struct world *world, const struct partition *partition,
                       const struct twin *twin)
{
    const struct engine_options *options = &partition->options;

    if (partition->out >= options->inflight_max)
        world_fail(world, twin->number, LIMIT, "%u deliveries are out", partition->out + 1);
    if (partition->out_by_origin[twin->row.content.origin] >= options->target_inflight_max)
        world_fail(world, twin->number, LIMIT, "%u deliveries are out to one origin",
                   partition->out_by_origin[twin->row.content.origin] + 1);
}

struct twin *judge_delivery(struct world *world, struct partition *partition,
                            const struct delivery *delivery)
{
    const struct timer *timer = delivery->timer;
    struct twin *twin = model_twin_of(world, partition->index, timer);
    const struct row *row = &twin->row;

    world_note(world, "delivery", partition->index, twin->number, delivery->attempt,
               timer->version);
    world->totals->deliveries++;
    if (!twin_is_live(twin))
        world_fail(world, twin->number, OVER, "it is %s",
                   twin->life == TWIN_DURABLE ? timer_state_text(row->state) : "not durable");
    if (twin->is_out || twin->has_outcome)
        world_fail(world, twin->number, "one delivery at a time", "another one is not settled");
    check_due(world, twin, world_now(world));
    if (timer->version != row->version || !content_matches(&row->content, twin->number, timer))
        world_fail(world, twin->number, "what is durable is delivered",
                   "version %u is delivered, %u is durable", timer->version, row->version);
    if (delivery->attempt != row->attempts + 1)
        world_fail(world, twin->number, "attempts are counted", "attempt %u after %u",
                   delivery->attempt, row->attempts);
    if (delivery->attempt > row->content.retry.attempts_max)
        world_fail(world, twin->number, "retries are bounded", "attempt %u of %u",
                   delivery->attempt, row->content.retry.attempts_max);
    if (delivery->epoch != partition->epoch)
        world_fail(world, twin->number, "a delivery carries its epoch", "%llu, not %llu",
                   U64(delivery->epoch), U64(partition->epoch));
    if (partition->is_draining)
        world_fail(world, twin->number, "a draining engine begins nothing", "it does");
    check_room(world, partition, twin);
    return twin;
}

void judge_outcome(struct world *world, struct twin *twin, const struct delivery_outcome *outcome,
                   struct wall now)
{
    world_note(world, "outcome", twin->partition, twin->number, outcome->result,
               outcome->retry_after_ms);
    world->totals->done += outcome->result == DELIVERY_DONE;
    world->totals->failed += outcome->result == DELIVERY_FAILED;
    world->totals->ended += outcome->result == DELIVERY_ENDED;
    twin->is_out = false;
    twin->has_outcome = true;
    twin->calm_ms = world->time_ms;
    twin->outcome = *outcome;
    twin->outcome_at = now;
    twin->end_passed_ms = world->model.passed_ms[twin->partition];
    twin->busy_step = world->step;
}

/* ---- what an answer shows ---- */

static void check_shown(struct world *world, const struct op *op, const struct twin *twin,
                        const struct timer *timer)
{
    const struct version *version = timer ? model_version(twin, timer->version) : NULL;

    if (!timer)
        world_fail(world, twin->number, ANSWER, "no timer comes with it");
    if (content_number(timer) != twin->number || !timer_id_equal(&timer->id, &twin->id))
        world_fail(world, twin->number, ANSWER, "it is another timer");
    if (!version)
        world_fail(world, twin->number, ANSWER, "version %u was never durable", timer->version);
    if (!content_matches(&version->content, twin->number, timer))
        world_fail(world, twin->number, ANSWER, "version %u was something else", timer->version);
    if (timer->version < op->told_version)
        world_fail(world, twin->number, "versions only grow", "version %u after %u", timer->version,
                   op->told_version);
    /* DELIVERING is not durable; the delivery may be taken a moment after this answer. */
    if (timer->state == TIMER_DELIVERING ? timer_is_over(version->state)
                                         : timer->state != version->state)
        world_fail(world, twin->number, ANSWER, "version %u was %s, not %s", timer->version,
                   timer_state_text(version->state), timer_state_text(timer->state));
}

/* ---- refusals ---- */

static uint64_t footprint_of(const struct op *op, size_t i)
{
    struct timer *timer = content_timer(&op->created[i]->asked, op->created[i]->number);
    const uint64_t footprint = timer->footprint;

    timer_free(timer);
    return footprint;
}

static void check_storage_error(struct world *world, const struct partition *partition,
                                const struct op *op, uint32_t number, enum error_code error)
{
    if (error != ERROR_IO && error != ERROR_DISK_FULL && error != ERROR_NO_MEMORY)
        world_fail(world, number, REFUSAL, "%s", error_slug(error));
    if (partition->faults == op->faults)
        world_fail(world, number, REFUSAL, "%s, but the storage did not fail", error_slug(error));
}

static void check_create_refused(struct world *world, const struct partition *partition,
                                 const struct op *op, size_t i, enum error_code error)
{
    const struct engine_options *options = &partition->options;
    const struct twin *twin = op->created[i];
    uint64_t footprints = 0;

    switch (error) {
    case ERROR_TOO_MANY:
        if (!options->pending_max || op->pending <= options->pending_max)
            world_fail(world, twin->number, REFUSAL, "too many, with %llu of %llu",
                       U64(op->pending), U64(options->pending_max));
        break;
    case ERROR_OVERLOADED:
        for (size_t k = 0; k <= i; k++)
            footprints += footprint_of(op, k);
        if (op->near_bytes + footprints <= options->near_bytes_max)
            world_fail(world, twin->number, REFUSAL, "overloaded, with %llu of %llu bytes",
                       U64(op->near_bytes), U64(options->near_bytes_max));
        break;
    default:
        check_storage_error(world, partition, op, twin->number, error);
        break;
    }
}

/* ---- answers ---- */

static void judge_created(struct world *world, const struct partition *partition, struct op *op,
                          size_t i)
{
    const struct command *command = &op->command;
    const enum error_code error = command->timer_count == 1 ? command->error : op->results[i].error;
    struct twin *twin = op->created[i];

    world_note(world, "created", op->partition, twin->number, error, 0);
    if (command->timer_count == 1 && error != op->results[i].error)
        world_fail(world, twin->number, ANSWER, "the command and its result differ");
    if (error) {
        if (twin->life != TWIN_ASKED)
            world_fail(world, twin->number, REFUSAL, "refused with %s, but durable",
                       error_slug(error));
        twin->life = TWIN_NEVER;
        check_create_refused(world, partition, op, i, error);
        world->totals->refused++;
        return;
    }
    if (twin->life != TWIN_DURABLE)
        world_fail(world, twin->number, DURABLE, "it is created, and is not");
    if (!timer_id_equal(&twin->id, &op->results[i].id))
        world_fail(world, twin->number, ANSWER, "it is created with another id");
    if (command->timer_count == 1) {
        check_shown(world, op, twin, command->timer);
        if (command->timer->version != 1)
            world_fail(world, twin->number, ANSWER, "it is created as version %u",
                       command->timer->version);
    }
    twin->is_acknowledged = true;
    twin->calm_ms = world->time_ms;
    world->totals->created++;
}

static void judge_changed(struct world *world, struct op *op)
{
    const struct command *command = &op->command;
    struct twin *twin = op->twin;
    struct content patched;

    check_shown(world, op, twin, command->timer);
    if (!op->change.is_applied && !model_change_swap(twin, &op->change))
        world_fail(world, twin->number, DURABLE, "the change is answered with success");
    if (op->command.if_version && command->timer->version != op->command.if_version + 1)
        world_fail(world, twin->number, "a stale version changes nothing",
                   "version %u was changed into %u", op->command.if_version,
                   command->timer->version);
    if (command->kind == COMMAND_CANCEL) {
        if (twin->row.state != TIMER_CANCELLED || twin->is_out || twin->has_outcome)
            world_fail(world, twin->number, OVER, "cancelled with success, but it is not over");
        world->totals->cancelled++;
        return;
    }
    patched = model_version(twin, command->timer->version)->content;
    content_patch(&patched, op->change.fields, &op->change.content);
    if (!content_matches(&patched, twin->number, command->timer))
        world_fail(world, twin->number, ANSWER, "the patch is not in its answer");
    world->totals->patched++;
}

static void judge_refused(struct world *world, const struct partition *partition, struct op *op)
{
    const enum error_code error = op->command.error;
    const struct twin *twin = op->twin;
    bool is_right = true;

    switch (error) {
    case ERROR_NOT_FOUND:
        is_right = model_may_forget(world, twin);
        break;
    case ERROR_GONE:
        check_shown(world, op, twin, op->command.timer);
        is_right = timer_is_over(op->command.timer->state);
        break;
    case ERROR_ALREADY_FIRING:
        is_right = twin->is_out || twin->has_outcome || twin->busy_step >= op->step;
        break;
    case ERROR_VERSION_MISMATCH:
        is_right = op->command.if_version != 0 && (op->told_version != op->command.if_version ||
                                                   twin->row.version != op->command.if_version);
        break;
    case ERROR_CORRUPT:
        is_right = twin->was_damaged;
        break;
    case ERROR_OVERLOADED:
        /* The call may have waited for its timer: how full memory was then, is not known. */
        is_right = op->change.kind == COMMAND_PATCH && partition->options.near_bytes_max < 1 << 20;
        break;
    default:
        check_storage_error(world, partition, op, twin->number, error);
        break;
    }
    if (!is_right && !(twin->was_damaged && error == ERROR_NOT_FOUND))
        world_fail(world, twin->number, REFUSAL, "%s, but the timer is %s, version %u",
                   error_slug(error), timer_state_text(twin->row.state), twin->row.version);
    if (op->change.is_applied && !model_change_swap(op->twin, &op->change))
        world_fail(world, twin->number, REFUSAL, "%s, but the change is durable",
                   error_slug(error));
    world->totals->refused++;
}

/* ---- pages ---- */

static void judge_row(struct world *world, struct op *op, const struct timer *timer)
{
    struct walk *walk = op->walk;
    const struct storage_position position = {timer->at, timer->id.serial};
    const struct twin *twin = model_twin_of(world, op->partition, timer);
    static const char ORDER[] = "a listing shows each timer once, in order";

    op->told_version = 0;
    check_shown(world, op, twin, timer);
    if (storage_position_before(position, op->command.scan.from) ||
        !storage_position_before(position, op->command.scan.to) ||
        (walk->has_last && !storage_position_before(walk->last, position)))
        world_fail(world, twin->number, ORDER, "it is out of place");
    if (walk->scan.kind == STORAGE_SCAN_LIVE && timer_is_over(timer->state))
        world_fail(world, twin->number, ORDER, "it is over");
    walk->has_last = true;
    walk->last = position;
    if (twin->number <= walk->seen_count)
        walk->seen[twin->number - 1] = 1;
}

/* What was there all the time and did not move was seen. */
static void judge_walk(struct world *world, const struct op *op)
{
    const struct walk *walk = op->walk;

    for (size_t i = 0; i < walk->seen_count; i++) {
        const struct twin *twin = world->model.twins[i];

        if (twin->partition == op->partition && twin_is_live(twin) && !twin->was_damaged &&
            twin->row.written_step < walk->step && twin->row.at.ms < walk->scan.to.at.ms &&
            twin->row.at.ms >= walk->first.at.ms && !walk->seen[i])
            world_fail(world, twin->number, "a listing shows each timer once, in order",
                       "it is missing");
    }
}

static void judge_page(struct world *world, struct partition *partition, struct op *op)
{
    const struct command *command = &op->command;

    world_note(world, "page", op->partition, 0, command->error, command->page.count);
    if (command->error) {
        check_storage_error(world, partition, op, 0, command->error);
        world->totals->refused++;
        return;
    }
    if (command->page.count > command->scan.rows_max)
        world_fail(world, 0, LIMIT, "a page has %zu rows", command->page.count);
    for (size_t i = 0; i < command->page.count; i++)
        judge_row(world, op, command->page.timers[i]);
    op->walk->scan.from = command->page.next;
    if (!storage_position_before(command->page.next, command->scan.to))
        judge_walk(world, op);
    world->totals->pages++;
}

/* ---- one answer ---- */

/* A call on an id that nobody was told of: it is not found, unless it was a lucky guess. */
static void judge_stranger(struct world *world, const struct partition *partition, struct op *op)
{
    const struct command *command = &op->command;

    if (command->kind == COMMAND_GET && (!command->error || command->error == ERROR_GONE)) {
        const struct twin *twin = model_twin_of(world, op->partition, command->timer);

        if (!timer_id_equal(&twin->id, &command->id))
            world_fail(world, twin->number, ANSWER, "another id was asked for");
        check_shown(world, op, twin, command->timer);
    } else if (command->error != ERROR_NOT_FOUND &&
               (command->error != ERROR_CORRUPT || !world->plan.damage_permille)) {
        check_storage_error(world, partition, op, 0, command->error);
    }
}

static void judge_call(struct world *world, struct partition *partition, struct op *op)
{
    const struct command *command = &op->command;
    struct twin *twin = op->twin;

    world_note(world,
               command->kind == COMMAND_GET     ? "got"
               : command->kind == COMMAND_PATCH ? "patched"
                                                : "cancelled",
               op->partition, twin ? twin->number : 0, command->error,
               command->timer ? command->timer->version : 0);
    if (!twin) {
        judge_stranger(world, partition, op);
        return;
    }
    if (command->error)
        judge_refused(world, partition, op);
    else if (command->kind == COMMAND_GET)
        check_shown(world, op, twin, command->timer);
    else
        judge_changed(world, op);
    if (command->kind == COMMAND_GET && !command->error) {
        if (timer_is_over(command->timer->state))
            world_fail(world, twin->number, ANSWER, "a timer that is over is not gone");
        world->totals->gets++;
    }
    if (command->kind != COMMAND_GET)
        model_change_end(twin, &op->change);
    twin->calm_ms = world->time_ms;
}

void judge_reply(struct world *world, struct partition *partition, struct op *op)
{
    if (op->is_answered)
        world_fail(world, 0, "one answer for each command", "there are two");
    op->is_answered = true;
    switch (op->command.kind) {
    case COMMAND_CREATE:
        for (size_t i = 0; i < op->command.timer_count; i++)
            judge_created(world, partition, op, i);
        break;
    case COMMAND_LIST:
        judge_page(world, partition, op);
        break;
    default:
        judge_call(world, partition, op);
        break;
    }
    clients_answered(world, op);
}
