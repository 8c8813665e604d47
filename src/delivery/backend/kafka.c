/*
 * Kafka by librdkafka's idempotent producer: acks=all, confirmed by the delivery report, the ticket
 * being the message's opaque. librdkafka finds the brokers, and sends again by itself what a broker
 * that comes back has not confirmed: so a short outage makes no repeats. A longer one, in which
 * messages run out of their time, ends the producer, and a new one begins.
 *
 * A topic is looked up before the first message goes to it, and again from time to time. Without
 * that, messages to a topic that does not exist would each wait inside librdkafka until their time
 * is over, and take the room of all others.
 */
#include "base/random.h"
#include "delivery/broker_backend.h"
#include "sys/clock.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* RD_KAFKA_V_KEY casts const away. */
#pragma GCC diagnostic ignored "-Wcast-qual"

#define TOPICS_MAX     64    /* maximum of topics whose look-up is remembered */
#define TOPIC_GOOD_MS  30000 /* time for which a successful look-up is trusted */
#define TOPIC_BAD_MS   1000
#define LOOK_UP_MS     1000 /* time limit of a look-up, during which the connection waits */
#define PROBE_PAUSE_MS 250  /* interval of probes of unreachable brokers */

struct topic {
    char name[TARGET_PATH_SIZE_MAX + 1];
    struct instant good_until, bad_until;
    rd_kafka_resp_err_t error; /* valid while the topic is bad */
};

struct kafka {
    const struct broker_settings *settings;
    rd_kafka_conf_t *template; /* each producer gets a copy */
    rd_kafka_t *producer;
    rd_kafka_queue_t *events;
    int event_fd; /* readable when there are events */
    bool is_away; /* whether no broker can be reached */
    struct instant probe_at;
    char cause[160]; /* last error of librdkafka; "" if none */
    struct topic topics[TOPICS_MAX];
};

static void kafka_version(char ret_text[BROKER_VERSION_SIZE])
{
    snprintf(ret_text, BROKER_VERSION_SIZE, "librdkafka %.32s", rd_kafka_version_str());
}

/* Checks a topic's name by Kafka's rules. */
static const char *kafka_refusal(const struct bytes names[], struct bytes key)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    struct bytes topic = names[0];

    (void)key;
    if (topic.size == 0 || topic.size > 249)
        return "names no topic, or one of more than 249 characters";
    if (bytes_equal(topic, BYTES(".")) || bytes_equal(topic, BYTES("..")) ||
        strspn(topic.data, letters) != topic.size)
        return "names a topic that is not made of letters, digits, . _ and -";
    return NULL;
}

/* ---- settings ---- */

/* True for properties that the promises depend on, which the URL must not change. */
static bool kafka_is_fixed(const char *name)
{
    static const char *const fixed[] = {"enable.idempotence",    "acks",
                                        "request.required.acks", "bootstrap.servers",
                                        "metadata.broker.list",  "transactional.id"};

    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (strcmp(name, fixed[i]) == 0)
            return true;
    return false;
}

/* librdkafka's texts are not shown, because they quote the value. */
static enum error_code kafka_set(struct kafka *kafka, const char *name, const char *value,
                                 struct error *ret_error)
{
    switch (rd_kafka_conf_set(kafka->template, name, value, NULL, 0)) {
    case RD_KAFKA_CONF_OK:
        return ERROR_NONE;
    case RD_KAFKA_CONF_UNKNOWN:
        return error_set(ret_error, ERROR_INVALID, "%.60s: librdkafka has no such property", name);
    default:
        return error_set(ret_error, ERROR_INVALID, "%.60s: librdkafka does not take this value",
                         name);
    }
}

static enum error_code kafka_set_defaults(struct kafka *kafka, struct error *ret_error)
{
    const struct broker_settings *settings = kafka->settings;
    const struct broker_url *url = settings->url;
    char queue_max[16];
    const char *const properties[][2] = {
        {"bootstrap.servers", url->hosts},
        {"client.id", settings->client_name},
        {"enable.idempotence", "true"},
        {"acks", "all"},
        {"linger.ms", "1"},
        {"reconnect.backoff.max.ms", "1000"},
        {"message.max.bytes", "100000000"}, /* the topic's own limit decides */
        {"queue.buffering.max.messages", queue_max},
        {"log.connection.close", "false"},
    };

