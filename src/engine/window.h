/*
 * window.h - the wheel over the near future, and the frontier up to which rows are in memory.
 *
 * A row written before the frontier stays in memory; a row written behind it is met when the
 * frontier gets there. While a read ahead is out, its end counts as the frontier, since that read
 * may have passed before the row was there.
 *
 * Errors     Without memory a timer is parked: it leaves memory, and the frontier goes back to it.
 * Threads    None: the engine's.
 */
#ifndef TICKWHEEL_ENGINE_WINDOW_H
#define TICKWHEEL_ENGINE_WINDOW_H

#include "engine/engine.h"
#include "engine/entries.h"
#include "tickwheel/wheel.h"

struct window;

/* Returns NULL if out of memory. */
struct window *window_create(struct wall watermark, struct wall now);
void window_destroy(struct window *window);

/* ---- timers ---- */

/* True if the row of the timer is before the frontier. */
bool window_is_near(const struct engine *engine, const struct timer *timer);

/* True if a timer after the frontier stays in memory: it is due within half a window, and timers
 * that are due earlier hold the frontier up. */
bool window_overtakes(const struct engine *engine, const struct entry *entry);

/* Puts the timer into the wheel: SCHEDULED, or EVICTABLE if out of memory. */
void window_schedule(struct engine *engine, struct entry *entry);

/* Removes a SCHEDULED timer from the wheel. The caller changes its phase. */
void window_unschedule(struct engine *engine, struct entry *entry);

/* Makes a timer EVICTABLE for want of room or memory, and moves the frontier back to it. */
void window_park(struct engine *engine, struct entry *entry);
void window_park_without_memory(struct engine *engine, struct entry *entry);

/* Moves the frontier back to a row of a page that could not be taken. */
void window_skip_row(struct engine *engine, const struct timer *timer);

/* ---- due timers ---- */

/* One of the two is set. */
struct window_due {
    struct entry *entry; /* still SCHEDULED, and out of the wheel */
    void *alarm_owner;
};

bool window_is_due(const struct engine *engine);

/* Returns due timers. Call again while window_is_due. */
size_t window_expire(struct engine *engine, struct window_due *ret_due, size_t count_max);

/* Sets or moves the alarm of an owner, which has an even address. Returns false if out of
 * memory. */
bool window_set_alarm(struct engine *engine, tw_handle *alarm, void *owner, struct wall at);
void window_clear_alarm(struct engine *engine, tw_handle *alarm);

/* ---- reading ---- */

/* Returns the memory left for more timers. window_has_room: whether a read is worth it. */
size_t window_room_bytes(const struct engine *engine);
bool window_has_room(const struct engine *engine);

/* Asks for the next stretch of the window if it is time; after a stretch without rows, for the
 * position of the next row. */
void window_read_ahead(struct engine *engine);

/* Moves the frontier over stretches without rows. Called at the begin of a turn, because it
 * causes no wake-up. */
void window_pass_empty(struct engine *engine);

/* Notes the rows of a batch that is back, even a failed one, because they may have been written:
 * those after the frontier must not be overlooked. */
void window_expect_rows(struct engine *engine, const struct storage_batch *batch);

/* Asks for rows after the frontier; one read at a time, and not during window_read_ahead.
 * Returns false if out of memory. */
bool window_read_behind(struct engine *engine, struct storage_position from, struct wall to,
                        size_t bytes_max);

enum window_read {
    WINDOW_READ_AHEAD,  /* the frontier has moved to its end: take its rows */
    WINDOW_READ_BEHIND, /* of window_read_behind */
    WINDOW_LOOKED,      /* of the next row; there is nothing to take */
    WINDOW_READ_FAILED, /* a read failed; reading pauses */
};

/* Takes back a read of any kind. */
enum window_read window_read_back(struct engine *engine, const struct engine_read *read);

/* True while a scan runs, of these or for dead letters (dead.h): no other begins, and no entry
 * is evicted. */
bool window_is_reading(const struct engine *engine);
struct wall window_read_not_before(const struct engine *engine);

/* True after the first read ahead. */
bool window_is_ready(const struct engine *engine);

/* True if the storage cannot be read: the first read failed, or later three in a row. New timers
 * might never fire then. */
bool window_is_unreadable(const struct engine *engine);

/* ---- time ---- */

struct storage_position window_frontier(const struct engine *engine);

/* Returns the first position that may be in the wheel or after the frontier. */
struct wall window_oldest(const struct engine *engine);
struct wall window_wake_at(const struct engine *engine);

/* Makes a new wheel, because a wheel's time cannot go back. The caller puts each SCHEDULED timer
 * and all alarms into it. Returns false if out of memory, and the old wheel stays. */
bool window_clock_went_back(struct engine *engine);

/* Finds the place of a SCHEDULED timer in the wheel. */
bool window_find(const struct engine *engine, const struct entry *entry,
                 struct tw_wheel_place *ret_place);

void window_check(const struct engine *engine);

#endif
