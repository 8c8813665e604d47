/*
 * cli.h - the command line `tickwheel`: one run of one verb.
 *
 * bin/tickwheel.c passes its arguments to cli_run, which finds the verb in the table of verbs.c,
 * reads the flags by that table, the settings from flags, environment and config file, and calls
 * the verb. A verb asks the daemon by cli_ask and writes to `out`; cli_flush prints it.
 *
 * Errors     A verb returns an exit code of the program, after it said why by cli_complain.
 * Ownership  Texts of options are those of argv.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_CLI_H
#define TICKWHEEL_CLI_CLI_H

#include "base/bytes.h"
#include "base/error.h"
#include "cli/options.h"
#include "cli/screen.h"
#include "cli/settings.h"
#include "sys/signals.h"

#include <poll.h>

/* X(NAME, number, meaning): the exit codes, as --help and the manual show them. */
#define CLI_EXIT_LIST(X)                                                                     \
    X(DONE, 0, "done")                                                                       \
    X(FAILED, 1, "the daemon refused the request, or a part of it failed")                   \
    X(USAGE, 2, "wrong arguments or settings; nothing was sent")                             \
    X(NOT_FOUND, 3, "there is no such timer, or it is over")                                 \
    X(CONFLICT, 4, "the timer is being delivered, has another version, or its key is taken") \
    X(DENIED, 5, "the token is missing, unknown, or lacks the scope")                        \
    X(UNAVAILABLE, 6,                                                                        \
      "the daemon cannot be reached or is not ready, or the answer is not the daemon's")     \
    X(STOPPED, 130, "stopped by a signal, or not confirmed")

enum cli_exit {
#define X(name, number, meaning) CLI_EXIT_##name = number,
    CLI_EXIT_LIST(X)
#undef X
};

#define CLI_URL_DEFAULT "http://127.0.0.1:8463"

/* Bytes of an answer; a longer one is refused. The daemon's pages
 * are smaller. */
#define CLI_ANSWER_BYTES_MAX (UINT64_C(64) << 20)

struct cli {
    const struct cli_verb *verb;
    struct cli_options options;
    struct cli_settings settings;
    struct buffer out; /* for standard output; cli_flush writes it */
    void *curl;        /* the connection to the daemon; NULL before the first request */
    struct signals signals;
    bool has_signals; /* the verb takes signals from `signals`; otherwise they end the program */
    bool is_terminal; /* standard output is one */
    bool is_coloured; /* by the terminal, NO_COLOR and --color */
    bool is_broken;   /* standard output is gone */
};

/* Runs the program; returns its exit code. */
int cli_run(int argc, char **argv);

/* ---- what a verb says ---- */

/* Prints `out` and empties it. False when the reader is gone. */
bool cli_flush(struct cli *cli);

/* Prints "tickwheel: TEXT" to standard error, control characters as \uXXXX. Returns `code`. */
enum cli_exit cli_complain(enum cli_exit code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Asks on the terminal; without one, or with --yes, nothing is asked. Returns CLI_EXIT_DONE for
 * yes. */
enum cli_exit cli_confirm(struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* From now on SIGINT, SIGTERM and SIGHUP are taken by cli_wait. */
enum cli_exit cli_catch_signals(struct cli *cli);

/* Waits; false when a signal asks to stop. */
bool cli_wait(struct cli *cli, uint64_t ms);

static inline enum screen_style cli_style(const struct cli *cli)
{
    return cli->is_coloured ? SCREEN_STYLE_COLOURED : SCREEN_STYLE_PLAIN;
}

/* ---- flags ---- */

/* The value of a flag; NULL when it was not given. */
static inline const char *cli_flag(const struct cli *cli, enum cli_flag_id flag)
{
    return cli_options_value(&cli->options, flag);
}

/* The number of a flag, within its bounds, or `otherwise` when it was not given. Complains. */
enum cli_exit cli_flag_number(const struct cli *cli, enum cli_flag_id flag, uint64_t min,
                              uint64_t max, uint64_t otherwise, uint64_t *ret_number);

/* --interval, from 100ms on. */
enum cli_exit cli_flag_interval(const struct cli *cli, uint64_t otherwise_ms, uint64_t *ret_ms);

/* ---- requests ---- */

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

/* Appends `,"name":"value"`, or without a comma behind a `{`. */
void cli_append_member(struct buffer *body, const char *name, struct bytes value);

/* Appends `,"name":raw`. */
void cli_append_raw(struct buffer *body, const char *name, struct bytes raw);

/* Ends the text with a NUL that is not counted, and returns it; "" when memory ran out. */
const char *cli_text(struct buffer *buffer);

#endif
