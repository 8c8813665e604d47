/*
 * cause.c - gives each durable row that a request made its request, and settles doubts by the
 * answers.
 */
#include "cause.h"

#include "client.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

#define REDRIVE_AHEAD_MS_MIN (UINT64_C(2) * 24 * 3600 * 1000)

void causes_init(struct causes *causes)
{
    *causes = (struct causes){.nobody = calloc(1, sizeof(struct op))};
    assert(causes->nobody);
    causes->nobody->is_answered = true; /* as a request with an unknown count of changes */
    causes->nobody->command.kind = COMMAND_COMPLETE;
    causes->nobody->command.error = ERROR_IO;
}

void causes_deinit(struct causes *causes)
{
    free(causes->nobody);
    free(causes->credits);
}

/* ---- candidates for a row ---- */

bool cause_is_about(const struct op *op, const struct twin *twin)
{
    const struct content *content = &twin->row.content;

    if (op->partition != twin->partition || twin->life != TWIN_DURABLE ||
        op->tenant != content->tenant)
        return false;
    if (op->twin)
        return op->twin == twin;
    if (op->key)
        return content->key == op->key;
    if (op->event)
        return (content->watch & 1u << op->event) != 0;
    return op->group && content->group == op->group;
}

/* True if a timer that was moved begins anew: without attempts, and at its due time, or now if that
 * is past. */
static bool begins_anew(const struct world *world, const struct twin *twin,
                        const struct timer *timer)
{
    const struct wall now_max = world->model.now_max[twin->partition];

    if (twin->row.state == TIMER_PAUSED)
        return timer->attempts == 0 && pauses_stay(twin, timer);
    return timer->state == TIMER_SCHEDULED && timer->attempts == 0 &&
           timer->at.ms >= timer->due.ms && timer->at.ms <= wall_max(timer->due, now_max).ms;
}

static bool stays(const struct twin *twin, const struct timer *timer)
{
    return timer->attempts == twin->row.attempts && timer->at.ms == twin->row.at.ms;
}

enum firing_change { FIRING_MOVES, FIRING_MAY_STAY, FIRING_STAYS };

/* Returns what a change to this content does to the next firing. A firing that is due stays if the
 * new schedule begins after it. Whether it is due depends on the time that the engine was told. */
static enum firing_change firing_after(const struct world *world, const struct op *op,
                                       const struct twin *twin, const struct content *content)
{
    const struct rhythm *old = &twin->row.content.rhythm, *new = &content->rhythm;
    const struct wall due = twin->row.content.due;
    const struct told *told = &world->model.told[op->partition];

    if (!rhythm_recurs(old) || !rhythm_recurs(new) || rhythm_plans_same(old, new))
        return content->due.ms == due.ms && rhythm_recurs(old) == rhythm_recurs(new) ? FIRING_STAYS
                                                                                     : FIRING_MOVES;
    for (size_t i = told->count; i-- > op->told_index;)
        if (told->nows[i].ms >= due.ms)
            return FIRING_MAY_STAY;
    return FIRING_MOVES;
}

/* True if the timer, as it is now, has the next firing that a change of its schedule allows. Writes
 * the due time of that firing into `content`. */
static bool has_firing(const struct world *world, const struct op *op, const struct twin *twin,
                       const struct timer *timer, struct content *content)
{
    const enum firing_change firing = firing_after(world, op, twin, content);
    const struct wall due = twin->row.content.due;

    if (firing == FIRING_STAYS || (firing == FIRING_MAY_STAY && timer->due.ms == due.ms)) {
        content->due = due;
        return stays(twin, timer) && pauses_stay(twin, timer) && !timer_is_final(timer->state);
    }
    return begins_anew(world, twin, timer);
}

/* Returns the content after a put. If both schedules plan equal instants, the timer keeps its phase
 * and its firing. */
static struct content put_content(const struct twin *twin, const struct content *asked)
{
    struct content content = *asked;
    const struct content *old = &twin->row.content;

