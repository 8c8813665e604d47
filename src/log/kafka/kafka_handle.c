/* kafka_handle.c - handles of librdkafka; see kafka_handle.h. */
#include "log/kafka/kafka_handle.h"

#include <stdio.h>

/* RD_KAFKA_V_KEY casts const away. */
#pragma GCC diagnostic ignored "-Wcast-qual"

/* Time in which a broker answers a request, or takes a connection, in milliseconds. The requests of
 * a stopped broker are sent again, to the new leader once there is one. librdkafka looks
 * once a second. */
#define KAFKA_ANSWER_MS "1500"

struct kafka_list kafka_quick(void)
{
    static const struct log_kafka_property quick[] = {
        {"socket.nagle.disable", "true"},
        {"socket.timeout.ms", KAFKA_ANSWER_MS},
        {"socket.connection.setup.timeout.ms", KAFKA_ANSWER_MS},
        {"reconnect.backoff.ms", "50"},
        {"reconnect.backoff.max.ms", "500"},
        {"topic.metadata.refresh.fast.interval.ms", "50"},
    };

    return (struct kafka_list){quick, sizeof(quick) / sizeof(quick[0])};
}

/* ---- settings ---- */

/* The texts of librdkafka are not shown, for they quote the value, which may be a password. */
static enum error_code kafka_handle_set(rd_kafka_conf_t *conf,
                                        const struct log_kafka_property *property,
                                        struct error *ret_error)
{
    switch (rd_kafka_conf_set(conf, property->name, property->value, NULL, 0)) {
    case RD_KAFKA_CONF_OK:
        return ERROR_NONE;
    case RD_KAFKA_CONF_UNKNOWN:
        return error_set(ret_error, ERROR_INVALID, "%.60s: librdkafka has no such property",
                         property->name);
    default:
        return error_set(ret_error, ERROR_INVALID, "%.60s: librdkafka does not take this value",
                         property->name);
    }
}

static enum error_code kafka_handle_configure(const struct kafka_setup *setup,
                                              rd_kafka_conf_t *conf, struct error *ret_error)
{
    const struct log_kafka_property last[] = {
        {"bootstrap.servers", setup->brokers},
        {"log.connection.close", "false"},
    };
    enum error_code code = ERROR_NONE;

    for (size_t k = 0; k < KAFKA_LISTS; k++)
        for (size_t i = 0; i < setup->lists[k].count && !code; i++)
            code = kafka_handle_set(conf, &setup->lists[k].properties[i], ret_error);
    for (size_t i = 0; i < sizeof(last) / sizeof(last[0]) && !code; i++)
        code = kafka_handle_set(conf, &last[i], ret_error);
    return code;
}

enum error_code kafka_setup_check(const struct kafka_setup *setup, struct error *ret_error)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    const enum error_code code = kafka_handle_configure(setup, conf, ret_error);

    rd_kafka_conf_destroy(conf);
    return code;
}

/* ---- what librdkafka reports ---- */

/* Writes what librdkafka says of an error, without the parts that change each time. */
static void kafka_handle_reason(const char *reason, char *ret_text, size_t size)
{
    if (strstr(reason, "ApiVersionRequest failed")) { /* librdkafka suspects an old broker */
        snprintf(ret_text, size, "it takes connections and is silent");
        return;
    }
    const char *end = strstr(reason, " (after "); /* how long it took changes each time */
    const char *begin = strstr(reason, ": Connect to ");

    begin = begin ? begin + 2 : reason;
    snprintf(ret_text, size, "%.*s", end ? (int)(end - begin) : (int)strlen(begin), begin);
}

static void kafka_handle_on_error(rd_kafka_t *client, int error, const char *reason, void *context)
{
    struct kafka_handle *handle = context;

    (void)client;
    if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        handle->is_down = true;
    else
        kafka_handle_reason(reason, handle->cause, sizeof(handle->cause));
}

static void kafka_handle_on_report(rd_kafka_t *client, const rd_kafka_message_t *message,
                                   void *context)
{
    const struct kafka_handle *handle = context;

    (void)client;
    handle->report_(handle->context_, message);
}

/* Drops a line that librdkafka would log: errors come by reports, records and on_error. */
static void kafka_handle_on_log(const rd_kafka_t *client, int level, const char *facility,
                                const char *text)
{
    (void)client, (void)level, (void)facility, (void)text;
}

