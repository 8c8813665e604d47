/*
 * source_rows.h - turns rows of a source into commands of the engine, each of which takes effect
 * once (engine/ledger.h).
 *
 *     source_rows_begin(rows, incarnation, epoch, &taken, &count);   a new reader
 *     ... the source deletes the rows of `taken`, which an earlier reader has taken ...
 *     for (;;) {
 *         ... the source reads a batch ...
 *         source_rows_take(rows, batch, count);
 *         ... the source deletes the rows that are SOURCE_ROW_DONE or SOURCE_ROW_REFUSED ...
 *     }
 *
 * A source that cannot delete its rows for sure before it reads others has no ledger: it calls no
 * source_rows_begin, and gives its rows a `request`.
 *
 * Rows of one key are taken one after another, in the order of the batch. A row that completes an
 * event is taken alone, after all before it.
 *
 * Errors     ERROR_STOPPING after source_rows_stop. ERROR_VERSION_MISMATCH if a later reader has
 *            begun. ERROR_IN_DOUBT if the node does not know whether a row took effect: then begin
 *            again with a higher epoch. Others are passing.
 * Ownership  Texts of a row are borrowed until source_rows_take returns.
 * Threads    One reader; source_rows_stop from any.
 */
#ifndef TICKWHEEL_SOURCE_SOURCE_ROWS_H
#define TICKWHEEL_SOURCE_SOURCE_ROWS_H

#include "api/json/timer_json.h"
#include "node/node.h"
#include "ops/tokens.h"

#include <stdatomic.h>

enum source_op { SOURCE_SCHEDULE, SOURCE_PUT, SOURCE_CANCEL, SOURCE_TOUCH, SOURCE_COMPLETE };

enum source_row_state {
    SOURCE_ROW_NEW,
    SOURCE_ROW_DONE,
    SOURCE_ROW_REFUSED,   /* for good; `problem` says why */
    SOURCE_ROW_POSTPONED, /* no effect: the node has no room; a later batch is to have it again */
};

struct source_row {
    /* not 0, unlike those of all other rows of the source, and rising in each key */
    uint64_t number;
    enum source_op op;
    struct bytes key; /* COMPLETE: the event; empty if there is none */
    struct bytes body;
    /* Idempotency-Key of a timer that is made: a row that comes again with it has no further
     * effect. Empty without one */
    struct bytes request;
    bool is_too_large; /* the source left the body out */
    /* the answer */
    enum source_row_state state;
    struct buffer problem; /* REFUSED: JSON; the caller frees it */
};

struct source_rows_options {
    struct node *node;
    const struct config *config;
    struct bytes tenant; /* tenant of all rows; borrowed */
    enum error_code (*target_check)(void *context, struct bytes tenant, struct bytes text,
                                    const struct target *target, struct error *ret_error);
    void *target_context;
    /* sets the limits of the tenant, or leaves them; called by the reader */
    void (*tenant_limits)(void *context, struct bytes tenant, struct tenant_limits *limits);
    void *limits_context;
};

struct source_rows;

struct source_rows *source_rows_create(const struct source_rows_options *options);
void source_rows_destroy(struct source_rows *rows);

/* A row that an earlier reader has taken. `error` is why it was refused, NONE if it was not. */
struct source_taken {
    uint64_t number;
    enum error_code error;
};

/* Begins the epoch of this reader. The source is known by `incarnation`, not 0. The caller frees
 * `ret_taken` with free(). */
enum error_code source_rows_begin(struct source_rows *rows, uint64_t incarnation, uint64_t epoch,
                                  struct source_taken **ret_taken, size_t *ret_count);

/* Checks whether a timer of the source may have this target. ERROR_INVALID has the reason. */
enum error_code source_rows_check_target(const struct source_rows *rows, struct bytes text,
                                         struct error *ret_error);

/* Takes rows, and sets the state of each. After an error some may be NEW, although they have taken
 * effect. */
enum error_code source_rows_take(struct source_rows *rows, struct source_row *batch, size_t count);

/* Appends the problem of a refused row. */
void source_rows_append_problem(enum error_code error, struct buffer *out);

/* Makes source_rows_begin and source_rows_take return soon. */
void source_rows_stop(struct source_rows *rows);
bool source_rows_is_stopping(const struct source_rows *rows);

/* Descriptor that is readable after source_rows_stop, for poll. */
int source_rows_fd(const struct source_rows *rows);

#endif
