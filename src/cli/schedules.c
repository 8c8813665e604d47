/* schedules.c - the verbs about firings that were: schedules, runs. */
#include "calendar/rfc3339.h"
#include "cli/fields.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/clock.h"

#include <stdio.h>

/* ---- cells ---- */

static enum screen_colour schedules_colour(struct bytes outcome)
{
    if (bytes_equal(outcome, BYTES("ok")) || bytes_equal(outcome, BYTES("done")))
        return SCREEN_GREEN;
    if (bytes_equal(outcome, BYTES("failed")) || bytes_equal(outcome, BYTES("ended")))
        return SCREEN_RED;
    return SCREEN_DIM;
}

/* Adds the text of a member. A word that says how a firing ended is coloured. */
static void schedules_add_member(struct screen_table *table, struct bytes object, const char *name)
{
    const bool is_outcome = strcmp(name, "last") == 0 || strcmp(name, "outcome") == 0;
    struct buffer text;

    buffer_init(&text);
    cli_append_value(&text, cli_member(object, name));
    screen_table_add(table, is_outcome ? schedules_colour(buffer_bytes(&text)) : SCREEN_PLAIN,
                     buffer_bytes(&text));
    buffer_deinit(&text);
}

/* Adds the distance of a member's time from now, or `otherwise` if the member is missing. */
static void schedules_add_distance(struct screen_table *table, struct bytes object,
                                   const char *name, struct bytes otherwise)
{
    struct buffer text;
    struct wall at;

    buffer_init(&text);
    cli_append_value(&text, cli_member(object, name));
    if (rfc3339_parse(buffer_bytes(&text), &at, NULL) == ERROR_NONE) {
        buffer_clear(&text);
        screen_append_distance(&text, wall_now(), at);
    } else {
        buffer_append_bytes(&text, otherwise);
    }
    screen_table_add(table, SCREEN_PLAIN, buffer_bytes(&text));
    buffer_deinit(&text);
}

/* Adds a mark for each run, oldest first. */
static void schedules_add_dots(struct screen_table *table, struct bytes runs)
{
    static const char *const marks[] = {"\u25cf", "\u2717", "\u25cb"}; /* done, failed, skipped */
    const char *dots[SCREEN_CELL_WIDTH_MAX];
    struct cli_list list;
    struct bytes run;
    struct buffer text;
    size_t count = 0;

    cli_list_init(&list, runs);
    while (count < sizeof(dots) / sizeof(*dots) && cli_list_next(&list, &run)) {
        const struct bytes outcome = cli_member(run, "outcome");

        dots[count++] = cli_is_text(outcome, "done") ? marks[0]
                        : cli_is_text(outcome, "failed") || cli_is_text(outcome, "ended")
                            ? marks[1]
                            : marks[2];
    }
    buffer_init(&text);
    while (count > 0)
        buffer_append_text(&text, dots[--count]);
    screen_table_add(table, SCREEN_PLAIN, buffer_bytes(&text));
    buffer_deinit(&text);
}

/* ---- schedules ---- */

static void schedules_add_row(struct screen_table *table, struct bytes schedule)
{
    const struct bytes runs = cli_member(schedule, "runs"),
                       held_by = cli_member(schedule, "held_by");
    struct cli_list list;
    struct bytes newest = {0};
    struct buffer held;

    cli_list_init(&list, runs);
    cli_list_next(&list, &newest);
    buffer_init(&held);
    cli_append_value(&held, held_by);
    schedules_add_member(table, schedule, "next");
    schedules_add_distance(table, schedule, "next", buffer_bytes(&held));
    schedules_add_distance(table, newest, "planned", (struct bytes){0});
    schedules_add_member(table, schedule, "last");
    schedules_add_dots(table, runs);
    schedules_add_member(table, schedule, cli_member(schedule, "key").size ? "key" : "id");
    buffer_deinit(&held);
}

struct schedules_listing {
    struct screen_table table;
    uint64_t left;   /* rows that may still be printed */
    bool is_partial; /* the server did not read all timers, so the order is not complete */
    bool is_cut;     /* some schedules were not printed */
    /* the last firing of a schedule that was read failed, whether it was printed or not */
    bool has_failed;
};

/* Appends the schedules of a page up to the limit, and checks all. Returns how many schedules the
 * page has. */
static uint64_t schedules_append_page(struct cli *cli, struct bytes page,
                                      struct schedules_listing *listing)
{
    struct cli_list schedules;
    struct bytes schedule;
    uint64_t count = 0;