    content.request = old->request;
    content.variant = old->variant;
    if (content.debounce.for_ms)
        content_debounce(&content, asked->debounce.first,
                         old->debounce.for_ms ? wall_min(old->debounce.first, asked->debounce.first)
                                              : asked->debounce.first);
    if (!rhythm_plans_same(&old->rhythm, &asked->rhythm))
        return content;
    content.created = old->created;
    content.rhythm.from = old->rhythm.from;
    if (old->due.ms <= asked->rhythm.until.ms)
        content.due = old->due;
    return content;
}

/* True if the engine was told this time after the request had come. */
static bool was_told(const struct world *world, const struct op *op, struct wall now)
{
    const struct told *told = &world->model.told[op->partition];

    for (size_t i = told->count; i-- > op->told_index;)
        if (told->nows[i].ms == now.ms)
            return true;
    return false;
}

/* Returns the time from which a redriven timer acts: the requested one. If the clock stepped back
 * meanwhile, the wait is cut to the longest pause of a timer, which is two days or more. */
static struct wall redriven_from(const struct timer *timer, struct wall now, struct wall not_before)
{
    const uint64_t ahead_ms = wall_since(now, not_before), at_ms = wall_since(now, timer->at);

    if (ahead_ms > REDRIVE_AHEAD_MS_MIN && at_ms >= REDRIVE_AHEAD_MS_MIN && at_ms <= ahead_ms)
        return timer->at;
    return wall_max(now, not_before);
}

/* True if the redriven timer has the right times. It acts from `not_before` on. Its due time stays,
 * unless the firing is too late by then. In that case its due time is that of its next firing, or
 * the time from which it acts. */
static bool is_redriven_at(const struct twin *twin, const struct timer *timer, struct wall now,
                           struct wall not_before)
{
    const struct rhythm *rhythm = &twin->row.content.rhythm;
    const struct wall due = twin->row.content.due;
    const struct wall from = redriven_from(timer, now, not_before);
    const bool waits = timer->at.ms > timer->due.ms && timer->at.ms > now.ms;

    if (timer->state != (waits ? TIMER_RETRYING : TIMER_SCHEDULED) ||
        timer->at.ms != wall_max(timer->due, from).ms)
        return false;
    if (!rhythm_drops(rhythm, due, from))
        return timer->due.ms == due.ms;
    return rhythm_follows(rhythm, due, from, timer->due) ||
           (timer->due.ms == from.ms && rhythm_follows(rhythm, due, from, WALL_NEVER));
}

static bool is_redriven(const struct world *world, const struct op *op, const struct twin *twin,
                        const struct timer *timer)
{
    const struct told *told = &world->model.told[op->partition];

    if (twin->row.state != TIMER_DEAD || timer->attempts)
        return false;
    for (size_t i = told->count; i-- > op->told_index;)
        if (is_redriven_at(twin, timer, told->nows[i], op->command.not_before))
            return true;
    return false;
}

static bool is_fired(const struct world *world, const struct op *op, const struct twin *twin,
                     const struct timer *timer)
{
    if (twin->row.state == TIMER_PAUSED) /* it is due, and stays paused */
        return op->event && pauses_stay(twin, timer) && timer->attempts == twin->row.attempts &&
               timer->due.ms <= twin->row.content.due.ms &&
               (timer->due.ms == twin->row.content.due.ms || was_told(world, op, timer->due));
    return !timer_is_final(timer->state) && timer->state != TIMER_PAUSED &&
           timer->attempts == twin->row.attempts &&
           timer->due.ms == wall_min(twin->row.content.due, timer->at).ms &&
           was_told(world, op, timer->at);
}

