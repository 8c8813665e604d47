/*
 * attempts.c - the verb log: what became of each attempt, once or as it happens.
 *
 * With --follow it asks each second for what ended since shortly before the newest delivery that
 * it knows, because nodes of a cluster tell of theirs at different times, and prints what the
 * answer before did not have.
 */
#include "cli/client.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"

#include "calendar/rfc3339.h"

#include <stdio.h>
#include <string.h>

enum {
    ATTEMPTS_PAGE = 200, /* deliveries of a page; the maximum of the API */
    ATTEMPTS_TERMINAL_LIMIT = 50,
    ATTEMPTS_FOLLOW_FIRST = 10, /* deliveries shown before those that are followed */
    ATTEMPTS_OVERLAP_MS = 2000,
    ATTEMPTS_COLUMNS = 8,
};

/* Deliveries that were read, newest first: JSON texts, each with a newline after it. */
struct attempts {
    struct cli *cli;
    /* `seen`: ids of the deliveries in the previous answer, each with a newline after it */
    struct buffer rows, seen;
    struct wall newest;
    bool has_head, has_rows, is_following, has_told_missing;
};

static void attempts_append_filters(struct cli *cli, struct buffer *path)
{
    static const struct {
        enum cli_flag_id flag;
        const char *name;
    } filters[] = {
        {CLI_FLAG_TIMER, "timer"},   {CLI_FLAG_KEY, "key"},         {CLI_FLAG_TARGET, "target"},
        {CLI_FLAG_ORIGIN, "origin"}, {CLI_FLAG_OUTCOME, "outcome"}, {CLI_FLAG_STATUS, "status"},
    };

    for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
        const char *value;
        size_t cursor = 0;

        while ((value = cli_options_next(&cli->options, filters[i].flag, &cursor)))
            cli_append_query(path, filters[i].name, bytes_of(value));
    }
}

/* ---- printing ---- */

static void attempts_add_cell(struct screen_table *table, struct bytes row, const char *name)
{
    const bool is_outcome = strcmp(name, "outcome") == 0;
    struct buffer text;

    buffer_init(&text);
    cli_append_value(&text, cli_member(row, name));
    screen_table_add(table,
                     !is_outcome                                       ? SCREEN_PLAIN
                     : bytes_equal(buffer_bytes(&text), BYTES("done")) ? SCREEN_GREEN
                                                                       : SCREEN_RED,
                     buffer_bytes(&text));
    buffer_deinit(&text);
}

static void attempts_add_row(struct screen_table *table, struct bytes row)
{
    static const char *const names[] = {"at", "outcome", "status", "attempt"};
    struct buffer took;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        attempts_add_cell(table, row, names[i]);
    buffer_init(&took);
    cli_append_value(&took, cli_member(cli_member(row, "ms"), "delivery"));
    buffer_append_text(&took, "ms");
    screen_table_add(table, SCREEN_PLAIN, buffer_bytes(&took));
    buffer_deinit(&took);
    attempts_add_cell(table, row, cli_member(row, "key").size ? "key" : "timer");
    attempts_add_cell(table, row, "target");
    attempts_add_cell(table, row, "error");
}

/* Removes the last row and returns it. */
static bool attempts_pop(struct bytes *rows, struct bytes *ret_row)
{
    if (!rows->size)
        return false;
    const char *before = memrchr(rows->data, '\n', rows->size - 1);
    const size_t at = before ? (size_t)(before - rows->data) + 1 : 0;

    *ret_row = (struct bytes){rows->data + at, rows->size - 1 - at};
    rows->size = at;
    return true;
}

static void attempts_print_one(struct attempts *attempts, struct screen_table *table,
                               struct bytes row)
{
    struct cli *cli = attempts->cli;
    struct buffer text;

    if (cli->settings.form == CLI_FORM_TABLE) {
        attempts_add_row(table, row);
        return;
    }
    buffer_init(&text);
    if (cli->settings.form == CLI_FORM_JSON)
        buffer_append_bytes(&cli->out, row);
    else
        cli_append_value(&text,
                         cli_member(row, cli->settings.form == CLI_FORM_IDS ? "timer" : "key"));
    screen_append(&cli->out, buffer_bytes(&text));
    buffer_append_text(&cli->out, "\n");
    buffer_deinit(&text);
}

enum attempts_order { ATTEMPTS_NEWEST_FIRST, ATTEMPTS_OLDEST_FIRST };

static void attempts_print(struct attempts *attempts, enum attempts_order order)
{
    static const char *const heads[ATTEMPTS_COLUMNS] = {"AT",   "OUTCOME", "STATUS", "ATTEMPT",
                                                        "TOOK", "TIMER",   "TARGET", "ERROR"};
    struct bytes rest = buffer_bytes(&attempts->rows), row;
    struct screen_table table;

    attempts->has_rows = attempts->has_rows || rest.size;
    screen_table_init(&table, ATTEMPTS_COLUMNS);
    for (size_t i = 0; i < ATTEMPTS_COLUMNS && !attempts->has_head; i++)
        screen_table_add(&table, SCREEN_BOLD, bytes_of(heads[i]));
    if (order == ATTEMPTS_OLDEST_FIRST)
        while (attempts_pop(&rest, &row))
            attempts_print_one(attempts, &table, row);
    else
        while (rest.size) {
            row = bytes_cut(&rest, '\n');
            attempts_print_one(attempts, &table, row);
        }
    if (attempts->cli->settings.form == CLI_FORM_TABLE &&
        (attempts->rows.size || !attempts->has_head))
        screen_table_append(&table, cli_style(attempts->cli), &attempts->cli->out);
    screen_table_deinit(&table);
    attempts->has_head = true;
    buffer_clear(&attempts->rows);
}

