/* overview.c - the verbs about queues, targets and the cluster. */
#include "base/json_write.h"
#include "base/number.h"
#include "calendar/duration.h"
#include "cli/fields.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/clock.h"

#include <assert.h>
#include <stdio.h>

enum { OVERVIEW_COLUMN_ROOM = 16 };

struct overview_column {
    const char *head, *name; /* title of the column, and name of the member */
};

static enum screen_colour overview_colour(const char *name, struct bytes text)
{
    if (strcmp(name, "paused") == 0)
        return SCREEN_YELLOW;
    if (strcmp(name, "breaker") != 0 || bytes_equal(text, BYTES("closed")))
        return SCREEN_PLAIN;
    return bytes_equal(text, BYTES("open")) ? SCREEN_RED : SCREEN_YELLOW;
}

/* Appends since when and until when a queue or a target is paused, and why; nothing if it is not
 * paused. */
static void overview_say_paused(struct bytes row, struct buffer *text)
{
    static const char *const names[] = {"since", "until", "note"};
    static const char *const words[] = {"since ", " until ", ": "};
    const struct bytes paused = cli_member(row, "paused");

    for (size_t i = 0; i < 3 && paused.size; i++) {
        const struct bytes value = cli_member(paused, names[i]);

        buffer_append_text(text, value.size ? words[i] : "");
        cli_append_value(text, value);
    }
}

/* Returns a word for the state of a node. A node that was stopped is shown as drained, not as
 * dead. */
static const char *overview_state_of_node(struct bytes row)
{
    const bool is_stopping = cli_is_true(cli_member(row, "stopping"));
    const bool is_drained = cli_is_true(cli_member(row, "drained"));

    if (cli_is_true(cli_member(row, "alive")))
        return is_drained ? "drained" : is_stopping ? "stops" : "alive";
    return is_stopping || is_drained ? "drained" : "dead";
}

/* Appends a value; a dash for null, such as the label of timers without it. */
static void overview_append_member(struct bytes row, const char *name, struct buffer *text)
{
    const struct bytes value = cli_member(row, name);

    cli_append_value(text, bytes_equal(value, BYTES("null")) ? BYTES("-") : value);
}

static void overview_add_row(struct screen_table *table, struct bytes row,
                             const struct overview_column *columns, size_t count)
{
    struct buffer text;

    buffer_init(&text);
    for (size_t i = 0; i < count; i++) {
        buffer_clear(&text);
        if (strcmp(columns[i].name, "paused") == 0)
            overview_say_paused(row, &text);
        else if (strcmp(columns[i].name, "alive") == 0)
            buffer_append_text(&text, overview_state_of_node(row));
        else
            overview_append_member(row, columns[i].name, &text);
        screen_table_add(table, overview_colour(columns[i].name, buffer_bytes(&text)),
                         buffer_bytes(&text));
    }
    buffer_deinit(&text);
}

/* Appends a row for each element of the list in the answer, and for each path of a target, because
 * paths have breakers of their own. */
static void overview_show(struct cli *cli, struct bytes answer, const char *list,
                          const struct overview_column *columns, size_t count)
{
    struct screen_table table;
    struct overview_column of_path[OVERVIEW_COLUMN_ROOM];
    struct cli_list rows, paths;
    struct bytes row;

    assert(count <= OVERVIEW_COLUMN_ROOM);
    for (size_t i = 0; i < count; i++)
        of_path[i] = (struct overview_column){columns[i].head, i == 0 ? "path" : columns[i].name};
    screen_table_init(&table, count);
    for (size_t i = 0; i < count; i++)
        screen_table_add(&table, SCREEN_BOLD, bytes_of(columns[i].head));
    cli_list_init(&rows, cli_member(answer, list));
    while (cli_list_next(&rows, &row)) {
        overview_add_row(&table, row, columns, count);
        cli_list_init(&paths, cli_member(row, "paths"));
        while (cli_list_next(&paths, &row))
            overview_add_row(&table, row, of_path, count);
    }
    screen_table_append(&table, cli_style(cli), &cli->out);
    screen_table_deinit(&table);
    const struct bytes complete = cli_member(answer, "complete");
    if (complete.size && !cli_is_true(complete))
        buffer_append_text(&cli->out, "There are more than a call shows.\n");
}

