/*
 * model.c - keeps a twin of each timer and checks that each durable row follows from the one
 * before.
 */
#include "model.h"

#include "calendar/duration.h"
#include "tenants.h"
#include "client.h"
#include "world.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char ROW[] = "a row says only what was asked or what happened";

void model_init(struct sim_model *model)
{
    *model = (struct sim_model){0};
}

void model_deinit(struct sim_model *model)
{
    for (size_t i = 0; i < model->count; i++) {
        free(model->twins[i]->versions);
        free(model->twins[i]);
    }
    free(model->twins);
    for (size_t p = 0; p < PARTITIONS_MAX; p++) {
        map_deinit(&model->by_serial[p]);
        free(model->told[p].nows);
    }
}

struct twin *model_ask(struct world *world, uint16_t partition, const struct content *content)
{
    struct sim_model *model = &world->model;
    struct twin *twin = calloc(1, sizeof(*twin));

    assert(twin);
    if (model->count == model->capacity) {
        model->capacity = model->capacity ? 2 * model->capacity : 64;
        model->twins = realloc(model->twins, model->capacity * sizeof(struct twin *));
        assert(model->twins);
    }
    model->twins[model->count++] = twin;
    twin->number = (uint32_t)model->count;
    twin->partition = partition;
    twin->asked = *content;
    if (!twin->asked.number) /* otherwise it repeats another request */
        twin->asked.number = twin->number;
    twin->calm_ms = world_ms(world);
    return twin;
}

struct twin *model_find(const struct world *world, const struct timer_id *id)
{
    struct twin *twin = NULL;

    if (id->partition < PARTITIONS_MAX)
        twin = map_get(&world->model.by_serial[id->partition], id->serial);
    return twin && timer_id_equal(&twin->id, id) ? twin : NULL;
}

struct twin *model_twin_of(struct world *world, uint16_t partition, const struct timer *timer)
{
    struct twin *twin = map_get(&world->model.by_serial[partition], timer->id.serial);

    if (!twin)
        world_fail(world, content_number(timer), ROW, "a timer that was never made durable");
    if (!timer_id_equal(&twin->id, &timer->id))
        world_fail(world, twin->number, ROW, "it has another id");
    return twin;
}

/* Returns the twin whose first row this is. It may be any of several equal requests: their answers
 * decide. */
static struct twin *asked_of(struct world *world, uint16_t partition, const struct timer *timer)
{
    const uint32_t number = content_number(timer);

    for (size_t i = 0; i < world->model.count; i++) {
        struct twin *twin = world->model.twins[i];

        if (twin->life == TWIN_ASKED && twin->partition == partition &&
            twin->asked.number == number && content_matches(&twin->asked, timer))
            return twin;
    }
    world_fail(world, number <= world->model.count ? number : 0, ROW,
               "a timer that nobody asked for");
}

void model_tell_time(struct sim_model *model, uint16_t partition, struct wall now)
{
    struct told *told = &model->told[partition];

    model->now_max[partition] = wall_max(model->now_max[partition], now);
    model->passed_ms[partition] += wall_since(model->now_last[partition], now);
    model->now_last[partition] = now;
    if (told->count > 0 && told->nows[told->count - 1].ms == now.ms)
        return;
    if (told->count == told->capacity) {
        told->capacity = told->capacity ? 2 * told->capacity : 256;
        told->nows = realloc(told->nows, told->capacity * sizeof(*told->nows));
        assert(told->nows);
    }
    told->nows[told->count++] = now;
}

static bool is_long_final(const struct world *world, const struct twin *twin, uint64_t ms)
{
    const struct sim_model *model = &world->model;

    return timer_is_final(twin->row.state) &&
           (twin->row.is_gone ||
            wall_since(twin->row.ended, model->now_max[twin->partition]) >= ms ||
            model->passed_ms[twin->partition] - twin->end_passed_ms >= ms);
}

bool model_may_forget(const struct world *world, const struct twin *twin)
{
    return is_long_final(world, twin,
                         twin->row.state == TIMER_DEAD ? world->plan.engine.dead_retain_ms
                                                       : world->plan.engine.retain_ms);
}

bool model_may_forget_names(const struct world *world, const struct twin *twin)
{
    return twin->has_lost_names || is_long_final(world, twin, world->plan.engine.retain_ms) ||
           model_may_forget(world, twin);
}

const struct version *model_version(const struct twin *twin, uint32_t version)
{
    for (size_t i = twin->version_count; i-- > 0;)
        if (twin->versions[i].version == version)
            return &twin->versions[i];
    return NULL;
}

uint64_t model_live_count(const struct sim_model *model, uint16_t partition, uint64_t *ret_damaged)
{
    *ret_damaged = 0;
    uint64_t count = 0;
    for (size_t i = 0; i < model->count; i++) {
        if (model->twins[i]->partition != partition)
            continue;
        count += twin_is_live(model->twins[i]);
        *ret_damaged += model->twins[i]->was_damaged;
    }
    return count;
}

