/*
 * lists.h - timers as they are shown, and lists in pages.
 *
 * Errors     An exit code, complained about.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_LISTS_H
#define TICKWHEEL_CLI_LISTS_H

#include "cli/client.h"

/* Appends one timer in the form of --output. */
void lists_show(struct cli *cli, struct bytes timer);

/* Reads --limit. Without it a table on a terminal has few rows, and all else no limit. */
enum cli_exit lists_limit(struct cli *cli, uint64_t *ret_limit);

struct lists_pages {
    struct buffer path;   /* path of the list, without cursor and limit */
    struct buffer cursor; /* cursor of the next page; empty for the first page */
    struct cli_answer answer;
    uint64_t left;     /* timers that are still wanted */
    uint64_t searched; /* timers that the daemon looked at */
    bool is_over;
    bool is_drawn; /* the terminal shows how far the search got */
};

/* Appends the filters among the flags as a query. */
void lists_append_filters(struct cli *cli, struct buffer *path);

/* Begins at the first page of `place`, with the filters among the flags. */
void lists_pages_init(struct lists_pages *pages, struct cli *cli, const char *place,
                      uint64_t limit);
void lists_pages_deinit(struct lists_pages *pages);

/* Reads the next page; its array of timers or schedules is borrowed until the next call, and may be
 * empty before the end. */
enum cli_exit lists_pages_next(struct cli *cli, struct lists_pages *pages,
                               struct bytes *ret_timers);

/* GETs `path`, which is taken, and has `show` print the answer as a table; in the other forms it is
 * printed as JSON. */
enum cli_exit lists_ask_and_show(struct cli *cli, struct buffer *path,
                                 void (*show)(struct cli *cli, struct bytes answer));

/* GETs `path`, which is taken, and prints the member `name` of each of the `rows` on a line. */
enum cli_exit lists_ask_and_name(struct cli *cli, struct buffer *path, const char *rows,
                                 const char *name);

/* Prints the numbers of an answer, as "cancelled 2, already firing 0", with its failures below
 * them; these make it CLI_EXIT_FAILED. */
enum cli_exit lists_show_counts(struct cli *cli, struct bytes answer);

/* Counts the timers that the filters select. */
enum cli_exit lists_count(struct cli *cli, const char *place, uint64_t *ret_count);

/* Lists `place`, once or, with --watch, again and again until a signal. */
enum cli_exit lists_run(struct cli *cli, const char *place);

#endif
