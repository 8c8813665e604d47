/*
 * batch.c - creates many timers: reads lines, submits chunks, and holds the client back.
 *
 * Lines are read while the upload arrives and go to the node in chunks, each to one partition. A
 * bounded number of chunks is under way; beyond it the client is held back. So memory does not grow
 * with the body, but for the answers, which are sent when the upload has ended. The bound is also
 * what the creates of others wait behind: with 2,048 lines a client, a single create beside two
 * clients that send batches is answered within 24 ms (p99), with 8,192 within 50 ms, with 1,024
 * within 16 ms, but then batches are slower.
 */
#include "api/timers/timers.h"

#include "api/core/query.h"
#include "api/timers/batch_chunk.h"
#include "api/timers/lines.h"
#include "base/json_write.h"
#include "http/field.h"
#include "sys/clock.h"

#include <pthread.h>
#include <stdlib.h>

#define NDJSON "application/x-ndjson"

/* Minimum limit of the memory for answers; the limit is 64 bytes for every allowed line if that
 * is more. Only a batch whose lines mostly fail reaches it. */
#define ANSWER_BYTES_MIN (UINT64_C(64) << 20)

/* The worker's thread reads lines into `filling`, submits it when it is full, and takes answered
 * chunks from the front of `sent` to write their results; so results come in the order of the
 * lines. The shard's thread only marks a chunk as answered and wakes the request if it waits.
 * `lock` guards the fields that both threads use. When the client hangs up early, the batch lives
 * on until its last chunk is answered. */
struct batch {
    pthread_mutex_t lock;
    struct call *call; /* guarded by lock; NULL after the request is closed */
    struct api *api;
    unsigned shard;                  /* shard of its thread */
    struct caller caller;            /* copy of the call's, which may be freed earlier */
    struct timer_json_limits limits; /* for the caller, with the trace of the request */
    struct trace_parent parent;      /* trace of the request */
    char trace[TRACE_PARENT_SIZE + 1];
    struct lines lines;
    struct batch_chunk *filling; /* NULL if none is begun */
    struct batch_chunk *spare;   /* for reuse */
    struct list sent;            /* chunks in order of lines; guarded by lock */
    size_t sent_count;           /* chunks on `sent`; guarded by lock */
    size_t asked_count;          /* parts without an answer; guarded by lock */
    bool is_waiting;             /* the request sleeps; guarded by lock */
    size_t wake_below;           /* asked_count below which to wake it; guarded by lock */
    enum batch_style style;
    /* Reads a line: timer_json_parse_create or timer_json_parse_restore. */
    enum error_code (*parse)(struct bytes json, const struct timer_json_limits *limits,
                             struct wall now, struct timer **ret_timer,
                             struct problem *ret_problem);
    struct buffer out;                             /* results so far */
    size_t answers_counted;                        /* part of it counted in api.answers */
    struct tenant_pot_share *share, *answer_share; /* shares of batches, and of answers or NULL */
    struct batch_totals totals;
    uint64_t line_count, body_bytes, bytes_max, answer_bytes_max;
    bool is_dry; /* lines are only read, and answered with the timers that they would be */
    struct timer_json_view view; /* how these are shown */
    bool is_ended; /* the upload has ended: from here on the request sleeps unless it is answered */
    bool is_over;  /* a limit is reached: the rest is not read */
};

static void batch_free(struct batch *batch)
{
    LIST_FOR_EACH (&batch->sent, link)
        batch_chunk_destroy(list_item(link, struct batch_chunk, link));
    batch_chunk_destroy(batch->filling);
    batch_chunk_destroy(batch->spare);
    lines_deinit(&batch->lines);
    buffer_deinit(&batch->out);
    pthread_mutex_destroy(&batch->lock);
    tenant_pot_give(&batch->api->answers, batch->answer_share, batch->answers_counted);
    shared_leave_batch(batch->api, batch->share);
    free(batch);
}

