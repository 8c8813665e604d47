/*
 * log_kafka_once.c - transactions by librdkafka; see log_kafka_once.h.
 *
 * librdkafka waits in the calls that begin, commit and initialise; so does this file. Messages are
 * sent as they are put, and their reports are taken in settle. The frames are sent when the brokers
 * have all messages, and committed when no other record lies before the frames.
 */
#include "log/kafka/log_kafka_once.h"

#include "log/kafka/kafka_handle.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    ONCE_POLL_MS = 100,
    /* Time after which brokers abort a transaction. If a node stops in one, readers wait until
     * then, unless another node fences it. */
    ONCE_TRANSACTION_MS = 30000,
};

struct log_kafka_once {
    struct log_once once;
    struct log_kafka_options log;
    uint64_t settle_timeout_ms;
    struct kafka_handle producer;
    struct log_once_report *reports; /* of the messages */
    size_t capacity, sent, answered;
    bool has_failed;
    /* Fields of the frames: */
    size_t frames_answered;
    uint64_t from, next; /* offset of the first frame; offset after the last one reported */
    bool is_torn;        /* they are not contiguous, or one was refused */
    const char *reason;
};

static struct log_kafka_once *log_kafka_once_of(struct log_once *once)
{
    return (struct log_kafka_once *)(void *)once;
}

/* ---- reports ---- */

static struct log_once_report once_report_of(rd_kafka_resp_err_t error)
{
    struct log_once_report report = {LOG_ONCE_REFUSED, rd_kafka_err2str(error)};

    switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        return (struct log_once_report){LOG_ONCE_TAKEN, ""};
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
    case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__FENCED:
    case RD_KAFKA_RESP_ERR__STATE:
    case RD_KAFKA_RESP_ERR__QUEUE_FULL:
    case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
        report.fate = LOG_ONCE_UNKNOWN;
        break;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
        report.fate = LOG_ONCE_CROWDED;
        break;
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION: /* not a valid topic name */
        report.fate = LOG_ONCE_NEVER;
        break;
    default:
        break;
    }
    return report;
}

static void once_hear_frame(struct log_kafka_once *once, const rd_kafka_message_t *message)
{
    const uint64_t offset = (uint64_t)message->offset;

    if (message->err || message->offset < 0) {
        once->is_torn = true;
        once->reason = rd_kafka_err2str(message->err);
        return;
    }
    if (once->frames_answered++ == 0)
        once->from = once->next = offset;
    once->is_torn |= offset != once->next;
    once->next = offset + 1;
}

/* The opaque value of a message is 1 + its index, and that of a frame is 0. */
static void once_hear(void *context, const rd_kafka_message_t *message)
{
    struct log_kafka_once *once = context;
    const size_t number = (size_t)(uintptr_t)message->_private;

    if (number == 0) {
        once_hear_frame(once, message);
        return;
    }
    once->reports[number - 1] = once_report_of(message->err);
    once->has_failed |= message->err != RD_KAFKA_RESP_ERR_NO_ERROR;
    once->answered++;
}

static enum error_code once_fail(rd_kafka_error_t *error, const char *what, struct error *ret_error)
{
    error_set(ret_error, ERROR_IO, "%s: %.140s", what, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return ERROR_IO;
}

static int once_left_ms(struct instant until)
{
    return (int)(instant_since_ns(instant_now(), until) / 1000000) + 1;
}

/* ---- a transaction ---- */

static enum error_code log_kafka_once_begin(struct log_once *head, bool is_apart,
                                            struct error *ret_error)
{
    struct log_kafka_once *once = log_kafka_once_of(head);
    rd_kafka_error_t *error = rd_kafka_begin_transaction(once->producer.client);

