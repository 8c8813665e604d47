/*
 * Spilled timers, called in as soon as their lane has room.
 *
 * A due timer is spilled when too many wait in memory: its row is moved some windows ahead, where
 * the frontier meets it. But its lane may be empty long before, a queue with a million due timers
 * and quick workers for one. So a lane that runs low and may have spilled timers is *hungry*, and
 * while one is, rows behind the frontier are read, page by page, and the spilled ones of hungry
 * lanes are taken up where they lie. A *pass* goes once over all places where spilled timers can
 * be; it pauses whenever no lane is hungry.
 *
 * A lane notes the pass in which a timer of it was last spilled (and durable: before that a read
 * may miss it) or passed over. A pass that ends without either has found them all: the lane is not
 * hungry any more until it spills again. The same goes for what an earlier life spilled, and for
 * what became durable when its lane was gone: a pass that began after it finds it.
 *
 * Spilled timers and retries lie where the wall clock put them. When that was ahead and is set
 * right they are *misplaced*: further ahead than they can have been put by the time it is now.
 * `placed`, which the meta keeps, is how late it was at least whenever a row was put elsewhere than
 * at its due time. At an earlier time, after a step back or in another life, the next pass is a
 * *search*: it goes as far as such rows can lie, and brings those that are misplaced back. What it
 * met is what there is, so at its end `placed` is known anew.
 */
#include "engine/engine_private.h"

#include <stdlib.h>

/* How far ahead timers are spilled, in windows: as far again is their spread. A lane with room has
 * them called in, so this only bounds how often those of a lane without are written. */
#define SPILL_WINDOWS 4

static uint64_t far_ms(const struct engine *engine)
{
    return SPILL_WINDOWS * (engine->options.window_ms + 1);
}

/* How far ahead a spilled timer may lie: as it was put, or the clock stepped back a little since.
 */
static uint64_t spill_ms_max(const struct engine *engine)
{
    return 3 * far_ms(engine);
}

/* The same of any timer that does not lie at its due time. */
static uint64_t reach_ms(const struct engine *engine, const struct timer *timer)
{
    return timer->state == TIMER_RETRYING ? outcome_pause_ms_max(timer) : spill_ms_max(engine);
}

/* How late it was at least when the timer was put where it is; 0: it lies at its due time. */
static struct wall placed_at(const struct engine *engine, const struct timer *timer)
{
    if (timer->at.ms <= timer->due.ms)
        return (struct wall){0};
    return (struct wall){wall_since((struct wall){reach_ms(engine, timer)}, timer->at)};
}

bool refill_is_spilled(const struct engine *engine, const struct timer *timer)
{
    return timer->state == TIMER_SCHEDULED && timer->at.ms > engine->now.ms &&
           timer->due.ms <= engine->now.ms;
}

bool refill_is_early(const struct engine *engine, const struct timer *timer)
{
    if (timer->state == TIMER_RETRYING)
        return placed_at(engine, timer).ms > engine->now.ms;
    return timer->state == TIMER_SCHEDULED && timer->at.ms > timer->due.ms &&
           timer->due.ms > engine->now.ms;
}

void refill_come_home(struct engine *engine, struct entry *entry)
{
    entry->timer->at = entry->timer->state == TIMER_RETRYING
                           ? outcome_paused_again(engine, entry->timer)
                           : entry->timer->due;
    writer_add_own(engine, entry);
}

/* ---- where the clock put them ---- */

void refill_wrote(struct engine *engine, const struct timer *timer)
{
    const struct wall placed = placed_at(engine, timer);

    engine->placed = wall_max(engine->placed, placed);
    engine->placed_seen = wall_max(engine->placed_seen, placed);
    engine->placed_unsettled = wall_max(engine->placed_unsettled, placed);
}

void refill_nothing_out(struct engine *engine)
{
    engine->placed_unsettled.ms = 0;
}

/* How far a row may lie that is not at its due time. */
static struct wall search_to(const struct engine *engine)
{
    return wall_add(engine->placed, ENGINE_PAUSE_MS_MAX + spill_ms_max(engine));
}

/* The next pass looks for whatever may lie anywhere. */
static void look_everywhere(struct engine *engine)
{
    engine->unexplored_pass = engine->pass;
    engine->spilled_to = wall_max(engine->spilled_to, wall_add(engine->now, spill_ms_max(engine)));
    if (engine->now.ms < engine->placed.ms)
        engine->spilled_to = wall_max(engine->spilled_to, search_to(engine));
}

void refill_clock_went_back(struct engine *engine)
{
    engine->pass_is_whole = false; /* what it passed over may be misplaced now */
    look_everywhere(engine);
}

void refill_init(struct engine *engine)
{
    engine->pass = 1;
    look_everywhere(engine);
}

