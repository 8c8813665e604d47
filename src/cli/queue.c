/* queue.c - the verbs for single calls to a queue: lease, ack, nack, extend. */
#include "base/json_write.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"

static void queue_append_path(struct cli *cli, const char *call, struct buffer *path)
{
    buffer_append_text(path, "/v1/queues/");
    cli_append_path(path, bytes_of(cli->options.arguments[0]));
    buffer_append_text(path, "/");
    buffer_append_text(path, call);
}

static void queue_append_flag(struct cli *cli, struct buffer *body, enum cli_flag_id flag,
                              const char *name)
{
    if (cli_flag(cli, flag))
        json_put_text(body, name, cli_flag(cli, flag));
}

static void queue_show_items(struct cli *cli, struct bytes answer)
{
    static const char *const heads[] = {"RECEIPT", "ID", "ATTEMPT", "PAYLOAD"};
    static const char *const names[] = {"receipt", "id", "attempt", "payload"};
    struct screen_table table;
    struct cli_list items;
    struct bytes item;
    struct buffer text;

    screen_table_init(&table, 4);
    buffer_init(&text);
    for (size_t i = 0; i < 4; i++)
        screen_table_add(&table, SCREEN_BOLD, bytes_of(heads[i]));
    cli_list_init(&items, cli_member(answer, "items"));
    while (cli_list_next(&items, &item)) {
        for (size_t i = 0; i < 4; i++) {
            buffer_clear(&text);
            cli_append_value(&text, cli_member(item, names[i]));
            screen_table_add(&table, SCREEN_PLAIN, buffer_bytes(&text));
        }
        buffer_clear(&text);
        cli_append_value(&text, cli_member(item, "receipt"));
        if (cli->settings.form == CLI_FORM_TABLE)
            continue;
        if (cli->settings.form == CLI_FORM_JSON)
            screen_append_json(&cli->out, item);
        else
            screen_append(&cli->out, buffer_bytes(&text));
        buffer_append_text(&cli->out, "\n");
    }
    if (cli->settings.form == CLI_FORM_TABLE)
        screen_table_append(&table, cli_style(cli), &cli->out);
    buffer_deinit(&text);
    screen_table_deinit(&table);
}

enum cli_exit queue_lease(struct cli *cli)
{
    struct cli_answer answer = {0};
    struct buffer path, body;
    uint64_t count;
    enum cli_exit code = cli_flag_number(cli, CLI_FLAG_NUMBER, 1, 1000, 1, &count);

    buffer_init(&path);
    buffer_init(&body);
    queue_append_path(cli, "lease", &path);
    json_open(&body, NULL, '{');
    json_put_number(&body, "max", count);
    queue_append_flag(cli, &body, CLI_FLAG_WAIT, "wait");
    queue_append_flag(cli, &body, CLI_FLAG_LEASE, "lease");
    json_close(&body, '}');
    if (!code)
        code = cli_ask(cli, "POST", cli_text(&path), buffer_bytes(&body), &answer);
    if (!code)
        queue_show_items(cli, buffer_bytes(&answer.body));
    cli_answer_deinit(&answer);
    buffer_deinit(&body);
    buffer_deinit(&path);
    return code;
}

/* Sends the receipts in the arguments. Stale ones count as failures. */
static enum cli_exit queue_answer(struct cli *cli, const char *call)
{
    struct cli_answer answer;
    struct buffer path, body;

    buffer_init(&path);
    buffer_init(&body);
    queue_append_path(cli, call, &path);
    json_open(&body, NULL, '{');
    json_open(&body, "receipts", '[');
    for (size_t i = 1; i < cli->options.argument_count; i++)
        json_put_text(&body, NULL, cli->options.arguments[i]);
    json_close(&body, ']');
    queue_append_flag(cli, &body, CLI_FLAG_LEASE, "lease");
    queue_append_flag(cli, &body, CLI_FLAG_DELAY, "delay");
    queue_append_flag(cli, &body, CLI_FLAG_ERROR, "error");
    if (cli_flag(cli, CLI_FLAG_DEAD))
        json_put_flag(&body, "dead", true);
    json_close(&body, '}');
    enum cli_exit code = cli_ask(cli, "POST", cli_text(&path), buffer_bytes(&body), &answer);
    struct bytes counts = buffer_bytes(&answer.body);
    if (!code)
        code = lists_show_counts(cli, counts);
    if (!code && cli_number(cli_member(counts, "ok"), 0) + 1 < cli->options.argument_count)
        code = CLI_EXIT_FAILED;
    cli_answer_deinit(&answer);
    buffer_deinit(&body);
    buffer_deinit(&path);
    return code;
}

enum cli_exit queue_ack(struct cli *cli)
{
    return queue_answer(cli, "ack");
}

enum cli_exit queue_nack(struct cli *cli)
{
    return queue_answer(cli, "nack");
}

enum cli_exit queue_extend(struct cli *cli)
{
    return queue_answer(cli, "extend");
}
