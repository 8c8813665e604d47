/* judge.c - checks each delivery, reply and listing of an engine against the promises. */
#include "judge.h"

#include "model.h"
#include "client.h"
#include "tenants.h"
#include "world.h"

#include <stdlib.h>

static const char EARLY[] = "never early";
static const char OVER[] = "nothing after a timer is over";
static const char ANSWER[] = "an answer shows what is durable";
static const char REFUSAL[] = "a refusal has a reason";
static const char DURABLE[] = "acknowledged is durable";
static const char LIMIT[] = "limits hold";
static const char PAUSE[] = "nothing is delivered while it is paused";

#define U64(value) ((unsigned long long)(value))

/* ---- deliveries ---- */

/* Checks that the delivery is not early. A client asked for a due time, and the outcome of the
 * previous attempt for a pause. A spilled timer has a later position for want of room, and may be
 * delivered as soon as there is room. */
static void check_due(struct world *world, const struct twin *twin, struct wall now)
{
    if (now.ms < twin->row.content.due.ms)
        world_fail(world, twin->number, EARLY, "due %llu, delivered at %llu",
                   U64(twin->row.content.due.ms), U64(now.ms));
    if (rhythm_drops(&twin->row.content.rhythm, twin->row.content.due, now))
        world_fail(world, twin->number, "what is too late is dropped",
                   "due %llu, delivered at %llu", U64(twin->row.content.due.ms), U64(now.ms));
    if (twin->row.attempts > 0 && twin->row.content.retry.until_next &&
        rhythm_after(&twin->row.content.rhythm, twin->row.content.due).ms <= now.ms)
        world_fail(world, twin->number, "retries end with the next firing",
                   "due %llu, delivered at %llu", U64(twin->row.content.due.ms), U64(now.ms));
    if (now.ms < twin->row.at.ms && twin->row.state != TIMER_SCHEDULED)
        world_fail(world, twin->number, EARLY, "next attempt at %llu, delivered at %llu",
                   U64(twin->row.at.ms), U64(now.ms));
}

/* Checks the rate. The token bucket is kept as a theoretical time of arrival: each delivery
 * advances it by its share of a second, at most the burst ahead. Steps of the wall clock, by which
 * the engine counts, are left out. */
static void check_rate(struct world *world, struct sim_partition *partition,
                       const struct twin *twin)
{
    const uint64_t rate = partition->options.target_rate, one = 1000000;
    const uint64_t burst = 100 * rate > one ? 100 * rate : one;
    struct rate_twin *twin_rate =
        &partition->rates[twin->row.content.tenant][twin->row.content.origin];
    const struct wall now = world_now(world);
    const unsigned __int128 at = (unsigned __int128)now.ms * rate;

    if (!rate || world->plan.clock_gap_ms)
        return;
    if (twin_rate->epoch != partition->epoch)
        twin_rate->ahead = 0;
    twin_rate->ahead = (twin_rate->ahead > at ? twin_rate->ahead : at) + one;
    twin_rate->epoch = partition->epoch;
    if (twin_rate->ahead - at > burst)
        world_fail(world, twin->number, LIMIT, "origin %u gets more than %llu in 1000 s",
                   twin->row.content.origin, U64(rate));
}

static void check_room(struct world *world, struct sim_partition *partition,
                       const struct twin *twin)
{
    const struct engine_options *options = &partition->options;
    const uint8_t flow = twin->row.content.flow;

    if (flow && partition->out_by_flow[twin->row.content.tenant][flow] >= flow)
        world_fail(world, twin->number, LIMIT, "more than %u of a flow are out", flow);
    if (twin->row.content.origin == QUEUE_ORIGIN) {
        if (partition->out_pulled >= options->pulled_max)
            world_fail(world, twin->number, LIMIT, "too many deliveries are pulled");
        return;
    }
    if (partition->out - partition->out_pulled >= options->inflight_max)
        world_fail(world, twin->number, LIMIT, "%u deliveries are out", partition->out + 1);
    if (partition->out_by_origin[twin->row.content.tenant][twin->row.content.origin] >=
        options->target_inflight_max)
        world_fail(world, twin->number, LIMIT, "%u deliveries are out to one origin",
                   partition->out_by_origin[twin->row.content.tenant][twin->row.content.origin] +
                       1);
    check_rate(world, partition, twin);
}

/* Checks that a timer whose firings may overlap delivers none but the last itself. It may do so
 * while no more timers may live. */