/* True if the change of the request makes `timer` of the twin's row. */
static bool makes(const struct world *world, const struct op *op, const struct twin *twin,
                  const struct timer *timer, struct content *ret_content)
{
    const struct change *change = &op->change;
    struct content *content = ret_content;

    if (timer->version != twin->row.version + 1 ||
        timer_is_final(twin->row.state) != (change->kind == COMMAND_REDRIVE))
        return false;
    if (twin->row.state == TIMER_DELIVERING && change->kind != COMMAND_CANCEL &&
        change->kind != COMMAND_ANSWER)
        return false;
    *content = twin->row.content;
    bool is_right = false;
    switch (change->kind) {
    case COMMAND_CANCEL:
        is_right = timer->state == TIMER_CANCELLED &&
                   (stays(twin, timer) ||
                    (twin->row.state == TIMER_PAUSED && timer->attempts == twin->row.attempts));
        break;
    case COMMAND_PATCH:
        content_patch(content, change->fields, &change->content);
        is_right = change->fields & PATCH_DUE ? has_firing(world, op, twin, timer, content)
                                              : stays(twin, timer) && pauses_stay(twin, timer) &&
                                                    !timer_is_final(timer->state);
        break;
    case COMMAND_TOUCH:
        content->due = change->content.due;
        is_right = touches_could(world, op, twin, timer);
        break;
    case COMMAND_PUT:
        *content = put_content(twin, &change->content);
        is_right = has_firing(world, op, twin, timer, content);
        break;
    case COMMAND_FIRE:
        content->due = timer->due;
        is_right = is_fired(world, op, twin, timer);
        break;
    case COMMAND_ANSWER:
        is_right = answers_could(world, op, twin, timer);
        break;
    case COMMAND_PAUSE:
    case COMMAND_RESUME:
        is_right = pauses_could(world, op, twin, timer);
        break;
    case COMMAND_REDRIVE:
        content_patch(content, change->fields, &change->content);
        content->due = timer->due;
        is_right = is_redriven(world, op, twin, timer);
        break;
    default:
        break;
    }
    return is_right && content_matches(content, timer);
}

static bool could(const struct world *world, const struct op *op, const struct twin *twin,
                  const struct timer *timer, struct content *ret_content)
{
    return cause_is_about(op, twin) &&
           (!op->change.if_version || op->change.if_version == twin->row.version) &&
           makes(world, op, twin, timer, ret_content);
}

bool cause_by_parent(const struct world *world, const struct twin *parent, const struct twin *part,
                     const struct timer *timer, struct content *ret_content)
{
    LIST_FOR_EACH (&world->clients.in_flight, link) {
        const struct op *op = list_item(link, struct op, link);

        if ((op->change.kind == COMMAND_CANCEL || op->change.kind == COMMAND_REDRIVE) &&
            cause_is_about(op, parent) && makes(world, op, part, timer, ret_content))
            return true;
    }
    return false;
}

/* ---- credits ---- */

static bool is_of_many(const struct op *op)
{
    return op->command.kind == COMMAND_COMPLETE;
}

static struct credit *credit_of(struct causes *causes, const struct op *op, const struct twin *twin)
{
    for (size_t i = 0; i < causes->count; i++)
        if (causes->credits[i].by == op && (!twin || causes->credits[i].twin == twin))
            return &causes->credits[i];
    return NULL;
}

/* True if the request may get the credit for one more row. A request changes a timer once. An
 * exception is a search by labels: it can find a timer again that it has moved ahead, and that was
 * delivered meanwhile. */
static bool may_have(struct causes *causes, const struct op *op, const struct twin *twin)
{
    if (op->group && op->change.kind != COMMAND_CANCEL)
        return true;
    return !credit_of(causes, op, is_of_many(op) ? twin : NULL);
}

static void give(struct credit *credit, size_t i)
{
    struct op *by = credit->by;

    credit->by = credit->others[i];
    if (by)
        credit->others[i] = by;
    else
        credit->others[i] = credit->others[--credit->other_count];
}

/* True if the answer does not tell how many changes the request made: it failed half-way, or it is
 * the success of a resume, which is the same for a timer that was not paused any more. */
static bool is_unknown(const struct op *op)
{
    return op->is_answered &&
           (op->command.kind == COMMAND_RESUME ? !op->command.error
                                               : is_of_many(op) && op->command.error);
}

static void unmark(struct causes *causes)
{
    for (size_t i = 0; i < causes->count; i++)
        causes->credits[i].is_marked = false;
}

