/* worker.c - the loop of a worker. */
#include "cli/worker.h"

#include "base/base64.h"
#include "base/json_write.h"
#include "calendar/duration.h"
#include "cli/value.h"
#include "sys/clock.h"

#include <stdlib.h>

/* time for which a lease call waits for items; a stop may take as long */
#define WORKER_WAIT         "2s"
#define WORKER_PAUSE_MS     1000 /* pause before a failed call is repeated */
#define WORKER_LEASE_MS     30000
#define WORKER_LEASE_MS_MIN 1000
#define WORKER_LEASE_MS_MAX (12 * 3600 * 1000) /* maximum lease of the API */

enum worker_state {
    WORKER_FREE,
    WORKER_RUNNING,
    WORKER_ANSWERING, /* the job has ended, and its outcome is being reported to the daemon */
};

struct worker_slot {
    enum worker_state state;
    struct buffer receipt;
    struct buffer id;
    struct instant lease_ends, extend_at;
    struct worker_outcome outcome; /* outcome of a job that has ended */
};

struct worker_loop {
    struct cli *cli;
    const struct worker_kind *kind;
    void *context; /* passed to the functions of the kind */
    size_t job_count;
    uint64_t lease_ms, left; /* `left`: number of items that may still be leased */
    struct worker_slot jobs[WORKER_JOBS_MAX];
    struct cli_calls *calls;
    struct cli_call *call;    /* the lease call */
    struct cli_answer answer; /* answer to the lease call */
    struct buffer path, body; /* path and body of the lease call */
    bool is_leasing;
    struct signals source; /* signals of the worker itself, so that they do not interrupt calls */
    unsigned signals;      /* number of signals that asked to stop */
    bool is_away;          /* the daemon does not answer, which was reported once */
    struct instant try_at; /* time of the next call after a failure */
    uint64_t done, failed;
    enum cli_exit code; /* exit code with which the worker ends */
};

static bool worker_is_before(struct instant now, struct instant then)
{
    return now.ns < then.ns;
}

static unsigned worker_count(const struct worker_loop *worker, enum worker_state state)
{
    unsigned count = 0;

    for (size_t i = 0; i < worker->job_count; i++)
        count += worker->jobs[i].state == state;
    return count;
}

static void worker_free(struct worker_slot *job)
{
    buffer_deinit(&job->receipt);
    buffer_deinit(&job->id);
    *job = (struct worker_slot){0};
}

/* ---- what the daemon is told ---- */

/* Appends {"receipts":[...]} with one receipt. The closing brace is missing. */
static void worker_begin_body(const struct worker_slot *job, struct buffer *body)
{
    json_open(body, NULL, '{');
    json_open(body, "receipts", '[');
    json_put_string(body, NULL, buffer_bytes(&job->receipt));
    json_close(body, ']');
}

/* Delays the next call, because the daemon did not answer, or refused for now. */
static void worker_pause(struct worker_loop *worker)
{
    if (!worker->is_away && !worker->signals)
        cli_complain(CLI_EXIT_DONE, "%s does not answer; tries again", worker->cli->settings.url);
    worker->is_away = true;
    worker->try_at = instant_add_ms(instant_now(), WORKER_PAUSE_MS);
}

/* Sends one receipt. Returns false if the daemon did not answer, so that the call must be repeated.
 * `ret_is_ok` is true if the lease was still valid. */
static bool worker_send(struct worker_loop *worker, const char *call, struct buffer *body,
                        bool *ret_is_ok)
{
    struct cli *cli = worker->cli;
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
        worker_pause(worker);
    return !is_away;
}

static void worker_append_outcome(const struct worker_outcome *outcome, struct buffer *body)
{
    if (outcome->result == WORKER_DONE)
        return;
    json_put_text(body, "error", outcome->error);
    if (outcome->result == WORKER_REFUSED)
        json_put_flag(body, "dead", true);
    else if (outcome->delay_s)
        duration_put(body, "delay", outcome->delay_s * 1000);
}

/* With --output json, prints the outcome of the item in the words of the API's deliveries; "stale"
 * if the lease had expired before the answer. */
static void worker_show(struct worker_loop *worker, const struct worker_slot *job, bool is_stale)
{
    static const char *const outcomes[] = {"done", "failed", "ended"};
    struct cli *cli = worker->cli;

    if (cli->settings.form != CLI_FORM_JSON || worker->kind->has_lines)
        return;
    json_open(&cli->out, NULL, '{');
    json_put_string(&cli->out, "id", buffer_bytes(&job->id));
    json_put_text(&cli->out, "outcome", is_stale ? "stale" : outcomes[job->outcome.result]);
    if (job->outcome.result != WORKER_DONE)
        json_put_text(&cli->out, "error", job->outcome.error);
    json_close(&cli->out, '}');
    buffer_append_text(&cli->out, "\n");
    cli_flush(cli);
}