uint64_t model_pending_max(const struct sim_model *model, uint16_t partition)
{
    uint64_t damaged, count = model_live_count(model, partition, &damaged);

    count += damaged; /* the loss is not noticed */
    for (size_t i = 0; i < model->count; i++)
        if (model->twins[i]->partition == partition)
            count += (model->twins[i]->life == TWIN_ASKED) + twin_may_report(model->twins[i]) +
                     twin_may_begin(model->twins[i]) + twin_may_part(model->twins[i]);
    return count;
}

/* ---- a row is written ---- */

void model_wrong(struct world *world, const struct twin *twin, const struct timer *timer,
                 const char *what)
{
    world_fail(world, twin->number, ROW,
               "%s: %s v%u attempts %u at %llu due %llu, after %s v%u attempts %u at %llu", what,
               timer_state_text(timer->state), timer->version, timer->attempts,
               (unsigned long long)timer->at.ms, (unsigned long long)timer->due.ms,
               timer_state_text(twin->row.state), twin->row.version, twin->row.attempts,
               (unsigned long long)twin->row.at.ms);
}

static void check_create(struct world *world, const struct twin *twin, const struct timer *timer)
{
    if (twin->life != TWIN_ASKED)
        model_wrong(world, twin, timer, "a row is made for a timer that had one");
    if (timer->version != 1 || timer->attempts != 0 || timer->state != TIMER_SCHEDULED ||
        timer->id.first.ms != timer->at.ms || !content_matches(&twin->asked, timer))
        model_wrong(world, twin, timer, "the first row is not what was asked");
    if (timer->at.ms < timer->due.ms ||
        timer->at.ms > wall_max(timer->due, world->model.now_max[twin->partition]).ms)
        model_wrong(world, twin, timer, "the first position is neither due nor now");
}

/* Returns the longest back-off that the policy and the receiver allow after that many attempts. */
static uint64_t delay_max_ms(const struct twin *twin, uint64_t asked_ms)
{
    const struct retry_policy *retry = &twin->row.content.retry;
    const uint32_t doublings = twin->row.attempts;
    uint64_t delay_ms = retry->cap_ms;

    if (doublings < 64 && retry->base_ms <= retry->cap_ms >> doublings)
        delay_ms = retry->base_ms << doublings;
    if (delay_ms < asked_ms)
        delay_ms = asked_ms;
    return delay_ms > 0 ? delay_ms : 1;
}

/* True if the timer is where its next firing begins: when that is due, now if that is past, or when
 * its backfill's rate lets it begin after the last start. */
bool model_is_placed(const struct rhythm *rhythm, const struct timer *timer, struct wall now,
                     struct wall started)
{
    const struct wall at = wall_max(timer->due, now);
    const struct wall last = started.ms ? wall_min(started, now) : now;
    const struct wall paced = wall_add(last, rhythm_pace_ms(rhythm));

    if (rhythm_pace_ms(rhythm) && paced.ms > at.ms)
        return timer->state == TIMER_RETRYING && timer->at.ms == paced.ms;
    return timer->state == TIMER_SCHEDULED && timer->at.ms == at.ms;
}

/* True if the row follows from the end of a firing at `now`, after `attempts` of them, the last of
 * which started then: the timer continues with the next planned firing, or has `state` if there is
 * none. */
static bool goes_on(const struct twin *twin, const struct timer *timer, struct wall now,
                    struct wall started, uint32_t attempts, enum timer_state state)
{
    const struct content *content = &twin->row.content;
    const struct rhythm *rhythm = &content->rhythm;
    const bool is_over = timer->state == state;
    const struct wall next = is_over ? WALL_NEVER : timer->due;

    if (is_over ? timer->due.ms != content->due.ms
                : timer->attempts > 0 || !model_is_placed(rhythm, timer, now, started))
        return false;
    return rhythm_recurs(rhythm) && rhythm->is_skipping && attempts > 0
               ? rhythm_skips_to(rhythm, content->due, now, next)
               : rhythm_follows(rhythm, content->due, now, next);
}

/* Notes the end of the firing: those planned before the next one are never attempted. After the
 * last one that are those that were due meanwhile, if the timer skips them. */
static void skip_to_next(struct twin *twin, const struct timer *timer)
{
    const struct wall due = twin->row.content.due;
    struct rhythm rhythm = twin->row.content.rhythm;
    struct wall next = timer->due;

    if (timer_is_final(timer->state)) {
        if (!rhythm_recurs(&rhythm) || !rhythm.is_skipping || timer->attempts == 0)
            return;
        rhythm.is_each = false;
        next = wall_add(rhythm_latest(&rhythm, due, timer->ended), rhythm.period_ms);
    }
    firings_add_skipped(twin, wall_add(due, 1), next);
}