static void overview_show_queues(struct cli *cli, struct bytes answer)
{
    static const struct overview_column columns[] = {
        {"QUEUE", "name"},      {"READY", "ready"},   {"LEASED", "leased"},
        {"WORKERS", "workers"}, {"OLDEST", "oldest"}, {"MORE ON DISK", "more_on_disk"},
        {"PAUSED", "paused"}};

    overview_show(cli, answer, "queues", columns, sizeof(columns) / sizeof(*columns));
}

static void overview_show_flows(struct cli *cli, struct bytes answer)
{
    static const struct overview_column columns[] = {
        {"FLOW", "key"},      {"RUNNING", "running"}, {"OF", "concurrency"}, {"RATE", "rate"},
        {"PERIOD", "period"}, {"WAITING", "waiting"}, {"OLDEST", "oldest"},  {"PAUSED", "paused"},
    };

    overview_show(cli, answer, "flows", columns, sizeof(columns) / sizeof(*columns));
}

static void overview_show_targets(struct cli *cli, struct bytes answer)
{
    static const struct overview_column columns[] = {
        {"TARGET", "target"},   {"WAITING", "waiting"}, {"IN FLIGHT", "in_flight"},
        {"BREAKER", "breaker"}, {"FAILED", "failures"}, {"OLDEST", "oldest"},
        {"PAUSED", "paused"},   {"ERROR", "last_error"}};

    overview_show(cli, answer, "targets", columns, sizeof(columns) / sizeof(*columns));
}

static void overview_show_cluster(struct cli *cli, struct bytes answer)
{
    static const struct overview_column nodes[] = {
        {"NODE", "node"},       {"STATE", "alive"},        {"PLANNER", "planner"},
        {"ADDRESS", "address"}, {"PEERS", "peer_address"}, {"ZONE", "zone"},
        {"WEIGHT", "weight"},   {"LOAD", "load"},          {"SEEN", "seen"}};
    static const struct overview_column partitions[] = {
        {"PARTITION", "partition"}, {"OWNER", "owner"},       {"PLANNED", "planned"},
        {"NEXT", "next"},           {"STANDBYS", "standbys"}, {"EPOCH", "epoch"},
        {"STATE HERE", "state"},    {"BEHIND", "behind"}};

    overview_show(cli, answer, "nodes", nodes, sizeof(nodes) / sizeof(*nodes));
    buffer_append_text(&cli->out, "\n");
    overview_show(cli, answer, "partitions", partitions, sizeof(partitions) / sizeof(*partitions));
}

/* Runs "pause NAME", "resume NAME" or, for targets, "reset NAME". */
static enum cli_exit overview_act(struct cli *cli, const char *place, const char *verbs)
{
    const char *verb = cli->options.arguments[0], *name = cli->options.arguments[1];
    const bool is_pause = strcmp(verb, "pause") == 0;
    struct cli_answer answer;
    struct buffer path, body;

    if (!is_pause && strcmp(verb, "resume") != 0 &&
        (!strstr(verbs, "reset") || strcmp(verb, "reset") != 0))
        return cli_complain(CLI_EXIT_USAGE, "\"%s\" is none of: %s", verb, verbs);
    if (!is_pause && (cli_flag(cli, CLI_FLAG_NOTE) || cli_flag(cli, CLI_FLAG_UNTIL)))
        return cli_complain(CLI_EXIT_USAGE, "--note and --until are for pause");
    buffer_init(&path);
    buffer_init(&body);
    buffer_append_text(&path, place);
    cli_append_path(&path, bytes_of(name));
    buffer_printf(&path, "/%s", verb);
    if (is_pause) {
        json_open(&body, NULL, '{');
        fields_append_pause(cli, &body);
        json_close(&body, '}');
    }
    const enum cli_exit code = cli_ask(cli, "POST", cli_text(&path), buffer_bytes(&body), &answer);
    if (!code)
        lists_show(cli, buffer_bytes(&answer.body));
    cli_answer_deinit(&answer);
    buffer_deinit(&body);
    buffer_deinit(&path);
    return code;
}

