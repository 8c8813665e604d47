/*
 * claims.h - which timer holds a key, and which an Idempotency-Key.
 *
 * At most one live timer holds a key. A repeated Idempotency-Key is answered with the timer of the
 * first request and creates none while that timer is known, also after a crash.
 */
#ifndef TICKWHEEL_SIM_CLAIMS_H
#define TICKWHEEL_SIM_CLAIMS_H

#include "engine/engine.h"

struct world;
struct twin;
struct op;

/* A row of the twin became durable: no other live timer may hold its names. */
void claims_written(struct world *world, const struct twin *twin, bool is_new);

/* The i-th timer of a create, or a put, met the holder of its name: equal to it, or in conflict
 * with it. */
void claims_judge_met(struct world *world, struct op *op, size_t i, enum error_code error);

/* The i-th timer of a create is `made`, or NULL if none was made. If an equal request was matched
 * with this timer, the two are exchanged. */
struct twin *claims_settle(struct world *world, struct op *op, size_t i, const struct twin *made);

/* The i-th timer of a create failed. A row in doubt with equal content may be its row; it does not
 * belong to a request answered with success. */
struct twin *claims_settle_failed(struct world *world, struct op *op, size_t i);

/* The timer that a call by key met; NULL if it met none and none held the key. */
struct twin *claims_judge_named(struct world *world, struct op *op);

#endif