/* Returns when the next firing is due, if retries end there; otherwise WALL_NEVER. */
static struct wall next_firing_due(const struct twin *twin)
{
    const struct content *content = &twin->row.content;

    return content->retry.until_next ? rhythm_after(&content->rhythm, content->due) : WALL_NEVER;
}

static void check_pause(struct world *world, const struct twin *twin, const struct timer *timer)
{
    const uint64_t day_ms = 24 * 3600 * 1000;
    const struct delivery_outcome *outcome = &twin->outcome;
    const bool is_exact = outcome->pause == DELIVERY_PAUSE_EXACT;
    const uint64_t asked_ms = outcome->retry_after_ms < day_ms ? outcome->retry_after_ms : day_ms;
    const struct wall exact = wall_add(twin->outcome_at, outcome->retry_after_ms);
    const struct wall least =
        is_exact ? exact : wall_add(twin->outcome_at, asked_ms ? asked_ms : 1);
    const struct wall most =
        is_exact ? exact : wall_add(twin->outcome_at, delay_max_ms(twin, asked_ms));

    if (timer->at.ms < WALL_MS_MAX &&
        (timer->at.ms < least.ms || timer->at.ms > wall_max(most, timer->due).ms))
        model_wrong(world, twin, timer, "the back-off is out of bounds");
    if (next_firing_due(twin).ms <= timer->at.ms)
        model_wrong(world, twin, timer, "a retry is not before the next firing");
}

/* ---- reports ---- */

void model_await_report(struct world *world, struct twin *twin, const struct firing *firing,
                        const char *error)
{
    const struct content *content = &twin->row.content;
    const uint8_t target = firing->outcome == RUN_DONE ? content->on_success : content->on_dead;

    if (target)
        world->model.awaited =
            (struct awaited){.of = twin, .firing = *firing, .error = error, .target = target};
}

/* True if the next row of the batch is a new report of the twin. */
static bool is_reported(const struct world *world, const struct twin *twin)
{
    const struct timer *next = world->model.next_row;
    char id[TIMER_ID_TEXT_SIZE];

    timer_id_format(&twin->id, id);
    return next && bytes_equal(next->texts.report_of, bytes_of(id)) &&
           !map_get(&world->model.by_serial[twin->partition], next->id.serial);
}

static const char REPORT[] = "the end of a firing is reported once";

/* Returns the twin of a report, from its first row. */
static struct twin *report_of(struct world *world, uint16_t partition, const struct timer *timer)
{
    const struct awaited *awaited = &world->model.awaited;
    const struct wall now = world->model.now_max[partition];
    uint64_t *bytes_max = &world->clients.created_bytes_max;

    if (!awaited->of)
        world_fail(world, 0, REPORT, "a report that nothing explains: %.*s",
                   (int)timer->texts.payload.size, timer->texts.payload.data);
    if (!firings_are_reported(awaited->of, &awaited->firing, awaited->error, timer))
        world_fail(world, awaited->of->number, REPORT, "it says %.*s",
                   (int)timer->texts.payload.size, timer->texts.payload.data);
    struct content content = content_of_report(&awaited->of->row.content, &awaited->of->id,
                                               awaited->target, timer->texts.payload);
    content.due = content.created = timer->due;
    if (awaited->firing.started_ms ? timer->due.ms != awaited->of->outcome_at.ms
                                   : timer->due.ms > now.ms)
        world_fail(world, awaited->of->number, REPORT, "it is due at %" PRIu64, timer->due.ms);
    if (engine_footprint(timer) > *bytes_max)
        *bytes_max = engine_footprint(timer);
    world->model.awaited.of = NULL;
    world->model.made_count++;
    world->totals->reports += !world->model.is_doubtful;
    return model_ask(world, partition, &content);
}

/* ---- what a row says ---- */

/* True if the row says that the firing was given up after give_up_ms, with `cause` as its last
 * error. `since` is the time since which the target fails. Sets the error of the outcome. */
static bool is_given_up_by_time(struct twin *twin, const struct timer *timer, struct wall since,
                                struct wall now, const char *cause)
{
    const uint64_t give_up_ms = twin->row.content.retry.give_up_ms;
    char after[DURATION_TEXT_SIZE], error[sizeof(twin->outcome.error)];

    if (!give_up_ms || !since.ms || wall_since(since, now) < give_up_ms)
        return false;
    duration_format(give_up_ms, after);
    snprintf(error, sizeof(error), "given up after %s (retry.give_up_after): %s", after, cause);
    if (!bytes_equal(timer->texts.last_error, bytes_of(error)))
        return false;
    memcpy(twin->outcome.error, error, sizeof(error));
    return true;
}

/* True if the row says that the firing was given up after give_up_ms, with the error of its
 * outcome. */