/* ---- chunks ---- */

/* Called on the node's thread. */
static void batch_part_done(struct node_request *request)
{
    struct batch_part *part = list_item(request, struct batch_part, node);
    struct batch *batch = part->chunk->batch;

    pthread_mutex_lock(&batch->lock);
    part->chunk->missing--;
    batch->asked_count--;
    struct http_request *sleeper = NULL;
    if (batch->is_waiting && batch->asked_count < batch->wake_below) {
        batch->is_waiting = false;
        sleeper = batch->call->http;
    }
    bool is_last = !batch->call && batch->asked_count == 0;
    pthread_mutex_unlock(&batch->lock);
    if (sleeper)
        http_request_resume(sleeper);
    else if (is_last)
        batch_free(batch);
}

/* Writes the results of the answered chunks at the front. */
static void batch_harvest(struct batch *batch)
{
    pthread_mutex_lock(&batch->lock);
    while (!list_is_empty(&batch->sent)) {
        struct batch_chunk *chunk = list_item(batch->sent.next, struct batch_chunk, link);

        if (!batch_chunk_is_answered(chunk))
            break;
        list_remove(&chunk->link);
        batch->sent_count--;
        pthread_mutex_unlock(&batch->lock);
        struct problem full;
        call_describe_error(batch->api, &batch->caller, ERROR_TOO_MANY, &full);
        batch_chunk_format(chunk, &full, batch->style, &batch->out, &batch->totals);
        batch_chunk_destroy(batch->spare);
        batch->spare = chunk;
        pthread_mutex_lock(&batch->lock);
    }
    pthread_mutex_unlock(&batch->lock);
    batch->answer_share = tenant_pot_force(&batch->api->answers, caller_key(&batch->caller),
                                           batch->out.size - batch->answers_counted);
    batch->answers_counted = batch->out.size;
}

/* Puts the request to sleep until fewer than `count` parts are unanswered. The caller holds the
 * lock, so that the answer that wakes it is later. */
static void batch_wait_below(struct batch *batch, size_t count)
{
    if (!batch->call)
        return;
    if (!batch->is_ended)
        http_request_pause(batch->call->http);
    batch->is_waiting = true;
    batch->wake_below = count;
}

enum sending {
    SENT,
    MUST_WAIT, /* the request will be woken */
};

/* Submits the parts of the chunk; the caller holds the lock. MUST_WAIT if the node has no room
 * now: the rest is sent later. */
static enum sending batch_send_parts(struct batch *batch, struct batch_chunk *chunk)
{
    /* If nothing else is in flight, the node has room for each part. */
    if (!chunk->is_prepared)
        batch_chunk_prepare(chunk, batch->api->options.node, batch->shard,
                            batch->api->options.config->inflight_max);
    struct batch_part *part;
    while ((part = batch_chunk_next_part(chunk))) {
        part->node.done = batch_part_done;
        part->node.trace = batch->parent;
        part->node.command.tenant_pending_max = batch->caller.limits.pending_max;
        enum error_code error = node_submit(batch->api->options.node, &part->node);
        if (error == ERROR_OVERLOADED && batch->asked_count > 0)
            return MUST_WAIT;
        if (error) {
            call_count_refusal(batch->api->options.metrics, error);
            batch_chunk_refused(chunk, error);
            continue;
        }
        batch_chunk_sent(chunk);
        batch->asked_count++;
    }
    return SENT;
}

/* Sends `filling`. If there are too many unanswered chunks, or the node has no room, the request
 * waits for an answer to one of its own. A batch without unanswered chunks is refused instead,
 * because nothing would wake it. The last chunk of a client that left does not wait. */
static enum sending batch_send_chunk(struct batch *batch)
{
    struct batch_chunk *chunk = batch->filling;

