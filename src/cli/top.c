/* top.c - the verb top: the daemon's metrics, queues and targets, live, on 80 x 24 places. */
#include "calendar/rfc3339.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/clock.h"
#include "sys/terminal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOP_BUCKETS_MAX      64
#define TOP_TIMES_FIXED      4     /* number of rows of times that are always shown */
#define TOP_HELD_SECONDS_MIN 0.001 /* time in seconds below which nothing counts as held back */
#define TOP_LEFT_WIDTH       42
#define TOP_TIMES_SHOWN      11 /* maximum rows of times */
#define TOP_BUSIEST          4  /* maximum rows of queues, and of targets */
#define TOP_NAME_WIDTH       18
#define TOP_VERDICT_WIDTH    79

/* The last two readings of /metrics, of which rates and percentiles are computed. */
struct top {
    struct buffer before, now;
    struct instant before_at, now_at;
    struct cli_answer queues, targets, verdict;
};

/* Returns the rest of the next line that begins with `prefix`; NULL at the end. */
static const char *top_find(struct bytes *text, const char *prefix)
{
    size_t size = strlen(prefix);

    while (text->size > 0) {
        struct bytes line = bytes_cut(text, '\n');

        if (line.size > size && memcmp(line.data, prefix, size) == 0)
            return line.data + size;
    }
    return NULL;
}

/* Returns the value of a series, which is named with its labels; 0 if it is missing. */
static double top_value(const struct buffer *look, const char *series)
{
    struct bytes text = buffer_bytes(look);

    for (const char *rest; (rest = top_find(&text, series));)
        if (*rest == ' ') {
            double value = strtod(rest, NULL);
            return isfinite(value) ? value : 0;
        }
    return 0;
}

static double top_rate(const struct top *top, const char *series)
{
    double seconds = (double)instant_since_ns(top->before_at, top->now_at) / 1e9;
    double grown = top_value(&top->now, series) - top_value(&top->before, series);

    /* a restarted daemon counts from 0 again */
    return top->before.size && seconds > 0 && grown >= 0 ? grown / seconds : 0;
}

struct top_bucket {
    double below, count;
};

/* Reads the buckets of a histogram. `series` is the series up to the value of the label `le`. */
static size_t top_buckets(const struct buffer *look, const char *series,
                          struct top_bucket *ret_buckets)
{
    struct bytes text = buffer_bytes(look);
    size_t count = 0;

    for (const char *rest; count < TOP_BUCKETS_MAX && (rest = top_find(&text, series));) {
        char *end;

        ret_buckets[count].below = strtod(rest, &end);
        if (end[0] != '"' || end[1] != '}')
            continue;
        ret_buckets[count++].count = strtod(end + 2, NULL);
    }
    return count;
}

/* Returns the upper bound, in seconds, of the bucket that contains this share of the values between
 * both readings; -1 if there were none. */
static double top_percentile(const struct top *top, const char *series, double share)
{
    struct top_bucket now[TOP_BUCKETS_MAX], before[TOP_BUCKETS_MAX];
    size_t count = top_buckets(&top->now, series, now);
    bool is_alike = top_buckets(&top->before, series, before) == count;

    for (size_t i = 0; i < count && is_alike; i++)
        now[i].count -= before[i].count;
    double all = count ? now[count - 1].count : 0;
    for (size_t i = 0; i < count && all > 0; i++)
        if (now[i].count >= all * share)
            return now[i].below;
    return -1;
}

/* ---- output ---- */

static void top_add(struct screen_table *table, enum screen_colour colour, const char *format,
                    double value)
{
    struct buffer text;

    buffer_init(&text);
    /* All formats are literals in this file. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    buffer_printf(&text, format, value);
#pragma GCC diagnostic pop
    screen_table_add(table, colour, buffer_bytes(&text));
    buffer_deinit(&text);
}

static void top_append_rates(const struct top *top, enum screen_style style, struct buffer *out)
{
    static const struct {
        const char *name, *series;
        enum screen_colour colour; /* colour of a value that is not zero */
    } rates[] = {
        {"created", "tickwheel_timers_created_total", SCREEN_PLAIN},
        {"fired", "tickwheel_timers_fired_total", SCREEN_GREEN},
        {"cancelled", "tickwheel_timers_cancelled_total", SCREEN_PLAIN},
        {"attempts failed", "tickwheel_attempts_failed_total", SCREEN_YELLOW},
        {"dead", "tickwheel_timers_dead_total", SCREEN_RED},
        {"leases", "tickwheel_queue_leases_total", SCREEN_PLAIN},
        {"acks", "tickwheel_queue_acks_total", SCREEN_PLAIN},
        {"nacks", "tickwheel_queue_nacks_total", SCREEN_YELLOW},
    };
    struct screen_table table;

    screen_table_init(&table, 3);
    screen_table_add(&table, SCREEN_BOLD, BYTES("RATES"));
    screen_table_add(&table, SCREEN_BOLD, BYTES("PER SECOND"));
    screen_table_add(&table, SCREEN_BOLD, BYTES("IN ALL"));
    for (size_t i = 0; i < sizeof(rates) / sizeof(*rates); i++) {
        double rate = top_rate(top, rates[i].series);

        screen_table_add(&table, SCREEN_DIM, bytes_of(rates[i].name));
        top_add(&table, rate > 0 ? rates[i].colour : SCREEN_PLAIN, "%.1f", rate);
        top_add(&table, SCREEN_PLAIN, "%.0f", top_value(&top->now, rates[i].series));
    }
    screen_table_append(&table, style, out);
    screen_table_deinit(&table);
}

