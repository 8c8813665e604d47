/*
 * log_kafka.c - the log on Kafka by librdkafka; see log_kafka.h.
 *
 * Written for librdkafka 2.0.2 and later. That version can hang in a question for the end of a
 * partition, so the end is only learnt by reading up to it: where a broker has no more, or where
 * its last answer said that the end is. A log that has a record for each answer never shows the
 * former. An idempotent producer can end for good after a time-out, so each one whose append failed
 * is replaced: correctness does not rest on idempotence, for a frame names its epoch and seq. A
 * producer sends one partition in a request, and a broker serves a connection one request at a
 * time: so each log has handles of its own.
 */
#include "log/kafka/kafka_handle.h"
#include "sys/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    TRIM_REQUEST_MS = 10000,
    TRIM_OPERATION_MS = 30000,
    AGAIN_MS = 200, /* interval of requests for a record that a broker lacks */
    /* age of an append from which the leader is asked for, and the interval of that */
    LATE_MS = 500,
    /* the same limit without a new record, which mostly comes sooner because an owner appends */
    QUIET_MS = 1000,
    LEADER_MS = 200, /* time limit of the answer, for which the caller waits */
    LOOK_MS = 100,   /* longest wait for an event while an append is late */
    /* time without a confirmed append while no broker can be reached, for LOG_ALONE */
    ALONE_MS = 700,
    /* time without a confirmed append, for LOG_SLOW: a living broker answers sooner */
    SLOW_MS = 1400,
    DOWN_MS = 2000, /* time after which an append is in doubt while no broker can be reached */
    /* time without an answer of any broker to any log after which none answers, if ... */
    SILENT_MS = 1000,
    UNANSWERED = 2, /* ... this many consecutive requests for the leader were not answered */
};

/* Of 2001: the broker in memory of librdkafka says less, and means none. */
#define APPENDED_MS_MIN INT64_C(1000000000000)

struct log_kafka {
    struct log log;
    struct log_kafka_options options;
    int event_fd;                 /* readable when librdkafka has something */
    struct kafka_handle producer; /* closed: the next append opens it */
    bool is_spent;                /* an append failed: the producer is replaced */
    struct kafka_handle consumer;
    rd_kafka_topic_t *topic; /* the consumer's; NULL: it does not follow */
    rd_kafka_queue_t *records;
    rd_kafka_message_t *record; /* record whose bytes the last event has */
    bool has_ended;             /* whether the end was reported since the log is followed */
    uint64_t next;              /* offset after the last reported record */
    int64_t from;               /* offset of the last log_follow */
    /* Time since when no broker has the next record, and time of the next request for it; {0} if
     * it is there. */
    struct instant lost_since, again_at;
    bool is_sent;               /* an append has no report yet */
    uint64_t sent_ticket;       /* of that append */
    struct instant sent_at;     /* that append */
    struct instant heard_at;    /* the last record, or the begin of the reading */
    struct instant asked_at;    /* for the leader */
    struct instant unlanded_at; /* when the first append after the last landed one was sent */
    unsigned unanswered;        /* successive questions for the leader that no broker answered */
    struct log_event done;      /* LANDED or FAILED, not told yet; NOTHING: none */
    rd_kafka_queue_t *trims;
    bool is_trimming; /* whether a trim has no answer yet */
};

static struct log_kafka *log_kafka_of(struct log *log)
{
    return (struct log_kafka *)(void *)log;
}

static void log_kafka_note_answer(struct log_kafka *log)
{
    log->unanswered = 0;
    if (log->options.answered_ns)
        atomic_store_explicit(log->options.answered_ns, instant_now().ns, memory_order_relaxed);
}

static void log_kafka_report(void *context, const rd_kafka_message_t *message)
{
    struct log_kafka *log = context;
    struct log_event *event = &log->done;
    rd_kafka_timestamp_type_t type;
    const int64_t appended_ms = rd_kafka_message_timestamp(message, &type);

    log->is_sent = false;
    *event = (struct log_event){.kind = LOG_LANDED,
                                .ticket = (uint64_t)(uintptr_t)message->_private,
                                .offset = (uint64_t)message->offset};
    if (type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME && appended_ms > APPENDED_MS_MIN)
        event->appended.ms = (uint64_t)appended_ms;
    if (!message->err && message->offset >= 0) {
        log->unlanded_at = (struct instant){0};
        log->producer.is_down = false;
        log->producer.cause[0] = '\0';
        log_kafka_note_answer(log);
        return;
    }
    event->kind = LOG_FAILED;
    event->offset = 0;
    event->reason = rd_kafka_err2str(message->err);
    log->is_spent = true;
}

