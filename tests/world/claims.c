/*
 * claims.c - checks that keys and Idempotency-Keys have one live holder, and that answers about
 * them are true.
 */
#include "model.h"

#include "judge.h"
#include "world.h"

static const char ONE[] = "a key is held by one live timer at most";
static const char AGAIN[] = "a repeated request makes nothing";
static const char SAME[] = "a name in use is answered with who has it";
static const char FREE[] = "a key is free when its timer is over";

static bool has_same_request(const struct content *a, const struct content *b)
{
    return a->request && a->request == b->request && a->key == b->key && a->tenant == b->tenant;
}

static bool has_same_key(const struct content *a, const struct content *b)
{
    return a->key && a->key == b->key && a->tenant == b->tenant;
}

static bool is_named(const struct op *op, const struct twin *twin)
{
    return twin->row.content.key == op->key && twin->row.content.tenant == op->tenant;
}

void claims_written(struct world *world, const struct twin *twin, bool is_new)
{
    const struct content *content = &twin->row.content;

    if (timer_is_final(twin->row.state) || (!content->key && !content->request))
        return;
    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *other = world->model.twins[i];

        if (other == twin || other->partition != twin->partition || other->was_damaged ||
            other->life != TWIN_DURABLE)
            continue;
        if (has_same_key(content, &other->row.content) && twin_is_live(other))
            world_fail(world, twin->number, ONE, "key %u is held by timer #%u too", content->key,
                       other->number);
        if (is_new && has_same_request(content, &other->row.content) &&
            !model_may_forget_names(world, other))
            world_fail(world, twin->number, AGAIN, "request %u was made by timer #%u",
                       content->request, other->number);
    }
}

/* ---- creates ---- */

static void judge_repeated(struct world *world, const struct op *op, const struct content *asked,
                           const struct twin *shown, enum error_code error)
{
    const bool is_same = shown->row.content.variant == asked->variant;

    if (is_same != (error == ERROR_NONE))
        world_fail(world, shown->number, AGAIN, "%s, but the request is %s",
                   error ? error_slug(error) : "no error", is_same ? "the same" : "another one");
    world->totals->repeated++;
    (void)op;
}

/* Returns the timer of an earlier, equal request that the engine must still know; NULL if there is
 * none. */
static const struct twin *made_before(const struct world *world, const struct op *op,
                                      const struct content *asked)
{
    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *twin = world->model.twins[i];

        if (twin->partition == op->partition && twin->life == TWIN_DURABLE && twin->told_step &&
            twin->told_step < op->step && !twin->was_damaged && twin->row.is_stored &&
            has_same_request(&twin->row.content, asked) && !model_may_forget_names(world, twin))
            return twin;
    }
    return NULL;
}

/* True if the request equals the version that is shown, or without `shown` any version of the
 * timer. */
static bool asks_the_same(const struct twin *twin, const struct timer *shown,
                          const struct content *asked)
{
    for (size_t i = 0; i < twin->version_count; i++)
        if ((!shown || shown->version == twin->versions[i].version) &&
            content_is_same(&twin->versions[i].content, asked))
            return true;
    return false;
}

static void judge_key(struct world *world, const struct op *op, const struct content *asked,
                      const struct twin *twin, enum error_code error)
{
    const struct timer *timer = op->command.timer;
    const struct twin *before = made_before(world, op, asked);

    if (!has_same_key(asked, &twin->row.content))
        world_fail(world, twin->number, SAME, "it has another key");
    if (before && before != twin)
        world_fail(world, before->number, AGAIN, "the answer to its repetition is timer #%u",
                   twin->number);
    if (!twin_lived_since(twin, op->step))
        world_fail(world, twin->number, FREE, "it is %s", timer_state_text(twin->row.state));
    switch (error) {
    case ERROR_NONE:
    case ERROR_KEY_IN_USE:
        if (op->command.kind == COMMAND_PUT || asked->debounce.for_ms)
            world_fail(world, twin->number, SAME, "a put does not replace it");
        if (timer && asks_the_same(twin, timer, asked) != (error == ERROR_NONE))
            world_fail(world, twin->number, SAME, "%s, but what is asked for is %s",
                       error_slug(error), error ? "the same" : "something else");
        if (!timer && !error && !asks_the_same(twin, NULL, asked))
            world_fail(world, twin->number, SAME, "it never was what is asked for");
        world->totals->keys_met++;
        break;
    case ERROR_ALREADY_FIRING:
        if (!twin_was_busy(twin, op->step))
            world_fail(world, twin->number, "a refusal has a reason", "it is not firing");
        break;
    default:
        if (!op->command.if_version || timer->version == op->command.if_version)
            world_fail(world, twin->number, "a refusal has a reason", "it has that version");
        break;
    }
}