/* ---- reading ---- */

/* True if the previous answer had the delivery. Adds its id to `ids`, for the next answer. */
static bool attempts_is_known(struct attempts *attempts, struct bytes row, struct buffer *ids)
{
    struct buffer id, at;
    struct wall ended;

    buffer_init(&id);
    cli_append_value(&id, cli_member(row, "id"));
    buffer_append_text(&id, "\n");
    buffer_append_bytes(ids, buffer_bytes(&id));
    buffer_init(&at);
    cli_append_value(&at, cli_member(row, "at"));
    if (rfc3339_parse(buffer_bytes(&at), &ended, NULL) == ERROR_NONE)
        attempts->newest = wall_max(attempts->newest, ended);
    const bool is_known = attempts->seen.size && id.size &&
                          memmem(attempts->seen.data, attempts->seen.size, id.data, id.size);
    buffer_deinit(&at);
    buffer_deinit(&id);
    return is_known;
}

/* Prints, once, which nodes cannot answer. */
static void attempts_tell_missing(struct attempts *attempts, struct bytes nodes)
{
    if (nodes.size < 3 || attempts->has_told_missing)
        return;
    attempts->has_told_missing = true;
    cli_complain(CLI_EXIT_DONE,
                 "deliveries of the nodes %.*s are missing: they run an earlier version",
                 (int)(nodes.size - 2), nodes.data + 1);
}

/* Reads up to `limit` deliveries into `rows`, except those that were printed already. */
static enum cli_exit attempts_read(struct attempts *attempts, const char *since, uint64_t limit)
{
    struct buffer ids, cursor;
    enum cli_exit code = CLI_EXIT_DONE;
    bool is_over = false;

    buffer_init(&ids);
    buffer_init(&cursor);
    while (!code && !is_over && limit > 0) {
        struct cli_answer answer;
        struct buffer path;
        struct cli_list list;
        struct bytes row;
        char number[24];

        buffer_init(&path);
        buffer_append_text(&path, "/v1/deliveries");
        attempts_append_filters(attempts->cli, &path);
        if (since)
            cli_append_query(&path, "since", bytes_of(since));
        snprintf(number, sizeof(number), "%u",
                 (unsigned)(limit < ATTEMPTS_PAGE ? limit : ATTEMPTS_PAGE));
        cli_append_query(&path, "limit", bytes_of(number));
        if (cursor.size)
            cli_append_query(&path, "cursor", buffer_bytes(&cursor));
        code = cli_ask(attempts->cli, "GET", cli_text(&path), (struct bytes){NULL, 0}, &answer);
        const struct bytes page = buffer_bytes(&answer.body), next = cli_member(page, "next");
        if (!code)
            attempts_tell_missing(attempts, cli_member(page, "missing"));
        cli_list_init(&list, cli_member(page, "deliveries"));
        while (!code && limit > 0 && cli_list_next(&list, &row)) {
            limit--;
            if (attempts->is_following && attempts_is_known(attempts, row, &ids))
                continue;
            screen_append_json(&attempts->rows, row);
            buffer_append_text(&attempts->rows, "\n");
        }
        buffer_clear(&cursor);
        cli_append_value(&cursor, next);
        is_over = next.size < 3 || *next.data != '"';
        cli_answer_deinit(&answer);
        buffer_deinit(&path);
        if (!code && !attempts->is_following) {
            attempts_print(attempts, ATTEMPTS_NEWEST_FIRST);
            is_over = is_over || !cli_flush(attempts->cli);
        }
    }
    buffer_deinit(&cursor);
    buffer_deinit(&attempts->seen);
    attempts->seen = ids;
    return code;
}

static enum cli_exit attempts_follow(struct attempts *attempts, const char *since)
{
    enum cli_exit code = cli_catch_signals(attempts->cli);
    char text[RFC3339_TEXT_SIZE];

    if (!code)
        code = attempts_read(attempts, since, since ? UINT64_MAX : ATTEMPTS_FOLLOW_FIRST);
    while (!code) {
        attempts_print(attempts, ATTEMPTS_OLDEST_FIRST);
        if (!cli_flush(attempts->cli))
            return CLI_EXIT_FAILED;
        if (!cli_wait(attempts->cli, 1000))
            return CLI_EXIT_DONE; /* following ends only by a signal, so that is success */
        if (attempts->newest.ms) {
            const uint64_t ms = attempts->newest.ms;

            rfc3339_format((struct wall){ms > ATTEMPTS_OVERLAP_MS ? ms - ATTEMPTS_OVERLAP_MS : 0},
                           text);
            since = text;
        }
        code = attempts_read(attempts, since, UINT64_MAX);
    }
    return code == CLI_EXIT_STOPPED ? CLI_EXIT_DONE : code;
}

enum cli_exit attempts_run(struct cli *cli)
{
    const bool is_short = cli->is_terminal && cli->settings.form == CLI_FORM_TABLE;
    const char *since = cli_flag(cli, CLI_FLAG_SINCE);
    struct attempts attempts = {.cli = cli, .is_following = cli_flag(cli, CLI_FLAG_FOLLOW) != NULL};
    uint64_t limit;
    enum cli_exit code = cli_flag_number(cli, CLI_FLAG_LIMIT, 1, UINT64_C(1) << 53,
                                         is_short ? ATTEMPTS_TERMINAL_LIMIT : UINT64_MAX, &limit);

    if (!code && attempts.is_following)
        code = attempts_follow(&attempts, since);
    else if (!code)
        code = attempts_read(&attempts, since, limit);
    if (!code && !attempts.is_following && !attempts.has_rows)
        lists_hint_origin(cli);
    buffer_deinit(&attempts.rows);
    buffer_deinit(&attempts.seen);
    return code;
}
