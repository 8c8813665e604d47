/*
 * log_kafka.c - the log on Kafka by librdkafka; see log_kafka.h.
 *
 * Written for librdkafka 2.0.2 and later. That version can hang in a question for the end of a
 * partition, so the end is only learnt by reading up to it: where a broker has no more, or where
 * its last answer said that the end is. A log that has a record for each answer never shows the
 * former. Records of a partition come in a queue of its log; the consumer and the producers are
 * those of the node (log_kafka_client.h). Correctness does not rest on idempotence, for a frame
 * names its epoch and seq.
 */
#include "log/kafka/log_kafka_client.h"
#include "sys/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    TRIM_REQUEST_MS = 10000,
    TRIM_OPERATION_MS = 30000,
    AGAIN_MS = 200, /* interval of requests for a record that a broker lacks */
    /* time without a record after which the leader of the topic is looked up again; an owner
     * appends more often */
    QUIET_MS = 1000,
    LOOK_MS = 100, /* longest wait for an event while an append is late */
    WAIT_MS = 500, /* longest wait for an event otherwise */
};

struct log_kafka {
    struct log log;
    struct log_kafka_options options;
    struct log_kafka_client *client;
    bool owns_client;
    struct log_kafka_append append; /* its event_fd is written for all events of the log */
    rd_kafka_topic_t *topic;        /* topic of the consumer; NULL if no log is followed */
    rd_kafka_queue_t *records;
    rd_kafka_message_t *record; /* record whose bytes the last event has */
    bool has_ended;             /* whether the end was reported since the log is followed */
    uint64_t next;              /* offset after the last reported record */
    int64_t from;               /* offset of the last log_follow */
    /* Time since when no broker has the next record, and time of the next request for it; {0} if
     * it is there. */
    struct instant lost_since, again_at;
    struct instant heard_at; /* time of the last record, or of log_follow */
    rd_kafka_queue_t *trims;
    bool is_trimming; /* whether a trim has no answer yet */
};

static struct log_kafka *log_kafka_of(struct log *log)
{
    return (struct log_kafka *)(void *)log;
}

static enum error_code log_kafka_append(struct log *head, uint64_t ticket, struct bytes bytes,
                                        struct error *ret_error)
{
    struct log_kafka *log = log_kafka_of(head);
    const struct kafka_message message = {
        .topic = log->options.topic, .partition = log->options.partition, .value = bytes};

    return log_kafka_client_append(log->client, &log->append, ticket, &message, ret_error);
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
    log->topic = rd_kafka_topic_new(log->client->consumer.client, log->options.topic, NULL);
    if (!log->topic)
        return error_set(ret_error, ERROR_IO, "follow: %.140s",
                         rd_kafka_err2str(rd_kafka_last_error()));
    log->records = rd_kafka_queue_new(log->client->consumer.client);
    kafka_queue_watch(log->records, log->append.event_fd);
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
           !rd_kafka_get_watermark_offsets(log->client->consumer.client, log->options.topic,
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
        log_kafka_client_note_answer(log->client);
    }
    return ret_event->kind == LOG_LOST ? log_kafka_lose(log, ret_event) : ret_event->kind;
}

/* ---- trims ---- */

static enum error_code log_kafka_trim(struct log *head, uint64_t before, struct error *ret_error)
{
    struct log_kafka *log = log_kafka_of(head);

    if (log->is_trimming)
        return error_set(ret_error, ERROR_OVERLOADED, "another trim is in flight");
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(log->client->consumer.client, RD_KAFKA_ADMIN_OP_DELETERECORDS);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, log->options.topic, log->options.partition)->offset =
        (int64_t)before;
    rd_kafka_DeleteRecords_t *request = rd_kafka_DeleteRecords_new(list);
    rd_kafka_AdminOptions_set_request_timeout(options, TRIM_REQUEST_MS, NULL, 0);
    rd_kafka_AdminOptions_set_operation_timeout(options, TRIM_OPERATION_MS, NULL, 0);
    rd_kafka_DeleteRecords(log->client->consumer.client, &request, 1, options, log->trims);
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

/* ---- both ---- */

static enum log_trouble log_kafka_trouble(const struct log *head, char *ret_text, size_t size)
{
    const struct log_kafka *log = (const void *)head;

    return log_kafka_client_trouble(log->client, &log->append, ret_text, size);
}

static enum log_kind log_kafka_take(struct log_kafka *log, struct log_event *ret_event)
{
    if (log_kafka_client_take(log->client, &log->append, ret_event) ||
        log_kafka_take_trim(log, ret_event))
        return ret_event->kind;
    return log_kafka_take_record(log, ret_event);
}

/* True if no record came for so long that the leader may be stopped. */
static bool log_kafka_is_quiet(const struct log_kafka *log)
{
    return (log->topic || log->again_at.ns) &&
           instant_now().ns >= instant_add_ms(log->heard_at, QUIET_MS).ns;
}

static enum log_kind log_kafka_wait(struct log *head, uint64_t timeout_ms,
                                    struct log_event *ret_event)
{
    struct log_kafka *log = log_kafka_of(head);
    struct pollfd fds[2] = {{.fd = log->append.event_fd, .events = POLLIN},
                            {.fd = log->client->event_fd, .events = POLLIN}};
    eventfd_t count;

    *ret_event = (struct log_event){.kind = LOG_NOTHING};
    if (log_kafka_take(log, ret_event))
        return ret_event->kind;
    const bool is_late =
        log_kafka_client_seek_leader(log->client, &log->append, log_kafka_is_quiet(log));
    if (timeout_ms == 0)
        return LOG_NOTHING;
    const uint64_t longest_ms = is_late ? LOOK_MS : WAIT_MS;
    const nfds_t fd_count = log_kafka_client_is_sent(log->client, &log->append) ? 2 : 1;
    if (poll(fds, fd_count, (int)(timeout_ms < longest_ms ? timeout_ms : longest_ms)) > 0)
        eventfd_read(log->append.event_fd, &count);
    log_kafka_client_poll(log->client);
    return log_kafka_take(log, ret_event);
}

static int log_kafka_fd(const struct log *log)
{
    return ((const struct log_kafka *)(const void *)log)->append.event_fd;
}

static void log_kafka_wake(struct log *head)
{
    eventfd_write(log_kafka_of(head)->append.event_fd, 1);
}

static void log_kafka_close(struct log *head)
{
    struct log_kafka *log = log_kafka_of(head);

    log_kafka_stop(log);
    kafka_queue_close(log->trims);
    if (log->client)
        log_kafka_client_forget(log->client, &log->append);
    if (log->owns_client)
        log_kafka_client_close(log->client);
    if (log->append.event_fd >= 0)
        close(log->append.event_fd);
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
        .fd = log_kafka_fd,
        .close = log_kafka_close,
    };
    struct log_kafka *log = calloc(1, sizeof(*log));

    if (!log)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    log->log.ops = &ops;
    log->options = *options;
    log->client = options->client;
    log->owns_client = !options->client;
    log->append.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    enum error_code code = log->append.event_fd < 0
                               ? error_set(ret_error, ERROR_IO, "no descriptor left")
                               : ERROR_NONE;
    if (!code && log->owns_client) {
        code = log_kafka_client_open(options, &log->client, ret_error);
        if (!code)
            log->client->is_of_one_log = true;
    }
    if (!code) {
        log->trims = rd_kafka_queue_new(log->client->consumer.client);
        kafka_queue_watch(log->trims, log->append.event_fd);
    }
    if (code)
        log_kafka_close(&log->log);
    else
        *ret_log = &log->log;
    return code;
}
