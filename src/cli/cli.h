/*
 * cli.h - what the verbs of the command line share: flags, settings, output and questions.
 *
 * A verb (verbs.h) asks the daemon by cli_ask (client.h) and writes to `out`; cli_flush prints it.
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

/* X(NAME, number, meaning): an exit code, as --help and the manual show it. */
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

struct cli {
    const struct cli_verb *verb;
    struct cli_options options;
    struct cli_settings settings;
    struct buffer out; /* text for standard output; cli_flush writes it */
    void *curl;        /* connection to the daemon; NULL before the first request */
    struct signals signals;
    bool has_signals; /* signals are read from `signals`; otherwise they end the program */
    bool is_terminal; /* standard output is a terminal */
    bool is_ascii;    /* the locale has no UTF-8: marks of tables and bars are ASCII */
    bool is_coloured; /* output has colours, according to the terminal, NO_COLOR and --color */
    bool is_broken;   /* standard output cannot be written */
};

/* ---- what a verb says ---- */

/* Prints `out` and empties it. Returns false if it cannot be written, and complains the first time,
 * unless the reader has closed the pipe. */
bool cli_flush(struct cli *cli);

/* Prints "tickwheel: TEXT" to standard error, with control characters as \uXXXX. Returns `code`. */
enum cli_exit cli_complain(enum cli_exit code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Asks the user on the terminal. Returns CLI_EXIT_DONE for yes. Without a terminal, or with --yes,
 * returns that without asking. */
enum cli_exit cli_confirm(struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* From this call on, SIGINT, SIGTERM and SIGHUP do not end the program: cli_wait reports them. */
enum cli_exit cli_catch_signals(struct cli *cli);

/* Waits for `ms`. Returns false if a signal asks to stop. */
bool cli_wait(struct cli *cli, uint64_t ms);

static inline enum screen_style cli_style(const struct cli *cli)
{
    return cli->is_coloured ? SCREEN_STYLE_COLOURED : SCREEN_STYLE_PLAIN;
}

/* ---- flags ---- */

/* Returns the value of a flag; NULL if it was not given. */
static inline const char *cli_flag(const struct cli *cli, enum cli_flag_id flag)
{
    return cli_options_value(&cli->options, flag);
}

/* Reads the number of a flag, which must be within the bounds; `otherwise` if it was not given.
 * Complains if it is invalid. */
enum cli_exit cli_flag_number(const struct cli *cli, enum cli_flag_id flag, uint64_t min,
                              uint64_t max, uint64_t otherwise, uint64_t *ret_number);

/* Reads --interval, which must be at least 100ms. */
enum cli_exit cli_flag_interval(const struct cli *cli, uint64_t otherwise_ms, uint64_t *ret_ms);

#endif