static enum error_code log_kafka_make(struct log_kafka *log, struct kafka_handle *handle,
                                      rd_kafka_type_t type, struct error *ret_error)
{
    const struct log_kafka_options *options = &log->options;
    char timeout[24];
    const struct log_kafka_property producer[] = {
        {"enable.idempotence", "true"},
        {"acks", "all"},
        {"compression.codec", "lz4"},
        {"linger.ms", "0"},
        {"max.in.flight.requests.per.connection", "1"},
        {"retry.backoff.ms", "50"},
        {"message.timeout.ms", timeout},
    };
    static const struct log_kafka_property consumer[] = {
        {"enable.partition.eof", "true"}, {"check.crcs", "true"},
        {"auto.offset.reset", "error"},   {"isolation.level", "read_committed"},
        {"fetch.error.backoff.ms", "50"},
    };
    const bool is_producer = type == RD_KAFKA_PRODUCER;
    const struct kafka_setup setup = {
        .type = type,
        .brokers = options->brokers,
        .lists = {{options->properties, options->property_count},
                  kafka_quick(),
                  {is_producer ? producer : consumer,
                   is_producer ? sizeof(producer) / sizeof(producer[0])
                               : sizeof(consumer) / sizeof(consumer[0])}},
        .context = log,
        .report = is_producer ? log_kafka_report : NULL,
        .event_fd = is_producer ? log->event_fd : 0,
    };

    snprintf(timeout, sizeof(timeout), "%llu", (unsigned long long)options->append_timeout_ms);
    return kafka_handle_open(handle, &setup, ret_error);
}

/* ---- the producer ---- */

static enum error_code log_kafka_begin_producer(struct log_kafka *log, struct error *ret_error)
{
    if (log->is_spent)
        kafka_handle_close(&log->producer);
    log->is_spent = false;
    return log->producer.client ? ERROR_NONE
                                : log_kafka_make(log, &log->producer, RD_KAFKA_PRODUCER, ret_error);
}

static enum error_code log_kafka_append(struct log *head, uint64_t ticket, struct bytes bytes,
                                        struct error *ret_error)
{
    struct log_kafka *log = log_kafka_of(head);

    if (log->is_sent || log->done.kind)
        return error_set(ret_error, ERROR_OVERLOADED, "another append is in flight");
    const enum error_code code = log_kafka_begin_producer(log, ret_error);
    if (code)
        return code;
    const struct kafka_message message = {.topic = log->options.topic,
                                          .partition = log->options.partition,
                                          .value = bytes,
                                          .opaque = (void *)(uintptr_t)ticket};
    const rd_kafka_resp_err_t error = kafka_handle_send(&log->producer, &message);
    if (error) {
        log->is_spent = true;
        return error_set(ret_error, ERROR_IO, "append: %.140s", rd_kafka_err2str(error));
    }
    log->is_sent = true;
    log->sent_ticket = ticket;
    log->sent_at = instant_now();
    if (!log->unlanded_at.ns)
        log->unlanded_at = log->sent_at;
    return ERROR_NONE;
}

/* ---- the consumer ---- */

static void log_kafka_stop(struct log_kafka *log)
{
    if (log->record)
        rd_kafka_message_destroy(log->record);
    log->record = NULL;
    if (!log->topic)
        return;
    rd_kafka_consume_stop(log->topic, (int32_t)log->options.partition);
    rd_kafka_topic_destroy(log->topic);
    log->topic = NULL;
    kafka_queue_close(log->records);
}

