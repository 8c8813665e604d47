/* spans.c - the thread that sends spans, and what is handed to it. */
#include "telemetry/spans.h"

#include "sys/clock.h"
#include "sys/entropy.h"
#include "sys/mailbox.h"
#include "sys/process.h"
#include "telemetry/collector.h"
#include "telemetry/sampler.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    SPANS_URGENT_BYTES = 256 << 10, /* bytes of a queue that are sent without a delay */
    SPANS_PAUSE_MS = 1000,          /* first pause between two tries */
};

/* Spans of a thread that wait to be sent. */
struct spans_feeder {
    _Alignas(64) pthread_mutex_t lock; /* held while bytes are copied or taken, never for I/O */
    struct buffer filled;
    struct random high, low; /* the thread's */
};

struct spans {
    struct spans_feeder *feeders;
    unsigned feeder_count;
    struct metrics *metrics;
    struct sampler sampler;
    uint64_t timeout_ms;
    struct mailbox wake;
    atomic_bool has_spans; /* a span was added to an empty queue */
    atomic_bool is_urgent; /* a queue has more than SPANS_URGENT_BYTES */
    atomic_bool ends;
    _Atomic uint64_t stop_at_ns; /* with `ends`: instant at which nothing is sent any more */
    pthread_mutex_t lock;        /* guards `dropped` and `cause` */
    uint64_t dropped;
    struct error cause; /* why spans were dropped last */
    pthread_t thread;
    /* The thread's. */
    struct collector collector;
    struct buffer taken;
    struct random random;
};

/* ---- drops ---- */

static void spans_drop(struct spans *spans, enum metric metric, uint64_t count,
                       const struct error *cause)
{
    if (count == 0)
        return;
    metrics_add(spans->metrics, metric, count);
    pthread_mutex_lock(&spans->lock);
    spans->dropped += count;
    spans->cause = *cause;
    pthread_mutex_unlock(&spans->lock);
}

uint64_t spans_dropped(struct spans *spans, struct error *ret_cause)
{
    pthread_mutex_lock(&spans->lock);
    const uint64_t dropped = spans->dropped;
    *ret_cause = spans->cause;
    pthread_mutex_unlock(&spans->lock);
    return dropped;
}

/* ---- the thread ---- */

/* Returns the time until `at`, in milliseconds; 0 if it has passed. */
static uint64_t spans_left_ms(uint64_t at_ns)
{
    const uint64_t now_ns = instant_now().ns;

    return at_ns > now_ns ? (at_ns - now_ns) / 1000000 : 0;
}

/* True if the time of a stop is over. libcurl asks it while it waits. */
static bool spans_is_over(void *context)
{
    struct spans *spans = context;

    return atomic_load(&spans->ends) && spans_left_ms(atomic_load(&spans->stop_at_ns)) == 0;
}

static void spans_forget_news(struct spans *spans)
{
    struct list none;

    list_init(&none);
    mailbox_take(&spans->wake, &none);
}

/* Waits, but no longer than until a stop begins. */
static void spans_pause(struct spans *spans, uint64_t ms)
{
    const struct instant until = instant_add_ms(instant_now(), ms);

    while (!atomic_load(&spans->ends)) {
        const uint64_t now_ns = instant_now().ns;
        if (now_ns >= until.ns)
            return;
        mailbox_wait(&spans->wake, until.ns - now_ns);
        spans_forget_news(spans);
    }
}

/* Returns the pause before the next try: half of it is random, so that many daemons do not come
 * back together. A pause that the collector asked for is the least. */
static uint64_t spans_pause_ms(struct spans *spans, unsigned tries, uint64_t asked_ms)
{
    uint64_t ms = tries < 6 ? (uint64_t)SPANS_PAUSE_MS << (tries - 1) : SPANS_PAUSE_MS_MAX;

    if (ms > SPANS_PAUSE_MS_MAX)
        ms = SPANS_PAUSE_MS_MAX;
    ms = ms / 2 + random_below(&spans->random, ms / 2 + 1);
    return ms > asked_ms ? ms : asked_ms;
}

/* Sends the request of the collector until it is taken, refused, or too old. A request that fails
 * during a stop is not repeated. */
