/* source_rows.c - rows as commands; see source_rows.h. */
#include "source/source_rows.h"

#include "api/json/names.h"
#include "api/json/problem.h"
#include "engine/ledger.h"
#include "sys/clock.h"
#include "sys/mailbox.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* A row on its way, or a part of one that is for all partitions. */
struct source_job {
    struct list link; /* in the mailbox of the reader */
    struct source_rows *rows;
    struct node_request request;
    struct source_row *row;
    struct source_job *next; /* next job of the key; NULL if there is none */
    bool has_before;         /* a job of its key is before it, and not ended */
    struct timer *timer;
    struct command_created created;
    struct command_ledger ledger;
};

struct source_rows {
    struct source_rows_options options;
    struct timer_json_limits limits;
    uint64_t pending_max;
    struct mailbox mailbox; /* jobs whose reply has come */
    atomic_bool is_stopping;
    uint64_t incarnation, epoch, batch;
    size_t in_flight;
    enum error_code failure; /* first error that ends the batch; NONE */
    struct source_job *jobs;
    size_t job_capacity;
    struct source_job **slots; /* last job of each key, by hash */
    size_t slot_count;
};

struct source_rows *source_rows_create(const struct source_rows_options *options)
{
    struct source_rows *rows = calloc(1, sizeof(*rows));
    const struct config *config = options->config;

    if (!rows)
        return NULL;
    rows->options = *options;
    if (mailbox_init(&rows->mailbox)) {
        free(rows);
        return NULL;
    }
    rows->limits = (struct timer_json_limits){
        .payload_bytes_max = config->payload_bytes_max,
        .target_bytes_max = config->target_bytes_max,
        .labels_max = config->labels_max,
        .headers_bytes_max = config->headers_bytes_max,
        .sensitive_headers = bytes_of(config->sensitive_headers),
        .tenant = options->tenant,
        .target_check = options->target_check,
        .target_context = options->target_context,
        .zones = node_zones(options->node),
        .bare_after = TIMER_JSON_BARE_REFUSED,
    };
    return rows;
}

void source_rows_destroy(struct source_rows *rows)
{
    if (!rows)
        return;
    assert(rows->in_flight == 0);
    mailbox_deinit(&rows->mailbox);
    free(rows->jobs);
    free(rows->slots);
    free(rows);
}

void source_rows_stop(struct source_rows *rows)
{
    atomic_store(&rows->is_stopping, true);
    mailbox_wake(&rows->mailbox);
}

bool source_rows_is_stopping(const struct source_rows *rows)
{
    return atomic_load(&rows->is_stopping);
}

int source_rows_fd(const struct source_rows *rows)
{
    return mailbox_fd(&rows->mailbox);
}

/* ---- replies ---- */

/* Called on any thread. */
static void source_rows_on_done(struct node_request *request)
{
    struct source_job *job = list_item(request, struct source_job, request);

    mailbox_post(&job->rows->mailbox, &job->link);
}

/* Waits for replies and appends their jobs to `ret_jobs`. Each request is answered in the end, so
 * the wait has no limit. */
static void source_rows_await(struct source_rows *rows, struct list *ret_jobs)
{
    assert(rows->in_flight > 0);
    while (list_is_empty(ret_jobs)) {
        mailbox_wait(&rows->mailbox, UINT64_MAX);
        mailbox_take(&rows->mailbox, ret_jobs);
    }
    LIST_FOR_EACH (ret_jobs, link)
        rows->in_flight--;
}

static bool source_rows_reserve(struct source_rows *rows, size_t count)
{
    if (count > rows->job_capacity) {
        struct source_job *jobs = realloc(rows->jobs, count * sizeof(*jobs));

        if (!jobs)
            return false;
        rows->jobs = jobs;
        rows->job_capacity = count;
    }
    return true;
}

/* Submits a request for one of all partitions, or sets its error. */
static void source_rows_submit_part(struct source_rows *rows, struct source_job *job)
{
    const enum error_code error = node_submit(rows->options.node, &job->request);

    rows->in_flight += !error;
    if (error)
        job->request.command.error = error;
}