/* Begins to read at an offset, or at one of librdkafka's logical offsets. */
static enum error_code log_kafka_begin(struct log_kafka *log, int64_t offset,
                                       struct error *ret_error)
{
    log_kafka_stop(log);
    log->from = offset;
    log->again_at = (struct instant){0};
    log->topic = rd_kafka_topic_new(log->consumer.client, log->options.topic, NULL);
    if (!log->topic)
        return error_set(ret_error, ERROR_IO, "follow: %.140s",
                         rd_kafka_err2str(rd_kafka_last_error()));
    log->records = rd_kafka_queue_new(log->consumer.client);
    kafka_queue_watch(log->records, log->event_fd);
    if (!rd_kafka_consume_start_queue(log->topic, (int32_t)log->options.partition, offset,
                                      log->records))
        return ERROR_NONE;
    return error_set(ret_error, ERROR_IO, "follow: %.140s",
                     rd_kafka_err2str(rd_kafka_last_error()));
}

static enum error_code log_kafka_follow(struct log *head, enum log_from from, uint64_t number,
                                        struct error *ret_error)
{
    struct log_kafka *log = log_kafka_of(head);
    const int64_t offset = from == LOG_FROM_BEGIN ? RD_KAFKA_OFFSET_BEGINNING
                           : from == LOG_FROM_END ? RD_KAFKA_OFFSET_TAIL((int64_t)number)
                                                  : (int64_t)number;

    log->has_ended = false;
    log->next = 0;
    log->lost_since = (struct instant){0};
    log->heard_at = instant_now();
    return log_kafka_begin(log, offset, ret_error);
}

/* Returns NOTHING for temporary errors: a broker is away, the leader changes. */
static enum log_kind log_kafka_kind_of(const rd_kafka_message_t *record)
{
    switch (record->err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        return LOG_RECORD;
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
        return LOG_END;
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR__BAD_MSG:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        return LOG_LOST;
    default:
        return LOG_NOTHING;
    }
}

/* True if everything in a broker's last answer was read, and the end was not reported. False if
 * the marker of a transaction is last, because librdkafka does not report markers. */
static bool log_kafka_is_at_end(const struct log_kafka *log)
{
    int64_t low, high;

    return !log->has_ended && log->next > 0 &&
           !rd_kafka_get_watermark_offsets(log->consumer.client, log->options.topic,
                                           (int32_t)log->options.partition, &low, &high) &&
           high > 0 && log->next >= (uint64_t)high;
}

/* Asks for the record again, because another broker may have it. Returns false if it is too
 * late. */
static bool log_kafka_asks_again(struct log_kafka *log)
{
    const struct instant now = instant_now();

    if (log->lost_since.ns == 0)
        log->lost_since = now;
    if (now.ns >= instant_add_ms(log->lost_since, log->options.lost_ms).ns)
        return false;
    log->again_at = instant_add_ms(now, AGAIN_MS);
    return true;
}

static enum log_kind log_kafka_lose(struct log_kafka *log, struct log_event *event)
{
    const rd_kafka_resp_err_t error = log->record->err;

    event->reason = rd_kafka_err2str(error);
    log_kafka_stop(log);
    if ((error == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE ||
         error == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET) &&
        log_kafka_asks_again(log))
        event->kind = LOG_NOTHING;
    return event->kind;
}

static enum log_kind log_kafka_take_record(struct log_kafka *log, struct log_event *ret_event)
{
    if (log->again_at.ns && instant_now().ns >= log->again_at.ns)
        log_kafka_begin(log, log->next ? (int64_t)log->next : log->from, NULL);
    if (log->record)
        rd_kafka_message_destroy(log->record);
    log->record = NULL;
    if (log->topic && log_kafka_is_at_end(log)) {
        log->has_ended = true;
        *ret_event = (struct log_event){.kind = LOG_END, .offset = log->next};
        return LOG_END;
    }
    log->record = log->topic ? rd_kafka_consume_queue(log->records, 0) : NULL;
    if (!log->record)
        return LOG_NOTHING;
    *ret_event = (struct log_event){.kind = log_kafka_kind_of(log->record),
                                    .offset = (uint64_t)log->record->offset};
    log->has_ended |= ret_event->kind == LOG_END;
    if (ret_event->kind == LOG_RECORD) {
        log->heard_at = instant_now();
        log->next = ret_event->offset + 1;
        ret_event->bytes = (struct bytes){log->record->payload, log->record->len};
    }
    if (ret_event->kind == LOG_RECORD || ret_event->kind == LOG_END) {
        log->lost_since = (struct instant){0};
        log_kafka_note_answer(log);
    }
    return ret_event->kind == LOG_LOST ? log_kafka_lose(log, ret_event) : ret_event->kind;
}

/* ---- the leader ---- */