static void overview_show_count(struct cli *cli, struct bytes answer)
{
    static const struct overview_column groups[] = {
        {"STATE", "state"}, {"ORIGIN", "origin"}, {"LABEL", "label"}, {"COUNT", "count"}};
    const char *by = cli_flag(cli, CLI_FLAG_BY);
    struct overview_column shown[4];
    size_t count = 0;

    for (size_t i = 0; i < 3; i++) {
        bool is_wanted = false;
        for (struct bytes rest = bytes_of(by ? by : ""); rest.size && !is_wanted;)
            is_wanted = bytes_has_prefix(bytes_cut(&rest, ','), bytes_of(groups[i].name));
        if (is_wanted)
            shown[count++] = groups[i];
    }
    shown[count++] = groups[3];
    if (by)
        overview_show(cli, answer, "groups", shown, count);
    const uint64_t others = cli_number(cli_member(answer, "others"), 0);
    if (by && others)
        buffer_printf(&cli->out, "%llu in no group\n", (unsigned long long)others);
    cli_append_value(&cli->out, cli_member(answer, "count"));
    buffer_append_text(&cli->out, cli_is_true(cli_member(answer, "complete"))
                                      ? " live timers\n"
                                      : " live timers so far: not all have been read yet\n");
}

enum cli_exit overview_count(struct cli *cli)
{
    struct buffer path;

    buffer_init(&path);
    buffer_append_text(&path, "/v1/timers/count");
    if (cli_flag(cli, CLI_FLAG_BY))
        cli_append_query(&path, "by", bytes_of(cli_flag(cli, CLI_FLAG_BY)));
    return lists_ask_and_show(cli, &path, overview_show_count);
}

enum cli_exit overview_queues(struct cli *cli)
{
    const char *name = cli->options.argument_count ? cli->options.arguments[0] : NULL;
    struct buffer path;

    if (cli->options.argument_count == 2)
        return overview_act(cli, "/v1/queues/", "pause, resume");
    if (cli_flag(cli, CLI_FLAG_NOTE) || cli_flag(cli, CLI_FLAG_UNTIL))
        return cli_complain(CLI_EXIT_USAGE, "--note and --until are for queues pause QUEUE");
    if (name && (strcmp(name, "pause") == 0 || strcmp(name, "resume") == 0))
        cli_complain(CLI_EXIT_DONE,
                     "this is the queue \"%s\"; to %s another write: queues %s QUEUE", name, name,
                     name);
    buffer_init(&path);
    buffer_append_text(&path, name ? "/v1/queues/" : "/v1/queues");
    cli_append_path(&path, bytes_of(name ? name : ""));
    if (!name && cli->settings.form == CLI_FORM_IDS)
        return lists_ask_and_name(cli, &path, "queues", "name");
    return lists_ask_and_show(cli, &path, name ? lists_show : overview_show_queues);
}

enum cli_exit overview_flows(struct cli *cli)
{
    struct buffer path;

    if (cli->options.argument_count == 2)
        return overview_act(cli, "/v1/flows/", "pause, resume");
    if (cli->options.argument_count || cli_flag(cli, CLI_FLAG_NOTE) ||
        cli_flag(cli, CLI_FLAG_UNTIL))
        return cli_complain(CLI_EXIT_USAGE, "write: flows, or flows pause|resume KEY");
    buffer_init(&path);
    buffer_append_text(&path, "/v1/flows");
    if (cli->settings.form == CLI_FORM_IDS)
        return lists_ask_and_name(cli, &path, "flows", "key");
    return lists_ask_and_show(cli, &path, overview_show_flows);
}

enum cli_exit overview_targets(struct cli *cli)
{
    struct buffer path;

    if (cli->options.argument_count == 2)
        return overview_act(cli, "/v1/targets/", "pause, resume, reset");
    if (cli->options.argument_count || cli_flag(cli, CLI_FLAG_NOTE) ||
        cli_flag(cli, CLI_FLAG_UNTIL))
        return cli_complain(CLI_EXIT_USAGE, "write: targets, or targets pause|resume|reset TARGET");
    buffer_init(&path);
    buffer_append_text(&path, "/v1/targets");
    if (cli->settings.form == CLI_FORM_IDS)
        return lists_ask_and_name(cli, &path, "targets", "target");
    return lists_ask_and_show(cli, &path, overview_show_targets);
}

/* ---- drains ---- */

/* interval of checks whether a drained node still owns partitions */
#define OVERVIEW_DRAIN_LOOK_MS 200

/* Reads how many partitions the node owns, or will own according to the plan. */
static enum cli_exit overview_read_owned(struct cli *cli, uint64_t node, uint64_t *ret_owned)
{
    struct cli_answer answer;
    struct cli_list partitions;
    struct bytes partition;
    const enum cli_exit code = cli_ask(cli, "GET", "/v1/cluster", (struct bytes){NULL, 0}, &answer);

