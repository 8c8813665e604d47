/*
 * call.h - one request in the eyes of the API: its route, its body, what it asks of the node.
 *
 * Ownership  A call is the server's request's: made when its head is there, freed when it is
 *            closed. Answering gives it away: it is not touched afterwards.
 * Threads    One at a time; the node's thread answers, or resumes, while the server's thread is
 *            done with it (http/server.h).
 */
#ifndef TICKWHEEL_API_CALL_H
#define TICKWHEEL_API_CALL_H

#include "api/api.h"
#include "api/problem.h"
#include "api/timer_json.h"
#include "http/server.h"
#include "http/target.h"

#include <pthread.h>
#include <stdatomic.h>

#define CALL_PARAMETER_SIZE 64 /* the longest {id} that is looked at */

/* What all requests under way may take together. */
struct api_budget {
    size_t bodies_bytes_max;  /* memory for bodies, but those of batches */
    size_t answers_bytes_max; /* memory for the answers of batches */
    size_t batches_max;       /* batches at a time */
};

#define API_BUDGET_DEFAULT ((struct api_budget){256 << 20, 512 << 20, 256})

struct api {
    struct api_options options;
    struct timer_json_limits limits;
    struct http_server *server;
    struct api_budget budget;
    _Atomic size_t bodies_bytes, answers_bytes; /* against the budget */
    pthread_mutex_t lock;
    pthread_cond_t batch_ended;
    size_t batches; /* guarded by lock; they may outlive their requests */
};

struct call {
    struct api *api;
    struct http_request *http;
    const struct route *route;
    struct bytes parameter; /* the decoded {id} of the path; data NULL without one */
    char parameter_text[CALL_PARAMETER_SIZE];
    struct bytes query;  /* as sent */
    struct buffer body;  /* collected by call_collect */
    size_t body_counted; /* how much of it stands in api.bodies_bytes */
    void *state;         /* the route's own */

    /* For routes that ask the node one thing. */
    struct node_request node;
    struct timer_id id;
    struct timer *timer;
    struct command_created created;
};

/* What a route does at the steps of a request (http/server.h). */
struct route {
    const char *method;
    const char *path; /* "/v1/timers/{id}" */
    enum metric_route metric;
    void (*begin)(struct call *call); /* looks at the head, may answer; NULL: nothing to look at */
    size_t (*body)(struct call *call, struct bytes chunk); /* NULL: the body is ignored */
    void (*end)(struct call *call);
    void (*resumed)(struct call *call); /* NULL: never resumes */
    void (*closed)(struct call *call);  /* frees `state`; NULL: nothing to free */
};

/* ---- answering; each but the first gives the call away ---- */

/* The common headers of an error: Retry-After where trying again makes sense. */
void call_error_headers(struct http_response *response, enum error_code code);

/* Sends `response` and counts it. */
void call_answer(struct call *call, struct http_response *response);

/* Takes the body. */
void call_answer_json(struct call *call, int status, struct buffer *body);

void call_answer_problem(struct call *call, const struct problem *problem);
void call_answer_error(struct call *call, enum error_code code, const char *detail);

/* 200 or 201 with the timer and its ETag, or what was wrong; GONE shows the timer's final state. */
void call_answer_timer(struct call *call, int status, enum error_code error,
                       const struct timer *timer);

/* ---- bodies ---- */

/* Refuses with 413 what is announced as larger than `bytes_max`. True: answered. */
bool call_refuses_length(struct call *call, uint64_t bytes_max);

/* Refuses with 415 every content type but `type` and, unless NULL, `other`. True: answered. */
bool call_refuses_type(struct call *call, const char *type, const char *other);

/* A route's `body`: keeps it in call->body, at most `config.body_bytes_max`. */
size_t call_collect(struct call *call, struct bytes chunk);

/* ---- batches ---- */

/* Makes room for one more. False: there are as many as may be. */
bool api_enter_batch(struct api *api);
void api_leave_batch(struct api *api);

/* ---- the node ---- */

/* Submits call->node, answered through `done`; on refusal answers itself and returns the reason. */
enum error_code call_submit(struct call *call, void (*done)(struct node_request *request));

static inline struct call *call_of(struct node_request *request)
{
    return list_item(request, struct call, node);
}

#endif
