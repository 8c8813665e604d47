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

/* Bytes of an answer; a longer one is refused. The daemon's pages
 * are smaller. */
#define CLI_ANSWER_BYTES_MAX (UINT64_C(64) << 20)

struct cli_answer {
    int status; /* 0: there was no answer */
    struct buffer body;
    bool is_json; /* the whole body is JSON */
    uint64_t retry_after_s;
    bool is_repeated; /* an Idempotency-Key says that this request was made before */
    const char *why;  /* there was no answer */
};

struct cli_request {
    const char *method;
    const char *path;         /* with its query */
    const char *url;          /* in place of the path: of another server, which gets no token */
    struct bytes body;        /* none: data is NULL */
    const char *content_type; /* NULL: JSON */
    const char *header;       /* further ones, a line each, or NULL */
    /* Takes the body as it arrives instead of `body`; false ends the transfer. May be NULL. */
    bool (*sink)(void *context, struct bytes chunk);
    void *context;
    bool is_quiet; /* nothing is said when there is no answer */
};

/* Sends a request. CLI_EXIT_DONE when there was an answer of any status; otherwise it has
 * complained. An answer is deinited by the caller, whatever is returned. */
enum cli_exit cli_send(struct cli *cli, const struct cli_request *request,
                       struct cli_answer *ret_answer);

/* Calls that run while their owner waits for other things too. A call is created once, then
 * started, waited for until it is over, and ended, again and again. The texts of its request last
 * until the end. Calls are destroyed before their set. */
struct cli_calls;
struct cli_call;

#define CLI_CALL_WAITS_MAX 1024 /* descriptors that are waited for beside them */

struct cli_calls *cli_calls_create(void); /* NULL when out of memory */
void cli_calls_destroy(struct cli_calls *calls);
struct cli_call *cli_call_create(struct cli_calls *calls); /* NULL when out of memory */
void cli_call_destroy(struct cli_call *call);
bool cli_call_start(struct cli *cli, struct cli_call *call, const struct cli_request *request,
                    struct cli_answer *answer);

/* Waits until one of the others is ready, the time is over, or a call makes progress. */
void cli_calls_wait(struct cli_calls *calls, struct pollfd *others, unsigned count, uint64_t ms);
bool cli_call_is_over(const struct cli_call *call);

/* As cli_send returns it; a call that is not over is broken off, CLI_EXIT_STOPPED. */
enum cli_exit cli_call_end(struct cli *cli, struct cli_call *call);

/* cli_send, for a 2xx that is JSON: anything else is complained about. `body` may be empty. */
enum cli_exit cli_ask(struct cli *cli, const char *method, const char *path, struct bytes body,
                      struct cli_answer *ret_answer);

/* Whether the answer is a problem as the daemon writes them. Proxies and other servers answer with
 * such statuses, some with problems of their own. */
bool cli_is_problem(const struct cli_answer *answer);

/* Says what an answer's problem is, with details and pointers, and returns the exit code of it. */
enum cli_exit cli_complain_of(const struct cli_answer *answer);
enum cli_exit cli_exit_of(int status);

void cli_answer_deinit(struct cli_answer *answer);

/* Whether a TCP connection to "host:port" is accepted; it is closed at once. */
bool cli_connects(const char *address, uint64_t timeout_ms);

/* Appends a part of a path, percent-encoded. */
void cli_append_path(struct buffer *path, struct bytes part);

/* Appends "?name=value" or "&name=value", encoded. */
void cli_append_query(struct buffer *path, const char *name, struct bytes value);

/* Ends the text with a NUL that is not counted, and returns it; "" when memory ran out. */
const char *cli_text(struct buffer *buffer);

#endif
