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

/* NULL when out of memory. */
struct window *window_create(struct wall watermark, struct wall now);
void window_destroy(struct window *window);

/* ---- timers ---- */

/* Whether the row of the timer lies before the frontier. */
bool window_is_near(const struct engine *engine, const struct timer *timer);

/* Whether a timer behind the frontier stays in memory: it is due within half a window, and the
 * frontier is held up by the timers that are due before it. */
bool window_overtakes(const struct engine *engine, const struct entry *entry);

/* Puts the timer into the wheel: SCHEDULED, or EVICTABLE without memory. */
void window_schedule(struct engine *engine, struct entry *entry);

/* Takes a SCHEDULED timer out of the wheel; its phase is the caller's to change. */
void window_unschedule(struct engine *engine, struct entry *entry);

/* There is no room, or no memory, for this timer: EVICTABLE, and the frontier goes back to it. */
void window_park(struct engine *engine, struct entry *entry);
void window_park_without_memory(struct engine *engine, struct entry *entry);

/* Likewise for a row that came with a page and could not be taken in. */
void window_skip_row(struct engine *engine, const struct timer *timer);

/* ---- due timers ---- */

/* One of the two is set. */
struct window_due {
    struct entry *entry; /* SCHEDULED still, and out of the wheel */
    void *alarm_owner;
};

bool window_is_due(const struct engine *engine);

/* Takes out due timers; call again while window_is_due. */
size_t window_expire(struct engine *engine, struct window_due *ret_due, size_t count_max);

/* Sets the alarm of an owner, which must lie at an even address, or moves it. False: no memory. */
bool window_set_alarm(struct engine *engine, tw_handle *alarm, void *owner, struct wall at);
void window_clear_alarm(struct engine *engine, tw_handle *alarm);

/* ---- reading ---- */

/* Bytes of memory for more timers; and whether that is enough for a read to be worth it. */
size_t window_room_bytes(const struct engine *engine);
bool window_has_room(const struct engine *engine);

/* Asks for the next stretch of the window, if it is time; or, after a stretch without a row, for
 * where the next row is. */
void window_read_ahead(struct engine *engine);

/* Moves the frontier over what is known to have no row: at the begin of a turn, as no wake-up is
 * spent on it. */
void window_pass_empty(struct engine *engine);

/* For every batch that is back, also a failed one, of which rows may have been written: rows behind
 * the frontier are not overlooked. */
void window_expect_rows(struct engine *engine, const struct storage_batch *batch);

/* Asks for rows behind the frontier; one read at a time, and not with window_read_ahead. False: no
 * memory. */
bool window_read_behind(struct engine *engine, struct storage_position from, struct wall to,
                        size_t bytes_max);

enum window_read {
    WINDOW_READ_AHEAD,  /* the frontier has moved to its end: its rows are to be taken in */
    WINDOW_READ_BEHIND, /* of window_read_behind */
    WINDOW_LOOKED,      /* for the next row; nothing is to be taken in */
    WINDOW_READ_FAILED, /* one of them; reading pauses */
};

/* A read of any kind is back. */
enum window_read window_read_back(struct engine *engine, const struct engine_read *read);

/* Whether a scan is out, of these or for dead letters (dead.h): no other begins meanwhile, and no
 * entry is evicted. */
bool window_is_reading(const struct engine *engine);
struct wall window_read_not_before(const struct engine *engine);

/* The first read ahead is back. */
bool window_is_ready(const struct engine *engine);

/* Whether the storage cannot be read: the first read failed, or later three in a row. Timers that
 * are created then might never fire. */
bool window_is_unreadable(const struct engine *engine);

/* ---- time ---- */

struct storage_position window_frontier(const struct engine *engine);

/* The first position that may lie in the wheel or behind the frontier. */
struct wall window_oldest(const struct engine *engine);
struct wall window_wake_at(const struct engine *engine);

/* A wheel's time cannot go back: a new one, into which the caller puts each SCHEDULED timer and
 * all alarms. False: no memory, and the old wheel stays. */
bool window_clock_went_back(struct engine *engine);

/* Where in the wheel a SCHEDULED timer is. */
bool window_find(const struct engine *engine, const struct entry *entry,
                 struct tw_wheel_place *ret_place);

void window_check(const struct engine *engine);

#endif