static void worker_answer(struct worker_loop *worker, struct worker_slot *job)
{
    const struct worker_outcome *outcome = &job->outcome;
    const char *call = outcome->result == WORKER_DONE ? "ack" : "nack";
    struct buffer body;
    bool is_ok;

    buffer_init(&body);
    worker_begin_body(job, &body);
    worker_append_outcome(outcome, &body);
    json_close(&body, '}');
    bool is_over = worker_send(worker, call, &body, &is_ok);
    buffer_deinit(&body);
    if (!is_over && worker_is_before(instant_now(), job->lease_ends))
        return;
    if (!is_over || !is_ok)
        cli_complain(CLI_EXIT_DONE, "%s: the lease was over before the %s: it comes again",
                     cli_text(&job->id), call);
    else if (outcome->result != WORKER_DONE)
        cli_complain(CLI_EXIT_DONE, "%s: %s", cli_text(&job->id), outcome->error);
    worker_show(worker, job, !is_over || !is_ok);
    bool is_done = is_over && is_ok && outcome->result == WORKER_DONE;
    worker->done += is_done;
    worker->failed += !is_done;
    worker_free(job);
}

static void worker_extend(struct worker_loop *worker, struct worker_slot *job)
{
    struct instant now = instant_now();
    struct buffer body;
    bool is_ok;

    buffer_init(&body);
    worker_begin_body(job, &body);
    duration_put(&body, "lease", worker->lease_ms);
    json_close(&body, '}');
    bool is_over = worker_send(worker, "extend", &body, &is_ok);
    buffer_deinit(&body);
    job->extend_at = instant_add_ms(now, is_over ? worker->lease_ms / 3 : WORKER_PAUSE_MS);
    if (is_ok)
        job->lease_ends = instant_add_ms(now, worker->lease_ms);
}

/* ---- leases ---- */

static void worker_start_job(struct worker_loop *worker, struct bytes item)
{
    size_t slot = 0;
    struct instant now = instant_now();

    while (worker->jobs[slot].state != WORKER_FREE)
        slot++;
    struct worker_slot *job = &worker->jobs[slot];
    cli_append_value(&job->receipt, cli_member(item, "receipt"));
    cli_append_value(&job->id, cli_member(item, "id"));
    job->lease_ends = instant_add_ms(now, worker->lease_ms);
    job->extend_at = instant_add_ms(now, worker->lease_ms / 3);
    enum cli_exit code = worker->kind->start(worker->context, slot, item, &job->outcome);
    job->state = code ? WORKER_ANSWERING : WORKER_RUNNING;
    worker->code = worker->code ? worker->code : code;
}

static void worker_begin_lease(struct worker_loop *worker)
{
    struct cli_request request = {.method = "POST", .is_quiet = true};
    uint64_t count = worker_count(worker, WORKER_FREE);

    count = count < worker->left ? count : worker->left;
    if (worker->is_leasing || worker->signals || worker->code || !count ||
        worker_is_before(instant_now(), worker->try_at))
        return;
    buffer_clear(&worker->path);
    buffer_append_text(&worker->path, "/v1/queues/");
    cli_append_path(&worker->path, bytes_of(worker->cli->options.arguments[0]));
    buffer_append_text(&worker->path, "/lease");
    buffer_clear(&worker->body);
    json_open(&worker->body, NULL, '{');
    json_put_number(&worker->body, "max", count);
    json_put_text(&worker->body, "wait", WORKER_WAIT);
    duration_put(&worker->body, "lease", worker->lease_ms);
    json_close(&worker->body, '}');
    request.path = cli_text(&worker->path);
    request.body = buffer_bytes(&worker->body);
    worker->is_leasing = cli_call_start(worker->cli, worker->call, &request, &worker->answer);
}

/* Takes the items out of the answer to a lease call that has ended. */
static void worker_end_lease(struct worker_loop *worker)
{
    struct cli_list items;
    struct bytes item;
    enum cli_exit code = cli_call_end(worker->cli, worker->call);

    worker->is_leasing = false;
    if (code || worker->answer.status >= 500 || worker->answer.status == 429) {
        worker_pause(worker);
    } else if (worker->answer.status != 200 || !worker->answer.is_json) {
        worker->code = cli_complain_of(&worker->answer);
    } else {
        worker->is_away = false;
        cli_list_init(&items, cli_member(buffer_bytes(&worker->answer.body), "items"));
        while (worker_count(worker, WORKER_FREE) && worker->left && cli_list_next(&items, &item)) {
            worker->left--;
            worker_start_job(worker, item);
        }
    }
    cli_answer_deinit(&worker->answer);
}

/* ---- the loop ---- */

/* Returns the number of descriptors to wait for. `ret_ms` is the time until the next extension or
 * repetition. */
static unsigned worker_append_waits(const struct worker_loop *worker, struct pollfd *waits,
                                    uint64_t *ret_ms)
{
    struct instant now = instant_now(), next = instant_add_ms(now, WORKER_PAUSE_MS);
    unsigned count = 0;

    waits[count++] = (struct pollfd){.fd = signals_fd(&worker->source), .events = POLLIN};
    for (size_t i = 0; i < worker->job_count; i++) {
        if (worker->jobs[i].state != WORKER_RUNNING)
            continue;
        if (worker_is_before(worker->jobs[i].extend_at, next))
            next = worker->jobs[i].extend_at;
        count += worker->kind->append_waits(worker->context, i, waits + count);
    }
    *ret_ms = (instant_since_ns(now, next) + 999999) / 1000000;
    return count;
}