static bool is_outcome_last(struct twin *twin, const struct timer *timer)
{
    char cause[sizeof(twin->outcome.error)];

    memcpy(cause, twin->outcome.error, sizeof(cause));
    return is_given_up_by_time(twin, timer, wall_min(twin->row.failing, twin->out_at),
                               twin->outcome_at, cause);
}

#define OVERTAKEN "given up: the next firing is due (retry.until): "

/* True if the row says that the firing was given up, because the next one is due by `at`. Sets the
 * error of the outcome. */
static bool is_overtaken(struct twin *twin, const struct timer *timer, struct wall at)
{
    const struct bytes error = timer->texts.last_error;

    if (next_firing_due(twin).ms > at.ms || !bytes_has_prefix(error, BYTES(OVERTAKEN)) ||
        error.size >= sizeof(twin->outcome.error))
        return false;
    memcpy(twin->outcome.error, error.data, error.size);
    twin->outcome.error[error.size] = '\0';
    return true;
}

/* Returns the latest time of another attempt after a failure. */
static struct wall latest_retry(const struct twin *twin)
{
    const uint64_t day_ms = 24 * 3600 * 1000, asked_ms = twin->outcome.retry_after_ms;

    if (twin->outcome.pause == DELIVERY_PAUSE_EXACT)
        return wall_max(wall_add(twin->outcome_at, asked_ms), twin->row.content.due);
    return wall_max(
        wall_add(twin->outcome_at, delay_max_ms(twin, asked_ms < day_ms ? asked_ms : day_ms)),
        twin->row.content.due);
}

/* Checks the row after an attempt, which has its outcome. */
static void check_outcome(struct world *world, struct twin *twin, const struct timer *timer)
{
    const uint32_t attempts = twin->row.attempts + 1;
    const enum delivery_result result = twin->outcome.result;
    const bool is_last =
        attempts >= twin->row.content.retry.attempts_max ||
        (result == DELIVERY_FAILED &&
         (is_outcome_last(twin, timer) || is_overtaken(twin, timer, latest_retry(twin))));
    bool is_right = timer->attempts == attempts;

    if (result == DELIVERY_DONE && !twin->received)
        model_wrong(world, twin, timer, "nobody received it");
    if (result != DELIVERY_FAILED || is_last) {
        const struct firing firing = firings_add_answered(twin);

        model_await_report(world, twin, &firing,
                           result == DELIVERY_DONE ? "" : twin->outcome.error);
    }
    if (result == DELIVERY_ENDED || (result == DELIVERY_FAILED && is_last))
        firings_check_told(world, twin);
    if (result == DELIVERY_DONE || (is_last && result != DELIVERY_ENDED)) {
        is_right = goes_on(twin, timer, twin->outcome_at, twin->out_at, attempts,
                           result == DELIVERY_DONE ? TIMER_FIRED : TIMER_DEAD) &&
                   (is_right || !timer_is_final(timer->state));
        skip_to_next(twin, timer);
    } else {
        is_right = is_right && timer->due.ms == twin->row.content.due.ms &&
                   timer->state == (result == DELIVERY_ENDED ? TIMER_DEAD : TIMER_RETRYING);
        if (is_right && timer->state == TIMER_RETRYING)
            check_pause(world, twin, timer);
    }
    twin->row.content.due = timer->due;
    if (!is_right || timer->version != twin->row.version + 1 ||
        !content_matches(&twin->row.content, timer))
        model_wrong(world, twin, timer, "the outcome is not what was handed in");
    twin->has_outcome = false;
    twin->busy_step = world->step;
    if (!timer_is_final(timer->state) && timer->attempts == 0) {
        twin->received = 0; /* the next firing has begun */
        world->totals->recurred++;
    }
}

static bool is_postponed(const struct twin *twin, const struct timer *timer)
{
    return twin->has_outcome && twin->outcome.result == DELIVERY_POSTPONED &&
           timer->state == TIMER_RETRYING && timer->version == twin->row.version + 1 &&
           timer->attempts == twin->row.attempts;
}

/* True if the firing was postponed once too often, and given up. */
static bool was_postponed_last(struct world *world, struct twin *twin, const struct timer *timer)
{
    struct content content = twin->row.content;

    content.due = timer->due;
    rhythm_take_done(&content.rhythm);
    if (!twin->has_outcome || twin->outcome.result != DELIVERY_POSTPONED ||
        timer->version != twin->row.version + 1 || !content_matches(&content, timer) ||
        !goes_on(twin, timer, twin->outcome_at, (struct wall){0}, twin->row.attempts, TIMER_DEAD) ||
        !is_outcome_last(twin, timer))
        return false;
    firings_check_told(world, twin);
    const struct firing firing = firings_add_unanswered(twin, twin->outcome.error);
    model_await_report(world, twin, &firing, twin->outcome.error);
    skip_to_next(twin, timer);
    twin->row.content.due = timer->due;
    twin->has_outcome = false;
    twin->busy_step = world->step;
    twin->received = 0;
    return true;
}

