/* Timers with several targets: their parts are made, and their ends are counted. */
#include "engine/fanout.h"

#include "engine/commit.h"
#include "engine/engine_core.h"
#include "engine/history.h"
#include "engine/outcome.h"
#include "engine/tenant.h"
#include "engine/watermark.h"
#include "engine/window.h"
#include "timer/firing.h"
#include "timer/runs.h"
#include "timer/schedule.h"

#include <assert.h>
#include <stdio.h>

/* Bounds of the pause after which a waiting timer's row moves on, in milliseconds. */
#define FANOUT_PAUSE_SHORT_MS UINT64_C(10000)
#define FANOUT_PAUSE_LONG_MS  UINT64_C(3600000)

/* Maximum size of the error of a firing of which targets failed. */
#define FANOUT_RUN_ERROR_SIZE (FANOUT_ERROR_SIZE_MAX + 40)

/* Returns the end of a pause that grows with the time that the timer has waited, so that it costs
 * few writes. Where the clock went back behind the firing's start, the time is not known, and the
 * pause is long. */
static struct wall fanout_wait_until(const struct engine *engine, const struct timer *timer,
                                     const struct fanout *fanout)
{
    uint64_t pause_ms = fanout->started.ms <= engine->now.ms
                            ? wall_since(fanout->started, engine->now) / 4
                            : FANOUT_PAUSE_LONG_MS;

    if (pause_ms < FANOUT_PAUSE_SHORT_MS)
        pause_ms = FANOUT_PAUSE_SHORT_MS;
    else if (pause_ms > FANOUT_PAUSE_LONG_MS)
        pause_ms = FANOUT_PAUSE_LONG_MS;
    return outcome_put_off(engine, timer, pause_ms);
}

/* Returns a number that changes with each engine, and with each note that is lost. A timer with
 * another number asks its parts how they stand. */
static uint64_t fanout_known(const struct engine *engine)
{
    return engine->epoch << 24 | (engine->notes_lost & 0xffffff);
}

/* Copies the timer with this text `parts`. Replies may show the timer itself, so it does not
 * change. Returns NULL if out of memory. */
static struct timer *fanout_copy(const struct timer *timer, const struct fanout *fanout)
{
    struct timer_texts texts = timer->texts;
    char room[FANOUT_TEXT_SIZE_MAX];

    texts.parts = fanout_write(fanout, room);
    return timer_copy(timer, &texts);
}

/* True if the timer has begun its firing, whose parts are in `fanout`. */
static bool fanout_has_begun(const struct timer *timer, const struct fanout *fanout)
{
    return timer->state == TIMER_RETRYING && fanout->due.ms == timer->due.ms;
}

/* Replaces the timer by its copy and writes it. */
static void fanout_write_copy(struct engine *engine, struct entry *entry, struct timer *copy)
{
    entries_replace(engine->entries, entry, copy);
    watermark_write_own(engine, entry);
    assert(entry->phase == ENTRY_WRITING);
}

/* ---- the end of a firing ---- */

/* Writes the error of a firing: the first target that failed, and how many did. */
static void fanout_error(const struct fanout *fanout, char ret_text[FANOUT_RUN_ERROR_SIZE])
{
    size_t i = 0;

    while (fanout->parts[i].state != FANOUT_DEAD)
        i++;
    assert(i < fanout->count);
    const struct bytes error = fanout->parts[i].last_error;
    snprintf(ret_text, FANOUT_RUN_ERROR_SIZE, "%zu of %zu targets failed: %.*s",
             fanout_count(fanout, FANOUT_DEAD), fanout->count, (int)error.size, error.data);
}

