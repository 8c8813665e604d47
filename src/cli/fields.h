/*
 * fields.h - the flags of `add` and `change` as the fields of a request, and a timer's name in a
 * path.
 *
 * Errors     CLI_EXIT_USAGE, complained about.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_FIELDS_H
#define TICKWHEEL_CLI_FIELDS_H

#include "cli/cli.h"

/* Appends the due time: "after" for a duration, "at" for a time; "now" is a delay of 0. */
enum cli_exit fields_append_when(struct buffer *body, const char *text);

/* Appends the target of a timer, `first` or that of --target, or several as `targets`. `first` may
 * be NULL. */
void fields_append_targets(struct cli *cli, const char *first, struct buffer *body);

/* Appends a member for each flag that was given and describes a timer. */
enum cli_exit fields_append_flags(struct cli *cli, struct buffer *body);

/* Appends the NAME:VALUE pairs of a flag, which may be repeated, as one object with the name
 * `name`. */
enum cli_exit fields_append_pairs(struct cli *cli, enum cli_flag_id flag, const char *name,
                                  struct buffer *body);

/* Appends the members for the flags of a pause. */
void fields_append_pause(struct cli *cli, struct buffer *body);

/* Appends what a flag's value stands for: TEXT itself, the file of "@PATH", or standard input for
 * "-". */
enum cli_exit fields_read(const char *text, struct buffer *contents);

/* Appends "/v1/timers/ID" or, with --key, "/v1/keys/KEY/timer", followed by `suffix` such as
 * "/touch". Without --key, the verb has one more argument, which is the id. */
enum cli_exit fields_append_place(struct cli *cli, struct buffer *path, size_t arguments_behind,
                                  const char *suffix);

/* Appends the path of a call by key: "/v1/keys/KEY/timer", or with a suffix such as "/fire". If a
 * proxy might decode a character of the key, the key is in the query instead. */
void fields_append_key_path(struct buffer *path, struct bytes key, const char *suffix);

#endif
