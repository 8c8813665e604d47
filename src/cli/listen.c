/*
 * listen.c - the verb listen: forwards each item of a queue as a webhook to a receiver that the
 * daemon cannot reach.
 *
 * The webhook has the headers of the daemon's webhooks, and the daemon's rules for its answer; the
 * receiver has the time of --timeout.
 */
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "cli/signing.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "cli/worker.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

/* maximum of Retry-After, the same as the daemon's */
#define LISTEN_RETRY_AFTER_S_LONGEST (24 * 3600)

struct listen_job {
    struct cli_call *call;
    struct cli_answer answer;
    struct cli_request request;
    struct buffer id, type, headers, body;
    struct instant began;
    uint64_t attempt;
    bool is_stopped;
};

struct listen {
    struct cli *cli;
    char url[2048];
    struct signing_key key;
    struct listen_job jobs[WORKER_JOBS_MAX];
};

/* ---- the webhook ---- */

static void listen_append_header(struct buffer *headers, const char *name, struct bytes value)
{
    if (bytes_has_control(value))
        return; /* a control character could end the line; the daemon sends none */
    buffer_append_text(headers, name);
    /* libcurl requires a semicolon for a header without a value */
    buffer_append_text(headers, value.size ? ": " : ";");
    buffer_append_bytes(headers, value);
    buffer_append_text(headers, "\n");
}

/* The names of headers need no decoding. They are read here because they may be longer than
 * cli_members_next allows. */
static void listen_append_own_headers(struct bytes item, struct buffer *headers)
{
    struct bytes object = cli_member(item, "headers"), value;
    struct json_reader reader;
    struct json_string name;

    json_reader_init(&reader, object);
    if (!object.size || json_peek(&reader) != JSON_OBJECT || !json_enter_object(&reader))
        return;
    while (json_next_member(&reader, &name) && json_skip(&reader, &value)) {
        struct buffer field, text;

        buffer_init(&field);
        buffer_init(&text);
        buffer_append_bytes(&field, name.raw);
        cli_append_value(&text, value);
        if (!name.escaped && !memchr(name.raw.data, ':', name.raw.size))
            listen_append_header(headers, cli_text(&field), buffer_bytes(&text));
        buffer_deinit(&text);
        buffer_deinit(&field);
    }
}

/* Appends the headers of a webhook, equal to those of webhook_request.c. */
static void listen_append_headers(struct listen *listen, struct listen_job *job, struct bytes item)
{
    struct buffer due, signature, webhook_id;
    char timestamp[24];
    struct wall at = {0};

    buffer_init(&due);
    buffer_init(&signature);
    buffer_init(&webhook_id);
    snprintf(timestamp, sizeof(timestamp), "%llu", (unsigned long long)wall_now().ms / 1000);
    cli_append_value(&due, cli_member(item, "due"));
    (void)rfc3339_parse(buffer_bytes(&due), &at, NULL);
    buffer_append_bytes(&webhook_id, buffer_bytes(&job->id));
    buffer_append_text(&webhook_id, "-");
    buffer_append_u64(&webhook_id, at.ms);
    listen_append_header(&job->headers, "webhook-id", buffer_bytes(&webhook_id));
    listen_append_header(&job->headers, "webhook-timestamp", bytes_of(timestamp));
    if (listen->key.size) {
        signing_append(&listen->key, buffer_bytes(&webhook_id), bytes_of(timestamp),
                       buffer_bytes(&job->body), &signature);
        listen_append_header(&job->headers, "webhook-signature", buffer_bytes(&signature));
    }
    listen_append_header(&job->headers, "tickwheel-due", buffer_bytes(&due));
    listen_append_header(&job->headers, "tickwheel-attempt", cli_member(item, "attempt"));
    listen_append_own_headers(item, &job->headers);
    buffer_deinit(&webhook_id);
    buffer_deinit(&signature);
    buffer_deinit(&due);
}

