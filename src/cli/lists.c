/* lists.c - how a timer is shown, and lists of them: the verb list, and pages for other verbs. */
#include "cli/lists.h"

#include "calendar/duration.h"
#include "calendar/rfc3339.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "cli/watch.h"
#include "sys/clock.h"
#include "sys/process.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LISTS_TERMINAL_LIMIT 100  /* maximum rows of a list on a terminal, without --limit */
#define LISTS_PAGE_MAX       1000 /* maximum rows of a page, by the API */

/* ---- how a timer is shown ---- */

/* Appends a value for people: a time with its distance from now, members as "name value", elements
 * separated by commas. `mark` is printed between the name of a member and its value. */
static void lists_append_words(struct buffer *out, struct bytes value, const char *mark)
{
    struct cli_list list;
    struct bytes each;
    struct wall at;
    char name[64];
    bool is_first = true;

    if (value.size && *value.data == '{') {
        for (cli_members_init(&list, value); cli_members_next(&list, name, &each);
             is_first = false) {
            buffer_printf(out, "%s%s%s", is_first ? "" : ", ", name, mark);
            lists_append_words(out, each, mark);
        }
    } else if (value.size && *value.data == '[') {
        for (cli_list_init(&list, value); cli_list_next(&list, &each); is_first = false) {
            buffer_append_text(out, is_first ? "" : ", ");
            lists_append_words(out, each, mark);
        }
    } else {
        const size_t start = out->size;

        cli_append_value(out, value);
        if (!buffer_failed(out) && out->size - start + 1 == RFC3339_TEXT_SIZE &&
            rfc3339_parse((struct bytes){out->data + start, out->size - start}, &at, NULL) ==
                ERROR_NONE) {
            buffer_append_text(out, " (");
            screen_append_distance(out, wall_now(), at);
            buffer_append_text(out, ")");
        }
    }
}

/* Values that a client chose are shown as the client wrote them: payloads and keys unchanged,
 * labels and headers like their flags. */
static void lists_append_member(struct buffer *out, const char *name, struct bytes value)
{
    if (strcmp(name, "payload") == 0 || strcmp(name, "key") == 0)
        cli_append_value(out, value);
    else
        lists_append_words(out, value,
                           strcmp(name, "labels") == 0 || strcmp(name, "headers") == 0 ? ":" : " ");
}

static void lists_show_fields(struct cli *cli, struct bytes timer)
{
    struct screen_table table;
    struct cli_list members;
    struct buffer cell;
    struct bytes value;
    char name[64];

    screen_table_init(&table, 2);
    buffer_init(&cell);
    cli_members_init(&members, timer);
    while (cli_members_next(&members, name, &value)) {
        buffer_clear(&cell);
        lists_append_member(&cell, name, value);
        screen_table_add(&table, SCREEN_DIM, bytes_of(name));
        screen_table_add(&table,
                         strcmp(name, "state") == 0 ? screen_colour_of_state(buffer_bytes(&cell))
                                                    : SCREEN_PLAIN,
                         buffer_bytes(&cell));
    }
    screen_table_append(&table, cli_style(cli), &cli->out);
    buffer_deinit(&cell);
    screen_table_deinit(&table);
}

/* Appends a line with the text of a value; nothing if the value is missing. */
static void lists_append_name(struct cli *cli, struct bytes value)
{
    struct buffer text;

    buffer_init(&text);
    cli_append_value(&text, value);
    screen_append(&cli->out, buffer_bytes(&text));
    buffer_append_text(&cli->out, value.size ? "\n" : "");
    buffer_deinit(&text);
}

void lists_show(struct cli *cli, struct bytes timer)
{
    if (cli->settings.form == CLI_FORM_TABLE) {
        lists_show_fields(cli, timer);
    } else if (cli->settings.form == CLI_FORM_JSON) {
        screen_append_json(&cli->out, timer);
        buffer_append_text(&cli->out, "\n");
    } else {
        lists_append_name(cli,
                          cli_member(timer, cli->settings.form == CLI_FORM_IDS ? "id" : "key"));
    }
}