static void check_apart(struct world *world, const struct sim_partition *partition,
                        const struct twin *twin)
{
    const struct sim_row *row = &twin->row;
    const uint64_t tenant_max = world->plan.tenant_pending_max[row->content.tenant];

    if (row->content.rhythm.is_apart && row->attempts == 0 && !partition->options.pending_max &&
        !tenant_max &&
        !rhythm_follows(&row->content.rhythm, twin->out_due,
                        world->model.now_last[partition->index], WALL_NEVER))
        world_fail(world, twin->number, "a firing that may overlap is a timer of its own",
                   "the one due at %llu is not", U64(twin->out_due.ms));
}

struct twin *judge_delivery(struct world *world, struct sim_partition *partition,
                            const struct delivery *delivery)
{
    const struct timer *timer = delivery->timer;
    struct twin *twin = model_twin_of(world, partition->index, timer);
    const struct sim_row *row = &twin->row;

    world_note(world, "delivery", partition->index, twin->number, delivery->attempt,
               timer->version);
    world->totals->deliveries++;
    world->totals->pulled += row->content.origin == QUEUE_ORIGIN;
    if (!twin_is_live(twin))
        world_fail(world, twin->number, OVER, "it is %s",
                   twin->life == TWIN_DURABLE ? timer_state_text(row->state) : "not durable");
    if (row->state == TIMER_DELIVERING)
        world_fail(world, twin->number, "one delivery at a time", "its receiver answers later");
    if (row->content.fan_count)
        world_fail(world, twin->number, "each of several targets has a part", "it is delivered");
    if (twin->is_out || twin->has_outcome)
        world_fail(world, twin->number, "one delivery at a time", "another one is not settled");
    if (atomic_load(&world->host.is_held) && world->host.held_step < world->step)
        world_fail(world, twin->number, "nothing is delivered in maintenance", "it is");
    if (pauses_hold_target(world, twin))
        world_fail(world, twin->number, "nothing goes to a target that is paused", "it does");
    if (row->state == TIMER_PAUSED || timer->paused.ms)
        world_fail(world, twin->number, PAUSE, "paused at %llu", U64(row->paused.ms));
    check_due(world, twin, world_now(world));
    struct content content = row->content;
    if (row->attempts == 0)
        content.due =
            rhythm_latest(&content.rhythm, content.due, world->model.now_last[partition->index]);
    twin->out_due = content.due;
    check_apart(world, partition, twin);
    if (timer->version != row->version || !content_matches(&content, timer))
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

void judge_pulled(struct world *world, const struct sim_partition *partition,
                  const struct delivery *delivery, unsigned priority)
{
    const struct twin *twin = model_twin_of(world, partition->index, delivery->timer);

    if (twin->row.content.origin != QUEUE_ORIGIN || twin->row.content.target != priority + 1)
        world_fail(world, twin->number, "a worker gets what it asked for",
                   "priority %u was asked for", priority);
}

void judge_outcome(struct world *world, struct twin *twin, const struct delivery_outcome *outcome,
                   struct wall now)
{
    world_note(world, "outcome", twin->partition, twin->number, outcome->result,
               outcome->retry_after_ms);
    world->totals->done += outcome->result == DELIVERY_DONE;
    world->totals->failed += outcome->result == DELIVERY_FAILED;
    twin->was_given_back =
        outcome->result == DELIVERY_RETURNED || outcome->result == DELIVERY_POSTPONED;
    world->totals->accepted += outcome->result == DELIVERY_AWAITED;
    world->totals->returned += outcome->result == DELIVERY_RETURNED;
    world->totals->ended += outcome->result == DELIVERY_ENDED;
    twin->is_out = false;
    twin->has_outcome = outcome->result != DELIVERY_RETURNED;
    twin->calm_ms = world_ms(world);
    twin->outcome = *outcome;
    twin->outcome_at = now;
    twin->end_passed_ms = world->model.passed_ms[twin->partition];
    twin->busy_step = world->step;
}

/* ---- what an answer shows ---- */

/* True if the timer shows this content. While the last of several missed firings is under way, the
 * timer shows the due time of that one. */
static bool judge_matches(const struct content *content, const struct timer *timer)
{
    struct content shown = *content;

    if (timer->state == TIMER_DELIVERING)
        shown.due = rhythm_latest(&shown.rhythm, shown.due, timer->due);
    return content_matches(&shown, timer);
}

void judge_shown(struct world *world, const struct op *op, const struct twin *twin,
                 const struct timer *timer)
{
    const struct version *version = timer ? model_version(twin, timer->version) : NULL;

    if (!timer)
        world_fail(world, twin->number, ANSWER, "no timer comes with it");
    if (!timer_id_equal(&timer->id, &twin->id))
        world_fail(world, twin->number, ANSWER, "it is another timer");
    if (!version)
        world_fail(world, twin->number, ANSWER, "version %u was never durable", timer->version);
    if (!judge_matches(&version->content, timer))
        world_fail(world, twin->number, ANSWER, "version %u was something else", timer->version);
    if (version->firings_sum != firings_sum_shown(timer))
        world_fail(world, twin->number, ANSWER, "version %u had other runs", timer->version);
    if (timer->version < op->told_version)
        world_fail(world, twin->number, "versions only grow", "version %u after %u", timer->version,
                   op->told_version);
    /* DELIVERING is not durable; the delivery may be taken a moment after this answer. Being put
     * back for want of room is no new version, and makes RETRYING SCHEDULED. */
    if (timer->state != version->state &&
        (timer_is_final(version->state) || timer_is_final(timer->state) ||
         version->state == TIMER_PAUSED || timer->state == TIMER_PAUSED))
        world_fail(world, twin->number, ANSWER, "version %u was %s, not %s", timer->version,
                   timer_state_text(version->state), timer_state_text(timer->state));
}

/* ---- refusals ---- */

static uint64_t footprint_of(const struct op *op, size_t i)
{
    struct timer *timer = content_timer(&op->created[i]->asked);
    const uint64_t footprint = engine_footprint(timer);

    timer_free(timer);
    return footprint;
}

static bool is_storage_error(enum error_code error)
{
    return error == ERROR_IO || error == ERROR_DISK_FULL || error == ERROR_NO_MEMORY;
}

void judge_storage_error(struct world *world, const struct sim_partition *partition,
                         const struct op *op, uint32_t number, enum error_code error)
{
    if (!is_storage_error(error))
        world_fail(world, number, REFUSAL, "%s", error_slug(error));
    if (partition->faults == op->faults)
        world_fail(world, number, REFUSAL, "%s, but the storage did not fail", error_slug(error));
}

static void check_create_refused(struct world *world, const struct sim_partition *partition,
                                 const struct op *op, size_t i, enum error_code error)
{
    const struct engine_options *options = &partition->options;
    const struct twin *twin = op->created[i];
    /* whether the engine first looked up its name */
    const bool is_named = twin->asked.key || twin->asked.request;
    const uint64_t tenant_max = op->command.tenant_pending_max;
    uint64_t footprints = 0;

    switch (error) {
    case ERROR_TOO_MANY:
        if (tenant_max && (is_named || op->tenant_count > tenant_max))
            break;
        if (is_named && options->pending_max)
            break;
        if (!options->pending_max || op->pending <= options->pending_max)
            world_fail(world, twin->number, REFUSAL, "too many, with %llu of %llu",
                       U64(op->pending), U64(options->pending_max));
        break;
    case ERROR_UNREADABLE:
        if (!partition->faults)
            world_fail(world, twin->number, REFUSAL, "unreadable, but the storage did not fail");
        break;
    case ERROR_OVERLOADED:
        if (is_named && options->near_bytes_max < 1 << 20)
            break;
        for (size_t k = 0; k <= i; k++)
            footprints += footprint_of(op, k);
        if (op->near_bytes + footprints <= options->near_bytes_max)
            world_fail(world, twin->number, REFUSAL, "overloaded, with %llu of %llu bytes",
                       U64(op->near_bytes), U64(options->near_bytes_max));
        break;
    default:
        judge_storage_error(world, partition, op, twin->number, error);
        break;
    }
}

/* ---- answers ---- */

static void judge_created(struct world *world, const struct sim_partition *partition, struct op *op,
                          size_t i)
{
    const struct command *command = &op->command;
    const enum error_code error = command->timer_count == 1 ? command->error : op->results[i].error;
    const bool is_met = error == ERROR_KEY_IN_USE || error == ERROR_REQUEST_DIFFERS ||
                        error == ERROR_ALREADY_FIRING || error == ERROR_VERSION_MISMATCH ||
                        (!error && op->results[i].existed);
    struct twin *twin = op->created[i];

    if (command->timer_count == 1 && error != op->results[i].error)
        world_fail(world, twin->number, ANSWER, "the command and its result differ");
    if (is_met) {
        claims_judge_met(world, op, i, error);
        return;
    }
    twin = claims_settle(world, op, i, error ? NULL : model_find(world, &op->results[i].id));
    world_note(world, "created", op->partition, twin->number, error, 0);
    if (error) {
        if (twin->life != TWIN_ASKED)
            world_fail(world, twin->number, REFUSAL, "refused with %s, but durable",
                       error_slug(error));
        twin->life = TWIN_NEVER;
        if (!cause_claim_count(world, op, 0))
            world_fail(world, twin->number, REFUSAL, "refused with %s, but it replaced a timer",
                       error_slug(error));
        check_create_refused(world, partition, op, i, error);
        world->totals->refused++;
        return;
    }
    if (twin->life != TWIN_DURABLE)
        world_fail(world, twin->number, DURABLE, "it is created, and is not");
    if (!timer_id_equal(&twin->id, &op->results[i].id))
        world_fail(world, twin->number, ANSWER, "it is created with another id");
    if (command->timer_count == 1) {
        judge_shown(world, op, twin, command->timer);
        if (command->timer->version != 1)
            world_fail(world, twin->number, ANSWER, "it is created as version %u",
                       command->timer->version);
    }
    twin->is_acknowledged = true;
    twin->calm_ms = world_ms(world);
    world->totals->created++;
}

static void count_changed(struct world *world, enum command_kind kind)
{
    world->totals->cancelled += kind == COMMAND_CANCEL;
    world->totals->patched += kind == COMMAND_PATCH;
    world->totals->made_due += kind == COMMAND_FIRE;
    world->totals->redriven += kind == COMMAND_REDRIVE;
}

/* Checks a cancel, or a redrive, of a timer by its parts. */
static void parts_judge(struct world *world, struct op *op)
{
    const struct twin *twin = op->twin;

    count_changed(world, op->command.kind);
    if (op->command.kind == COMMAND_REDRIVE)
        return; /* each part that it redrives is checked */
    if (op->command.kind != COMMAND_CANCEL || twin->row.state != TIMER_CANCELLED)
        world_fail(world, twin->number, OVER, "changed with success while it has parts, and is %s",
                   timer_state_text(twin->row.state));
    for (size_t i = 0; i < twin->row.content.fan_count; i++)
        if (twin_is_live(twin->row.fan.parts[i]) || twin->row.fan.parts[i]->is_out)
            world_fail(world, twin->number, OVER, "cancelled, but part #%u lives",
                       twin->row.fan.parts[i]->number);
}

static void judge_changed(struct world *world, struct op *op)
{
    const struct command *command = &op->command;
    struct twin *twin = op->twin;

    judge_shown(world, op, twin, command->timer);
    if (twin->row.content.fan_count && twin->row.fan.is_begun) {
        parts_judge(world, op);
        return;
    }
    if (!cause_claim(world, op, twin, command->timer->version))
        world_fail(world, twin->number, DURABLE, "the change is answered with success");
    if (op->command.if_version && command->timer->version != op->command.if_version + 1)
        world_fail(world, twin->number, "a stale version changes nothing",
                   "version %u was changed into %u", op->command.if_version,
                   command->timer->version);
    count_changed(world, command->kind);
    if (command->kind == COMMAND_CANCEL &&
        (command->timer->state != TIMER_CANCELLED || twin->row.state != TIMER_CANCELLED ||
         twin->is_out || twin->has_outcome))
        world_fail(world, twin->number, OVER, "cancelled with success, but it is not over");
    if (command->kind != COMMAND_PATCH)
        return;
    struct content patched = model_version(twin, command->timer->version)->content;
    /* the due time was checked by cause_find */
    content_patch(&patched, op->change.fields & ~(uint32_t)PATCH_DUE, &op->change.content);
    if (!judge_matches(&patched, command->timer))
        world_fail(world, twin->number, ANSWER, "the patch is not in its answer");
}

static bool was_dead_letter(const struct world *world, const struct op *op, const struct twin *twin)
{
    return twin->row.state == TIMER_DEAD && twin->row.changed_step < op->step &&
           !model_may_forget(world, twin) && !twin->was_damaged;
}

/* True if the timer was a dead letter from before the call until now. If the call redrives its dead
 * parts, one of them must have been one, too. */
static bool was_dead(const struct world *world, const struct op *op)
{
    const struct twin *twin = op->twin;
    bool is_any = !twin->row.fan.is_begun || op->command.kind == COMMAND_FORGET;

    for (size_t i = 0; i < twin->row.content.fan_count && !is_any; i++)
        is_any = was_dead_letter(world, op, twin->row.fan.parts[i]);
    return is_any && was_dead_letter(world, op, twin);
}

static bool has_heir(const struct world *world, const struct twin *twin)
{
    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *other = world->model.twins[i];

        if (other != twin && other->partition == twin->partition && other->life == TWIN_DURABLE &&
            other->row.content.key == twin->row.content.key &&
            other->row.content.tenant == twin->row.content.tenant &&
            other->id.serial > twin->id.serial)
            return true;
    }
    return false;
}