    batch_harvest(batch);
    if (!chunk)
        return SENT;
    pthread_mutex_lock(&batch->lock);
    enum sending sending = MUST_WAIT;
    if (batch->asked_count == 0 || batch->sent_count < BATCH_CHUNKS_MAX || !batch->call)
        sending = batch_send_parts(batch, chunk);
    if (sending == MUST_WAIT) {
        batch_wait_below(batch, batch->asked_count);
    } else {
        batch->sent_count++;
        list_push(&batch->sent, &chunk->link);
        batch->filling = NULL;
    }
    pthread_mutex_unlock(&batch->lock);
    return sending;
}

/* ---- lines ---- */

/* Returns a chunk with room for a line. NULL if out of memory. */
static struct batch_chunk *batch_chunk_to_fill(struct batch *batch)
{
    if (!batch->filling && batch->spare) {
        batch->filling = batch->spare;
        batch->spare = NULL;
        batch_chunk_clear(batch->filling);
    }
    if (!batch->filling)
        batch->filling = batch_chunk_create(batch);
    return batch->filling;
}

static void batch_add_problem(struct batch *batch, uint64_t number, const struct problem *problem)
{
    struct batch_chunk *chunk = batch->is_dry ? NULL : batch_chunk_to_fill(batch);

    if (chunk) {
        batch_chunk_add_problem(chunk, number, problem);
    } else if (batch->is_dry) {
        batch_problem_format(problem, number, &batch->out);
        batch->totals.failed++;
    } else {
        batch->out.failed = batch->is_over = true;
    }
}

/* Appends the last line of the answer: nothing after line `number` is read. */
static void batch_end_early(struct batch *batch, enum error_code code, uint64_t number,
                            const char *detail)
{
    struct problem problem;

    batch->is_over = true;
    problem_set(&problem, code, "", "%s; this line and all behind it are not read", detail);
    batch_add_problem(batch, number, &problem);
}

/* Answers with the timer that the line would make, which has no id and no version yet. */
static void batch_show_timer(struct batch *batch, struct timer *timer)
{
    timer_json_format(timer, &batch->view, &batch->out);
    buffer_append_text(&batch->out, "\n");
    timer_free(timer);
    batch->answer_share = tenant_pot_force(&batch->api->answers, caller_key(&batch->caller),
                                           batch->out.size - batch->answers_counted);
    batch->answers_counted = batch->out.size;
}

static void batch_take_line(struct batch *batch, enum lines_result result, struct bytes line,
                            struct wall now)
{
    const struct config *config = batch->api->options.config;
    uint64_t number = lines_number(&batch->lines);
    struct batch_chunk *chunk = batch->is_dry ? NULL : batch_chunk_to_fill(batch);
    struct problem problem;
    struct timer *timer;

    if (batch->line_count++ == config->batch_lines_max) {
        batch_end_early(batch, ERROR_TOO_LARGE, number,
                        "The batch has more lines than are allowed");
    } else if (batch->out.size > batch->answer_bytes_max) {
        batch_end_early(batch, ERROR_TOO_LARGE, number, "The answer to the batch is too large");
    } else if (!tenant_pot_has_room(&batch->api->answers, caller_key(&batch->caller))) {
        batch_end_early(batch, ERROR_OVERLOADED, number, "There is no memory left for the answer");
    } else if (access_recheck(batch->api->access, &batch->caller)) {
        batch_end_early(batch, ERROR_UNAUTHENTICATED, number, "The token is not valid any more");
    } else if (!chunk && !batch->is_dry) {
        batch->out.failed = batch->is_over = true;
    } else if (result != LINES_LINE) {
        problem_set(&problem, result == LINES_TOO_LONG ? ERROR_TOO_LARGE : ERROR_NO_MEMORY, "",
                    "%s", result == LINES_TOO_LONG ? "The line is too long" : "");
        batch_add_problem(batch, number, &problem);
    } else if (batch->parse(line, &batch->limits, now, &timer, &problem)) {
        batch_add_problem(batch, number, &problem);
    } else if (access_spend(batch->api->access, &batch->caller, instant_now())) {
        timer_free(timer);
        problem_set(&problem, ERROR_RATE_EXCEEDED, "", "The limit is %u requests per second",
                    (unsigned)batch->caller.limits.rate);
        batch_add_problem(batch, number, &problem);
    } else if (batch->is_dry) {
        batch_show_timer(batch, timer);
    } else {
        batch_chunk_add_timer(chunk, number, timer);
    }
}

