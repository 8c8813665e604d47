/*
 * named_rows.h - tables of rows that tenants name, and the board that shows the latest ones: what
 * target_pauses.h and definitions.h have in common.
 *
 *     static const struct named_rows_form form = {...};
 *     code = named_rows_change(&form, table, &edit, &next);    a table with one row more or less
 *     named_board_show(&board, 0, next);                       readers find it from now on
 *
 * A table never changes: each change makes another one, so a reader that holds one needs no lock.
 *
 * A module that stands on this one names the members of both structures as it likes, keeps their
 * layout, and casts. Rows are sorted by tenant and name; their texts are stored after them.
 *
 * Errors     TOO_MANY beyond a limit, NO_MEMORY, CORRUPT of bytes that named_rows_encode did not
 *            write: then nothing was made.
 * Ownership  A table belongs to its holders; the last one that leaves frees it. Texts are borrowed
 *            and copied.
 * Threads    Any.
 */
#ifndef TICKWHEEL_TIMER_NAMED_ROWS_H
#define TICKWHEEL_TIMER_NAMED_ROWS_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"

#include <pthread.h>
#include <stdatomic.h>

struct named_row {
    struct bytes tenant, name, text;
    struct wall since;
    uint64_t number; /* its meaning is that of the module */
};

struct named_rows {
    size_t count;
    atomic_uint holders_;
    struct named_row rows[];
};

/* How the tables of a module differ from those of others. */
struct named_rows_form {
    char mark[8];     /* first bytes of an encoded table */
    size_t text_size; /* size of the field for the size of a text, in bytes */
    size_t name_max, text_max;
    size_t rows_max;
    size_t rows_tenant_max;  /* maximum of rows of a tenant whose names begin alike */
    size_t group_size;       /* number of bytes by which names begin alike */
    size_t texts_tenant_max; /* maximum of bytes of a tenant's texts */
    /* True if a decoded row can be in a table; its sizes are within the limits. */
    bool (*is_valid)(const struct named_row *row);
    /* True if a change keeps the row. */
    bool (*is_kept)(const struct named_row *row, struct wall now);
};

/* Replaces the row of this tenant and name by `put`, or removes it if `put` is NULL. */
struct named_rows_edit {
    struct wall now;
    struct bytes tenant, name;
    const struct named_row *put;
};

/* Makes a table without rows; NULL if out of memory. Like every new table it has one holder. */
struct named_rows *named_rows_create(void);

/* Adds a holder. named_rows_leave removes one, and wipes and frees the table after the last. */
void named_rows_hold(struct named_rows *table);
void named_rows_leave(struct named_rows *table); /* NULL has no effect */

/* Returns the index of the first row that is not before the name in the order. O(log rows). */
size_t named_rows_place(const struct named_rows *table, struct bytes tenant, struct bytes name);

/* Returns the row with this name; NULL if there is none. */
const struct named_row *named_rows_find(const struct named_rows *table, struct bytes tenant,
                                        struct bytes name);

/* Makes a table with the rows of both. Of two rows with one name it has that of `over`. Checks no
 * limit. NULL if out of memory. */
struct named_rows *named_rows_join(const struct named_rows *under, const struct named_rows *over);

/* Makes a table with the change. */
enum error_code named_rows_change(const struct named_rows_form *form,
                                  const struct named_rows *table,
                                  const struct named_rows_edit *edit,
                                  struct named_rows **ret_table);

/* Appends the encoded table; buffer_failed tells if memory ran out. */
void named_rows_encode(const struct named_rows_form *form, const struct named_rows *table,
                       struct buffer *out);
enum error_code named_rows_decode(const struct named_rows_form *form, struct bytes bytes,
                                  struct named_rows **ret_table);

/* ---- the board ---- */

enum { NAMED_BOARD_TABLES = 2 };

/* Publishes the current tables to other threads. */
struct named_board {
    pthread_mutex_t lock_;
    struct named_rows *tables_[NAMED_BOARD_TABLES]; /* NULL before the first one */
    /* incremented with each table; 0 before the first */
    _Atomic uint64_t version;
};

void named_board_init(struct named_board *board);
void named_board_deinit(struct named_board *board);

/* Publishes the table, and becomes its holder. */
void named_board_show(struct named_board *board, size_t index, struct named_rows *table);

/* Makes the caller a holder of the current table. Returns NULL if there is none. */
struct named_rows *named_board_take(struct named_board *board, size_t index, uint64_t *ret_version);

#endif
