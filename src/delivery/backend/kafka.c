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
#include "log/kafka/kafka_handle.h"
#include "sys/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TOPICS_MAX     64    /* whose look-up is remembered */
#define TOPIC_GOOD_MS  30000 /* how long it is trusted */
#define TOPIC_BAD_MS   1000
#define LOOK_UP_MS     1000 /* time limit of a look-up, during which the connection waits */
#define PROBE_PAUSE_MS 250  /* interval of probes of unreachable brokers */

enum { KAFKA_DEFAULTS = 7, KAFKA_LOGIN = 4 };

struct topic {
    char name[TARGET_PATH_SIZE_MAX + 1];
    struct instant good_until, bad_until;
    rd_kafka_resp_err_t error; /* valid while the topic is bad */
};

struct kafka {
    const struct broker_settings *settings;
    struct kafka_setup setup;
    struct log_kafka_property defaults[KAFKA_DEFAULTS], login[KAFKA_LOGIN],
        parameters[BROKER_URL_PARAMETERS_MAX]; /* of the setup */
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

/* ---- settings ---- */

/* What the promises stand on is not for the URL to change. */
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
        {"message.max.bytes", "100000000"}, /* the topic's own limit decides */
        {"queue.buffering.max.messages", kafka->queue_max},
    };
    const struct log_kafka_property login[KAFKA_LOGIN] = {
        {"sasl.username", url->user},
        {"sasl.password", url->password},
        /* A password is not sent in the clear unless the URL says so. */
        {"security.protocol", "sasl_ssl"},
        {"sasl.mechanism", "PLAIN"},
    };

    /* Room for as many again whose time was over before their report came. */
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

        if (strcmp(parameter->name, "exactly_once") == 0) { /* brokers.c */
            if (strcmp(parameter->value, "true") != 0 && strcmp(parameter->value, "false") != 0)
                return error_set(ret_error, ERROR_INVALID, "exactly_once: is true or false");
            continue;
        }
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
    rd_kafka_poll(kafka->producer.client, 0); /* the cause is among the events */
    kafka->producer.is_down = false;          /* one of several addresses may have been */
    if (!error)
        return ERROR_NONE;
    kafka_disconnect(kafka);
    return error_set(ret_error, ERROR_IO, "%.150s",
                     *kafka->producer.cause ? kafka->producer.cause : rd_kafka_err2str(error));
}

/* ---- topics ---- */

/* Asks the brokers for the topic. */
static rd_kafka_resp_err_t kafka_look_up(struct kafka *kafka, const char *name)
{
    const rd_kafka_resp_err_t error = kafka_handle_ask(&kafka->producer, name, LOOK_UP_MS);

    /* It was made a moment ago: librdkafka waits for that. */
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
    while (rd_kafka_poll(kafka->producer.client, 0) >
           0) /* to the end: only the first of many wakes us */
        ;
    char text[160];
    if (rd_kafka_fatal_error(kafka->producer.client, text, sizeof(text)))
        return error_set(ret_error, ERROR_IO, "%s", text);
    /* Messages under way are left to librdkafka; without any, a new producer is as good. */
    if (kafka->producer.is_down && rd_kafka_outq_len(kafka->producer.client) == 0)
        return error_set(ret_error, ERROR_IO, "%s",
                         *kafka->producer.cause ? kafka->producer.cause : "all brokers are down");
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