/* ---- the route ---- */

static enum batch_style batch_style_of(struct call *call)
{
    struct bytes prefer = http_request_header(call->http, "Prefer");

    return http_prefers(prefer, "return", "minimal") ? BATCH_MINIMAL : BATCH_FULL;
}

enum { BATCH_RESTORE, BATCH_DRY_RUN, BATCH_PARAMETERS };

static const char *const batch_parameters[] = {"restore", "dry_run"};

static void batch_take_parameter(void *context, size_t index, struct bytes value,
                                 struct problem *problem)
{
    bool *given = context;

    given[index] = bytes_equal(value, BYTES("true"));
    if (!given[index])
        query_fault(problem, batch_parameters[index], "It must be true");
    else if (given[BATCH_RESTORE] && given[BATCH_DRY_RUN])
        query_fault(problem, batch_parameters[index], "`restore` does not go with `dry_run`");
}

/* False: answered. */
static bool batch_read_query(struct call *call, bool ret_given[BATCH_PARAMETERS])
{
    static const struct query_form form = {batch_parameters, BATCH_PARAMETERS, .parameters_max = 8,
                                           .take = batch_take_parameter};

    return call_read_query(call, &form, ret_given);
}

void batch_begin(struct call *call)
{
    const struct config *config = call->api->options.config;
    const uint64_t bytes_max =
        caller_limit(config->batch_bytes_max, call->caller.limits.batch_bytes_max);

    bool given[BATCH_PARAMETERS] = {false};
    if (!batch_read_query(call, given) || call_refuses_type(call, NDJSON, "application/jsonl") ||
        call_refuses_length(call, bytes_max))
        return;
    struct batch *batch = calloc(1, sizeof(*batch));
    if (!batch) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    batch->share = tenant_pot_take(&call->api->batches, caller_key(&call->caller), 1);
    if (!batch->share) {
        free(batch);
        call_answer_error(call, ERROR_OVERLOADED, "Too many batches are under way");
        return;
    }
    pthread_mutex_init(&batch->lock, NULL);
    list_init(&batch->sent);
    batch->call = call;
    batch->shard = http_request_thread(call->http);
    batch->api = call->api;
    batch->caller = call->caller;
    batch->bytes_max = bytes_max;
    lines_init(&batch->lines, call->body_bytes_max);
    batch->limits = call_timer_limits(call);
    batch->limits.is_after_bare = NULL;
    if (batch->limits.bare_after == TIMER_JSON_BARE_NOTED)
        batch->limits.bare_after = TIMER_JSON_BARE_REFUSED;
    batch->limits.tenant = caller_tenant(&batch->caller);
    batch->parent = call->trace;
    batch->limits.trace = call_trace(call, batch->trace);
    batch->is_dry = given[BATCH_DRY_RUN];
    batch->view = call_view(call);
    batch->style = batch->is_dry ? BATCH_FULL : batch_style_of(call);
    batch->parse = given[BATCH_RESTORE] ? timer_json_parse_restore : timer_json_parse_create;
    batch->answer_bytes_max = (uint64_t)config->batch_lines_max * 64;
    if (batch->answer_bytes_max < ANSWER_BYTES_MIN)
        batch->answer_bytes_max = ANSWER_BYTES_MIN;
    call->state = batch;
}