static void worker_step_jobs(struct worker_loop *worker)
{
    for (size_t i = 0; i < worker->job_count; i++) {
        struct worker_slot *job = &worker->jobs[i];
        struct instant now = instant_now();

        if (job->state == WORKER_RUNNING && worker->kind->step(worker->context, i, &job->outcome))
            job->state = WORKER_ANSWERING;
        if (job->state == WORKER_ANSWERING && !worker_is_before(now, worker->try_at))
            worker_answer(worker, job);
        else if (job->state == WORKER_RUNNING && !worker_is_before(now, job->extend_at))
            worker_extend(worker, job);
    }
}

static void worker_take_signal(struct worker_loop *worker)
{
    if (!signals_wait(&worker->source, -1, 0))
        return;
    worker->signals++;
    if (worker->signals == 1 && worker_count(worker, WORKER_RUNNING))
        cli_complain(CLI_EXIT_DONE, "waits for %u %s; a second signal ends them",
                     worker_count(worker, WORKER_RUNNING), worker->kind->noun);
    for (size_t i = 0; i < worker->job_count && worker->signals > 1; i++)
        if (worker->jobs[i].state == WORKER_RUNNING)
            worker->kind->stop(worker->context, i);
}

static void worker_loop(struct worker_loop *worker)
{
    struct pollfd waits[1 + WORKER_JOB_WAITS * WORKER_JOBS_MAX];

    for (;;) {
        bool is_stopping = worker->signals || worker->code || !worker->left;
        uint64_t ms;

        if (is_stopping && !worker->is_leasing &&
            worker_count(worker, WORKER_FREE) == worker->job_count)
            break;
        worker_begin_lease(worker);
        unsigned count = worker_append_waits(worker, waits, &ms);
        cli_calls_wait(worker->calls, waits, count, ms);
        worker_take_signal(worker);
        if (worker->is_leasing && (cli_call_is_over(worker->call) || worker->signals > 1))
            worker_end_lease(worker);
        worker_step_jobs(worker);
    }
}

static enum cli_exit worker_read_flags(struct worker_loop *worker)
{
    struct cli *cli = worker->cli;
    const char *lease = cli_flag(cli, CLI_FLAG_LEASE);
    enum cli_exit code =
        cli_flag_number(cli, CLI_FLAG_NUMBER, 1, UINT64_C(1) << 53, UINT64_MAX, &worker->left);

    worker->lease_ms = WORKER_LEASE_MS;
    if (!code && lease &&
        (duration_parse(bytes_of(lease), &worker->lease_ms, NULL) ||
         worker->lease_ms < WORKER_LEASE_MS_MIN || worker->lease_ms > WORKER_LEASE_MS_MAX))
        return cli_complain(CLI_EXIT_USAGE, "--lease takes a duration from 1s to 12h");
    return code;
}

enum cli_exit worker_read_jobs(struct cli *cli, uint64_t *ret_count)
{
    return cli_flag_number(cli, CLI_FLAG_JOBS, 1, WORKER_JOBS_MAX, 1, ret_count);
}

enum cli_exit worker_run(struct cli *cli, const struct worker_kind *kind, void *context,
                         struct cli_calls *calls, size_t job_count)
{
    struct worker_loop *worker = calloc(1, sizeof(*worker));

    if (!worker)
        return cli_complain(CLI_EXIT_FAILED, "out of memory");
    worker->cli = cli;
    worker->kind = kind;
    worker->context = context;
    worker->calls = calls;
    worker->job_count = job_count;
    enum cli_exit code = worker_read_flags(worker);
    struct error error;
    if (!code && !(worker->call = cli_call_create(calls)))
        code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    if (!code && signals_open(&worker->source, &error))
        code = cli_complain(CLI_EXIT_FAILED, "%s", error.text);
    if (!code) {
        worker_loop(worker);
        signals_close(&worker->source);
        code = worker->code;
        cli_complain(CLI_EXIT_DONE, "%llu done, %llu failed", (unsigned long long)worker->done,
                     (unsigned long long)worker->failed);
    }
    cli_call_destroy(worker->call);
    buffer_deinit(&worker->path);
    buffer_deinit(&worker->body);
    free(worker);
    return code;
}

void worker_append_body(struct bytes item, struct buffer *out)
{
    struct bytes body = cli_member(item, "body_base64");
    struct buffer text;
    size_t size;

    buffer_append_bytes(out, cli_member(item, "payload"));
    if (!body.size)
        return;
    buffer_init(&text);
    cli_append_value(&text, body);
    char *to = buffer_reserve(out, base64_decoded_size_max(text.size));
    if (to && base64_decode(buffer_bytes(&text), to, &size))
        out->size += size;
    buffer_deinit(&text);
}