    for (cli_list_init(&schedules, page); cli_list_next(&schedules, &schedule); count++) {
        listing->has_failed =
            listing->has_failed || cli_is_text(cli_member(schedule, "last"), "failed");
        listing->is_cut = listing->left == 0;
        if (listing->is_cut)
            continue;
        listing->left--;
        if (cli->settings.form == CLI_FORM_TABLE)
            schedules_add_row(&listing->table, schedule);
        else
            lists_show(cli, schedule);
    }
    return count;
}

/* Reads pages until the limit. With --check it continues after the limit until it finds a schedule
 * that has failed, or knows that not all can be checked. */
static enum cli_exit schedules_read(struct cli *cli, struct schedules_listing *listing)
{
    const bool is_check = cli_flag(cli, CLI_FLAG_CHECK) != NULL;
    struct lists_pages pages;
    struct bytes page;
    enum cli_exit code = CLI_EXIT_DONE;

    lists_pages_init(&pages, cli, "/v1/schedules", is_check ? UINT64_MAX : listing->left);
    while (!code && !pages.is_over && pages.left > 0 &&
           (listing->left > 0 || !(listing->has_failed || listing->is_partial))) {
        code = lists_pages_next(cli, &pages, &page);
        if (!code) {
            const uint64_t count = schedules_append_page(cli, page, listing);
            const struct bytes answer = buffer_bytes(&pages.answer.body);

            listing->is_partial =
                listing->is_partial || bytes_equal(cli_member(answer, "complete"), BYTES("false"));
            pages.left -= count < pages.left ? count : pages.left;
        }
    }
    listing->is_cut = listing->is_cut || !pages.is_over;
    lists_pages_deinit(&pages);
    return code;
}

enum cli_exit schedules_list(struct cli *cli)
{
    static const char *const heads[] = {"NEXT", "LEFT", "LAST", "OUTCOME", "RUNS", "KEY"};
    const bool is_check = cli_flag(cli, CLI_FLAG_CHECK) != NULL;
    struct schedules_listing listing = {.has_failed = false};
    enum cli_exit code = lists_limit(cli, &listing.left);

    if (code)
        return code;
    screen_table_init(&listing.table, sizeof(heads) / sizeof(*heads));
    for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)
        screen_table_add(&listing.table, SCREEN_BOLD, bytes_of(heads[i]));
    code = schedules_read(cli, &listing);
    if (!code && cli->settings.form == CLI_FORM_TABLE)
        screen_table_append(&listing.table, cli_style(cli), &cli->out);
    screen_table_deinit(&listing.table);
    if (!code && !cli_flush(cli))
        code = CLI_EXIT_FAILED;
    if (!code && listing.is_cut && !cli_flag(cli, CLI_FLAG_LIMIT))
        cli_complain(CLI_EXIT_DONE, "there are more: --limit 1000 shows them");
    if (!code && listing.is_partial)
        code = cli_complain(is_check ? CLI_EXIT_FAILED : CLI_EXIT_DONE,
                            "not all schedules were %s, because there are too many timers for this "
                            "order: use --sort next",
                            is_check ? "checked" : "sorted");
    return code || !listing.has_failed || !is_check ? code : CLI_EXIT_FAILED;
}

/* ---- runs ---- */

static void schedules_show_runs(struct cli *cli, struct bytes answer)
{
    static const char *const columns[][2] = {{"PLANNED", "planned"},   {"", ""},
                                             {"OUTCOME", "outcome"},   {"TOOK MS", "duration_ms"},
                                             {"ATTEMPTS", "attempts"}, {"STATUS", "status"},
                                             {"ERROR", "error"}};
    const size_t count = sizeof(columns) / sizeof(*columns);
    struct screen_table table;
    struct cli_list runs;
    struct bytes run;

    screen_table_init(&table, count);
    for (size_t i = 0; i < count; i++)
        screen_table_add(&table, SCREEN_BOLD, bytes_of(columns[i][0]));
    for (cli_list_init(&runs, cli_member(answer, "runs")); cli_list_next(&runs, &run);)
        for (size_t i = 0; i < count; i++)
            if (*columns[i][1])
                schedules_add_member(&table, run, columns[i][1]);
            else
                schedules_add_distance(&table, run, "planned", (struct bytes){0});
    screen_table_append(&table, cli_style(cli), &cli->out);
    screen_table_deinit(&table);
}

enum cli_exit schedules_runs(struct cli *cli)
{
    struct buffer path;

    buffer_init(&path);
    enum cli_exit code =
        fields_append_place(cli, &path, 0, cli_flag(cli, CLI_FLAG_KEY) ? "" : "/runs");
    if (code) {
        buffer_deinit(&path);
        return code;
    }
    code = lists_ask_and_show(cli, &path, schedules_show_runs);
    if (code == CLI_EXIT_NOT_FOUND)
        lists_hint_log(cli);
    return code;
}
