/*
 * options.h - the arguments of the program, read by the table of verbs.
 *
 *     tickwheel add --key order-42 30m https://shop.example/recheck
 *     tickwheel work jobs --jobs 4 -- ./handle --fast          behind "--" nothing is a flag
 *
 * Flags stand in any place, also before the verb, as `--name value`, `--name=value` or by a letter,
 * `-o json`. A name may be cut short while it stays unique within the verb's flags.
 *
 * Errors     ERROR_INVALID with a sentence that names the argument, never the value of --token.
 * Ownership  Values are borrowed from argv.
 */
#ifndef TICKWHEEL_CLI_OPTIONS_H
#define TICKWHEEL_CLI_OPTIONS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* X(NAME, name, letter or 0, value in words or NULL for a switch, choices or NULL): each flag of
 * any verb. */
#define CLI_FLAG_LIST(X)                                                                         \
    X(URL, "url", 0, "URL", NULL)                                                                \
    X(TOKEN, "token", 0, "TOKEN", NULL)                                                          \
    X(CA_FILE, "ca-file", 0, "FILE", NULL)                                                       \
    X(OUTPUT, "output", 'o', "FORM", "table json ids")                                           \
    X(COLOR, "color", 0, "WHEN", "auto always never")                                            \
    X(TIMEOUT, "timeout", 0, "DURATION", NULL)                                                   \
    X(HELP, "help", 'h', NULL, NULL)                                                             \
    X(YES, "yes", 'y', NULL, NULL)                                                               \
    X(KEY, "key", 'k', "KEY", NULL)                                                              \
    X(LABEL, "label", 'l', "NAME:VALUE", NULL)                                                   \
    X(PAYLOAD, "payload", 'p', "JSON", NULL)                                                     \
    X(BODY, "body", 0, "TEXT", NULL)                                                             \
    X(CONTENT_TYPE, "content-type", 0, "TYPE", NULL)                                             \
    X(METHOD, "method", 0, "METHOD", "POST PUT PATCH GET DELETE")                                \
    X(HEADER, "header", 'H', "NAME:VALUE", NULL)                                                 \
    X(EVENT, "watch-event", 0, "EVENT", NULL)                                                    \
    X(CRON, "cron", 0, "EXPRESSION", NULL)                                                       \
    X(EVERY, "every", 0, "DURATION", NULL)                                                       \
    X(ZONE, "zone", 0, "ZONE", NULL)                                                             \
    X(DST, "dst", 0, "WORD", "shift skip first both")                                            \
    X(NUMBER, "count", 'n', "NUMBER", NULL)                                                      \
    X(UNTIL, "until", 0, "TIME", NULL)                                                           \
    X(WHEN, "when", 0, "WHEN", NULL)                                                             \
    X(TARGET, "target", 't', "TARGET", NULL)                                                     \
    X(ATTEMPTS, "attempts", 0, "NUMBER", NULL)                                                   \
    X(ATTEMPT_TIMEOUT, "attempt-timeout", 0, "DURATION", NULL)                                   \
    X(GIVE_UP_AFTER, "give-up-after", 0, "DURATION", NULL)                                       \
    X(DROP_AFTER, "drop-after", 0, "DURATION", NULL)                                             \
    X(SPREAD, "spread", 0, "DURATION", NULL)                                                     \
    X(ON_DEAD, "on-dead", 0, "TARGET", NULL)                                                     \
    X(ON_SUCCESS, "on-success", 0, "TARGET", NULL)                                               \
    X(IDEMPOTENCY_KEY, "idempotency-key", 0, "NAME", NULL)                                       \
    X(REPLACE, "replace", 0, NULL, NULL)                                                         \
    X(SET, "set", 0, "FIELD=JSON", NULL)                                                         \
    X(VERSION, "if-version", 0, "NUMBER", NULL)                                                  \
    X(STATE, "state", 's', "STATE", "scheduled delivering retrying paused fired cancelled dead") \
    X(AFTER, "due-after", 0, "TIME", NULL)                                                       \
    X(BEFORE, "due-before", 0, "TIME", NULL)                                                     \
    X(LIMIT, "limit", 0, "NUMBER", NULL)                                                         \
    X(WATCH, "watch", 'w', NULL, NULL)                                                           \
    X(INTERVAL, "interval", 0, "DURATION", NULL)                                                 \
    X(FIRE, "fire", 0, NULL, NULL)                                                               \
    X(UNIT, "unit", 0, "UNIT", "minute second")                                                  \
    X(START, "after", 0, "TIME", NULL)                                                           \
    X(BY, "by", 0, "FIELDS", "state origin state,origin")                                        \
    X(ORIGIN, "origin", 0, "ORIGIN", NULL)                                                       \
    X(ERROR, "error", 0, "TEXT", NULL)                                                           \
    X(ALL, "all", 0, NULL, NULL)                                                                 \
    X(RATE, "rate", 0, "NUMBER", NULL)                                                           \
    X(NEW_TARGET, "new-target", 0, "TARGET", NULL)                                               \
    X(WAIT, "wait", 0, "DURATION", NULL)                                                         \
    X(LEASE, "lease", 0, "DURATION", NULL)                                                       \
    X(DELAY, "delay", 0, "DURATION", NULL)                                                       \
    X(DEAD, "dead", 0, NULL, NULL)                                                               \
    X(JOBS, "jobs", 'j', "NUMBER", NULL)                                                         \
    X(FROM, "from", 0, "LINE", NULL)                                                             \
    X(SECRET, "secret", 0, "SECRET", NULL)                                                       \
    X(STATUS, "status", 0, "NUMBER", NULL)                                                       \
    X(CONNECTIONS, "connections", 0, "NUMBER", NULL)                                             \
    X(DATA, "data", 0, "FOLDER", NULL)                                                           \
    X(PORT, "port", 0, "PORT", NULL)                                                             \
    X(NOTE, "note", 0, "TEXT", NULL)                                                             \
    X(CONFIG, "config", 0, "FILE", NULL)                                                         \
    X(FORWARD, "forward", 0, "URL", NULL)                                                        \
    X(SYSTEM, "system", 0, NULL, NULL)                                                           \
    X(DRY_RUN, "dry-run", 0, NULL, NULL)                                                         \
    X(MILLISECONDS, "milliseconds", 0, NULL, NULL)

