/*
 * crontab.h - reads a crontab: the lines that run a command, with their variables.
 *
 *     struct crontab crontab = {.rest = text, .kind = CRONTAB_OF_USER};
 *     while ((step = crontab_next(&crontab, &entry, &error)) != CRONTAB_END)
 *
 * A line is blank, a comment, a variable (NAME = value, in quotes perhaps) or an entry: five fields
 * or a name such as @daily, in /etc/crontab a user, and the command. In a command the first %
 * begins its standard input, each further one is a line break, and \% is a %.
 *
 * Time       A line is read once; variables are found among CRONTAB_VARIABLES_MAX.
 * Errors     CRONTAB_WRONG with the reason: what a timer cannot be, such as @reboot.
 * Ownership  Slices lie in the text. An entry is inited by zero and deinited by the caller.
 * Threads    Any.
 */
#ifndef TICKWHEEL_CLI_CRONTAB_H
#define TICKWHEEL_CLI_CRONTAB_H

#include "base/bytes.h"
#include "base/error.h"
#include "calendar/cron.h"

#define CRONTAB_BYTES_MAX     (UINT64_C(1) << 20)
#define CRONTAB_VARIABLES_MAX 64

enum crontab_kind {
    CRONTAB_OF_USER,
    CRONTAB_OF_SYSTEM, /* each command has a user before it */
};

enum crontab_step {
    CRONTAB_END,
    CRONTAB_EMPTY, /* the line is blank, a comment, or a variable */
    CRONTAB_ENTRY,
    CRONTAB_WRONG,
};

struct crontab_variable {
    struct bytes name, value;
};

struct crontab {
    struct bytes rest; /* text that was not read yet */
    enum crontab_kind kind;
    size_t line; /* number of the line that was read last, from 1 */
    /* variables that the lines before it have set */
    struct crontab_variable variables[CRONTAB_VARIABLES_MAX];
    size_t variable_count;
};

struct crontab_entry {
    struct buffer schedule; /* schedule in the form that cron_parse reads */
    struct cron cron;
    struct bytes user; /* CRONTAB_OF_SYSTEM: user who runs the command */
    struct bytes text; /* the command, as in the line */
    struct buffer command, input;
    bool has_input;
};

/* Reads the next line. If it is an entry, replaces `entry`. */
enum crontab_step crontab_next(struct crontab *crontab, struct crontab_entry *entry,
                               struct error *ret_error);
void crontab_entry_deinit(struct crontab_entry *entry);

/* Returns the value of a variable at the line that was read last; empty if it is not set. */
struct bytes crontab_variable(const struct crontab *crontab, const char *name);

#endif
