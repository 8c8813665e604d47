/*
 * The engine thread: takes messages in, hands them to the engine of their partition, and sends off
 * what the engines want done. It never waits for anything but messages and time.
 */
#include "shard/node_private.h"

#include "sys/clock.h"

#include <assert.h>

/* How old the statistics may be that the other threads see, and how long a step of the wall clock
 * may go unnoticed while nothing else happens. */
#define REPORT_NS UINT64_C(100000000)

void engine_loop_answer(struct node *node, struct engine *engine)
{
    struct command *command;

    while ((command = engine_take_reply(engine))) {
        struct node_request *request = list_item(command, struct node_request, command);
        size_t count = command_weight(command);
        uint64_t ns = instant_since_ns(request->submitted_, instant_now());

        atomic_fetch_sub(&node->inflight, count);
        if (command->kind != COMMAND_GET && command->kind != COMMAND_LIST &&
            command->kind != COMMAND_EXPLAIN && command->kind != COMMAND_FORECAST)
            metrics_observe_us(node->metrics, HISTOGRAM_ACKNOWLEDGE, ns / 1000);
        request->done(request);
    }
}

void engine_loop_measure(struct node *node, const struct delivery *delivery)
{
    const struct timer *timer = delivery->timer;
    uint64_t due_us = wall_max(timer->due, timer->created).ms * 1000;
    uint64_t found_due_us = delivery->found_due.ms * 1000;
    struct metrics *metrics = node->metrics;

    if (delivery->started_us == 0 || delivery->attempt > 1)
        return; /* a retry is late by intention, and what never began has no start */
#define SPAN(from, to) ((to) > (from) ? (to) - (from) : 0)
    metrics_observe_us(metrics, HISTOGRAM_LATENESS_SCHEDULE, SPAN(due_us, found_due_us));
    metrics_observe_us(metrics, HISTOGRAM_LATENESS_QUEUE, SPAN(found_due_us, delivery->handed_us));
    metrics_observe_us(metrics, HISTOGRAM_LATENESS_TRANSFER,
                       SPAN(delivery->handed_us, delivery->started_us));
    metrics_observe_us(metrics, HISTOGRAM_DELIVERY_LATENESS, SPAN(due_us, delivery->started_us));
#undef SPAN
}

struct engine *engine_loop_engine_of(struct node *node, uint16_t partition)
{
    assert(partition < node->partition_count);
    struct engine *engine = node->engines[partition];
    if (!engine_is_in_turn(engine))
        engine_begin(engine, node->now);
    return engine;
}

void engine_loop_end_turns(struct node *node)
{
    for (uint16_t i = 0; i < node->partition_count; i++)
        if (engine_is_in_turn(node->engines[i])) {
            engine_end(node->engines[i]);
            engine_loop_answer(node, node->engines[i]);
        }
}

static void take_in_commits(struct node *node)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&node->commits, &messages);
    LIST_FOR_EACH (&messages, link) {
        struct storage_batch *batch = list_item(link, struct storage_batch, link);
        struct engine *engine = engine_loop_engine_of(node, batch->partition);

        engine_committed(engine, batch);
        engine_loop_answer(node, engine);
    }
}

static void take_in_reads(struct node *node)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&node->reads, &messages);
    LIST_FOR_EACH (&messages, link) {
        struct engine_read *read = list_item(link, struct engine_read, link);
        struct engine *engine = engine_loop_engine_of(node, engine_read_partition(read));

        engine_read_done(engine, read);
        engine_loop_answer(node, engine);
    }
}

static void take_in_outcomes(struct node *node)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&node->outcomes, &messages);
    LIST_FOR_EACH (&messages, link) {
        struct delivery *delivery = list_item(link, struct delivery, link);
        struct engine *engine = engine_loop_engine_of(node, delivery->timer->id.partition);

        list_remove(link);
        engine_loop_measure(node, delivery);
        engine_delivered(engine, delivery);
        engine_loop_answer(node, engine);
    }
}

static void take_in_requests(struct node *node)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&node->requests, &messages);
    LIST_FOR_EACH (&messages, link) {
        struct node_request *request = list_item(link, struct node_request, link_);
        struct engine *engine = engine_loop_engine_of(node, request->command.partition);

        list_remove(link);
        engine_submit(engine, &request->command);
        engine_loop_answer(node, engine);
    }
}

static void take_in(struct node *node)
{
    node->now = wall_now();
    take_in_commits(node);
    take_in_outcomes(node);
    take_in_reads(node);
    take_in_requests(node);
    queue_loop_take_in(node);
}

/* Ends the turn of every engine that got something, and lets time pass for those that wait for it;
 * for all of them when the clock went back: their pauses end by a time that is far off now. */
static void advance(struct node *node)
{
    bool went_back = node->now.ms < node->advanced_at.ms;

    node->advanced_at = node->now;
    for (uint16_t i = 0; i < node->partition_count; i++)
        if (went_back || engine_wake_at(node->engines[i]).ms <= node->now.ms)
            engine_loop_engine_of(node, i);
    engine_loop_end_turns(node);
}

