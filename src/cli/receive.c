/*
 * receive.c - the verb receive, a receiver of webhooks for trying them out; and dev, which runs a
 * daemon beside it.
 *
 * The HTTP server has one thread, which verifies, prints and answers; the main thread waits for a
 * signal, or for the last webhook of --count.
 */
#include "base/base64.h"
#include "base/json.h"
#include "base/number.h"
#include "calendar/rfc3339.h"
#include "cli/fields.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "http/server.h"
#include "sys/clock.h"
#include "sys/files.h"
#include "sys/process.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RECEIVE_PORT           9000
#define RECEIVE_LOOK_MS        50 /* between looks whether it is over */
#define RECEIVE_BODY_BYTES_MAX (UINT64_C(16) << 20)
#define RECEIVE_KEY_BYTES_MAX  64
#define RECEIVE_SECRET_PREFIX  "whsec_"
#define RECEIVE_AGE_S_MAX      300 /* of a webhook whose signature counts */

struct receive {
    struct cli *cli; /* `out` is the server thread's while the server runs */
    char key[RECEIVE_KEY_BYTES_MAX + 8];
    size_t key_size; /* 0: nothing is verified */
    int status;
    uint64_t left; /* webhooks that are waited for */
    atomic_bool is_over;
};

/* One request; headers are copied because they are gone once its end has come. */
struct receive_visit {
    struct receive *receive;
    struct buffer line; /* method and path */
    struct buffer id, timestamp, signature, due, attempt, body;
    bool is_too_large;
};

/* ---- signatures ---- */

/* Whether one of the signatures is that of the webhook. */
static bool receive_is_signed(const struct receive_visit *visit)
{
    const struct receive *receive = visit->receive;
    struct bytes given = buffer_bytes(&visit->signature), word;
    struct buffer text, wanted;
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_size = 0;
    bool is_signed = false;

    buffer_init(&text);
    buffer_init(&wanted);
    buffer_append_bytes(&text, buffer_bytes(&visit->id));
    buffer_append_text(&text, ".");
    buffer_append_bytes(&text, buffer_bytes(&visit->timestamp));
    buffer_append_text(&text, ".");
    buffer_append_bytes(&text, buffer_bytes(&visit->body));
    bool is_made =
        !buffer_failed(&text) && HMAC(EVP_sha256(), receive->key, (int)receive->key_size,
                                      (const unsigned char *)text.data, text.size, mac, &mac_size);
    buffer_append_text(&wanted, "v1,");
    base64_append(&wanted, (struct bytes){(const char *)mac, mac_size});
    while (is_made && bytes_next_word(&given, &word))
        is_signed |= word.size == wanted.size && !CRYPTO_memcmp(word.data, wanted.data, word.size);
    buffer_deinit(&wanted);
    buffer_deinit(&text);
    return is_signed;
}

static const char *receive_judge(const struct receive_visit *visit)
{
    uint64_t sent, now = wall_now().ms / 1000;

    if (!visit->receive->key_size)
        return visit->signature.size ? "not verified: no --secret" : "none";
    if (!visit->signature.size)
        return "missing";
    if (!receive_is_signed(visit))
        return "WRONG";
    if (!number_parse(buffer_bytes(&visit->timestamp), 10, &sent) ||
        (now > sent ? now - sent : sent - now) > RECEIVE_AGE_S_MAX)
        return "valid, but older than five minutes";
    return "valid";
}

/* Reads "whsec_" and base64. */
static enum cli_exit receive_read_secret(struct receive *receive)
{
    const char *flag = cli_flag(receive->cli, CLI_FLAG_SECRET);
    const char *text = flag ? flag : getenv("TICKWHEEL_WEBHOOK_SECRET");
    struct buffer secret;

