/*
 * call.h - one HTTP request: its route, caller and body, its answer, and its request to the node.
 *
 * Ownership  A call belongs to the HTTP request: created with its head, freed when it is closed.
 *            After an answer the call is not touched.
 * Threads    The call is the HTTP worker's that owns its connection. A reply of the node comes on
 *            a shard's thread, which only copies from it what the answer shows and calls
 *            call_resume: the worker turns it into JSON.
 */
#ifndef TICKWHEEL_API_CORE_CALL_H
#define TICKWHEEL_API_CORE_CALL_H

#include "api/core/route.h"
#include "api/core/shared.h"
#include "base/trace.h"
#include "http/server.h"
#include "http/target.h"

#define CALL_SMALL_BODY_BYTES (16u << 10) /* a body up to this size is not counted */

struct call {
    struct api *api;
    struct http_request *http;
    const struct route *route;
    struct caller caller;   /* the tenant; valid from the route's `begin` on */
    size_t body_bytes_max;  /* also; the setting, or less for the tenant */
    struct bytes parameter; /* the decoded {id} or {name} of the path; data NULL without one */
    char parameter_text[ROUTE_PARAMETER_SIZE];
    struct bytes query;        /* as sent */
    struct trace_parent trace; /* of the request; all 0: none */
    struct buffer body;        /* collected by call_collect */
    size_t body_counted;       /* bytes of the body that are counted in api.bodies */
    size_t answer_counted;     /* bytes of the answer that are counted in api.answers */
    struct tenant_pot_share *body_share, *answer_share; /* where; NULL if nothing is counted */
    void *state;                                        /* the route's own */
    struct list held_link; /* in api.held: long-lived calls; alone in a list if it is none */
    void (*recheck)(struct call *call); /* set by call_hold */
    void (*resume)(struct call *call);  /* set by call_resume: how the worker goes on; or NULL */

    /* For routes that ask the node one thing. */
    struct node_request node;
    void (*answer)(struct node_request *request); /* call_submit's */
    struct timer *shown;                          /* a copy of the timer in the reply, or NULL */
    struct timer_id id;
    struct timer *timer;
    struct timer *unclaimed; /* to be created once its claim (name.h) is durable; or NULL */
    struct command_created created;
    bool is_after_bare;   /* `after` was a number that looks like seconds */
    bool must_exist;      /* a PUT with If-Match */
    uint32_t if_version;  /* of a PUT, or a PATCH that depends on its timer: If-Match, or 0 */
    unsigned patch_tries; /* and how often another request changed the timer meanwhile */
};

/* ---- answering; each but the first two gives the call away ---- */

/* Counts a request that was refused, or timers of a batch. */
void call_count_refusal(struct metrics *metrics, enum error_code code);

/* Adds the headers that each error has: Retry-After where a repetition may succeed. */
void call_error_headers(struct http_response *response, enum error_code code);

/* Sends `response`. Its memory is counted until the client has read the answer. */
void call_answer(struct call *call, struct http_response *response);

/* Sends the head of `response`, and then what the route's `streamed` gives. */
void call_stream(struct call *call, struct http_response *response);

/* Refuses with 503 an answer that may be large and can be asked for again, while the answers that
 * clients have not read are over their limit. True: answered. */
bool call_refuses_large_answer(struct call *call);

/* In a cluster, appends the member `node`: the number of this node, which answers. */
void call_put_node(const struct call *call, struct buffer *out);

/* Answers with a body, and takes it. */
void call_answer_json(struct call *call, int status, struct buffer *body);

void call_answer_problem(struct call *call, const struct problem *problem);
/* Answers with a problem, keeping the headers that `response` has already. */
void call_answer_refusal(struct call *call, const struct problem *problem,
                         struct http_response *response);

void call_answer_error(struct call *call, enum error_code code, const char *detail);

/* The problem of an error of the node. TOO_MANY names the limits of live timers; the node does not
 * say which one is reached. */
void call_describe_error(const struct api *api, const struct caller *caller, enum error_code code,
                         struct problem *ret_problem);

/* Answers 200 or 201 with the timer and its ETag, or with a problem. A 201 that repeats the answer
 * of an earlier request says so in a header. GONE shows the timer's final state, KEY_IN_USE the
 * timer that has the key. */
void call_answer_timer(struct call *call, int status, enum error_code error,
                       const struct timer *timer);

/* ---- waiting ---- */

/* The caller's token was checked when the request began. From now on until the call is closed,
 * `recheck` is called when the tokens are replaced, on another thread and under a lock: it makes
 * the route go on, and call access_recheck. Returns the result of access_recheck. */
enum error_code call_hold(struct call *call, void (*recheck)(struct call *call));

/* Answers a request whose token is not valid any more. */
void call_answer_no_access(struct call *call, enum error_code error);

/* ---- bodies ---- */

/* Refuses with 413 a body whose Content-Length is above `bytes_max`. True: answered. */
bool call_refuses_length(struct call *call, uint64_t bytes_max);

/* Refuses with 413 a body whose Content-Length is above call->body_bytes_max. True: answered. */
bool call_refuses_body(struct call *call);

/* Refuses with 415 every content type but `type` and, unless NULL, `other`. True: answered. */
bool call_refuses_type(struct call *call, const char *type, const char *other);

/* A route's `begin` step: refuses any content type but JSON, and a body that is too large. */
void call_begin_json(struct call *call);

/* A route's `body` step: appends to call->body, up to call->body_bytes_max. */
size_t call_collect(struct call *call, struct bytes chunk);

/* ---- traces ---- */

/* Keeps the traceparent of the request, unless there is more than one or it is invalid: W3C Trace
 * Context tells to ignore those. While the request has its headers. */
void call_read_trace(struct call *call);

/* The traceparent of the request in its canonical form; empty when it has none. */
struct bytes call_trace(const struct call *call, char ret_text[TRACE_PARENT_SIZE + 1]);

/* ---- the node ---- */

/* The limits of timers that the caller creates, with those of its tenant. */
struct timer_json_limits call_timer_limits(struct call *call);

/* The wall time from which delays "from now" count: node_wall_coming. */
struct wall call_wall_coming(const struct call *call);

/* Submits a request to the node for the caller's tenant; timers of other tenants do not exist for
 * it. Returns the errors of node_submit, which no other function of src/api calls. */
enum error_code call_ask(struct call *call, struct node_request *request);

/* Submits call->node at the end of the worker's turn, together with other requests. On the worker's
 * thread. `answer` runs there when the reply has come; its command.timer is then a copy, and its
 * page is gone. On refusal answers the request and returns the reason. */
enum error_code call_submit(struct call *call, void (*answer)(struct node_request *request));

/* Continues the request with `resume` on the worker's thread. From any thread, after the route's
 * `end`, in place of an answer; the caller does not touch the call afterwards. */
void call_resume(struct call *call, void (*resume)(struct call *call));

/* A copy of a timer that a reply shows; NULL when out of memory. Cheaper than its JSON. */
struct timer *call_copy_timer(const struct timer *timer);

static inline struct call *call_of(struct node_request *request)
{
    return list_item(request, struct call, node);
}

#endif