/* Checks a postponed delivery: it waits for the time that was asked for, at most twice that, and
 * has used no attempt. */
static void check_postponed(struct world *world, struct twin *twin, const struct timer *timer)
{
    const uint64_t asked_ms = twin->outcome.retry_after_ms;
    const struct wall most = wall_add(twin->outcome_at, 2 * asked_ms + 1);

    if (timer->at.ms < wall_add(twin->outcome_at, asked_ms).ms ||
        timer->at.ms > wall_max(most, timer->due).ms || !content_matches(&twin->row.content, timer))
        model_wrong(world, twin, timer, "it is not put off as was asked");
    twin->has_outcome = false;
    twin->busy_step = world->step;
}

/* Returns for how long a timer is put back at most. */
static uint64_t spill_ms_max(const struct world *world)
{
    return 8 * (world->plan.engine.window_ms + 1);
}

/* Returns the longest time for which an outcome may put the timer off, by a worker or a target that
 * postpones it. */
static uint64_t pause_ms_max(const struct twin *twin)
{
    const uint64_t day_ms = 24 * 3600 * 1000;

    return twin->row.content.origin == QUEUE_ORIGIN ? 30 * day_ms : 2 * day_ms + 1;
}

static bool is_misplaced(const struct twin *twin, struct wall now)
{
    return twin->row.state == TIMER_RETRYING && twin->row.at.ms > twin->row.content.due.ms &&
           twin->row.at.ms > wall_add(now, pause_ms_max(twin)).ms;
}

struct wall model_acts_at(const struct world *world, const struct twin *twin)
{
    if (is_misplaced(twin, world_now(world)))
        return (struct wall){0};
    if (twin->row.state == TIMER_PAUSED)
        return twin->row.at;
    return twin->is_spilled ? twin->row.content.due : wall_max(twin->row.at, twin->row.content.due);
}

static bool was_misplaced(const struct world *world, const struct twin *twin)
{
    const struct told *told = &world->model.told[twin->partition];

    for (size_t i = told->count; i-- > twin->row.told_index;)
        if (is_misplaced(twin, told->nows[i]))
            return true;
    return false;
}

/* Checks a row that only moved: the timer was put back for want of room at its target, or moved to
 * its right place after a wrong clock. */
static void check_spill(struct world *world, struct twin *twin, const struct timer *timer)
{
    if (timer->at.ms == twin->row.at.ms)
        return;
    if (twin->row.state == TIMER_PAUSED)
        model_wrong(world, twin, timer, "a paused timer moved");
    if (touches_moved_on(twin, timer)) {
        world->totals->rows_moved++;
        return;
    }
    if (timer->at.ms < timer->due.ms ||
        timer->at.ms > wall_add(world->model.now_max[twin->partition], spill_ms_max(world)).ms)
        model_wrong(world, twin, timer, "it moved without a reason");
    if (timer->state == TIMER_RETRYING && !was_misplaced(world, twin))
        model_wrong(world, twin, timer, "its back-off was cut short");
    twin->is_spilled = timer->state == TIMER_SCHEDULED;
    world->totals->spilled++;
}

/* Returns why a firing may be given up without an attempt: a patch has lowered the number of
 * attempts, or the target has failed for too long; "" if it is too late. NULL if it may not be
 * given up. */
static const char *may_be_given_up(const struct world *world, struct twin *twin,
                                   const struct timer *timer)
{
    const struct told *told = &world->model.told[twin->partition];
    const struct sim_row *row = &twin->row;
    const bool is_exhausted = row->attempts >= row->content.retry.attempts_max;
    const struct wall since = row->failing.ms ? row->failing : row->content.due;
    struct content content = row->content;

    content.due = timer->due;
    rhythm_take_done(&content.rhythm);
    if (row->state == TIMER_PAUSED || row->state == TIMER_DELIVERING ||
        timer->version != row->version + 1 || !content_matches(&content, timer) ||
        (timer_is_final(timer->state) && timer->attempts != row->attempts))
        return NULL;
    for (size_t i = told->count; i-- > row->told_index;) {
        const bool is_late = rhythm_drops(&row->content.rhythm, row->content.due, told->nows[i]);

        if (!goes_on(twin, timer, told->nows[i], (struct wall){0}, row->attempts, TIMER_DEAD))
            continue;
        if (is_given_up_by_time(twin, timer, since, told->nows[i], "not tried: its target failed"))
            return twin->outcome.error;
        if (row->attempts > 0 && is_overtaken(twin, timer, told->nows[i]))
            return twin->outcome.error;
        if (is_exhausted || is_late)
            return is_exhausted ? "no attempts are left" : "";
    }
    return NULL;
}

