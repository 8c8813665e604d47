/* What an answer of a target means for the timer. */
#include "engine/engine_private.h"

#include "calendar/duration.h"

#include <stdio.h>
#include <stdlib.h>

#define POSTPONE_MS_MAX (UINT64_C(24) * 3600 * 1000)

/* Puts a copy with `error` in place of the timer, as the texts of a timer never change. Returns the
 * timer itself when out of memory: then the old text stays, which is better than none of it. */
static struct timer *with_error(struct engine *engine, struct timer *timer, const char *error)
{
    struct timer_texts texts = timer->texts;
    struct timer *copy;

    texts.last_error = bytes_of(error);
    copy = timer_copy(timer, &texts);
    if (!copy)
        return timer;
    copy->private_.was_at = timer->private_.was_at;
    copy->private_.lane = timer->private_.lane;
    copy->private_.recorded = timer->private_.recorded;
    list_init(&copy->private_.link);
    list_init(&copy->private_.waiters);
    list_join(&copy->private_.waiters, &timer->private_.waiters);
    if (!map_put(&engine->timers, timer->id.serial, copy)) { /* it replaces, so it has room */
        list_join(&timer->private_.waiters, &copy->private_.waiters);
        timer_free(copy);
        return timer;
    }
    if (timer->private_.flags & FLAG_COUNTED) {
        engine_uncount(engine, timer);
        engine_count(engine, copy);
    }
    timer->private_.phase = PHASE_NONE;
    list_push(&engine->gone, &timer->private_.link);
    return copy;
}

static void end(struct engine *engine, struct timer *timer, enum timer_state state)
{
    timer->state = state;
    timer->ended = engine->now;
    tenant_dismiss_pending(engine);
    if (state == TIMER_DEAD)
        engine->stats.dead++;
    else
        engine->stats.fired++;
}

/* When a timer that recurs fires next; WALL_NEVER when it does not. False when that cannot be told
 * just now, for want of memory or because a time zone cannot be read. */
static bool next_due(const struct engine *engine, const struct timer *timer, struct wall *ret_due)
{
    struct schedule schedule = {0};
    enum error_code code = ERROR_INVALID;

    if (timer->texts.schedule.size)
        code = schedule_of(timer, &engine->options.zones, &schedule, NULL);
    *ret_due = code ? WALL_NEVER : schedule_next(&schedule, timer->due, engine->now);
    return code != ERROR_NO_MEMORY && code != ERROR_IO;
}

/* Not before the due time either: the clock may have stepped back since it was reached. */
static struct wall put_off(const struct engine *engine, const struct timer *timer,
                           uint64_t delay_ms)
{
    const uint64_t most_ms = outcome_pause_ms_max(timer);
    struct wall at = wall_add(engine->now, delay_ms < most_ms ? delay_ms : most_ms);

    return wall_max(wall_min(at, (struct wall){WALL_MS_MAX}), timer->due);
}

uint64_t outcome_pause_ms_max(const struct timer *timer)
{
    const uint64_t postponed_ms = 2 * POSTPONE_MS_MAX + 1, cap_ms = timer->retry.cap_ms;
    const uint64_t most_ms = cap_ms > postponed_ms ? cap_ms : postponed_ms;
    struct queue_target queue;

    if (queue_target_parse(timer->texts.target, &queue)) /* workers may ask for any pause */
        return ENGINE_PAUSE_MS_MAX;
    return most_ms < ENGINE_PAUSE_MS_MAX ? most_ms : ENGINE_PAUSE_MS_MAX;
}

struct wall outcome_paused_again(struct engine *engine, const struct timer *timer)
{
    return put_off(engine, timer,
                   retry_delay_ms(&timer->retry, timer->attempts, 0, &engine->random));
}

/* One firing is over. A timer that recurs goes on with the next; else it ends in `state`. The last
 * error of a firing that failed stays to be seen. When the next cannot be told just now, this one
 * comes again: once too often is better than never again. */
static void finish(struct engine *engine, struct timer *timer, enum timer_state state)
{
    struct wall next;

    if (!next_due(engine, timer, &next)) {
        timer->state = TIMER_RETRYING;
        timer->attempts -= timer->attempts > 0;
        timer->at = put_off(engine, timer, timer->retry.base_ms + engine->options.storage_retry_ms);
        return;
    }
    if (next.ms == WALL_NEVER.ms) {
        end(engine, timer, state);
        return;
    }
    if (state == TIMER_FIRED)
        engine->stats.fired++;
    timer->state = TIMER_SCHEDULED;
    timer->attempts = 0;
    timer->due = next;
    timer->at = wall_max(next, engine->now);
}

