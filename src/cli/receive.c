/*
 * receive.c - the verb receive, a receiver of webhooks for trying them out; and dev, which runs a
 * daemon beside it.
 *
 * The HTTP server has one thread, which verifies, prints and answers; the main thread waits for a
 * signal, or for the last webhook of --count.
 */
#include "base/base64.h"
#include "base/json_write.h"
#include "base/number.h"
#include "calendar/rfc3339.h"
#include "cli/client.h"
#include "cli/daemon_program.h"
#include "cli/signing.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "http/server.h"
#include "sys/clock.h"
#include "sys/entropy.h"
#include "sys/process.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RECEIVE_SECRET         "TICKWHEEL_WEBHOOK_SECRET"
#define RECEIVE_PORT           9000
#define RECEIVE_LOOK_MS        50 /* interval of checks whether the run has ended */
#define RECEIVE_BODY_BYTES_MAX (UINT64_C(16) << 20)
#define RECEIVE_AGE_S_MAX      300 /* maximum age of a webhook whose signature is accepted */

struct receive {
    struct cli *cli; /* `out` belongs to the server's thread while the server runs */
    /* key of the signatures; if its size is 0, signatures are not verified */
    struct signing_key key;
    int status;
    uint64_t left; /* number of webhooks still to wait for */
    atomic_bool is_over;
};

/* A request. Its headers are copied, because they are freed before its last part is handled. */
struct receive_visit {
    struct receive *receive;
    struct buffer line; /* method and path */
    struct buffer id, timestamp, signature, due, attempt, body;
    bool is_too_large;
};

/* ---- signatures ---- */

static const char *receive_judge(const struct receive_visit *visit)
{
    uint64_t sent, now = wall_now().ms / 1000;

    if (!visit->receive->key.size)
        return visit->signature.size ? "not verified: no --secret" : "none";
    if (!visit->signature.size)
        return "missing";
    if (!signing_is_valid(&visit->receive->key, buffer_bytes(&visit->id),
                          buffer_bytes(&visit->timestamp), buffer_bytes(&visit->body),
                          buffer_bytes(&visit->signature)))
        return "WRONG";
    if (!number_parse(buffer_bytes(&visit->timestamp), 10, &sent) ||
        (now > sent ? now - sent : sent - now) > RECEIVE_AGE_S_MAX)
        return "valid, but older than five minutes";
    return "valid";
}

/* ---- output ---- */

static void receive_print_words(const struct receive_visit *visit)
{
    struct buffer *out = &visit->receive->cli->out;
    char time[RFC3339_TEXT_SIZE];
    struct wall due;

    rfc3339_format(wall_now(), time);
    buffer_printf(out, "%s  ", time + 11);
    screen_append(out, buffer_bytes(&visit->line));
    buffer_append_text(out, "  ");
    screen_append(out, buffer_bytes(&visit->body));
    buffer_append_text(out, "\n");
    if (!visit->id.size)
        return;
    buffer_append_text(out, "    due ");
    screen_append(out, buffer_bytes(&visit->due));
    if (rfc3339_parse(buffer_bytes(&visit->due), &due, NULL) == ERROR_NONE)
        buffer_printf(out, ", %.1f ms ago", (double)wall_now_us() / 1000 - (double)due.ms);
    buffer_append_text(out, ", attempt ");
    screen_append(out, buffer_bytes(&visit->attempt));
    buffer_append_text(out, ", webhook-id ");
    screen_append(out, buffer_bytes(&visit->id));
    buffer_printf(out, ", signature %s\n", receive_judge(visit));
}

static void receive_print_json(const struct receive_visit *visit)
{
    struct bytes body = buffer_bytes(&visit->body);
    char time[RFC3339_TEXT_SIZE];
    struct buffer text;

    buffer_init(&text);
    rfc3339_format(wall_now(), time);
    json_open(&text, NULL, '{');
    json_put_text(&text, "received", time);
    json_put_string(&text, "request", buffer_bytes(&visit->line));
    json_put_string(&text, "webhook_id", buffer_bytes(&visit->id));
    json_put_string(&text, "due", buffer_bytes(&visit->due));
    json_put_string(&text, "attempt", buffer_bytes(&visit->attempt));
    json_put_text(&text, "signature", receive_judge(visit));
    if (cli_is_json(body, NULL, NULL))
        json_put_raw(&text, "payload", body);
    else
        json_put_string(&text, "body", body);
    json_close(&text, '}');
    screen_append_json(&visit->receive->cli->out, buffer_bytes(&text));
    buffer_append_text(&visit->receive->cli->out, "\n");
    buffer_deinit(&text);
}

