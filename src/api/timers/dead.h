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
    uint64_t rate;     /* timers a second; 0: all at once */
    struct wall paced; /* when the pace goes on, by the cursor; 0: now */
};

#define DEAD_IDS_MAX      1000
#define DEAD_RATE_MAX     1000000
#define DEAD_AHEAD_MS_MAX (UINT64_C(24) * 3600 * 1000) /* a redrive does not begin further ahead */

/* The cursor of a redrive: that of a list, and where its pace goes on when it has one. */
#define DEAD_CURSOR_TEXT_SIZE (CURSOR_TEXT_SIZE + 13)
void dead_cursor_format(const struct cursor *cursor, struct wall paced,
                        char ret_text[DEAD_CURSOR_TEXT_SIZE]);

/* ERROR_INVALID for any text that dead_cursor_format did not write, but for its time. */
enum error_code dead_cursor_parse(struct bytes text, struct cursor *ret_cursor,
                                  struct wall *ret_paced);

/* Reads the body of a redrive. A text that is no id is read as the id of no timer. On success the
 * caller frees with dead_ask_free. */
enum error_code dead_json_parse(struct bytes json, struct dead_ask *ret_ask,
                                struct problem *ret_problem);
void dead_ask_free(struct dead_ask *ask);

#endif
