/* answers.c - draws later answers of receivers, and checks what becomes of their attempts. */
#include "client.h"

#include "judge.h"
#include "world.h"

#include <inttypes.h>
#include <stdio.h>

enum { ANSWER_TRIES = 40 };

static const char AWAITED[] = "an attempt whose answer comes later ends once, and for a reason";

/* ---- receivers ---- */

/* Returns a number without a random draw, so that old seeds keep their runs. */
static uint64_t answers_drawn(const struct world *world, const struct delivery *delivery)
{
    return random_mix(world->settings->seed ^ delivery->timer->id.serial << 20 ^
                      (uint64_t)delivery->timer->version << 8 ^ delivery->epoch);
}

void answers_give_token(struct world *world, struct delivery *delivery)
{
    const uint64_t drawn = answers_drawn(world, delivery);
    struct twin *twin = model_find(world, &delivery->timer->id);

    snprintf(delivery->ack_token, sizeof(delivery->ack_token), "%016" PRIx64 "%016" PRIx64, drawn,
             random_mix(drawn));
    memcpy(twin->token, delivery->ack_token, sizeof(twin->token));
}

bool answers_come_later(struct world *world, const struct delivery *delivery)
{
    return !world->is_quiet && *delivery->ack_token &&
           answers_drawn(world, delivery) / 1000 % 1000 < world->plan.later_permille;
}

/* Returns a timer that waits for an answer, mostly; NULL if there is none. */
static struct twin *draw_awaited(struct world *world)
{
    const struct sim_model *model = &world->model;

    for (int tries = 0; tries < ANSWER_TRIES && model->count > 0; tries++) {
        struct twin *twin = model->twins[world_below(world, model->count)];

        if (twin->life == TWIN_DURABLE && twin->change_count < CHANGES_MAX && *twin->token &&
            (twin->row.state == TIMER_DELIVERING || twin->is_out || world_chance(world, 30)))
            return twin;
    }
    return NULL;
}

void answers_act(struct world *world)
{
    static const uint64_t BY_MS[] = {1000, 1000, 3000, ACK_TIMEOUT_MS_MAX};
    static const enum command_answer_verb VERBS[] = {ANSWER_ACK, ANSWER_ACK, ANSWER_NACK,
                                                     ANSWER_EXTEND};
    struct twin *twin = draw_awaited(world);

    if (!twin || world->host.partitions[twin->partition].is_draining)
        return;
    struct op *op = clients_call(world, COMMAND_ANSWER, twin->partition, twin);
    op->is_foreign = false; /* the token says who asks */
    op->tenant = twin->row.content.tenant;
    memcpy(op->name, twin->token, sizeof(twin->token));
    if (world_chance(world, world->plan.stale_permille / 2))
        op->name[world_below(world, AWAITS_TOKEN_SIZE)] ^= 1; /* another digit */
    op->command.answer = (struct command_answer){
        .verb = VERBS[world_below(world, sizeof(VERBS) / sizeof(*VERBS))],
        .token = {op->name, AWAITS_TOKEN_SIZE},
        .reason = world_chance(world, 500) ? BYTES("no such order") : BYTES("the receiver gave up"),
        .by_ms = BY_MS[world_below(world, sizeof(BY_MS) / sizeof(*BY_MS))],
    };
    if (!awaits_is_token(op->command.answer.token))
        op->name[0] = op->name[1] = 'a';
    for (size_t i = 0; i < AWAITS_TOKEN_SIZE; i++)
        if (!strchr("0123456789abcdef", op->name[i]))
            op->name[i] = '0';
    world_note(world, "answer", twin->partition, twin->number, op->command.answer.verb, 0);
    twin->change_count++;
    host_submit(world, op);
}

/* ---- what becomes of the attempt ---- */

/* True if the call has the token of the attempt that the timer waits for. */
static bool has_token(const struct op *op, const struct twin *twin)
{
    return op->command.kind == COMMAND_ANSWER && op->twin == twin &&
           memcmp(op->name, twin->row.awaits, AWAITS_TOKEN_SIZE) == 0;
}

static struct wall wait_end(struct wall now, uint64_t wait_ms, const struct twin *twin)
{
    return wall_max(wall_min(wall_add(now, wait_ms), (struct wall){WALL_MS_MAX}),
                    twin->row.content.due);
}

void answers_check_awaited(struct world *world, struct twin *twin, const struct timer *timer)
{
    const uint32_t own_ms = twin->row.content.ack_timeout_ms;
    const uint64_t wait_ms = own_ms ? own_ms : world->plan.engine.ack_timeout_ms;
    struct awaits awaits;

    if (timer->state != TIMER_DELIVERING || timer->version != twin->row.version + 1 ||
        timer->attempts != twin->row.attempts || !content_matches(&twin->row.content, timer))
        model_wrong(world, twin, timer, "its receiver answers later, and it does not wait");
    if (timer->at.ms != wait_end(twin->outcome_at, wait_ms, twin).ms)
        model_wrong(world, twin, timer, "it waits for another time");
    if (!awaits_read(timer->texts.awaits, &awaits) ||
        !bytes_equal(awaits.token, bytes_of(twin->token)) ||
        awaits.started_us != twin->out_at.ms * 1000)
        model_wrong(world, twin, timer, "it waits for another attempt");
    twin->has_outcome = false;
    twin->busy_step = world->step;
}

