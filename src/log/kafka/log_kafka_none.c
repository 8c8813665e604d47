/* log_kafka_none.c - in place of the log on Kafka, where librdkafka is not there. */
#include "log/kafka/log_kafka_once.h"

static enum error_code log_none_refuse(struct error *ret_error)
{
    return error_set(ret_error, ERROR_INVALID,
                     "cluster_brokers: this program was built without librdkafka");
}

enum error_code log_kafka_open(const struct log_kafka_options *options, struct log **ret_log,
                               struct error *ret_error)
{
    (void)options, (void)ret_log;
    return log_none_refuse(ret_error);
}

enum error_code log_kafka_client_open(const struct log_kafka_options *options,
                                      struct log_kafka_client **ret_client, struct error *ret_error)
{
    (void)options, (void)ret_client;
    return log_none_refuse(ret_error);
}

void log_kafka_client_close(struct log_kafka_client *client)
{
    (void)client;
}

void log_kafka_client_poll(struct log_kafka_client *client)
{
    (void)client;
}

int log_kafka_client_fd(const struct log_kafka_client *client)
{
    (void)client;
    return -1;
}

enum error_code log_kafka_once_open(const struct log_kafka_once_options *options,
                                    struct log_once **ret_once, struct error *ret_error)
{
    (void)options, (void)ret_once;
    return log_none_refuse(ret_error);
}

void log_kafka_once_put(struct log_once *once, size_t index,
                        const struct log_kafka_message *message)
{
    (void)once, (void)index, (void)message;
}