/* Rows about what holds deliveries back are shown only while something does. */
static void top_append_times(const struct top *top, enum screen_style style, struct buffer *out)
{
#define TOP_STAGE(name, stage)                                              \
    {                                                                       \
        name, "tickwheel_lateness_seconds_bucket{stage=\"" stage "\",le=\"" \
    }
    static const struct {
        const char *name, *series;
    } times[] = {
        {"late", "tickwheel_delivery_lateness_seconds_bucket{le=\""},
        TOP_STAGE("  in the wheel", "schedule"),
        TOP_STAGE("  in the queue", "queue"),
        TOP_STAGE("  to the network", "transfer"),
        TOP_STAGE("  retries", "retries"),
        TOP_STAGE("  set late", "set_late"),
        TOP_STAGE("  not running", "down"),
        TOP_STAGE("  put back to disk", "put_back"),
        TOP_STAGE("  catching up", "catch_up"),
        TOP_STAGE("  deliveries_max", "room"),
        TOP_STAGE("  target's limit", "target_limit"),
        TOP_STAGE("  breaker", "breaker"),
        TOP_STAGE("  target's rate", "rate"),
        TOP_STAGE("  no worker", "worker"),
        TOP_STAGE("  paused", "paused"),
        TOP_STAGE("  maintenance", "maintenance"),
        {"commit", "tickwheel_commit_seconds_bucket{le=\""},
        {"acknowledge", "tickwheel_acknowledge_seconds_bucket{le=\""},
        {"request", "tickwheel_http_request_seconds_bucket{le=\""},
    };
#undef TOP_STAGE
    struct screen_table table;

    screen_table_init(&table, 3);
    screen_table_add(&table, SCREEN_BOLD, BYTES("TIMES"));
    screen_table_add(&table, SCREEN_BOLD, BYTES("P50"));
    screen_table_add(&table, SCREEN_BOLD, BYTES("P99"));
    const size_t count = sizeof(times) / sizeof(*times);
    size_t held_left = TOP_TIMES_SHOWN - TOP_TIMES_FIXED - 3;
    for (size_t i = 0; i < count; i++) {
        const bool is_held = i >= TOP_TIMES_FIXED && i < count - 3;

        if (is_held &&
            (held_left == 0 || top_percentile(top, times[i].series, 0.99) <= TOP_HELD_SECONDS_MIN))
            continue;
        held_left -= is_held;
        screen_table_add(&table, SCREEN_DIM, bytes_of(times[i].name));
        for (unsigned each = 0; each < 2; each++) {
            double seconds = top_percentile(top, times[i].series, each ? 0.99 : 0.5);

            if (seconds < 0)
                screen_table_add(&table, SCREEN_DIM, BYTES("-"));
            else
                top_add(&table, SCREEN_PLAIN, "%.1f ms", seconds * 1000);
        }
    }
    screen_table_append(&table, style, out);
    screen_table_deinit(&table);
}

