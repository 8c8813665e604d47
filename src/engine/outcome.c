/* What an answer of a target means for the timer. */
#include "engine/outcome.h"

#include "calendar/duration.h"
#include "engine/dead.h"
#include "engine/effects.h"
#include "engine/engine_core.h"
#include "engine/history.h"
#include "engine/position.h"
#include "engine/tenant.h"
#include "engine/watermark.h"
#include "engine/window.h"
#include "timer/firing.h"
#include "timer/awaits.h"
#include "timer/report.h"
#include "timer/timer.h"
#include "timer/runs.h"
#include "timer/schedule.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Bounds of the pause after which a firing whose schedule cannot be computed is tried again, in
 * milliseconds. */
#define OUTCOME_WAIT_SHORT_MS UINT64_C(10000)
#define OUTCOME_WAIT_LONG_MS  UINT64_C(60000)

#define OUTCOME_TEXT_SIZE 240 /* maximum size of a last_error that the engine writes itself */

/* Replaces the timer by a copy with these texts. The texts of a timer never change in place,
 * because a reply may show them. If memory is out, the old texts stay. */
static void outcome_set_texts(struct engine *engine, struct entry *entry,
                              const struct timer_texts *texts)
{
    assert(!timer_is_final(entry->timer->state));
    assert(!entry->successor);
    struct timer *copy = timer_copy(entry->timer, texts);

    if (copy)
        entries_replace(engine->entries, entry, copy);
}

static void outcome_set_error(struct engine *engine, struct entry *entry, const char *error)
{
    struct timer_texts texts = entry->timer->texts;

    texts.last_error = bytes_of(error);
    outcome_set_texts(engine, entry, &texts);
}

static uint8_t outcome_attempts(uint32_t attempts)
{
    return attempts < UINT8_MAX ? (uint8_t)attempts : UINT8_MAX;
}

/* Returns the record of the run that ends with this delivery. If the delivery has no end time, it
 * ended now. */
static struct run outcome_run_of(const struct engine *engine, const struct delivery *delivery)
{
    static const enum run_outcome outcomes[] = {
        [DELIVERY_DONE] = RUN_DONE, [DELIVERY_FAILED] = RUN_FAILED, [DELIVERY_ENDED] = RUN_ENDED};
    const struct delivery_outcome *outcome = &delivery->outcome;
    const struct wall ended = {delivery->ended_us ? delivery->ended_us / 1000 : engine->now.ms};
    const struct wall started = {delivery->started_us / 1000};
    const uint64_t duration_ms = started.ms ? wall_since(started, ended) : 0;

    assert(outcome->result <= DELIVERY_ENDED);
    return (struct run){
        .planned = delivery->timer->due,
        .started = started,
        .duration_ms = duration_ms < UINT32_MAX ? (uint32_t)duration_ms : UINT32_MAX,
        .status = outcome->status,
        .attempts = outcome_attempts(delivery->attempt),
        .outcome = outcomes[outcome->result],
        .error = outcome->result == DELIVERY_DONE ? (struct bytes){0} : bytes_of(outcome->error),
    };
}

/* Returns the record of a run that ends without another attempt. */
static struct run outcome_run_without(const struct timer *timer, enum run_outcome outcome,
                                      const char *error)
{
    return (struct run){
        .planned = timer->due,
        .attempts = outcome_attempts(timer->attempts),
        .outcome = outcome,
        .error = bytes_of(error),
    };
}

void outcome_count_backfilled(struct timer_texts *texts, struct buffer *room)
{
    struct backfill backfill;

    if (!schedule_backfill(texts->schedule, &backfill) || !backfill.count)
        return;
    schedule_write_done(texts->schedule, room);
    if (!buffer_failed(room) && room->size)
        texts->schedule = buffer_bytes(room);
}

void outcome_place_next(const struct engine *engine, struct timer *timer, struct wall started)
{
    struct backfill backfill;

    assert(!timer_is_final(timer->state));
    timer->state = TIMER_SCHEDULED;
    timer->at = wall_max(timer->due, engine->now);
    if (!schedule_backfill(timer->texts.schedule, &backfill) || !backfill.pace_ms)
        return;
    const struct wall last = started.ms ? wall_min(started, engine->now) : engine->now;
    const struct wall paced = wall_add(last, backfill.pace_ms);
    if (paced.ms <= timer->at.ms)
        return;
    /* An overdue timer that is SCHEDULED would be taken for a spilled one. */
    timer->state = TIMER_RETRYING;
    timer->at = paced;
}

/* Stores the end of a firing: last_error shows why it failed, or is empty after a success. If the
 * timer recurs, adds the run to its runs, and sets `zoned`, the mark of its next firing. */