/* Ignores the body of the answer. */
static bool listen_ignore(void *context, struct bytes chunk)
{
    (void)context, (void)chunk;
    return true;
}

static void listen_set_outcome(struct worker_outcome *ret_outcome, enum worker_result result,
                               const char *error)
{
    *ret_outcome = (struct worker_outcome){.result = result};
    snprintf(ret_outcome->error, sizeof(ret_outcome->error), "%s", error);
}

static enum cli_exit listen_start(void *context, size_t slot, struct bytes item,
                                  struct worker_outcome *ret_outcome)
{
    struct listen *listen = context;
    struct listen_job *job = &listen->jobs[slot];

    buffer_clear(&job->id);
    buffer_clear(&job->type);
    buffer_clear(&job->headers);
    buffer_clear(&job->body);
    cli_append_value(&job->id, cli_member(item, "id"));
    worker_append_body(item, &job->body);
    cli_append_value(&job->type, cli_member(item, "content_type"));
    listen_append_headers(listen, job, item);
    job->attempt = cli_number(cli_member(item, "attempt"), 1);
    job->began = instant_now();
    job->is_stopped = false;
    job->request = (struct cli_request){
        .method = "POST",
        .url = listen->url,
        .content_type = job->type.size && !bytes_has_control(buffer_bytes(&job->type))
                            ? cli_text(&job->type)
                            : NULL,
        .header = cli_text(&job->headers),
        .sink = listen_ignore,
        .is_quiet = true};
    cli_text(&job->body); /* makes an empty body a body too */
    job->request.body = buffer_bytes(&job->body);
    if (!buffer_failed(&job->body) && !buffer_failed(&job->headers) &&
        cli_call_start(listen->cli, job->call, &job->request, &job->answer))
        return CLI_EXIT_DONE;
    listen_set_outcome(ret_outcome, WORKER_FAILED, "out of memory");
    return cli_complain(CLI_EXIT_FAILED, "out of memory");
}

/* ---- its answer ---- */

/* Sets the outcome of a job by the rules of the daemon for answers to webhooks. */
static void listen_judge(const struct listen_job *job, struct worker_outcome *ret_outcome)
{
    const struct cli_answer *answer = &job->answer;
    char error[64];

    snprintf(error, sizeof(error), "HTTP %d%s", answer->status,
             answer->status / 100 == 3 ? ": redirects are not followed" : "");
    if (answer->status == 0 && job->is_stopped)
        listen_set_outcome(ret_outcome, WORKER_FAILED, "tickwheel listen was stopped");
    else if (answer->status == 0)
        listen_set_outcome(ret_outcome, WORKER_FAILED, answer->why);
    else if (answer->status / 100 == 2)
        listen_set_outcome(ret_outcome, WORKER_DONE, "");
    else
        listen_set_outcome(ret_outcome, answer->status == 410 ? WORKER_REFUSED : WORKER_FAILED,
                           error);
    if (answer->status == 429 || answer->status == 503)
        ret_outcome->delay_s = answer->retry_after_s < LISTEN_RETRY_AFTER_S_LONGEST
                                   ? answer->retry_after_s
                                   : LISTEN_RETRY_AFTER_S_LONGEST;
}

static void listen_show(const struct listen *listen, const struct listen_job *job)
{
    struct cli *cli = listen->cli;
    double ms = (double)instant_since_ns(job->began, instant_now()) / 1e6;
    char time[RFC3339_TEXT_SIZE];

    rfc3339_format(wall_now(), time);
    if (cli->settings.form == CLI_FORM_TABLE) {
        buffer_printf(&cli->out, "%s  %d  %.1f ms  attempt %llu  ", time + 11, job->answer.status,
                      ms, (unsigned long long)job->attempt);
        screen_append(&cli->out, buffer_bytes(&job->id));
    } else {
        json_open(&cli->out, NULL, '{');
        json_put_text(&cli->out, "received", time);
        json_put_string(&cli->out, "id", buffer_bytes(&job->id));
        json_put_number(&cli->out, "attempt", job->attempt);
        json_put_number(&cli->out, "status", (uint64_t)job->answer.status);
        json_put_name(&cli->out, "ms");
        buffer_printf(&cli->out, "%.1f", ms);
        json_close(&cli->out, '}');
    }
    buffer_append_text(&cli->out, "\n");
    cli_flush(cli);
}

