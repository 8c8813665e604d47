/*
 * queues.c - leases, acknowledges, refuses and extends items for workers.
 *
 * A lease may wait for work. Its request then holds no thread; it is answered when an item is
 * leased to it.
 */
#include "api/core/call.h"

#include "api/json/timer_fields.h"
#include "api/queues/queues_json.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "timer/queue_target.h"
#include "timer/schedule.h"
#include "sys/clock.h"

#include <stdlib.h>

/* An item of a lease for the answer. */
struct queues_item {
    struct queue_receipt receipt;
    uint32_t attempt;
    struct trace_parent trace; /* span of the lease; all 0 if spans are not exported */
    struct timer *timer;       /* a copy */
};

/* A worker's call; it owns its receipts. */
struct worker {
    struct node_queue_request node;
    char queue[QUEUE_FULL_NAME_SIZE_MAX];
    char name[QUEUE_WORKER_SIZE]; /* its address and program */
    struct call *call;
    struct queues_ask ask;
    enum queue_verdict *verdicts;
    struct queues_item *items; /* leased items */
    size_t item_count;
    struct instant leased_until; /* no lease ends earlier */
    bool is_short;               /* memory was short for an item */
};

void queues_begin_name(struct call *call)
{
    if (!queue_name_is_valid(call->parameter))
        call_answer_error(
            call, ERROR_NOT_FOUND,
            "A queue's name has 1 to " IN_WORDS(QUEUE_NAME_SIZE_MAX) " letters, digits and . _ -");
}

void queues_begin(struct call *call)
{
    if (queue_name_is_valid(call->parameter))
        call_begin_json(call);
    else
        queues_begin_name(call);
}

void queues_closed(struct call *call)
{
    struct worker *worker = call->state;

    if (!worker)
        return;
    for (size_t i = 0; i < worker->item_count; i++)
        timer_free(worker->items[i].timer);
    free(worker->items);
    free(worker->ask.receipts);
    free(worker->verdicts);
    free(worker);
}

/* ---- answers ---- */

/* Fields of a timer that a worker gets. */
#define QUEUES_ITEM_FIELDS                                                                     \
    (TIMER_FIELD_BIT(payload) | TIMER_FIELD_BIT(body_base64) | TIMER_FIELD_BIT(content_type) | \
     TIMER_FIELD_BIT(headers) | TIMER_FIELD_BIT(labels) | TIMER_FIELD_BIT(last_error))

static void queues_append_item(struct buffer *out, const struct queues_item *item)
{
    const struct timer *timer = item->timer;
    char receipt[QUEUE_RECEIPT_SIZE];

    queue_receipt_format(item->receipt, receipt);
    json_open(out, NULL, '{');
    json_put_text(out, "receipt", receipt);
    timer_id_put(out, "id", &timer->id);
    rfc3339_put(out, "due", timer->due);
    json_put_number(out, "attempt", item->attempt);
    if (item->trace.span) {
        char trace[TRACE_PARENT_SIZE + 1];

        trace_parent_format(&item->trace, trace);
        json_put_text(out, "traceparent", trace);
    }
    struct backfill backfill;
    if (schedule_backfill(timer->texts.schedule, &backfill))
        json_put_string(out, "backfill", backfill.of);
    timer_json_put_fields(timer, QUEUES_ITEM_FIELDS, out);
    json_close(out, '}');
}

static void queues_lease_answer(struct call *call)
{
    const struct worker *worker = call->state;
    const struct queue_request *request = &worker->node.queue;
    struct caller caller = call->caller;
    const enum error_code no_access = access_recheck(call->api->access, &caller);
    if (no_access && worker->item_count == 0) {
        call_answer_no_access(call, no_access);
        return;
    }
    if (request->error) { /* out of memory: the existing leases expire */
        call_answer_error(call, request->error, "");
        return;
    }
    /* The limit may have been reached while the worker waited. The leases expire. */
    if (call_refuses_large_answer(call))
        return;
    struct buffer body;
    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_open(&body, "items", '[');
    for (size_t i = 0; i < worker->item_count; i++)
        queues_append_item(&body, &worker->items[i]);
    json_close(&body, ']');
    rfc3339_put(&body, "leased_until", instant_wall(worker->leased_until));
    json_close(&body, '}');
    call_answer_json(call, 200, &body); /* out of memory: 503, and the leases expire */
}

static bool queues_item_goes_before(const struct queues_item *a, const struct queues_item *b)
{
    const struct timer *first = a->timer, *second = b->timer;

    if (first->target.priority != second->target.priority)
        return first->target.priority > second->target.priority;
    return first->due.ms < second->due.ms;
}

/* Merges the items of one more shard, from `items[from]` on, with the earlier ones, as a shard
 * merges its partitions. */
static void queues_merge_items(struct queues_item *items, size_t from, size_t count)
{
    for (size_t at = 0; at < from && from < count; at++)
        if (queues_item_goes_before(&items[from], &items[at])) {
            struct queues_item item = items[from];

            memmove(&items[at + 1], &items[at], (from - at) * sizeof(item));
            items[at] = item;
            from++;
        }
}

/* Reserves memory for the items of one more shard. */
static bool queues_reserve_items(struct worker *worker, size_t more)
{
    struct queues_item *items =
        realloc(worker->items, (worker->item_count + more + 1) * sizeof(*items));

    if (items)
        worker->items = items;
    return items;
}

