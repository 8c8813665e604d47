/* node_spans.c - what the spans of timers and deliveries say; see node_spans.h. */
#include "node/node_spans.h"

#include "delivery/webhook.h"
#include "delivery/webhook_request.h"
#include "sys/clock.h"

#include <stdio.h>

enum error_code node_spans_start(struct node *node, struct error *ret_error)
{
    const struct spans_options options = {
        .config = node->config, .metrics = node->metrics, .feeders = node->shards.count};

    return spans_start(&options, &node->spans, ret_error);
}

struct spans *node_spans(const struct node *node)
{
    return node->spans;
}

uint64_t node_spans_dropped(struct node *node, struct error *ret_cause)
{
    *ret_cause = (struct error){.text = ""};
    return node->spans ? spans_dropped(node->spans, ret_cause) : 0;
}

/* Makes the context of a new trace for the timer. `ret_link` is the span that created it, or has 0
 * as its span if that is not known. */
static struct trace_parent node_spans_follow(struct node *node, unsigned shard,
                                             const struct timer *timer,
                                             struct trace_parent *ret_link)
{
    static const struct trace_parent unsampled = {0};
    const struct trace_parent *link = NULL;

    *ret_link = (struct trace_parent){0};
    if (trace_parent_parse(timer->texts.trace, ret_link))
        link = ret_link;
    else if (bytes_equal(timer->texts.trace, BYTES(TRACE_UNSAMPLED)))
        link = &unsampled;
    return spans_follow(node->spans, shard, link);
}

void node_spans_begin(struct node *node, unsigned shard, struct delivery *delivery)
{
    struct trace_parent link;

    delivery->trace = node_spans_follow(node, shard, delivery->timer, &link);
}

/* ---- what a span says ---- */

static const char *node_spans_outcome(enum delivery_result result)
{
    static const char *const outcomes[] = {
        [DELIVERY_DONE] = "done",
        [DELIVERY_FAILED] = "failed",
        [DELIVERY_ENDED] = "ended",
        [DELIVERY_AWAITED] = "awaited",
    };

    return outcomes[result];
}

/* Returns a class of failures, of which there are few. `room` is memory for a status. */
static struct bytes node_spans_error_type(const struct delivery_outcome *outcome, char room[8])
{
    static const struct {
        const char *part, *type;
    } types[] = {{"timed out", "timeout"},     {"host name", "name_resolution"},
                 {"certificate", "tls"},       {"TLS", "tls"},
                 {"connection", "connection"}, {"connect", "connection"},
                 {"lease", "lease_expired"}};

    if (outcome->status) {
        const int size = snprintf(room, 8, "%u", (unsigned)outcome->status);

        return (struct bytes){room, (size_t)size};
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strstr(outcome->error, types[i].part))
            return bytes_of(types[i].type);
    return BYTES("_OTHER");
}

/* Memory for the texts of a span. */
struct node_spans_room {
    char timer[TIMER_ID_TEXT_SIZE], message[WEBHOOK_ID_SIZE], error_type[8], name[300];
    struct buffer url;
};

/* Returns the destination by which a span is named: a host, queue, topic or name. */
static struct bytes node_spans_destination(const struct timer *timer)
{
    const struct target *target = &timer->target;
    const bool is_broker = target_sharing(target) == TARGET_SHARES_CONNECTION;

    if (is_broker && target->path_count > 0)
        return target_slice(timer->texts.target, target->paths[0]);
    return timer_target_name(timer);
}

static void node_spans_say_webhook(struct span *span, const struct delivery *delivery,
                                   struct node_spans_room *room)
{
    const struct timer *timer = delivery->timer;
    const struct bytes url = timer->texts.target;
    struct bytes host = timer_target_name(timer);

    span_set_text(span, SPAN_TEXT_method, bytes_of(webhook_request_method(timer)));
    if (delivery->outcome.status)
        span_set_number(span, SPAN_NUMBER_status, delivery->outcome.status);
    if (delivery->attempt > 1)
        span_set_number(span, SPAN_NUMBER_resends, delivery->attempt - 1);
    if (timer->target.kind == TARGET_NAMED)
        return;
    if (host.size > 2 && host.data[0] == '[')
        host = (struct bytes){host.data + 1, host.size - 2};
    span_set_text(span, SPAN_TEXT_address, host);
    span_set_number(span, SPAN_NUMBER_port, timer->target.port);
    span_append_url(&room->url, url);
    if (!buffer_failed(&room->url))
        span_set_text(span, SPAN_TEXT_url, buffer_bytes(&room->url));
}

/* Sets what the wait and the attempt have in common. */
static void node_spans_say_timer(struct span *span, const struct timer *timer,
                                 struct node_spans_room *room)
{
    timer_id_format(&timer->id, room->timer);
    span_set_text(span, SPAN_TEXT_timer, bytes_of(room->timer));
    span_set_text(span, SPAN_TEXT_key, timer->texts.key);
    span_set_text(span, SPAN_TEXT_tenant, timer->texts.tenant);
}

static struct bytes node_spans_system(const struct target *target)
{
    if (target->kind == TARGET_AMQP)
        return BYTES("rabbitmq");
    if (target_sharing(target) != TARGET_SHARES_CONNECTION)
        return BYTES("tickwheel");
    const struct bytes scheme = target_scheme(target->kind);
    return (struct bytes){scheme.data, scheme.size - strlen("://")};
}

