/*
 * work.c - the verb work: leases items of a queue and runs a command for each.
 *
 * One thread waits for a lease call, the ends and inputs of the children, and signals, all at once.
 * A job has a slot from its lease until the daemon took its answer: an ack or nack that does not
 * reach the daemon is sent again until the lease is over. Leases are extended when a third of them
 * is over. The first signal stops leasing and lets the commands end, the second ends them.
 */
#include "base/base64.h"
#include "base/json.h"
#include "calendar/duration.h"
#include "cli/value.h"
#include "cli/verbs.h"
#include "sys/clock.h"
#include "sys/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORK_JOBS_MAX      256
#define WORK_WAIT          "2s" /* of a lease call; a stop waits for its end */
#define WORK_PAUSE_MS      1000 /* before a failed call is repeated */
#define WORK_LEASE_MS      30000
#define WORK_LEASE_MS_MIN  1000
#define WORK_LEASE_MS_MAX  (12 * 3600 * 1000) /* of the API */
#define WORK_EXIT_REFUSED  65                 /* EX_DATAERR of sysexits.h */
#define WORK_ENVIRON_COUNT 3                  /* variables that a command gets */

enum work_state {
    WORK_FREE,
    WORK_RUNNING,
    WORK_ANSWERING, /* the command has ended, the daemon does not know yet */
};

struct work_job {
    enum work_state state;
    struct process_child child;
    struct buffer input; /* for the command's standard input */
    size_t written;
    struct buffer receipt;
    struct buffer id;
    struct instant lease_ends, extend_at;
    int code; /* of the command that has ended */
};

struct workplace {
    struct cli *cli;
    uint64_t job_count, lease_ms, left; /* items that may still be leased */
    struct work_job jobs[WORK_JOBS_MAX];
    struct cli_call *call;
    struct cli_answer answer; /* of the lease call */
    struct buffer path, body; /* of the lease call */
    bool is_leasing;
    struct signals source; /* its own, so that a signal breaks no call off */
    unsigned signals;      /* that asked to stop */
    bool is_away;          /* the daemon; told once */
    struct instant try_at; /* after a failure: when the next call is made */
    uint64_t done, failed;
    enum cli_exit code; /* why it ends */
};

static bool work_is_before(struct instant now, struct instant then)
{
    return now.ns < then.ns;
}

static unsigned work_count(const struct workplace *work, enum work_state state)
{
    unsigned count = 0;

    for (size_t i = 0; i < work->job_count; i++)
        count += work->jobs[i].state == state;
    return count;
}

static void work_free(struct work_job *job)
{
    buffer_deinit(&job->input);
    buffer_deinit(&job->receipt);
    buffer_deinit(&job->id);
    *job = (struct work_job){0};
}

/* ---- what the daemon is told ---- */

/* Appends {"receipts":[...]} with one receipt, without the closing brace. */
static void work_begin_body(const struct work_job *job, struct buffer *body)
{
    buffer_append_text(body, "{\"receipts\":[");
    json_append_string(body, buffer_bytes(&job->receipt));
    buffer_append_text(body, "]");
}

/* The daemon did not answer, or not now: the next call waits. */
static void work_pause(struct workplace *work)
{
    if (!work->is_away && !work->signals)
        cli_complain(CLI_EXIT_DONE, "%s does not answer; tries again", work->cli->settings.url);
    work->is_away = true;
    work->try_at = instant_add_ms(instant_now(), WORK_PAUSE_MS);
}

/* Sends one receipt. False when the daemon did not answer: the call is to be repeated. `ret_is_ok`:
 * the lease was still held. */
static bool work_send(struct workplace *work, const char *call, struct buffer *body,
                      bool *ret_is_ok)
{
    struct cli *cli = work->cli;
    struct cli_request request = {.method = "POST", .is_quiet = true};
    struct cli_answer answer;
    struct buffer path;

    buffer_init(&path);
    buffer_append_text(&path, "/v1/queues/");
    cli_append_path(&path, bytes_of(cli->options.arguments[0]));
    buffer_printf(&path, "/%s", call);
    request.path = cli_text(&path);
    request.body = buffer_bytes(body);
    bool is_away = cli_send(cli, &request, &answer) || answer.status >= 500;
    *ret_is_ok =
        answer.status == 200 && cli_number(cli_member(buffer_bytes(&answer.body), "ok"), 0) == 1;
    cli_answer_deinit(&answer);
    buffer_deinit(&path);
    if (is_away)
        work_pause(work);
    return !is_away;
}