/* A spilled timer may lie there. */
static void spilled_at(struct engine *engine, struct wall at)
{
    engine->spilled_to = wall_max(engine->spilled_to, wall_add(at, 1));
    engine->spilled_seen = wall_max(engine->spilled_seen, wall_add(at, 1));
}

struct wall refill_spill_to(struct engine *engine, struct lane *lane)
{
    uint64_t ms = far_ms(engine) + random_below(&engine->random, far_ms(engine));
    struct wall at = wall_add(engine->now, ms);

    if (lane)
        lane->spilled_pass = engine->pass;
    spilled_at(engine, at);
    return at;
}

/* It lies where a pass may have been already: the next one finds it. */
static void pass_over(struct engine *engine, const struct timer *timer)
{
    struct lane *lane = lanes_find(engine, timer);

    spilled_at(engine, timer->at);
    if (lane && refill_is_spilled(engine, timer)) {
        lane->spilled_pass = engine->pass;
        lanes_update(engine, lane);
    } else {
        engine->unexplored_pass = engine->pass;
    }
}

void refill_settled(struct engine *engine, const struct timer *timer)
{
    if (timer_is_over(timer->state))
        return;
    if (refill_is_spilled(engine, timer) || refill_is_early(engine, timer))
        pass_over(engine, timer);
}

/* ---- who is hungry ---- */

static size_t lane_bytes_max(const struct engine *engine)
{
    return engine->options.near_bytes_max / 16;
}

bool refill_is_hungry(const struct engine *engine, const struct lane *lane)
{
    return lane->spilled_pass != 0 && lane->waiting_bytes < lane_bytes_max(engine) / 2;
}

/* Whether a timer of it may be spilled, as far as passes have seen. */
static bool may_have_spilled(const struct engine *engine, const struct lane *lane)
{
    return lane->spilled_pass >= engine->pass - engine->is_passing;
}

/* Takes those off the list for whom the passes have found everything. */
static bool is_any_hungry(struct engine *engine)
{
    while (!list_is_empty(&engine->hungry)) {
        struct lane *lane = list_item(engine->hungry.next, struct lane, hungry);

        if (may_have_spilled(engine, lane))
            return true;
        lane->spilled_pass = 0;
        lanes_update(engine, lane);
    }
    return false;
}

/* ---- the pass ---- */

static bool is_pass_wanted(const struct engine *engine)
{
    return !list_is_empty(&engine->hungry) || engine->unexplored_pass;
}

/* What waits may not be called in beyond this: below where lanes are made to spill. */
static size_t waiting_bytes_max(const struct engine *engine)
{
    return engine->options.near_bytes_max * 3 / 8;
}

/* Lanes that cannot send must not keep those that can from being filled. */
static bool can_make_room(const struct engine *engine)
{
    return lanes_spillable(engine) > 0 &&
           lanes_longest_tail_bytes(engine) > 2 * lane_bytes_max(engine);
}

static bool has_room(struct engine *engine)
{
    if (engine->waiting_bytes >= waiting_bytes_max(engine) && can_make_room(engine))
        lanes_halve_longest(engine);
    return engine->waiting_bytes < waiting_bytes_max(engine) && scheduler_has_room(engine);
}

/* The pass goes on behind the frontier: what is before it is in memory. */
static void pass_begin_or_go_on(struct engine *engine)
{
    if (!engine->is_passing) {
        engine->is_passing = true;
        engine->pass_is_cramped = false;
        engine->pass++;
        engine->pass_at = engine->frontier;
        engine->pass_to = engine->spilled_to;
        engine->pass_is_whole = true;
        engine->pass_is_search = engine->pass_to.ms >= search_to(engine).ms;
        engine->spilled_seen = wall_add(engine->now, 2 * far_ms(engine));
        engine->placed_seen = engine->placed_unsettled;
    } else if (storage_position_before(engine->pass_at, engine->frontier)) {
        engine->pass_at = engine->frontier;
    }
}

/* What the pass did not meet lay before the frontier, so within the window. */
static void learn(struct engine *engine)
{
    const struct wall near_to = wall_add(engine->now, engine->options.window_ms);
    const struct wall near_placed = {wall_since((struct wall){spill_ms_max(engine)}, near_to)};

    engine->spilled_to = engine->spilled_seen;
    if (engine->pass_is_search)
        engine->placed = wall_max(engine->placed_seen, near_placed);
}

/* After one that met a timer too large for the room there was, the next one waits a little. */
static void pass_end(struct engine *engine)
{
    if (engine->pass_is_whole)
        learn(engine);
    if (engine->pass_is_cramped)
        engine->pass_not_before = wall_add(engine->now, engine->options.storage_retry_ms);
    engine->is_passing = false;
    if (engine->unexplored_pass < engine->pass)
        engine->unexplored_pass = 0;
}