static void outcome_set_run(struct engine *engine, struct entry *entry, const struct run *run,
                            const struct outcome_next *next)
{
    struct timer_texts texts = entry->timer->texts;
    const bool recurs = schedule_recurs(texts.schedule);

    assert(run->planned.ms == entry->timer->due.ms);
    if (!recurs && run->outcome == RUN_DONE && !texts.last_error.size)
        return;
    texts.last_error = run->error;
    char room[RUNS_BYTES_MAX];
    struct buffer schedule;
    buffer_init(&schedule);
    if (recurs) {
        texts.runs = runs_add(texts.runs, run, room);
        outcome_count_backfilled(&texts, &schedule);
    }
    texts.zoned = next->zoned;
    texts.counted = next->counted;
    outcome_set_texts(engine, entry, &texts);
    buffer_deinit(&schedule);
}

/* Reports that the timer's current firing ended without success. */
static void outcome_give_up(struct engine *engine, const struct timer *timer, struct wall next)
{
    assert(!timer_is_final(timer->state));
    engine->stats.given_up++;
    effects_given_up(engine, timer, next);
}

/* Sets the time since when the target of the firing fails, if it is not set. */
static void outcome_fails(const struct engine *engine, struct timer *timer)
{
    assert(engine->is_in_turn && !timer_is_final(timer->state));
    if (!timer->failing.ms)
        timer->failing = engine->now;
}

static bool outcome_is_given_up(const struct engine *engine, const struct timer *timer,
                                struct wall since)
{
    return timer->retry.give_up_ms && since.ms &&
           wall_since(since, engine->now) >= timer->retry.give_up_ms;
}

/* Formats the last error of a firing that is given up after its target failed for too long. */
static void outcome_give_up_text(const struct timer *timer, struct bytes error,
                                 char ret_text[OUTCOME_TEXT_SIZE])
{
    char after[DURATION_TEXT_SIZE];

    duration_format(timer->retry.give_up_ms, after);
    snprintf(ret_text, OUTCOME_TEXT_SIZE, "given up after %s (retry.give_up_after): %.*s", after,
             (int)error.size, error.data);
}

/* True if the timer's retries end because its next firing is due by `at`. */
static bool outcome_is_overtaken(const struct engine *engine, const struct timer *timer,
                                 struct wall at)
{
    struct schedule schedule;

    assert(timer->attempts > 0);
    return timer->retry.until_next && timer->texts.schedule.size &&
           !schedule_of(timer, &engine->options.zones, &schedule, NULL) &&
           schedule_after(&schedule, timer->due).ms <= at.ms;
}

/* Formats the last error of a firing whose retries end with the next firing. */
static void outcome_overtaken_text(struct bytes error, char ret_text[OUTCOME_TEXT_SIZE])
{
    snprintf(ret_text, OUTCOME_TEXT_SIZE, "given up: the next firing is due (retry.until): %.*s",
             (int)error.size, error.data);
}

static void outcome_end(struct engine *engine, struct entry *entry, enum timer_state state)
{
    assert(timer_is_final(state) && !timer_is_final(entry->timer->state));
    assert(state != TIMER_FIRED || entry->timer->attempts > 0);
    entry->timer->state = state;
    entry->timer->ended = engine->now;
    tenant_dismiss_pending(engine);
    if (state == TIMER_DEAD) {
        entry->timer->at = dead_place(engine, entry->timer);
        engine->stats.dead++;
    } else {
        engine->stats.fired++;
    }
    assert(entry->timer->ended.ms > 0);
}

/* Adds a timer that the engine makes itself, which is written with its timer. No limit applies,
 * because there is no client to refuse. Takes the timer. NULL if it cannot be added now. */
static struct entry *outcome_add_made(struct engine *engine, struct timer *made)
{
    struct entry *entry = NULL;

    if (!made)
        return NULL;
    const bool is_admitted = position_first(engine, made) && tenant_admit_own(engine, made);
    if (is_admitted)
        entry = entries_add(engine->entries, made, ENTRY_WRITING);
    if (!entry) {
        if (is_admitted) {
            tenant_dismiss(engine, made);
            tenant_dismiss_pending(engine);
        }
        timer_free(made);
        return NULL;
    }
    /* If there is no room, the timer leaves memory when it is durable, and is read again. */
    if (window_is_near(engine, made) &&
        entries_near_bytes(engine->entries) + entry_footprint(entry) <=
            engine->options.near_bytes_max)
        entries_count(engine->entries, entry);
    return entry;
}

bool outcome_add_new(struct engine *engine, struct entry *entry, struct timer *made)
{
    struct entry *added = outcome_add_made(engine, made);

    assert(entry->phase != ENTRY_ABSENT && !entry->successor);
    if (!added)
        return false;
    added->report = entry->report;
    entry->report = added;
    return true;
}

