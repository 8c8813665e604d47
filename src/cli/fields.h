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

/* Appends "after" for a duration, "at" for a time, and "now" as no delay. */
enum cli_exit fields_append_when(struct buffer *body, const char *text);

/* Appends a member for each flag that describes a timer. */
enum cli_exit fields_append_flags(struct cli *cli, struct buffer *body);

/* Appends NAME:VALUE of a flag that may be repeated as the members of one object `name`. */
enum cli_exit fields_append_pairs(struct cli *cli, enum cli_flag_id flag, const char *name,
                                  struct buffer *body);

/* Appends the flags of a pause. */
void fields_append_pause(struct cli *cli, struct buffer *body);

/* Appends the contents of a flag's value: TEXT itself, of the file for "@PATH", of standard input
 * for "-". */
enum cli_exit fields_read(const char *text, struct buffer *contents);

/* Appends "/v1/timers/ID" or, with --key, "/v1/keys/KEY/timer"; `suffix` follows, as "/touch". The
 * verb has one argument for its timer, unless there is a --key. */
enum cli_exit fields_append_place(struct cli *cli, struct buffer *path, size_t arguments_behind,
                                  const char *suffix);

/* Appends the path of a call by key: "/v1/keys/KEY/timer", or with a suffix such as "/fire". A key
 * with a character that a proxy may decode is in the query. */
void fields_append_key_path(struct buffer *path, struct bytes key, const char *suffix);

#endif
