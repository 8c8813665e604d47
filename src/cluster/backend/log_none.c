/* log_none.c - in place of log_kafka.c and topics_kafka.c, where librdkafka is not there. */
#include "cluster/backend/log_kafka_once.h"
#include "cluster/backend/topics_kafka.h"

static enum error_code log_none_refuse(struct error *ret_error)
{
    return error_set(ret_error, ERROR_INVALID,
                     "cluster_brokers: this program was built without librdkafka");
}

enum error_code topics_kafka_create(const struct topics_kafka_options *options,
                                    struct topics_kafka_report *ret_report, struct error *ret_error)
{
    (void)options, (void)ret_report;
    return log_none_refuse(ret_error);
}

enum error_code topics_kafka_check(const struct topics_kafka_options *options,
                                   struct topics_kafka_report *ret_report, struct error *ret_error)
{
    (void)options, (void)ret_report;
    return log_none_refuse(ret_error);
}

enum error_code topics_kafka_change_secret(const struct topics_kafka_options *options,
                                           struct error *ret_error)
{
    (void)options;
    return log_none_refuse(ret_error);
}

enum error_code topics_kafka_identify(const struct topics_kafka_options *options,
                                      uint64_t *ret_cluster, struct founding *ret_founding,
                                      struct error *ret_error)
{
    (void)options, (void)ret_cluster, (void)ret_founding;
    return log_none_refuse(ret_error);
}

enum error_code log_kafka_open(const struct log_kafka_options *options, struct log_kafka **ret_log,
                               struct error *ret_error)
{
    (void)options, (void)ret_log;
    return log_none_refuse(ret_error);
}

void log_kafka_close(struct log_kafka *log)
{
    (void)log;
}

enum error_code log_kafka_follow(struct log_kafka *log, uint64_t offset, struct error *ret_error)
{
    (void)log, (void)offset;
    return error_set(ret_error, ERROR_INVALID, "no log");
}

enum error_code log_kafka_follow_begin(struct log_kafka *log, struct error *ret_error)
{
    (void)log;
    return error_set(ret_error, ERROR_INVALID, "no log");
}

enum error_code log_kafka_trim(struct log_kafka *log, uint64_t before, struct error *ret_error)
{
    (void)log, (void)before;
    return error_set(ret_error, ERROR_INVALID, "no log");
}

enum error_code log_kafka_follow_end(struct log_kafka *log, uint64_t count, struct error *ret_error)
{
    (void)log, (void)count;
    return error_set(ret_error, ERROR_INVALID, "no log");
}

enum error_code log_kafka_append(struct log_kafka *log, uint64_t ticket, struct bytes bytes,
                                 struct error *ret_error)
{
    (void)log, (void)ticket, (void)bytes;
    return error_set(ret_error, ERROR_INVALID, "no log");
}

enum log_kafka_trouble log_kafka_trouble(const struct log_kafka *log, char *ret_text, size_t size)
{
    (void)log, (void)ret_text, (void)size;
    return LOG_KAFKA_FINE;
}

void log_kafka_wake(struct log_kafka *log)
{
    (void)log;
}

enum log_kafka_kind log_kafka_wait(struct log_kafka *log, uint64_t timeout_ms,
                                   struct log_kafka_event *ret_event)
{
    (void)log, (void)timeout_ms;
    *ret_event = (struct log_kafka_event){.kind = LOG_KAFKA_NOTHING};
    return LOG_KAFKA_NOTHING;
}

enum error_code log_kafka_once_open(const struct log_kafka_once_options *options,
                                    struct log_kafka_once **ret_once, struct error *ret_error)
{
    (void)options, (void)ret_once;
    return log_none_refuse(ret_error);
}

void log_kafka_once_close(struct log_kafka_once *once)
{
    (void)once;
}

enum error_code log_kafka_once_begin(struct log_kafka_once *once, struct error *ret_error)
{
    (void)once;
    return error_set(ret_error, ERROR_INVALID, "no log");
}

void log_kafka_once_put(struct log_kafka_once *once, size_t index,
                        const struct log_kafka_message *message)
{
    (void)once, (void)index, (void)message;
}

bool log_kafka_once_settle(struct log_kafka_once *once, struct log_kafka_report *reports,
                           size_t count)
{
    (void)once, (void)reports, (void)count;
    return false;
}

enum error_code log_kafka_once_commit(struct log_kafka_once *once,
                                      const struct log_kafka_commit *commit, uint64_t *ret_offset,
                                      struct error *ret_error)
{
    (void)once, (void)commit, (void)ret_offset;
    return error_set(ret_error, ERROR_INVALID, "no log");
}