    /* Twice the limit, for messages that timed out before their report. */
    snprintf(queue_max, sizeof(queue_max), "%u", settings->inflight_max * 2);
    enum error_code code = ERROR_NONE;
    for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]) && !code; i++)
        code = kafka_set(kafka, properties[i][0], properties[i][1], ret_error);
    if (!code && *url->user) {
        code = kafka_set(kafka, "sasl.username", url->user, ret_error);
        if (!code)
            code = kafka_set(kafka, "sasl.password", url->password, ret_error);
        if (!code) /* a password is sent encrypted unless the URL says otherwise */
            code = kafka_set(kafka, "security.protocol", "sasl_ssl", ret_error);
        if (!code)
            code = kafka_set(kafka, "sasl.mechanism", "PLAIN", ret_error);
    }
    return code;
}

static enum error_code kafka_set_parameters(struct kafka *kafka, struct error *ret_error)
{
    const struct broker_url *url = kafka->settings->url;

    if (*url->path)
        return error_set(ret_error, ERROR_INVALID, "it may have no path");
    enum error_code code = ERROR_NONE;
    for (size_t i = 0; i < url->parameter_count && !code; i++) {
        const struct broker_parameter *parameter = &url->parameters[i];

        if (strcmp(parameter->name, "exactly_once") == 0) { /* brokers.c */
            if (strcmp(parameter->value, "true") != 0 && strcmp(parameter->value, "false") != 0)
                return error_set(ret_error, ERROR_INVALID, "exactly_once: is true or false");
            continue;
        }
        if (kafka_is_fixed(parameter->name))
            return error_set(ret_error, ERROR_INVALID, "%s: is not for the URL to set",
                             parameter->name);
        code = kafka_set(kafka, parameter->name, parameter->value, ret_error);
    }
    return code;
}

/* ---- called by librdkafka, from rd_kafka_poll ---- */

static void kafka_on_report(rd_kafka_t *producer, const rd_kafka_message_t *message, void *context)
{
    struct kafka *kafka = context;
    uint64_t ticket = (uint64_t)(uintptr_t)message->_private;

    (void)producer;
    enum delivery_result result = DELIVERY_FAILED;
    switch (message->err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        kafka->is_away = false;
        result = DELIVERY_DONE;
        break;
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART: /* it was deleted: look it up again */
        memset(kafka->topics, 0, sizeof(kafka->topics));
        break;
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION: /* not a valid topic name */
        result = DELIVERY_ENDED;
        break;
    default: /* including "too large", which may mean the batch */
        break;
    }
    broker_outcome(kafka->settings->sink, ticket, result,
                   result == DELIVERY_DONE ? "" : rd_kafka_err2str(message->err));
}

static void kafka_on_error(rd_kafka_t *producer, int code, const char *reason, void *context)
{
    struct kafka *kafka = context;

    (void)producer;
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        kafka->is_away = true;
    else
        snprintf(kafka->cause, sizeof(kafka->cause), "%s", reason);
}

/* Drops librdkafka's log; errors are reported by on_error. */
static void kafka_on_log(const rd_kafka_t *producer, int level, const char *facility,
                         const char *text)
{
    (void)producer;
    (void)level;
    (void)facility;
    (void)text;
}

/* ---- create and destroy ---- */

static void kafka_destroy(void *client)
{
    struct kafka *kafka = client;

    if (kafka->template)
        rd_kafka_conf_destroy(kafka->template);
    if (kafka->event_fd >= 0)
        close(kafka->event_fd);
    free(kafka);
}

static enum error_code kafka_create(const struct broker_settings *settings, void **ret_client,
                                    struct error *ret_error)
{
    struct kafka *kafka = calloc(1, sizeof(*kafka));

    if (!kafka)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    kafka->settings = settings;
    kafka->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    kafka->template = rd_kafka_conf_new();
    enum error_code code = kafka->event_fd < 0
                               ? error_set(ret_error, ERROR_IO, "no descriptor left")
                               : kafka_set_defaults(kafka, ret_error);
    if (!code)
        code = kafka_set_parameters(kafka, ret_error);
    if (code) {
        kafka_destroy(kafka);
        return code;
    }
    rd_kafka_conf_set_opaque(kafka->template, kafka);
    rd_kafka_conf_set_dr_msg_cb(kafka->template, kafka_on_report);
    rd_kafka_conf_set_error_cb(kafka->template, kafka_on_error);
    rd_kafka_conf_set_log_cb(kafka->template, kafka_on_log);
    *ret_client = kafka;
    return ERROR_NONE;
}

