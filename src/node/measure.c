/* measure.c - how late deliveries were, and how their targets answered; see measure.h. */
#include "node/measure.h"

static uint64_t measure_span_us(uint64_t from_us, uint64_t to_us)
{
    return to_us > from_us ? to_us - from_us : 0;
}

/* Stages in which something else held the delivery back. The rest of the lateness is the
 * daemon's. */
static const struct {
    enum lateness_stage stage;
    enum histogram histogram;
} measure_held_stages[] = {
    {LATENESS_RETRIES, HISTOGRAM_LATENESS_RETRIES},
    {LATENESS_SET_LATE, HISTOGRAM_LATENESS_SET_LATE},
    {LATENESS_DOWN, HISTOGRAM_LATENESS_DOWN},
    {LATENESS_PUT_BACK, HISTOGRAM_LATENESS_PUT_BACK},
    {LATENESS_CATCH_UP, HISTOGRAM_LATENESS_CATCH_UP},
    {LATENESS_ROOM, HISTOGRAM_LATENESS_ROOM},
    {LATENESS_TARGET_LIMIT, HISTOGRAM_LATENESS_TARGET_LIMIT},
    {LATENESS_BREAKER, HISTOGRAM_LATENESS_BREAKER},
    {LATENESS_RATE, HISTOGRAM_LATENESS_RATE},
    {LATENESS_WORKER, HISTOGRAM_LATENESS_WORKER},
    {LATENESS_PAUSED, HISTOGRAM_LATENESS_PAUSED},
    {LATENESS_MAINTENANCE, HISTOGRAM_LATENESS_MAINTENANCE},
    {LATENESS_FLOW, HISTOGRAM_LATENESS_FLOW},
};

/* Measures first attempts only. A retry is late by intention, and a delivery that never began
 * has no start. */
static void measure_lateness(struct metrics *metrics, const struct delivery *delivery,
                             const struct trace_parent *trace)
{
    const uint64_t due_us = wall_max(delivery->timer->due, delivery->timer->created).ms * 1000;
    const uint64_t handed_us = delivery->handed_us, started_us = delivery->started_us;
    const uint32_t *ms = delivery->lateness.ms;
    const uint64_t schedule_us =
        1000 * ((uint64_t)ms[LATENESS_WHEEL] + (uint64_t)ms[LATENESS_DISK]);
    uint64_t known_us = schedule_us;

    for (size_t i = 0; i < sizeof(measure_held_stages) / sizeof(*measure_held_stages); i++) {
        const uint64_t us = 1000 * (uint64_t)ms[measure_held_stages[i].stage];

        metrics_observe_traced_us(metrics, measure_held_stages[i].histogram, us, trace);
        known_us += us;
    }
    metrics_observe_traced_us(metrics, HISTOGRAM_LATENESS_SCHEDULE, schedule_us, trace);
    metrics_observe_traced_us(metrics, HISTOGRAM_LATENESS_QUEUE,
                              measure_span_us(due_us + known_us, handed_us), trace);
    metrics_observe_traced_us(metrics, HISTOGRAM_LATENESS_TRANSFER,
                              measure_span_us(handed_us, started_us), trace);
    metrics_observe_traced_us(metrics, HISTOGRAM_DELIVERY_LATENESS,
                              measure_span_us(due_us, started_us), trace);
}

static enum metric measure_metric_of_status(unsigned status)
{
    static const enum metric metrics[] = {METRIC_WEBHOOKS_2XX, METRIC_WEBHOOKS_3XX,
                                          METRIC_WEBHOOKS_4XX, METRIC_WEBHOOKS_5XX};

    return status == 0                    ? METRIC_WEBHOOKS_NONE
           : status < 200 || status > 599 ? METRIC_WEBHOOKS_OTHER
                                          : metrics[status / 100 - 2];
}

/* Counts how the target answered, and measures how long it took. */
static void measure_answer(struct metrics *metrics, const struct delivery *delivery,
                           const struct trace_parent *trace)
{
    const struct delivery_outcome *outcome = &delivery->outcome;
    const struct target *target = &delivery->timer->target;
    const bool is_webhook = target_is_webhook(target) || target->kind == TARGET_NAMED;
    const bool is_broker = target_sharing(target) == TARGET_SHARES_CONNECTION;

    if (outcome->result == DELIVERY_POSTPONED || outcome->result == DELIVERY_RETURNED)
        return;
    if (is_webhook)
        metrics_add(metrics, measure_metric_of_status(outcome->status), 1);
    if ((is_webhook || is_broker) && delivery->started_us > 0 &&
        (outcome->result == DELIVERY_DONE || outcome->is_answer))
        metrics_observe_traced_us(metrics,
                                  is_webhook ? HISTOGRAM_ANSWER_WEBHOOK : HISTOGRAM_ANSWER_BROKER,
                                  measure_span_us(delivery->started_us, delivery->ended_us), trace);
}

void measure_delivery(struct metrics *metrics, const struct delivery *delivery)
{
    const struct timer *timer = delivery->timer;
    struct trace_parent trace = {0};

    if (timer->texts.trace.size)
        trace_parent_parse(timer->texts.trace, &trace);
    measure_answer(metrics, delivery, &trace);
    if (delivery->started_us > 0 && delivery->attempt == 1)
        measure_lateness(metrics, delivery, &trace);
}