static void spans_send(struct spans *spans)
{
    const uint64_t count = collector_count(&spans->collector);
    const struct instant give_up = instant_add_ms(instant_now(), SPANS_RETRY_MS);
    struct collector_reply reply;

    for (unsigned tries = 1;; tries++) {
        uint64_t timeout_ms = spans->timeout_ms;

        if (atomic_load(&spans->ends)) {
            const uint64_t left_ms = spans_left_ms(atomic_load(&spans->stop_at_ns));

            if (left_ms == 0)
                error_set(&reply.cause, ERROR_STOPPING, "the daemon stopped before they were sent");
            if (left_ms == 0)
                break;
            timeout_ms = timeout_ms < left_ms ? timeout_ms : left_ms;
        }
        const enum collector_verdict verdict =
            collector_send(&spans->collector, timeout_ms, spans_is_over, spans, &reply);
        if (verdict == COLLECTOR_TAKEN) {
            metrics_add(spans->metrics, METRIC_SPANS_EXPORTED, count - reply.rejected);
            spans_drop(spans, METRIC_SPANS_REFUSED, reply.rejected, &reply.cause);
            return;
        }
        if (verdict == COLLECTOR_REFUSED) {
            spans_drop(spans, METRIC_SPANS_REFUSED, count, &reply.cause);
            return;
        }
        const uint64_t pause_ms = spans_pause_ms(spans, tries, reply.retry_after_ms);
        if (atomic_load(&spans->ends) || spans_left_ms(give_up.ns) < pause_ms)
            break;
        spans_pause(spans, pause_ms);
    }
    spans_drop(spans, METRIC_SPANS_UNREACHABLE, count, &reply.cause);
}

/* Sends the spans of a queue, in requests of COLLECTOR_SPANS_MAX. */
static void spans_send_all(struct spans *spans, struct bytes bytes)
{
    struct span span;

    collector_begin(&spans->collector);
    while (span_decode(&bytes, &span)) {
        collector_add(&spans->collector, &span);
        if (collector_count(&spans->collector) < COLLECTOR_SPANS_MAX)
            continue;
        spans_send(spans);
        collector_begin(&spans->collector);
    }
    if (collector_count(&spans->collector) > 0)
        spans_send(spans);
}

/* Takes what waits in each queue and sends it. Returns false if there was nothing. */
static bool spans_flush(struct spans *spans)
{
    bool has_sent = false;

    atomic_store(&spans->is_urgent, false);
    for (unsigned i = 0; i < spans->feeder_count; i++) {
        struct spans_feeder *feeder = &spans->feeders[i];

        pthread_mutex_lock(&feeder->lock);
        const struct buffer filled = feeder->filled;
        feeder->filled = spans->taken;
        pthread_mutex_unlock(&feeder->lock);
        spans->taken = filled;
        has_sent |= filled.size > 0;
        spans_send_all(spans, buffer_bytes(&spans->taken));
        buffer_clear(&spans->taken);
    }
    return has_sent;
}

/* Flags are set before the mailbox is woken, and read after it was emptied, so that none is
 * missed. */
static void *spans_run(void *argument)
{
    struct spans *spans = argument;
    uint64_t send_at_ns = UINT64_MAX;

    for (;;) {
        spans_forget_news(spans);
        if (atomic_load(&spans->ends))
            break;
        const struct instant now = instant_now();
        if (atomic_exchange(&spans->has_spans, false) && send_at_ns == UINT64_MAX)
            send_at_ns = instant_add_ms(now, SPANS_DELAY_MS).ns;
        if (now.ns >= send_at_ns || atomic_load(&spans->is_urgent)) {
            send_at_ns = UINT64_MAX;
            spans_flush(spans);
            continue;
        }
        mailbox_wait(&spans->wake, send_at_ns == UINT64_MAX ? UINT64_MAX : send_at_ns - now.ns);
    }
    while (spans_flush(spans)) {
    }
    return NULL;
}

/* ---- its face ---- */

static void spans_destroy(struct spans *spans)
{
    for (unsigned i = 0; i < spans->feeder_count; i++) {
        pthread_mutex_destroy(&spans->feeders[i].lock);
        buffer_deinit(&spans->feeders[i].filled);
    }
    free(spans->feeders);
    buffer_deinit(&spans->taken);
    collector_deinit(&spans->collector);
    pthread_mutex_destroy(&spans->lock);
    free(spans);
}