/* ---- queues ---- */

void kafka_queue_watch(rd_kafka_queue_t *queue, int event_fd)
{
    rd_kafka_queue_io_event_enable(queue, event_fd, &(uint64_t){1}, sizeof(uint64_t));
}

void kafka_queue_close(rd_kafka_queue_t *queue)
{
    if (!queue)
        return;
    rd_kafka_queue_io_event_enable(queue, -1, NULL, 0);
    rd_kafka_queue_destroy(queue);
}

/* ---- open and close ---- */

/* Errors of a consumer would stay in its main queue, which nobody polls. */
static void kafka_handle_listen(struct kafka_handle *handle, const struct kafka_setup *setup,
                                rd_kafka_conf_t *conf)
{
    rd_kafka_conf_set_opaque(conf, handle);
    rd_kafka_conf_set_log_cb(conf, kafka_handle_on_log);
    if (setup->type == RD_KAFKA_PRODUCER)
        rd_kafka_conf_set_error_cb(conf, kafka_handle_on_error);
    if (setup->report)
        rd_kafka_conf_set_dr_msg_cb(conf, kafka_handle_on_report);
}

enum error_code kafka_handle_open(struct kafka_handle *handle, const struct kafka_setup *setup,
                                  struct error *ret_error)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char text[160] = "";

    handle->context_ = setup->context;
    handle->report_ = setup->report;
    enum error_code code = kafka_handle_configure(setup, conf, ret_error);
    kafka_handle_listen(handle, setup, conf);
    if (!code) {
        handle->client = rd_kafka_new(setup->type, conf, text, sizeof(text)); /* takes conf */
        if (!handle->client)
            code = error_set(ret_error, ERROR_IO, "librdkafka: %.140s", text);
    }
    if (code) {
        rd_kafka_conf_destroy(conf);
        return code;
    }
    if (setup->event_fd > 0) {
        handle->events_ = rd_kafka_queue_get_main(handle->client);
        kafka_queue_watch(handle->events_, setup->event_fd);
    }
    return ERROR_NONE;
}

void kafka_handle_close(struct kafka_handle *handle)
{
    if (!handle->client)
        return;
    kafka_queue_close(handle->events_);
    rd_kafka_purge(handle->client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_destroy(handle->client);
    handle->client = NULL;
    handle->events_ = NULL;
}

/* ---- calls ---- */

static rd_kafka_headers_t *kafka_handle_headers(const struct kafka_message *message)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(message->header_count);

    for (size_t i = 0; i < message->header_count; i++)
        rd_kafka_header_add(headers, message->headers[i].name, -1, message->headers[i].value.data,
                            (ssize_t)message->headers[i].value.size);
    return headers;
}

rd_kafka_resp_err_t kafka_handle_send(struct kafka_handle *handle,
                                      const struct kafka_message *message)
{
    rd_kafka_headers_t *headers = message->header_count ? kafka_handle_headers(message) : NULL;
    const rd_kafka_resp_err_t error = rd_kafka_producev(
        handle->client, RD_KAFKA_V_TOPIC(message->topic), RD_KAFKA_V_PARTITION(message->partition),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_KEY(message->key.data, message->key.size),
        RD_KAFKA_V_VALUE((void *)(uintptr_t)message->value.data, message->value.size),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(message->opaque), RD_KAFKA_V_END);

    if (error && headers)
        rd_kafka_headers_destroy(headers);
    return error;
}

rd_kafka_resp_err_t kafka_handle_ask(struct kafka_handle *handle, const char *topic,
                                     uint64_t timeout_ms)
{
    rd_kafka_topic_t *asked = topic ? rd_kafka_topic_new(handle->client, topic, NULL) : NULL;
    const struct rd_kafka_metadata *metadata;

    if (topic && !asked)
        return rd_kafka_last_error();
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(handle->client, 0, asked, &metadata, (int)timeout_ms);
    if (asked)
        rd_kafka_topic_destroy(asked);
    if (error)
        return error;
    if (asked && metadata->topic_cnt == 1)
        error = metadata->topics[0].err;
    rd_kafka_metadata_destroy(metadata);
    return error;
}