static void work_append_error(const struct work_job *job, struct buffer *body)
{
    char text[64];

    if (job->code > 128)
        snprintf(text, sizeof(text), "the command was ended by signal %d", job->code - 128);
    else
        snprintf(text, sizeof(text), "exit code %d", job->code);
    cli_append_member(body, "error", bytes_of(text));
}

static void work_answer(struct workplace *work, struct work_job *job)
{
    struct buffer body;
    bool is_ok;

    buffer_init(&body);
    work_begin_body(job, &body);
    if (job->code) {
        work_append_error(job, &body);
        if (job->code == WORK_EXIT_REFUSED)
            cli_append_raw(&body, "dead", BYTES("true"));
    }
    buffer_append_text(&body, "}");
    bool is_over = work_send(work, job->code ? "nack" : "ack", &body, &is_ok);
    buffer_deinit(&body);
    if (!is_over && work_is_before(instant_now(), job->lease_ends))
        return;
    if (!is_over || !is_ok)
        cli_complain(CLI_EXIT_DONE, "%s: the lease was over before the %s: it comes again",
                     cli_text(&job->id), job->code ? "nack" : "ack");
    else if (job->code)
        cli_complain(CLI_EXIT_DONE, "%s: exit code %d", cli_text(&job->id), job->code);
    work->done += is_over && is_ok && !job->code;
    work->failed += !is_over || !is_ok || job->code;
    work_free(job);
}

static void work_extend(struct workplace *work, struct work_job *job)
{
    struct instant now = instant_now();
    struct buffer body;
    bool is_ok;

    buffer_init(&body);
    work_begin_body(job, &body);
    buffer_printf(&body, ",\"lease\":\"%llums\"}", (unsigned long long)work->lease_ms);
    bool is_over = work_send(work, "extend", &body, &is_ok);
    buffer_deinit(&body);
    job->extend_at = instant_add_ms(now, is_over ? work->lease_ms / 3 : WORK_PAUSE_MS);
    if (is_ok)
        job->lease_ends = instant_add_ms(now, work->lease_ms);
}

/* ---- commands ---- */

/* The environment of this process and, before it, the item's variables. */
static char **work_environment(const struct bytes item, struct buffer texts[WORK_ENVIRON_COUNT])
{
    static const struct {
        const char *variable, *name;
    } variables[WORK_ENVIRON_COUNT] = {
        {"TICKWHEEL_ID=", "id"}, {"TICKWHEEL_ATTEMPT=", "attempt"}, {"TICKWHEEL_DUE=", "due"}};
    size_t count = 0;

    while (environ[count])
        count++;
    char **environment = calloc(count + WORK_ENVIRON_COUNT + 1, sizeof(*environment));
    for (size_t i = 0; i < WORK_ENVIRON_COUNT; i++) {
        buffer_init(&texts[i]);
        buffer_append_text(&texts[i], variables[i].variable);
        cli_append_value(&texts[i], cli_member(item, variables[i].name));
        cli_text(&texts[i]);
        if (environment)
            environment[i] = texts[i].data;
    }
    if (environment)
        memcpy(environment + WORK_ENVIRON_COUNT, environ, count * sizeof(*environ));
    return environment;
}

static bool work_start_command(struct workplace *work, struct work_job *job, struct bytes item)
{
    struct buffer texts[WORK_ENVIRON_COUNT];
    char **environment = work_environment(item, texts);
    char **arguments = work->cli->options.arguments + 1;
    struct error error = {.text = "out of memory"};
    bool is_started =
        environment && process_start(arguments, environment, &job->child, &error) == ERROR_NONE;

    if (!is_started)
        work->code = cli_complain(CLI_EXIT_USAGE, "%s", error.text);
    for (size_t i = 0; i < WORK_ENVIRON_COUNT; i++)
        buffer_deinit(&texts[i]);
    free(environment);
    return is_started;
}

