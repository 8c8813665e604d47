/*
 * fixture.h - the API on a node double, at a free port, with a client: what the tests of the API
 * start from.
 */
#ifndef TICKWHEEL_API_TESTING_FIXTURE_H
#define TICKWHEEL_API_TESTING_FIXTURE_H

#include "api/api.h"
#include "api/fake/node_fake.h"
#include "http/testing/client.h"

#define FIXTURE_PARTITIONS 4
#define FIXTURE_HOSTS      "test,t" /* as the client and tests name the API */
#define FIXTURE_JSON       "Content-Type: application/json\r\n"
#define FIXTURE_NDJSON     "Content-Type: application/x-ndjson\r\n"
#define FIXTURE_TIMER \
    "{\"after\":\"1h\",\"target\":\"http://shop.example/hook\",\"payload\":{\"n\":1}}"

struct api_fixture {
    struct config config;
    struct metrics *metrics;
    struct node *node;
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

/* Checks a reply that is a problem. */
void fixture_check_problem(const struct reply *reply, int status, const char *slug);

#endif