/* ---- the connection ---- */

static void kafka_disconnect(void *client)
{
    struct kafka *kafka = client;

    if (!kafka->producer)
        return;
    rd_kafka_queue_io_event_enable(kafka->events, -1, NULL, 0);
    rd_kafka_queue_destroy(kafka->events);
    rd_kafka_purge(kafka->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_destroy(kafka->producer);
    kafka->producer = NULL;
    memset(kafka->topics, 0, sizeof(kafka->topics));
}

/* Checks whether a broker answers within the time. */
static rd_kafka_resp_err_t kafka_probe(struct kafka *kafka, uint64_t timeout_ms)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(kafka->producer, 0, NULL, &metadata, (int)timeout_ms);

    if (!error)
        rd_kafka_metadata_destroy(metadata);
    return error;
}

static enum error_code kafka_connect_to_server(void *client, struct error *ret_error)
{
    struct kafka *kafka = client;
    rd_kafka_conf_t *conf = rd_kafka_conf_dup(kafka->template);
    char text[200] = "unknown reason";

    kafka->is_away = false;
    kafka->cause[0] = '\0';
    kafka->producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (!kafka->producer) {
        rd_kafka_conf_destroy(conf);
        return error_set(ret_error, ERROR_IO, "%s", text);
    }
    kafka->events = rd_kafka_queue_get_main(kafka->producer);
    rd_kafka_queue_io_event_enable(kafka->events, kafka->event_fd, &(uint64_t){1},
                                   sizeof(uint64_t));
    rd_kafka_resp_err_t error = kafka_probe(kafka, kafka->settings->connect_timeout_ms);
    rd_kafka_poll(kafka->producer, 0); /* the events have the cause */
    kafka->is_away = false;            /* one of several addresses may have been unreachable */
    if (!error)
        return ERROR_NONE;
    kafka_disconnect(kafka);
    return error_set(ret_error, ERROR_IO, "%.150s",
                     *kafka->cause ? kafka->cause : rd_kafka_err2str(error));
}

/* ---- topics ---- */

/* Asks the brokers for the topic. */
static rd_kafka_resp_err_t kafka_look_up(struct kafka *kafka, const char *name)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(kafka->producer, name, NULL);

    if (!handle)
        return rd_kafka_last_error();
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(kafka->producer, 0, handle, &metadata, LOOK_UP_MS);
    rd_kafka_topic_destroy(handle);
    if (error)
        return error;
    if (metadata->topic_cnt == 1)
        error = metadata->topics[0].err;
    rd_kafka_metadata_destroy(metadata);
    /* A new topic has no leader yet: librdkafka waits for it. */
    return error == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ? RD_KAFKA_RESP_ERR_NO_ERROR : error;
}

/* Returns the result of the topic's last look-up; ERR__TRANSPORT if no broker answers. */
static rd_kafka_resp_err_t topic_error(struct kafka *kafka, struct bytes name)
{
    struct instant now = instant_now();
    uint64_t hash = name.size;

    for (size_t i = 0; i < name.size; i++)
        hash = random_mix(hash ^ (uint8_t)name.data[i]);
    struct topic *topic = &kafka->topics[hash % TOPICS_MAX];
    if (strcmp(topic->name, name.data) == 0) {
        if (now.ns < topic->good_until.ns)
            return RD_KAFKA_RESP_ERR_NO_ERROR;
        if (now.ns < topic->bad_until.ns)
            return topic->error;
    }
    *topic = (struct topic){.error = kafka_look_up(kafka, name.data)};
    if (topic->error < 0) /* librdkafka's own error: no broker answered */
        return RD_KAFKA_RESP_ERR__TRANSPORT;
    snprintf(topic->name, sizeof(topic->name), "%s", name.data);
    now = instant_now();
    if (topic->error)
        topic->bad_until = instant_add_ms(now, TOPIC_BAD_MS);
    else
        topic->good_until = instant_add_ms(now, TOPIC_GOOD_MS);
    return topic->error;
}