static void top_append_gauges(const struct top *top, enum screen_style style, struct buffer *out)
{
    static const struct {
        const char *name, *series, *format;
        double unit;
    } gauges[] = {
        {"pending", "tickwheel_timers_pending", "%.0f", 1},
        {"in memory", "tickwheel_timers_in_memory", "%.0f", 1},
        {"in flight", "tickwheel_deliveries_inflight", "%.0f", 1},
        {"waiting", "tickwheel_deliveries_waiting", "%.0f", 1},
        {"leased", "tickwheel_queue_leased", "%.0f", 1},
        {"dead letters", "tickwheel_dead_letters", "%.0f", 1},
        {"memory", "process_resident_memory_bytes", "%.0f MiB", 1 << 20},
        {"disk", "tickwheel_disk_bytes", "%.0f MiB", 1 << 20},
        {"disk free", "tickwheel_disk_free_bytes", "%.1f GiB", 1 << 30},
    };
    struct screen_table table;

    screen_table_init(&table, 2);
    screen_table_add(&table, SCREEN_BOLD, BYTES("NOW"));
    screen_table_add(&table, SCREEN_BOLD, (struct bytes){"", 0});
    for (size_t i = 0; i < sizeof(gauges) / sizeof(*gauges); i++) {
        screen_table_add(&table, SCREEN_DIM, bytes_of(gauges[i].name));
        top_add(&table, SCREEN_PLAIN, gauges[i].format,
                top_value(&top->now, gauges[i].series) / gauges[i].unit);
    }
    screen_table_append(&table, style, out);
    screen_table_deinit(&table);
}

/* Names of three members of a row: the first is its name, the second its count. */
struct top_columns {
    const char *list, *heads[3], *names[3];
};

/* Adds the cells of a row; a long name is cut. */
static void top_add_row(struct screen_table *table, const struct top_columns *columns,
                        struct bytes row)
{
    struct buffer text;

    buffer_init(&text);
    for (size_t i = 0; i < 3; i++) {
        buffer_clear(&text);
        cli_append_value(&text, cli_member(row, columns->names[i]));
        screen_table_add_cut(
            table, bytes_equal(buffer_bytes(&text), BYTES("open")) ? SCREEN_RED : SCREEN_PLAIN,
            buffer_bytes(&text), TOP_NAME_WIDTH);
    }
    buffer_deinit(&text);
}

/* Appends the rows of the answer that have the highest counts. */
static void top_append_busiest(const struct cli_answer *answer, const struct top_columns *columns,
                               enum screen_style style, struct buffer *out)
{
    struct bytes busiest[TOP_BUSIEST] = {{NULL, 0}}, row;
    struct screen_table table;
    struct cli_list rows;

    if (answer->status != 200)
        return;
    cli_list_init(&rows, cli_member(buffer_bytes(&answer->body), columns->list));
    while (cli_list_next(&rows, &row))
        for (size_t i = 0; i < TOP_BUSIEST; i++) {
            const char *count = columns->names[1];
            const struct bytes other = busiest[i];

            if (other.size &&
                cli_number(cli_member(row, count), 0) <= cli_number(cli_member(other, count), 0))
                continue;
            busiest[i] = row;
            row = other;
            if (!row.size)
                break;
        }
    screen_table_init(&table, 3);
    for (size_t i = 0; i < 3; i++)
        screen_table_add(&table, SCREEN_BOLD, bytes_of(columns->heads[i]));
    for (size_t i = 0; i < TOP_BUSIEST && busiest[i].size; i++)
        top_add_row(&table, columns, busiest[i]);
    buffer_append_text(out, "\n");
    screen_table_append(&table, style, out);
    screen_table_deinit(&table);
}

/* Appends what the first line of the verdict says, in a row of its own; an empty row if none
 * waits, or the token may not see it. */
static void top_append_verdict(const struct top *top, enum screen_style style, struct buffer *out)
{
    const struct bytes answer = buffer_bytes(&top->verdict.body);
    struct cli_list lines;
    struct bytes line;
    struct screen_table table;
    struct buffer text;

    cli_list_init(&lines, cli_member(answer, "waiting"));
    if (top->verdict.status != 200 || !cli_list_next(&lines, &line)) {
        buffer_append_text(out, "\n");
        return;
    }
    buffer_init(&text);
    cli_append_value(&text, cli_member(line, "text"));
    screen_table_init(&table, 1);
    screen_table_add_cut(
        &table, cli_is_text(cli_member(answer, "state"), "late") ? SCREEN_RED : SCREEN_PLAIN,
        buffer_bytes(&text), TOP_VERDICT_WIDTH);
    screen_table_append(&table, style, out);
    screen_table_deinit(&table);
    buffer_deinit(&text);
}