uint64_t outcome_postpone_ms(const struct delivery_outcome *outcome)
{
    return outcome->retry_after_ms < POSTPONE_MS_MAX ? outcome->retry_after_ms : POSTPONE_MS_MAX;
}

/* Jitter of as much again, so that those who waited together do not return together. */
static void postpone(struct engine *engine, struct timer *timer,
                     const struct delivery_outcome *outcome)
{
    uint64_t least_ms = outcome_postpone_ms(outcome);

    timer = with_error(engine, timer, outcome->error);
    timer->version++;
    timer->state = TIMER_RETRYING; /* one that is SCHEDULED and overdue would count as spilled */
    timer->at = put_off(engine, timer, 1 + least_ms + random_below(&engine->random, least_ms + 1));
    writer_add_own(engine, timer);
}

static uint64_t pause_ms(struct engine *engine, const struct timer *timer, uint32_t attempt,
                         const struct delivery_outcome *outcome)
{
    if (outcome->pause == DELIVERY_PAUSE_EXACT)
        return outcome->retry_after_ms;
    return retry_delay_ms(&timer->retry, attempt, outcome->retry_after_ms, &engine->random);
}

static void take_back(struct engine *engine, struct timer *timer)
{
    timer->state = timer->private_.flags & FLAG_RETRYING ? TIMER_RETRYING : TIMER_SCHEDULED;
    if (wall_max(timer->at, timer->due).ms <= engine->now.ms || refill_is_spilled(engine, timer))
        lanes_add_again(engine, timer);
    else
        scheduler_rest(engine, timer); /* the clock stepped back meanwhile */
}

static void apply(struct engine *engine, struct timer *timer, uint32_t attempt,
                  const struct delivery_outcome *outcome)
{
    if (outcome->result == DELIVERY_POSTPONED) {
        postpone(engine, timer, outcome);
        return;
    }
    engine->stats.attempts++;
    if (outcome->result != DELIVERY_DONE) {
        engine->stats.attempts_failed++;
        timer = with_error(engine, timer, outcome->error);
    }
    timer->attempts = attempt;
    timer->version++;
    if (outcome->result == DELIVERY_DONE) {
        finish(engine, timer, TIMER_FIRED);
    } else if (outcome->result == DELIVERY_ENDED) { /* it wants no more of them */
        end(engine, timer, TIMER_DEAD);
    } else if (attempt >= timer->retry.attempts_max) {
        finish(engine, timer, TIMER_DEAD);
    } else {
        timer->state = TIMER_RETRYING;
        timer->at = put_off(engine, timer, pause_ms(engine, timer, attempt, outcome));
    }
    writer_add_own(engine, timer);
}

void outcome_apply(struct engine *engine, struct timer *timer, struct delivery *delivery)
{
    timer->private_.recorded = NULL;
    if (delivery->outcome.result == DELIVERY_RETURNED) {
        take_back(engine, timer);
        free(delivery);
        return;
    }
    if (delivery->wants_record)
        timer->private_.recorded = delivery;
    apply(engine, timer, delivery->attempt, &delivery->outcome);
    if (!delivery->wants_record)
        free(delivery);
}

void outcome_exhausted(struct engine *engine, struct timer *timer)
{
    /* On a copy: an answer that was not yet taken may show the timer as it was. */
    timer = with_error(engine, timer, "no attempts are left");
    timer->version++;
    finish(engine, timer, TIMER_DEAD);
    writer_add_own(engine, timer);
}

bool outcome_is_too_late(const struct engine *engine, const struct timer *timer)
{
    struct schedule schedule;

    return timer->texts.schedule.size &&
           !schedule_of(timer, &engine->options.zones, &schedule, NULL) &&
           schedule_drops(&schedule, timer->due, engine->now);
}

void outcome_dropped(struct engine *engine, struct timer *timer)
{
    char text[80], late[DURATION_TEXT_SIZE];

    duration_format(wall_since(timer->due, engine->now), late);
    snprintf(text, sizeof(text), "dropped: it was %s late", late);
    timer = with_error(engine, timer, text);
    timer->version++;
    engine->stats.dropped++;
    finish(engine, timer, TIMER_DEAD);
    writer_add_own(engine, timer);
}

struct wall outcome_redriven_due(const struct engine *engine, const struct timer *timer)
{
    struct wall next;

    if (!outcome_is_too_late(engine, timer))
        return timer->due;
    return next_due(engine, timer, &next) && next.ms != WALL_NEVER.ms ? next : engine->now;
}
