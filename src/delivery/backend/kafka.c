/*
 * Kafka by librdkafka's idempotent producer, with acks=all. The delivery report confirms a message;
 * its ticket is the message's opaque. librdkafka finds the brokers. When a broker comes back, it
 * sends unconfirmed messages again by itself, so a short outage makes no repeats. In a longer one
 * messages time out; then the producer is replaced.
 *
 * A topic is looked up before the first message is sent to it, and again from time to time. Without
 * look-ups, messages to a missing topic would wait inside librdkafka until they time out, and leave
 * no room for others.
 */
#include "base/random.h"
#include "delivery/broker_backend.h"
#include "log/kafka/kafka_handle.h"
#include "log/kafka/log_kafka_once.h"
#include "sys/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TOPICS_MAX     64    /* maximum of topics whose look-up is remembered */
#define TOPIC_GOOD_MS  30000 /* time for which a successful look-up is trusted */
#define TOPIC_BAD_MS   1000
#define LOOK_UP_MS     1000 /* time limit of a look-up, during which the connection waits */
#define PROBE_PAUSE_MS 250  /* interval of probes of unreachable brokers */

enum { KAFKA_DEFAULTS = 7, KAFKA_LOGIN = 4 };

struct topic {
    char name[TARGET_PATH_SIZE_MAX + 1];
    struct instant good_until, bad_until;
    rd_kafka_resp_err_t error; /* result of the look-up, while the topic is bad */
};

struct kafka {
    const struct broker_settings *settings;
    struct kafka_setup setup;
    struct log_kafka_property defaults[KAFKA_DEFAULTS], login[KAFKA_LOGIN],
        parameters[BROKER_URL_PARAMETERS_MAX]; /* parameters of the setup that come from the URL */
    char queue_max[16];
    struct kafka_handle producer;
    int event_fd; /* readable when there are events */
    struct instant probe_at;
    struct topic topics[TOPICS_MAX];
};

static void kafka_version(char ret_text[BROKER_VERSION_SIZE])
{
    snprintf(ret_text, BROKER_VERSION_SIZE, "librdkafka %.32s", rd_kafka_version_str());
}

/* Returns why Kafka's rules forbid the topic's name; NULL if they allow it. */
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

/* ---- called by librdkafka, from rd_kafka_poll ---- */

static void kafka_on_report(void *context, const rd_kafka_message_t *message)
{
    struct kafka *kafka = context;
    uint64_t ticket = (uint64_t)(uintptr_t)message->_private;

    enum delivery_result result = DELIVERY_FAILED;
    switch (message->err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        kafka->producer.is_down = false;
        result = DELIVERY_DONE;
        break;
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    /* the topic was deleted, so it is looked up again */
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        memset(kafka->topics, 0, sizeof(kafka->topics));
        break;
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION: /* not a valid topic name */
        result = DELIVERY_ENDED;
        break;
    default: /* includes "too large", which may be about the batch and not this message */
        break;
    }
    broker_outcome(kafka->settings->sink, ticket, result,
                   result == DELIVERY_DONE ? "" : rd_kafka_err2str(message->err));
}

/* ---- settings ---- */

/* True for parameters that no URL may change, because the delivery guarantees depend on them. */
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

static void kafka_set_defaults(struct kafka *kafka)
{
    const struct broker_settings *settings = kafka->settings;
    const struct broker_url *url = settings->url;
    const struct log_kafka_property defaults[KAFKA_DEFAULTS] = {
        {"client.id", settings->client_name},
        {"enable.idempotence", "true"},
        {"acks", "all"},
        {"linger.ms", "1"},
        {"reconnect.backoff.max.ms", "1000"},
        /* no limit here, because the topic's own limit decides */
        {"message.max.bytes", "100000000"},
        {"queue.buffering.max.messages", kafka->queue_max},
    };
    const struct log_kafka_property login[KAFKA_LOGIN] = {
        {"sasl.username", url->user},
        {"sasl.password", url->password},
        /* A password is sent unencrypted only if the URL says so. */
        {"security.protocol", "sasl_ssl"},
        {"sasl.mechanism", "PLAIN"},
    };

    /* Messages that timed out here stay in librdkafka's queue until they are reported, so the queue
     * has room for twice the limit. */
    snprintf(kafka->queue_max, sizeof(kafka->queue_max), "%u", settings->inflight_max * 2);
    memcpy(kafka->defaults, defaults, sizeof(defaults));
    memcpy(kafka->login, login, sizeof(login));
    kafka->setup = (struct kafka_setup){
        .type = RD_KAFKA_PRODUCER,
        .brokers = url->hosts,
        .lists = {{kafka->defaults, KAFKA_DEFAULTS},
                  {kafka->login, *url->user ? KAFKA_LOGIN : 0},
                  {kafka->parameters, 0}},
        .context = kafka,
        .report = kafka_on_report,
        .event_fd = kafka->event_fd,
    };
}

static enum error_code kafka_set_parameters(struct kafka *kafka, struct error *ret_error)
{
    const struct broker_url *url = kafka->settings->url;

