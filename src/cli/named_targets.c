/* named_targets.c - the verb target: defines, shows and removes named targets. A definition may
 * have secrets, so it is read from a file or standard input and is never an argument. */
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/files.h"

#include <stdio.h>
#include <string.h>

#define NAMED_TARGETS_FILE_BYTES_MAX (UINT64_C(1) << 20)

static void named_targets_show(struct cli *cli, struct bytes answer)
{
    static const struct lists_column columns[] = {{"NAME", "name"},
                                                  {"URL", "url"},
                                                  {"METHOD", "method"},
                                                  {"AUTH", "auth"},
                                                  {"VERSION", "version"},
                                                  {"CHANGED", "changed"},
                                                  {"DEFINED BY", "defined_by"}};

    lists_show_columns(cli, cli_member(answer, "targets"), columns,
                       sizeof(columns) / sizeof(*columns));
}

static enum cli_exit named_targets_list(struct cli *cli)
{
    struct buffer path;

    buffer_init(&path);
    buffer_append_text(&path, "/v1/named-targets");
    return lists_ask_and_show(cli, &path, named_targets_show);
}

/* Sends the request for the named target, with the version of --if-version, and prints the answer
 * as JSON. */
static enum cli_exit named_targets_ask(struct cli *cli, const char *method, const char *name,
                                       struct bytes body)
{
    const char *version = cli_flag(cli, CLI_FLAG_VERSION);
    char header[64] = "";
    struct cli_answer answer;
    struct buffer path;

    if (version)
        snprintf(header, sizeof(header), "If-Match: \"%.20s\"", version);
    buffer_init(&path);
    buffer_append_text(&path, "/v1/named-targets/");
    cli_append_path(&path, bytes_of(name));
    buffer_append(&path, "", 1);
    if (buffer_failed(&path))
        return cli_complain(CLI_EXIT_FAILED, "out of memory");
    const struct cli_request request = {
        .method = method, .path = path.data, .body = body, .header = version ? header : NULL};
    enum cli_exit code = cli_send(cli, &request, &answer);
    if (!code && answer.status >= 300)
        code = cli_complain_of(&answer);
    else if (!code) {
        screen_append_json(&cli->out, buffer_bytes(&answer.body));
        buffer_append_text(&cli->out, "\n");
    }
    cli_answer_deinit(&answer);
    buffer_deinit(&path);
    return code;
}

static enum cli_exit named_targets_set(struct cli *cli, const char *name, const char *file)
{
    struct error error;
    struct buffer body;

    buffer_init(&body);
    if (files_read(strcmp(file, "-") == 0 ? "/dev/stdin" : file, NAMED_TARGETS_FILE_BYTES_MAX,
                   &body, &error))
        return cli_complain(CLI_EXIT_USAGE, "%s", error.text);
    const enum cli_exit code = named_targets_ask(cli, "PUT", name, buffer_bytes(&body));
    buffer_deinit(&body);
    return code;
}

enum cli_exit named_targets(struct cli *cli)
{
    const size_t count = cli->options.argument_count;
    const char *act = count ? cli->options.arguments[0] : "";
    const char *name = count > 1 ? cli->options.arguments[1] : "";
    const struct bytes none = {NULL, 0};

    if (count == 0)
        return named_targets_list(cli);
    if (strcmp(act, "set") == 0 && count == 3)
        return named_targets_set(cli, name, cli->options.arguments[2]);
    if (strcmp(act, "show") == 0 && count == 2)
        return named_targets_ask(cli, "GET", name, none);
    if (strcmp(act, "rm") == 0 && count == 2)
        return named_targets_ask(cli, "DELETE", name, none);
    if (strcmp(act, "reseal") == 0 && count == 1)
        return named_targets_ask(cli, "POST", "reseal", none);
    return cli_complain(CLI_EXIT_USAGE,
                        "write: target, target set NAME FILE, target show NAME, target rm NAME, or "
                        "target reseal");
}
