/* plan.c - the verbs about times to come: preview, forecast, explain. */
#include "calendar/calendar.h"
#include "calendar/rfc3339.h"
#include "calendar/zones.h"
#include "cli/fields.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/clock.h"

#include <stdio.h>

#define PLAN_INSTANTS_MAX 1000 /* maximum instants of a preview, by the API */
#define PLAN_MONTHS_MAX   12   /* maximum months that are drawn */
/* maximum rows of a forecast; if there are more units, several of them are in one row */
#define PLAN_ROWS_MAX 60

/* ---- preview ---- */

struct plan_preview {
    const struct zone *zone;
    const char *zone_name;
    struct wall instants[PLAN_INSTANTS_MAX];
    size_t count;
};

static int64_t plan_local(const struct plan_preview *preview, size_t index)
{
    int64_t at = (int64_t)(preview->instants[index].ms / 1000);

    return at + zone_stretch_at(preview->zone, at).offset_s;
}

/* Draws a month. Returns the index of the first instant after it. */
static size_t plan_append_month(struct cli *cli, const struct plan_preview *preview, size_t index)
{
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    struct date month = calendar_date(floor_divide(plan_local(preview, index), 86400));
    int64_t first = calendar_days(month.year, month.month, 1);
    unsigned days = calendar_month_days(month.year, month.month);
    unsigned column = (calendar_weekday(first) + 6) % 7;
    char text[32];

    snprintf(text, sizeof(text), "\n%s %d\n", months[month.month - 1], month.year);
    buffer_append_text(&cli->out, text);
    buffer_append_text(&cli->out, " Mo  Tu  We  Th  Fr  Sa  Su\n");
    buffer_printf(&cli->out, "%*s", (int)column * 4, "");
    for (unsigned day = 0; day < days; day++) {
        bool is_marked = false;

        while (index < preview->count &&
               floor_divide(plan_local(preview, index), 86400) == first + day) {
            is_marked = true;
            index++;
        }
        snprintf(text, sizeof(text), is_marked ? "[%2u]" : " %2u ", day + 1);
        screen_append_coloured(&cli->out, cli_style(cli), is_marked ? SCREEN_GREEN : SCREEN_DIM,
                               bytes_of(text));
        column = (column + 1) % 7;
        if (column == 0 || day + 1 == days)
            buffer_append_text(&cli->out, "\n");
    }
    return index;
}

static void plan_append_instants(struct cli *cli, const struct plan_preview *preview)
{
    struct wall now = wall_now();

    for (size_t i = 0; i < preview->count; i++) {
        char utc[RFC3339_TEXT_SIZE];

        rfc3339_format(preview->instants[i], utc);
        screen_append_local(&cli->out, preview->zone, preview->instants[i]);
        buffer_printf(&cli->out, "  %s  ", utc);
        screen_append_distance(&cli->out, now, preview->instants[i]);
        buffer_append_text(&cli->out, "\n");
    }
}

static void plan_append_calendar(struct cli *cli, const struct plan_preview *preview)
{
    size_t index = 0, months = 0;

    plan_append_instants(cli, preview);
    /* A calendar is useless if each day has an instant, or an hour has several. */
    while (index < preview->count && months++ < PLAN_MONTHS_MAX)
        index = plan_append_month(cli, preview, index);
}

/* Appends the dates of the flag, with commas between them. */
static void plan_append_dates(struct cli *cli, enum cli_flag_id flag, const char *name,
                              struct buffer *path)
{
    struct buffer dates;
    size_t cursor = 0;

    if (!cli_flag(cli, flag))
        return;
    buffer_init(&dates);
    for (const char *text; (text = cli_options_next(&cli->options, flag, &cursor));) {
        buffer_append_text(&dates, dates.size ? "," : "");
        buffer_append_text(&dates, text);
    }
    cli_append_query(path, name, buffer_bytes(&dates));
    buffer_deinit(&dates);
}

static void plan_append_query(struct cli *cli, struct buffer *path)
{
    static const struct {
        enum cli_flag_id flag;
        const char *name;
    } parameters[] = {
        {CLI_FLAG_CRON, "cron"}, {CLI_FLAG_EVERY, "every"},           {CLI_FLAG_ZONE, "timezone"},
        {CLI_FLAG_DST, "dst"},   {CLI_FLAG_UNTIL, "until"},           {CLI_FLAG_START, "after"},
        {CLI_FLAG_NUMBER, "n"},  {CLI_FLAG_ON_HOLIDAY, "on_holiday"},
    };

    buffer_append_text(path, "/v1/schedule/preview");
    if (cli->options.argument_count)
        cli_append_query(path, "cron", bytes_of(cli->options.arguments[0]));
    for (size_t i = 0; i < sizeof(parameters) / sizeof(*parameters); i++)
        if (cli_flag(cli, parameters[i].flag))
            cli_append_query(path, parameters[i].name, bytes_of(cli_flag(cli, parameters[i].flag)));
    plan_append_dates(cli, CLI_FLAG_EXCEPT, "except", path);
    plan_append_dates(cli, CLI_FLAG_ONLY, "only", path);
}