/* Returns a call in flight with this token that may have ended the attempt like that. */
static struct op *answer_of(struct world *world, const struct twin *twin,
                            const struct delivery_outcome *outcome)
{
    const enum command_answer_verb verb =
        outcome->result == DELIVERY_DONE ? ANSWER_ACK : ANSWER_NACK;

    LIST_FOR_EACH (&world->clients.in_flight, link) {
        struct op *op = list_item(link, struct op, link);

        if (has_token(op, twin) && op->command.answer.verb == verb && op->command.has_acted &&
            !op->acted_version &&
            (verb == ANSWER_ACK ||
             bytes_equal(op->command.answer.reason, bytes_of(outcome->error))))
            return op;
    }
    return NULL;
}

void answers_end(struct world *world, struct sim_partition *partition,
                 const struct delivery *delivery)
{
    const struct delivery_outcome *outcome = &delivery->outcome;
    const struct wall now = world->model.now_last[partition->index];
    struct twin *twin = model_twin_of(world, partition->index, delivery->timer);
    struct awaits awaits;

    if (twin->row.state != TIMER_DELIVERING || twin->has_outcome || twin->is_out)
        world_fail(world, twin->number, AWAITED, "it did not wait");
    if (!awaits_read(bytes_of(twin->row.awaits), &awaits) ||
        delivery->started_us != awaits.started_us || delivery->ended_us != now.ms * 1000 ||
        delivery->attempt != twin->row.attempts + 1)
        world_fail(world, twin->number, AWAITED, "another attempt ends");
    struct op *op = answer_of(world, twin, outcome);
    const bool is_in_vain = outcome->result == DELIVERY_FAILED && now.ms >= twin->row.at.ms &&
                            bytes_has_prefix(bytes_of(outcome->error), BYTES("no answer within "));
    if (op)
        op->acted_version = twin->row.version;
    else if (!is_in_vain)
        world_fail(world, twin->number, AWAITED, "nobody ended it: %d %s", outcome->result,
                   outcome->error);
    world->totals->answered += op != NULL;
    world->totals->unanswered_later += !op;
    world_note(world, op ? "answered" : "in vain", partition->index, twin->number, outcome->result,
               0);
    twin->out_at.ms = awaits.started_us / 1000;
    twin->out_due = twin->row.content.due;
    judge_outcome(world, twin, outcome, now);
}

/* Returns the end of a wait that is put off: so long from now, but no later than the longest time
 * for an answer after the begin of the attempt. */
static struct wall extended_end(struct wall now, uint64_t by_ms, const struct twin *twin)
{
    struct awaits awaits = {.started_us = 0};

    awaits_read(bytes_of(twin->row.awaits), &awaits);
    const struct wall most = wall_add((struct wall){awaits.started_us / 1000}, ACK_TIMEOUT_MS_MAX);
    const struct wall asked = wall_add(now, by_ms);

    return wall_max(wall_min(wall_min(asked, most), (struct wall){WALL_MS_MAX}),
                    twin->row.content.due);
}

bool answers_could(const struct world *world, const struct op *op, const struct twin *twin,
                   const struct timer *timer)
{
    const struct told *told = &world->model.told[op->partition];

    if (op->command.answer.verb != ANSWER_EXTEND || !has_token(op, twin) ||
        twin->row.state != TIMER_DELIVERING || timer->state != TIMER_DELIVERING ||
        timer->attempts != twin->row.attempts ||
        !bytes_equal(timer->texts.awaits, bytes_of(twin->row.awaits)))
        return false;
    for (size_t i = told->count; i-- > op->told_index;)
        if (timer->at.ms == extended_end(told->nows[i], op->command.answer.by_ms, twin).ms)
            return true;
    return false;
}

void answers_judge(struct world *world, struct op *op)
{
    const struct command *command = &op->command;
    const struct twin *twin = op->twin;

    judge_shown(world, op, twin, command->timer);
    if (command->answer.verb == ANSWER_EXTEND) {
        if (!cause_claim(world, op, twin, command->timer->version))
            world_fail(world, twin->number, "acknowledged is durable", "the wait is not put off");
        world->totals->put_off++;
        return;
    }
    if (!command->has_acted || !op->acted_version)
        world_fail(world, twin->number, AWAITED, "an answer is taken that ended nothing");
    if (!twin->was_damaged &&
        (command->timer->version <= op->acted_version || twin->row.version <= op->acted_version))
        world_fail(world, twin->number, "acknowledged is durable",
                   "an answer is taken that is not durable");
}

bool answers_may_miss(const struct world *world, const struct op *op)
{
    const struct twin *twin = op->twin;

    (void)world;
    return !op->command.has_acted &&
           (!has_token(op, twin) || twin->row.state != TIMER_DELIVERING || twin->has_outcome ||
            twin->busy_step >= op->step || twin->row.changed_step >= op->step);
}
