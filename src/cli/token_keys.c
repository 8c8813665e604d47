/* token_keys.c - the verb token-keys: shows and rotates the keys of tokens that the daemon makes
 * itself. */
#include "base/json_write.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"

#include <string.h>

static void token_keys_show(struct cli *cli, struct bytes answer)
{
    static const struct lists_column columns[] = {{"KID", "kid"},     {"ALG", "alg"},
                                                  {"STATE", "state"}, {"MADE", "made"},
                                                  {"SIGNS", "signs"}, {"ENDS", "ends"}};

    lists_show_columns(cli, cli_member(answer, "keys"), columns,
                       sizeof(columns) / sizeof(*columns));
}

static enum cli_exit token_keys_rotate(struct cli *cli, const char *overlap)
{
    const char *algorithm = cli_flag(cli, CLI_FLAG_ALG);
    struct cli_answer answer;
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    if (overlap)
        json_put_text(&body, "overlap", overlap);
    if (algorithm)
        json_put_text(&body, "alg", algorithm);
    json_close(&body, '}');
    const enum cli_exit code =
        cli_ask(cli, "POST", "/v1/token-keys/rotate", buffer_bytes(&body), &answer);
    if (!code && cli->settings.form == CLI_FORM_TABLE) {
        token_keys_show(cli, buffer_bytes(&answer.body));
    } else if (!code) {
        screen_append_json(&cli->out, buffer_bytes(&answer.body));
        buffer_append_text(&cli->out, "\n");
    }
    cli_answer_deinit(&answer);
    buffer_deinit(&body);
    return code;
}

enum cli_exit token_keys(struct cli *cli)
{
    const size_t count = cli->options.argument_count;
    char *const *arguments = cli->options.arguments;
    struct buffer path;

    if (count > 0 && strcmp(arguments[0], "rotate") == 0)
        return token_keys_rotate(cli, count > 1 ? arguments[1] : NULL);
    if (count > 0 || cli_flag(cli, CLI_FLAG_ALG))
        return cli_complain(CLI_EXIT_USAGE, "write: token-keys, or token-keys rotate [OVERLAP]");
    buffer_init(&path);
    buffer_append_text(&path, "/v1/token-keys");
    return lists_ask_and_show(cli, &path, token_keys_show);
}