static void plan_read_instants(struct bytes answer, struct plan_preview *preview)
{
    struct cli_list instants;
    struct bytes value;
    struct buffer text;

    buffer_init(&text);
    preview->count = 0;
    cli_list_init(&instants, cli_member(answer, "instants"));
    while (preview->count < PLAN_INSTANTS_MAX && cli_list_next(&instants, &value)) {
        buffer_clear(&text);
        cli_append_value(&text, value);
        if (rfc3339_parse(buffer_bytes(&text), &preview->instants[preview->count], NULL) ==
            ERROR_NONE)
            preview->count++;
    }
    buffer_deinit(&text);
}

/* Appends the dates that are left out or moved, and why. */
static void plan_append_skipped(struct cli *cli, struct bytes answer)
{
    struct cli_list skipped;
    struct buffer text;
    struct bytes row;

    buffer_init(&text);
    cli_list_init(&skipped, cli_member(answer, "skipped"));
    while (cli_list_next(&skipped, &row)) {
        buffer_clear(&text);
        buffer_append_text(&text, "not on ");
        cli_append_value(&text, cli_member(row, "date"));
        buffer_append_text(&text, ": ");
        cli_append_value(&text, cli_member(row, "reason"));
        screen_append(&cli->out, buffer_bytes(&text));
        buffer_append_text(&cli->out, "\n");
    }
    buffer_deinit(&text);
}

/* Shows the instants in local time of the zone; in UTC if this machine does not have the zone. */
static void plan_show_preview(struct cli *cli, struct bytes answer)
{
    const char *name = cli_flag(cli, CLI_FLAG_ZONE);
    struct plan_preview preview = {.zone = zone_utc()};
    struct zones *zones = NULL;

    plan_read_instants(answer, &preview);
    if (name && (zones_create(ZONES_FOLDER, &zones, NULL) ||
                 zones_get(zones, bytes_of(name), &preview.zone, NULL))) {
        preview.zone = zone_utc();
        cli_complain(CLI_EXIT_DONE, "this machine has no zone %s: times are in UTC", name);
    }
    plan_append_skipped(cli, answer);
    plan_append_calendar(cli, &preview);
    zones_destroy(zones);
}

enum cli_exit plan_preview(struct cli *cli)
{
    struct buffer path;

    if (!cli->options.argument_count && !cli_flag(cli, CLI_FLAG_CRON) &&
        !cli_flag(cli, CLI_FLAG_EVERY))
        return cli_complain(CLI_EXIT_USAGE, "preview needs a cron expression, or --every");
    buffer_init(&path);
    plan_append_query(cli, &path);
    return lists_ask_and_show(cli, &path, plan_show_preview);
}

/* ---- forecast ---- */

static void plan_add_row(struct screen_table *table, struct wall at, bool is_second, uint64_t due,
                         uint64_t most)
{
    char time[RFC3339_TEXT_SIZE], number[24];
    struct buffer bar;

    rfc3339_format(at, time);
    time[is_second ? 19 : 16] = '\0';
    snprintf(number, sizeof(number), "%llu", (unsigned long long)due);
    buffer_init(&bar);
    screen_append_bar(&bar, due, most);
    /* Rows show only hour and minute, because the date is in the row that begins the day. */
    screen_table_add(table, SCREEN_DIM, bytes_of(time + 11));
    screen_table_add(table, SCREEN_PLAIN, bytes_of(number));
    screen_table_add(table, SCREEN_BLUE, buffer_bytes(&bar));
    buffer_deinit(&bar);
}

static void plan_show_forecast(struct cli *cli, struct bytes answer)
{
    uint64_t count = cli_number(cli_member(answer, "count"), 1);
    size_t group = (size_t)((count + PLAN_ROWS_MAX - 1) / PLAN_ROWS_MAX), units = 0, rows = 0;
    uint64_t sums[PLAN_ROWS_MAX] = {0}, most = 0, all = 0;
    bool is_second = cli_is_text(cli_member(answer, "unit"), "second");
    struct wall from = {0};
    struct buffer text;
    struct cli_list due;
    struct bytes value;

    buffer_init(&text);
    cli_append_value(&text, cli_member(answer, "from"));
    rfc3339_parse(buffer_bytes(&text), &from, NULL);
    cli_list_init(&due, cli_member(answer, "due"));
    for (; cli_list_next(&due, &value) && group && units / group < PLAN_ROWS_MAX; units++) {
        rows = units / group + 1;
        sums[rows - 1] += cli_number(value, 0);
        all += cli_number(value, 0);
        most = sums[rows - 1] > most ? sums[rows - 1] : most;
    }
    buffer_printf(&cli->out, "%llu due from ", (unsigned long long)all);
    screen_append(&cli->out, buffer_bytes(&text));
    buffer_printf(&cli->out, ", %llu overdue (UTC)\n",
                  (unsigned long long)cli_number(cli_member(answer, "overdue"), 0));
    struct screen_table table;
    screen_table_init(&table, 3);
    for (size_t i = 0; i < rows; i++)
        plan_add_row(&table, wall_add(from, i * group * (is_second ? 1000 : 60000)), is_second,
                     sums[i], most);
    screen_table_append(&table, cli_style(cli), &cli->out);
    screen_table_deinit(&table);
    if (!cli_is_true(cli_member(answer, "complete")))
        buffer_append_text(&cli->out, "There are more timers than a forecast reads; later ones are "
                                      "not counted.\n");
    buffer_deinit(&text);
}

