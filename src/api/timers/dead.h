/*
 * dead.h - dead letters: timers that ran out of attempts or were refused for good, while they are
 * kept (`dead_retain`). Lists, redrives and deletes them. GET /v1/timers/{id} shows a single one.
 */
#ifndef TICKWHEEL_API_TIMERS_DEAD_H
#define TICKWHEEL_API_TIMERS_DEAD_H

#include "api/timers/list.h"

void dead_list(struct call *call);

void dead_redrive(struct call *call);

void dead_delete(struct call *call);
void dead_delete_many(struct call *call);

/* Frees the state of a redrive, or of a delete of many. */
void dead_job_closed(struct call *call);

/* The dead letters to redrive or to delete. */
struct dead_ask {
    struct timer_id *ids; /* the ids; NULL: those that the query finds */
    size_t id_count;
    struct list_query query; /* points into `room` */
    char *room;
};

#define DEAD_IDS_MAX 1000

/* Reads the body of a redrive. A text that is no id is read as the id of no timer. On success the
 * caller frees with dead_ask_free. */
enum error_code dead_json_parse(struct bytes json, struct dead_ask *ret_ask,
                                struct problem *ret_problem);
void dead_ask_free(struct dead_ask *ask);

#endif
