/* What an answer of a target means for the timer. */
#include "engine/engine_private.h"

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
    engine->stats.pending--;
    if (state == TIMER_DEAD)
        engine->stats.dead++;
    else
        engine->stats.fired++;
}

void outcome_apply(struct engine *engine, struct timer *timer, uint32_t attempt,
                   const struct delivery_outcome *outcome)
{
    engine->stats.attempts++;
    if (outcome->result != DELIVERY_DONE) {
        engine->stats.attempts_failed++;
        timer = with_error(engine, timer, outcome->error);
    }
    timer->attempts = attempt;
    timer->version++;
    if (outcome->result == DELIVERY_DONE) {
        end(engine, timer, TIMER_FIRED);
    } else if (outcome->result == DELIVERY_ENDED || attempt >= timer->retry.attempts_max) {
        end(engine, timer, TIMER_DEAD);
    } else {
        uint64_t delay_ms =
            retry_delay_ms(&timer->retry, attempt, outcome->retry_after_ms, &engine->random);

        /* Not before the due time either: the clock may have stepped back since it was reached. */
        timer->state = TIMER_RETRYING;
        timer->at = wall_max(wall_add(engine->now, delay_ms), timer->due);
        if (timer->at.ms > WALL_MS_MAX)
            timer->at.ms = WALL_MS_MAX;
    }
    writer_add_own(engine, timer);
}

void outcome_exhausted(struct engine *engine, struct timer *timer)
{
    /* On a copy: an answer that was not yet taken may show the timer as it was. */
    timer = with_error(engine, timer, "no attempts are left");
    timer->version++;
    end(engine, timer, TIMER_DEAD);
    writer_add_own(engine, timer);
}