/* ---- the handler ---- */

static void receive_begin(void *context, struct http_request *request)
{
    struct receive_visit *visit = calloc(1, sizeof(*visit));

    http_request_set_user(request, visit);
    if (!visit) {
        http_request_answer(request, &(struct http_response){.status = 503});
        return;
    }
    visit->receive = context;
    buffer_append_bytes(&visit->line, http_request_method(request));
    buffer_append_text(&visit->line, " ");
    buffer_append_bytes(&visit->line, http_request_target(request));
    buffer_append_bytes(&visit->id, http_request_header(request, "webhook-id"));
    buffer_append_bytes(&visit->timestamp, http_request_header(request, "webhook-timestamp"));
    buffer_append_bytes(&visit->signature, http_request_header(request, "webhook-signature"));
    buffer_append_bytes(&visit->due, http_request_header(request, "tickwheel-due"));
    buffer_append_bytes(&visit->attempt, http_request_header(request, "tickwheel-attempt"));
}

static size_t receive_body(struct http_request *request, struct bytes chunk)
{
    struct receive_visit *visit = http_request_user(request);

    if (visit->body.size + chunk.size <= RECEIVE_BODY_BYTES_MAX)
        buffer_append_bytes(&visit->body, chunk);
    else
        visit->is_too_large = true;
    return chunk.size;
}

static void receive_end(struct http_request *request)
{
    struct receive_visit *visit = http_request_user(request);
    struct receive *receive = visit->receive;
    struct http_response response = {.status = visit->is_too_large ? 413 : receive->status};

    http_request_answer(request, &response);
    if (visit->is_too_large || atomic_load(&receive->is_over))
        return;
    if (receive->cli->settings.form == CLI_FORM_TABLE)
        receive_print_words(visit);
    else
        receive_print_json(visit);
    if (!cli_flush(receive->cli) || --receive->left == 0)
        atomic_store(&receive->is_over, true);
}

static void receive_closed(struct http_request *request)
{
    struct receive_visit *visit = http_request_user(request);

    if (!visit)
        return;
    buffer_deinit(&visit->line);
    buffer_deinit(&visit->id);
    buffer_deinit(&visit->timestamp);
    buffer_deinit(&visit->signature);
    buffer_deinit(&visit->due);
    buffer_deinit(&visit->attempt);
    buffer_deinit(&visit->body);
    free(visit);
}

static void receive_refuse(void *context, struct http_request *request, enum http_refusal refusal)
{
    static const int statuses[] = {400, 431, 503, 503};

    (void)context;
    http_request_answer(request, &(struct http_response){.status = statuses[refusal]});
}

/* Reads the flags, and starts the server on the port in the first argument. */
static enum cli_exit receive_start(struct receive *receive, struct http_server **ret_server)
{
    static const struct http_handler handler = {
        .begin = receive_begin,
        .body = receive_body,
        .end = receive_end,
        .closed = receive_closed,
        .refuse = receive_refuse,
    };
    struct cli *cli = receive->cli;
    uint64_t port = RECEIVE_PORT, status;
    enum cli_exit code = cli_flag_number(cli, CLI_FLAG_STATUS, 200, 599, 200, &status);

    if (!code)
        code = cli_flag_number(cli, CLI_FLAG_NUMBER, 1, UINT64_MAX, UINT64_MAX, &receive->left);
    if (!code && cli->options.argument_count &&
        (!number_parse(bytes_of(cli->options.arguments[0]), 10, &port) || port > 65535))
        code = cli_complain(CLI_EXIT_USAGE, "PORT is a number up to 65535");
    code = code ? code : signing_read_key(cli, SIGNING_TO_VERIFY, &receive->key);
    code = code ? code : cli_catch_signals(cli);
    if (code)
        return code;
    receive->status = (int)status;
    struct http_options options = {.address = "127.0.0.1",
                                   .port = (uint16_t)port,
                                   .threads = 1,
                                   .connections_max = 256,
                                   .header_bytes_max = 64 * 1024,
                                   .idle_ms = 60000,
                                   .drain_ms = 1000,
                                   .handler = &handler,
                                   .context = receive};
    struct error error;
    if (http_server_start(&options, ret_server, &error))
        return cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    cli_complain(CLI_EXIT_DONE, "waits for webhooks on http://127.0.0.1:%u, Ctrl-C ends",
                 http_server_port(*ret_server));
    return CLI_EXIT_DONE;
}

enum cli_exit receive_run(struct cli *cli)
{
    struct receive receive = {.cli = cli};
    struct http_server *server;
    enum cli_exit code = receive_start(&receive, &server);

