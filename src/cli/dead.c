/* dead.c - the verb for dead letters: list, groups, redrive, delete. */
#include "base/json_write.h"
#include "cli/fields.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"

static void dead_add_cell(struct screen_table *table, struct bytes group, const char *name)
{
    struct buffer text;

    buffer_init(&text);
    cli_append_value(&text, cli_member(group, name));
    screen_table_add(table, SCREEN_PLAIN, buffer_bytes(&text));
    buffer_deinit(&text);
}

static void dead_show_groups(struct cli *cli, struct bytes answer)
{
    static const char *const heads[] = {"COUNT", "ORIGIN", "LAST", "EXAMPLE", "ERROR"};
    static const char *const names[] = {"count", "origin", "last", "example", "error"};
    struct screen_table table;
    struct cli_list groups;
    struct bytes group;

    screen_table_init(&table, 5);
    for (size_t i = 0; i < 5; i++)
        screen_table_add(&table, SCREEN_BOLD, bytes_of(heads[i]));
    cli_list_init(&groups, cli_member(answer, "groups"));
    while (cli_list_next(&groups, &group))
        for (size_t i = 0; i < 5; i++)
            dead_add_cell(&table, group, names[i]);
    screen_table_append(&table, cli_style(cli), &cli->out);
    screen_table_deinit(&table);
    if (!cli_is_true(cli_member(answer, "complete")))
        buffer_append_text(&cli->out, "There are more dead letters than a call counts.\n");
    cli_list_init(&groups, cli_member(answer, "groups"));
    if (!cli_list_next(&groups, &group))
        lists_hint_origin(cli);
}

static enum cli_exit dead_groups(struct cli *cli)
{
    struct buffer path;

    buffer_init(&path);
    buffer_append_text(&path, "/v1/dead/groups");
    lists_append_filters(cli, &path);
    if (cli_flag(cli, CLI_FLAG_LIMIT))
        cli_append_query(&path, "limit", bytes_of(cli_flag(cli, CLI_FLAG_LIMIT)));
    return lists_ask_and_show(cli, &path, dead_show_groups);
}

/* Appends which dead letters to redrive (ids, filters or all), and what to change in them. */
static enum cli_exit dead_append_selection(struct cli *cli, struct buffer *body)
{
    static const struct {
        enum cli_flag_id flag;
        const char *name;
    } texts[] = {{CLI_FLAG_TARGET, "target"},
                 {CLI_FLAG_ORIGIN, "origin"},
                 {CLI_FLAG_ERROR, "error"},
                 {CLI_FLAG_NEW_TARGET, "new_target"}};
    char **ids = cli->options.arguments + 1;

    if (*ids) {
        json_open(body, "ids", '[');
        for (size_t i = 0; ids[i]; i++)
            json_put_text(body, NULL, ids[i]);
        json_close(body, ']');
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (cli_flag(cli, texts[i].flag))
            json_put_text(body, texts[i].name, cli_flag(cli, texts[i].flag));
    if (cli_flag(cli, CLI_FLAG_ALL))
        json_put_flag(body, "all", true);
    if (cli_flag(cli, CLI_FLAG_RATE))
        json_put_raw(body, "rate", bytes_of(cli_flag(cli, CLI_FLAG_RATE)));
    return fields_append_pairs(cli, CLI_FLAG_LABEL, "labels", body);
}

static bool dead_has_filter(struct cli *cli)
{
    static const enum cli_flag_id filters[] = {
        CLI_FLAG_TARGET, CLI_FLAG_ORIGIN, CLI_FLAG_ERROR,      CLI_FLAG_LABEL,
        CLI_FLAG_AFTER,  CLI_FLAG_BEFORE, CLI_FLAG_KEY_PREFIX, CLI_FLAG_KEY_CONTAINS};

    for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++)
        if (cli_flag(cli, filters[i]))
            return true;
    return false;
}

/* Repeats a call, with `next` of each answer as the next cursor, until that is null. Prints the
 * sums of `done` and of failures. `send` makes one call. */
static enum cli_exit dead_repeat(struct cli *cli, const char *done,
                                 enum cli_exit (*send)(struct cli *cli, struct bytes cursor,
                                                       struct cli_answer *ret_answer))
{
    uint64_t sum = 0, failed = 0;
    struct buffer cursor;
    enum cli_exit code;
    bool is_over;

    buffer_init(&cursor);
    do {
        struct cli_answer answer;

        code = send(cli, buffer_bytes(&cursor), &answer);
        struct bytes body = buffer_bytes(&answer.body), next = cli_member(body, "next");
        if (!code) {
            sum += cli_number(cli_member(body, done), 0);
            failed += cli_number(cli_member(body, "failed"), 0);
        }
        is_over = code || next.size < 3 || *next.data != '"';
        buffer_clear(&cursor);
        if (!is_over)
            cli_append_value(&cursor, next);
        cli_answer_deinit(&answer);
    } while (!is_over);
    buffer_deinit(&cursor);
    if (sum + failed || !code) {
        struct buffer counts;

        buffer_init(&counts);
        json_open(&counts, NULL, '{');
        json_put_number(&counts, done, sum);
        json_put_number(&counts, "failed", failed);
        json_close(&counts, '}');
        lists_show_counts(cli, buffer_bytes(&counts));
        if (!code && sum + failed == 0)
            lists_hint_origin(cli);
        buffer_deinit(&counts);
    }
    return code ? code : failed ? CLI_EXIT_FAILED : CLI_EXIT_DONE;
}

