/*
 * ending.h - the end of an engine whose process dies, or whose node owns the partition no longer:
 * what is out comes back as failed, so that its memory can be freed, and nobody hears its answers.
 */
#ifndef TICKWHEEL_WORLD_ENDING_H
#define TICKWHEEL_WORLD_ENDING_H

#include "engine/engine.h"

void ending_drop_replies(struct engine *engine);

/* Give the batch, or the read, back as failed. */
void ending_fail_batch(struct engine *engine, struct storage_batch *batch, struct wall now);
void ending_fail_read(struct engine *engine, struct engine_read *read, struct wall now);

/* Fails what the engine still wants to do, until it wants nothing. */
void ending_exhaust(struct engine *engine, struct wall now);

#endif