static bool was_given_up(struct world *world, struct twin *twin, const struct timer *timer)
{
    const char *error = may_be_given_up(world, twin, timer);

    if (!error)
        return false;
    world->totals->dropped += twin->row.attempts < twin->row.content.retry.attempts_max;
    twin->received = 0;
    firings_check_told(world, twin);
    const struct firing firing = firings_add_unanswered(twin, error);
    model_await_report(world, twin, &firing, error);
    skip_to_next(twin, timer);
    twin->row.content.due = timer->due;
    return true;
}

static void check_next(struct world *world, struct twin *twin, const struct timer *timer)
{
    const struct sim_row *row = &twin->row;

    twin->is_spilled = false;
    if (made_explains(world, twin, timer))
        return;
    if (twin->has_outcome) {
        firings_add_skipped(twin, twin->row.content.due, twin->out_due);
        twin->row.content.due = twin->out_due;
    }
    struct content content, by_parent;
    if (was_postponed_last(world, twin, timer))
        return;
    if (twin->has_outcome && twin->outcome.result == DELIVERY_AWAITED) {
        answers_check_awaited(world, twin, timer);
    } else if (is_postponed(twin, timer)) {
        check_postponed(world, twin, timer);
    } else if (twin->has_outcome) {
        check_outcome(world, twin, timer);
    } else if (timer->version == row->version && row->is_stored && !timer_is_final(row->state) &&
               (timer->state == row->state ||
                (timer->state == TIMER_SCHEDULED && row->state != TIMER_PAUSED)) &&
               timer->attempts == row->attempts && content_matches(&row->content, timer)) {
        check_spill(world, twin, timer);
    } else if (is_reported(world, twin) && was_given_up(world, twin, timer)) {
        return;
    } else if (cause_find(world, twin, timer, &content)) {
        if (!world->model.is_doubtful && made_could_be_by_parent(world, twin, timer, &by_parent))
            cause_may_be_nobody(&world->causes);
        /* the row of a dead letter may be trimmed at once, and need not be stored */
        const char *error = timer_is_final(row->state) || row->content.on_dead
                                ? NULL
                                : may_be_given_up(world, twin, timer);
        const bool is_ambiguous = error != NULL;

        if ((is_ambiguous || pauses_ended(world, twin, timer)) && !world->model.is_doubtful)
            cause_may_be_nobody(&world->causes);
        if (is_ambiguous && !firings_match(&row->firings, timer)) {
            firings_add_unanswered(twin, error);
            skip_to_next(twin, timer);
        }
        if (content.number != row->content.number || content.watch != row->content.watch)
            twin->put_step = world->step;
        twin->row.content = content;
    } else if (made_could_be_by_parent(world, twin, timer, &by_parent)) {
        twin->row.content = by_parent;
    } else if (pauses_ended(world, twin, timer)) {
        world->totals->pauses_ended++;
    } else if (timer_is_final(row->state) || !row->is_stored) {
        model_wrong(world, twin, timer, "a timer that is over is written again");
    } else if (!was_given_up(world, twin, timer)) {
        model_wrong(world, twin, timer, "nothing explains the row");
    }
}

static void keep_version(struct twin *twin)
{
    if (twin->version_count == twin->version_capacity) {
        twin->version_capacity = twin->version_capacity ? 2 * twin->version_capacity : 4;
        twin->versions = realloc(twin->versions, twin->version_capacity * sizeof(*twin->versions));
        assert(twin->versions);
    }
    twin->versions[twin->version_count++] = (struct version){
        twin->row.version, twin->row.state, twin->row.content, firings_sum(&twin->row.firings)};
}

/* Forgets a dead letter that is too old, that a client wanted forgotten, or that exceeds the
 * limit. */
static void forget_row(struct world *world, uint16_t partition, const struct storage_write *write)
{
    static const char PROMISE[] = "a dead letter is kept";
    struct twin *twin = model_twin_of(world, partition, write->timer);
    struct sim_row *row = &twin->row;

    world_note(world, "forgotten", partition, twin->number, row->version, write->was_at.ms);
    if (row->state != TIMER_DEAD)
        world_fail(world, twin->number, PROMISE, "%s, it is forgotten",
                   timer_state_text(row->state));
    if (write->was_at.ms != row->at.ms)
        world_fail(world, twin->number, PROMISE, "its row is at %" PRIu64 ", not at %" PRIu64,
                   row->at.ms, write->was_at.ms);
    if (!model_may_forget(world, twin) && !twin->is_forget_asked && !twin->is_damaged &&
        world->plan.engine.dead_bytes_max == DEAD_BYTES_ENOUGH)
        world_fail(world, twin->number, PROMISE, "it is forgotten too early");
    world->totals->forgotten += row->is_stored && !world->model.is_doubtful;
    row->is_stored = false;
    row->is_gone = true;
    row->changed_step = row->written_step = world->step;
}