static enum cli_exit dead_send_redrive(struct cli *cli, struct bytes cursor,
                                       struct cli_answer *ret_answer)
{
    struct buffer body;

    *ret_answer = (struct cli_answer){0};
    buffer_init(&body);
    json_open(&body, NULL, '{');
    enum cli_exit code = dead_append_selection(cli, &body);
    if (cursor.size)
        json_put_string(&body, "cursor", cursor);
    json_close(&body, '}');
    const char *text = cli_text(&body);
    if (!code)
        code = cli_ask(cli, "POST", "/v1/dead/redrive", (struct bytes){text, strlen(text)},
                       ret_answer);
    buffer_deinit(&body);
    return code;
}

static enum cli_exit dead_send_delete(struct cli *cli, struct bytes cursor,
                                      struct cli_answer *ret_answer)
{
    struct buffer path;

    buffer_init(&path);
    buffer_append_text(&path, "/v1/dead");
    lists_append_filters(cli, &path);
    if (cli_flag(cli, CLI_FLAG_ALL))
        cli_append_query(&path, "all", BYTES("true"));
    if (cursor.size)
        cli_append_query(&path, "cursor", cursor);
    enum cli_exit code =
        cli_ask(cli, "DELETE", cli_text(&path), (struct bytes){NULL, 0}, ret_answer);
    buffer_deinit(&path);
    return code;
}

static enum cli_exit dead_delete_ids(struct cli *cli)
{
    enum cli_exit code = CLI_EXIT_DONE;

    for (char **id = cli->options.arguments + 1; *id && !code; id++) {
        struct cli_answer answer;
        struct buffer path;

        buffer_init(&path);
        buffer_append_text(&path, "/v1/dead/");
        cli_append_path(&path, bytes_of(*id));
        code = cli_ask(cli, "DELETE", cli_text(&path), (struct bytes){NULL, 0}, &answer);
        if (!code)
            lists_show(cli, buffer_bytes(&answer.body));
        cli_answer_deinit(&answer);
        buffer_deinit(&path);
    }
    return code;
}

/* Asks the user before more than one dead letter is changed. */
static enum cli_exit dead_confirm(struct cli *cli, const char *word)
{
    size_t ids = cli->options.argument_count - 1;
    uint64_t count = ids;
    enum cli_exit code = CLI_EXIT_DONE;

    if (!ids && !dead_has_filter(cli) && !cli_flag(cli, CLI_FLAG_ALL))
        return cli_complain(CLI_EXIT_USAGE,
                            "name the dead letters: by ids, filters such as --target, or --all");
    if (!ids)
        code = lists_count(cli, "/v1/dead", &count);
    if (code || count < 2)
        return code;
    return cli_confirm(cli, "%s %llu dead letters?", word, (unsigned long long)count);
}

/* Refuses flags that the act would ignore, because it would then change other dead letters than the
 * user meant. */
static enum cli_exit dead_refuse(struct cli *cli, const char *act)
{
    static const struct {
        enum cli_flag_id flag;
        const char *acts;
    } flags[] = {
        {CLI_FLAG_AFTER, "list, groups and delete"},
        {CLI_FLAG_BEFORE, "list, groups and delete"},
        {CLI_FLAG_KEY_PREFIX, "list, groups and delete"},
        {CLI_FLAG_KEY_CONTAINS, "list, groups and delete"},
        {CLI_FLAG_LIMIT, "list and groups"},
        {CLI_FLAG_ALL, "redrive and delete"},
        {CLI_FLAG_RATE, "redrive"},
        {CLI_FLAG_NEW_TARGET, "redrive"},
    };
    const bool has_ids = cli->options.argument_count > 1;

    if (strcmp(act, "list") != 0 && strcmp(act, "groups") != 0 && strcmp(act, "redrive") != 0 &&
        strcmp(act, "delete") != 0)
        return cli_complain(CLI_EXIT_USAGE, "dead is followed by list, groups, redrive or delete");
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        if (cli_flag(cli, flags[i].flag) && !strstr(flags[i].acts, act))
            return cli_complain(CLI_EXIT_USAGE, "--%s is a flag of dead %s only",
                                cli_flag_row(flags[i].flag)->name, flags[i].acts);
    if (has_ids && (strcmp(act, "list") == 0 || strcmp(act, "groups") == 0))
        return cli_complain(CLI_EXIT_USAGE, "dead %s takes no ids, but filters such as --target",
                            act);
    if (has_ids && (dead_has_filter(cli) || cli_flag(cli, CLI_FLAG_ALL)))
        return cli_complain(CLI_EXIT_USAGE,
                            "name the dead letters by ids, or by filters, or --all");
    return CLI_EXIT_DONE;
}

enum cli_exit dead_run(struct cli *cli)
{
    const char *act = cli->options.arguments[0];
    enum cli_exit code = dead_refuse(cli, act);

    if (code)
        return code;
    if (strcmp(act, "list") == 0)
        return lists_run(cli, "/v1/dead");
    if (strcmp(act, "groups") == 0)
        return dead_groups(cli);
    if (strcmp(act, "redrive") == 0) {
        code = dead_confirm(cli, "Redrive");
        return code ? code : dead_repeat(cli, "redriven", dead_send_redrive);
    }
    code = dead_confirm(cli, "Delete");
    if (!code && cli->options.argument_count > 1)
        return dead_delete_ids(cli);
    return code ? code : dead_repeat(cli, "deleted", dead_send_delete);
}