    if (!text || !*text)
        return CLI_EXIT_DONE;
    buffer_init(&secret);
    enum cli_exit code = fields_read(text, &secret);
    struct bytes rest = buffer_bytes(&secret), word = {NULL, 0};
    rest = bytes_trim(bytes_cut(&rest, '\n'));
    if (!code && bytes_has_prefix(rest, BYTES(RECEIVE_SECRET_PREFIX)))
        word = (struct bytes){rest.data + sizeof(RECEIVE_SECRET_PREFIX) - 1,
                              rest.size - sizeof(RECEIVE_SECRET_PREFIX) + 1};
    if (!code && (!word.size || base64_decoded_size_max(word.size) > sizeof(receive->key) ||
                  !base64_decode(word, receive->key, &receive->key_size)))
        code = cli_complain(CLI_EXIT_USAGE,
                            "the secret is whsec_ and the base64 of 24 to 64 bytes, or @FILE");
    buffer_deinit(&secret);
    return code;
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
    buffer_append_text(&text, "{");
    cli_append_member(&text, "received", bytes_of(time));
    cli_append_member(&text, "request", buffer_bytes(&visit->line));
    cli_append_member(&text, "webhook_id", buffer_bytes(&visit->id));
    cli_append_member(&text, "due", buffer_bytes(&visit->due));
    cli_append_member(&text, "attempt", buffer_bytes(&visit->attempt));
    cli_append_member(&text, "signature", bytes_of(receive_judge(visit)));
    if (cli_is_json(body, NULL, NULL))
        cli_append_raw(&text, "payload", body);
    else
        cli_append_member(&text, "body", body);
    buffer_append_text(&text, "}");
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

/* Reads the flags and begins to serve on the port of the first argument. */
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
    code = code ? code : receive_read_secret(receive);
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
    OPENSSL_cleanse(receive.key, sizeof(receive.key));
    return code;
}

/* ---- dev ---- */

/* The daemon beside this program; the one in PATH where there is none. */
static void receive_find_daemon(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - sizeof("tickwheeld"));
    char *slash = NULL;

    if (length > 0) {
        path[length] = '\0';
        slash = strrchr(path, '/');
    }
    if (slash)
        memcpy(slash + 1, "tickwheeld", sizeof("tickwheeld"));
    if (!slash || !files_exists(path))
        snprintf(path, size, "tickwheeld");
}

static enum cli_exit receive_start_daemon(struct cli *cli, struct process_child *ret_daemon)
{
    const char *data = cli_flag(cli, CLI_FLAG_DATA), *port = cli_flag(cli, CLI_FLAG_PORT);
    char path[PATH_MAX], folder[PATH_MAX], number[16];
    struct error error;
    char *arguments[] = {path,
                         (char[]){"--data-folder"},
                         folder,
                         (char[]){"--listen-port"},
                         number,
                         (char[]){"--webhook-allow"},
                         (char[]){"127.0.0.0/8,::1/128"},
                         NULL};

    snprintf(folder, sizeof(folder), "%s", data ? data : "./data");
    snprintf(number, sizeof(number), "%s", port ? port : "8463");
    receive_find_daemon(path, sizeof(path));
    if (process_start(arguments, environ, ret_daemon, &error))
        return cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    process_write(ret_daemon, (struct bytes){"", 0}); /* it reads nothing */
    return CLI_EXIT_DONE;
}

enum cli_exit receive_dev(struct cli *cli)
{
    struct receive receive = {.cli = cli};
    struct process_child daemon;
    struct http_server *server;
    int daemon_code = 0;
    bool has_ended = false;
    enum cli_exit code = receive_start(&receive, &server);

    if (code)
        return code;
    code = receive_start_daemon(cli, &daemon);
    if (!code) {
        while (!has_ended && !atomic_load(&receive.is_over) && cli_wait(cli, RECEIVE_LOOK_MS))
            has_ended = process_ended(&daemon, &daemon_code);
        if (has_ended)
            code = cli_complain(CLI_EXIT_FAILED, "the daemon has ended with exit code %d",
                                daemon_code);
        else
            process_stop(&daemon);
        /* It delivers what is in flight, so the receiver answers until it is gone. */
        while (!has_ended && !(has_ended = process_ended(&daemon, &daemon_code)))
            cli_wait(cli, RECEIVE_LOOK_MS);
    }
    http_server_stop(server);
    OPENSSL_cleanse(receive.key, sizeof(receive.key));
    return code;
}
