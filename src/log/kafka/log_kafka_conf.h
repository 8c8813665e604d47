/*
 * log_kafka_conf.h - the settings of librdkafka that all clients of a partition's log share.
 *
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_LOG_KAFKA_LOG_KAFKA_CONF_H
#define TICKWHEEL_LOG_KAFKA_LOG_KAFKA_CONF_H

#include "log/kafka/log_kafka.h"

#include <librdkafka/rdkafka.h>

enum error_code log_kafka_set(rd_kafka_conf_t *conf, const struct log_kafka_property *properties,
                              size_t count, struct error *ret_error);

/* Sets the properties of the options, and the fixed ones. */
enum error_code log_kafka_set_common(rd_kafka_conf_t *conf, const struct log_kafka_options *options,
                                     struct error *ret_error);

/* Drops a line that librdkafka would log. Errors are reported by reports, records and callbacks. */
void log_kafka_drop(const rd_kafka_t *client, int level, const char *facility, const char *text);

/* Copies librdkafka's text of an error without the parts that change each time. */
void log_kafka_reason(const char *reason, char *ret_text, size_t size);

#endif
