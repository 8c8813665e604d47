/* log_kafka_client.c - producers and the consumer of a node; see log_kafka_client.h. */
#include "log/kafka/log_kafka_client.h"

#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    /* age of an append from which its producer asks for the leaders, and the interval of that */
    CLIENT_LATE_MS = 500,
    CLIENT_LEADER_MS = 200, /* time limit of the answer, for which the caller waits */
    /* time without a confirmed append while no broker can be reached, for LOG_ALONE */
    CLIENT_ALONE_MS = 700,
    /* time without a confirmed append, for LOG_SLOW: a living broker answers sooner */
    CLIENT_SLOW_MS = 1400,
    CLIENT_DOWN_MS = 2000, /* time after which an append is in doubt while no broker answers */
    /* time without an answer of any broker after which none answers, if ... */
    CLIENT_SILENT_MS = 1000,
    CLIENT_UNANSWERED =
        2, /* ... this many consecutive requests for the leaders were not answered */
    CLIENT_IDLE_MS =
        5000, /* time after which an unused producer is closed, unless it is the first */
};

/* A time in 2001. The test broker of librdkafka reports less, which means that it has no time. */
#define APPENDED_MS_MIN INT64_C(1000000000000)

struct log_kafka_producer {
    struct list link;
    struct log_kafka_client *client;
    struct kafka_handle handle;
    struct list sent;         /* struct log_kafka_sent */
    size_t out;               /* appends in flight that were not given up */
    bool is_spent, is_asking; /* a thread waits for an answer on the handle */
    struct instant asked_at;  /* time of the last request for the leaders */
    struct instant used_at;   /* time of the last append */
};

/* ---- reports ---- */

static void log_kafka_client_answered(struct log_kafka_client *client)
{
    client->unanswered = 0;
    client->answered_at = instant_now();
}

void log_kafka_client_note_answer(struct log_kafka_client *client)
{
    pthread_mutex_lock(&client->lock);
    log_kafka_client_answered(client);
    pthread_mutex_unlock(&client->lock);
}

/* Marks the append as no longer in flight. NULL is fine. */
static void log_kafka_client_abandon(struct log_kafka_append *append)
{
    struct log_kafka_sent *sent = append ? append->sent : NULL;

    if (!sent)
        return;
    append->sent = NULL;
    sent->append = NULL;
    sent->producer->out--;
    sent->producer->client->out--;
}

static void log_kafka_client_end_sent(struct log_kafka_sent *sent)
{
    log_kafka_client_abandon(sent->append);
    list_remove(&sent->link);
    free(sent);
}

static void log_kafka_client_tell(struct log_kafka_append *append, const struct log_event *event)
{
    append->done = *event;
    eventfd_write(append->event_fd, 1);
}

/* Takes a report. Called by rd_kafka_poll; the caller of that holds the lock. */
static void log_kafka_client_report(void *context, const rd_kafka_message_t *message)
{
    struct log_kafka_producer *producer = context;
    struct log_kafka_client *client = producer->client;
    struct log_kafka_sent *sent = message->_private;
    struct log_kafka_append *append = sent->append;
    rd_kafka_timestamp_type_t type;
    const int64_t appended_ms = rd_kafka_message_timestamp(message, &type);

    log_kafka_client_end_sent(sent);
    if (message->err || message->offset < 0) {
        const struct log_event failed = {.kind = LOG_FAILED,
                                         .ticket = append ? append->ticket : 0,
                                         .reason = rd_kafka_err2str(message->err)};

        producer->is_spent = true;
        if (append)
            log_kafka_client_tell(append, &failed);
        return;
    }
    client->is_down = false;
    client->cause[0] = '\0';
    log_kafka_client_answered(client);
    if (!append)
        return;
    struct log_event landed = {
        .kind = LOG_LANDED, .ticket = append->ticket, .offset = (uint64_t)message->offset};
    if (type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME && appended_ms > APPENDED_MS_MIN)
        landed.appended.ms = (uint64_t)appended_ms;
    append->unlanded_at = (struct instant){0};
    log_kafka_client_tell(append, &landed);
}

/* ---- producers ---- */

static void log_kafka_client_free_producer(struct log_kafka_producer *producer)
{
    kafka_handle_close(&producer->handle);
    while (!list_is_empty(&producer->sent))
        log_kafka_client_end_sent(list_item(producer->sent.next, struct log_kafka_sent, link));
    free(producer);
}