/* The payload as it was given, or the bytes of body_base64. */
static void work_append_input(struct bytes item, struct buffer *input)
{
    struct bytes body = cli_member(item, "body_base64");
    struct buffer text;
    size_t size;

    buffer_append_bytes(input, cli_member(item, "payload"));
    if (!body.size)
        return;
    buffer_init(&text);
    cli_append_value(&text, body);
    char *to = buffer_reserve(input, base64_decoded_size_max(text.size));
    if (to && base64_decode(buffer_bytes(&text), to, &size))
        input->size += size;
    buffer_deinit(&text);
}

static void work_start_job(struct workplace *work, struct bytes item)
{
    struct work_job *job = work->jobs;
    struct instant now = instant_now();

    while (job->state != WORK_FREE)
        job++;
    job->state = WORK_RUNNING;
    cli_append_value(&job->receipt, cli_member(item, "receipt"));
    cli_append_value(&job->id, cli_member(item, "id"));
    work_append_input(item, &job->input);
    job->lease_ends = instant_add_ms(now, work->lease_ms);
    job->extend_at = instant_add_ms(now, work->lease_ms / 3);
    if (buffer_failed(&job->input) || !work_start_command(work, job, item)) {
        job->code = 127;
        job->state = WORK_ANSWERING;
    }
}

/* ---- leases ---- */

static void work_begin_lease(struct workplace *work)
{
    struct cli_request request = {.method = "POST", .is_quiet = true};
    uint64_t count = work_count(work, WORK_FREE);

    count = count < work->left ? count : work->left;
    if (work->is_leasing || work->signals || work->code || !count ||
        work_is_before(instant_now(), work->try_at))
        return;
    buffer_clear(&work->path);
    buffer_append_text(&work->path, "/v1/queues/");
    cli_append_path(&work->path, bytes_of(work->cli->options.arguments[0]));
    buffer_append_text(&work->path, "/lease");
    buffer_clear(&work->body);
    buffer_printf(&work->body, "{\"max\":%u,\"wait\":\"" WORK_WAIT "\",\"lease\":\"%llums\"}",
                  (unsigned)count, (unsigned long long)work->lease_ms);
    request.path = cli_text(&work->path);
    request.body = buffer_bytes(&work->body);
    work->is_leasing = cli_call_start(work->cli, work->call, &request, &work->answer);
}

/* Takes the items of a lease call that is over. */
static void work_end_lease(struct workplace *work)
{
    struct cli_list items;
    struct bytes item;
    enum cli_exit code = cli_call_end(work->cli, work->call);

    work->is_leasing = false;
    if (code || work->answer.status >= 500 || work->answer.status == 429) {
        work_pause(work);
    } else if (work->answer.status != 200 || !work->answer.is_json) {
        work->code = cli_complain_of(&work->answer);
    } else {
        work->is_away = false;
        cli_list_init(&items, cli_member(buffer_bytes(&work->answer.body), "items"));
        while (work_count(work, WORK_FREE) && work->left && cli_list_next(&items, &item)) {
            work->left--;
            work_start_job(work, item);
        }
    }
    cli_answer_deinit(&work->answer);
}

/* ---- the loop ---- */

/* Descriptors to wait for, and when the next extension or repetition is due. */
static unsigned work_append_waits(const struct workplace *work, struct pollfd *waits,
                                  uint64_t *ret_ms)
{
    struct instant now = instant_now(), next = instant_add_ms(now, WORK_PAUSE_MS);
    unsigned count = 0;

    waits[count++] = (struct pollfd){.fd = signals_fd(&work->source), .events = POLLIN};
    for (size_t i = 0; i < work->job_count; i++) {
        const struct work_job *job = &work->jobs[i];

        if (job->state != WORK_RUNNING)
            continue;
        if (work_is_before(job->extend_at, next))
            next = job->extend_at;
        waits[count++] = (struct pollfd){.fd = job->child.ended_fd, .events = POLLIN};
        if (job->child.input_fd >= 0)
            waits[count++] = (struct pollfd){.fd = job->child.input_fd, .events = POLLOUT};
    }
    *ret_ms = (instant_since_ns(now, next) + 999999) / 1000000;
    return count;
}

