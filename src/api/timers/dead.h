/*
 * dead.h - dead letters: timers that ran out of attempts or were refused for good, while they are
 * kept (`retain`). Listing them, and trying them again. GET /v1/timers/{id} shows a single one.
 */
#ifndef TICKWHEEL_API_TIMERS_DEAD_H
#define TICKWHEEL_API_TIMERS_DEAD_H

#include "api/timers/list.h"

void dead_list(struct call *call);

void dead_redrive_begin(struct call *call);
void dead_redrive(struct call *call);
void dead_redrive_closed(struct call *call);

/* What to redrive. */
struct dead_ask {
    struct timer_id *ids; /* the named ones; NULL: those that the query finds */
    size_t id_count;
    struct list_query query; /* points into `room` */
    char *room;
};

#define DEAD_IDS_MAX 1000

/* Reads the body of a redrive. What is no id at all is read as one that never was. On success the
 * caller frees with dead_ask_free. */
enum error_code dead_json_parse(struct bytes json, struct dead_ask *ret_ask,
                                struct problem *ret_problem);
void dead_ask_free(struct dead_ask *ask);

#endif