static bool log_kafka_client_is_over(const struct log_kafka_client *client,
                                     const struct log_kafka_producer *producer, struct instant now)
{
    if (producer->out > 0 || producer->is_asking)
        return false;
    return producer->is_spent || (&producer->link != client->producers.next &&
                                  now.ns >= instant_add_ms(producer->used_at, CLIENT_IDLE_MS).ns);
}

/* Takes the reports of all producers, and moves producers that are to be closed to `ret_over`. The
 * caller holds the lock. */
static void log_kafka_client_poll_all(struct log_kafka_client *client, struct list *ret_over)
{
    const struct instant now = instant_now();

    LIST_FOR_EACH (&client->producers, link) {
        struct log_kafka_producer *producer = list_item(link, struct log_kafka_producer, link);
        struct kafka_handle *handle = &producer->handle;

        while (rd_kafka_poll(handle->client, 0) > 0)
            ;
        client->is_down |= handle->is_down;
        handle->is_down = false;
        if (*handle->cause)
            memcpy(client->cause, handle->cause, sizeof(client->cause));
        handle->cause[0] = '\0';
        if (log_kafka_client_is_over(client, producer, now)) {
            list_remove(link);
            list_push(ret_over, link);
        }
    }
}

/* Closes producers. The caller does not hold the lock, because librdkafka joins its threads. */
static void log_kafka_client_free_all(struct list *over)
{
    for (struct list *link; (link = list_pop(over));)
        log_kafka_client_free_producer(list_item(link, struct log_kafka_producer, link));
}

void log_kafka_client_poll(struct log_kafka_client *client)
{
    struct list over;
    eventfd_t count;

    list_init(&over);
    eventfd_read(client->event_fd, &count);
    pthread_mutex_lock(&client->lock);
    log_kafka_client_poll_all(client, &over);
    pthread_mutex_unlock(&client->lock);
    log_kafka_client_free_all(&over);
}

static enum error_code log_kafka_client_open_producer(struct log_kafka_client *client,
                                                      struct log_kafka_producer **ret_producer,
                                                      struct error *ret_error)
{
    const struct log_kafka_options *options = &client->options;
    struct log_kafka_producer *producer = calloc(1, sizeof(*producer));
    char timeout[24];
    const struct log_kafka_property own[] = {
        {"enable.idempotence", "true"},
        {"acks", "all"},
        {"compression.codec", "lz4"},
        {"linger.ms", "0"},
        {"max.in.flight.requests.per.connection", "1"},
        {"retry.backoff.ms", "50"},
        {"message.timeout.ms", timeout},
    };
    const struct kafka_setup setup = {
        .type = RD_KAFKA_PRODUCER,
        .brokers = options->brokers,
        .lists = {{options->properties, options->property_count},
                  kafka_quick(),
                  {own, sizeof(own) / sizeof(own[0])}},
        .context = producer,
        .report = log_kafka_client_report,
        .event_fd = client->event_fd,
    };

    if (!producer)
        return error_set(ret_error, ERROR_NO_MEMORY, "append");
    producer->client = client;
    list_init(&producer->sent);
    snprintf(timeout, sizeof(timeout), "%llu", (unsigned long long)options->append_timeout_ms);
    const enum error_code code = kafka_handle_open(&producer->handle, &setup, ret_error);
    if (code) {
        free(producer);
        return code;
    }
    list_push(&client->producers, &producer->link);
    *ret_producer = producer;
    return ERROR_NONE;
}

/* Chooses a producer, or opens one. While the client is not busy, the first producer takes all
 * appends, so that the others become idle and are closed. */
static enum error_code log_kafka_client_find_producer(struct log_kafka_client *client,
                                                      struct log_kafka_producer **ret_producer,
                                                      struct error *ret_error)
{
    const bool is_busy = client->out > 0 &&
                         instant_now().ns >= instant_add_ms(client->busy_since, CLIENT_BUSY_MS).ns;
    struct log_kafka_producer *least = NULL;
    size_t count = 0;

    LIST_FOR_EACH (&client->producers, link) {
        struct log_kafka_producer *producer = list_item(link, struct log_kafka_producer, link);

        if (producer->is_spent)
            continue;
        if (!least || producer->out < least->out)
            least = producer;
        if (!is_busy)
            break;
        count++;
    }
    *ret_producer = least;
    return least && (!is_busy || least->out == 0 || count >= CLIENT_PRODUCERS)
               ? ERROR_NONE
               : log_kafka_client_open_producer(client, ret_producer, ret_error);
}