static void source_rows_await_parts(struct source_rows *rows)
{
    struct list ended;

    while (rows->in_flight > 0) {
        list_init(&ended);
        source_rows_await(rows, &ended);
    }
}

/* ---- a new reader ---- */

/* Keeps the rows of the last batch of all partitions: those of earlier ones are deleted. */
static enum error_code source_rows_gather(const struct source_rows *rows, uint16_t partitions,
                                          struct source_taken **ret_taken, size_t *ret_count)
{
    uint64_t batch = 0;
    size_t count = 0;

    for (uint16_t i = 0; i < partitions; i++)
        if (rows->jobs[i].ledger.count && rows->jobs[i].ledger.batch > batch)
            batch = rows->jobs[i].ledger.batch;
    for (uint16_t i = 0; i < partitions; i++)
        count += rows->jobs[i].ledger.batch == batch ? rows->jobs[i].ledger.count : 0;
    struct source_taken *taken = calloc(count + 1, sizeof(*taken));
    if (!taken)
        return ERROR_NO_MEMORY;
    count = 0;
    for (uint16_t i = 0; i < partitions; i++) {
        const struct command_ledger *ledger = &rows->jobs[i].ledger;

        for (size_t j = 0; ledger->batch == batch && j < ledger->count; j++)
            taken[count++] = (struct source_taken){ledger->rows[j].row, ledger->rows[j].error};
    }
    *ret_taken = taken;
    *ret_count = count;
    return ERROR_NONE;
}

enum error_code source_rows_begin(struct source_rows *rows, uint64_t incarnation, uint64_t epoch,
                                  struct source_taken **ret_taken, size_t *ret_count)
{
    struct node *node = rows->options.node;
    const uint16_t partitions = node_partition_count(node);
    enum error_code code = ERROR_NONE;

    if (!source_rows_reserve(rows, partitions))
        return ERROR_NO_MEMORY;
    for (uint16_t i = 0; i < partitions; i++) {
        struct source_job *job = &rows->jobs[i];

        *job = (struct source_job){.rows = rows};
        job->ledger = (struct command_ledger){.source = incarnation, .epoch = epoch};
        job->request.command = (struct command){.kind = COMMAND_LEDGER,
                                                .partition = i,
                                                .tenant = rows->options.tenant,
                                                .ledger = &job->ledger};
        job->request.done = source_rows_on_done;
        source_rows_submit_part(rows, job);
    }
    source_rows_await_parts(rows);
    for (uint16_t i = 0; i < partitions; i++)
        code = code ? code : rows->jobs[i].request.command.error;
    if (!code)
        code = source_rows_gather(rows, partitions, ret_taken, ret_count);
    for (uint16_t i = 0; i < partitions; i++)
        free(rows->jobs[i].ledger.rows);
    rows->incarnation = incarnation;
    rows->epoch = epoch;
    rows->batch = epoch << 32;
    return code;
}

/* ---- a row ---- */

void source_rows_append_problem(enum error_code error, struct buffer *out)
{
    struct problem problem;

    problem_set(&problem, error, "", "%s", "");
    problem_format(&problem, out);
}

static void source_rows_refuse(struct source_row *row, const struct problem *problem)
{
    row->state = SOURCE_ROW_REFUSED;
    problem_format(problem, &row->problem);
}

enum error_code source_rows_check_target(const struct source_rows *rows, struct bytes text,
                                         struct error *ret_error)
{
    struct target target;
    const enum error_code code = target_parse(text, &target, ret_error);

    return code ? code
                : rows->options.target_check(rows->options.target_context, rows->options.tenant,
                                             text, &target, ret_error);
}

/* Gives the timer of a row the row's Idempotency-Key, with the fingerprint of its body. */
static enum error_code source_rows_name(struct source_job *job, struct problem *problem)
{
    const struct source_row *row = job->row;
    char text[NAME_FINGERPRINT_SIZE + NAME_SIZE_MAX + 1];