/* Returns the run of a firing whose parts are over. `room` is for its error. */
static struct run fanout_run(const struct engine *engine, const struct fanout *fanout,
                             char room[FANOUT_RUN_ERROR_SIZE])
{
    const bool is_done = fanout_count(fanout, FANOUT_DEAD) == 0;
    const uint64_t duration_ms = wall_since(fanout->started, engine->now);
    struct run run = {
        .planned = fanout->due,
        .started = fanout->started,
        .duration_ms = duration_ms < UINT32_MAX ? (uint32_t)duration_ms : UINT32_MAX,
        .attempts = 1,
        .outcome = is_done ? RUN_DONE : RUN_FAILED,
    };

    if (!is_done) {
        fanout_error(fanout, room);
        run.error = bytes_of(room);
    }
    return run;
}

/* Ends a timer all of whose parts are over, of which some were cancelled and none failed. */
static void fanout_cancelled(struct engine *engine, struct entry *entry)
{
    entry->timer->state = TIMER_CANCELLED;
    entry->timer->ended = engine->now;
    entry->timer->version++;
    entry->outcome = FEED_CANCELLED;
    engine->stats.cancelled++;
    tenant_dismiss_pending(engine);
    watermark_write_own(engine, entry);
}

/* Ends the firing of a waiting timer. Its entry is in no wheel, and its timer is shown by no
 * reply. */
static void fanout_end(struct engine *engine, struct entry *entry, const struct fanout *fanout)
{
    char room[FANOUT_RUN_ERROR_SIZE];

    assert(fanout_count(fanout, FANOUT_OPEN) == 0 && fanout_count(fanout, FANOUT_UNMADE) == 0);
    entry->timer->attempts = 1;
    if (!fanout_count(fanout, FANOUT_DEAD) && fanout_count(fanout, FANOUT_CANCELLED) > 0) {
        fanout_cancelled(engine, entry);
        return;
    }
    const struct run run = fanout_run(engine, fanout, room);
    outcome_over(engine, entry, &run);
}

/* ---- parts are made ---- */

/* Makes the timer of a part, which has all that the timer says of its deliveries. Returns NULL if
 * out of memory. */
static struct timer *fanout_make(const struct timer *timer, struct bytes target, struct wall due)
{
    struct timer_texts texts = timer->texts;
    struct target parsed;
    char room[FANOUT_OF_SIZE];

    if (target_parse(target, &parsed, NULL))
        parsed = target_unknown(target);
    texts.target = target;
    texts.key = texts.request = texts.watch = texts.schedule = texts.zoned = texts.runs =
        texts.note = texts.last_error = texts.on_dead = texts.on_success = texts.report_of =
            texts.debounce = texts.firing_of = texts.targets = (struct bytes){0};
    if (!target_is_webhook(&parsed))
        texts.method = (struct bytes){0};
    texts.parts = fanout_write_of(&timer->id, room);
    struct buffer mark;
    buffer_init(&mark);
    firing_write_mark(timer, &mark);
    texts.schedule = buffer_bytes(&mark);
    struct timer *part = buffer_failed(&mark) ? NULL : timer_alloc_parsed(&texts, &parsed);
    buffer_deinit(&mark);
    if (!part)
        return NULL;
    part->retry = timer->retry;
    part->retry.until_next = false; /* the part does not repeat */
    part->due = due;
    return part;
}

/* Adds the parts that are not made to the next write of the timer. Returns false if it cannot be
 * done now; then no part is added. */
static bool fanout_make_all(struct engine *engine, struct entry *entry, struct fanout *fanout)
{
    for (size_t i = 0; i < fanout->count; i++) {
        struct fanout_part *part = &fanout->parts[i];

        if (part->state != FANOUT_UNMADE)
            continue;
        struct timer *made = fanout_make(entry->timer, part->target, fanout->due);
        if (!made || !outcome_add_new(engine, entry, made)) {
            outcome_drop_new(engine, entry);
            return false;
        }
        part->state = FANOUT_OPEN;
        part->has_id = true;
        part->id = entry->report->timer->id;
        part->attempts = 0;
        part->last_error = (struct bytes){0};
    }
    return true;
}