static unsigned listen_append_waits(void *context, size_t slot, struct pollfd *waits)
{
    (void)context, (void)slot, (void)waits;
    return 0; /* there are no descriptors besides those of the call */
}

static bool listen_step(void *context, size_t slot, struct worker_outcome *ret_outcome)
{
    struct listen *listen = context;
    struct listen_job *job = &listen->jobs[slot];

    if (!cli_call_is_over(job->call) && !job->is_stopped)
        return false;
    (void)cli_call_end(listen->cli, job->call); /* the outcome follows from the answer */
    listen_judge(job, ret_outcome);
    listen_show(listen, job);
    cli_answer_deinit(&job->answer);
    return true;
}

static void listen_stop(void *context, size_t slot)
{
    ((struct listen *)context)->jobs[slot].is_stopped = true;
}

/* ---- the verb ---- */

/* Reads HOST[:PORT][/PATH], with or without http:// or https:// before it. */
static enum cli_exit listen_read_url(struct listen *listen)
{
    const char *text = cli_flag(listen->cli, CLI_FLAG_FORWARD);
    bool has_scheme = text && strstr(text, "://") != NULL;
    const char *scheme = has_scheme ? "" : "http://";

    if (!text || !*text || strpbrk(text, " \t\r\n#") || strlen(text) + 8 > sizeof(listen->url) ||
        (has_scheme && strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0))
        return cli_complain(CLI_EXIT_USAGE,
                            "--forward takes the receiver, as localhost:3000/webhooks");
    snprintf(listen->url, sizeof(listen->url), "%s%s", scheme, text);
    return CLI_EXIT_DONE;
}

static enum cli_exit listen_run_jobs(struct listen *listen, struct cli_calls *calls, size_t count)
{
    static const struct worker_kind kind = {"webhooks",          true,        listen_start,
                                            listen_append_waits, listen_step, listen_stop};
    enum cli_exit code = CLI_EXIT_DONE;

    for (size_t i = 0; i < count && !code; i++)
        if (!(listen->jobs[i].call = cli_call_create(calls)))
            code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    if (!code)
        cli_complain(CLI_EXIT_DONE, "forwards the items of %s to %s, Ctrl-C ends",
                     listen->cli->options.arguments[0], listen->url);
    code = code ? code : worker_run(listen->cli, &kind, listen, calls, count);
    for (size_t i = 0; i < count; i++) {
        cli_call_destroy(listen->jobs[i].call);
        buffer_deinit(&listen->jobs[i].id);
        buffer_deinit(&listen->jobs[i].type);
        buffer_deinit(&listen->jobs[i].headers);
        buffer_deinit(&listen->jobs[i].body);
    }
    return code;
}

enum cli_exit listen_run(struct cli *cli)
{
    struct listen *listen = calloc(1, sizeof(*listen));
    struct cli_calls *calls = cli_calls_create();
    uint64_t count;
    enum cli_exit code = worker_read_jobs(cli, &count);

    if (!code && (!listen || !calls))
        code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    if (!code) {
        listen->cli = cli;
        code = listen_read_url(listen);
        code = code ? code : signing_read_key(cli, SIGNING_TO_SIGN, &listen->key);
        code = code ? code : listen_run_jobs(listen, calls, count);
        signing_key_wipe(&listen->key);
    }
    cli_calls_destroy(calls);
    free(listen);
    return code;
}