static void top_show(struct cli *cli, const struct top *top)
{
    static const struct top_columns queues = {
        "queues", {"QUEUE", "READY", "LEASED"}, {"name", "ready", "leased"}};
    static const struct top_columns targets = {
        "targets", {"TARGET", "WAITING", "BREAKER"}, {"target", "waiting", "breaker"}};
    enum screen_style style = cli_style(cli);
    char time[RFC3339_TEXT_SIZE];
    struct buffer left, right;

    buffer_init(&left);
    buffer_init(&right);
    top_append_rates(top, style, &left);
    buffer_append_text(&left, "\n");
    top_append_times(top, style, &left);
    top_append_gauges(top, style, &right);
    top_append_busiest(&top->queues, &queues, style, &right);
    top_append_busiest(&top->targets, &targets, style, &right);
    rfc3339_format(wall_now(), time);
    if (cli->is_terminal)
        buffer_append_text(&cli->out, "\033[H\033[J");
    buffer_printf(&cli->out, "%s  %s%s\n", cli->settings.url, time,
                  cli->is_terminal ? "  q quits" : "");
    top_append_verdict(top, style, &cli->out);
    screen_append_beside(&cli->out, buffer_bytes(&left), TOP_LEFT_WIDTH, buffer_bytes(&right));
    if (cli->is_terminal && cli->out.size)
        cli->out.size--; /* a line break in the last row would scroll */
    else
        buffer_append_text(&cli->out, "\n");
    buffer_deinit(&left);
    buffer_deinit(&right);
}

/* Reads a list which the token may not be allowed to see. */
static enum cli_exit top_read_list(struct cli *cli, const char *path, struct cli_answer *answer)
{
    struct cli_request request = {.method = "GET", .path = path};

    cli_answer_deinit(answer);
    return cli_send(cli, &request, answer);
}

static enum cli_exit top_look(struct cli *cli, struct top *top)
{
    struct cli_answer answer;
    struct cli_request request = {.method = "GET", .path = "/metrics"};
    enum cli_exit code = cli_send(cli, &request, &answer);

    if (!code && answer.status != 200) {
        code = cli_complain_of(&answer);
        cli_answer_deinit(&answer);
        return code;
    }
    /* Numbers are read up to the end of their line, so the text must end with one. */
    buffer_append_text(&answer.body, "\n");
    cli_text(&answer.body);
    buffer_deinit(&top->before);
    top->before = top->now;
    top->before_at = top->now_at;
    top->now = answer.body;
    top->now_at = instant_now();
    code = code ? code : top_read_list(cli, "/v1/queues", &top->queues);
    code = code ? code : top_read_list(cli, "/v1/targets", &top->targets);
    code = code ? code : top_read_list(cli, "/v1/verdict", &top->verdict);
    if (!code)
        top_show(cli, top);
    return code;
}

/* Waits until the next reading. Returns false after a signal, or after the key q. */
static bool top_wait(struct cli *cli, const struct terminal *terminal, uint64_t ms)
{
    const struct instant end = instant_add_ms(instant_now(), ms);

    for (struct instant now = instant_now(); now.ns < end.ns; now = instant_now()) {
        const uint64_t left_ms = (instant_since_ns(now, end) + 999999) / 1000000;

        if (signals_wait(&cli->signals, terminal_fd(terminal), left_ms) != 0)
            return false;
        for (int key; (key = terminal_key(terminal));)
            if (key == 'q')
                return false;
    }
    return true;
}

/* Prints the figures as one JSON document. */
static enum cli_exit top_look_json(struct cli *cli)
{
    struct buffer path;

    buffer_init(&path);
    buffer_append_text(&path, "/v1/stats");
    return lists_ask_and_show(cli, &path, NULL);
}

enum cli_exit top_run(struct cli *cli)
{
    struct top top = {0};
    struct terminal terminal;
    uint64_t interval_ms, left;
    enum cli_exit code = cli_flag_interval(cli, 1000, &interval_ms);

    if (!code)
        code = cli_flag_number(cli, CLI_FLAG_NUMBER, 1, UINT64_MAX, UINT64_MAX, &left);
    code = code ? code : cli_catch_signals(cli);
    terminal_open(&terminal, cli->is_terminal ? STDIN_FILENO : -1);
    while (!code) {
        code = cli->settings.form == CLI_FORM_TABLE ? top_look(cli, &top) : top_look_json(cli);
        if (!code && !cli_flush(cli))
            code = CLI_EXIT_FAILED;
        if (code || --left == 0 || !top_wait(cli, &terminal, interval_ms))
            break;
    }
    terminal_close(&terminal);
    if (cli->is_terminal)
        buffer_append_text(&cli->out, "\n");
    buffer_deinit(&top.before);
    buffer_deinit(&top.now);
    cli_answer_deinit(&top.queues);
    cli_answer_deinit(&top.targets);
    cli_answer_deinit(&top.verdict);
    return code == CLI_EXIT_STOPPED ? CLI_EXIT_DONE : code;
}
