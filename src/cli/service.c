/* service.c - the verbs about the daemon itself: health, backup, version. */
#include "base/json_write.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"

/* Appends the version that the daemon reports; nothing if it reports none. */
static void service_append_version(struct cli *cli)
{
    struct cli_answer answer;
    struct cli_request request = {.method = "GET", .path = "/"};
    struct buffer text;

    buffer_init(&text);
    if (cli_send(cli, &request, &answer) == CLI_EXIT_DONE && answer.is_json)
        cli_append_value(&text, cli_member(buffer_bytes(&answer.body), "version"));
    buffer_append_text(&cli->out, text.size ? ", tickwheeld " : "");
    screen_append(&cli->out, buffer_bytes(&text));
    buffer_deinit(&text);
    cli_answer_deinit(&answer);
}

enum cli_exit service_health(struct cli *cli)
{
    struct cli_answer answer;
    struct cli_request request = {.method = "GET", .path = "/readyz"};
    enum cli_exit code = cli_send(cli, &request, &answer);
    struct bytes body = buffer_bytes(&answer.body);
    bool is_ready = answer.status == 200 && cli_is_text(cli_member(body, "status"), "ready");

    if (!code && !is_ready && (answer.status != 503 || !answer.is_json)) {
        code = cli_complain_of(&answer);
    } else if (!code && cli->settings.form == CLI_FORM_JSON) {
        struct buffer text;

        buffer_init(&text);
        json_open(&text, NULL, '{');
        json_put_flag(&text, "ready", is_ready);
        if (cli_member(body, "detail").size)
            json_put_raw(&text, "detail", cli_member(body, "detail"));
        json_close(&text, '}');
        screen_append_json(&cli->out, buffer_bytes(&text));
        buffer_append_text(&cli->out, "\n");
        buffer_deinit(&text);
    } else if (!code) {
        screen_append(&cli->out, bytes_of(cli->settings.url));
        buffer_append_text(&cli->out, is_ready ? ": ready" : ": running, but not ready: ");
        if (is_ready)
            service_append_version(cli);
        else
            screen_append(&cli->out, cli_member(body, "detail"));
        buffer_append_text(&cli->out, "\n");
    }
    cli_answer_deinit(&answer);
    return code ? code : is_ready ? CLI_EXIT_DONE : CLI_EXIT_UNAVAILABLE;
}

enum cli_exit service_backup(struct cli *cli)
{
    struct cli_answer answer;

    /* A backup has no time limit by default, because it takes as long as its copy. */
    if (!cli_flag(cli, CLI_FLAG_TIMEOUT))
        cli->settings.timeout_ms = 0;
    enum cli_exit code = cli_ask(cli, "POST", "/v1/admin/backup", (struct bytes){"", 0}, &answer);
    if (!code)
        lists_show(cli, buffer_bytes(&answer.body));
    cli_answer_deinit(&answer);
    return code;
}

enum cli_exit service_version(struct cli *cli)
{
    buffer_append_text(&cli->out, cli->settings.form == CLI_FORM_JSON
                                      ? "{\"version\":\"" TICKWHEEL_VERSION "\"}\n"
                                      : "tickwheel " TICKWHEEL_VERSION "\n");
    return CLI_EXIT_DONE;
}
