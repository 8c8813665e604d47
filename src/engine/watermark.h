/*
 * watermark.h - where rows lie: the bounds that each batch carries in its meta.
 *
 *     ── final ──┬── live and final ──┬── all live rows in memory ──┬── in the storage only ──►
 *              trim               watermark                       frontier (window.h)
 *
 * A start reads from the watermark, and the storage drops rows before the trim.
 *
 * `placed` is a lower bound of the wall time at which any row was put elsewhere than at its due
 * time. An earlier time now means that rows may be misplaced (position.h): spill.h looks for them.
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

/* True if it is time to raise the watermark, or to trim. */
bool watermark_is_due(const struct engine *engine);

/* Raises the watermark as far as the live timers allow, and trims. `oldest` is the first
 * position of timers that no batch or delivery has. It visits each timer that is due or being
 * written, so the more of them wait (`queued`), the later the next time. */
void watermark_raise(struct engine *engine, struct wall oldest, size_t queued);

/* Notes that rows have changed since it was written. */
void watermark_mark_stale(struct engine *engine);

/* Moves the watermark back to a live row that may be before it. */
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

/* Rebuilds `placed`, in three calls: a scan of all positions of such rows begins; it saw a row;
 * it has seen all rows except those placed by `placed_near`. */
void watermark_scan_begins(struct engine *engine);
void watermark_scan_met(struct engine *engine, const struct timer *timer);
void watermark_scan_ends(struct engine *engine, struct wall placed_near);

/* Notes that everything written is durable. */
void watermark_all_durable(struct engine *engine);

#endif