void outcome_drop_new(struct engine *engine, struct entry *entry)
{
    while (entry->report) {
        struct entry *dropped = entry->report;

        entry->report = dropped->report;
        dropped->report = NULL;
        tenant_dismiss(engine, dropped->timer);
        tenant_dismiss_pending(engine);
        entries_set_phase(engine->entries, dropped, ENTRY_ABSENT);
    }
}

/* Makes the report of a firing's end, if the timer has a target for reports. The report is written
 * with the outcome. Returns false if it cannot be made now. */
static bool outcome_report(struct engine *engine, struct entry *entry, const struct run *run)
{
    assert(!entry->report);
    assert(!timer_is_final(entry->timer->state));
    if (!report_target(entry->timer, run->outcome).size)
        return true;
    struct timer *report = report_create(entry->timer, run);
    if (report)
        report->due = engine->now;
    return outcome_add_new(engine, entry, report);
}

/* True if the firings that were due while this one was attempted are skipped. */
static bool outcome_skips(const struct schedule *schedule, const struct timer *timer)
{
    return schedule->overlap == SCHEDULE_OVERLAP_SKIP && timer->attempts > 0;
}

bool outcome_next_due(const struct engine *engine, const struct timer *timer, struct wall now,
                      struct outcome_next *ret_next)
{
    struct schedule schedule;

    assert(!timer_is_final(timer->state) || timer->state == TIMER_DEAD);
    ret_next->due = WALL_NEVER;
    ret_next->zoned = ret_next->counted = (struct bytes){0};
    ret_next->skipped = (struct run){.outcome = RUN_SKIPPED};
    if (!timer->texts.schedule.size)
        return true;
    if (schedule_of(timer, &engine->options.zones, &schedule, NULL))
        return false;
    const bool skips = outcome_skips(&schedule, timer);
    ret_next->due = skips ? schedule_after(&schedule, wall_max(timer->due, now))
                          : schedule_next(&schedule, timer->due, now);
    ret_next->zoned = schedule_mark(&schedule, ret_next->due, ret_next->room);
    schedule_take(&schedule, timer->due);
    ret_next->counted = schedule_counted(&schedule, ret_next->counted_room);
    if (ret_next->due.ms != WALL_NEVER.ms || skips)
        ret_next->skipped.count =
            schedule_count(&schedule, wall_add(timer->due, 1),
                           wall_min(ret_next->due, wall_add(wall_max(timer->due, now), 1)),
                           &ret_next->skipped.planned, &ret_next->skipped.until);
    return true;
}

struct wall outcome_put_off(const struct engine *engine, const struct timer *timer,
                            uint64_t delay_ms)
{
    const uint64_t most_ms = position_pause_ms_max(timer);
    struct wall at = wall_add(engine->now, delay_ms < most_ms ? delay_ms : most_ms);

    assert(!timer_is_final(timer->state));
    return wall_max(wall_min(at, (struct wall){WALL_MS_MAX}), timer->due);
}

struct wall outcome_paused_again(struct engine *engine, const struct timer *timer)
{
    assert(timer->state == TIMER_RETRYING);
    if (timer_order(timer) == TIMER_ORDER_STRICT) /* it waits at its place */
        return outcome_put_off(engine, timer, 1);
    return outcome_put_off(engine, timer,
                           retry_delay_ms(&timer->retry, timer->attempts, 0, &engine->random));
}

/* Schedules the same firing again, because its end cannot be recorded now: one firing too many is
 * better than none. */
static void outcome_again(struct engine *engine, struct entry *entry, const struct run *run)
{
    assert(!entry->report);
    assert(!timer_is_final(entry->timer->state));
    if (run->outcome != RUN_DONE)
        outcome_set_error(engine, entry, run->error.data);
    entry->outcome = FEED_RETRIED;
    /* otherwise the message would be committed and sent again */
    entry->flags &= ~(uint32_t)ENTRY_HAS_MESSAGE;
    entry->timer->state = TIMER_RETRYING;
    entry->timer->attempts -= entry->timer->attempts > 0;
    entry->timer->at = outcome_put_off(
        engine, entry->timer, entry->timer->retry.base_ms + engine->options.storage_retry_ms);
}

/* Adds a run for the firings that were planned and not attempted, if there are any. */
static void outcome_skip(struct engine *engine, struct entry *entry, const struct run *skipped)
{
    struct timer_texts texts = entry->timer->texts;
    char room[RUNS_BYTES_MAX];

    assert(skipped->outcome == RUN_SKIPPED);
    if (!skipped->count)
        return;
    texts.runs = runs_add(texts.runs, skipped, room);
    outcome_set_texts(engine, entry, &texts);
}

/* Adds a run for the firings from that of the timer's row to before the one due at `due`, which is
 * delivered in their place. */
