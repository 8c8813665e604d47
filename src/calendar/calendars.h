/*
 * calendars.h - the calendars of holidays that schedules can name: those of all tenants, from
 * files, and each tenant's own.
 *
 *     calendars = calendars_board_take(&board);
 *     days = calendars_find(calendars, BYTES("acme"), BYTES("de"));
 *     calendars_leave(calendars);
 *
 * A table never changes: a change makes another one, so a reader that holds one needs no lock.
 *
 * Errors     ERROR_NO_MEMORY.
 * Ownership  A table belongs to its holders; the last one that leaves frees it. It holds its
 *            calendars, and copies its texts.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CALENDAR_CALENDARS_H
#define TICKWHEEL_CALENDAR_CALENDARS_H

#include "calendar/holidays.h"

#include <pthread.h>
#include <stdatomic.h>

struct calendars_row {
    bool is_shared;      /* of all tenants; then `owner` is empty */
    struct bytes owner;  /* tenant; empty for the unnamed one, too */
    struct bytes name;   /* dates_is_name */
    struct bytes source; /* file from which it was read; empty for a tenant's own */
    uint64_t version;    /* of the tenant's definition; 0 for a file */
    struct holidays *days;
};

struct calendars {
    size_t count;
    atomic_uint holders_;
    struct calendars_row rows[]; /* sorted; their texts are stored after them */
};

/* Makes a table of the rows; their order is changed. */
enum error_code calendars_create(struct calendars_row *rows, size_t count,
                                 struct calendars **ret_calendars);

/* Adds a holder. calendars_leave removes one; NULL has no effect. */
struct calendars *calendars_hold(struct calendars *calendars);
void calendars_leave(struct calendars *calendars);

/* Returns the row of the tenant's own calendar, otherwise that of all tenants; NULL if there is
 * neither. `calendars` may be NULL. O(log rows). */
const struct calendars_row *calendars_find(const struct calendars *calendars, struct bytes owner,
                                           struct bytes name);

/* ---- the board ---- */

/* Publishes the current table to other threads. */
struct calendars_board {
    pthread_mutex_t lock_;
    struct calendars *current_;
    _Atomic uint64_t version; /* incremented with each table; 0 before the first */
};

void calendars_board_init(struct calendars_board *board);
void calendars_board_deinit(struct calendars_board *board);

/* Publishes the table, and becomes its holder. */
void calendars_board_show(struct calendars_board *board, struct calendars *calendars);

/* Makes the caller a holder of the current table. Returns NULL if there is none. */
struct calendars *calendars_board_take(struct calendars_board *board);

#endif