/* ---- appends ---- */

/* Sends the message; the caller holds the lock. */
static enum error_code log_kafka_client_send(struct log_kafka_client *client,
                                             struct log_kafka_append *append, uint64_t ticket,
                                             struct kafka_message *message, struct error *ret_error)
{
    struct log_kafka_producer *producer;

    if (append->sent || append->done.kind)
        return error_set(ret_error, ERROR_OVERLOADED, "another append is in flight");
    const enum error_code code = log_kafka_client_find_producer(client, &producer, ret_error);
    if (code)
        return code;
    struct log_kafka_sent *sent = calloc(1, sizeof(*sent));
    if (!sent)
        return error_set(ret_error, ERROR_NO_MEMORY, "append");
    *sent = (struct log_kafka_sent){.producer = producer, .append = append};
    message->opaque = sent;
    const rd_kafka_resp_err_t error = kafka_handle_send(&producer->handle, message);
    if (error) {
        producer->is_spent = true;
        free(sent);
        return error_set(ret_error, ERROR_IO, "append: %.140s", rd_kafka_err2str(error));
    }
    list_push(&producer->sent, &sent->link);
    append->sent = sent;
    append->ticket = ticket;
    append->sent_at = producer->used_at = instant_now();
    producer->out++;
    if (client->out++ == 0)
        client->busy_since = append->sent_at;
    if (!append->unlanded_at.ns)
        append->unlanded_at = append->sent_at;
    return ERROR_NONE;
}

enum error_code log_kafka_client_append(struct log_kafka_client *client,
                                        struct log_kafka_append *append, uint64_t ticket,
                                        const struct kafka_message *message,
                                        struct error *ret_error)
{
    struct kafka_message own = *message;

    pthread_mutex_lock(&client->lock);
    const enum error_code code = log_kafka_client_send(client, append, ticket, &own, ret_error);
    pthread_mutex_unlock(&client->lock);
    return code;
}

bool log_kafka_client_is_sent(struct log_kafka_client *client,
                              const struct log_kafka_append *append)
{
    pthread_mutex_lock(&client->lock);
    const bool is_sent = append->sent != NULL;
    pthread_mutex_unlock(&client->lock);
    return is_sent;
}

void log_kafka_client_forget(struct log_kafka_client *client, struct log_kafka_append *append)
{
    pthread_mutex_lock(&client->lock);
    log_kafka_client_abandon(append);
    pthread_mutex_unlock(&client->lock);
}

/* True if no broker answers. Stopped brokers keep their connections, and librdkafka takes them for
 * alive. A client of one log may be connected to the leader only. */
static bool log_kafka_client_is_alone(const struct log_kafka_client *client)
{
    if (client->is_down || client->is_of_one_log || client->unanswered < CLIENT_UNANSWERED)
        return client->is_down;
    return instant_now().ns >= instant_add_ms(client->answered_at, CLIENT_SILENT_MS).ns;
}

/* Ends an append early as in doubt if no broker can be reached, so that its caller gets an
 * answer. */
static void log_kafka_client_give_up(const struct log_kafka_client *client,
                                     struct log_kafka_append *append)
{
    if (!append->sent || !log_kafka_client_is_alone(client) ||
        instant_now().ns < instant_add_ms(append->sent_at, CLIENT_DOWN_MS).ns)
        return;
    const struct log_event failed = {
        .kind = LOG_FAILED,
        .ticket = append->ticket,
        .reason = rd_kafka_err2str(RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN),
    };

    append->sent->producer->is_spent = true;
    log_kafka_client_abandon(append);
    append->done = failed;
}

enum log_kind log_kafka_client_take(struct log_kafka_client *client,
                                    struct log_kafka_append *append, struct log_event *ret_event)
{
    pthread_mutex_lock(&client->lock);
    log_kafka_client_give_up(client, append);
    const enum log_kind kind = append->done.kind;
    if (kind)
        *ret_event = append->done;
    append->done.kind = LOG_NOTHING;
    pthread_mutex_unlock(&client->lock);
    return kind;
}

