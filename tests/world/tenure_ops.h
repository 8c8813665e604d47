/*
 * tenure_ops.h - clients of the owner in a run of several nodes: what they ask of its engine, and
 * what an answer proves.
 *
 * The contents and the kinds of calls are those of the clients of one node (client.h), with dues
 * that are near. A client knows a timer by its row in the owner's storage.
 */
#ifndef TICKWHEEL_WORLD_TENURE_OPS_H
#define TICKWHEEL_WORLD_TENURE_OPS_H

#include "client.h"
#include "truth.h"

/* Draws a call on the owner of this storage. Returns NULL if there is nothing to ask. The caller
 * submits it to the engine. */
struct op *tenure_ops_draw(struct world *world, struct truth *truth, struct storage *storage);

/* Judges an answer of the owner of this epoch, which is 0 while the owner may not act. Then it
 * gives only answers that a commit proves. */
void tenure_ops_judge(struct world *world, struct truth *truth, const struct op *op,
                      uint64_t epoch);

/* Frees a call. The engine that had taken it is gone, or has answered it. */
void tenure_ops_free(struct op *op);

#endif
