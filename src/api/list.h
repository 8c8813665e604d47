/*
 * list.h - GET /v1/timers: a page of timers in due order, across partitions.
 *
 * Each partition is asked for the rows from the cursor on; their answers are merged by (at,
 * partition, serial). A partition reads a bounded number of rows and says how far it got; the page
 * ends where the first of them stopped, so it may be short and still have a cursor.
 */
#ifndef TICKWHEEL_API_LIST_H
#define TICKWHEEL_API_LIST_H

#include "api/call.h"
#include "api/cursor.h"

enum {
    LIST_LIMIT_DEFAULT = 100,
    LIST_LIMIT_MAX = 1000,
    LIST_LABELS_MAX = 16,
};

/* What the query asks for; the labels point into the query's room. */
struct list_query {
    struct wall after, before; /* after <= at < before */
    uint32_t states;           /* bits 1 << enum timer_state */
    struct {
        struct bytes key, value;
    } labels[LIST_LABELS_MAX];
    size_t label_count;
    size_t limit;
    bool has_cursor;
    struct cursor cursor;
};

/* Reads the query as sent; `room` (query.size bytes) keeps what it decodes to. */
enum error_code list_query_parse(struct bytes query, char *room, struct list_query *ret_query,
                                 struct problem *ret_problem);

/* Whether a raw JSON object of strings has the member. */
bool list_labels_have(struct bytes labels, struct bytes key, struct bytes value);

void list_end(struct call *call);
void list_closed(struct call *call);

#endif
