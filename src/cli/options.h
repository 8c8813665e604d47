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

#include "base/time.h"
#include "calendar/rfc3339.h"

#include <stdbool.h>
#include <stddef.h>

enum cli_flag_id {
#define FLAG(id, ...) CLI_FLAG_##id,
#include "cli/verbs.def"
    CLI_FLAG_COUNT
};

struct cli_flag {
    const char *name;
    char letter;         /* 0 if there is none */
    const char *value;   /* placeholder for its value, in capitals; NULL for a switch */
    const char *choices; /* allowed values, separated by blanks; NULL allows any */
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
    char *value;                  /* NULL if the flag is a switch */
    char time[RFC3339_TEXT_SIZE]; /* Memory of `value` if that was given as a duration. */
};

struct cli_options {
    struct cli_option given[CLI_FLAGS_MAX]; /* in the order of the arguments */
    size_t given_count;
    char *arguments[CLI_ARGUMENTS_MAX + 1]; /* ends with NULL */
    size_t argument_count;
    size_t command; /* index of the first argument after "--"; argument_count if there is no "--" */
};

/* Returns the row of a flag. CLI_FLAGS_COMMON has the flags that all verbs take. */
const struct cli_flag *cli_flag_row(enum cli_flag_id flag);
extern const struct cli_flag_use CLI_FLAGS_COMMON[];

/* Moves the verb to argv[1], before the flags that precede it. If there is no verb, argv[1] is a
 * flag. */
void cli_options_move_verb(int argc, char **argv);

/* Reads the arguments after the verb. */
enum error_code cli_options_read(const struct cli_verb *verb, int argc, char **argv,
                                 struct cli_options *ret_options, struct error *ret_error);

/* Replaces each duration that was given for a TIME by a time: the duration after now, or before now
 * if a dash precedes it or the flag is --since. Other values stay as they are. */
void cli_options_settle_times(struct cli_options *options, struct wall now);

/* Returns the last value of a flag; "" for a switch that was given; NULL if it was not given. */
const char *cli_options_value(const struct cli_options *options, enum cli_flag_id flag);

/* Returns the values of a flag, one for each call; NULL after the last. The first call has *cursor
 * = 0. */
const char *cli_options_next(const struct cli_options *options, enum cli_flag_id flag,
                             size_t *cursor);

#endif