enum cli_flag_id {
#define X(name, text, letter, value, choices) CLI_FLAG_##name,
    CLI_FLAG_LIST(X)
#undef X
        CLI_FLAG_COUNT
};

struct cli_flag {
    const char *name;
    char letter;         /* 0: none */
    const char *value;   /* what its value is, in capitals; NULL: a switch */
    const char *choices; /* its values, with blanks between; NULL: any */
};

/* A flag that a verb takes, and its meaning there. */
struct cli_flag_use {
    enum cli_flag_id flag;
    const char *meaning;
};

struct cli_verb;

#define CLI_ARGUMENTS_MAX 4096
#define CLI_FLAGS_MAX     256

struct cli_option {
    enum cli_flag_id flag;
    char *value; /* NULL: a switch */
};

struct cli_options {
    struct cli_option given[CLI_FLAGS_MAX]; /* in their order */
    size_t given_count;
    char *arguments[CLI_ARGUMENTS_MAX + 1]; /* ends with NULL */
    size_t argument_count;
    size_t command; /* the index of the first argument behind "--"; argument_count without one */
};

/* The row of a flag, and the flags that all verbs take. */
const struct cli_flag *cli_flag_row(enum cli_flag_id flag);
extern const struct cli_flag_use CLI_FLAGS_COMMON[];

/* Moves the verb before the flags that stand before it, to argv[1]. Without a verb, argv[1] is a
 * flag. */
void cli_options_move_verb(int argc, char **argv);

/* Reads the arguments behind the verb. */
enum error_code cli_options_read(const struct cli_verb *verb, int argc, char **argv,
                                 struct cli_options *ret_options, struct error *ret_error);

/* The last value of a flag, "" for a switch that was given; NULL when it was not given. */
const char *cli_options_value(const struct cli_options *options, enum cli_flag_id flag);

/* Each value of a flag in order: begin with *cursor = 0; NULL at the end. */
const char *cli_options_next(const struct cli_options *options, enum cli_flag_id flag,
                             size_t *cursor);

#endif
