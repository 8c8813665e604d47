/*
 * fixture.h - the API on a real node, at a free port, with a client: what the tests of the API
 * start from.
 */
#ifndef TICKWHEEL_API_TESTING_FIXTURE_H
#define TICKWHEEL_API_TESTING_FIXTURE_H

#include "api/api.h"
#include "api/testing/probe.h"
#include "http/testing/client.h"

#define FIXTURE_HOSTS  "test,t" /* as the client and tests name the API */
#define FIXTURE_JSON   "Content-Type: application/json\r\n"
#define FIXTURE_NDJSON "Content-Type: application/x-ndjson\r\n"
#define FIXTURE_TIMER \
    "{\"after\":\"1h\",\"target\":\"http://shop.example/hook\",\"payload\":{\"n\":1}}"

struct api_fixture {
    struct node_probe probe;
    struct api *api;
    struct client client;
    struct reply reply; /* the last one */
};

/* Settings that a test wants otherwise: "name", "value", ..., NULL. */
struct api_fixture *fixture_start(const char *const *settings);

/* Stops all; NULL is allowed. */
void fixture_stop(struct api_fixture *fixture);

/* Stops the API alone. */
void fixture_stop_api(struct api_fixture *fixture);

/* Sends a request, reads its answer into `reply`, checks its status; an error must be a problem
 * with the same status and the slug given (NULL: no error, or any). */
void fixture_ask(struct api_fixture *fixture, const char *method, const char *target,
                 const char *headers, struct bytes body, int status, const char *slug);

/* The value of a string member in the answer's JSON, wherever it stands first. */
void fixture_member(const struct api_fixture *fixture, const char *name, char *ret_value,
                    size_t size);

/* Creates a timer from JSON and returns its path, "/v1/timers/..."; and its id. */
#define FIXTURE_PATH_SIZE 64
void fixture_create(struct api_fixture *fixture, const char *json, char ret_path[FIXTURE_PATH_SIZE],
                    struct timer_id *ret_id);

/* Leases an item of a queue, and waits until there is one. */
#define FIXTURE_RECEIPT_SIZE 64
void fixture_lease(struct api_fixture *fixture, const char *queue,
                   char ret_receipt[FIXTURE_RECEIPT_SIZE]);

/* Reports on a lease: `call` is ack, nack or extend, `more` further members. */
void fixture_report(struct api_fixture *fixture, const char *queue, const char *call,
                    const char *receipt, const char *more);

/* Creates a timer of the queue "end" and ends it in this state: it fires, is cancelled or dead. */
void fixture_create_ended(struct api_fixture *fixture, enum timer_state state,
                          char ret_path[FIXTURE_PATH_SIZE]);

/* Checks a reply that is a problem. */
void fixture_check_problem(const struct reply *reply, int status, const char *slug);

/* ---- ndjson.c: batches: makes their lines, and looks at the lines of their answers ---- */

#define NDJSON_PATH    "/v1/timers/batch"
#define NDJSON_MINIMAL FIXTURE_NDJSON "Prefer: return=minimal\r\n"
#define NDJSON_ID_LINE 36 /* {"id":"..."} and its newline */

/* Lines "begin .. end - 1", each with its number as payload. */
void lines_append(struct buffer *body, unsigned begin, unsigned end);

/* One line of a text, without its newline; and how many there are. */
struct bytes lines_at(struct bytes text, size_t index);
size_t lines_count(struct bytes text);

bool bytes_contain(struct bytes text, const char *part);

/* Checks that a line of an answer is the id of a timer with this payload. */
void lines_check_created(struct api_fixture *fixture, struct bytes line, unsigned payload);

/* Sends until the node holds as many commands as it may get of one batch. Returns what is left. */
struct bytes batch_send_until_held(struct api_fixture *fixture, struct bytes body);

#endif