enum cli_exit plan_forecast(struct cli *cli)
{
    struct buffer path;

    buffer_init(&path);
    buffer_append_text(&path, "/v1/forecast");
    if (cli_flag(cli, CLI_FLAG_UNIT))
        cli_append_query(&path, "unit", bytes_of(cli_flag(cli, CLI_FLAG_UNIT)));
    if (cli_flag(cli, CLI_FLAG_NUMBER))
        cli_append_query(&path, "count", bytes_of(cli_flag(cli, CLI_FLAG_NUMBER)));
    return lists_ask_and_show(cli, &path, plan_show_forecast);
}

/* ---- explain ---- */

/* Appends a line for each stage of the lateness, with a bar in proportion to its duration. */
static void plan_append_stages(struct cli *cli, struct bytes lateness)
{
    struct screen_table table;
    struct cli_list stages;
    uint64_t most = 0;
    struct bytes value;
    char name[64];

    cli_members_init(&stages, cli_member(lateness, "stages_ms"));
    while (cli_members_next(&stages, name, &value))
        most = cli_number(value, 0) > most ? cli_number(value, 0) : most;
    if (!most)
        return;
    screen_table_init(&table, 3);
    cli_members_init(&stages, cli_member(lateness, "stages_ms"));
    while (cli_members_next(&stages, name, &value)) {
        struct buffer cell;

        buffer_init(&cell);
        buffer_printf(&cell, "%llu ms", (unsigned long long)cli_number(value, 0));
        screen_table_add(&table, SCREEN_DIM, bytes_of(name));
        screen_table_add(&table, SCREEN_PLAIN, buffer_bytes(&cell));
        buffer_clear(&cell);
        screen_append_bar(&cell, cli_number(value, 0), most);
        screen_table_add(&table, SCREEN_BLUE, buffer_bytes(&cell));
        buffer_deinit(&cell);
    }
    buffer_append_text(&cli->out, "\n");
    screen_table_append(&table, cli_style(cli), &cli->out);
    screen_table_deinit(&table);
}

/* Appends the id of the timer with this key, whether it lives or has ended. */
static enum cli_exit plan_append_id_of_key(struct cli *cli, struct buffer *id)
{
    struct cli_answer answer = {0};
    struct buffer path;

    buffer_init(&path);
    enum cli_exit code = fields_append_place(cli, &path, 0, "");
    struct cli_request request = {.method = "GET", .path = cli_text(&path)};
    code = code ? code : cli_send(cli, &request, &answer);
    struct bytes body = buffer_bytes(&answer.body);
    if (!code && answer.status == 410)
        body = cli_member(body, "timer");
    if (!code && answer.status != 200 && answer.status != 410)
        code = cli_complain_of(&answer);
    if (code == CLI_EXIT_NOT_FOUND)
        lists_hint_log(cli);
    cli_append_value(id, cli_member(body, "id"));
    cli_answer_deinit(&answer);
    buffer_deinit(&path);
    return code;
}

enum cli_exit plan_explain(struct cli *cli)
{
    struct cli_answer answer = {0};
    struct buffer path, id;
    enum cli_exit code = CLI_EXIT_DONE;

    if (cli->options.argument_count + (cli_flag(cli, CLI_FLAG_KEY) != NULL) != 1)
        return cli_complain(CLI_EXIT_USAGE, "name the timer by its id, or by --key KEY");
    buffer_init(&path);
    buffer_init(&id);
    if (cli->options.argument_count)
        buffer_append_text(&id, cli->options.arguments[0]);
    else
        code = plan_append_id_of_key(cli, &id);
    buffer_append_text(&path, "/v1/timers/");
    cli_append_path(&path, buffer_bytes(&id));
    buffer_append_text(&path, "/explain");
    if (!code)
        code = cli_ask(cli, "GET", cli_text(&path), (struct bytes){NULL, 0}, &answer);
    struct bytes body = buffer_bytes(&answer.body);
    if (!code && cli->settings.form == CLI_FORM_TABLE) {
        struct buffer text;

        buffer_init(&text);
        cli_append_value(&text, cli_member(body, "explanation"));
        screen_append(&cli->out, buffer_bytes(&text));
        buffer_append_text(&cli->out, "\n");
        if (cli_flag(cli, CLI_FLAG_VERBOSE)) {
            buffer_clear(&text);
            cli_append_value(&text, cli_member(body, "detail"));
            screen_append(&cli->out, buffer_bytes(&text));
            buffer_append_text(&cli->out, "\n");
        }
        plan_append_stages(cli, cli_member(body, "lateness"));
        buffer_deinit(&text);
    } else if (!code) {
        screen_append_json(&cli->out, body);
        buffer_append_text(&cli->out, "\n");
    }
    cli_answer_deinit(&answer);
    buffer_deinit(&id);
    buffer_deinit(&path);
    return code;
}