enum cli_exit lists_show_counts(struct cli *cli, struct bytes answer)
{
    struct cli_list members, failures;
    struct bytes value, failure;
    bool is_first = true;
    char name[64];

    cli_list_init(&failures, cli_member(answer, "failures"));
    bool has_failed = cli_list_next(&failures, &failure);
    if (cli->settings.form != CLI_FORM_TABLE) {
        screen_append_json(&cli->out, answer);
        buffer_append_text(&cli->out, "\n");
        return has_failed ? CLI_EXIT_FAILED : CLI_EXIT_DONE;
    }
    cli_members_init(&members, answer);
    while (cli_members_next(&members, name, &value)) {
        if (*value.data == '[')
            continue;
        for (char *at = name; *at; at++)
            *at = *at == '_' ? ' ' : *at;
        buffer_append_text(&cli->out, is_first ? "" : ", ");
        screen_append(&cli->out, bytes_of(name));
        buffer_append_text(&cli->out, " ");
        screen_append(&cli->out, value);
        is_first = false;
    }
    buffer_append_text(&cli->out, "\n");
    for (bool more = has_failed; more; more = cli_list_next(&failures, &failure)) {
        buffer_append_text(&cli->out, "  ");
        screen_append_json(&cli->out, failure);
        buffer_append_text(&cli->out, "\n");
    }
    return has_failed ? CLI_EXIT_FAILED : CLI_EXIT_DONE;
}

/* ---- pages ---- */

void lists_append_filters(struct cli *cli, struct buffer *path)
{
    static const struct {
        enum cli_flag_id flag;
        const char *name;
    } filters[] = {
        {CLI_FLAG_AFTER, "due_after"},
        {CLI_FLAG_BEFORE, "due_before"},
        {CLI_FLAG_STATE, "state"},
        {CLI_FLAG_LABEL, "label"},
        {CLI_FLAG_TARGET, "target"},
        {CLI_FLAG_ORIGIN, "origin"},
        {CLI_FLAG_ERROR, "error"},
        {CLI_FLAG_KEY_PREFIX, "key_prefix"},
        {CLI_FLAG_LAST, "last"},
        {CLI_FLAG_SORT, "sort"},
        {CLI_FLAG_KEY_CONTAINS, "key_contains"},
        {CLI_FLAG_FLOW, "flow"},
    };

    for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
        const char *value;
        size_t cursor = 0;

        while ((value = cli_options_next(&cli->options, filters[i].flag, &cursor)))
            cli_append_query(path, filters[i].name, bytes_of(value));
    }
}

void lists_hint_origin(struct cli *cli)
{
    const char *target = cli_flag(cli, CLI_FLAG_TARGET);
    const char *host = target ? strstr(target, "://") : NULL;
    const size_t size = host ? strcspn(host + 3, "/?") : 0;

    if (size && (host[3 + size] == '\0' || strcmp(host + 3 + size, "/") == 0))
        cli_complain(CLI_EXIT_DONE,
                     "nothing has exactly the target %s; --origin %.*s selects every path", target,
                     (int)(host + 3 + size - target), target);
}

void lists_hint_log(struct cli *cli)
{
    const char *key = cli_flag(cli, CLI_FLAG_KEY);

    if (key)
        cli_complain(CLI_EXIT_NOT_FOUND, "earlier deliveries: tickwheel log --key %s", key);
}

/* If a page is not full, shows on the terminal how far the search has got. Clears that line when
 * the search has ended. */