    if (row->request.size > NAME_SIZE_MAX)
        return problem_set(problem, ERROR_INVALID, "",
                           "The message-id and the source's name have more than %d bytes",
                           NAME_SIZE_MAX - 1);
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)bytes_hash(0, row->body));
    memcpy(text + NAME_FINGERPRINT_SIZE, row->request.data, row->request.size);
    job->timer = name_timer(job->timer, job->timer->texts.key,
                            (struct bytes){text, NAME_FINGERPRINT_SIZE + row->request.size});
    return job->timer ? ERROR_NONE : ERROR_NO_MEMORY;
}

/* Reads a timer that is to be made. The key of the row is that of the timer: rows of a key that is
 * only in the body would have no order. */
static enum error_code source_rows_parse_create(struct source_rows *rows, struct source_job *job,
                                                struct problem *problem)
{
    struct timer_json_limits limits = rows->limits;
    struct source_row *row = job->row;
    struct error error;

    if (row->key.size && name_check_new(row->key, &error))
        return problem_set(problem, ERROR_INVALID, "#/key", "%s", error.text);
    limits.key = row->key;
    enum error_code code = timer_json_parse_create(
        row->body, &limits, node_wall_coming(rows->options.node), &job->timer, problem);
    if (!code && !bytes_equal(job->timer->texts.key, row->key)) {
        timer_free(job->timer);
        job->timer = NULL;
        code = problem_set(problem, ERROR_INVALID, "#/key", "The key belongs into the column key");
    }
    if (!code && row->request.size)
        code = source_rows_name(job, problem);
    return code;
}

static enum error_code source_rows_parse_touch(struct source_rows *rows, struct source_job *job,
                                               struct problem *problem)
{
    struct command *command = &job->request.command;
    enum error_code code =
        timer_json_parse_values(job->row->body, &rows->limits, node_wall_coming(rows->options.node),
                                &command->patch_fields, &command->patch, problem);

    if (!code && command->patch_fields != PATCH_DUE) {
        timer_free(command->patch);
        command->patch = NULL;
        code = problem_set(problem, ERROR_INVALID, "#", "It may have `after` or `at` alone");
    }
    return code;
}

/* Makes the command of a row. On an error the row is refused. */
static enum error_code source_rows_prepare(struct source_rows *rows, struct source_job *job)
{
    struct source_row *row = job->row;
    struct command *command = &job->request.command;
    struct node *node = rows->options.node;
    struct problem problem;
    struct error error;
    enum error_code code = ERROR_NONE;

    *command = (struct command){
        .tenant = rows->options.tenant,
        .origin = {.source = rows->incarnation,
                   .epoch = rows->epoch,
                   .batch = rows->batch,
                   .row = row->number},
        .tenant_pending_max = rows->pending_max,
    };
    job->request.done = source_rows_on_done;
    command->partition = row->key.size       ? name_partition(node, row->key)
                         : row->request.size ? name_partition(node, row->request)
                                             : (uint16_t)(row->number % node_partition_count(node));
    const bool creates = row->op == SOURCE_SCHEDULE || row->op == SOURCE_PUT;
    if (row->is_too_large)
        code = problem_set(&problem, ERROR_TOO_LARGE, "", "%s", "");
    else if (creates)
        code = source_rows_parse_create(rows, job, &problem);
    else if (row->op == SOURCE_TOUCH)
        code = source_rows_parse_touch(rows, job, &problem);
    if (!code && !creates && name_check(row->key, &error))
        code = problem_set(&problem, ERROR_INVALID, "#/key", "%s", error.text);
    if (code == ERROR_NO_MEMORY)
        row->state = SOURCE_ROW_POSTPONED;
    else if (code)
        source_rows_refuse(row, &problem);
    if (code)
        return code;
    if (creates) {
        command->kind = row->op == SOURCE_PUT ? COMMAND_PUT : COMMAND_CREATE;
        command->timers = &job->timer;
        command->results = &job->created;
        command->timer_count = 1;
        const bool is_named = row->key.size || row->request.size;
        if (!is_named && job->timer->texts.order.size)
            command->partition = name_partition_of_queue(node, job->timer);
        else if (!is_named && job->timer->texts.flow.size)
            command->partition = name_partition_of_flow(node, job->timer);
    } else {
        command->kind = row->op == SOURCE_TOUCH ? COMMAND_TOUCH : COMMAND_CANCEL;
        command->name = row->key;
    }
    return ERROR_NONE;
}