static void outcome_skip_missed(struct engine *engine, struct entry *entry, struct wall row_due,
                                struct wall due, enum lateness_stage missed_by)
{
    struct run skipped = {.outcome = RUN_SKIPPED};
    struct schedule schedule;

    if (row_due.ms == due.ms || schedule_of(entry->timer, &engine->options.zones, &schedule, NULL))
        return;
    char text[OUTCOME_TEXT_SIZE];
    snprintf(text, sizeof(text), "missed because of %s", lateness_words(missed_by));
    skipped.error = bytes_of(text);
    skipped.count = schedule_count(&schedule, row_due, due, &skipped.planned, &skipped.until);
    outcome_skip(engine, entry, &skipped);
}

/* Returns why the firings between this one, which ends with `run`, and the next are not
 * attempted. */
static struct bytes outcome_skip_reason(const struct timer *timer, const struct run *run)
{
    struct schedule_spec spec;

    if (run->outcome == RUN_DROPPED)
        return BYTES("missed because it was too late for them, too");
    if (timer->attempts > 0 && timer->texts.schedule.size &&
        !schedule_read(timer->texts.schedule, &spec, NULL) && spec.overlap == SCHEDULE_OVERLAP_SKIP)
        return BYTES("skipped because the firing before was not over (overlap)");
    return BYTES("missed because the firing before was not over");
}

/* Ends one firing. A recurring timer continues with the next firing, unless the target refused it
 * for good. Any other timer becomes final. The last error stays until a firing succeeds. */
static void outcome_finish(struct engine *engine, struct entry *entry, const struct run *run)
{
    const enum timer_state state = run->outcome == RUN_DONE ? TIMER_FIRED : TIMER_DEAD;
    /* a firing that is refused for good is not counted: it may be redriven */
    struct outcome_next next_firing = {.due = WALL_NEVER,
                                       .counted = entry->timer->texts.counted,
                                       .skipped = {.outcome = RUN_SKIPPED}};

    assert(entry->phase != ENTRY_WRITING);
    assert(!timer_is_final(entry->timer->state));
    if ((run->outcome != RUN_ENDED &&
         !outcome_next_due(engine, entry->timer, engine->now, &next_firing)) ||
        !outcome_report(engine, entry, run)) {
        outcome_again(engine, entry, run);
        return;
    }
    const struct wall next = next_firing.due;
    outcome_set_run(engine, entry, run, &next_firing);
    next_firing.skipped.error = outcome_skip_reason(entry->timer, run);
    outcome_skip(engine, entry, &next_firing.skipped);
    const bool is_over = next.ms == WALL_NEVER.ms;
    entry->timer->failing = (struct wall){0};
    entry->outcome = state == TIMER_FIRED ? FEED_FIRED : is_over ? FEED_DEAD : FEED_FAILED;
    if (state == TIMER_DEAD)
        outcome_give_up(engine, entry->timer, next);
    if (is_over) {
        outcome_end(engine, entry, state);
        return;
    }
    if (state == TIMER_FIRED)
        engine->stats.fired++;
    entry->timer->attempts = 0;
    entry->timer->due = next;
    outcome_place_next(engine, entry->timer, run->started);
    history_wait(engine->history, entry->timer, LATENESS_SET_LATE, entry->timer->due);
}

/* Ends the firing without another attempt, because its target has failed for too long. */
static void outcome_finish_given_up(struct engine *engine, struct entry *entry, struct bytes error)
{
    char text[OUTCOME_TEXT_SIZE];

    outcome_give_up_text(entry->timer, error, text);
    const struct run run = outcome_run_without(entry->timer, RUN_FAILED, text);
    outcome_finish(engine, entry, &run);
    entry->timer->version++;
    watermark_write_own(engine, entry);
}

uint64_t outcome_postpone_ms(const struct delivery_outcome *outcome)
{
    return outcome->retry_after_ms < POSITION_POSTPONE_MS_MAX ? outcome->retry_after_ms
                                                              : POSITION_POSTPONE_MS_MAX;
}

/* Postpones a delivery that never began. A random part, as long as the pause itself, is added, so
 * that timers which waited together do not return together. */
static void outcome_postpone(struct engine *engine, struct entry *entry,
                             const struct delivery_outcome *outcome)
{
    uint64_t least_ms = outcome_postpone_ms(outcome);

    assert(entry->timer->state == TIMER_DELIVERING);
    assert(outcome->result == DELIVERY_POSTPONED);
    outcome_fails(engine, entry->timer);
    if (outcome_is_given_up(engine, entry->timer, entry->timer->failing)) {
        outcome_finish_given_up(engine, entry, bytes_of(outcome->error));
        return;
    }
    outcome_set_error(engine, entry, outcome->error);
    entry->timer->version++;
    /* An overdue timer that is SCHEDULED would be taken for a spilled one. */
    entry->timer->state = TIMER_RETRYING;
    entry->timer->at = outcome_put_off(engine, entry->timer,
                                       1 + least_ms + random_below(&engine->random, least_ms + 1));
    history_put_off(engine->history, entry->timer, LATENESS_BREAKER);
    watermark_write_own(engine, entry);
}

