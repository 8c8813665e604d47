/* topics_none.c - in place of topics_kafka.c, where librdkafka is not there. */
#include "cluster/kafka/topics_kafka.h"

static enum error_code topics_none_refuse(struct error *ret_error)
{
    return error_set(ret_error, ERROR_INVALID,
                     "cluster_brokers: this program was built without librdkafka");
}

enum error_code topics_kafka_create(const struct topics_kafka_options *options,
                                    struct topics_kafka_report *ret_report, struct error *ret_error)
{
    (void)options, (void)ret_report;
    return topics_none_refuse(ret_error);
}

enum error_code topics_kafka_check(const struct topics_kafka_options *options,
                                   struct topics_kafka_report *ret_report, struct error *ret_error)
{
    (void)options, (void)ret_report;
    return topics_none_refuse(ret_error);
}

enum error_code topics_kafka_change_secret(const struct topics_kafka_options *options,
                                           struct error *ret_error)
{
    (void)options;
    return topics_none_refuse(ret_error);
}

enum error_code topics_kafka_identify(const struct topics_kafka_options *options,
                                      uint64_t *ret_cluster, struct founding *ret_founding,
                                      struct error *ret_error)
{
    (void)options, (void)ret_cluster, (void)ret_founding;
    return topics_none_refuse(ret_error);
}
