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

struct list_job;

#define CALL_SMALL_BODY_BYTES (16u << 10) /* maximum size of a body that is not counted */

struct call {
    struct api *api;
    struct http_request *http;
    const struct route *route;
    struct caller caller; /* the tenant; valid from the route's `begin` on */
    /* limit of the setting, or a lower one of the tenant; valid from `begin` on */
    size_t body_bytes_max;
    struct bytes parameter; /* decoded {id} or {name} of the path; data is NULL without one */
    char parameter_text[ROUTE_PARAMETER_SIZE];
    struct bytes query;        /* as sent */
    char *query_room;          /* memory of the decoded query; NULL: no query */
    struct trace_parent trace; /* trace of the request; all 0 if none */
    /* ids of the span of this request, if it creates timers and spans are exported; otherwise all
     * 0 */
    struct trace_parent creation;
    uint64_t created_count; /* timers that a batch has created */
    struct buffer body;     /* collected by call_collect */
    size_t body_counted;    /* part of the body counted in api.bodies */
    size_t answer_counted;  /* part of the answer counted in api.answers */
    struct tenant_pot_share *body_share,
        *answer_share;                  /* shares that count them; NULL if nothing is counted */
    void *state;                        /* for the route */
    struct list_job *list;              /* list that is being read; or NULL */
    struct timer_walk *walk;            /* walk over timers that is under way; or NULL */
    struct list held_link;              /* in api.held if it is long-lived; otherwise alone */
    void (*recheck)(struct call *call); /* set by call_hold */
    void (*resume)(struct call *call);  /* continuation set by call_resume; or NULL */

    /* For routes that ask the node one thing. */
    struct node_request node;
    void (*answer)(struct node_request *request); /* call_submit's */
    struct timer *shown;                          /* copy of the timer in the reply, or NULL */
    struct timer_id id;
    struct timer *timer;
    struct timer *unclaimed; /* timer to create when its claim (name.h) is durable; or NULL */
    struct command_created created;
    struct calendars *calendars; /* calendars that call_timer_limits gave; NULL before that */
    bool is_after_bare;          /* `after` was a number that looks like seconds */
    bool must_exist;             /* a PUT with If-Match */
    uint32_t if_version;  /* If-Match of a PUT, or of a PATCH that depends on its timer; or 0 */
    unsigned patch_tries; /* number of merges that another request's change made void */
};

/* ---- answering; each but the first two gives the call away ---- */

/* Counts a request that was refused, or timers of a batch. */
void call_count_refusal(struct metrics *metrics, enum error_code code);

/* Adds the headers of every error: Retry-After where repeating may help. */
void call_error_headers(struct http_response *response, enum error_code code);

/* Sends `response`. Its memory is counted until the client has read the answer. */
void call_answer(struct call *call, struct http_response *response);

/* Sends the head of `response`, and then the output of the route's `streamed`. */
void call_stream(struct call *call, struct http_response *response);

/* Refuses with 503 an answer that may be large and can be requested again, if unread answers
 * exceed their limit. Returns true if answered. */
bool call_refuses_large_answer(struct call *call);

/* Appends, in a cluster, the member `node`: the number of this node. */
void call_put_node(const struct call *call, struct buffer *out);

/* Answers with a body, and takes it. */
void call_answer_json(struct call *call, int status, struct buffer *body);

void call_answer_problem(struct call *call, const struct problem *problem);
/* Answers with a problem, and keeps the headers of `response`. */
void call_answer_refusal(struct call *call, const struct problem *problem,
                         struct http_response *response);

void call_answer_error(struct call *call, enum error_code code, const char *detail);

/* Describes an error of the node. TOO_MANY names the limits of live timers, because the node
 * does not say which one is reached. */
void call_describe_error(const struct api *api, const struct caller *caller, enum error_code code,
                         struct problem *ret_problem);