static void lists_draw_search(struct lists_pages *pages, struct bytes page)
{
    struct cli_list timers;
    struct bytes timer;

    pages->searched += cli_number(cli_member(page, "searched"), 0);
    cli_list_init(&timers, cli_member(page, "timers"));
    const bool is_empty = !cli_list_next(&timers, &timer);
    if (is_empty && !pages->is_over && process_is_terminal(STDERR_FILENO)) {
        char line[64];

        snprintf(line, sizeof(line), "\r\033[Ksearched %llu timers",
                 (unsigned long long)pages->searched);
        fputs(line, stderr);
        pages->is_drawn = true;
    } else if (pages->is_drawn) {
        fputs("\r\033[K", stderr);
        pages->is_drawn = false;
    }
}

void lists_pages_init(struct lists_pages *pages, struct cli *cli, const char *place, uint64_t limit)
{
    *pages = (struct lists_pages){.left = limit};
    buffer_append_text(&pages->path, place);
    lists_append_filters(cli, &pages->path);
}

void lists_pages_deinit(struct lists_pages *pages)
{
    cli_answer_deinit(&pages->answer);
    buffer_deinit(&pages->cursor);
    buffer_deinit(&pages->path);
}

enum cli_exit lists_pages_next(struct cli *cli, struct lists_pages *pages, struct bytes *ret_timers)
{
    struct buffer path;
    char limit[24];

    *ret_timers = (struct bytes){NULL, 0};
    if (pages->is_over || pages->left == 0)
        return CLI_EXIT_DONE;
    cli_answer_deinit(&pages->answer);
    buffer_init(&path);
    buffer_append_bytes(&path, buffer_bytes(&pages->path));
    snprintf(limit, sizeof(limit), "%u",
             (unsigned)(pages->left < LISTS_PAGE_MAX ? pages->left : LISTS_PAGE_MAX));
    cli_append_query(&path, "limit", bytes_of(limit));
    if (pages->cursor.size)
        cli_append_query(&path, "cursor", buffer_bytes(&pages->cursor));
    enum cli_exit code =
        cli_ask(cli, "GET", cli_text(&path), (struct bytes){NULL, 0}, &pages->answer);
    buffer_deinit(&path);
    if (code)
        return code;
    struct bytes page = buffer_bytes(&pages->answer.body), next = cli_member(page, "next");
    *ret_timers = cli_member(page, "timers");
    if (!ret_timers->size)
        *ret_timers = cli_member(page, "schedules");
    if (ret_timers->size == 0 || *ret_timers->data != '[')
        return cli_complain(CLI_EXIT_UNAVAILABLE,
                            "the answer is no list of timers: is the URL right?");
    buffer_clear(&pages->cursor);
    cli_append_value(&pages->cursor, next);
    pages->is_over = next.size < 3 || *next.data != '"';
    lists_draw_search(pages, page);
    return CLI_EXIT_DONE;
}

enum cli_exit lists_count(struct cli *cli, const char *place, uint64_t *ret_count)
{
    struct lists_pages pages;
    struct cli_list timers;
    struct bytes page, timer;
    enum cli_exit code = CLI_EXIT_DONE;
    uint64_t count = 0;

    lists_pages_init(&pages, cli, place, UINT64_MAX);
    while (!code && !pages.is_over) {
        code = lists_pages_next(cli, &pages, &page);
        cli_list_init(&timers, page);
        while (cli_list_next(&timers, &timer))
            count++;
    }
    lists_pages_deinit(&pages);
    *ret_count = count;
    return code;
}

/* ---- list ---- */

/* Appends a timer's first target, and how many others it has. */
static void lists_append_targets(struct buffer *out, struct bytes timer)
{
    struct cli_list targets;
    struct bytes target;
    unsigned count = 0;

    for (cli_list_init(&targets, cli_member(timer, "targets")); cli_list_next(&targets, &target);)
        if (count++ == 0)
            cli_append_value(out, cli_member(target, "target"));
    if (count > 1)
        buffer_printf(out, " and %u more", count - 1);
}

