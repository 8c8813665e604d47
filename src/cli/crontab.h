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
    CRONTAB_OF_SYSTEM, /* with a user before each command */
};

enum crontab_step {
    CRONTAB_END,
    CRONTAB_EMPTY, /* blank, a comment, or a variable */
    CRONTAB_ENTRY,
    CRONTAB_WRONG,
};

struct crontab_variable {
    struct bytes name, value;
};

struct crontab {
    struct bytes rest; /* not yet read */
    enum crontab_kind kind;
    size_t line; /* the number of the line that was read, from 1 */
    struct crontab_variable variables[CRONTAB_VARIABLES_MAX]; /* as they stand above that line */
    size_t variable_count;
};

struct crontab_entry {
    struct buffer schedule; /* as cron_parse takes it */
    struct cron cron;
    struct bytes user; /* of CRONTAB_OF_SYSTEM */
    struct bytes text; /* the command as the line has it */
    struct buffer command, input;
    bool has_input;
};

/* Reads the next line; an entry replaces the one before. */
enum crontab_step crontab_next(struct crontab *crontab, struct crontab_entry *entry,
                               struct error *ret_error);
void crontab_entry_deinit(struct crontab_entry *entry);

/* The value of a variable at the line that was read; its size is 0 when there is none. */
struct bytes crontab_variable(const struct crontab *crontab, const char *name);

#endif