static void write_row(struct world *world, uint16_t partition, const struct storage_write *write)
{
    const struct timer *timer = write->timer;
    const bool is_new = !map_get(&world->model.by_serial[partition], timer->id.serial);
    struct twin *twin = !is_new                          ? model_twin_of(world, partition, timer)
                        : world->model.awaited.made_left ? made_take(world, partition, timer)
                        : timer->texts.report_of.size    ? report_of(world, partition, timer)
                                                         : asked_of(world, partition, timer);
    struct sim_row *row = &twin->row;

    world_note(world, timer_state_text(timer->state), partition, twin->number, timer->version,
               timer->at.ms);
    if (write->was_at.ms != (is_new ? 0 : row->at.ms))
        model_wrong(world, twin, timer, "the row is sought where it is not");
    if (is_new)
        check_create(world, twin, timer);
    else
        check_next(world, twin, timer);
    if (!firings_match(&row->firings, timer))
        model_wrong(world, twin, timer, "its runs are not what happened");
    if (is_new) {
        twin->life = TWIN_DURABLE;
        twin->id = timer->id;
        row->content = twin->asked;
        map_put(&world->model.by_serial[partition], timer->id.serial, twin);
    }
    if (is_new || row->at.ms != timer->at.ms || row->state != timer->state)
        row->written_step = world->step;
    if (timer->state == TIMER_DEAD && timer->at.ms < storage_dead_at(timer->ended).ms)
        model_wrong(world, twin, timer, "it does not lie among the dead letters");
    row->is_stored = true;
    row->failing = timer->failing;
    snprintf(row->awaits, sizeof(row->awaits), "%.*s", (int)timer->texts.awaits.size,
             timer->texts.awaits.size ? timer->texts.awaits.data : "");
    if (!timer_is_final(timer->state) || timer->state == TIMER_DEAD ||
        row->at.ms == STORAGE_PAUSED_AT.ms)
        row->at = timer->at;
    pauses_keep(twin, timer);
    if (!timer_is_final(timer->state)) {
        twin->end_passed_ms = world->model.passed_ms[partition];
    }
    if (timer_is_final(row->state) && !timer_is_final(timer->state))
        twin->has_lost_names = model_may_forget_names(world, twin);
    if (is_new || (timer_is_final(row->state) && !timer_is_final(timer->state)))
        twin->live_step = world->step;
    row->changed_step = world->step;
    if (!timer_is_final(timer->state))
        row->ended_step = 0;
    else if (!row->ended_step)
        row->ended_step = world->step;
    row->told_index = world->model.told[partition].count;
    row->told_index -= row->told_index > 0;
    row->ended = timer->ended;
    row->state = timer->state;
    row->version = timer->version;
    row->attempts = timer->attempts;
    row->written_ms = world_ms(world);
    twin->calm_ms = world_ms(world);
    twin->is_damaged &= write->is_touch; /* a touch does not write the whole row */
    keep_version(twin);
    if (twin->live_step == world->step)
        tenants_judge_new(world, twin);
    claims_written(world, twin, is_new);
    world->totals->fired += timer->state == TIMER_FIRED;
    world->totals->dead += timer->state == TIMER_DEAD;
}

/* ---- a batch is durable ---- */

/* Drops the rows of [from, to), and checks that each has been final for long enough. */
static void trim(struct world *world, uint16_t partition, struct wall from, struct wall to)
{
    for (size_t i = 0; i < world->model.count; i++) {
        struct twin *twin = world->model.twins[i];
        struct sim_row *row = &twin->row;

        if (twin->partition != partition || twin->life != TWIN_DURABLE || !row->is_stored ||
            row->at.ms < from.ms || row->at.ms >= to.ms)
            continue;
        if (!timer_is_final(row->state) && !twin->is_damaged)
            world_fail(world, twin->number, "acknowledged is never lost", "its row was trimmed");
        if (!model_may_forget(world, twin) && !twin->is_damaged)
            world_fail(world, twin->number, "a final state is kept", "it was trimmed too early");
        row->is_stored = false;
        row->written_step = world->step;
    }
}

static void check_watermark(struct world *world, uint16_t partition,
                            const struct storage_meta *meta)
{
    static const char PROMISE[] = "the watermark never passes a live timer";

    if (meta->trim.ms > meta->watermark.ms)
        world_fail(world, 0, PROMISE, "trim %llu is beyond watermark %llu",
                   (unsigned long long)meta->trim.ms, (unsigned long long)meta->watermark.ms);
    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *twin = world->model.twins[i];

        if (twin->partition == partition && twin_is_live(twin) && !twin->is_damaged &&
            twin->row.at.ms < meta->watermark.ms)
            world_fail(world, twin->number, PROMISE, "watermark %llu, row at %llu",
                       (unsigned long long)meta->watermark.ms, (unsigned long long)twin->row.at.ms);
    }
}