    if (*url->path)
        return error_set(ret_error, ERROR_INVALID, "it may have no path");
    for (size_t i = 0; i < url->parameter_count; i++) {
        const struct broker_parameter *parameter = &url->parameters[i];

        if (kafka_is_fixed(parameter->name))
            return error_set(ret_error, ERROR_INVALID, "%s: is not for the URL to set",
                             parameter->name);
        kafka->parameters[kafka->setup.lists[2].count++] =
            (struct log_kafka_property){parameter->name, parameter->value};
    }
    return kafka_setup_check(&kafka->setup, ret_error);
}

/* ---- create and destroy ---- */

static void kafka_destroy(void *client)
{
    struct kafka *kafka = client;

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
    kafka_set_defaults(kafka);
    const enum error_code code = kafka->event_fd < 0
                                     ? error_set(ret_error, ERROR_IO, "no descriptor left")
                                     : kafka_set_parameters(kafka, ret_error);
    if (code)
        kafka_destroy(kafka);
    else
        *ret_client = kafka;
    return code;
}

/* ---- the connection ---- */

static void kafka_disconnect(void *client)
{
    struct kafka *kafka = client;

    kafka_handle_close(&kafka->producer);
    memset(kafka->topics, 0, sizeof(kafka->topics));
}

static enum error_code kafka_connect_to_server(void *client, struct error *ret_error)
{
    struct kafka *kafka = client;

    kafka->producer.cause[0] = '\0';
    const enum error_code code = kafka_handle_open(&kafka->producer, &kafka->setup, ret_error);
    if (code)
        return code;
    const rd_kafka_resp_err_t error =
        kafka_handle_ask(&kafka->producer, NULL, kafka->settings->connect_timeout_ms);
    rd_kafka_poll(kafka->producer.client, 0); /* reads the events, which include the cause */
    kafka->producer.is_down = false;          /* the event may be about one of several addresses */
    if (!error)
        return ERROR_NONE;
    kafka_disconnect(kafka);
    return error_set(ret_error, ERROR_IO, "%.150s",
                     *kafka->producer.cause ? kafka->producer.cause : rd_kafka_err2str(error));
}

/* ---- topics ---- */

/* Asks the brokers whether the topic exists. */
static rd_kafka_resp_err_t kafka_look_up(struct kafka *kafka, const char *name)
{
    const rd_kafka_resp_err_t error = kafka_handle_ask(&kafka->producer, name, LOOK_UP_MS);

    /* The topic has just been created, and librdkafka waits until it is ready. */
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
    if (topic->error < 0) /* a negative code is librdkafka's own: no broker answered */
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

/* Returns false while no broker can be reached. Then no message is accepted, since it would only
 * wait until it times out. */
static bool kafka_is_reachable(struct kafka *kafka)
{
    struct instant now = instant_now();

    if (!kafka->producer.is_down)
        return true;
    if (now.ns < kafka->probe_at.ns)
        return false;
    kafka->producer.is_down = kafka_handle_ask(&kafka->producer, NULL, LOOK_UP_MS) != 0;
    kafka->probe_at = instant_add_ms(instant_now(), PROBE_PAUSE_MS);
    return !kafka->producer.is_down;
}

static rd_kafka_resp_err_t kafka_produce(struct kafka *kafka, uint64_t ticket,
                                         const struct broker_message *message)
{
    const struct kafka_message sent = {.topic = message->names[0].data,
                                       .partition = RD_KAFKA_PARTITION_UA,
                                       .key = message->key,
                                       .value = message->payload,
                                       .headers = message->fields,
                                       .header_count = message->field_count,
                                       .opaque = (void *)(uintptr_t)ticket};

    return kafka_handle_send(&kafka->producer, &sent);
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
    /* The message was not accepted. After a fatal error kafka_wait replaces the producer. */
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
    while (rd_kafka_poll(kafka->producer.client, 0) >
           0) /* Reads all events, because only the first of several makes event_fd readable. */
        ;
    char text[160];
    if (rd_kafka_fatal_error(kafka->producer.client, text, sizeof(text)))
        return error_set(ret_error, ERROR_IO, "%s", text);
    /* librdkafka keeps trying to send the messages in flight. If there are none, a new producer can
     * replace the one whose brokers are down. */
    if (kafka->producer.is_down && rd_kafka_outq_len(kafka->producer.client) == 0)
        return error_set(ret_error, ERROR_IO, "%s",
                         *kafka->producer.cause ? kafka->producer.cause : "all brokers are down");
    return ERROR_NONE;
}

static void kafka_stage(struct log_once *once, size_t index, const struct broker_message *message)
{
    const struct log_kafka_message staged = {
        .topic = message->names[0].data,
        .key = message->key,
        .value = message->payload,
        .headers = message->fields,
        .header_count = message->field_count,
    };

    log_kafka_once_put(once, index, &staged);
}

const struct broker_backend broker_kafka = {
    .scheme = "kafka",
    .version = kafka_version,
    .refusal = kafka_refusal,
    .create = kafka_create,
    .connect = kafka_connect_to_server,
    .publish = kafka_publish,
    .stage = kafka_stage,
    .wait = kafka_wait,
    .disconnect = kafka_disconnect,
    .destroy = kafka_destroy,
};
