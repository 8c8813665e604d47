/* What an answer of a target means for the timer. */
#include "engine/engine_private.h"

#include "calendar/duration.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define POSTPONE_MS_MAX (UINT64_C(24) * 3600 * 1000)

/* Puts a copy with `error` in place of the timer, as the texts of a timer never change and an
 * answer that was not yet taken may show it as it was. Out of memory the old text stays, which is
 * better than none of it. */
static void set_error(struct engine *engine, struct entry *entry, const char *error)
{
    struct timer_texts texts = entry->timer->texts;
    struct timer *copy;

    texts.last_error = bytes_of(error);
    copy = timer_copy(entry->timer, &texts);
    if (copy)
        entries_replace(engine->entries, entry, copy);
}

static void end(struct engine *engine, struct entry *entry, enum timer_state state)
{
    entry->timer->state = state;
    entry->timer->ended = engine->now;
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

    if (timer_is_pulled(timer)) /* workers may ask for any pause */
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
static void finish(struct engine *engine, struct entry *entry, enum timer_state state)
{
    struct wall next;

    if (!next_due(engine, entry->timer, &next)) {
        entry->timer->state = TIMER_RETRYING;
        entry->timer->attempts -= entry->timer->attempts > 0;
        entry->timer->at = put_off(engine, entry->timer,
                                   entry->timer->retry.base_ms + engine->options.storage_retry_ms);
        return;
    }
    if (next.ms == WALL_NEVER.ms) {
        end(engine, entry, state);
        return;
    }
    if (state == TIMER_FIRED)
        engine->stats.fired++;
    entry->timer->state = TIMER_SCHEDULED;
    entry->timer->attempts = 0;
    entry->timer->due = next;
    entry->timer->at = wall_max(next, engine->now);
}

uint64_t outcome_postpone_ms(const struct delivery_outcome *outcome)
{
    return outcome->retry_after_ms < POSTPONE_MS_MAX ? outcome->retry_after_ms : POSTPONE_MS_MAX;
}

/* Jitter of as much again, so that those who waited together do not return together. */
static void postpone(struct engine *engine, struct entry *entry,
                     const struct delivery_outcome *outcome)
{
    uint64_t least_ms = outcome_postpone_ms(outcome);

    set_error(engine, entry, outcome->error);
    entry->timer->version++;
    entry->timer->state =
        TIMER_RETRYING; /* one that is SCHEDULED and overdue would count as spilled */
    entry->timer->at =
        put_off(engine, entry->timer, 1 + least_ms + random_below(&engine->random, least_ms + 1));
    writer_add_own(engine, entry);
}

static uint64_t pause_ms(struct engine *engine, const struct timer *timer, uint32_t attempt,
                         const struct delivery_outcome *outcome)
{
    if (outcome->pause == DELIVERY_PAUSE_EXACT)
        return outcome->retry_after_ms;
    return retry_delay_ms(&timer->retry, attempt, outcome->retry_after_ms, &engine->random);
}

static void take_back(struct engine *engine, struct entry *entry)
{
    entry->timer->state = entry->flags & ENTRY_WAS_RETRYING ? TIMER_RETRYING : TIMER_SCHEDULED;
    if (wall_max(entry->timer->at, entry->timer->due).ms <= engine->now.ms ||
        refill_is_spilled(engine, entry->timer))
        lanes_add_again(engine, entry);
    else
        scheduler_rest(engine, entry); /* the clock stepped back meanwhile */
}

static void apply(struct engine *engine, struct entry *entry, uint32_t attempt,
                  const struct delivery_outcome *outcome)
{
    if (outcome->result == DELIVERY_POSTPONED) {
        postpone(engine, entry, outcome);
        return;
    }
    engine->stats.attempts++;
    if (outcome->result != DELIVERY_DONE) {
        engine->stats.attempts_failed++;
        set_error(engine, entry, outcome->error);
    }
    entry->timer->attempts = attempt;
    entry->timer->version++;
    if (outcome->result == DELIVERY_DONE) {
        finish(engine, entry, TIMER_FIRED);
    } else if (outcome->result == DELIVERY_ENDED) { /* it wants no more of them */
        end(engine, entry, TIMER_DEAD);
    } else if (attempt >= entry->timer->retry.attempts_max) {
        finish(engine, entry, TIMER_DEAD);
    } else {
        entry->timer->state = TIMER_RETRYING;
        entry->timer->at =
            put_off(engine, entry->timer, pause_ms(engine, entry->timer, attempt, outcome));
    }
    writer_add_own(engine, entry);
}

void outcome_apply(struct engine *engine, struct entry *entry, struct delivery *delivery)
{
    assert(!entry->recorded);
    if (delivery->outcome.result == DELIVERY_RETURNED) {
        take_back(engine, entry);
        free(delivery);
        return;
    }
    if (delivery->wants_record)
        entry->recorded = delivery;
    apply(engine, entry, delivery->attempt, &delivery->outcome);
    if (!delivery->wants_record)
        free(delivery);
}

void outcome_exhausted(struct engine *engine, struct entry *entry)
{
    set_error(engine, entry, "no attempts are left");
    entry->timer->version++;
    finish(engine, entry, TIMER_DEAD);
    writer_add_own(engine, entry);
}

bool outcome_is_too_late(const struct engine *engine, const struct timer *timer)
{
    struct schedule schedule;

    return timer->texts.schedule.size &&
           !schedule_of(timer, &engine->options.zones, &schedule, NULL) &&
           schedule_drops(&schedule, timer->due, engine->now);
}

void outcome_dropped(struct engine *engine, struct entry *entry)
{
    char text[80], late[DURATION_TEXT_SIZE];

    duration_format(wall_since(entry->timer->due, engine->now), late);
    snprintf(text, sizeof(text), "dropped: it was %s late", late);
    set_error(engine, entry, text);
    entry->timer->version++;
    engine->stats.dropped++;
    finish(engine, entry, TIMER_DEAD);
    writer_add_own(engine, entry);
}

struct wall outcome_redriven_due(const struct engine *engine, const struct timer *timer)
{
    struct wall next;

    if (!outcome_is_too_late(engine, timer))
        return timer->due;
    return next_due(engine, timer, &next) && next.ms != WALL_NEVER.ms ? next : engine->now;
}