void model_durable(struct world *world, const struct storage_batch *batch)
{
    struct storage_meta *meta = &world->model.metas[batch->partition];

    world_note(world, "durable", batch->partition, 0, batch->write_count, batch->meta.watermark.ms);
    for (size_t i = 0; i < batch->write_count; i++) {
        const struct twin *reporting = world->model.awaited.of;
        const size_t left = world->model.awaited.made_left;

        world->model.next_row = i + 1 < batch->write_count ? batch->writes[i + 1].timer : NULL;
        if (batch->writes[i].is_forgotten)
            forget_row(world, batch->partition, &batch->writes[i]);
        else
            write_row(world, batch->partition, &batch->writes[i]);
        if (reporting && world->model.awaited.of && world->model.awaited.made_left == left)
            world_fail(world, reporting->number, REPORT, "another row comes first");
    }
    if (world->model.awaited.of)
        world_fail(world, world->model.awaited.of->number, REPORT, "there is no report");
    trim(world, batch->partition, meta->trim, batch->meta.trim);
    if (batch->meta.epoch < meta->epoch)
        world_fail(world, 0, "the epoch never falls", "%llu after %llu",
                   (unsigned long long)batch->meta.epoch, (unsigned long long)meta->epoch);
    *meta = batch->meta;
    check_watermark(world, batch->partition, meta);
    world->totals->commits += !world->model.is_doubtful;
}

void model_told(struct world *world, const struct storage_batch *batch)
{
    for (size_t i = 0; i < batch->write_count; i++) {
        struct twin *twin = model_twin_of(world, batch->partition, batch->writes[i].timer);

        if (batch->writes[i].timer->version > twin->told_version)
            twin->told_version = batch->writes[i].timer->version;
        if (!twin->told_step)
            twin->told_step = world->step;
        twin->calm_ms = world_ms(world);
    }
}

static void restart_twin(struct world *world, struct twin *twin)
{
    if (twin->life == TWIN_ASKED)
        twin->life = TWIN_NEVER;
    twin->told_version = twin->row.version;
    if (twin->life == TWIN_DURABLE && !twin->told_step)
        twin->told_step = world->step;
    twin->change_count = 0;
    twin->is_out = false;
    twin->has_outcome = false;
    twin->calm_ms = world_ms(world);
}

void model_restart(struct world *world, uint16_t partition)
{
    for (size_t i = 0; i < world->model.count; i++)
        if (world->model.twins[i]->partition == partition)
            restart_twin(world, world->model.twins[i]);
}

void model_crash(struct world *world)
{
    for (size_t i = 0; i < world->model.count; i++)
        restart_twin(world, world->model.twins[i]);
}

/* ---- the storage against the twins ---- */

/* Compares a stored row with its twin. Returns true if the row counts: that of a damaged twin may
 * be whole again after a touch, or not. */
static bool compare_row(struct world *world, uint16_t partition, const struct timer *timer)
{
    const struct twin *twin = model_twin_of(world, partition, timer);
    const struct sim_row *row = &twin->row;

    if (twin->life != TWIN_DURABLE || !row->is_stored || timer->state != row->state ||
        timer->version != row->version || timer->attempts != row->attempts ||
        timer->failing.ms != row->failing.ms || timer->due.ms != row->content.due.ms ||
        !content_matches(&row->content, timer) ||
        (!timer_is_final(row->state) && !pauses_stay(twin, timer)) ||
        !firings_match(&row->firings, timer))
        model_wrong(world, twin, timer, "the storage has another row");
    return !twin->is_damaged;
}

void model_compare(struct world *world)
{
    size_t found = 0;

    for (uint16_t p = 0; p < world->plan.partition_count; p++) {
        const struct storage_scan scan = {
            .partition = p,
            .kind = STORAGE_SCAN_ALL,
            .to = {WALL_NEVER, 0},
            .rows_max = SIZE_MAX,
            .bytes_max = SIZE_MAX,
        };
        struct storage_page page;

        if (storage_scan(world->disk.storage, &scan, &page, NULL) != ERROR_NONE)
            world_fail(world, 0, ROW, "the storage cannot be scanned");
        for (size_t i = 0; i < page.count; i++)
            found += compare_row(world, p, page.timers[i]);
        storage_page_free(&page);
    }
    size_t stored = 0;
    /* A damaged row is either set aside, or was read before it was damaged. */
    for (size_t i = 0; i < world->model.count; i++) {
        const struct twin *twin = world->model.twins[i];

        stored += twin->life == TWIN_DURABLE && twin->row.is_stored && !twin->is_damaged;
    }
    if (found != stored)
        world_fail(world, 0, "acknowledged is never lost", "%zu rows in the storage, not %zu",
                   found, stored);
}