static bool may_read(const struct engine *engine)
{
    return is_pass_wanted(engine) && !engine->is_reading && !engine->is_draining &&
           engine->is_ready;
}

static struct wall not_before(const struct engine *engine)
{
    return engine->is_passing ? engine->read_not_before
                              : wall_max(engine->read_not_before, engine->pass_not_before);
}

void refill_read(struct engine *engine)
{
    struct storage_position to;

    if (!may_read(engine) || engine->now.ms < not_before(engine).ms)
        return;
    if ((!is_any_hungry(engine) && !engine->unexplored_pass) || !has_room(engine))
        return;
    pass_begin_or_go_on(engine);
    to = (struct storage_position){engine->pass_to, 0};
    if (!storage_position_before(engine->pass_at, to)) {
        pass_end(engine);
        return; /* the next call begins another, if that is wanted */
    }
    if (!scheduler_read(engine, engine->pass_at, to, lane_bytes_max(engine)))
        return;
    engine->is_refilling = true;
    engine->reading_to = engine->frontier; /* nothing more counts as near */
}

static bool call_in(struct engine *engine, struct timer *timer)
{
    struct entry *entry = engine_take_in(engine, timer);

    if (!entry)
        return false;
    entries_count(engine->entries, entry);
    engine->stats.called_in++;
    scheduler_take_up(engine, entry);
    return true;
}

/* It must not make others be spilled in turn. */
static bool fits(const struct engine *engine, const struct timer *timer)
{
    return engine->stats.waiting == 0 ||
           engine->waiting_bytes + entry_footprint_of(timer) <= engine->options.near_bytes_max / 2;
}

/* Whether the timer is taken up; else it is still the caller's. */
static bool try_call_in(struct engine *engine, struct timer *timer)
{
    const struct lane *lane = lanes_find(engine, timer);

    if (!lane || lane->waiting_bytes < lane_bytes_max(engine)) {
        if (fits(engine, timer) && call_in(engine, timer))
            return true;
        engine->pass_is_cramped = true;
    }
    return false;
}

/* The same for one that is misplaced: it is written where it belongs, or spilled again. */
static bool try_put_right(struct engine *engine, struct timer *timer)
{
    const bool is_early = refill_is_early(engine, timer);
    struct entry *entry;

    if (!is_early && placed_at(engine, timer).ms <= engine->now.ms)
        return false;
    entry = engine_take_in(engine, timer);
    if (!entry) {
        engine->pass_is_cramped = true;
        return false;
    }
    entries_count(engine->entries,
                  entry); /* many of them must not be in memory until they are written */
    if (is_early) {
        refill_come_home(engine, entry);
    } else {
        timer->at = refill_spill_to(engine, lanes_find(engine, timer));
        writer_add_own(engine, entry);
    }
    return true;
}

/* Takes the timer in, or frees it. False when there is no room: what was written since the read was
 * asked for may have taken it. Then the pass goes on here when there is some. */
static bool load(struct engine *engine, struct timer *timer)
{
    const struct entry *known = entries_find(engine->entries, timer->id.serial);
    bool is_spilled = refill_is_spilled(engine, timer);
    bool is_wanted = is_spilled || refill_is_early(engine, timer);
    bool is_out_of_room = is_wanted && !known && scheduler_room_bytes(engine) == 0;

    engine->placed_seen = wall_max(engine->placed_seen, placed_at(engine, timer));
    if (is_out_of_room)
        engine->pass_at = position_of(timer);
    else if (is_wanted && known && known->phase == ENTRY_LOADING &&
             !(known->flags & ENTRY_IN_DOUBT))
        pass_over(engine, timer); /* the find may fail; else what is known is newer */
    else if (is_spilled && !known && try_call_in(engine, timer))
        return true;
    else if (is_wanted && !known && try_put_right(engine, timer))
        return true;
    else if (is_wanted && !known)
        pass_over(engine, timer);
    timer_free(timer);
    return !is_out_of_room;
}

void refill_loaded(struct engine *engine, struct engine_read *read)
{
    struct storage_page *page = &read->page;
    bool goes_on = true;

    engine->is_reading = engine->is_refilling = false;
    if (read->result != ERROR_NONE) {
        engine->read_not_before = wall_add(engine->now, engine->options.storage_retry_ms);
        return;
    }
    engine->pass_at = page->next;
    for (size_t i = 0; i < page->count; i++) {
        if (goes_on)
            goes_on = load(engine, page->timers[i]);
        else
            timer_free(page->timers[i]);
    }
    page->count = 0;
}

struct wall refill_wake_at(const struct engine *engine)
{
    if (!may_read(engine) || !scheduler_has_room(engine) ||
        (engine->waiting_bytes >= waiting_bytes_max(engine) && !can_make_room(engine)))
        return WALL_NEVER;
    return wall_max(engine->now, not_before(engine));
}