/* Copies what the answer shows, on a shard's thread, while the leases are valid. */
static void queues_lease_keep(struct node_queue_request *request)
{
    struct worker *worker = list_item(request, struct worker, node);
    const size_t from = worker->item_count;

    if (from == 0)
        worker->leased_until = request->queue.leased_until;
    size_t count = 0;
    LIST_FOR_EACH (request->queue.leases, link)
        count++;
    if (worker->is_short || !queues_reserve_items(worker, count)) {
        worker->is_short = true;
        return;
    }
    LIST_FOR_EACH (request->queue.leases, link) {
        const struct queue_lease *lease = list_item(link, struct queue_lease, link);
        struct queues_item *item = &worker->items[worker->item_count];

        item->receipt = lease->receipt;
        item->attempt = lease->delivery->attempt;
        item->trace = lease->delivery->trace;
        item->timer = call_copy_timer(lease->delivery->timer);
        worker->is_short = worker->is_short || !item->timer;
        worker->item_count += item->timer != NULL;
    }
    queues_merge_items(worker->items, from, worker->item_count);
}

static void queues_lease_done(struct node_queue_request *request)
{
    struct worker *worker = list_item(request, struct worker, node);

    if (worker->item_count == 0)
        worker->leased_until = request->queue.leased_until;
    if (worker->is_short)
        request->queue.error = ERROR_NO_MEMORY;
    call_resume(worker->call, queues_lease_answer);
}

static void queues_report_answer(struct call *call)
{
    static const char *const words[] = {
        [QUEUE_OK] = "ok", [QUEUE_STALE] = "stale", [QUEUE_UNKNOWN] = "unknown"};
    const struct worker *worker = call->state;
    const size_t count = worker->node.queue.receipt_count;
    struct buffer body;

    buffer_init(&body);
    size_t counts[3] = {0};
    for (size_t i = 0; i < count; i++)
        counts[worker->verdicts[i]]++;
    json_open(&body, NULL, '{');
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        json_put_number(&body, words[i], counts[i]);
    json_open(&body, "results", '[');
    for (size_t i = 0; i < count; i++)
        json_put_text(&body, NULL, words[worker->verdicts[i]]);
    json_close(&body, ']');
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

static void queues_report_done(struct node_queue_request *request)
{
    call_resume(list_item(request, struct worker, node)->call, queues_report_answer);
}

/* ---- asking ---- */

/* Reads the body into a worker. NULL if answered. */
static struct worker *worker_create(struct call *call, enum queue_kind kind)
{
    const struct config *config = call->api->options.config;
    struct worker *worker = calloc(1, sizeof(*worker));

    if (!worker) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    call->state = worker;
    worker->call = call;
    struct problem problem;
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

/* False: answered. */
static bool queues_submit(struct worker *worker, void (*done)(struct node_queue_request *request))
{
    worker->node.done = done;
    enum error_code error = node_queue_submit(worker->call->api->options.node, &worker->node);
    if (error)
        call_answer_error(worker->call, error, "");
    return !error;
}

/* Ends the wait of a worker whose token was removed. */
static void queues_lease_recheck(struct call *call)
{
    struct worker *worker = call->state;
    struct caller caller = call->caller; /* call->caller belongs to the call's thread */

    if (access_recheck(call->api->access, &caller))
        node_queue_give_up(call->api->options.node, &worker->node);
}

/* Describes the worker: its address, and the program that it names, without control characters. */
static struct bytes worker_name(struct worker *worker)
{
    const struct bytes program = http_request_header(worker->call->http, "User-Agent");
    char peer[HTTP_PEER_SIZE];

    http_request_peer(worker->call->http, peer);
    size_t size = strlen(peer);
    memcpy(worker->name, peer, size);
    if (program.size > 0)
        worker->name[size++] = ' ';
    for (size_t i = 0; i < program.size && size < sizeof(worker->name); i++)
        worker->name[size++] =
            program.data[i] >= ' ' && program.data[i] <= '~' ? program.data[i] : '?';
    return (struct bytes){worker->name, size};
}

void queues_lease(struct call *call)
{
    struct worker *worker = worker_create(call, QUEUE_LEASE);

    if (!worker || call_refuses_large_answer(call))
        return;
    worker->node.queue.items_max = worker->ask.items_max;
    worker->node.queue.bytes_max = call->api->options.config->queue_bytes_max;
    worker->node.queue.worker = worker_name(worker);
    worker->node.leased = queues_lease_keep;
    worker->node.queue.wait_until = instant_add_ms(instant_now(), worker->ask.wait_ms);
    if (queues_submit(worker, queues_lease_done) && worker->ask.wait_ms > 0 &&
        call_hold(call, queues_lease_recheck))
        queues_lease_recheck(call);
}

/* Gives up the lease, because its worker would not get the items. */
void queues_left(struct call *call)
{
    struct worker *worker = call->state;

    node_queue_give_up(call->api->options.node, &worker->node);
}

static void queues_report(struct call *call, enum queue_kind kind)
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
    queues_submit(worker, queues_report_done);
}

void queues_ack(struct call *call)
{
    queues_report(call, QUEUE_ACK);
}

void queues_nack(struct call *call)
{
    queues_report(call, QUEUE_NACK);
}

void queues_extend(struct call *call)
{
    queues_report(call, QUEUE_EXTEND);
}