/* Finds another request in flight that equals this one and was matched with the twin `wanted`. If
 * `wanted` is NULL, finds one whose create is in flight. */
static struct twin **find_like(struct world *world, const struct op *op, const struct twin *twin,
                               const struct twin *wanted)
{
    LIST_FOR_EACH (&world->clients.in_flight, link) {
        struct op *other = list_item(link, struct op, link);

        for (size_t k = 0; other != op && k < CREATE_MANY_MAX && other->created[k]; k++) {
            struct twin *like = other->created[k];

            if ((wanted ? like == wanted : like->life == TWIN_ASKED) &&
                like->partition == twin->partition && like->asked.number == twin->asked.number &&
                like->asked.due.ms == twin->asked.due.ms &&
                content_is_same(&like->asked, &twin->asked))
                return &other->created[k];
        }
    }
    return NULL;
}

static struct twin *exchange(struct op *op, size_t i, struct twin **other)
{
    struct twin *twin = op->created[i];

    if (other) {
        op->created[i] = *other;
        *other = twin;
    }
    return op->created[i];
}

struct twin *claims_settle(struct world *world, struct op *op, size_t i, const struct twin *made)
{
    struct twin *twin = op->created[i];

    if (made ? twin == made : twin->life == TWIN_ASKED)
        return twin;
    return exchange(op, i, find_like(world, op, twin, made));
}

void claims_judge_met(struct world *world, struct op *op, size_t i, enum error_code error)
{
    const struct command *command = &op->command;
    const struct timer *timer = command->timer_count == 1 ? command->timer : NULL;
    const struct timer_id *id = timer ? &timer->id : &op->results[i].id;
    const struct content *asked = &op->created[i]->asked;
    const struct twin *twin = model_find(world, id);

    claims_settle(world, op, i, NULL);
    if (op->created[i]->life != TWIN_ASKED)
        world_fail(world, op->created[i]->number, AGAIN, "it was made, but another one is told");
    op->created[i]->life = TWIN_NEVER;
    if (!twin)
        world_fail(world, 0, SAME, "who has it was never durable");
    world_note(world, "met", op->partition, twin->number, error, op->created[i]->number);
    if (command->timer_count == 1)
        judge_shown(world, op, twin, timer);
    if (!error && clients_puts(op, i) && cause_claim(world, op, twin, timer->version)) {
        if (command->if_version && timer->version != command->if_version + 1)
            world_fail(world, twin->number, "a stale version changes nothing",
                       "version %u was replaced by %u", command->if_version, timer->version);
        world->totals->replaced++;
        world->totals->debounced += asked->debounce.for_ms > 0;
        return;
    }
    if (!cause_claim_count(world, op, 0))
        world_fail(world, twin->number, AGAIN, "it replaced a timer, and says it did not");
    if (has_same_request(asked, &twin->row.content) &&
        (error == ERROR_NONE || error == ERROR_REQUEST_DIFFERS))
        judge_repeated(world, op, asked, twin, error);
    else
        judge_key(world, op, asked, twin, error);
}

/* ---- calls by key ---- */

/* Returns a live timer that has had the key since before the call; NULL if there is none. */
static const struct twin *holder_all_the_time(const struct world *world, const struct op *op)
{
    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *twin = world->model.twins[i];

        if (twin->partition == op->partition && twin_is_live(twin) && !twin->was_damaged &&
            is_named(op, twin) && twin->told_step && twin->told_step < op->step &&
            twin->live_step < op->step)
            return twin;
    }
    return NULL;
}

static bool any_was_damaged(const struct world *world, const struct op *op)
{
    for (size_t i = 0; i < world->model.count; i++)
        if (world->model.twins[i]->partition == op->partition &&
            world->model.twins[i]->was_damaged && is_named(op, world->model.twins[i]))
            return true;
    return false;
}

struct twin *claims_judge_named(struct world *world, struct op *op)
{
    const struct command *command = &op->command;
    const struct twin *holder = holder_all_the_time(world, op);
    struct twin *twin = command->timer ? model_find(world, &command->timer->id) : NULL;

    if (command->timer && (!twin || !is_named(op, twin)))
        world_fail(world, twin ? twin->number : 0, SAME, "another key was asked for");
    if (holder && (command->error == ERROR_NOT_FOUND || command->error == ERROR_GONE) &&
        !any_was_damaged(world, op))
        world_fail(world, holder->number, SAME, "%s by its key", error_slug(command->error));
    if (command->error == ERROR_CORRUPT && !any_was_damaged(world, op))
        world_fail(world, 0, "a refusal has a reason", "no record with this key is damaged");
    return twin;
}