static void judge_refused(struct world *world, const struct sim_partition *partition, struct op *op)
{
    const enum error_code error = op->command.error;
    const struct twin *twin = op->twin;
    bool is_right = true;

    switch (error) {
    case ERROR_NOT_FOUND:
        is_right = op->command.kind == COMMAND_REDRIVE || op->command.kind == COMMAND_FORGET
                       ? !was_dead(world, op)
                       : model_may_forget(world, twin);
        break;
    case ERROR_KEY_IN_USE:
        is_right =
            op->command.kind == COMMAND_REDRIVE && twin->row.content.key && has_heir(world, twin);
        break;
    case ERROR_TOO_MANY:
        is_right = op->command.kind == COMMAND_REDRIVE &&
                   (partition->options.pending_max || op->command.tenant_pending_max);
        break;
    case ERROR_GONE:
        judge_shown(world, op, twin, op->command.timer);
        is_right = op->command.kind == COMMAND_ANSWER ? answers_may_miss(world, op)
                                                      : timer_is_final(op->command.timer->state);
        break;
    case ERROR_INVALID:
        is_right =
            twin->row.content.part_of.serial && op->command.kind == COMMAND_PATCH &&
            ((op->change.fields & PATCH_TARGET && op->change.content.fan_count) ||
             (op->change.fields & PATCH_SCHEDULE && rhythm_recurs(&op->change.content.rhythm)));
        break;
    case ERROR_NOT_LEASED:
        is_right = releases_may_miss(world, op);
        break;
    case ERROR_PAUSED:
        judge_shown(world, op, twin, op->command.timer);
        is_right = op->command.kind == COMMAND_FIRE && op->command.timer->state == TIMER_PAUSED;
        break;
    case ERROR_ALREADY_FIRING:
        is_right = op->command.kind == COMMAND_ANSWER ? answers_may_miss(world, op)
                                                      : twin_was_busy(twin, op->step);
        break;
    case ERROR_VERSION_MISMATCH:
        is_right = op->command.if_version != 0 &&
                   (op->command.timer ? op->command.timer->version != op->command.if_version
                                      : op->told_version != op->command.if_version ||
                                            twin->row.version != op->command.if_version);
        break;
    case ERROR_CORRUPT:
        is_right = twin->was_damaged;
        break;
    case ERROR_OVERLOADED:
        /* the call may have waited for its timer, and how full memory was then is unknown */
        is_right = op->change.kind != COMMAND_CANCEL && !command_gets(&op->command) &&
                   partition->options.near_bytes_max < 1 << 20;
        break;
    default:
        judge_storage_error(world, partition, op, twin->number, error);
        break;
    }
    if (!is_right && !(twin->was_damaged && error == ERROR_NOT_FOUND))
        world_fail(world, twin->number, REFUSAL, "%s, but the timer is %s, version %u",
                   error_slug(error), timer_state_text(twin->row.state), twin->row.version);
    if (!cause_claim_count(world, op, 0))
        world_fail(world, twin->number, REFUSAL, "%s, but the change is durable",
                   error_slug(error));
    world->totals->refused++;
}