    *ret_owned = 0;
    cli_list_init(&partitions, cli_member(buffer_bytes(&answer.body), "partitions"));
    while (!code && cli_list_next(&partitions, &partition))
        *ret_owned += cli_number(cli_member(partition, "owner"), 0) == node ||
                      cli_number(cli_member(partition, "planned"), 0) == node;
    cli_answer_deinit(&answer);
    return code;
}

/* Waits until the node owns no partition, at most `wait_ms`. */
static enum cli_exit overview_await_drain(struct cli *cli, uint64_t node, uint64_t wait_ms)
{
    const struct instant until = instant_add_ms(instant_now(), wait_ms);
    uint64_t owned = 1;
    enum cli_exit code = cli_catch_signals(cli);

    while (!code) {
        code = overview_read_owned(cli, node, &owned);
        if (code || owned == 0)
            break;
        if (instant_now().ns >= until.ns)
            return cli_complain(CLI_EXIT_FAILED,
                                "node %llu is drained, and owns %llu partitions still",
                                (unsigned long long)node, (unsigned long long)owned);
        if (!cli_wait(cli, OVERVIEW_DRAIN_LOOK_MS))
            code = CLI_EXIT_STOPPED;
    }
    return code;
}

static void overview_show_drain(struct cli *cli, uint64_t node, bool is_drain, uint64_t owned)
{
    if (cli->settings.form == CLI_FORM_JSON)
        buffer_printf(&cli->out, "{\"node\":%llu,\"drained\":%s,\"owns\":%llu}\n",
                      (unsigned long long)node, is_drain ? "true" : "false",
                      (unsigned long long)owned);
    else if (!is_drain)
        buffer_printf(&cli->out, "node %llu takes its share of the partitions again\n",
                      (unsigned long long)node);
    else if (owned == 0)
        buffer_printf(&cli->out, "node %llu is drained: it owns no partition\n",
                      (unsigned long long)node);
    else
        buffer_printf(&cli->out,
                      "node %llu gives up its partitions, of which it owns %llu; --wait waits for "
                      "the last\n",
                      (unsigned long long)node, (unsigned long long)owned);
}

/* Runs "drain NODE" or "undrain NODE". */
static enum cli_exit overview_drain(struct cli *cli, const char *verb, const char *name)
{
    const bool is_drain = strcmp(verb, "drain") == 0;
    const char *wait = cli_flag(cli, CLI_FLAG_WAIT);
    struct cli_answer answer;
    uint64_t node, wait_ms = 0;
    char path[64];

    if (!is_drain && strcmp(verb, "undrain") != 0)
        return cli_complain(CLI_EXIT_USAGE, "\"%s\" is none of: drain, undrain", verb);
    if (!number_parse(bytes_of(name), 10, &node) || node == 0 || node > UINT32_MAX)
        return cli_complain(CLI_EXIT_USAGE, "NODE is the number of a node, as cluster shows it");
    if (wait && (!is_drain || duration_parse(bytes_of(wait), &wait_ms, NULL)))
        return cli_complain(CLI_EXIT_USAGE, "drain --wait takes a duration, as 5m");
    snprintf(path, sizeof(path), "/v1/cluster/nodes/%llu/drain", (unsigned long long)node);
    enum cli_exit code =
        cli_ask(cli, is_drain ? "PUT" : "DELETE", path, (struct bytes){NULL, 0}, &answer);
    uint64_t owned = cli_number(cli_member(buffer_bytes(&answer.body), "owns"), 0);
    cli_answer_deinit(&answer);
    if (!code && wait) {
        code = overview_await_drain(cli, node, wait_ms);
        owned = 0;
    }
    if (!code)
        overview_show_drain(cli, node, is_drain, owned);
    return code;
}

enum cli_exit overview_cluster(struct cli *cli)
{
    struct buffer path;

    if (cli->options.argument_count == 2)
        return overview_drain(cli, cli->options.arguments[0], cli->options.arguments[1]);
    if (cli->options.argument_count || cli_flag(cli, CLI_FLAG_WAIT))
        return cli_complain(CLI_EXIT_USAGE, "write: cluster, or cluster drain|undrain NODE");
    buffer_init(&path);
    buffer_append_text(&path, "/v1/cluster");
    return lists_ask_and_show(cli, &path, overview_show_cluster);
}