enum log_trouble log_kafka_client_trouble(struct log_kafka_client *client,
                                          const struct log_kafka_append *append, char *ret_text,
                                          size_t size)
{
    pthread_mutex_lock(&client->lock);
    const bool is_alone = log_kafka_client_is_alone(client);
    const uint64_t patience_ms = is_alone ? CLIENT_ALONE_MS : CLIENT_SLOW_MS;
    const bool has_trouble =
        append->unlanded_at.ns &&
        instant_now().ns >= instant_add_ms(append->unlanded_at, patience_ms).ns;
    if (has_trouble)
        snprintf(ret_text, size, "%s at %.80s: %s",
                 is_alone ? "no broker answers" : "no append is acknowledged by the brokers",
                 client->options.brokers, *client->cause ? client->cause : "they are silent");
    pthread_mutex_unlock(&client->lock);
    return !has_trouble ? LOG_FINE : is_alone ? LOG_ALONE : LOG_SLOW;
}

/* ---- leaders ---- */

/* True if a request for the leaders is due; it is counted as unanswered. The caller holds the
 * lock. */
static bool log_kafka_client_is_due(struct log_kafka_client *client, struct instant *asked_at)
{
    const struct instant now = instant_now();

    if (now.ns < instant_add_ms(*asked_at, CLIENT_LATE_MS).ns)
        return false;
    *asked_at = now;
    client->unanswered++;
    return true;
}

/* Asks for the leaders of all logs. */
static void log_kafka_client_ask(struct log_kafka_client *client, struct kafka_handle *handle)
{
    if (kafka_handle_ask(handle, NULL, CLIENT_LEADER_MS) >= RD_KAFKA_RESP_ERR_NO_ERROR)
        log_kafka_client_note_answer(client);
}

/* librdkafka asks by itself if a leader refuses or hangs up, but not if it was stopped. */
bool log_kafka_client_seek_leader(struct log_kafka_client *client,
                                  const struct log_kafka_append *append, bool is_quiet)
{
    pthread_mutex_lock(&client->lock);
    const bool is_late =
        append->sent && instant_now().ns >= instant_add_ms(append->sent_at, CLIENT_LATE_MS).ns;
    struct log_kafka_producer *producer = is_late ? append->sent->producer : NULL;
    if (producer && !producer->is_asking && log_kafka_client_is_due(client, &producer->asked_at))
        producer->is_asking = true;
    else
        producer = NULL;
    const bool asks = is_quiet && log_kafka_client_is_due(client, &client->asked_at);
    pthread_mutex_unlock(&client->lock);
    if (producer) {
        log_kafka_client_ask(client, &producer->handle);
        pthread_mutex_lock(&client->lock);
        producer->is_asking = false;
        pthread_mutex_unlock(&client->lock);
    }
    if (asks)
        log_kafka_client_ask(client, &client->consumer);
    return is_late;
}

/* ---- open and close ---- */

int log_kafka_client_fd(const struct log_kafka_client *client)
{
    return client->event_fd;
}

void log_kafka_client_close(struct log_kafka_client *client)
{
    if (!client)
        return;
    log_kafka_client_free_all(&client->producers);
    kafka_handle_close(&client->consumer);
    if (client->event_fd >= 0)
        close(client->event_fd);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

static enum error_code log_kafka_client_open_consumer(struct log_kafka_client *client,
                                                      struct error *ret_error)
{
    static const struct log_kafka_property own[] = {
        {"enable.partition.eof", "true"}, {"check.crcs", "true"},
        {"auto.offset.reset", "error"},   {"isolation.level", "read_committed"},
        {"fetch.error.backoff.ms", "50"},
    };
    const struct log_kafka_options *options = &client->options;
    const struct kafka_setup setup = {
        .type = RD_KAFKA_CONSUMER,
        .brokers = options->brokers,
        .lists = {{options->properties, options->property_count},
                  kafka_quick(),
                  {own, sizeof(own) / sizeof(own[0])}},
    };

    return kafka_handle_open(&client->consumer, &setup, ret_error);
}

enum error_code log_kafka_client_open(const struct log_kafka_options *options,
                                      struct log_kafka_client **ret_client, struct error *ret_error)
{
    struct log_kafka_client *client = calloc(1, sizeof(*client));
    struct log_kafka_producer *producer;

    if (!client)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    client->options = *options;
    pthread_mutex_init(&client->lock, NULL);
    list_init(&client->producers);
    client->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    enum error_code code = client->event_fd < 0
                               ? error_set(ret_error, ERROR_IO, "no descriptor left")
                               : log_kafka_client_open_consumer(client, ret_error);
    if (!code)
        code = log_kafka_client_open_producer(client, &producer, ret_error);
    if (code)
        log_kafka_client_close(client);
    else
        *ret_client = client;
    return code;
}