/* ---- pages ---- */

/* True if the timer's key begins as the listing wants it. */
static bool judge_is_searched(const struct walk *walk, const struct twin *twin)
{
    char text[CONTENT_NAME_SIZE];

    return !walk->key ||
           (twin->row.content.key && bytes_has_prefix(content_key_text(twin->row.content.key, text),
                                                      walk->filter.key_prefix));
}

static void judge_row(struct world *world, struct op *op, const struct timer *timer)
{
    struct walk *walk = op->walk;
    const struct storage_position position = {timer->at, timer->id.serial};
    const struct twin *twin = model_twin_of(world, op->partition, timer);
    static const char ORDER[] = "a listing shows each timer once, in order";

    op->told_version = 0;
    if (twin->row.content.tenant != walk->tenant)
        world_fail(world, twin->number, "to another tenant a timer is not there", "it is listed");
    judge_shown(world, op, twin, timer);
    if (!judge_is_searched(walk, twin))
        world_fail(world, twin->number, "a search shows what it is asked for", "it does not fit");
    if (storage_position_before(position, op->command.scan.from) ||
        !storage_position_before(position, op->command.scan.to) ||
        (walk->has_last && !storage_position_before(walk->last, position)))
        world_fail(world, twin->number, ORDER, "it is out of place");
    if (walk->scan.kind == STORAGE_SCAN_LIVE && timer_is_final(timer->state))
        world_fail(world, twin->number, ORDER, "it is over");
    walk->has_last = true;
    walk->last = position;
    if (twin->number <= walk->seen_count)
        walk->seen[twin->number - 1] = 1;
}