size_t batch_body(struct call *call, struct bytes chunk)
{
    struct batch *batch = call->state;
    struct wall now = call_wall_coming(call);
    /* Bytes beyond the limit are not read, wherever the body was cut. */
    uint64_t room = batch->is_over ? 0 : batch->bytes_max - batch->body_bytes;
    struct bytes rest = {chunk.data, chunk.size < room ? chunk.size : (size_t)room};

    /* A chunk is sent when the line after it is there, so that a part of the body remains to
     * return to if it must wait. */
    while (!batch->is_over && rest.size > 0) {
        if (batch->filling && batch_chunk_is_full(batch->filling) &&
            batch_send_chunk(batch) == MUST_WAIT)
            break;
        struct bytes line;
        enum lines_result result = lines_next(&batch->lines, &rest, &line);
        if (result != LINES_MORE)
            batch_take_line(batch, result, line, now);
    }
    if (!batch->is_over && rest.size == 0 && chunk.size > room)
        batch_end_early(batch, ERROR_TOO_LARGE, lines_number(&batch->lines) + 1,
                        "The batch has more bytes than are allowed");
    if (!batch->is_over)
        chunk.size = (size_t)(rest.data - chunk.data);
    batch->body_bytes += chunk.size;
    if (batch->body_bytes > batch->bytes_max + HTTP_DISCARD_BYTES_MAX)
        http_request_hang_up(call->http);
    return chunk.size;
}

static void batch_answer(struct call *call)
{
    struct batch *batch = call->state;
    struct http_response response = {.status = 200, .content_type = NDJSON};

    call->created_count = batch->totals.created;
    if (batch->style == BATCH_MINIMAL) {
        json_open(&response.body, NULL, '{');
        json_put_number(&response.body, "created", batch->totals.created);
        json_put_number(&response.body, "existed", batch->totals.existed);
        json_put_number(&response.body, "failed", batch->totals.failed);
        json_close(&response.body, '}');
        buffer_append_text(&response.body, "\n");
        buffer_append_bytes(&response.body, buffer_bytes(&batch->out));
        response.body.failed |= batch->out.failed;
        buffer_deinit(&batch->out);
        http_response_header(&response, "Preference-Applied", "return=minimal");
    } else {
        response.body = batch->out;
        buffer_init(&batch->out);
    }
    tenant_pot_give(&batch->api->answers, batch->answer_share, batch->answers_counted);
    batch->answers_counted = 0; /* the call counts the memory of the answer from here on */
    call_answer(call, &response);
}

/* Continues after the upload: sends the rest, waits for all answers, answers. */
void batch_resumed(struct call *call)
{
    struct batch *batch = call->state;

    if (batch_send_chunk(batch) == MUST_WAIT)
        return;
    pthread_mutex_lock(&batch->lock);
    bool must_wait = batch->asked_count > 0;
    if (must_wait)
        batch_wait_below(batch, 1);
    pthread_mutex_unlock(&batch->lock);
    if (must_wait)
        return;
    batch_harvest(batch);
    batch_answer(call);
}

void batch_end(struct call *call)
{
    struct batch *batch = call->state;

    batch->is_ended = true;
    if (!batch->is_over) {
        struct bytes line;
        enum lines_result result = lines_last(&batch->lines, &line);
        if (result != LINES_MORE)
            batch_take_line(batch, result, line, call_wall_coming(call));
    }
    batch_resumed(call);
}

void batch_closed(struct call *call)
{
    struct batch *batch = call->state;

    if (!batch)
        return;
    pthread_mutex_lock(&batch->lock);
    batch->call = NULL;
    batch->asked_count++; /* keeps the batch alive */
    pthread_mutex_unlock(&batch->lock);
    /* If the client hung up, its complete lines still count, as far as there is room for them. */
    batch_send_chunk(batch);
    pthread_mutex_lock(&batch->lock);
    bool is_done = --batch->asked_count == 0;
    pthread_mutex_unlock(&batch->lock);
    if (is_done)
        batch_free(batch);
}
