#include "api/queues/queues.h"

#include "api/queues/queues_json.h"
#include "base/json.h"
#include "calendar/rfc3339.h"
#include "timer/queue_target.h"
#include "sys/clock.h"

#include <stdlib.h>

/* What one call asks of the queue; its receipts are its own. */
struct worker {
    struct node_queue_request node;
    char queue[QUEUE_FULL_NAME_SIZE_MAX];
    struct call *call;
    struct queues_ask ask;
    enum queue_verdict *verdicts;
};

void queues_begin(struct call *call)
{
    if (!queue_name_is_valid(call->parameter))
        call_answer_error(
            call, ERROR_NOT_FOUND,
            "A queue's name has 1 to " IN_WORDS(QUEUE_NAME_SIZE_MAX) " letters, digits and . _ -");
    else if (!call_refuses_type(call, "application/json", NULL))
        call_refuses_body(call);
}

void queues_closed(struct call *call)
{
    struct worker *worker = call->state;

    if (!worker)
        return;
    free(worker->ask.receipts);
    free(worker->verdicts);
    free(worker);
}

/* ---- answers; on the node's thread, while the leases are valid ---- */

static void append_item(struct buffer *out, const struct queue_lease *lease)
{
    const struct timer *timer = lease->delivery->timer;
    char receipt[QUEUE_RECEIPT_SIZE], due[RFC3339_TEXT_SIZE], id[TIMER_ID_TEXT_SIZE];

    queue_receipt_format(lease->receipt, receipt);
    timer_id_format(&timer->id, id);
    rfc3339_format(timer->due, due);
    buffer_append_text(out, "{\"receipt\":\"");
    buffer_append_text(out, receipt);
    buffer_append_text(out, "\",\"id\":\"");
    buffer_append_text(out, id);
    buffer_append_text(out, "\",\"due\":\"");
    buffer_append_text(out, due);
    buffer_append_text(out, "\",\"attempt\":");
    buffer_append_u64(out, lease->delivery->attempt);
    timer_json_format_content(timer, out);
    if (timer->texts.last_error.size) {
        buffer_append_text(out, ",\"last_error\":");
        json_append_string(out, timer->texts.last_error);
    }
    buffer_append_text(out, "}");
}

static void lease_done(struct node_queue_request *request)
{
    struct worker *worker = list_item(request, struct worker, node);
    struct call *call = worker->call;
    char until[RFC3339_TEXT_SIZE];
    const char *separator = "";
    struct buffer body;

    if (request->queue.error) {
        call_answer_error(call, request->queue.error, "");
        return;
    }
    if (call_refuses_large_answer(call)) /* while it waited; the leases end by themselves */
        return;
    buffer_init(&body);
    buffer_append_text(&body, "{\"items\":[");
    LIST_FOR_EACH ((struct list *)request->queue.leases, link) {
        buffer_append_text(&body, separator);
        append_item(&body, list_item(link, struct queue_lease, link));
        separator = ",";
    }
    rfc3339_format(instant_wall(request->queue.leased_until), until);
    buffer_append_text(&body, "],\"leased_until\":\"");
    buffer_append_text(&body, until);
    buffer_append_text(&body, "\"}");
    call_answer_json(call, 200, &body); /* out of memory: 503, and the leases end by themselves */
}

static void speak_done(struct node_queue_request *request)
{
    static const char *const words[] = {
        [QUEUE_OK] = "\"ok\"", [QUEUE_STALE] = "\"stale\"", [QUEUE_UNKNOWN] = "\"unknown\""};
    struct worker *worker = list_item(request, struct worker, node);
    size_t counts[3] = {0};
    struct buffer body;

    buffer_init(&body);
    for (size_t i = 0; i < request->queue.receipt_count; i++)
        counts[worker->verdicts[i]]++;
    buffer_printf(&body, "{\"ok\":%zu,\"stale\":%zu,\"unknown\":%zu,\"results\":[",
                  counts[QUEUE_OK], counts[QUEUE_STALE], counts[QUEUE_UNKNOWN]);
    for (size_t i = 0; i < request->queue.receipt_count; i++) {
        if (i > 0)
            buffer_append_text(&body, ",");
        buffer_append_text(&body, words[worker->verdicts[i]]);
    }
    buffer_append_text(&body, "]}");
    call_answer_json(worker->call, 200, &body);
}

/* ---- asking ---- */

/* The worker with what its body says; NULL: answered. */
static struct worker *worker_create(struct call *call, enum queue_kind kind)
{
    const struct config *config = call->api->options.config;
    struct worker *worker = calloc(1, sizeof(*worker));
    struct problem problem;

    if (!worker) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    call->state = worker;
    worker->call = call;
    if (queues_json_parse(buffer_bytes(&call->body), kind, config->queue_wait_max_ms, &worker->ask,
                          &problem)) {
        call_answer_problem(call, &problem);
        return NULL;
    }
    worker->node.queue = (struct queue_request){
        .kind = kind,
        .queue = queue_full_name(caller_tenant(&call->caller), call->parameter, worker->queue),
        .lease_ms = worker->ask.lease_ms};
    return worker;
}

static void submit(struct worker *worker, void (*done)(struct node_queue_request *request))
{
    enum error_code error;

    worker->node.done = done;
    error = node_queue_submit(worker->call->api->options.node, &worker->node);
    if (error)
        call_answer_error(worker->call, error, "");
}

void queues_lease(struct call *call)
{
    struct worker *worker = worker_create(call, QUEUE_LEASE);

    if (!worker || call_refuses_large_answer(call))
        return;
    worker->node.queue.items_max = worker->ask.items_max;
    worker->node.queue.bytes_max = call->api->options.config->queue_bytes_max;
    worker->node.queue.wait_until = instant_add_ms(instant_now(), worker->ask.wait_ms);
    submit(worker, lease_done);
}

static void speak(struct call *call, enum queue_kind kind)
{
    struct worker *worker = worker_create(call, kind);

    if (!worker)
        return;
    worker->verdicts = calloc(worker->ask.receipt_count, sizeof(*worker->verdicts));
    if (!worker->verdicts) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    worker->node.queue.receipts = worker->ask.receipts;
    worker->node.queue.verdicts = worker->verdicts;
    worker->node.queue.receipt_count = worker->ask.receipt_count;
    worker->node.queue.outcome = worker->ask.outcome;
    if (worker->ask.outcome.retry_after_ms)
        worker->node.queue.outcome.retry_after_ms++; /* see wall_coming() */
    submit(worker, speak_done);
}

void queues_ack(struct call *call)
{
    speak(call, QUEUE_ACK);
}

void queues_nack(struct call *call)
{
    speak(call, QUEUE_NACK);
}

void queues_extend(struct call *call)
{
    speak(call, QUEUE_EXTEND);
}