/* Checks that a timer was listed which existed during the whole listing and did not move. */
static void judge_walk(struct world *world, const struct op *op)
{
    const struct walk *walk = op->walk;

    for (size_t i = 0; i < walk->seen_count; i++) {
        const struct twin *twin = world->model.twins[i];

        if (twin->partition == op->partition && twin_is_live(twin) && !twin->was_damaged &&
            twin->row.content.tenant == walk->tenant && twin->row.written_step < walk->step &&
            twin->row.at.ms < walk->scan.to.at.ms && twin->row.at.ms >= walk->first.at.ms &&
            judge_is_searched(walk, twin) && !walk->seen[i])
            world_fail(world, twin->number, "a listing shows each timer once, in order",
                       "it is missing");
    }
}

static void judge_page(struct world *world, struct sim_partition *partition, struct op *op)
{
    const struct command *command = &op->command;

    world_note(world, "page", op->partition, 0, command->error, command->page.count);
    if (command->error) {
        judge_storage_error(world, partition, op, 0, command->error);
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

/* Checks the answer to a call on an id that no client was given: not found, unless the guess was
 * right. */
static void judge_stranger(struct world *world, const struct sim_partition *partition,
                           struct op *op)
{
    const struct command *command = &op->command;

    if (!cause_claim_count(world, op, 0))
        world_fail(world, 0, REFUSAL, "%s, but it changed a timer", error_slug(command->error));
    if (command_gets(command) && (!command->error || command->error == ERROR_GONE)) {
        const struct twin *twin = model_twin_of(world, op->partition, command->timer);

        if (!timer_id_equal(&twin->id, &command->id))
            world_fail(world, twin->number, ANSWER, "another id was asked for");
        judge_shown(world, op, twin, command->timer);
    } else if (command->error != ERROR_NOT_FOUND &&
               (command->error != ERROR_CORRUPT || !world->plan.damage_permille)) {
        if (!command->error)
            world_fail(world, 0, REFUSAL, "a call on nothing succeeds");
        judge_storage_error(world, partition, op, 0, command->error);
    }
}

static void judge_forgotten(struct world *world, const struct op *op)
{
    const struct twin *twin = op->twin;

    judge_shown(world, op, twin, op->command.timer);
    if (op->command.if_version && op->command.if_version != op->command.timer->version)
        world_fail(world, twin->number, ANSWER, "it is forgotten at another version");
    if (!twin->row.is_gone)
        world_fail(world, twin->number, DURABLE, "it is forgotten with success, and is there");
}

static void judge_call(struct world *world, struct sim_partition *partition, struct op *op)
{
    const struct command *command = &op->command;
    static const char *const words[] = {
        [COMMAND_GET] = "got",          [COMMAND_PATCH] = "patched",
        [COMMAND_CANCEL] = "cancelled", [COMMAND_FIRE] = "put on",
        [COMMAND_REDRIVE] = "redriven", [COMMAND_EXPLAIN] = "got",
        [COMMAND_TOUCH] = "touched",    [COMMAND_FORGET] = "forgotten",
        [COMMAND_PAUSE] = "paused",     [COMMAND_RESUME] = "resumed",
        [COMMAND_RELEASE] = "released", [COMMAND_ANSWER] = "answered",
    };
    struct twin *twin = op->key ? claims_judge_named(world, op) : op->twin;

    world_note(world, words[command->kind], op->partition, twin ? twin->number : 0, command->error,
               command->timer ? command->timer->version : 0);
    if (op->key && twin)
        op->twin = twin;
    if (!twin) {
        judge_stranger(world, partition, op);
        return;
    }
    if (op->is_foreign) {
        tenants_judge_foreign(world, partition, op);
        if (!command_gets(command))
            twin->change_count--;
        return;
    }
    if (command->kind == COMMAND_EXPLAIN && (!command->error || command->error == ERROR_GONE))
        explains_judge(world, partition, twin, command);
    if (command->error)
        judge_refused(world, partition, op);
    else if (command_gets(command))
        judge_shown(world, op, twin, command->timer);
    else if (command->kind == COMMAND_TOUCH)
        touches_judge(world, op);
    else if (command->kind == COMMAND_PAUSE || command->kind == COMMAND_RESUME)
        pauses_judge(world, op);
    else if (command->kind == COMMAND_FORGET)
        judge_forgotten(world, op);
    else if (command->kind == COMMAND_RELEASE)
        releases_judge(world, op);
    else if (command->kind == COMMAND_ANSWER)
        answers_judge(world, op);
    else
        judge_changed(world, op);
    if (command_gets(command) && !command->error) {
        if (timer_is_final(command->timer->state))
            world_fail(world, twin->number, ANSWER, "a timer that is over is not gone");
        world->totals->gets++;
    }
    if (!command_gets(command) && !op->key)
        twin->change_count--;
    twin->calm_ms = world_ms(world);
}

void judge_reply(struct world *world, struct sim_partition *partition, struct op *op)
{
    if (op->is_answered)
        world_fail(world, 0, "one answer for each command", "there are two");
    op->is_answered = true;
    switch (op->command.kind) {
    case COMMAND_CREATE:
    case COMMAND_PUT:
        for (size_t i = 0; i < op->command.timer_count; i++)
            judge_created(world, partition, op, i);
        break;
    case COMMAND_LIST:
        judge_page(world, partition, op);
        break;
    case COMMAND_COMPLETE:
        completes_judge(world, partition, op);
        break;
    default:
        judge_call(world, partition, op);
        break;
    }
    cause_end(world);
    clients_answered(world, op);
}

/* ---- events ---- */

static const char EVENTS[] = "a durable change is told once, in order";

/* True if a timer can be in this state after such an event. */
static bool judge_fits(enum feed_kind kind, enum timer_state state)
{
    switch (kind) {
    case FEED_CREATED:
    case FEED_CHANGED:
    case FEED_FAILED:
        return !timer_is_final(state);
    case FEED_REDRIVEN:
    case FEED_RETRIED:
        return state == TIMER_RETRYING || state == TIMER_SCHEDULED;
    case FEED_ACCEPTED:
        return state == TIMER_DELIVERING;
    case FEED_FIRED:
        return state == TIMER_FIRED || state == TIMER_SCHEDULED;
    case FEED_PAUSED:
        return state == TIMER_PAUSED;
    case FEED_RESUMED:
        return state == TIMER_RETRYING || state == TIMER_SCHEDULED;
    case FEED_CANCELLED:
        return state == TIMER_CANCELLED;
    default:
        return state == TIMER_DEAD;
    }
}

void judge_event(struct world *world, const struct feed_event *event)
{
    const struct timer *timer = event->timer;
    struct twin *twin = model_find(world, &timer->id);

    world->totals->events++;
    if (!twin)
        world_fail(world, 0, EVENTS, "%s: a timer that is not there", feed_kind_text(event->kind));
    /* the next firing of a backfill may have to wait for its rate */
    const bool is_paced = event->kind == FEED_FIRED && timer->state == TIMER_RETRYING &&
                          rhythm_pace_ms(&twin->row.content.rhythm);
    if (!judge_fits(event->kind, timer->state) && !is_paced)
        world_fail(world, twin->number, EVENTS, "%s: it is %s", feed_kind_text(event->kind),
                   timer_state_text(timer->state));
    if (timer->version + (event->kind == FEED_DELETED) <= twin->event_version)
        world_fail(world, twin->number, EVENTS, "%s: version %u after %u",
                   feed_kind_text(event->kind), timer->version, twin->event_version);
    twin->event_version = timer->version;
}
