/*
 * window.h - the wheel over the near future, and the frontier up to which rows are in memory.
 *
 * A timer whose row is written before the frontier stays in memory. A row written after it is read
 * when the frontier gets there. While a read ahead runs, its end counts as the frontier, since that
 * read may have passed the position before the row was written.
 *
 * Errors     If memory is out, a timer is parked: it leaves memory, and the frontier is moved back
 *            to its row.
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

/* True if a timer after the frontier stays in memory: it is due within half a window, and memory
 * has room. Otherwise it could be late if earlier timers keep the frontier from advancing. */
bool window_overtakes(const struct engine *engine, const struct entry *entry);

/* Puts the timer into the wheel: SCHEDULED, or EVICTABLE if out of memory. */
void window_schedule(struct engine *engine, struct entry *entry);

/* Removes a SCHEDULED timer from the wheel. The caller changes its phase. */
void window_unschedule(struct engine *engine, struct entry *entry);

/* Makes a timer EVICTABLE for want of memory, and moves the frontier back to its row, so that it is
 * read again. */
void window_park(struct engine *engine, struct entry *entry);
void window_park_without_memory(struct engine *engine, struct entry *entry);

/* Moves the frontier back to a row that was read but could not be kept in memory. */
void window_skip_row(struct engine *engine, const struct timer *timer);

/* ---- due timers ---- */

/* A due timer, or an alarm whose time has come: one of the two is set. */
struct window_due {
    struct entry *entry; /* SCHEDULED, and already out of the wheel */
    void *alarm_owner;
};

bool window_is_due(const struct engine *engine);

/* True if all timers whose positions are up to this time have left the wheel. */
bool window_has_passed(const struct engine *engine, struct wall at);

/* Returns due timers and alarms. Call again while window_is_due. */
size_t window_expire(struct engine *engine, struct window_due *ret_due, size_t count_max);

/* Sets or moves an alarm. `owner`, which window_expire returns, has an even address. Returns false
 * if out of memory. */
bool window_set_alarm(struct engine *engine, tw_handle *alarm, void *owner, struct wall at);
void window_clear_alarm(struct engine *engine, tw_handle *alarm);

/* ---- reading ---- */

/* Returns how many bytes more timers may use. window_has_room: whether that is enough for a
 * read. */
size_t window_room_bytes(const struct engine *engine);
bool window_has_room(const struct engine *engine);

/* Requests the next rows of the window if it is time. If the last read ahead found no row, asks
 * where the next one is. */
void window_read_ahead(struct engine *engine);

/* Moves the frontier over a range without rows. Called at the begin of a turn, because no wake-up
 * is set for it. */
void window_pass_empty(struct engine *engine);

/* Notes the positions of a batch's rows when its result is known, so that those after the frontier
 * are read later. Applies to failed batches too, because their rows may have been written. */
void window_expect_rows(struct engine *engine, const struct storage_batch *batch);

/* Requests rows after the frontier, for scans. Only one read runs at a time, and none during
 * window_read_ahead. Returns false if out of memory. */
bool window_read_behind(struct engine *engine, struct storage_position from, struct wall to,
                        size_t bytes_max);

enum window_read {
    /* the frontier has moved to the end of the page: the caller takes its rows */
    WINDOW_READ_AHEAD,
    WINDOW_READ_BEHIND, /* page of window_read_behind */
    WINDOW_LOOKED,      /* position of the next row: nothing for the caller to take */
    WINDOW_READ_FAILED, /* the read failed, and reading pauses */
};

/* Handles the result of a read of any kind, and returns its kind. */
enum window_read window_read_back(struct engine *engine, const struct engine_read *read);

/* True while a scan runs: of this module, for dead letters (dead.h) or of second_scan.h. Until it
 * ends, no other scan begins and no entry is evicted. */
bool window_is_reading(const struct engine *engine);
struct wall window_read_not_before(const struct engine *engine);

/* True after the first read ahead has returned. */
bool window_is_ready(const struct engine *engine);

/* True if the storage cannot be read: the first read failed, or later three reads in a row. New
 * timers could then stay on disk and never fire. */
bool window_is_unreadable(const struct engine *engine);

/* ---- time ---- */

struct storage_position window_frontier(const struct engine *engine);

/* Returns the earliest position of timers in the wheel or after the frontier. */
struct wall window_oldest(const struct engine *engine);
struct wall window_wake_at(const struct engine *engine);

/* Replaces the wheel, because a wheel's time cannot go back. The caller then puts each SCHEDULED
 * timer and all alarms into the new one. Returns false if out of memory; then the old wheel
 * stays. */
bool window_clock_went_back(struct engine *engine);

/* Finds the place of a SCHEDULED timer in the wheel. */
bool window_find(const struct engine *engine, const struct entry *entry,
                 struct tw_wheel_place *ret_place);

void window_check(const struct engine *engine);

#endif