static void send_off(struct node *node)
{
    struct list batches, reads, deliveries;
    uint64_t now_us = wall_now_us();

    list_init(&batches);
    list_init(&reads);
    list_init(&deliveries);
    for (uint16_t i = 0; i < node->partition_count; i++) {
        struct engine *engine = node->engines[i];
        struct storage_batch *batch;
        struct engine_read *read;
        struct delivery *delivery;

        while ((batch = engine_take_batch(engine))) {
            list_init(&batch->link);
            list_push(&batches, &batch->link);
        }
        while ((read = engine_take_read(engine)))
            list_push(&reads, &read->link);
        while ((delivery = engine_take_delivery(engine))) {
            delivery->handed_us = now_us;
            list_push(&deliveries, &delivery->link);
        }
    }
    mailbox_post_all(&node->to_commit, &batches);
    mailbox_post_all(&node->to_read, &reads);
    if (!list_is_empty(&deliveries)) /* while stopping there are no senders, and no deliveries */
        senders_post(node->senders, &deliveries);
}

static void report(struct node *node, bool is_draining)
{
    struct engine_stats sum = {0};
    bool is_ready = true;

    for (uint16_t i = 0; i < node->partition_count; i++) {
        struct engine_stats stats;

        engine_stats(node->engines[i], &stats);
        engine_stats_add(&sum, &stats);
        is_ready = is_ready && engine_is_ready(node->engines[i]);
    }
    atomic_store(&node->is_ready, is_ready);
    atomic_store(&node->is_choked, sum.in_doubt_bytes > node->config->near_bytes_max / 16);
    pthread_mutex_lock(&node->report.lock);
    node->report.stats = sum;
    queue_stats(node->queue, &node->report.queue);
    node->report.is_drained = is_draining && sum.inflight == 0;
    pthread_cond_broadcast(&node->report.changed);
    pthread_mutex_unlock(&node->report.lock);
}

static bool all_idle(const struct node *node)
{
    for (uint16_t i = 0; i < node->partition_count; i++)
        if (!engine_is_idle(node->engines[i]))
            return false;
    return true;
}

static bool drain(struct node *node)
{
    bool is_stopping = atomic_load(&node->is_stopping);

    for (uint16_t i = 0; is_stopping && i < node->partition_count; i++)
        engine_drain(node->engines[i]);
    if (is_stopping)
        queue_loop_drain(node);
    return is_stopping;
}

static uint64_t wait_ns(struct node *node)
{
    uint64_t now_us = wall_now_us(), wait_us = REPORT_NS / 1000, queue_ns;

    for (uint16_t i = 0; i < node->partition_count; i++) {
        uint64_t wake_ms = engine_wake_at(node->engines[i]).ms;

        if (wake_ms <= now_us / 1000)
            return 0;
        if (wake_ms < UINT64_MAX / 1000 && wake_ms * 1000 - now_us < wait_us)
            wait_us = wake_ms * 1000 - now_us;
    }
    queue_ns = queue_loop_wait_ns(node, instant_now());
    return wait_us * 1000 < queue_ns ? wait_us * 1000 : queue_ns;
}

static void finish(struct node *node)
{
    pthread_mutex_lock(&node->report.lock);
    node->report.is_finished = true;
    pthread_cond_broadcast(&node->report.changed);
    pthread_mutex_unlock(&node->report.lock);
}

void *engine_loop(void *argument)
{
    struct node *node = argument;
    struct mailbox *const mailboxes[] = {&node->requests, &node->commits, &node->reads,
                                         &node->outcomes, &node->workers};
    struct instant reported = {0};

    while (!atomic_load(&node->engine_gives_up)) {
        bool is_draining = drain(node);
        struct instant now;

        take_in(node);
        advance(node);
        queue_loop_turn(node);
        send_off(node);
        now = instant_now();
        if (instant_since_ns(reported, now) >= REPORT_NS || is_draining ||
            !atomic_load(&node->is_ready)) {
            report(node, is_draining);
            reported = now;
        }
        if (atomic_load(&node->engine_ends) && all_idle(node))
            break;
        mailbox_wait_any(mailboxes, sizeof(mailboxes) / sizeof(*mailboxes), wait_ns(node));
    }
    finish(node);
    return NULL;
}

/* Fails whatever the engines still wait for, so that every request is answered. */
void engine_loop_fail_rest(struct node *node)
{
    take_in(node);
    for (uint16_t i = 0; i < node->partition_count; i++) {
        struct engine *engine = engine_loop_engine_of(node, i);
        struct storage_batch *batch;
        struct engine_read *read;

        while ((read = engine_take_read(engine))) {
            read->result = ERROR_STOPPING;
            engine_read_done(engine, read);
            engine_loop_answer(node, engine);
        }
        /* Once only: the engine's own writes would come back for ever. */
        batch = engine_take_batch(engine);
        if (batch) {
            batch->result = ERROR_STOPPING;
            engine_committed(engine, batch);
            engine_loop_answer(node, engine);
        }
    }
    engine_loop_end_turns(node);
    queue_loop_turn(node);
}