/* Tries a timer again a little later, because it cannot be changed now. */
static void fanout_again(struct engine *engine, struct entry *entry)
{
    assert(!entry->report);
    /* in place, because memory is short: a reply may show that it is retrying already */
    entry->timer->state = TIMER_RETRYING;
    entry->timer->at = outcome_put_off(
        engine, entry->timer, entry->timer->retry.base_ms + engine->options.storage_retry_ms);
    watermark_write_own(engine, entry);
}

/* Adds to `texts` the runs of what comes before the next firing: an earlier firing whose parts are
 * not over, and planned firings that were missed. */
static void fanout_add_runs(struct timer_texts *texts, const struct fanout *before,
                            const struct run *missed, char rooms[2][RUNS_BYTES_MAX])
{
    char text[80];

    if (fanout_count(before, FANOUT_OPEN) > 0) {
        snprintf(text, sizeof(text), "%zu of %zu targets were not over at the next firing",
                 fanout_count(before, FANOUT_OPEN), before->count);
        const struct run run = {.planned = before->due,
                                .started = before->started,
                                .attempts = 1,
                                .outcome = RUN_FAILED,
                                .error = bytes_of(text)};
        texts->runs = runs_add(texts->runs, &run, rooms[0]);
    }
    if (missed->count)
        texts->runs = runs_add(texts->runs, missed, rooms[1]);
}

/* Counts the firings from `from` to before `to`, which are not attempted. */
static struct run fanout_missed(const struct engine *engine, const struct timer *timer,
                                struct wall from, struct wall to)
{
    struct run missed = {.outcome = RUN_SKIPPED};
    struct schedule schedule;

    if (from.ms < to.ms && !schedule_of(timer, &engine->options.zones, &schedule, NULL)) {
        missed.count = schedule_count(&schedule, from, to, &missed.planned, &missed.until);
        missed.error = BYTES("missed because they were overdue");
    }
    return missed;
}

/* Computes the firing that follows the one due at `due`. Returns false if it cannot be computed
 * now. */
static bool fanout_next(const struct engine *engine, const struct timer *timer, struct wall due,
                        struct outcome_next *ret_next)
{
    struct timer begun = *timer;

    begun.due = due;
    return outcome_next_due(engine, &begun, engine->now, ret_next);
}

/* True if parts and other timers that the engine has made fill their share of the memory until they
 * are durable. Otherwise a timer makes all its parts, whatever they take. */
static bool fanout_lacks_room(const struct engine *engine)
{
    return commit_making_bytes(engine) > engine->options.near_bytes_max / 8;
}

/* Makes the parts of the firing `due`, and plans the next firing if there is one. Without room the
 * timer's row is read again a little later. */
static void fanout_begin(struct engine *engine, struct entry *entry, struct wall due,
                         const struct fanout *before)
{
    const struct timer *timer = entry->timer;
    const bool recurs = schedule_recurs(timer->texts.schedule);
    struct fanout fanout = *before;
    struct outcome_next next = {.due = WALL_NEVER};
    char room[FANOUT_TEXT_SIZE_MAX], runs[2][RUNS_BYTES_MAX];

    if (fanout_lacks_room(engine)) {
        window_park_without_memory(engine, entry);
        return;
    }
    if (!fanout_has_begun(timer, before))
        for (size_t i = 0; i < fanout.count; i++)
            fanout.parts[i] = (struct fanout_part){.target = before->parts[i].target};
    fanout.due = due;
    fanout.started = engine->now;
    fanout.known = fanout_known(engine);
    if (recurs && !fanout_next(engine, timer, due, &next)) {
        fanout_again(engine, entry);
        return;
    }
    const struct run missed = fanout_missed(engine, timer, timer->due, due);
    if (!fanout_make_all(engine, entry, &fanout)) {
        fanout_again(engine, entry);
        return;
    }
    struct timer_texts texts = timer->texts;
    struct buffer schedule;
    buffer_init(&schedule);
    texts.parts = fanout_write(&fanout, room);
    if (recurs && !fanout_has_begun(timer, before))
        fanout_add_runs(&texts, before, &missed, runs);
    if (next.due.ms != WALL_NEVER.ms) {
        texts.zoned = next.zoned;
        texts.counted = next.counted;
        outcome_count_backfilled(&texts, &schedule);
    }
    struct timer *copy = timer_copy(timer, &texts);
    buffer_deinit(&schedule);
    if (!copy) {
        outcome_drop_new(engine, entry);
        fanout_again(engine, entry);
        return;
    }
    copy->version++;
    copy->failing = (struct wall){0};
    if (next.due.ms == WALL_NEVER.ms) {
        copy->due = due;
        copy->attempts = 1;
        copy->state = TIMER_RETRYING;
        copy->at = fanout_wait_until(engine, copy, &fanout);
    } else {
        copy->attempts = 0;
        copy->due = next.due;
        outcome_place_next(engine, copy, engine->now);
        history_wait(engine->history, copy, LATENESS_SET_LATE, copy->due);
    }
    entry->outcome = FEED_CHANGED;
    fanout_write_copy(engine, entry, copy);
}

