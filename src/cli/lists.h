/*
 * lists.h - timers as they are shown, and lists in pages.
 *
 * Errors     An exit code, complained about.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_LISTS_H
#define TICKWHEEL_CLI_LISTS_H

#include "cli/client.h"

/* Appends one timer in the format of --output. */
void lists_show(struct cli *cli, struct bytes timer);

/* Reads --limit. If it was not given, a table on a terminal has few rows, and other output is not
 * limited. */
enum cli_exit lists_limit(struct cli *cli, uint64_t *ret_limit);

struct lists_pages {
    struct buffer path;   /* path of the list, without cursor and limit */
    struct buffer cursor; /* cursor of the next page; empty for the first page */
    struct cli_answer answer;
    uint64_t left;     /* number of timers that are still wanted */
    uint64_t searched; /* number of timers that the daemon has searched */
    bool is_over;
    bool is_drawn; /* a line on the terminal shows how far the search has got */
};

/* Appends the flags that are filters as a query. */
void lists_append_filters(struct cli *cli, struct buffer *path);

/* Begins with the first page of `place`, filtered by the flags. */
void lists_pages_init(struct lists_pages *pages, struct cli *cli, const char *place,
                      uint64_t limit);
void lists_pages_deinit(struct lists_pages *pages);

/* Reads the next page. Its array of timers or schedules is borrowed until the next call. It may be
 * empty before the last page. */
enum cli_exit lists_pages_next(struct cli *cli, struct lists_pages *pages,
                               struct bytes *ret_timers);

/* Sends a GET for `path`, which is deinited, and calls `show` to print the answer as a table. In
 * other formats the answer is printed as JSON. */
enum cli_exit lists_ask_and_show(struct cli *cli, struct buffer *path,
                                 void (*show)(struct cli *cli, struct bytes answer));

/* Sends a GET for `path`, which is deinited, and prints the member `name` of each element of `rows`
 * on a line. */
enum cli_exit lists_ask_and_name(struct cli *cli, struct buffer *path, const char *rows,
                                 const char *name);

struct lists_column {
    const char *head, *name; /* name of the member; of an object its `kind` is shown */
};

/* Appends a table of the rows. */
void lists_show_columns(struct cli *cli, struct bytes rows, const struct lists_column *columns,
                        size_t count);

/* Prints the numbers of an answer, such as "cancelled 2, already firing 0", and its failures.
 * Returns CLI_EXIT_FAILED if there are failures. */
enum cli_exit lists_show_counts(struct cli *cli, struct bytes answer);

/* If --target names an origin alone, says that it selected nothing, and which flag does. */
void lists_hint_origin(struct cli *cli);

/* Says where the deliveries of a key are that no timer has any more. */
void lists_hint_log(struct cli *cli);

/* Counts the timers that the filters select. */
enum cli_exit lists_count(struct cli *cli, const char *place, uint64_t *ret_count);

/* Lists `place` once; with --watch, after each change until a signal. */
enum cli_exit lists_run(struct cli *cli, const char *place);

#endif