static void log_kafka_ask(struct log_kafka *log, struct kafka_handle *handle)
{
    log->unanswered++;
    if (kafka_handle_ask(handle, log->options.topic, LEADER_MS) >= RD_KAFKA_RESP_ERR_NO_ERROR)
        log_kafka_note_answer(log);
}

static bool log_kafka_is_late(const struct log_kafka *log, struct instant now)
{
    return log->is_sent && now.ns >= instant_add_ms(log->sent_at, LATE_MS).ns;
}

/* Asks for the leader. librdkafka does so itself if the leader refuses or hangs up, but not if
 * it was stopped. */
static void log_kafka_seek_leader(struct log_kafka *log)
{
    const struct instant now = instant_now();
    const bool is_late = log_kafka_is_late(log, now);
    const bool is_quiet =
        (log->topic || log->again_at.ns) && now.ns >= instant_add_ms(log->heard_at, QUIET_MS).ns;

    if ((!is_late && !is_quiet) || now.ns < instant_add_ms(log->asked_at, LATE_MS).ns)
        return;
    log->asked_at = now;
    if (is_late)
        log_kafka_ask(log, &log->producer);
    if (is_quiet)
        log_kafka_ask(log, &log->consumer);
}

/* ---- trims ---- */

static enum error_code log_kafka_trim(struct log *head, uint64_t before, struct error *ret_error)
{
    struct log_kafka *log = log_kafka_of(head);

    if (log->is_trimming)
        return error_set(ret_error, ERROR_OVERLOADED, "another trim is in flight");
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(log->consumer.client, RD_KAFKA_ADMIN_OP_DELETERECORDS);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, log->options.topic, log->options.partition)->offset =
        (int64_t)before;
    rd_kafka_DeleteRecords_t *request = rd_kafka_DeleteRecords_new(list);
    rd_kafka_AdminOptions_set_request_timeout(options, TRIM_REQUEST_MS, NULL, 0);
    rd_kafka_AdminOptions_set_operation_timeout(options, TRIM_OPERATION_MS, NULL, 0);
    rd_kafka_DeleteRecords(log->consumer.client, &request, 1, options, log->trims);
    log->is_trimming = true;
    rd_kafka_DeleteRecords_destroy(request);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_AdminOptions_destroy(options);
    return ERROR_NONE;
}

/* Makes an event of the answer to a trim, if there is one. */
static enum log_kind log_kafka_take_trim(struct log_kafka *log, struct log_event *ret_event)
{
    rd_kafka_event_t *event = log->is_trimming ? rd_kafka_queue_poll(log->trims, 0) : NULL;

    if (!event)
        return LOG_NOTHING;
    const rd_kafka_DeleteRecords_result_t *result = rd_kafka_event_DeleteRecords_result(event);
    const rd_kafka_topic_partition_list_t *list =
        result ? rd_kafka_DeleteRecords_result_offsets(result) : NULL;
    rd_kafka_resp_err_t failure = rd_kafka_event_error(event);
    if (!failure)
        failure = list && list->cnt == 1 ? list->elems[0].err : RD_KAFKA_RESP_ERR__FAIL;
    *ret_event = (struct log_event){.kind = LOG_TRIM_FAILED, .reason = rd_kafka_err2str(failure)};
    if (!failure && list->elems[0].offset >= 0)
        *ret_event =
            (struct log_event){.kind = LOG_TRIMMED, .offset = (uint64_t)list->elems[0].offset};
    log->is_trimming = false;
    rd_kafka_event_destroy(event);
    return ret_event->kind;
}

/* ---- trouble ---- */

/* True if no broker answers. Stopped brokers keep their connections, and librdkafka takes them
 * for alive. A client asks the brokers that it is connected to, mostly only the leader, so other
 * logs count too. */
static bool log_kafka_is_alone(const struct log_kafka *log)
{
    if (log->producer.is_down || !log->options.answered_ns || log->unanswered < UNANSWERED)
        return log->producer.is_down;
    const struct instant answered = {
        atomic_load_explicit(log->options.answered_ns, memory_order_relaxed)};
    return instant_now().ns >= instant_add_ms(answered, SILENT_MS).ns;
}

/* Ends an append early as in doubt if no broker can be reached, so that its caller gets an
 * answer. */