static void lists_add_cell(struct screen_table *table, struct bytes timer, const char *name)
{
    const struct bytes value = cli_member(timer, name);
    struct buffer text;

    buffer_init(&text);
    if (!value.size && strcmp(name, "target") == 0)
        lists_append_targets(&text, timer);
    else
        cli_append_value(&text, value);
    screen_table_add(table,
                     strcmp(name, "state") == 0 ? screen_colour_of_state(buffer_bytes(&text))
                                                : SCREEN_PLAIN,
                     buffer_bytes(&text));
    buffer_deinit(&text);
}

static void lists_add_distance(struct screen_table *table, struct bytes timer, struct wall now)
{
    struct buffer text;
    struct wall due;

    buffer_init(&text);
    cli_append_value(&text, cli_member(timer, "due"));
    if (rfc3339_parse(buffer_bytes(&text), &due, NULL) == ERROR_NONE) {
        buffer_clear(&text);
        screen_append_distance(&text, now, due);
    }
    screen_table_add(table, SCREEN_PLAIN, buffer_bytes(&text));
    buffer_deinit(&text);
}

/* Appends the timers of a page to `out`, with a heading on the first page. Returns their number. */
static uint64_t lists_append_page(struct cli *cli, struct bytes page, bool is_dead, bool is_first)
{
    static const struct {
        /* title of the column, and name of the member; "" means the distance of `due` from now */
        const char *head, *name;
    } columns[2][6] = {
        {{"ID", "id"},
         {"STATE", "state"},
         {"DUE", "due"},
         {"", ""},
         {"KEY", "key"},
         {"TARGET", "target"}},
        {{"ID", "id"},
         {"DUE", "due"},
         {"", ""},
         {"KEY", "key"},
         {"TARGET", "target"},
         {"ERROR", "last_error"}},
    };
    struct wall now = wall_now();
    struct screen_table table;
    struct cli_list timers;
    struct bytes timer;
    uint64_t count = 0;

    screen_table_init(&table, 6);
    for (size_t i = 0; i < 6 && is_first; i++)
        screen_table_add(&table, SCREEN_BOLD, bytes_of(columns[is_dead][i].head));
    for (cli_list_init(&timers, page); cli_list_next(&timers, &timer); count++) {
        if (cli->settings.form != CLI_FORM_TABLE) {
            lists_show(cli, timer);
            continue;
        }
        for (size_t i = 0; i < 6; i++) {
            if (*columns[is_dead][i].name)
                lists_add_cell(&table, timer, columns[is_dead][i].name);
            else
                lists_add_distance(&table, timer, now);
        }
    }
    if (cli->settings.form == CLI_FORM_TABLE)
        screen_table_append(&table, cli_style(cli), &cli->out);
    screen_table_deinit(&table);
    return count;
}

/* Prints the list page by page; if it is watched, all pages at once. */
static enum cli_exit lists_print(struct cli *cli, const char *place, uint64_t limit,
                                 bool is_watched)
{
    struct lists_pages pages;
    struct bytes page;
    bool is_first = true, is_more = true;
    enum cli_exit code = CLI_EXIT_DONE;

    lists_pages_init(&pages, cli, place, limit);
    if (is_watched && cli->is_terminal)
        buffer_append_text(&cli->out, "\033[H\033[J");
    while (is_more) {
        code = lists_pages_next(cli, &pages, &page);
        if (code)
            break;
        pages.left -= lists_append_page(cli, page, strcmp(place, "/v1/dead") == 0, is_first);
        is_more = !pages.is_over && pages.left > 0;
        is_first = false;
        if (!is_watched && !cli_flush(cli))
            break;
    }
    if (!code && !cli_flush(cli))
        code = CLI_EXIT_FAILED;
    if (!code && pages.left == limit && !is_watched)
        lists_hint_origin(cli);
    if (!code && !pages.is_over && !cli_flag(cli, CLI_FLAG_LIMIT) && !is_watched)
        cli_complain(CLI_EXIT_DONE, "there are more: --limit 1000 shows them");
    lists_pages_deinit(&pages);
    return code;
}

