/* clock.c - the verb clock: shows and moves the virtual clock of a daemon for tests. */
#include "base/json_write.h"
#include "calendar/duration.h"
#include "cli/client.h"
#include "cli/value.h"
#include "cli/verbs.h"

#include <string.h>

static void clock_make_body(const char *where, struct buffer *out)
{
    uint64_t ms;
    const bool is_duration = duration_parse(bytes_of(where), &ms, NULL) == ERROR_NONE;

    buffer_clear(out);
    json_open(out, NULL, '{');
    json_put_text(out, is_duration ? "by" : "to", where);
    json_close(out, '}');
}

/* Moves the clock until it is there: a request takes a few seconds at most. Adds up what happened
 * in `sums`: fired, delivered and failed. */
static enum cli_exit clock_move(struct cli *cli, const char *where, uint64_t sums[3],
                                struct cli_answer *answer)
{
    struct buffer body;
    enum cli_exit code;
    bool is_done;

    buffer_init(&body);
    clock_make_body(where, &body);
    do {
        code = cli_ask(cli, "POST", "/v1/clock/advance", buffer_bytes(&body), answer);
        if (code)
            break;
        const struct bytes text = buffer_bytes(&answer->body);
        sums[0] += cli_number(cli_member(text, "fired"), 0);
        sums[1] += cli_number(cli_member(text, "delivered"), 0);
        sums[2] += cli_number(cli_member(text, "failed"), 0);
        is_done = cli_is_true(cli_member(text, "done"));
        buffer_clear(&body);
        json_open(&body, NULL, '{');
        json_put_raw(&body, "to", cli_member(text, "to"));
        json_close(&body, '}');
        if (!is_done)
            cli_answer_deinit(answer);
    } while (!is_done);
    buffer_deinit(&body);
    return code;
}

static void clock_show(struct cli *cli, struct bytes answer, const uint64_t *sums)
{
    struct buffer now;

    buffer_init(&now);
    cli_append_value(&now, cli_member(answer, "now"));
    if (cli->settings.form == CLI_FORM_JSON) {
        json_open(&cli->out, NULL, '{');
        json_put_raw(&cli->out, "now", cli_member(answer, "now"));
        if (sums) {
            json_put_number(&cli->out, "fired", sums[0]);
            json_put_number(&cli->out, "delivered", sums[1]);
            json_put_number(&cli->out, "failed", sums[2]);
        }
        json_close(&cli->out, '}');
    } else {
        screen_append(&cli->out, buffer_bytes(&now));
        if (sums)
            buffer_printf(&cli->out, "  fired %llu, delivered %llu, failed %llu",
                          (unsigned long long)sums[0], (unsigned long long)sums[1],
                          (unsigned long long)sums[2]);
    }
    buffer_append_text(&cli->out, "\n");
    buffer_deinit(&now);
}

enum cli_exit clock_run(struct cli *cli)
{
    char *const *arguments = cli->options.arguments;
    const size_t count = cli->options.argument_count;
    uint64_t sums[3] = {0};
    struct cli_answer answer;

    if (count && strcmp(arguments[0], "advance") != 0)
        return cli_complain(CLI_EXIT_USAGE, "\"%s\" is none of: advance", arguments[0]);
    if (count == 1)
        return cli_complain(CLI_EXIT_USAGE, "advance takes a duration such as 3d, a time, or next");
    const enum cli_exit code =
        count ? clock_move(cli, arguments[1], sums, &answer)
              : cli_ask(cli, "GET", "/v1/clock", (struct bytes){"", 0}, &answer);
    if (!code)
        clock_show(cli, buffer_bytes(&answer.body), count ? sums : NULL);
    cli_answer_deinit(&answer);
    return code;
}
