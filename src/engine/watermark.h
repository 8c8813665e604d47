/*
 * watermark.h - bounds for the positions of rows, which are written in the meta of each batch.
 *
 *     ── final ──┬── live and final ──┬── all live rows in memory ──┬── in the storage only ──►
 *              trim               watermark                       frontier (window.h)
 *
 * Recovery reads from the watermark on, and the storage drops rows before the trim.
 *
 * `placed` bounds the wall times at which rows were put at another position than their due time. If
 * the present time is earlier, rows may be misplaced (position.h), and spill.h searches for them.
 *
 * All writes but those that forget dead letters go through here on their way to commit.h.
 */
#ifndef TICKWHEEL_ENGINE_WATERMARK_H
#define TICKWHEEL_ENGINE_WATERMARK_H

#include "engine/commit.h"
#include "engine/engine.h"
#include "engine/entries.h"

struct watermark;

struct watermark *watermark_create(const struct storage_meta *meta, struct wall now);
void watermark_destroy(struct watermark *watermark);

/* ---- writes; see commit.h ---- */

void watermark_write(struct engine *engine, struct write_note note);
void watermark_write_own(struct engine *engine, struct entry *entry);
void watermark_write_spilled(struct engine *engine, struct entry *entry);

/* ---- the bounds ---- */

/* True if the watermark may be raised, or final records trimmed. */
bool watermark_is_due(const struct engine *engine);

/* Raises the watermark as far as the live timers allow, and trims. `oldest` is the first position
 * of timers that are in no batch and no delivery. Visits each timer that is due or being written;
 * the more timers wait (`queued`), the later is the next call due. */
void watermark_raise(struct engine *engine, struct wall oldest, size_t queued);

/* Notes that rows have changed since the watermark was last written. */
void watermark_mark_stale(struct engine *engine);

/* Moves the watermark back if the timer, which is live, is before it. */
void watermark_found(struct engine *engine, const struct timer *timer);

/* Fills in the meta of a batch. watermark_meta_failed: such a batch failed. */
void watermark_fill_meta(struct engine *engine, struct storage_meta *ret_meta);
void watermark_meta_failed(struct engine *engine);

struct wall watermark_at(const struct engine *engine);
struct wall watermark_wake_at(const struct engine *engine);
void watermark_clock_went_back(struct engine *engine);
void watermark_check(const struct engine *engine);

/* ---- rows put elsewhere than at their due time ---- */

struct wall watermark_placed(const struct engine *engine);

/* Recompute `placed` in three calls: watermark_scan_begins before a scan of all positions of
 * displaced rows, _scan_met for each row that it saw, _scan_ends after the last row. `placed_near`
 * covers the rows that the scan did not visit. */
void watermark_scan_begins(struct engine *engine);
void watermark_scan_met(struct engine *engine, const struct timer *timer);
void watermark_scan_ends(struct engine *engine, struct wall placed_near);

/* Called when no write is pending. Rows written from now on cannot be missed by a scan that begins
 * later. */
void watermark_all_durable(struct engine *engine);

#endif
