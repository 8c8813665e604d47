/*
 * claims.h - who has a name: the keys that clients give, and their Idempotency-Keys.
 *
 * A key is held by one timer at most while that lives. A repeated Idempotency-Key is answered with
 * what the first request made, and makes nothing, as long as that is known; after a crash too.
 */
#ifndef TICKWHEEL_SIM_CLAIMS_H
#define TICKWHEEL_SIM_CLAIMS_H

#include "engine/engine.h"

struct world;
struct twin;
struct op;

/* A row of the twin became durable: nobody else may have its names. */
void claims_written(struct world *world, const struct twin *twin, bool is_new);

/* The i-th timer of a create, or a put, met the one that has its name: it was there, or is in the
 * way. */
void claims_judge_met(struct world *world, struct op *op, size_t i, enum error_code error);

/* The i-th timer of a create is `made`, or was not made when that is NULL. Of several requests that
 * asked for the same another one may have been taken for it: then they change places. */
struct twin *claims_settle(struct world *world, struct op *op, size_t i, const struct twin *made);

/* The same for one that failed. If there is a row in doubt that is as it should have been, it may
 * as well be this one's: it is not that of whoever is told of success. */
struct twin *claims_settle_failed(struct world *world, struct op *op, size_t i);

/* Whom a call by key met; NULL when it met nobody, and then that was right. */
struct twin *claims_judge_named(struct world *world, struct op *op);

#endif