static bool release(struct causes *causes, struct credit *credit);

/* Gives the credit to the request others[i], which gives up another credit for it. Returns false if
 * it cannot. */
static bool exchange(struct causes *causes, struct credit *credit, size_t i)
{
    struct op *to = credit->others[i];

    if (to->is_answered && !is_of_many(to))
        return false; /* its answer names exactly one row, or none */
    for (size_t k = 0; k < causes->count; k++) {
        struct credit *old = &causes->credits[k];

        if (old->by != to || old->is_marked ||
            (old->twin != credit->twin && is_of_many(to) && !may_have(causes, to, credit->twin)))
            continue;
        if (release(causes, old)) {
            give(credit, i);
            return true;
        }
    }
    return false;
}

/* Moves the credit to another request. An answered request keeps the number of credits that its
 * answer states. */
static bool release(struct causes *causes, struct credit *credit)
{
    credit->is_marked = true;
    for (size_t i = 0; i < credit->other_count; i++) {
        struct op *to = credit->others[i];

        if (is_unknown(to) || (!to->is_answered && may_have(causes, to, credit->twin))) {
            give(credit, i);
            return true;
        }
    }
    for (size_t i = 0; i < credit->other_count; i++)
        if (exchange(causes, credit, i))
            return true;
    return false;
}

static bool give_away(struct causes *causes, struct credit *credit)
{
    unmark(causes);
    return release(causes, credit);
}

static bool gain(struct causes *causes, struct op *op);

void cause_may_be_nobody(struct causes *causes)
{
    struct credit *credit = &causes->credits[causes->count - 1];

    if (credit->other_count == 0 || credit->others[credit->other_count - 1] != causes->nobody)
        credit->others[credit->other_count++] = causes->nobody;
}

/* Returns the index of the request among the others; their count if it is not among them. */
static size_t index_of(const struct credit *credit, const struct op *op)
{
    size_t i = 0;

    while (i < credit->other_count && credit->others[i] != op)
        i++;
    return i;
}

static bool take(struct causes *causes, struct credit *credit, struct op *op)
{
    const size_t i = index_of(credit, op);
    struct op *from = credit->by;

    if (i == credit->other_count)
        return false;
    credit->is_marked = true;
    if (from->is_answered && !is_unknown(from) && !gain(causes, from))
        return false;
    give(credit, i);
    return true;
}

/* Gives the request one more credit, from a request that can spare it or find another. */
static bool gain(struct causes *causes, struct op *op)
{
    for (size_t i = 0; i < causes->count; i++) {
        struct credit *credit = &causes->credits[i];

        if (!credit->is_marked && credit->by != op && may_have(causes, op, credit->twin) &&
            (!credit->by->is_answered || is_of_many(credit->by) || is_unknown(credit->by)) &&
            take(causes, credit, op))
            return true;
    }
    return false;
}

bool cause_find(struct world *world, struct twin *twin, const struct timer *timer,
                struct content *ret_content)
{
    struct causes *causes = &world->causes;
    struct credit credit = {.twin = twin, .version = timer->version};

    LIST_FOR_EACH (&world->clients.in_flight, link) {
        struct op *op = list_item(link, struct op, link);

        struct content content;
        if (!could(world, op, twin, timer, &content))
            continue;
        *ret_content = content;
        if (!credit.by && may_have(causes, op, twin))
            credit.by = op;
        else if (credit.other_count < CAUSES_MAX - 1)
            credit.others[credit.other_count++] = op;
    }
    /* If the candidate has the credit for an earlier change of this timer, another request made
     * that change. */
    for (uint32_t i = 0; i < credit.other_count && !credit.by; i++)
        if (give_away(causes, credit_of(causes, credit.others[i],
                                        is_of_many(credit.others[i]) ? twin : NULL)))
            give(&credit, i);
    if (!credit.by)
        return false;
    if (causes->count == causes->capacity) {
        causes->capacity = causes->capacity ? 2 * causes->capacity : 16;
        causes->credits = realloc(causes->credits, causes->capacity * sizeof(struct credit));
        assert(causes->credits);
    }
    if (world->model.is_doubtful)
        return true; /* its answer will be an error in either case */
    causes->credits[causes->count++] = credit;
    return true;
}

