/*
 * list.h - GET /v1/timers: a page of timers in due order, across partitions.
 *
 * Each partition is asked for the rows from the cursor on; their answers are merged by (at,
 * partition, serial). A partition reads a bounded number of rows and says how far it got, and is
 * asked again until the page is full or LIST_SEARCH_MS are over. The page ends where the first of
 * them stopped, so it may be short and still have a cursor.
 */
#ifndef TICKWHEEL_API_TIMERS_LIST_H
#define TICKWHEEL_API_TIMERS_LIST_H

#include "api/core/call.h"
#include "api/core/cursor.h"
#include "timer/timer_filter.h"

enum {
    LIST_LIMIT_DEFAULT = 100,
    LIST_LIMIT_MAX = 1000,
    LIST_LABELS_MAX = TIMER_FILTER_LABELS_MAX,
    LIST_STATES_MAX = 7,  /* number of states */
    LIST_LASTS_MAX = 4,   /* number of outcomes, with never */
    LIST_SEARCH_MS = 200, /* time after which a page ends that is not full */
};

/* X(NAME, name): orders of schedules. */
#define LIST_SORT_LIST(X)                               \
    X(NEXT, "next")         /* like any list */         \
    X(LAST, "last")         /* the last firing first */ \
    X(FAILURES, "failures") /* most failures in a row first */

enum list_sort {
#define X(name, word) LIST_SORT_##name,
    LIST_SORT_LIST(X)
#undef X
};

/* Query of a list; its texts point into the room of the query. */
struct list_query {
    struct wall after, before; /* after <= due < before */
    uint32_t states;           /* bits 1 << enum timer_state */
    unsigned state_count;
    struct timer_filter filter; /* all but times and states */
    uint64_t limit;
    bool has_cursor;
    struct cursor cursor;
    struct bytes cursor_text; /* of LIST_SCHEDULES: the cursor as sent */
    struct wall began, asked; /* a letter that died after `began`, and not after `asked`, does not
                                 pass; 0 and 0: each passes */
    uint32_t kinds;           /* in LIST_EVENTS: bits 1 << enum feed_kind */
    struct bytes last_event;  /* of LIST_EVENTS */
    bool is_of_all;           /* in LIST_DEAD_TO_DELETE: the query has `all` */
    uint32_t last_count;
    uint32_t last;       /* in LIST_SCHEDULES: bits 1 << enum runs_last; 0 for any */
    enum list_sort sort; /* of LIST_SCHEDULES */
};

/* Calls with such a query. */
enum list_form {
    LIST_TIMERS,      /* has `origin` and `state`; without a state: live timers */
    LIST_DEAD,        /* only dead letters; has `origin` and `error` */
    LIST_DEAD_GROUPS, /* has neither these nor `cursor`; `limit` counts groups */
    LIST_EVENTS,      /* filters of events: has `type` and `last_event_id`, no times, no page */
    /* like LIST_DEAD, and `all` instead of a filter; one of both is required */
    LIST_DEAD_TO_DELETE,
    LIST_SCHEDULES, /* only timers that repeat; has `origin`, `last` and `sort` */
};

/* Reads the query as sent; `room` (text.size bytes) gets its decoded texts. */
enum error_code list_query_parse(struct bytes text, enum list_form form, char *room,
                                 struct list_query *ret_query, struct problem *ret_problem);

/* True if a timer passes the filters. */
bool list_wants(const struct list_query *query, const struct timer *timer);

void list_closed(struct call *call);

/* Lists dead letters. */
void list_end_dead(struct call *call);

/* ---- finding timers without answering with them ---- */

struct list_job;

/* Timers of a page; valid until the job is freed. */
struct list_found {
    enum error_code error;
    const struct timer_id *ids; /* in the order of the list */
    struct timer **timers;      /* copies, in the same order; without LIST_WANTS_TIMERS NULL each */
    size_t count;
    /* the caller's timers before the end of the page, whether they fit the query or not, as far as
     * they were counted */
    size_t passed_count;
    bool has_next;
    struct cursor next; /* where to continue */
};

/* Finds the timers of a page without answering: the call goes on with `resume` (call_resume), which
 * calls list_take_found. The texts of the query must live until then. NULL when out of memory:
 * `resume` is not called. The caller frees the job. */
enum list_want { LIST_WANTS_IDS, LIST_WANTS_TIMERS };
struct list_job *list_find(struct call *call, const struct list_query *query, enum list_want want,
                           void (*resume)(struct call *call));

/* Returns the timers that list_find found. Call it once, when the call is resumed. */
void list_take_found(struct list_job *job, struct list_found *ret_found);

void list_job_free(struct list_job *job);

#endif