    (void)is_apart; /* no message to a topic makes those to others wait */
    once->sent = once->answered = once->frames_answered = 0;
    once->has_failed = once->is_torn = false;
    once->reason = NULL;
    return error ? once_fail(error, "begin a transaction", ret_error) : ERROR_NONE;
}

static void once_refuse(struct log_kafka_once *once, size_t index, rd_kafka_resp_err_t error)
{
    once->reports[index] = once_report_of(error);
    once->has_failed = true;
}

static bool once_reserve(struct log_kafka_once *once, size_t index)
{
    const size_t capacity = once->capacity ? 2 * once->capacity : 64;

    if (index < once->capacity)
        return true;
    struct log_once_report *reports = realloc(once->reports, capacity * sizeof(*reports));
    if (!reports)
        return false;
    once->reports = reports;
    once->capacity = capacity;
    return true;
}

void log_kafka_once_put(struct log_once *head, size_t index,
                        const struct log_kafka_message *message)
{
    struct log_kafka_once *once = log_kafka_once_of(head);

    if (!once_reserve(once, index)) {
        once->has_failed = true;
        return;
    }
    once->reports[index] = (struct log_once_report){LOG_ONCE_UNKNOWN, "no broker has answered"};
    once->sent++;
    const struct kafka_message sent = {.topic = message->topic,
                                       .partition = RD_KAFKA_PARTITION_UA,
                                       .key = message->key,
                                       .value = message->value,
                                       .headers = message->headers,
                                       .header_count = message->header_count,
                                       .opaque = (void *)(uintptr_t)(index + 1)};
    const rd_kafka_resp_err_t error = kafka_handle_send(&once->producer, &sent);
    if (error)
        once_refuse(once, index, error);
}

/* Finds why a transaction failed. A topic that may not be written to is refused when it joins
 * the transaction, without a report of a message. Beginning another transaction fails too, with
 * the reason. */
static void once_look_for_refusal(struct log_kafka_once *once)
{
    rd_kafka_error_t *error = rd_kafka_begin_transaction(once->producer.client);
    const rd_kafka_resp_err_t code = rd_kafka_error_code(error);

    once->has_failed |= rd_kafka_error_is_fatal(error) || rd_kafka_error_txn_requires_abort(error);
    for (size_t i = 0; i < once->sent && once->has_failed; i++) {
        if (once->reports[i].fate != LOG_ONCE_UNKNOWN)
            continue;
        once->reports[i].reason = rd_kafka_err2str(code);
        if (code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
            code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
            once->reports[i].fate = LOG_ONCE_SUSPECT;
    }
    rd_kafka_error_destroy(error);
}

static bool log_kafka_once_settle(struct log_once *head, struct log_once_report *reports,
                                  size_t count)
{
    struct log_kafka_once *once = log_kafka_once_of(head);
    const struct instant until = instant_add_ms(instant_now(), once->settle_timeout_ms);

    while (!once->has_failed && once->answered < once->sent && instant_now().ns < until.ns)
        if (rd_kafka_poll(once->producer.client, ONCE_POLL_MS) == 0)
            once_look_for_refusal(once);
    rd_kafka_poll(once->producer.client, 0); /* others of the request that failed */
    if (once->has_failed)
        once_look_for_refusal(once);
    for (size_t i = 0; i < count; i++)
        reports[i] = i < once->sent ? once->reports[i]
                                    : (struct log_once_report){LOG_ONCE_UNKNOWN, "out of memory"};
    return !once->has_failed && once->answered == count;
}

static rd_kafka_resp_err_t once_send_frames(struct log_kafka_once *once,
                                            const struct log_once_commit *commit)
{
    const struct log_kafka_options *log = &once->log;
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;

    for (size_t i = 0; i < commit->frame_count && !error; i++) {
        const struct kafka_message frame = {
            .topic = log->topic, .partition = log->partition, .value = commit->frames[i]};

        error = kafka_handle_send(&once->producer, &frame);
    }
    return error;
}

static enum error_code log_kafka_once_commit(struct log_once *head,
                                             const struct log_once_commit *commit,
                                             uint64_t *ret_offset, struct error *ret_error)
{
    struct log_kafka_once *once = log_kafka_once_of(head);
    const struct instant until = instant_add_ms(instant_now(), commit->timeout_ms);
    const rd_kafka_resp_err_t code = once_send_frames(once, commit);

    if (code)
        return error_set(ret_error, ERROR_IO, "append: %.140s", rd_kafka_err2str(code));
    while (!once->is_torn && once->frames_answered < commit->frame_count)
        if (instant_now().ns < until.ns)
            rd_kafka_poll(once->producer.client, ONCE_POLL_MS);
        else
            return error_set(ret_error, ERROR_IO, "append: no broker has answered");
    if (once->is_torn || once->from < commit->from || once->from > commit->to)
        return error_set(ret_error, ERROR_IO, "append: %.140s",
                         once->reason ? once->reason : "another record lies before it");
    rd_kafka_error_t *error;
    while ((error = rd_kafka_commit_transaction(once->producer.client, once_left_ms(until)))) {
        if (!rd_kafka_error_is_retriable(error) || instant_now().ns >= until.ns)
            return once_fail(error, "commit", ret_error);
        rd_kafka_error_destroy(error);
    }
    *ret_offset = once->next - 1;
    return ERROR_NONE;
}

/* ---- open and close ---- */

static enum error_code log_kafka_once_start(struct log_kafka_once *once,
                                            const struct log_kafka_once_options *options,
                                            struct error *ret_error)
{
    const struct log_kafka_options *log = options->log;
    char timeout[24], whole[24];
    const struct log_kafka_property own[] = {
        {"transactional.id", options->id},
        {"transaction.timeout.ms", whole},
        {"message.timeout.ms", timeout},
        {"topic.metadata.refresh.interval.ms",
         "500"}, /* so that the client leaves a leader that was stopped */
        {"topic.metadata.propagation.max.ms", "1000"}, /* to report a missing topic soon */
        {"message.max.bytes", "100000000"},            /* the topic's own limit decides */
        {"linger.ms", "0"},
        {"retry.backoff.ms", "50"},
    };
    const struct kafka_setup setup = {
        .type = RD_KAFKA_PRODUCER,
        .brokers = log->brokers,
        .lists = {{log->properties, log->property_count},
                  kafka_quick(),
                  {own, sizeof(own) / sizeof(own[0])}},
        .context = once,
        .report = once_hear,
    };

    snprintf(timeout, sizeof(timeout), "%llu", (unsigned long long)options->settle_timeout_ms);
    snprintf(whole, sizeof(whole), "%d", ONCE_TRANSACTION_MS);
    return kafka_handle_open(&once->producer, &setup, ret_error);
}

static enum error_code once_init(struct log_kafka_once *once, uint64_t timeout_ms,
                                 struct error *ret_error)
{
    const struct instant until = instant_add_ms(instant_now(), timeout_ms);
    rd_kafka_error_t *error;

    while ((error = rd_kafka_init_transactions(once->producer.client, once_left_ms(until)))) {
        if (!rd_kafka_error_is_retriable(error) || instant_now().ns >= until.ns)
            return once_fail(error, "the brokers begin no transactions", ret_error);
        rd_kafka_error_destroy(error);
    }
    return ERROR_NONE;
}

static void log_kafka_once_close(struct log_once *head)
{
    struct log_kafka_once *once = log_kafka_once_of(head);

    kafka_handle_close(&once->producer);
    free(once->reports);
    free(once);
}

enum error_code log_kafka_once_open(const struct log_kafka_once_options *options,
                                    struct log_once **ret_once, struct error *ret_error)
{
    static const struct log_once_ops ops = {
        .begin = log_kafka_once_begin,
        .settle = log_kafka_once_settle,
        .commit = log_kafka_once_commit,
        .close = log_kafka_once_close,
    };
    struct log_kafka_once *once = calloc(1, sizeof(*once));

    if (!once)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    once->once.ops = &ops;
    once->log = *options->log;
    once->settle_timeout_ms = options->settle_timeout_ms;
    enum error_code code = log_kafka_once_start(once, options, ret_error);
    if (!code)
        code = once_init(once, options->open_timeout_ms, ret_error);
    if (code)
        log_kafka_once_close(&once->once);
    else
        *ret_once = &once->once;
    return code;
}
