/* service.c - the verbs about the daemon itself: health, backup, maintenance, version. */
#include "base/json_write.h"
#include "cli/lists.h"
#include "cli/value.h"
#include "cli/verbs.h"

#include <string.h>

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

static void service_append_detail(struct cli *cli, struct bytes body)
{
    struct buffer text;

    buffer_init(&text);
    cli_append_value(&text, cli_member(body, "detail"));
    screen_append(&cli->out, buffer_bytes(&text));
    buffer_deinit(&text);
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
        if (is_ready && cli_member(body, "detail").size)
            buffer_append_text(&cli->out, "; ");
        service_append_detail(cli, body);
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

static void service_show_maintenance(struct cli *cli, struct bytes answer)
{
    const bool is_on = cli_is_true(cli_member(answer, "maintenance"));
    struct buffer note;

    buffer_init(&note);
    cli_append_value(&note, cli_member(answer, "note"));
    buffer_append_text(&cli->out, is_on ? "maintenance holds all deliveries back"
                                        : "no maintenance: deliveries go on");
    buffer_append_text(&cli->out, note.size ? ": " : "");
    screen_append(&cli->out, buffer_bytes(&note));
    buffer_append_text(&cli->out, "\n");
    buffer_deinit(&note);
}

enum cli_exit service_maintenance(struct cli *cli)
{
    const char *act = cli->options.argument_count ? cli->options.arguments[0] : "";
    const char *note = cli_flag(cli, CLI_FLAG_NOTE);
    const bool begins = strcmp(act, "begin") == 0, ends = strcmp(act, "end") == 0;
    struct cli_answer answer;
    struct buffer body;

    if (*act && !begins && !ends)
        return cli_complain(CLI_EXIT_USAGE, "\"%s\" is none of: begin, end", act);
    if (note && !begins)
        return cli_complain(CLI_EXIT_USAGE, "--note is for maintenance begin");
    buffer_init(&body);
    if (begins) {
        json_open(&body, NULL, '{');
        if (note)
            json_put_text(&body, "note", note);
        json_close(&body, '}');
    }
    const enum cli_exit code = cli_ask(cli,
                                       begins ? "PUT"
                                       : ends ? "DELETE"
                                              : "GET",
                                       "/v1/admin/maintenance", buffer_bytes(&body), &answer);
    if (!code && cli->settings.form == CLI_FORM_TABLE) {
        service_show_maintenance(cli, buffer_bytes(&answer.body));
    } else if (!code) {
        screen_append_json(&cli->out, buffer_bytes(&answer.body));
        buffer_append_text(&cli->out, "\n");
    }
    cli_answer_deinit(&answer);
    buffer_deinit(&body);
    return code;
}

enum cli_exit service_version(struct cli *cli)
{
    buffer_append_text(&cli->out, cli->settings.form == CLI_FORM_JSON
                                      ? "{\"version\":\"" TICKWHEEL_VERSION "\"}\n"
                                      : "tickwheel " TICKWHEEL_VERSION "\n");
    return CLI_EXIT_DONE;
}