static uint64_t outcome_pause_ms(struct engine *engine, const struct timer *timer, uint32_t attempt,
                                 const struct delivery_outcome *outcome)
{
    assert(outcome->result == DELIVERY_FAILED);
    assert(attempt > 0 && attempt < timer->retry.attempts_max);
    if (outcome->pause == DELIVERY_PAUSE_EXACT)
        return outcome->retry_after_ms;
    return retry_delay_ms(&timer->retry, attempt, outcome->retry_after_ms, &engine->random);
}

/* Schedules the next attempt, unless the next firing is due by then and retries end there. */
static void outcome_retry(struct engine *engine, struct entry *entry,
                          const struct delivery_outcome *outcome, struct run *run)
{
    const struct wall at =
        outcome_put_off(engine, entry->timer,
                        outcome_pause_ms(engine, entry->timer, entry->timer->attempts, outcome));

    if (outcome_is_overtaken(engine, entry->timer, at)) {
        char text[OUTCOME_TEXT_SIZE];

        outcome_overtaken_text(run->error, text);
        run->error = bytes_of(text);
        outcome_finish(engine, entry, run);
        return;
    }
    outcome_set_error(engine, entry, outcome->error);
    entry->outcome = FEED_RETRIED;
    entry->timer->state = TIMER_RETRYING;
    entry->timer->at = at;
    entry->found_due = at.ms > engine->now.ms ? at : (struct wall){0};
    /* A pause that a worker asks for is no failure. */
    if (outcome->pause == DELIVERY_PAUSE_EXACT)
        entry->timer->failing = wall_add(entry->timer->failing, outcome->retry_after_ms);
    history_put_off(engine->history, entry->timer, LATENESS_RETRIES);
    /* In strict order it goes back to its place at once, and waits there. */
    if (entry->flags & ENTRY_KEEPS_PLACE)
        entry->timer->at = outcome_put_off(engine, entry->timer, 1);
}

/* Ends an attempt with its outcome: the firing is over, or tried again. */
static void outcome_end_attempt(struct engine *engine, struct entry *entry,
                                const struct delivery *delivery, struct run *run)
{
    const struct delivery_outcome *outcome = &delivery->outcome;
    const uint32_t attempt = delivery->attempt;

    assert(attempt > 0 && outcome->result <= DELIVERY_ENDED);
    assert(entry->timer->state == TIMER_DELIVERING);
    engine->stats.attempts++;
    engine->stats.attempts_failed += outcome->result != DELIVERY_DONE;
    entry->timer->attempts = attempt;
    entry->timer->version++;
    if (outcome->result == DELIVERY_FAILED)
        outcome_fails(engine, entry->timer);
    const bool is_given_up = outcome_is_given_up(engine, entry->timer, entry->timer->failing);
    char text[OUTCOME_TEXT_SIZE];
    if (outcome->result != DELIVERY_FAILED || attempt >= entry->timer->retry.attempts_max) {
        outcome_finish(engine, entry, run);
    } else if (is_given_up) {
        outcome_give_up_text(entry->timer, run->error, text);
        run->error = bytes_of(text);
        outcome_finish(engine, entry, run);
    } else {
        outcome_retry(engine, entry, outcome, run);
    }
    watermark_write_own(engine, entry);
}

/* Waits for the later answer of the receiver. The row moves to the end of the wait, so that a
 * restart waits on. Returns false if out of memory: without its token the wait could not end. */
static bool outcome_await(struct engine *engine, struct entry *entry,
                          const struct delivery *delivery)
{
    const uint64_t wait_ms = ack_timeout_ms(entry->timer, engine->options.ack_timeout_ms);
    struct timer_texts texts = entry->timer->texts;
    char room[AWAITS_TEXT_SIZE];

    awaits_format(bytes_of(delivery->ack_token), delivery->started_us, room);
    texts.awaits = (struct bytes){room, sizeof(room)};
    outcome_set_texts(engine, entry, &texts);
    if (!timer_awaits(entry->timer))
        return false;
    entry->timer->version++;
    entry->outcome = FEED_ACCEPTED;
    entry->timer->at = wall_max(
        wall_min(wall_add(engine->now, wait_ms), (struct wall){WALL_MS_MAX}), entry->timer->due);
    watermark_write_own(engine, entry);
    return true;
}

