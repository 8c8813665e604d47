/*
 * rowop.h - the row operations of one storage_batch, as the log keeps them: rows to put, to delete
 * and to touch, by table.
 *
 * The form belongs to no database. Operations are absolute: applying them again does no harm, as
 * long as all operations behind them are applied again, too.
 *
 * Body       version 1, operations, CRC-32C 4; sizes in bytes
 * Operation  16 * kind + table 1; size of the key 1, of the value 4; key; value
 *
 *     size_t begin = rowop_begin(&buffer);
 *     size_t value = rowop_put(&buffer, ROWOP_PUT, ROWOP_TIMERS, key);
 *     ... append the value to the buffer ...
 *     rowop_put_end(&buffer, value);
 *     rowop_end(&buffer, begin);
 *
 *     struct rowop op;
 *     if (rowop_open(&body))
 *         while (rowop_next(&body, &op)) ...
 *
 * Ownership  An operation that is read borrows from the body.
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_STORE_ROWOP_H
#define TICKWHEEL_STORE_ROWOP_H

#include "base/bytes.h"

#define ROWOP_KEY_SIZE_MAX 255

enum rowop_kind {
    ROWOP_PUT,          /* the row becomes `value` */
    ROWOP_DELETE,       /* the row is deleted; no value */
    ROWOP_TOUCH,        /* `value` is a touch of the row (record.h) */
    ROWOP_DELETE_RANGE, /* deletes the rows from `key` up to the key `value`, which is excluded */
    ROWOP_KIND_COUNT
};

enum rowop_table { /* docs/storage.md says what they are for */
                   ROWOP_META,
                   ROWOP_TIMERS,
                   ROWOP_MOVED,
                   ROWOP_NAMES,
                   ROWOP_TABLE_COUNT
};

struct rowop {
    enum rowop_kind kind;
    enum rowop_table table;
    struct bytes key, value;
};

/* Begins a body at the end of the buffer. Returns its offset for rowop_end. */
size_t rowop_begin(struct buffer *to);

/* Appends a PUT or a TOUCH without its value, which the caller appends. Returns the argument of
 * rowop_put_end. */
size_t rowop_put(struct buffer *to, enum rowop_kind kind, enum rowop_table table, struct bytes key);
void rowop_put_end(struct buffer *to, size_t value);

void rowop_delete(struct buffer *to, enum rowop_table table, struct bytes key);
void rowop_delete_range(struct buffer *to, enum rowop_table table, struct bytes from,
                        struct bytes before);

/* Appends the checksum. */
void rowop_end(struct buffer *to, size_t begin);

/* Returns the operations of a body that is known to be intact. */
struct bytes rowop_ops(struct bytes body);

/* Checks a whole body, and removes its head and checksum. Returns false if it is damaged or of
 * another version. */
bool rowop_open(struct bytes *body);

/* Reads the next operation of an opened body. Returns false at its end. */
bool rowop_next(struct bytes *body, struct rowop *ret_op);

#endif
