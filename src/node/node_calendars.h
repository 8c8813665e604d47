/*
 * node_calendars.h - the calendars of holidays of the node: those of the setting `calendars`, for
 * all tenants, and those that tenants define.
 *
 * Both make one table, which a board shows to the engines and the API. Names that timers need and
 * that are missing are remembered.
 *
 * Errors     ERROR_INVALID with the reason; ERROR_IO; ERROR_NO_MEMORY: then nothing has changed.
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_NODE_CALENDARS_H
#define TICKWHEEL_NODE_NODE_CALENDARS_H

#include "calendar/absent.h"
#include "calendar/calendars.h"
#include "timer/definitions.h"

#define NODE_CALENDARS_MAX 256 /* maximum of calendars of the setting */

struct node_calendars {
    struct calendars_board board;
    pthread_mutex_t lock; /* guards the fields below */
    struct calendars *files;
    struct definitions *definitions; /* NULL if there are none yet */
    struct absent absent;
};

void node_calendars_init(struct node_calendars *calendars);
void node_calendars_deinit(struct node_calendars *calendars);

/* Reads the files of `setting`, NAME=FILE separated by blanks, and shows them instead of the last
 * ones. */
enum error_code node_calendars_load(struct node_calendars *calendars, const char *setting,
                                    struct error *ret_error);

/* Shows the calendars of these definitions. Those that have not changed are not read again. If
 * memory is short, the table stays as it was. */
void node_calendars_define(struct node_calendars *calendars, struct definitions *definitions);

/* Stores the name of a calendar that a timer needs and that is missing. */
void node_calendars_lack(struct node_calendars *calendars, struct bytes name);

/* Returns the missing names; those that are there now, or no longer needed, are removed. */
void node_calendars_missing(struct node_calendars *calendars, struct absent_names *ret_missing);

/* Forgets the missing names that were not asked for lately. */
void node_calendars_age(struct node_calendars *calendars);

#endif