/* Moves the row of a timer that waits for its parts to `until`. Clients do not see this as a
 * change. */
static void fanout_wait(struct engine *engine, struct entry *entry, const struct fanout *waiting,
                        struct wall until)
{
    struct fanout fanout = *waiting;

    if (fanout.known != fanout_known(engine))
        entry->flags |= ENTRY_WANTS_LOOK;
    fanout.known = fanout_known(engine);
    struct timer *copy = fanout_copy(entry->timer, &fanout);
    if (!copy) {
        fanout_again(engine, entry);
        return;
    }
    copy->state = TIMER_RETRYING; /* an overdue SCHEDULED timer would be taken for a spilled one */
    copy->at = until;
    fanout_write_copy(engine, entry, copy);
}

/* Begins a firing as a timer of its own, or as the timer's if that is impossible. */
static void fanout_begin_apart(struct engine *engine, struct entry *entry, struct wall due,
                               const struct fanout *fanout)
{
    struct outcome_next next;
    struct entry *firing = outcome_make_apart(engine, entry->timer, due, &next);

    if (firing)
        outcome_begins_apart(engine, entry, firing, &next, LATENESS_WHEEL);
    else
        fanout_begin(engine, entry, due, fanout);
}

/* Goes on to the next firing, if the timer skips those that are due while parts of an earlier one
 * are open. Returns false if it does not, or if there is no next firing. */
static bool fanout_skip(struct engine *engine, struct entry *entry, const struct fanout *fanout)
{
    const struct timer *timer = entry->timer;
    struct timer_texts texts = timer->texts;
    struct outcome_next next;
    struct schedule schedule;
    char room[RUNS_BYTES_MAX];

    if (!fanout_count(fanout, FANOUT_OPEN) || !texts.schedule.size ||
        schedule_of(timer, &engine->options.zones, &schedule, NULL) ||
        schedule.overlap != SCHEDULE_OVERLAP_SKIP ||
        !outcome_next_due(engine, timer, engine->now, &next) || next.due.ms == WALL_NEVER.ms)
        return false;
    struct run skipped = fanout_missed(engine, timer, timer->due, next.due);
    skipped.error = BYTES("skipped because the firing before was not over (overlap)");
    texts.runs = runs_add(texts.runs, &skipped, room);
    texts.zoned = next.zoned;
    texts.counted = next.counted;
    struct timer *copy = timer_copy(timer, &texts);
    if (!copy)
        return false;
    copy->version++;
    copy->due = next.due;
    copy->at = wall_max(next.due, engine->now);
    copy->state = TIMER_SCHEDULED;
    fanout_write_copy(engine, entry, copy);
    return true;
}

/* True if no more timers of the tenant may live. */
static bool fanout_is_limited(struct engine *engine, const struct timer *timer)
{
    if (tenant_is_full(engine, timer->texts.tenant) ||
        !tenant_admit_pending(engine, timer->texts.tenant))
        return true;
    tenant_dismiss_pending(engine);
    return false;
}

/* True if the next firing waits for the parts of the one before: that of a backfill, or while no
 * more timers may live. */