/* Takes the answer to a row. A timer that is over already needs no cancel. */
static void source_rows_judge(struct source_rows *rows, struct source_row *row,
                              enum error_code error)
{
    if (error == ERROR_IO || error == ERROR_IN_DOUBT || error == ERROR_VERSION_MISMATCH) {
        rows->failure = rows->failure && rows->failure != ERROR_STOPPING ? rows->failure
                        : error == ERROR_VERSION_MISMATCH                ? error
                                                                         : ERROR_IN_DOUBT;
    } else if (ledger_is_passing(error)) {
        row->state = SOURCE_ROW_POSTPONED;
    } else if (!error ||
               (row->op == SOURCE_CANCEL && (error == ERROR_NOT_FOUND || error == ERROR_GONE))) {
        row->state = SOURCE_ROW_DONE;
    } else {
        row->state = SOURCE_ROW_REFUSED;
        source_rows_append_problem(error, &row->problem);
    }
}

/* ---- a batch ---- */

/* Submits the job, unless the row is refused at once; then, and when the node has no room, its row
 * has its state. `outbox` gets the request. */
static void source_rows_submit(struct source_rows *rows, struct source_job *job,
                               struct list *outbox)
{
    if (source_rows_prepare(rows, job))
        return;
    const enum error_code error = node_submit_later(rows->options.node, &job->request, outbox);
    if (!error) {
        rows->in_flight++;
        return;
    }
    command_drop_timers(&job->request.command);
    if (error == ERROR_STOPPING)
        rows->failure = error;
    else
        source_rows_judge(rows, job->row, error);
}

/* Submits a job and, as long as they are answered at once, those of its key after it. After a row
 * that is postponed all others of its key are. */
static void source_rows_go_on(struct source_rows *rows, struct source_job *job, struct list *outbox)
{
    const struct source_job *before = NULL;

    for (; job; before = job, job = job->next) {
        const bool must_wait = before && before->row->state != SOURCE_ROW_DONE &&
                               before->row->state != SOURCE_ROW_REFUSED;

        if (rows->failure)
            return;
        if (must_wait)
            job->row->state = SOURCE_ROW_POSTPONED;
        else
            source_rows_submit(rows, job, outbox);
        if (!must_wait && job->row->state == SOURCE_ROW_NEW)
            return; /* in flight */
    }
}

/* Takes replies, and submits the jobs that waited for them. */
static void source_rows_turn(struct source_rows *rows, struct list *outbox)
{
    struct list ended;

    list_init(&ended);
    source_rows_await(rows, &ended);
    for (struct list *link; (link = list_pop(&ended));) {
        struct source_job *job = list_item(link, struct source_job, link);

        source_rows_judge(rows, job->row, job->request.command.error);
        if (!job->next || rows->failure)
            continue;
        if (job->row->state == SOURCE_ROW_POSTPONED) {
            for (job = job->next; job; job = job->next)
                job->row->state = SOURCE_ROW_POSTPONED;
        } else {
            source_rows_go_on(rows, job->next, outbox);
        }
    }
}

/* Puts each job after the one before it with its key. Returns false if out of memory. */
static bool source_rows_chain(struct source_rows *rows, size_t count)
{
    size_t size = 64;

    while (size < 2 * count)
        size *= 2;
    if (size > rows->slot_count) {
        free(rows->slots);
        rows->slot_count = 0;
        rows->slots = malloc(size * sizeof(*rows->slots));
        if (!rows->slots)
            return false;
        rows->slot_count = size;
    }
    memset(rows->slots, 0, rows->slot_count * sizeof(*rows->slots));
    for (size_t i = 0; i < count; i++) {
        struct source_job *job = &rows->jobs[i];
        const struct bytes key = job->row->key;

        if (!key.size)
            continue;
        size_t slot = bytes_hash(0, key) & (rows->slot_count - 1);
        while (rows->slots[slot] && !bytes_equal(rows->slots[slot]->row->key, key))
            slot = (slot + 1) & (rows->slot_count - 1);
        if (rows->slots[slot]) {
            rows->slots[slot]->next = job;
            job->has_before = true;
        }
        rows->slots[slot] = job;
    }
    return true;
}