static enum error_code spans_make_feeders(struct spans *spans, unsigned count,
                                          struct error *ret_error)
{
    spans->feeders = aligned_alloc(64, count * sizeof(*spans->feeders));
    for (unsigned i = 0; spans->feeders && i < count; i++) {
        struct spans_feeder *feeder = &spans->feeders[i];

        *feeder = (struct spans_feeder){.filled = {0}};
        pthread_mutex_init(&feeder->lock, NULL);
        spans->feeder_count++;
        if (entropy_u64(&feeder->high.state_) || entropy_u64(&feeder->low.state_))
            return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    }
    return spans->feeders && !entropy_u64(&spans->random.state_)
               ? ERROR_NONE
               : error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
}

enum error_code spans_start(const struct spans_options *options, struct spans **ret_spans,
                            struct error *ret_error)
{
    const struct config *config = options->config;

    *ret_spans = NULL;
    if (!*config->otlp_endpoint)
        return ERROR_NONE;
    struct spans *spans = calloc(1, sizeof(*spans));
    if (!spans)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    enum error_code code = collector_init(&spans->collector, config, ret_error);
    if (code) {
        free(spans);
        return code;
    }
    pthread_mutex_init(&spans->lock, NULL);
    spans->metrics = options->metrics;
    spans->timeout_ms = config->otlp_timeout_ms;
    code = sampler_init(config, &spans->sampler, ret_error);
    if (!code)
        code = spans_make_feeders(spans, options->feeders, ret_error);
    if (!code && mailbox_init(&spans->wake))
        code = error_set(ret_error, ERROR_IO, "no file descriptor for the thread of spans");
    if (code) {
        spans_destroy(spans);
        return code;
    }
    if (thread_start(&spans->thread, spans_run, spans, "tw-spans") != 0) {
        mailbox_deinit(&spans->wake);
        spans_destroy(spans);
        return error_set(ret_error, ERROR_IO, "no thread for spans");
    }
    *ret_spans = spans;
    return ERROR_NONE;
}

void spans_stop(struct spans *spans)
{
    if (!spans)
        return;
    atomic_store(&spans->stop_at_ns, instant_add_ms(instant_now(), SPANS_STOP_MS).ns);
    atomic_store(&spans->ends, true);
    mailbox_wake(&spans->wake);
    pthread_join(spans->thread, NULL);
    mailbox_deinit(&spans->wake);
    spans_destroy(spans);
}

struct trace_parent spans_child(struct spans *spans, unsigned number,
                                const struct trace_parent *parent)
{
    struct spans_feeder *feeder = &spans->feeders[number];

    assert(number < spans->feeder_count);
    struct trace_parent context = trace_parent_new(&feeder->high, &feeder->low, false);
    if (parent) {
        context.trace_high = parent->trace_high;
        context.trace_low = parent->trace_low;
    }
    context.is_sampled = sampler_decide(&spans->sampler, &context, parent);
    return context;
}

struct trace_parent spans_follow(struct spans *spans, unsigned number,
                                 const struct trace_parent *link)
{
    struct trace_parent context = spans_child(spans, number, NULL);

    if (link)
        context.is_sampled = link->is_sampled;
    return context;
}

void spans_add(struct spans *spans, unsigned number, const struct span *span)
{
    static const struct error full = {ERROR_OVERLOADED,
                                      "the collector is too slow, the queue is full"};
    struct spans_feeder *feeder = &spans->feeders[number];
    struct buffer *filled = &feeder->filled;

    assert(number < spans->feeder_count);
    pthread_mutex_lock(&feeder->lock);
    const size_t before = filled->size;
    if (before + SPAN_SIZE_MAX <= SPANS_FEEDER_BYTES)
        span_encode(span, filled);
    const bool is_added = before < filled->size && !buffer_failed(filled);
    if (!is_added) {
        filled->size = before;
        filled->failed = false;
    }
    const size_t size = filled->size;
    pthread_mutex_unlock(&feeder->lock);
    if (!is_added)
        spans_drop(spans, METRIC_SPANS_QUEUE_FULL, 1, &full);
    else if ((size > SPANS_URGENT_BYTES && !atomic_exchange(&spans->is_urgent, true)) ||
             (before == 0 && !atomic_exchange(&spans->has_spans, true)))
        mailbox_wake(&spans->wake);
}