/* ---- messages ---- */

/* Takes no messages while no broker can be reached, so that no message times out in vain. */
static bool kafka_is_reachable(struct kafka *kafka)
{
    struct instant now = instant_now();

    if (!kafka->is_away)
        return true;
    if (now.ns < kafka->probe_at.ns)
        return false;
    kafka->is_away = kafka_probe(kafka, LOOK_UP_MS) != RD_KAFKA_RESP_ERR_NO_ERROR;
    kafka->probe_at = instant_add_ms(instant_now(), PROBE_PAUSE_MS);
    return !kafka->is_away;
}

static rd_kafka_headers_t *kafka_make_headers(const struct broker_message *message)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(message->field_count);

    for (size_t i = 0; headers && i < message->field_count; i++) {
        const struct broker_field *field = &message->fields[i];

        if (rd_kafka_header_add(headers, field->name, -1, field->value.data,
                                (ssize_t)field->value.size)) {
            rd_kafka_headers_destroy(headers);
            return NULL;
        }
    }
    return headers;
}

static rd_kafka_resp_err_t kafka_produce(struct kafka *kafka, uint64_t ticket,
                                         const struct broker_message *message)
{
    rd_kafka_headers_t *headers = kafka_make_headers(message);

    if (!headers)
        return RD_KAFKA_RESP_ERR__FAIL;
    rd_kafka_resp_err_t error = rd_kafka_producev(
        kafka->producer, RD_KAFKA_V_TOPIC(message->names[0].data),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_KEY(message->key.data, message->key.size),
        RD_KAFKA_V_VALUE((void *)(uintptr_t)message->payload.data, message->payload.size),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE((void *)(uintptr_t)ticket), RD_KAFKA_V_END);
    if (error)
        rd_kafka_headers_destroy(headers);
    return error;
}

static bool kafka_publish(void *client, uint64_t ticket, const struct broker_message *message)
{
    struct kafka *kafka = client;

    if (!kafka_is_reachable(kafka))
        return false;
    rd_kafka_resp_err_t error = topic_error(kafka, message->names[0]);
    if (error == RD_KAFKA_RESP_ERR__TRANSPORT)
        return false;
    if (!error)
        error = kafka_produce(kafka, ticket, message);
    /* `wait` replaces a producer with a fatal error; the message was not taken. */
    if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL || error == RD_KAFKA_RESP_ERR__FATAL)
        return false;
    if (error)
        broker_outcome(kafka->settings->sink, ticket,
                       error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
                               error == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION
                           ? DELIVERY_ENDED
                           : DELIVERY_FAILED,
                       rd_kafka_err2str(error));
    return true;
}

static enum error_code kafka_wait(void *client, int wake_fd, int timeout_ms,
                                  struct error *ret_error)
{
    struct kafka *kafka = client;
    struct pollfd polled[2] = {{.fd = wake_fd, .events = POLLIN},
                               {.fd = kafka->event_fd, .events = POLLIN}};

    if (poll(polled, 2, timeout_ms) < 0 && errno != EINTR)
        return error_set(ret_error, ERROR_IO, "the system refuses to wait");
    eventfd_t ignored;
    if (polled[1].revents)
        eventfd_read(kafka->event_fd, &ignored);
    /* all of them, because only the first of many wakes us */
    while (rd_kafka_poll(kafka->producer, 0) > 0)
        ;
    char text[160];
    if (rd_kafka_fatal_error(kafka->producer, text, sizeof(text)))
        return error_set(ret_error, ERROR_IO, "%s", text);
    /* Messages in flight are left to librdkafka. Without any, a new producer is as good. */
    if (kafka->is_away && rd_kafka_outq_len(kafka->producer) == 0)
        return error_set(ret_error, ERROR_IO, "%s",
                         *kafka->cause ? kafka->cause : "all brokers are down");
    return ERROR_NONE;
}

const struct broker_backend broker_kafka = {
    .scheme = "kafka",
    .version = kafka_version,
    .refusal = kafka_refusal,
    .create = kafka_create,
    .connect = kafka_connect_to_server,
    .publish = kafka_publish,
    .wait = kafka_wait,
    .disconnect = kafka_disconnect,
    .destroy = kafka_destroy,
};
