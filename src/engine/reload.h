/*
 * reload.h - takes rows into memory, settles their timers where they belong, and runs the scan that
 * reloads spilled timers as soon as their dispatch queue has room.
 *
 * The reload scan reads after the frontier, page by page, while a queue is starved (spill.h).
 * Otherwise it pauses.
 */
#ifndef TICKWHEEL_ENGINE_RELOAD_H
#define TICKWHEEL_ENGINE_RELOAD_H

#include "engine/engine.h"
#include "engine/entries.h"

struct reload;

struct reload *reload_create(void); /* returns NULL if out of memory */
void reload_destroy(struct reload *reload);

/* Puts a timer that is durable or was just read into the wheel or a dispatch queue, or makes it
 * EVICTABLE. The caller then resumes the commands that wait for it. */
void reload_settle(struct engine *engine, struct entry *entry);

/* Makes an entry for a timer that was read, or replaces the placeholder in its entry. Returns NULL
 * if out of memory; then the caller still owns the timer. */
struct entry *reload_take_in(struct engine *engine, struct timer *timer);

/* Takes a row of a read ahead and settles its timer. Frees the row and returns NULL if the timer in
 * memory is newer, or memory is short. */
struct entry *reload_row(struct engine *engine, struct timer *timer);

/* Handles a page of the reload scan. */
void reload_page(struct engine *engine, struct storage_page *page);

/* Requests the next page of the reload scan, if one is needed. Called once a turn. */
void reload_read(struct engine *engine);

struct wall reload_wake_at(const struct engine *engine);
void reload_clock_went_back(struct engine *engine);

#endif
