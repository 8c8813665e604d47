/*
 * client.h - requests to the daemon, and the problems that it answers with.
 *
 * Errors     An exit code, complained about, or as stated.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_CLIENT_H
#define TICKWHEEL_CLI_CLIENT_H

#include "cli/cli.h"

#include <poll.h>

/* Maximum size of an answer; a larger one is refused. The pages of the daemon are smaller. */
#define CLI_ANSWER_BYTES_MAX (UINT64_C(64) << 20)

struct cli_answer {
    int status; /* 0 if there was no answer */
    struct buffer body;
    bool is_json; /* the whole body is JSON */
    uint64_t retry_after_s;
    /* the daemon reports that a request with this Idempotency-Key was made before */
    bool is_repeated;
    const char *why; /* why there was no answer */
};

struct cli_request {
    const char *method;
    const char *path;  /* path with query */
    const char *url;   /* used instead of `path`: URL of another server, which gets no token */
    struct bytes body; /* `data` is NULL if there is no body */
    const char *content_type; /* NULL means JSON */
    const char *header;       /* further headers, one in each line; NULL if there are none */
    /* Gets the body of the answer as it arrives, instead of `body`; returns false to end the
     * transfer. NULL stores the body. */
    bool (*sink)(void *context, struct bytes chunk);
    void *context;
    bool is_quiet; /* prints no complaint if there is no answer */
};

/* Sends a request. Returns CLI_EXIT_DONE if there was an answer, with any status; otherwise it has
 * complained. The caller deinits the answer in either case. */
enum cli_exit cli_send(struct cli *cli, const struct cli_request *request,
                       struct cli_answer *ret_answer);

/* Calls that run while their owner also waits for other things. A call is created once; then it is
 * started, waited for until it is over, and ended, any number of times. The texts of its request
 * must be valid until it is ended. Calls are destroyed before their set. */
struct cli_calls;
struct cli_call;

#define CLI_CALL_WAITS_MAX 1024 /* maximum of other descriptors that cli_calls_wait can wait for */

struct cli_calls *cli_calls_create(void); /* returns NULL if out of memory */
void cli_calls_destroy(struct cli_calls *calls);
struct cli_call *cli_call_create(struct cli_calls *calls); /* returns NULL if out of memory */
void cli_call_destroy(struct cli_call *call);
bool cli_call_start(struct cli *cli, struct cli_call *call, const struct cli_request *request,
                    struct cli_answer *answer);

/* Waits until one of `others` is ready, `ms` have passed, or a call has made progress. */
void cli_calls_wait(struct cli_calls *calls, struct pollfd *others, unsigned count, uint64_t ms);
bool cli_call_is_over(const struct cli_call *call);

/* Ends a call, and returns what cli_send would. A call that is not over is aborted:
 * CLI_EXIT_STOPPED. */
enum cli_exit cli_call_end(struct cli *cli, struct cli_call *call);

/* Like cli_send, for an answer that must be 2xx and JSON. Complains about any other answer. `body`
 * may be empty. */
enum cli_exit cli_ask(struct cli *cli, const char *method, const char *path, struct bytes body,
                      struct cli_answer *ret_answer);

/* True if the answer is a problem in the form of the daemon. Proxies and other servers answer with
 * the same statuses, some with problems of another form. */
bool cli_is_problem(const struct cli_answer *answer);

/* Prints the problem of an answer, with details and pointers. Returns its exit code. */
enum cli_exit cli_complain_of(const struct cli_answer *answer);
enum cli_exit cli_exit_of(int status);

void cli_answer_deinit(struct cli_answer *answer);

/* True if "host:port" accepts a TCP connection, which is closed at once. */
bool cli_connects(const char *address, uint64_t timeout_ms);

/* Appends a segment of a path, percent-encoded. */
void cli_append_path(struct buffer *path, struct bytes part);

/* Appends "?name=value" or "&name=value", percent-encoded. */
void cli_append_query(struct buffer *path, const char *name, struct bytes value);

/* Appends a NUL that the size does not count, and returns the text; "" if memory ran out. */
const char *cli_text(struct buffer *buffer);

#endif