/* Takes rows of which none completes an event. */
static enum error_code source_rows_take_some(struct source_rows *rows, struct source_row *batch,
                                             size_t count)
{
    struct list outbox;

    if (!source_rows_reserve(rows, count))
        return ERROR_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        rows->jobs[i] = (struct source_job){.rows = rows, .row = &batch[i]};
    if (!source_rows_chain(rows, count))
        return ERROR_NO_MEMORY;
    list_init(&outbox);
    for (size_t i = 0; i < count && !rows->failure; i++)
        if (!rows->jobs[i].has_before)
            source_rows_go_on(rows, &rows->jobs[i], &outbox);
    node_send(rows->options.node, &outbox);
    while (rows->in_flight > 0) {
        list_init(&outbox);
        source_rows_turn(rows, &outbox);
        node_send(rows->options.node, &outbox);
    }
    return rows->failure;
}

/* Completes the event of a row in all partitions: first in all but one, and there last, with a note
 * in its ledger. After a crash between, all is done again, which finds the timers over. A reader
 * that lost its place completes nothing: a timer made since by a later row may watch the event. */
static enum error_code source_rows_complete(struct source_rows *rows, struct source_row *row)
{
    const uint16_t partitions = node_partition_count(rows->options.node);
    struct source_job first = {.rows = rows, .row = row};
    enum error_code worst = ERROR_NONE;

    if (source_rows_prepare(rows, &first))
        return ERROR_NONE;
    if (!source_rows_reserve(rows, partitions))
        return ERROR_NO_MEMORY;
    first.request.command.kind = COMMAND_COMPLETE;
    first.request.command.each = COMMAND_CANCEL;
    for (uint16_t i = 0; i < partitions; i++) {
        struct source_job *job = &rows->jobs[i];

        *job = first;
        job->request.command.partition = i;
        if (i == 0)
            continue;
        job->request.command.origin.row = 0;
        source_rows_submit_part(rows, job);
    }
    source_rows_await_parts(rows);
    for (uint16_t i = 1; i < partitions && !worst; i++)
        worst = rows->jobs[i].request.command.error;
    if (!worst) {
        source_rows_submit_part(rows, &rows->jobs[0]);
        source_rows_await_parts(rows);
        worst = rows->jobs[0].request.command.error;
    }
    source_rows_judge(rows, row, worst);
    return rows->failure;
}

static bool source_rows_has_postponed(const struct source_row *batch, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (batch[i].state == SOURCE_ROW_POSTPONED)
            return true;
    return false;
}

/* Reads the limits that may have changed since the last batch. */
static struct calendars *source_rows_look(struct source_rows *rows)
{
    const struct source_rows_options *options = &rows->options;
    struct tenant_limits limits = {0};
    struct calendars *calendars = node_calendars(options->node);

    if (options->tenant_limits)
        options->tenant_limits(options->limits_context, options->tenant, &limits);
    rows->pending_max = limits.pending_max;
    rows->limits.zones.calendars = calendars;
    return calendars;
}

enum error_code source_rows_take(struct source_rows *rows, struct source_row *batch, size_t count)
{
    struct calendars *calendars = source_rows_look(rows);
    size_t done = 0;

    rows->batch++;
    rows->failure = ERROR_NONE;
    while (done < count && !rows->failure && !source_rows_is_stopping(rows)) {
        size_t some = done;

        while (some < count && batch[some].op != SOURCE_COMPLETE)
            some++;
        if (some > done)
            rows->failure = source_rows_take_some(rows, batch + done, some - done);
        if (source_rows_has_postponed(batch + done, some - done))
            break; /* the event, and rows after it, must not overtake them */
        if (some < count && !rows->failure) {
            rows->failure = source_rows_complete(rows, &batch[some]);
            if (batch[some].state == SOURCE_ROW_POSTPONED)
                break; /* a timer made by a later row may watch the event */
            some++;
        }
        done = some;
    }
    calendars_leave(calendars);
    return rows->failure                                   ? rows->failure
           : source_rows_is_stopping(rows) && done < count ? ERROR_STOPPING
                                                           : ERROR_NONE;
}