static bool claim(struct causes *causes, struct op *op, const struct twin *twin, uint32_t version)
{
    for (size_t i = 0; i < causes->count; i++) {
        struct credit *credit = &causes->credits[i];

        if (credit->twin != twin || credit->version != version)
            continue;
        if (credit->by == op)
            return true;
        struct credit *mine = credit_of(causes, op, NULL);
        unmark(causes);
        return take(causes, credit, op) && (!mine || mine->by != op || give_away(causes, mine));
    }
    return false;
}

bool cause_claim(struct world *world, struct op *op, const struct twin *twin, uint32_t version)
{
    op->is_answered = false; /* until it is settled, it may give its credits away */
    bool is_right = claim(&world->causes, op, twin, version);
    op->is_answered = true;
    return is_right;
}

static uint64_t count_of(const struct causes *causes, const struct op *op)
{
    uint64_t count = 0;

    for (size_t i = 0; i < causes->count; i++)
        count += causes->credits[i].by == op;
    return count;
}

bool cause_claim_count(struct world *world, struct op *op, uint64_t count)
{
    struct causes *causes = &world->causes;
    uint64_t have = count_of(causes, op);

    for (size_t i = 0; i < causes->count && have > count;) {
        if (causes->credits[i].by == op && give_away(causes, &causes->credits[i])) {
            have--;
            i = 0; /* an exchange may have put a credit of this operation in front of i */
        } else {
            i++;
        }
    }
    while (have < count) {
        unmark(causes);
        if (!gain(causes, op))
            return false;
        have++;
    }
    return have == count;
}

/* True if the credit may still move. The credits of commands about many timers may be exchanged
 * while one of the requests is in flight. An answer about one timer is certain. */
static bool is_open(const struct credit *credit, bool is_any_of_many)
{
    bool is_open = !credit->by->is_answered || (is_of_many(credit->by) && is_any_of_many);

    for (size_t i = 0;
         i < credit->other_count && (is_of_many(credit->by) || is_unknown(credit->by)); i++)
        is_open |= !credit->others[i]->is_answered;
    return is_open;
}

/* True if one command about many timers, whose number of changes is known, could have made both
 * rows. */
static bool is_linked(const struct credit *a, const struct credit *b)
{
    for (size_t i = 0; i <= a->other_count; i++) {
        const struct op *op = i < a->other_count ? a->others[i] : a->by;

        if (is_of_many(op) && !is_unknown(op) && (b->by == op || index_of(b, op) < b->other_count))
            return true;
    }
    return false;
}

/* Marks the credits that may still move, and those that may be exchanged for one of them. */
static void mark_open(struct causes *causes, bool is_any_of_many)
{
    for (size_t i = 0; i < causes->count; i++)
        causes->credits[i].is_marked = is_open(&causes->credits[i], is_any_of_many);
    bool is_more = true;
    while (is_more) {
        is_more = false;
        for (size_t i = 0; i < causes->count; i++) {
            struct credit *credit = &causes->credits[i];

            for (size_t k = 0; k < causes->count; k++)
                if (!credit->is_marked && is_of_many(credit->by) && causes->credits[k].is_marked &&
                    is_linked(credit, &causes->credits[k]))
                    credit->is_marked = is_more = true;
        }
    }
}

void cause_end(struct world *world)
{
    struct causes *causes = &world->causes;
    bool is_any_of_many = false;

    LIST_FOR_EACH (&world->clients.in_flight, link) {
        const struct op *op = list_item(link, struct op, link);

        is_any_of_many |= is_of_many(op) && !op->is_answered;
    }
    mark_open(causes, is_any_of_many);
    for (size_t i = 0; i < causes->count;) {
        if (causes->credits[i].is_marked)
            i++;
        else
            causes->credits[i] = causes->credits[--causes->count];
    }
}
