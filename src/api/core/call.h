/*
 * call.h - one request in the eyes of the API: its route, its body, what it asks of the node.
 *
 * Ownership  A call is the server's request's: made when its head is there, freed when it is
 *            closed. Answering gives it away: it is not touched afterwards.
 * Threads    One at a time; the node's thread answers, or resumes, while the server's thread is
 *            done with it (http/server.h).
 */
#ifndef TICKWHEEL_API_CORE_CALL_H
#define TICKWHEEL_API_CORE_CALL_H

#include "api/core/route.h"
#include "api/core/shared.h"
#include "base/trace.h"
#include "http/server.h"
#include "http/target.h"

#define CALL_SMALL_BODY_BYTES (16u << 10) /* of a body that is not counted */

struct call {
    struct api *api;
    struct http_request *http;
    const struct route *route;
    struct caller caller;   /* whose timers it may see; valid from the route's `begin` on */
    size_t body_bytes_max;  /* the same */
    struct bytes parameter; /* the decoded {id} or {name} of the path; data NULL without one */
    char parameter_text[ROUTE_PARAMETER_SIZE];
    struct bytes query;    /* as sent */
    struct buffer body;    /* collected by call_collect */
    size_t body_counted;   /* how much of it stands in api.bodies_bytes */
    size_t answer_counted; /* what stands in api.answers_bytes for the answer */
    void *state;           /* the route's own */

    /* For routes that ask the node one thing. */
    struct node_request node;
    struct timer_id id;
    struct timer *timer;
    struct command_created created;
};

/* ---- answering; each but the first gives the call away ---- */

/* The common headers of an error: Retry-After where trying again makes sense. */
void call_error_headers(struct http_response *response, enum error_code code);

/* Sends `response` and counts it. What it takes is counted until the client has read it. */
void call_answer(struct call *call, struct http_response *response);

/* Whether so much waits to be read by clients already that an answer which may be large, and can be
 * asked for again, is refused with 503. */
bool call_refuses_large_answer(struct call *call);

/* Takes the body. */
void call_answer_json(struct call *call, int status, struct buffer *body);

void call_answer_problem(struct call *call, const struct problem *problem);
/* The same, with headers that `response` has already. */
void call_answer_refusal(struct call *call, const struct problem *problem,
                         struct http_response *response);

void call_answer_error(struct call *call, enum error_code code, const char *detail);

/* 200 or 201 with the timer and its ETag, or what was wrong; GONE shows the timer's final state,
 * KEY_IN_USE the timer that has the key. */
void call_answer_timer(struct call *call, int status, enum error_code error,
                       const struct timer *timer);

/* ---- bodies ---- */

/* Refuses with 413 what is announced as larger than `bytes_max`. True: answered. */
bool call_refuses_length(struct call *call, uint64_t bytes_max);

/* The same with call->body_bytes_max. */
bool call_refuses_body(struct call *call);

/* Refuses with 415 every content type but `type` and, unless NULL, `other`. True: answered. */
bool call_refuses_type(struct call *call, const char *type, const char *other);

/* A route's `body`: keeps it in call->body, at most call->body_bytes_max. */
size_t call_collect(struct call *call, struct bytes chunk);

/* ---- traces ---- */

/* The traceparent of the request, in its usual form; empty when it has none, several, or one that
 * is none: by W3C Trace Context that is ignored. */
struct bytes call_trace(struct call *call, char ret_text[TRACE_PARENT_SIZE + 1]);

/* ---- the node ---- */

/* What is accepted of a timer that the caller makes: theirs. */
struct timer_json_limits call_timer_limits(const struct call *call);

/* Hands a request to the node in the caller's name: what is not theirs is not there. The same
 * answers as those of node_submit; nobody else in this folder calls that. */
enum error_code call_ask(struct call *call, struct node_request *request);

/* Submits call->node, answered through `done`; on refusal answers itself and returns the reason. */
enum error_code call_submit(struct call *call, void (*done)(struct node_request *request));

static inline struct call *call_of(struct node_request *request)
{
    return list_item(request, struct call, node);
}

#endif
