/*
 * list.h - GET /v1/timers: a page of timers in due order, across partitions.
 *
 * Each partition is asked for the rows from the cursor on; their answers are merged by (at,
 * partition, serial). A partition reads a bounded number of rows and says how far it got; the page
 * ends where the first of them stopped, so it may be short and still have a cursor.
 */
#ifndef TICKWHEEL_API_TIMERS_LIST_H
#define TICKWHEEL_API_TIMERS_LIST_H

#include "api/core/call.h"
#include "api/core/cursor.h"

enum {
    LIST_LIMIT_DEFAULT = 100,
    LIST_LIMIT_MAX = 1000,
    LIST_LABELS_MAX = 16,
    LIST_STATES_MAX = 6, /* as many as there are */
};

/* What the query asks for; the labels point into the query's room. */
struct list_query {
    struct wall after, before; /* after <= at < before */
    uint32_t states;           /* bits 1 << enum timer_state */
    unsigned state_count;
    struct {
        struct bytes key, value;
    } labels[LIST_LABELS_MAX];
    size_t label_count;
    struct bytes target; /* data NULL: any */
    size_t limit;
    bool has_cursor;
    struct cursor cursor;
};

/* Reads the query as sent; `room` (query.size bytes) keeps what it decodes to. With `states` other
 * than 0 it may not name any. */
enum error_code list_query_parse(struct bytes query, uint32_t states, char *room,
                                 struct list_query *ret_query, struct problem *ret_problem);

void list_end(struct call *call);
void list_closed(struct call *call);

/* The same for timers in these states only; the query must not name any. */
void list_end_of(struct call *call, uint32_t states);

/* ---- for those who do something with what is found ---- */

struct list_job;

/* What a page found; valid during the call, on the node's thread. */
struct list_found {
    enum error_code error;
    const struct timer_id *ids; /* in the order of the list */
    size_t count;
    bool has_next;
    struct cursor next; /* where to go on */
};

/* Looks for the timers of a page instead of answering with it: `found` is called once, perhaps
 * before this returns. What the query points to must live until then. NULL when out of memory: then
 * it is not called. The job is the caller's to free after `found`. */
struct list_job *list_find(struct call *call, const struct list_query *query,
                           void (*found)(struct call *call, const struct list_found *found));
void list_job_free(struct list_job *job);

#endif
