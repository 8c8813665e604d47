/*
 * verbs.h - the table of verbs (verbs.def): help, completion and manual pages are made from it.
 *
 * A family of verbs has a file, which has their functions.
 */
#ifndef TICKWHEEL_CLI_VERBS_H
#define TICKWHEEL_CLI_VERBS_H

#include "cli/cli.h"

struct cli_verb {
    const char *name;
    const char *arguments; /* arguments as the usage shows them; "" if there are none */
    unsigned arguments_min, arguments_max;
    const char *summary; /* one line, in the imperative */
    /* further paragraphs for --help and the manual; NULL if there are none */
    const char *about;
    /* lines, each of which is a command, or a comment that begins with # */
    const char *examples;
    /* flags of the verb; the meaning of the last element is NULL */
    const struct cli_flag_use *uses;
    enum cli_exit (*run)(struct cli *cli);
};

/* All verbs, in the order of the overview, and their number. */
extern const struct cli_verb CLI_VERBS[];
extern const size_t CLI_VERB_COUNT;

/* Returns the verb of this name; NULL if there is none. */
const struct cli_verb *verbs_find(const char *name);

/* The functions of the verbs. Each returns an exit code of the program. */
#define VERB(run, ...) enum cli_exit run(struct cli *cli);
#include "cli/verbs.def"

/* ---- help.c ---- */

/* Append the overview of all verbs, or the help of one. */
void help_append_overview(struct buffer *out, enum screen_style style);
void help_append_verb(struct buffer *out, enum screen_style style, const struct cli_verb *verb);

#endif