/* Answers 200 or 201 with the timer and its ETag, or with a problem. A 201 that repeats an
 * earlier answer has a header that says so. GONE shows the timer's final state, KEY_IN_USE the
 * timer that has the key. */
void call_answer_timer(struct call *call, int status, enum error_code error,
                       const struct timer *timer);

/* ---- waiting ---- */

/* Watches the tokens until the call is closed. When they are replaced, `recheck` is called on
 * another thread, under a lock: it makes the route continue and call access_recheck. Returns the
 * result of access_recheck. */
enum error_code call_hold(struct call *call, void (*recheck)(struct call *call));

/* Answers a request whose token is no longer valid. */
void call_answer_no_access(struct call *call, enum error_code error);

/* ---- queries ---- */

struct query_form;

/* Reads the query (query.h). Its decoded texts are valid as long as the call. Returns false if
 * answered. */
bool call_read_query(struct call *call, const struct query_form *form, void *context);

/* ---- bodies ---- */

/* Refuses with 413 a body whose Content-Length exceeds `bytes_max`. Returns true if answered. */
bool call_refuses_length(struct call *call, uint64_t bytes_max);

/* Refuses with 413 a body whose Content-Length exceeds call->body_bytes_max. Returns true if
 * answered. */
bool call_refuses_body(struct call *call);

/* Refuses with 415 every content type but `type` and, unless NULL, `other`. Returns true if
 * answered. */
bool call_refuses_type(struct call *call, const char *type, const char *other);

/* The `begin` step of a route: refuses any content type but JSON, and a body that is too large. */
void call_begin_json(struct call *call);

/* The `closed` step of a route whose `state` is one allocation. */
void call_free_state(struct call *call);

/* The `body` step of a route: appends to call->body, up to call->body_bytes_max. */
size_t call_collect(struct call *call, struct bytes chunk);

/* ---- traces ---- */

/* Keeps the request's traceparent, unless there are several or it is invalid, which W3C Trace
 * Context says to ignore. Call it while the request has its headers. */
void call_read_trace(struct call *call);

/* Returns the trace that the request's timers keep: its traceparent in canonical form, or empty if
 * it has none. If spans are exported, begins the span of the creation and returns that, or
 * TRACE_UNSAMPLED. */
struct bytes call_trace(struct call *call, char ret_text[TRACE_PARENT_SIZE + 1]);

/* ---- the node ---- */

/* Returns the limits of timers that the caller creates, with those of its tenant. */
struct timer_json_limits call_timer_limits(struct call *call);

/* Returns what the caller may see of a timer. */
struct timer_json_view call_view(const struct call *call);

/* Returns the wall time from which delays count: node_wall_coming. */
struct wall call_wall_coming(const struct call *call);

/* Submits a request to the node for the caller's tenant; timers of other tenants do not exist for
 * it. Returns the errors of node_submit, which no other function of src/api calls. */
enum error_code call_ask(struct call *call, struct node_request *request);

/* Submits call->node at the end of the worker's turn, together with other requests. On the
 * worker's thread. `answer` runs there when the reply is there; its command.timer is a copy
 * then, and it has no page. On refusal answers the request and returns the reason. */
enum error_code call_submit(struct call *call, void (*answer)(struct node_request *request));

/* Continues the request with `resume` on the worker's thread. May be called from any thread,
 * after the route's `end`, instead of an answer. The caller must not use the call afterwards. */
void call_resume(struct call *call, void (*resume)(struct call *call));

/* Copies a timer of a reply, which is cheaper than its JSON. NULL if out of memory. */
struct timer *call_copy_timer(const struct timer *timer);

static inline struct call *call_of(struct node_request *request)
{
    return list_item(request, struct call, node);
}

/* ---- the routes ---- */

/* The handler of each route, which runs at the end of its request; and other steps. */
#define ROUTE(handler, ...) void handler(struct call *call);
#define STEP(function)      void function(struct call *call);
#include "api/core/routes.def"

#endif