static void log_kafka_give_up(struct log_kafka *log)
{
    if (!log->is_sent || !log_kafka_is_alone(log) ||
        instant_now().ns < instant_add_ms(log->sent_at, DOWN_MS).ns)
        return;
    const rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
    log->done = (struct log_event){
        .kind = LOG_FAILED, .ticket = log->sent_ticket, .reason = rd_kafka_err2str(error)};
    log->is_sent = false;
    kafka_handle_close(&log->producer);
}

static enum log_trouble log_kafka_trouble(const struct log *head, char *ret_text, size_t size)
{
    const struct log_kafka *log = (const void *)head;
    const bool is_alone = log_kafka_is_alone(log);
    const uint64_t patience_ms = is_alone ? ALONE_MS : SLOW_MS;

    if (!log->unlanded_at.ns || instant_now().ns < instant_add_ms(log->unlanded_at, patience_ms).ns)
        return LOG_FINE;
    snprintf(ret_text, size, "%s at %.80s: %s",
             is_alone ? "no broker answers" : "no append is acknowledged by the brokers",
             log->options.brokers, *log->producer.cause ? log->producer.cause : "they are silent");
    return is_alone ? LOG_ALONE : LOG_SLOW;
}

/* ---- both ---- */

static enum log_kind log_kafka_take(struct log_kafka *log, struct log_event *ret_event)
{
    if (log->producer.client)
        rd_kafka_poll(log->producer.client, 0);
    log_kafka_give_up(log);
    if (!log->done.kind)
        return log_kafka_take_trim(log, ret_event) ? ret_event->kind
                                                   : log_kafka_take_record(log, ret_event);
    *ret_event = log->done;
    log->done.kind = LOG_NOTHING;
    return ret_event->kind;
}

static enum log_kind log_kafka_wait(struct log *head, uint64_t timeout_ms,
                                    struct log_event *ret_event)
{
    struct log_kafka *log = log_kafka_of(head);
    struct pollfd poll_fd = {.fd = log->event_fd, .events = POLLIN};
    uint64_t count, longest_ms = LATE_MS;

    *ret_event = (struct log_event){.kind = LOG_NOTHING};
    if (log_kafka_take(log, ret_event))
        return ret_event->kind;
    log_kafka_seek_leader(log);
    if (log_kafka_is_late(log, instant_now()))
        longest_ms = LOOK_MS;
    if (poll(&poll_fd, 1, (int)(timeout_ms < longest_ms ? timeout_ms : longest_ms)) <= 0 ||
        read(log->event_fd, &count, sizeof(count)) < 0)
        return LOG_NOTHING;
    return log_kafka_take(log, ret_event);
}

static void log_kafka_wake(struct log *head)
{
    const uint64_t one = 1;

    if (write(log_kafka_of(head)->event_fd, &one, sizeof(one)) < 0)
        return; /* the queue is full of them */
}

static void log_kafka_close(struct log *head)
{
    struct log_kafka *log = log_kafka_of(head);

    log_kafka_stop(log);
    kafka_handle_close(&log->producer);
    kafka_queue_close(log->trims);
    kafka_handle_close(&log->consumer);
    if (log->event_fd >= 0)
        close(log->event_fd);
    free(log);
}

enum error_code log_kafka_open(const struct log_kafka_options *options, struct log **ret_log,
                               struct error *ret_error)
{
    static const struct log_ops ops = {
        .follow = log_kafka_follow,
        .append = log_kafka_append,
        .trim = log_kafka_trim,
        .wait = log_kafka_wait,
        .wake = log_kafka_wake,
        .trouble = log_kafka_trouble,
        .close = log_kafka_close,
    };
    struct log_kafka *log = calloc(1, sizeof(*log));

    if (!log)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    log->log.ops = &ops;
    log->options = *options;
    log->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    enum error_code code = log->event_fd < 0
                               ? error_set(ret_error, ERROR_IO, "no descriptor left")
                               : log_kafka_make(log, &log->consumer, RD_KAFKA_CONSUMER, ret_error);
    if (!code) {
        log->trims = rd_kafka_queue_new(log->consumer.client);
        kafka_queue_watch(log->trims, log->event_fd);
        code = log_kafka_begin_producer(log, ret_error);
    }
    if (code)
        log_kafka_close(&log->log);
    else
        *ret_log = &log->log;
    return code;
}