/* Ends an attempt whose later answer cannot be waited for. */
static void outcome_end_unawaited(struct engine *engine, struct entry *entry,
                                  const struct delivery *delivery)
{
    struct delivery failed = *delivery;

    failed.outcome = (struct delivery_outcome){.result = DELIVERY_FAILED,
                                               .error = "no memory to wait for the answer"};
    struct run run = outcome_run_of(engine, &failed);
    outcome_end_attempt(engine, entry, &failed, &run);
}

static void outcome_take(struct engine *engine, struct entry *entry,
                         const struct delivery *delivery)
{
    const struct delivery_outcome *outcome = &delivery->outcome;

    assert(!entry->successor && entry->phase == ENTRY_INFLIGHT);
    assert(entry->timer->state == TIMER_DELIVERING);
    struct run run = {0};
    if (outcome->result <= DELIVERY_ENDED)
        run = outcome_run_of(engine, delivery);
    outcome_skip_missed(engine, entry, delivery->row_due, entry->timer->due, delivery->missed_by);
    if (outcome->result == DELIVERY_POSTPONED) {
        outcome_postpone(engine, entry, outcome);
        return;
    }
    if (outcome->result != DELIVERY_AWAITED)
        outcome_end_attempt(engine, entry, delivery, &run);
    else if (!outcome_await(engine, entry, delivery))
        outcome_end_unawaited(engine, entry, delivery);
}

void outcome_apply(struct engine *engine, struct entry *entry, struct delivery *delivery)
{
    assert(delivery->timer == entry->timer && delivery->epoch == engine->epoch);
    assert(entry->phase == ENTRY_INFLIGHT && !entry->recorded);
    assert(delivery->outcome.result != DELIVERY_RETURNED);
    if (delivery->wants_record)
        entry->recorded = delivery;
    if (delivery->is_in_transaction)
        entry->flags |= ENTRY_HAS_MESSAGE;
    outcome_take(engine, entry, delivery);
    if (!delivery->wants_record)
        free(delivery);
    assert(entry->phase == ENTRY_WRITING);
}

