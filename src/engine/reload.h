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

struct reload *reload_create(void); /* NULL when out of memory */
void reload_destroy(struct reload *reload);

/* Puts a timer that is durable, or was just read, where it belongs: into the wheel, a dispatch
 * queue, or out of memory. The commands that wait for it are the caller's to let go on. */
void reload_settle(struct engine *engine, struct entry *entry);

/* Takes a timer that was read into memory: a new entry, or in place of a placeholder. NULL, and it
 * is still the caller's: no memory. */
struct entry *reload_take_in(struct engine *engine, struct timer *timer);

/* A row that a read ahead brought: takes it in and settles it, or frees it. NULL: the timer in
 * memory is newer, or there is no memory. */
struct entry *reload_row(struct engine *engine, struct timer *timer);

/* A page of the scan is back. */
void reload_page(struct engine *engine, struct storage_page *page);

/* Once a turn: asks for the next page of the scan, if one is wanted. */
void reload_read(struct engine *engine);

struct wall reload_wake_at(const struct engine *engine);
void reload_clock_went_back(struct engine *engine);

#endif
