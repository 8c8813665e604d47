/*
 * reload.h - rows into memory: settled where they belong, and the scan that reloads spilled timers
 * as soon as their dispatch queue has room.
 *
 * The reload scan reads behind the frontier, page by page, while a queue is starved (spill.h). It
 * pauses whenever none is.
 */
#ifndef TICKWHEEL_ENGINE_RELOAD_H
#define TICKWHEEL_ENGINE_RELOAD_H

#include "engine/engine.h"
#include "engine/entries.h"

struct reload;

struct reload *reload_create(void); /* returns NULL if out of memory */
void reload_destroy(struct reload *reload);

/* Puts a timer that is durable or was just read into the wheel, a dispatch queue, or out of
 * memory. The caller then lets the commands that wait for it continue. */
void reload_settle(struct engine *engine, struct entry *entry);

/* Makes an entry for a timer that was read, or replaces a placeholder. Returns NULL if out of
 * memory; the caller keeps the timer. */
struct entry *reload_take_in(struct engine *engine, struct timer *timer);

/* Takes and settles, or frees, a row of a read ahead. Returns NULL if the timer in memory is
 * newer, or memory is short. */
struct entry *reload_row(struct engine *engine, struct timer *timer);

/* Takes a page of the scan. */
void reload_page(struct engine *engine, struct storage_page *page);

/* Requests the next page of the scan, if needed. Once a turn. */
void reload_read(struct engine *engine);

struct wall reload_wake_at(const struct engine *engine);
void reload_clock_went_back(struct engine *engine);

#endif
