/* calendars.c - the verb calendar: sets, shows and removes calendars of holidays. */
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/files.h"

#include <stdio.h>
#include <string.h>

#define CALENDARS_PATH           "/v1/calendars"
#define CALENDARS_FILE_BYTES_MAX (UINT64_C(1) << 20)

struct calendars_column {
    const char *head, *name;
};

static void calendars_show(struct cli *cli, struct bytes rows,
                           const struct calendars_column *columns, size_t count)
{
    struct screen_table table;
    struct cli_list list;
    struct bytes row;

    screen_table_init(&table, count);
    for (size_t i = 0; i < count; i++)
        screen_table_add(&table, SCREEN_BOLD, bytes_of(columns[i].head));
    cli_list_init(&list, rows);
    while (cli_list_next(&list, &row))
        for (size_t i = 0; i < count; i++) {
            struct buffer text;

            buffer_init(&text);
            cli_append_value(&text, cli_member(row, columns[i].name));
            screen_table_add(&table, SCREEN_PLAIN, buffer_bytes(&text));
            buffer_deinit(&text);
        }
    screen_table_append(&table, cli_style(cli), &cli->out);
    screen_table_deinit(&table);
}

static void calendars_show_all(struct cli *cli, struct bytes answer)
{
    static const struct calendars_column columns[] = {
        {"NAME", "name"}, {"SCOPE", "scope"}, {"SINCE", "since"}};

    calendars_show(cli, cli_member(answer, "calendars"), columns, 3);
}

static void calendars_show_days(struct cli *cli, struct bytes answer)
{
    static const struct calendars_column columns[] = {{"DATE", "date"}, {"HOLIDAY", "name"}};

    calendars_show(cli, cli_member(answer, "days"), columns, 2);
}

static enum cli_exit calendars_list(struct cli *cli)
{
    struct buffer path;

    buffer_init(&path);
    buffer_append_text(&path, CALENDARS_PATH);
    if (cli->settings.form == CLI_FORM_IDS)
        return lists_ask_and_name(cli, &path, "calendars", "name");
    return lists_ask_and_show(cli, &path, calendars_show_all);
}

static void calendars_append_path(struct buffer *path, const char *name)
{
    buffer_append_text(path, CALENDARS_PATH "/");
    cli_append_path(path, bytes_of(name));
}

static enum cli_exit calendars_get(struct cli *cli, const char *name)
{
    struct buffer path;

    buffer_init(&path);
    calendars_append_path(&path, name);
    return lists_ask_and_show(cli, &path, calendars_show_days);
}

/* Sends the request and shows the days of the answer, if it has some. */
static enum cli_exit calendars_send(struct cli *cli, const char *method, const char *name,
                                    struct bytes body)
{
    const struct bytes text = bytes_trim(body);
    struct cli_answer answer;
    struct buffer path;

    buffer_init(&path);
    calendars_append_path(&path, name);
    buffer_append(&path, "", 1);
    if (buffer_failed(&path))
        return cli_complain(CLI_EXIT_FAILED, "out of memory");
    const bool is_json = text.size && *text.data == '[';
    const struct cli_request request = {.method = method,
                                        .path = path.data,
                                        .body = body,
                                        .content_type = is_json ? NULL : "text/calendar"};
    enum cli_exit code = cli_send(cli, &request, &answer);
    if (!code && answer.status >= 300)
        code = cli_complain_of(&answer);
    else if (!code && body.data && cli->settings.form == CLI_FORM_TABLE)
        calendars_show_days(cli, buffer_bytes(&answer.body));
    else if (!code) {
        screen_append_json(&cli->out, buffer_bytes(&answer.body));
        buffer_append_text(&cli->out, "\n");
    }
    cli_answer_deinit(&answer);
    buffer_deinit(&path);
    return code;
}

static enum cli_exit calendars_set(struct cli *cli, const char *name, const char *file)
{
    struct error error;
    struct buffer body;

    buffer_init(&body);
    if (files_read(strcmp(file, "-") == 0 ? "/dev/stdin" : file, CALENDARS_FILE_BYTES_MAX, &body,
                   &error))
        return cli_complain(CLI_EXIT_USAGE, "%s", error.text);
    const enum cli_exit code = calendars_send(cli, "PUT", name, buffer_bytes(&body));
    buffer_deinit(&body);
    return code;
}

enum cli_exit calendars(struct cli *cli)
{
    const size_t count = cli->options.argument_count;
    const char *act = count ? cli->options.arguments[0] : "list";
    const char *name = count > 1 ? cli->options.arguments[1] : "";

    if (count < 2 && strcmp(act, "list") == 0)
        return calendars_list(cli);
    if (strcmp(act, "set") == 0 && count == 3)
        return calendars_set(cli, name, cli->options.arguments[2]);
    if (strcmp(act, "show") == 0 && count == 2)
        return calendars_get(cli, name);
    if (strcmp(act, "rm") == 0 && count == 2)
        return calendars_send(cli, "DELETE", name, (struct bytes){NULL, 0});
    return cli_complain(CLI_EXIT_USAGE, "write: calendar list, calendar set NAME FILE, calendar "
                                        "show NAME, or calendar rm NAME");
}