enum cli_exit lists_limit(struct cli *cli, uint64_t *ret_limit)
{
    const bool is_short = cli->is_terminal && cli->settings.form == CLI_FORM_TABLE;

    return cli_flag_number(cli, CLI_FLAG_LIMIT, 1, UINT64_C(1) << 53,
                           is_short ? LISTS_TERMINAL_LIMIT : UINT64_MAX, ret_limit);
}

enum cli_exit lists_list(struct cli *cli)
{
    return lists_run(cli, "/v1/timers");
}

enum cli_exit lists_run(struct cli *cli, const char *place)
{
    bool is_watched = cli_flag(cli, CLI_FLAG_WATCH) != NULL;
    uint64_t limit, interval_ms;
    struct watch watch = {0};
    enum cli_exit code = lists_limit(cli, &limit);

    if (!code)
        code = cli_flag_interval(cli, 2000, &interval_ms);
    if (!code && is_watched)
        code = cli_catch_signals(cli);
    if (!code && is_watched)
        code = watch_open(&watch, cli, interval_ms);
    do
        code = code ? code : lists_print(cli, place, limit, is_watched);
    while (!code && is_watched && watch_wait(&watch, interval_ms));
    watch_close(&watch);
    /* Watching ends only by a signal, so that is success. */
    return is_watched && code == CLI_EXIT_STOPPED ? CLI_EXIT_DONE : code;
}

enum cli_exit lists_ask_and_name(struct cli *cli, struct buffer *path, const char *rows,
                                 const char *name)
{
    struct cli_answer answer;
    struct cli_list list;
    struct bytes row;
    enum cli_exit code = cli_ask(cli, "GET", cli_text(path), (struct bytes){NULL, 0}, &answer);

    cli_list_init(&list, cli_member(buffer_bytes(&answer.body), rows));
    while (!code && cli_list_next(&list, &row))
        lists_append_name(cli, cli_member(row, name));
    cli_answer_deinit(&answer);
    buffer_deinit(path);
    return code;
}

enum cli_exit lists_ask_and_show(struct cli *cli, struct buffer *path,
                                 void (*show)(struct cli *cli, struct bytes answer))
{
    struct cli_answer answer;
    enum cli_exit code = cli_ask(cli, "GET", cli_text(path), (struct bytes){NULL, 0}, &answer);

    if (!code && cli->settings.form == CLI_FORM_TABLE) {
        show(cli, buffer_bytes(&answer.body));
    } else if (!code) {
        screen_append_json(&cli->out, buffer_bytes(&answer.body));
        buffer_append_text(&cli->out, "\n");
    }
    cli_answer_deinit(&answer);
    buffer_deinit(path);
    return code;
}

static void lists_add_value(struct screen_table *table, struct bytes value)
{
    struct buffer text;

    if (value.size && value.data[0] == '{')
        value = cli_member(value, "kind");
    buffer_init(&text);
    cli_append_value(&text, value);
    screen_table_add(table, SCREEN_PLAIN, buffer_bytes(&text));
    buffer_deinit(&text);
}

void lists_show_columns(struct cli *cli, struct bytes rows, const struct lists_column *columns,
                        size_t count)
{
    struct screen_table table;
    struct cli_list list;
    struct bytes row;

    screen_table_init(&table, count);
    for (size_t i = 0; i < count; i++)
        screen_table_add(&table, SCREEN_BOLD, bytes_of(columns[i].head));
    cli_list_init(&list, rows);
    while (cli_list_next(&list, &row))
        for (size_t i = 0; i < count; i++)
            lists_add_value(&table, cli_member(row, columns[i].name));
    screen_table_append(&table, cli_style(cli), &cli->out);
    screen_table_deinit(&table);
}
