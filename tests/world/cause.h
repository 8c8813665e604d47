/*
 * cause.h - matches each row that only a request can explain with one request, and each answer with
 * its rows.
 *
 * When such a row becomes durable, one request in flight gets the credit; often another could have
 * made an equal row. An answer decides: a request answered with success takes the credit from a
 * request that can spare it, a refused request gives its credit away. At the end each credit must
 * have its answer, and each answer its credits.
 */
#ifndef TICKWHEEL_WORLD_CAUSE_H
#define TICKWHEEL_WORLD_CAUSE_H

#include "engine/engine.h"
#include "model.h"

struct world;
struct op;

enum { CAUSES_MAX = 16 };

struct credit {
    struct twin *twin;
    uint32_t version;
    struct op *by;
    struct op *others[CAUSES_MAX]; /* further candidates */
    uint32_t other_count;
    bool is_marked; /* whether this search has looked at it */
};

struct causes {
    struct credit *credits; /* credits that are not decided yet */
    size_t count, capacity;
    struct op *nobody; /* stands for the engine, which needs no request for a row */
};

void causes_init(struct causes *causes);
void causes_deinit(struct causes *causes);

/* True if a request in flight made `timer` of the twin's row. Then that request has the credit, and
 * `ret_content` is the content of the row. */
bool cause_find(struct world *world, struct twin *twin, const struct timer *timer,
                struct content *ret_content);

/* True if a cancel or a redrive of `parent` in flight made `timer` of the row of its part, whose
 * content is then `ret_content`. Nobody gets a credit. */
bool cause_by_parent(const struct world *world, const struct twin *parent, const struct twin *part,
                     const struct timer *timer, struct content *ret_content);

/* Notes that the row that was found last may also have been made without a request. */
void cause_may_be_nobody(struct causes *causes);

/* True if the request may be about this timer, as its row is now. */
bool cause_is_about(const struct op *op, const struct twin *twin);

/* Handles an answer that says that the request made this version of the twin. Returns false if that
 * is impossible. */
bool cause_claim(struct world *world, struct op *op, const struct twin *twin, uint32_t version);

/* Handles an answer that says how many rows the request made. Returns false if that count is
 * impossible. */
bool cause_claim_count(struct world *world, struct op *op, uint64_t count);

/* Handles the end of a request: drops the candidates that are decided. */
void cause_end(struct world *world);

#endif