static bool fanout_follows(struct engine *engine, const struct timer *timer,
                           const struct fanout *fanout)
{
    struct backfill backfill;

    return fanout_count(fanout, FANOUT_OPEN) > 0 &&
           (schedule_backfill(timer->texts.schedule, &backfill) ||
            fanout_is_limited(engine, timer));
}

/* True if an open part may be over, because its note may be lost. */
static bool fanout_lacks_note(const struct engine *engine, const struct fanout *fanout)
{
    return fanout_count(fanout, FANOUT_OPEN) > 0 && fanout->known != fanout_known(engine);
}

/* True if the timer asks the parts of the firing before how they stand before it begins the next
 * one. It does so once, and is RETRYING then. */
static bool fanout_must_look(const struct engine *engine, const struct timer *timer,
                             const struct fanout *fanout)
{
    return timer->state == TIMER_SCHEDULED && fanout_lacks_note(engine, fanout);
}

/* Begins a firing, or waits for the parts of the one before. */
static void fanout_begin_or_wait(struct engine *engine, struct entry *entry, struct wall due,
                                 const struct fanout *fanout)
{
    const struct timer *timer = entry->timer;

    if (fanout_must_look(engine, timer, fanout))
        fanout_wait(engine, entry, fanout,
                    outcome_put_off(engine, timer, engine->options.storage_retry_ms));
    else if (fanout_follows(engine, timer, fanout))
        fanout_wait(engine, entry, fanout, fanout_wait_until(engine, timer, fanout));
    else if (!fanout_skip(engine, entry, fanout))
        fanout_begin(engine, entry, due, fanout);
}

/* Begins the firing of a timer, unless its schedule says that it is not to begin now. */
static void fanout_fire(struct engine *engine, struct entry *entry, const struct fanout *fanout)
{
    struct wall due;

    switch (outcome_firing(engine, entry->timer, &due)) {
    case OUTCOME_FIRES:
        fanout_begin_or_wait(engine, entry, due, fanout);
        break;
    case OUTCOME_APART:
        fanout_begin_apart(engine, entry, due, fanout);
        break;
    case OUTCOME_OVERTAKEN:
        outcome_overtaken(engine, entry);
        break;
    case OUTCOME_WAITS:
        outcome_waits(engine, entry);
        break;
    case OUTCOME_MOVES:
        outcome_moves(engine, entry, due);
        break;
    case OUTCOME_LEFT_OUT:
        outcome_left_out(engine, entry);
        break;
    case OUTCOME_TOO_LATE:
        outcome_dropped(engine, entry);
        break;
    }
}

void fanout_due(struct engine *engine, struct entry *entry)
{
    struct fanout fanout;

    assert(entry->phase == ENTRY_SCHEDULED || entry->phase == ENTRY_LOADING);
    assert(entry->timer->due.ms <= engine->now.ms && !timer_is_final(entry->timer->state));
    if (!fanout_read(entry->timer, &fanout))
        return;
    if (!fanout_has_begun(entry->timer, &fanout))
        fanout_fire(engine, entry, &fanout);
    else if (fanout_count(&fanout, FANOUT_UNMADE) > 0)
        fanout_begin(engine, entry, entry->timer->due, &fanout);
    else if (fanout_count(&fanout, FANOUT_OPEN) > 0)
        fanout_wait(engine, entry, &fanout, fanout_wait_until(engine, entry->timer, &fanout));
    else
        fanout_end(engine, entry, &fanout);
}

bool fanout_may_lack_note(const struct engine *engine, const struct timer *timer)
{
    struct fanout fanout;

    return !timer_is_final(timer->state) && fanout_read(timer, &fanout) &&
           fanout_lacks_note(engine, &fanout);
}

bool fanout_wants_look(const struct engine *engine, struct entry *entry)
{
    const bool wants = entry->flags & ENTRY_WANTS_LOOK;

    assert(engine->is_in_turn);
    entry->flags &= ~(uint32_t)ENTRY_WANTS_LOOK;
    return wants;
}