static enum span_kind node_spans_kind(const struct target *target)
{
    if (target_is_webhook(target) || target->kind == TARGET_NAMED)
        return SPAN_CLIENT;
    return target->kind == TARGET_LOG ? SPAN_INTERNAL : SPAN_PRODUCER;
}

/* Exports the attempt. A later answer (timer/awaits.h), whose attempt has a span already, becomes a
 * span "settle". */
static void node_spans_export_attempt(struct node *node, unsigned shard,
                                      const struct delivery *delivery,
                                      const struct trace_parent *context,
                                      const struct trace_parent *link)
{
    const struct delivery_outcome *outcome = &delivery->outcome;
    const struct timer *timer = delivery->timer;
    const bool is_later = !delivery->trace.span;
    const struct bytes operation = is_later ? BYTES("settle") : BYTES("deliver");
    const struct bytes destination = node_spans_destination(timer);
    struct node_spans_room room = {.url = {0}};
    struct span span = {
        .context = *context,
        .link = *link,
        .start_us = delivery->started_us,
        .end_us = delivery->ended_us ? delivery->ended_us : wall_now_us(),
        .kind = node_spans_kind(&timer->target),
        .has_failed = outcome->result == DELIVERY_FAILED || outcome->result == DELIVERY_ENDED,
    };

    node_spans_say_timer(&span, timer, &room);
    webhook_id_format(timer, room.message);
    span_set_text(&span, SPAN_TEXT_message, bytes_of(room.message));
    span_set_text(&span, SPAN_TEXT_system, node_spans_system(&timer->target));
    span_set_text(&span, SPAN_TEXT_operation, operation);
    span_set_text(&span, SPAN_TEXT_operation_type, is_later ? BYTES("settle") : BYTES("send"));
    span_set_text(&span, SPAN_TEXT_outcome, bytes_of(node_spans_outcome(outcome->result)));
    span_set_number(&span, SPAN_NUMBER_attempt, delivery->attempt);
    if (span.kind == SPAN_CLIENT)
        node_spans_say_webhook(&span, delivery, &room);
    if (!target_is_webhook(&timer->target))
        span_set_text(&span, SPAN_TEXT_destination, destination);
    if (!is_later) {
        const uint64_t due_us = 1000 * wall_max(timer->due, timer->created).ms;

        span_set_number(&span, SPAN_NUMBER_lateness,
                        span.start_us > due_us ? (int64_t)((span.start_us - due_us) / 1000) : 0);
    }
    if (span.has_failed) {
        span_set_text(&span, SPAN_TEXT_error, bytes_of(outcome->error));
        span_set_text(&span, SPAN_TEXT_error_type, node_spans_error_type(outcome, room.error_type));
    }
    const int size = snprintf(room.name, sizeof(room.name), "%.*s %.*s", (int)operation.size,
                              operation.data, destination.size < 255 ? (int)destination.size : 255,
                              destination.data ? destination.data : "");
    span_set_text(&span, SPAN_TEXT_name, (struct bytes){room.name, (size_t)size});
    spans_add(node->spans, shard, &span);
    buffer_deinit(&room.url);
}

/* True if the time from the creation of the timer to its due time is one wait. Firings of a timer
 * that repeats would fill the trace of its creation for years, and a report or a part of a timer
 * with several targets did not wait. */
static bool node_spans_has_waited(const struct delivery *delivery)
{
    const struct timer_texts *texts = &delivery->timer->texts;

    return delivery->attempt == 1 && delivery->trace.span && !texts->schedule.size &&
           !texts->report_of.size && !texts->firing_of.size && !texts->parts.size;
}

/* Exports the wait, with a link to the first attempt: so a trace of the creation leads there. */
static void node_spans_export_wait(struct node *node, unsigned shard,
                                   const struct delivery *delivery,
                                   const struct trace_parent *created)
{
    const struct timer *timer = delivery->timer;
    struct node_spans_room room = {.url = {0}};
    struct trace_parent context = spans_follow(node->spans, shard, created);

    context.trace_high = created->trace_high;
    context.trace_low = created->trace_low;
    struct span span = {
        .context = context,
        .parent = created->span,
        .link = delivery->trace,
        .start_us = 1000 * timer->created.ms,
        .end_us = 1000 * timer->due.ms,
        .kind = SPAN_INTERNAL,
    };
    span_set_text(&span, SPAN_TEXT_name, BYTES("wait"));
    node_spans_say_timer(&span, timer, &room);
    spans_add(node->spans, shard, &span);
}

void node_spans_export(struct node *node, unsigned shard, const struct delivery *delivery)
{
    const struct delivery_outcome *outcome = &delivery->outcome;
    struct trace_parent link;

    if (outcome->result == DELIVERY_POSTPONED || outcome->result == DELIVERY_RETURNED ||
        !delivery->started_us)
        return;
    struct trace_parent context = node_spans_follow(node, shard, delivery->timer, &link);
    if (delivery->trace.span)
        context = delivery->trace;
    if (!context.is_sampled)
        return;
    if (link.span && node_spans_has_waited(delivery))
        node_spans_export_wait(node, shard, delivery, &link);
    node_spans_export_attempt(node, shard, delivery, &context, &link);
}