static void work_step_jobs(struct workplace *work)
{
    for (size_t i = 0; i < work->job_count; i++) {
        struct work_job *job = &work->jobs[i];
        struct instant now = instant_now();

        if (job->state == WORK_RUNNING && job->child.input_fd >= 0)
            job->written +=
                process_write(&job->child, (struct bytes){job->input.data + job->written,
                                                          job->input.size - job->written});
        if (job->state == WORK_RUNNING && process_ended(&job->child, &job->code)) {
            job->state = WORK_ANSWERING;
        }
        if (job->state == WORK_ANSWERING && !work_is_before(now, work->try_at))
            work_answer(work, job);
        else if (job->state == WORK_RUNNING && !work_is_before(now, job->extend_at))
            work_extend(work, job);
    }
}

static void work_take_signal(struct workplace *work)
{
    if (!signals_wait(&work->source, -1, 0))
        return;
    work->signals++;
    if (work->signals == 1 && work_count(work, WORK_RUNNING))
        cli_complain(CLI_EXIT_DONE, "waits for %u commands; a second signal ends them",
                     work_count(work, WORK_RUNNING));
    for (size_t i = 0; i < work->job_count && work->signals > 1; i++)
        if (work->jobs[i].state == WORK_RUNNING)
            process_stop(&work->jobs[i].child);
}

static void work_loop(struct workplace *work)
{
    struct pollfd waits[1 + 2 * WORK_JOBS_MAX];

    for (;;) {
        bool is_stopping = work->signals || work->code || !work->left;
        uint64_t ms;

        if (is_stopping && !work->is_leasing && work_count(work, WORK_FREE) == work->job_count)
            break;
        work_begin_lease(work);
        unsigned count = work_append_waits(work, waits, &ms);
        bool is_over = cli_call_wait(work->call, waits, count, ms);
        work_take_signal(work);
        if (work->is_leasing && (is_over || work->signals > 1))
            work_end_lease(work);
        work_step_jobs(work);
    }
}

static enum cli_exit work_read_flags(struct workplace *work)
{
    struct cli *cli = work->cli;
    const char *lease = cli_flag(cli, CLI_FLAG_LEASE);
    enum cli_exit code = cli_flag_number(cli, CLI_FLAG_JOBS, 1, WORK_JOBS_MAX, 1, &work->job_count);

    if (!code)
        code = cli_flag_number(cli, CLI_FLAG_NUMBER, 1, UINT64_C(1) << 53, UINT64_MAX, &work->left);
    work->lease_ms = WORK_LEASE_MS;
    if (!code && lease &&
        (duration_parse(bytes_of(lease), &work->lease_ms, NULL) ||
         work->lease_ms < WORK_LEASE_MS_MIN || work->lease_ms > WORK_LEASE_MS_MAX))
        return cli_complain(CLI_EXIT_USAGE, "--lease takes a duration from 1s to 12h");
    if (!code && cli->options.command != 1)
        return cli_complain(CLI_EXIT_USAGE,
                            "the command stands behind --, as: tickwheel work jobs -- ./handle");
    return code;
}

enum cli_exit work_run(struct cli *cli)
{
    struct workplace *work = calloc(1, sizeof(*work));

    if (!work)
        return cli_complain(CLI_EXIT_FAILED, "out of memory");
    work->cli = cli;
    enum cli_exit code = work_read_flags(work);
    struct error error;
    if (!code && !(work->call = cli_call_create()))
        code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    if (!code && signals_open(&work->source, &error))
        code = cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    if (!code) {
        work_loop(work);
        signals_close(&work->source);
        code = work->code;
        cli_complain(CLI_EXIT_DONE, "%llu done, %llu failed", (unsigned long long)work->done,
                     (unsigned long long)work->failed);
    }
    cli_call_destroy(work->call);
    buffer_deinit(&work->path);
    buffer_deinit(&work->body);
    free(work);
    return code;
}