void outcome_over(struct engine *engine, struct entry *entry, const struct run *run)
{
    outcome_finish(engine, entry, run);
    entry->timer->version++;
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

bool outcome_over_late(struct engine *engine, struct entry *entry, const struct run *run)
{
    struct timer_texts texts = entry->timer->texts;
    char room[RUNS_BYTES_MAX];

    assert(schedule_recurs(texts.schedule));
    if (!outcome_report(engine, entry, run))
        return false;
    texts.last_error = run->error;
    texts.runs = runs_add(texts.runs, run, room);
    outcome_set_texts(engine, entry, &texts);
    entry->outcome = run->outcome == RUN_DONE ? FEED_FIRED : FEED_FAILED;
    if (run->outcome == RUN_DONE)
        engine->stats.fired++;
    else
        outcome_give_up(engine, entry->timer, entry->timer->due);
    return true;
}

/* ---- later answers ---- */

/* Ends the wait for a later answer with the outcome of its attempt. */
static void outcome_end_wait(struct engine *engine, struct entry *entry,
                             const struct delivery_outcome *outcome)
{
    struct timer_texts texts = entry->timer->texts;
    struct awaits awaits = {.started_us = 0};

    assert(timer_awaits(entry->timer) && entry->phase != ENTRY_INFLIGHT);
    awaits_read(texts.awaits, &awaits);
    const struct delivery delivery = {
        .timer = entry->timer,
        .attempt = entry->timer->attempts + 1,
        .row_due = entry->timer->due,
        .started_us = awaits.started_us,
        .ended_us = 1000 * engine->now.ms,
        .outcome = *outcome,
    };
    struct run run = outcome_run_of(engine, &delivery);
    effects_answered(engine, &delivery);
    texts.awaits = (struct bytes){0};
    outcome_set_texts(engine, entry, &texts);
    outcome_end_attempt(engine, entry, &delivery, &run);
    assert(entry->phase == ENTRY_WRITING);
}

void outcome_answered(struct engine *engine, struct entry *entry,
                      const struct command_answer *answer)
{
    struct delivery_outcome outcome = {.result = DELIVERY_DONE, .status = 202};

    assert(answer->verb != ANSWER_EXTEND);
    if (answer->verb == ANSWER_NACK) {
        outcome.result = DELIVERY_FAILED;
        outcome.is_answer = true;
        snprintf(outcome.error, sizeof(outcome.error), "%.*s", (int)answer->reason.size,
                 answer->reason.size ? answer->reason.data : "");
    }
    outcome_end_wait(engine, entry, &outcome);
}

void outcome_unanswered(struct engine *engine, struct entry *entry)
{
    struct delivery_outcome outcome = {.result = DELIVERY_FAILED, .status = 202};
    struct awaits awaits = {.started_us = 0};
    char waited[DURATION_TEXT_SIZE];

    assert(timer_awaits(entry->timer) && entry->timer->at.ms <= engine->now.ms);
    awaits_read(entry->timer->texts.awaits, &awaits);
    const uint64_t wait_ms = wall_since((struct wall){awaits.started_us / 1000}, entry->timer->at);
    duration_format((wait_ms + 500) / 1000 * 1000, waited);
    snprintf(outcome.error, sizeof(outcome.error), "no answer within %s", waited);
    outcome_end_wait(engine, entry, &outcome);
}

void outcome_exhausted(struct engine *engine, struct entry *entry)
{
    assert(entry->timer->attempts >= entry->timer->retry.attempts_max);
    assert(!timer_is_final(entry->timer->state));
    const struct run run = outcome_run_without(entry->timer, RUN_FAILED, "no attempts are left");
    outcome_finish(engine, entry, &run);
    entry->timer->version++;
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

enum outcome_firing outcome_firing(const struct engine *engine, const struct timer *timer,
                                   struct wall *ret_due)
{
    struct schedule schedule;

    assert(!timer_is_final(timer->state));
    *ret_due = timer->due;
    if (!timer->texts.schedule.size)
        return OUTCOME_FIRES;
    if (schedule_of(timer, &engine->options.zones, &schedule, NULL))
        return OUTCOME_WAITS;
    if (timer->attempts == 0)
        *ret_due = schedule_rederive(&schedule, timer->texts.zoned, timer->due, engine->now);
    if (ret_due->ms == WALL_NEVER.ms)
        return OUTCOME_LEFT_OUT;
    if (ret_due->ms > engine->now.ms)
        return OUTCOME_MOVES;
    if (schedule_drops(&schedule, timer->due, engine->now))
        return OUTCOME_TOO_LATE;
    if (timer->attempts > 0 && outcome_is_overtaken(engine, timer, engine->now))
        return OUTCOME_OVERTAKEN;
    if (timer->attempts > 0)
        return OUTCOME_FIRES;
    *ret_due = schedule_latest(&schedule, *ret_due, engine->now);
    return schedule.recurs && schedule.overlap == SCHEDULE_OVERLAP_ALLOW ? OUTCOME_APART
                                                                         : OUTCOME_FIRES;
}

/* ---- firings that begin beside the one before ---- */

struct entry *outcome_make_apart(struct engine *engine, const struct timer *timer, struct wall due,
                                 struct outcome_next *ret_next)
{
    struct timer begun = *timer;

    assert(timer->attempts == 0);
    begun.due = due;
    if (!outcome_next_due(engine, &begun, engine->now, ret_next) ||
        ret_next->due.ms == WALL_NEVER.ms || !tenant_admit_pending(engine, timer->texts.tenant))
        return NULL;
    tenant_dismiss_pending(engine); /* outcome_add_made counts it */
    return outcome_add_made(engine, firing_create(timer, due));
}

void outcome_begins_apart(struct engine *engine, struct entry *entry, struct entry *firing,
                          const struct outcome_next *next, enum lateness_stage missed_by)
{
    char room[RUNS_BYTES_MAX], id[TIMER_ID_TEXT_SIZE];
    const struct wall due = firing->timer->due;

    assert(!entry->report && entry->timer->attempts == 0);
    entry->report = firing;
    outcome_skip_missed(engine, entry, entry->timer->due, due, missed_by);
    timer_id_format(&firing->timer->id, id);
    struct run run = outcome_run_without(entry->timer, RUN_BEGUN, id);
    run.planned = due;
    struct timer_texts texts = entry->timer->texts;
    texts.runs = runs_add(texts.runs, &run, room);
    texts.zoned = next->zoned;
    texts.counted = next->counted;
    struct buffer schedule;
    buffer_init(&schedule);
    outcome_count_backfilled(&texts, &schedule);
    outcome_set_texts(engine, entry, &texts);
    buffer_deinit(&schedule);
    entry->timer->failing = (struct wall){0};
    entry->timer->due = next->due;
    outcome_place_next(engine, entry->timer, engine->now);
    entry->timer->version++;
    history_wait(engine->history, entry->timer, LATENESS_SET_LATE, entry->timer->due);
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

/* Returns a pause in milliseconds that grows with the lateness, so that many timers cost few
 * writes. Half of it is random, so that they do not return together. */
static uint64_t outcome_wait_ms(struct engine *engine, const struct timer *timer)
{
    uint64_t pause_ms = wall_since(timer->due, engine->now) / 8;

    if (pause_ms < OUTCOME_WAIT_SHORT_MS)
        pause_ms = OUTCOME_WAIT_SHORT_MS;
    else if (pause_ms > OUTCOME_WAIT_LONG_MS)
        pause_ms = OUTCOME_WAIT_LONG_MS;
    return pause_ms / 2 + random_below(&engine->random, pause_ms / 2 + 1);
}

void outcome_moves(struct engine *engine, struct entry *entry, struct wall due)
{
    struct timer_texts texts = entry->timer->texts;
    struct schedule schedule;
    char room[SCHEDULE_MARK_SIZE];

    assert(entry->timer->attempts == 0);
    if (!schedule_of(entry->timer, &engine->options.zones, &schedule, NULL))
        texts.zoned = schedule_mark(&schedule, due, room);
    outcome_set_texts(engine, entry, &texts);
    entry->timer->due = due;
    entry->timer->failing = (struct wall){0};
    entry->timer->version++;
    if (entry->timer->state != TIMER_PAUSED) {
        entry->timer->state = TIMER_SCHEDULED;
        entry->timer->at = wall_max(due, engine->now);
    }
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

void outcome_waits(struct engine *engine, struct entry *entry)
{
    struct schedule schedule;
    struct error error = {.text = ""};

    assert(!timer_is_final(entry->timer->state));
    schedule_of(entry->timer, &engine->options.zones, &schedule, &error);
    char text[sizeof(error.text) + sizeof(TIMER_WAITS)];
    snprintf(text, sizeof(text), TIMER_WAITS "%s", error.text);
    if (!bytes_equal(entry->timer->texts.last_error, bytes_of(text))) {
        outcome_set_error(engine, entry, text);
        entry->timer->version++;
    }
    engine->stats.schedule_waits++;
    entry->timer->state = TIMER_RETRYING;
    entry->timer->at = outcome_put_off(engine, entry->timer, outcome_wait_ms(engine, entry->timer));
    history_wait(engine->history, entry->timer, LATENESS_RETRIES, engine->now);
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

void outcome_overtaken(struct engine *engine, struct entry *entry)
{
    char text[OUTCOME_TEXT_SIZE];

    assert(!timer_is_final(entry->timer->state));
    outcome_overtaken_text(entry->timer->texts.last_error, text);
    const struct run run = outcome_run_without(entry->timer, RUN_FAILED, text);
    outcome_finish(engine, entry, &run);
    entry->timer->version++;
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

bool outcome_is_abandoned(const struct engine *engine, const struct timer *timer,
                          struct wall failing)
{
    const struct wall ready = position_is_spilled(engine, timer) ? timer->due : timer->at;
    const struct wall since = timer->failing.ms ? timer->failing : ready;

    return failing.ms && outcome_is_given_up(engine, timer, wall_max(since, failing));
}

void outcome_abandoned(struct engine *engine, struct entry *entry)
{
    assert(engine->is_in_turn);
    assert(!timer_is_final(entry->timer->state));
    outcome_finish_given_up(engine, entry, BYTES(TIMER_NOT_TRIED "its target failed"));
    assert(entry->phase == ENTRY_WRITING);
}

static bool outcome_is_too_late_at(const struct engine *engine, const struct timer *timer,
                                   struct wall at)
{
    struct schedule schedule;

    return timer->texts.schedule.size &&
           !schedule_of(timer, &engine->options.zones, &schedule, NULL) &&
           schedule_drops(&schedule, timer->due, at);
}

void outcome_dropped(struct engine *engine, struct entry *entry)
{
    assert(outcome_is_too_late_at(engine, entry->timer, engine->now));
    assert(!timer_is_final(entry->timer->state));
    char late[DURATION_TEXT_SIZE];

    duration_format(wall_since(entry->timer->due, engine->now), late);
    char text[80];
    snprintf(text, sizeof(text), "dropped: it was %s late", late);
    const struct run run = outcome_run_without(entry->timer, RUN_DROPPED, text);
    engine->stats.dropped++;
    outcome_finish(engine, entry, &run);
    entry->timer->version++;
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

void outcome_left_out(struct engine *engine, struct entry *entry)
{
    const struct run run =
        outcome_run_without(entry->timer, RUN_DROPPED, "dropped: its calendars leave it out");

    assert(!timer_is_final(entry->timer->state));
    assert(entry->timer->attempts == 0);
    engine->stats.dropped++;
    outcome_finish(engine, entry, &run);
    entry->timer->version++;
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

struct wall outcome_redriven_due(const struct engine *engine, const struct timer *timer,
                                 struct wall from)
{
    assert(timer->attempts == 0);
    assert(timer->ended.ms == 0 && from.ms >= engine->now.ms);
    if (!outcome_is_too_late_at(engine, timer, from))
        return timer->due;
    struct outcome_next next;
    return outcome_next_due(engine, timer, from, &next) && next.due.ms != WALL_NEVER.ms ? next.due
                                                                                        : from;
}