/* ---- parts end ---- */

struct fanout_note fanout_note_of(const struct timer *timer)
{
    static const enum fanout_state states[] = {
        [TIMER_SCHEDULED] = FANOUT_OPEN,      [TIMER_DELIVERING] = FANOUT_OPEN,
        [TIMER_RETRYING] = FANOUT_OPEN,       [TIMER_FIRED] = FANOUT_FIRED,
        [TIMER_CANCELLED] = FANOUT_CANCELLED, [TIMER_DEAD] = FANOUT_DEAD,
        [TIMER_PAUSED] = FANOUT_OPEN,
    };

    return (struct fanout_note){
        .part = timer->id,
        .state = states[timer->state],
        .attempts = timer->attempts,
        .error = timer->state == TIMER_FIRED ? (struct bytes){0} : timer->texts.last_error,
    };
}

/* Enters the note. Returns false if that changes nothing. */
static bool fanout_enter(struct fanout *fanout, const struct fanout_note *note)
{
    for (size_t i = 0; i < fanout->count; i++) {
        struct fanout_part *part = &fanout->parts[i];

        if (!part->has_id || !timer_id_equal(&part->id, &note->part))
            continue;
        if (part->state == note->state)
            return false;
        part->state = note->state;
        part->attempts = note->attempts;
        part->last_error = note->error;
        return true;
    }
    return false;
}

/* Handles the end of the last part of a firing after which the timer has planned another. */
static void fanout_end_late(struct engine *engine, struct entry *entry, const struct fanout *fanout)
{
    char room[FANOUT_RUN_ERROR_SIZE];
    const struct run run = fanout_run(engine, fanout, room);

    /* if there is no memory for the report, the next firing records that this one was not over */
    outcome_over_late(engine, entry, &run);
    if (entry->timer->state == TIMER_RETRYING) /* the next firing waits for this one */
        outcome_place_next(engine, entry->timer, fanout->started);
}

void fanout_take(struct engine *engine, struct entry *entry, const struct fanout_note *note)
{
    struct fanout fanout;

    assert(entry->phase == ENTRY_SCHEDULED || entry->phase == ENTRY_EVICTABLE);
    assert(!timer_is_final(entry->timer->state) && !entry->successor);
    if (!fanout_read(entry->timer, &fanout) || !fanout_enter(&fanout, note))
        return;
    const bool is_waiting = fanout_has_begun(entry->timer, &fanout);
    struct timer *copy = fanout_copy(entry->timer, &fanout);
    if (!copy) {
        engine->notes_lost++;
        return;
    }
    if (entry->phase == ENTRY_SCHEDULED)
        window_unschedule(engine, entry);
    entries_replace(engine->entries, entry, copy);
    const bool is_over =
        fanout_count(&fanout, FANOUT_OPEN) == 0 && fanout_count(&fanout, FANOUT_UNMADE) == 0;
    if (is_over && is_waiting) {
        fanout_end(engine, entry, &fanout);
        return;
    }
    entry->outcome = FEED_CHANGED;
    if (is_over && schedule_recurs(copy->texts.schedule))
        fanout_end_late(engine, entry, &fanout);
    entry->timer->version++;
    watermark_write_own(engine, entry);
}

struct timer *fanout_revived(const struct engine *engine, const struct timer *timer,
                             const struct fanout_note *note)
{
    struct fanout fanout;

    assert(timer->state == TIMER_DEAD && note->state == FANOUT_OPEN);
    if (!fanout_read(timer, &fanout) || fanout.due.ms != timer->due.ms ||
        !fanout_enter(&fanout, note))
        return NULL;
    struct timer *copy = fanout_copy(timer, &fanout);
    if (!copy)
        return NULL;
    copy->version++;
    copy->attempts = 1;
    copy->ended = (struct wall){0};
    copy->state = TIMER_RETRYING;
    copy->at = fanout_wait_until(engine, copy, &fanout);
    return copy;
}