    if (!code) {
        while (!atomic_load(&receive.is_over) && cli_wait(cli, RECEIVE_LOOK_MS))
            ;
        http_server_stop(server);
    }
    signing_key_wipe(&receive.key);
    return code;
}

/* ---- dev ---- */

static enum cli_exit receive_start_daemon(struct cli *cli, struct process_child *ret_daemon)
{
    const char *data = cli_flag(cli, CLI_FLAG_DATA), *port = cli_flag(cli, CLI_FLAG_PORT);
    const char *given = cli_flag(cli, CLI_FLAG_CLOCK);
    char path[PATH_MAX], folder[PATH_MAX], number[16], clock[64];
    struct error error;
    char *arguments[] = {path,
                         (char[]){"--data-folder"},
                         folder,
                         (char[]){"--listen-port"},
                         number,
                         (char[]){"--webhook-allow"},
                         (char[]){"127.0.0.0/8,::1/128"},
                         (char[]){"--clock"},
                         clock,
                         NULL};

    snprintf(folder, sizeof(folder), "%s", data ? data : "./data");
    snprintf(number, sizeof(number), "%s", port ? port : "8463");
    snprintf(clock, sizeof(clock), "%s", given ? given : "real");
    daemon_program_find(path, sizeof(path));
    if (process_start(arguments, environ, PROCESS_IS_BOUND, ret_daemon, &error))
        return cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    /* closes the input, because the daemon reads none */
    process_write(ret_daemon, (struct bytes){"", 0});
    return CLI_EXIT_DONE;
}

static bool receive_has_secret(void)
{
    const char *given = getenv(RECEIVE_SECRET);

    return given && *given;
}

/* Makes a random secret for the daemon and the receiver. */
static enum cli_exit receive_make_secret(void)
{
    struct buffer text;
    uint8_t key[32];

    buffer_init(&text);
    bool has_failed = entropy_fill(key, sizeof(key));
    buffer_append_text(&text, "whsec_");
    base64_append(&text, (struct bytes){(const char *)key, sizeof(key)});
    has_failed = has_failed || setenv(RECEIVE_SECRET, cli_text(&text), 1) != 0;
    buffer_deinit(&text);
    return has_failed ? cli_complain(CLI_EXIT_FAILED, "a secret cannot be made") : CLI_EXIT_DONE;
}

/* `secret` is the random one. If the user has set one, it is the name of its variable, so that the
 * secret is not printed. */
static void receive_say_what_runs(struct cli *cli, uint16_t receiver, const char *secret)
{
    const char *data = cli_flag(cli, CLI_FLAG_DATA), *port = cli_flag(cli, CLI_FLAG_PORT);

    if (port && strcmp(port, "0") == 0)
        cli_complain(CLI_EXIT_DONE, "runs tickwheeld on a free port, with its timers in %s",
                     data ? data : "./data");
    else
        cli_complain(CLI_EXIT_DONE,
                     "runs tickwheeld on http://127.0.0.1:%s, its pages are /ui, its timers in %s",
                     port ? port : "8463", data ? data : "./data");
    cli_complain(CLI_EXIT_DONE, "webhooks are signed and verified with %s", secret);
    cli_complain(CLI_EXIT_DONE, "try elsewhere: tickwheel add 3s http://127.0.0.1:%u/hello",
                 receiver);
}

enum cli_exit receive_dev(struct cli *cli)
{
    struct receive receive = {.cli = cli};
    struct process_child daemon;
    struct http_server *server;
    int daemon_code = 0;
    bool has_ended = false;
    const bool has_secret = receive_has_secret();
    enum cli_exit code = has_secret ? CLI_EXIT_DONE : receive_make_secret();

    code = code ? code : receive_start(&receive, &server);
    if (code)
        return code;
    code = receive_start_daemon(cli, &daemon);
    if (!code) {
        receive_say_what_runs(cli, http_server_port(server),
                              has_secret ? RECEIVE_SECRET : getenv(RECEIVE_SECRET));
        while (!has_ended && !atomic_load(&receive.is_over) && cli_wait(cli, RECEIVE_LOOK_MS))
            has_ended = process_ended(&daemon, &daemon_code);
        if (has_ended)
            code = cli_complain(CLI_EXIT_FAILED, "the daemon has ended with exit code %d",
                                daemon_code);
        else
            process_stop(&daemon);
        /* The daemon completes deliveries in flight before it ends, so the receiver must answer
         * until then. */
        while (!has_ended && !(has_ended = process_ended(&daemon, &daemon_code)))
            cli_wait(cli, RECEIVE_LOOK_MS);
    }
    http_server_stop(server);
    signing_key_wipe(&receive.key);
    return code;
}
