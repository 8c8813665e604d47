/*
 * topics_kafka.c - the topics of a cluster, by librdkafka's calls for administrators; see
 * topics_kafka.h and the table in docs/cluster-design.md.
 */
#include "cluster/kafka/topics_kafka.h"

#include "log/kafka/kafka_handle.h"
#include "cluster/founding_log.h"
#include "cluster/frame.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    TOPICS_KAFKA_POLL_MS = 100,
    /* time limit of an answer; then the cause is reported, and the request repeated */
    TOPICS_KAFKA_LOOK_MS = 1500,
    TOPICS_KAFKA_ANSWER_MS = 3000, /* time limit of a question for settings */
    TOPICS_KAFKA_NAME_SIZE = 250,
};

/* Settings that a topic needs; `at_least`: a larger number is accepted. */
static const struct topics_kafka_setting {
    const char *name, *value;
    bool at_least;
    const char *danger;
} topics_kafka_settings[] = {
    {"cleanup.policy", "delete", false, "compaction deletes records of live timers"},
    {"retention.ms", "-1", false, "timers are lost when their records are too old"},
    {"retention.bytes", "-1", false, "timers are lost when the topic is too large"},
    {"min.insync.replicas", "2", true, "what is acknowledged may lie on one broker only"},
    {"unclean.leader.election.enable", "false", false,
     "a broker that lacks acknowledged records may become the leader"},
    {"message.timestamp.type", "LogAppendTime", false,
     "the clocks of the nodes cannot be compared with those of the brokers"},
    {"flush.messages", "1", false,
     "what is acknowledged is lost when all brokers lose their power"},
    {"max.message.bytes", "1000000", true, "large commits are refused"},
};

/* Size of a segment, because brokers delete only whole segments of trimmed records. */
#define TOPICS_KAFKA_SEGMENT_BYTES "67108864"

enum { TOPICS_KAFKA_SETTINGS = sizeof(topics_kafka_settings) / sizeof(topics_kafka_settings[0]) };

struct topics_kafka {
    const struct topics_kafka_options *options;
    struct topics_kafka_report report;
    struct kafka_handle handle;
    rd_kafka_queue_t *queue;
    struct instant until; /* deadline of the step */
    char names[2][TOPICS_KAFKA_NAME_SIZE];
    char control_name[TOPICS_KAFKA_NAME_SIZE + 6]; /* for texts */
    uint16_t counts[2];
    bool is_there[2];
    uint32_t replicas[2];
    struct founding founding; /* first founding in the log, if it was only read */
    char reason[300];         /* reason last reported to options->waits */
};

static void topics_kafka_need(const struct topics_kafka_setting *setting, uint32_t replica_count,
                              char ret_value[16])
{
    const bool is_alone = replica_count < 2 && strcmp(setting->name, "min.insync.replicas") == 0;

    snprintf(ret_value, 16, "%s", is_alone ? "1" : setting->value);
}

enum error_code topics_kafka_judge(const char *topic, uint32_t replica_count, const char *name,
                                   const char *value, struct error *ret_error)
{
    for (size_t i = 0; i < TOPICS_KAFKA_SETTINGS; i++) {
        const struct topics_kafka_setting *setting = &topics_kafka_settings[i];
        char needed[16];

        if (strcmp(name, setting->name) != 0)
            continue;
        topics_kafka_need(setting, replica_count, needed);
        if (setting->at_least ? strtoll(value, NULL, 10) >= strtoll(needed, NULL, 10)
                              : strcmp(value, needed) == 0)
            return ERROR_NONE;
        return error_set(ret_error, ERROR_INVALID, "topic %.60s: %s is %.30s and must be %s%s: %s",
                         topic, name, value, setting->at_least ? "at least " : "", needed,
                         setting->danger);
    }
    return ERROR_NONE;
}

/* ---- the client ---- */

static void topics_kafka_tell(struct topics_kafka *topics, const char *reason)
{
    if (!topics->options->waits || strcmp(topics->reason, reason) == 0)
        return;
    snprintf(topics->reason, sizeof(topics->reason), "%s", reason);
    topics->options->waits(topics->options->context, reason);
}

static uint32_t topics_kafka_wanted(const struct topics_kafka *topics)
{
    const uint32_t count = topics->options->replica_count;

    return count ? count : TOPICS_KAFKA_REPLICAS;
}

static enum error_code topics_kafka_open(struct topics_kafka *topics, struct error *ret_error)
{
    const struct topics_kafka_options *options = topics->options;
    const struct kafka_setup setup = {
        .type = RD_KAFKA_PRODUCER,
        .brokers = options->brokers,
        .lists = {{options->properties, options->property_count}},
    };
    const enum error_code code = kafka_handle_open(&topics->handle, &setup, ret_error);

    if (!code)
        topics->queue = rd_kafka_queue_new(topics->handle.client);
    return code;
}

static void topics_kafka_close(struct topics_kafka *topics)
{
    kafka_queue_close(topics->queue);
    kafka_handle_close(&topics->handle);
}

static void topics_kafka_begin_step(struct topics_kafka *topics)
{
    topics->until = instant_add_ms(instant_now(), TOPICS_KAFKA_WAIT_MS);
}

static bool topics_kafka_stops(const struct topics_kafka *topics)
{
    return topics->options->stops && atomic_load(topics->options->stops);
}

/* Returns the answer to an administrator's request; NULL if none came in time. */
static rd_kafka_event_t *topics_kafka_answer(struct topics_kafka *topics)
{
    const struct instant until = instant_add_ms(instant_now(), 2 * TOPICS_KAFKA_WAIT_MS);
    rd_kafka_event_t *event = NULL;

    while (!event && !topics_kafka_stops(topics) && instant_now().ns < until.ns)
        event = rd_kafka_queue_poll(topics->queue, TOPICS_KAFKA_POLL_MS);
    return event;
}

/* Waits for the next attempt. Returns false if the time is over. */
static bool topics_kafka_try_again(struct topics_kafka *topics)
{
    rd_kafka_poll(topics->handle.client, TOPICS_KAFKA_POLL_MS);
    return instant_now().ns < topics->until.ns && !topics_kafka_stops(topics);
}

/* ---- which topics there are ---- */

static enum error_code topics_kafka_take_topic(struct topics_kafka *topics, size_t which,
                                               const rd_kafka_metadata_topic_t *topic,
                                               struct error *ret_error)
{
    const char *name = topics->names[which];

    if (topic->partition_cnt == 0 || topic->err)
        return error_set(ret_error, ERROR_IO, "topic %.100s: %.80s", name,
                         rd_kafka_err2str(topic->err));
    if (topic->partition_cnt != topics->counts[which])
        return error_set(ret_error, ERROR_INVALID,
                         "topic %.100s has %d partitions, and the cluster %u: timers would be "
                         "looked for in other partitions",
                         name, topic->partition_cnt, topics->counts[which]);
    topics->replicas[which] = UINT32_MAX;
    for (int i = 0; i < topic->partition_cnt; i++) {
        if (topic->partitions[i].leader < 0)
            return error_set(ret_error, ERROR_IO, "topic %.100s: partition %d has no leader", name,
                             i);
        if ((uint32_t)topic->partitions[i].replica_cnt < topics->replicas[which])
            topics->replicas[which] = (uint32_t)topic->partitions[i].replica_cnt;
    }
    topics->is_there[which] = true;
    return ERROR_NONE;
}

/* Asks for the metadata until the deadline of the step. It lists all topics, because a question
 * for one by name may create it. */
static enum error_code topics_kafka_ask(struct topics_kafka *topics,
                                        const struct rd_kafka_metadata **ret_metadata,
                                        struct error *ret_error)
{
    for (;;) {
        const rd_kafka_resp_err_t failure =
            rd_kafka_metadata(topics->handle.client, 1, NULL, ret_metadata, TOPICS_KAFKA_LOOK_MS);
        struct error error;

        if (!failure)
            return ERROR_NONE;
        rd_kafka_poll(topics->handle.client, 0);
        error_set(&error, ERROR_IO, "no broker answers at %.80s: %.120s", topics->options->brokers,
                  *topics->handle.cause ? topics->handle.cause : rd_kafka_err2str(failure));
        topics_kafka_tell(topics, error.text);
        if (!topics_kafka_try_again(topics))
            return error_set(ret_error, ERROR_IO, "%s", error.text);
    }
}

static enum error_code topics_kafka_look(struct topics_kafka *topics, struct error *ret_error)
{
    const struct rd_kafka_metadata *metadata;
    enum error_code code = topics_kafka_ask(topics, &metadata, ret_error);

    if (code)
        return code;
    topics->report.broker_count = (uint32_t)metadata->broker_cnt;
    for (size_t which = 0; which < 2; which++) {
        topics->is_there[which] = false;
        for (int i = 0; i < metadata->topic_cnt && !code; i++)
            if (strcmp(metadata->topics[i].topic, topics->names[which]) == 0)
                code = topics_kafka_take_topic(topics, which, &metadata->topics[i], ret_error);
    }
    rd_kafka_metadata_destroy(metadata);
    return code;
}

/* Waits until there are as many brokers as replicas. */
static enum error_code topics_kafka_await_brokers(struct topics_kafka *topics,
                                                  struct error *ret_error)
{
    const uint32_t wanted = topics_kafka_wanted(topics);

    topics->until = instant_add_ms(instant_now(), TOPICS_KAFKA_BROKERS_MS);
    for (;;) {
        const enum error_code code = topics_kafka_look(topics, ret_error);
        struct error error;

        if (code != ERROR_IO && (code || topics->report.broker_count >= wanted))
            return code;
        error_set(
            &error, ERROR_IO,
            "%u of the %u brokers that cluster_replicas needs are there: start the others, or "
            "set cluster_replicas",
            topics->report.broker_count, wanted);
        if (!code)
            topics_kafka_tell(topics, error.text);
        if (!topics_kafka_try_again(topics))
            return code ? code : error_set(ret_error, ERROR_IO, "%s", error.text);
    }
}

/* Waits until new topics have leaders. */
static enum error_code topics_kafka_await(struct topics_kafka *topics, struct error *ret_error)
{
    enum error_code code;

    topics_kafka_begin_step(topics);
    do {
        code = topics_kafka_look(topics, ret_error);
        if (code == ERROR_NONE && topics->is_there[0] && topics->is_there[1])
            return code;
    } while ((code == ERROR_NONE || code == ERROR_IO) && topics_kafka_try_again(topics));
    return code ? code
                : error_set(ret_error, ERROR_NOT_FOUND,
                            "the brokers do not have the topics %.60s "
                            "and %.60s: tickwheeld --cluster-create makes them",
                            topics->names[0], topics->names[1]);
}

/* ---- making them ---- */

static enum error_code topics_kafka_make(struct topics_kafka *topics, size_t which,
                                         struct error *ret_error)
{
    const uint32_t replicas = topics_kafka_wanted(topics);
    char text[160] = "";
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(topics->names[which], topics->counts[which],
                                                       (int)replicas, text, sizeof(text));

    if (!topic)
        return error_set(ret_error, ERROR_INVALID, "topic %.60s: %.120s", topics->names[which],
                         text);
    for (size_t i = 0; i < TOPICS_KAFKA_SETTINGS; i++) {
        char value[16];
        topics_kafka_need(&topics_kafka_settings[i], replicas, value);
        if (strcmp(topics_kafka_settings[i].name, "max.message.bytes") != 0)
            rd_kafka_NewTopic_set_config(topic, topics_kafka_settings[i].name, value);
    }
    rd_kafka_NewTopic_set_config(topic, "segment.bytes", TOPICS_KAFKA_SEGMENT_BYTES);
    rd_kafka_CreateTopics(topics->handle.client, &topic, 1, NULL, topics->queue);
    rd_kafka_event_t *event = topics_kafka_answer(topics);
    rd_kafka_NewTopic_destroy(topic);
    rd_kafka_resp_err_t failure =
        event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (!failure) {
        size_t count;
        const rd_kafka_topic_result_t **results =
            rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
        failure = count == 1 ? rd_kafka_topic_result_error(results[0]) : RD_KAFKA_RESP_ERR__FAIL;
        if (failure && count == 1 && rd_kafka_topic_result_error_string(results[0]))
            snprintf(text, sizeof(text), "%s", rd_kafka_topic_result_error_string(results[0]));
    }
    enum error_code code = ERROR_NONE;
    if (failure && failure != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        code = error_set(ret_error, ERROR_IO, "topic %.60s was not made: %.150s",
                         topics->names[which], *text ? text : rd_kafka_err2str(failure));
    if (event)
        rd_kafka_event_destroy(event);
    return code;
}

/* ---- their settings ---- */

static enum error_code topics_kafka_judge_all(const struct topics_kafka *topics, size_t which,
                                              const rd_kafka_event_t *event,
                                              struct error *ret_error)
{
    size_t count, entry_count, judged = 0;
    const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(
        rd_kafka_event_DescribeConfigs_result((rd_kafka_event_t *)(uintptr_t)event), &count);

    if (count != 1 || rd_kafka_ConfigResource_error(resources[0]))
        return error_set(ret_error, ERROR_IO, "topic %.60s: %.100s", topics->names[which],
                         count == 1 ? rd_kafka_ConfigResource_error_string(resources[0]) : "?");
    const rd_kafka_ConfigEntry_t **entries =
        rd_kafka_ConfigResource_configs(resources[0], &entry_count);
    for (size_t i = 0; i < entry_count; i++) {
        const char *name = rd_kafka_ConfigEntry_name(entries[i]);
        const char *value = rd_kafka_ConfigEntry_value(entries[i]);
        const enum error_code code = topics_kafka_judge(
            topics->names[which], topics->replicas[which], name, value ? value : "", ret_error);
        if (code)
            return code;
        for (size_t k = 0; k < TOPICS_KAFKA_SETTINGS; k++)
            judged += strcmp(name, topics_kafka_settings[k].name) == 0;
    }
    if (judged < TOPICS_KAFKA_SETTINGS)
        return error_set(ret_error, ERROR_INVALID,
                         "topic %.60s: the brokers do not tell all of its settings",
                         topics->names[which]);
    return ERROR_NONE;
}

/* Sends the question with a time limit. The client sends it to the broker that it takes for the
 * controller, and waits for that one: if it has died, only new metadata names another. */
static void topics_kafka_ask_settings(struct topics_kafka *topics, size_t which)
{
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topics->names[which]);
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(topics->handle.client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    char text[128];

    rd_kafka_AdminOptions_set_request_timeout(options, TOPICS_KAFKA_ANSWER_MS, text, sizeof(text));
    rd_kafka_DescribeConfigs(topics->handle.client, &resource, 1, options, topics->queue);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy(resource);
}

static enum error_code topics_kafka_describe(struct topics_kafka *topics, size_t which,
                                             struct error *ret_error)
{
    enum error_code code;

    topics_kafka_begin_step(topics);
    do {
        topics_kafka_ask_settings(topics, which);
        rd_kafka_event_t *event = topics_kafka_answer(topics);
        if (!event || rd_kafka_event_error(event))
            code = error_set(ret_error, ERROR_IO, "topic %.60s: %.100s", topics->names[which],
                             event ? rd_kafka_event_error_string(event) : "no answer");
        else
            code = topics_kafka_judge_all(topics, which, event, ret_error);
        if (event)
            rd_kafka_event_destroy(event);
        if (code == ERROR_IO) {
            topics_kafka_tell(topics, ret_error->text);
            topics_kafka_look(topics, NULL); /* refreshes the metadata */
        }
    } while (code == ERROR_IO && topics_kafka_try_again(topics));
    return code;
}

/* Refuses topics with fewer replicas than the brokers could hold. Warns if there are fewer than
 * three brokers. */
static enum error_code topics_kafka_check_replicas(struct topics_kafka *topics,
                                                   struct error *ret_error)
{
    struct topics_kafka_report *report = &topics->report;
    const uint32_t needed = topics_kafka_wanted(topics);
    const uint32_t wanted = report->broker_count < needed ? report->broker_count : needed;

    report->replica_count =
        topics->replicas[0] < topics->replicas[1] ? topics->replicas[0] : topics->replicas[1];
    for (size_t which = 0; which < 2; which++)
        if (topics->replicas[which] < wanted)
            return error_set(ret_error, ERROR_INVALID,
                             "topic %.60s has %u replicas on %u brokers: timers are lost, or stand "
                             "still, with one of them",
                             topics->names[which], topics->replicas[which], report->broker_count);
    if (report->replica_count < 2)
        snprintf(report->warning, sizeof(report->warning),
                 "each record lies on one broker: all timers are lost with it");
    else if (report->replica_count < TOPICS_KAFKA_REPLICAS)
        snprintf(report->warning, sizeof(report->warning),
                 "each record lies on two brokers: while one of them is away, nothing is "
                 "acknowledged and no timer is delivered");
    return ERROR_NONE;
}

/* ---- the founding record ---- */

enum topics_kafka_step { TOPICS_KAFKA_CHECK, TOPICS_KAFKA_CREATE };

static struct log_kafka_options topics_kafka_control(const struct topics_kafka *topics)
{
    return (struct log_kafka_options){
        .brokers = topics->options->brokers,
        .topic = topics->names[1],
        .append_timeout_ms = TOPICS_KAFKA_WAIT_MS,
        .properties = topics->options->properties,
        .property_count = topics->options->property_count,
    };
}

static struct founding_log topics_kafka_founding_log(const struct topics_kafka *topics,
                                                     struct log *log)
{
    return (struct founding_log){
        .log = log,
        .name = topics->control_name,
        .partition_count = topics->options->partition_count,
        .secret = topics->options->secret,
        .wait_ms = TOPICS_KAFKA_WAIT_MS,
        .stops = topics->options->stops,
    };
}

static enum error_code topics_kafka_founding(struct topics_kafka *topics,
                                             enum topics_kafka_step step, struct error *ret_error)
{
    const struct log_kafka_options options = topics_kafka_control(topics);
    struct topics_kafka_report *report = &topics->report;
    struct log *log;
    enum error_code code = log_kafka_open(&options, &log, ret_error);

    if (code)
        return code;
    const struct founding_log founding = topics_kafka_founding_log(topics, log);
    code = step == TOPICS_KAFKA_CREATE
               ? founding_log_make(&founding, &report->cluster, &report->is_founded, ret_error)
               : founding_log_read(&founding, &report->cluster, &topics->founding, ret_error);
    log_close(log);
    return code;
}

/* ---- topics that are short ---- */

enum topics_kafka_use { TOPICS_KAFKA_UNUSED, TOPICS_KAFKA_USED, TOPICS_KAFKA_UNKNOWN };

/* Reads a log from its first record to its end, or to a record that is not a founding. */
static enum topics_kafka_use topics_kafka_read_use(struct log *log, struct instant until)
{
    while (instant_now().ns < until.ns) {
        struct log_event event;
        struct frame frame;

        switch (log_wait(log, TOPICS_KAFKA_POLL_MS, &event)) {
        case LOG_RECORD:
            if (frame_decode(event.bytes, frame_cluster(event.bytes), &frame, NULL) ||
                frame.kind != FRAME_NOTE || frame.node != 0)
                return TOPICS_KAFKA_USED;
            break;
        case LOG_END:
            return TOPICS_KAFKA_UNUSED;
        case LOG_LOST:
            return TOPICS_KAFKA_UNKNOWN;
        default:
            break;
        }
    }
    return TOPICS_KAFKA_UNKNOWN;
}

/* True if no partition of the topic has records other than foundings. */
static bool topics_kafka_is_unused(const struct topics_kafka *topics, size_t which)
{
    for (uint16_t i = 0; i < topics->counts[which]; i++) {
        const struct log_kafka_options options = {
            .brokers = topics->options->brokers,
            .topic = topics->names[which],
            .partition = i,
            .append_timeout_ms = TOPICS_KAFKA_WAIT_MS,
            .properties = topics->options->properties,
            .property_count = topics->options->property_count,
        };
        enum topics_kafka_use use = TOPICS_KAFKA_UNKNOWN;
        struct log *log;

        if (log_kafka_open(&options, &log, NULL))
            return false;
        if (!log_follow_begin(log, NULL))
            use = topics_kafka_read_use(log, topics->until);
        log_close(log);
        if (use != TOPICS_KAFKA_UNUSED)
            return false;
    }
    return true;
}

static enum error_code topics_kafka_delete(struct topics_kafka *topics, size_t which,
                                           struct error *ret_error)
{
    rd_kafka_DeleteTopic_t *topic = rd_kafka_DeleteTopic_new(topics->names[which]);
    rd_kafka_DeleteTopics(topics->handle.client, &topic, 1, NULL, topics->queue);
    rd_kafka_event_t *event = topics_kafka_answer(topics);
    const rd_kafka_resp_err_t failure =
        event ? rd_kafka_event_error(event) : RD_KAFKA_RESP_ERR__TIMED_OUT;

    rd_kafka_DeleteTopic_destroy(topic);
    if (event)
        rd_kafka_event_destroy(event);
    while (!failure && topics->is_there[which]) {
        const enum error_code code = topics_kafka_look(topics, ret_error);

        if (code && code != ERROR_IO)
            return code;
        if (topics->is_there[which] && !topics_kafka_try_again(topics))
            break;
    }
    return topics->is_there[which]
               ? error_set(ret_error, ERROR_IO, "topic %.60s was not deleted: %.100s",
                           topics->names[which], rd_kafka_err2str(failure))
               : ERROR_NONE;
}

/* Recreates topics that were made while brokers started and so have too few replicas. It does so
 * only if both are unused, because they found one cluster. */
static enum error_code topics_kafka_drop_short(struct topics_kafka *topics, struct error *ret_error)
{
    const uint32_t wanted = topics_kafka_wanted(topics);
    bool is_short = false;
    enum error_code code = ERROR_NONE;

    for (size_t which = 0; which < 2; which++)
        is_short |= topics->is_there[which] && topics->replicas[which] < wanted;
    topics_kafka_begin_step(topics);
    for (size_t which = 0; which < 2 && is_short; which++)
        is_short = !topics->is_there[which] || topics_kafka_is_unused(topics, which);
    for (size_t which = 0; which < 2 && is_short && !code; which++)
        if (topics->is_there[which])
            code = topics_kafka_delete(topics, which, ret_error);
    return code;
}

static void topics_kafka_name(struct topics_kafka *topics)
{
    snprintf(topics->names[0], sizeof(topics->names[0]), "%s.log", topics->options->name);
    snprintf(topics->names[1], sizeof(topics->names[1]), "%s.control", topics->options->name);
    snprintf(topics->control_name, sizeof(topics->control_name), "topic %s", topics->names[1]);
}

static enum error_code topics_kafka_run(const struct topics_kafka_options *options,
                                        enum topics_kafka_step step,
                                        struct topics_kafka_report *ret_report,
                                        struct error *ret_error)
{
    struct topics_kafka topics = {.options = options, .counts = {options->partition_count, 1}};

    topics_kafka_name(&topics);
    enum error_code code = topics_kafka_open(&topics, ret_error);
    topics_kafka_begin_step(&topics);
    if (!code)
        code = step == TOPICS_KAFKA_CREATE ? topics_kafka_await_brokers(&topics, ret_error)
                                           : topics_kafka_look(&topics, ret_error);
    if (!code && step == TOPICS_KAFKA_CREATE)
        code = topics_kafka_drop_short(&topics, ret_error);
    for (size_t which = 0; step == TOPICS_KAFKA_CREATE && which < 2 && !code; which++)
        if (!topics.is_there[which])
            code = topics_kafka_make(&topics, which, ret_error);
    if (!code)
        code = step == TOPICS_KAFKA_CREATE || (topics.is_there[0] && topics.is_there[1])
                   ? topics_kafka_await(&topics, ret_error)
                   : error_set(ret_error, ERROR_NOT_FOUND,
                               "the brokers do not have the topics %.60s and %.60s: tickwheeld "
                               "--cluster-create makes them",
                               topics.names[0], topics.names[1]);
    if (!code)
        code = topics_kafka_check_replicas(&topics, ret_error);
    for (size_t which = 0; which < 2 && !code; which++)
        code = topics_kafka_describe(&topics, which, ret_error);
    if (!code)
        code = topics_kafka_founding(&topics, step, ret_error);
    topics_kafka_close(&topics);
    if (!code)
        *ret_report = topics.report;
    return code;
}

enum error_code topics_kafka_identify(const struct topics_kafka_options *options,
                                      uint64_t *ret_cluster, struct founding *ret_founding,
                                      struct error *ret_error)
{
    struct topics_kafka topics = {.options = options};

    topics_kafka_name(&topics);
    const enum error_code code = topics_kafka_founding(&topics, TOPICS_KAFKA_CHECK, ret_error);
    if (!code) {
        *ret_cluster = topics.report.cluster;
        *ret_founding = topics.founding;
    }
    return code;
}

enum error_code topics_kafka_change_secret(const struct topics_kafka_options *options,
                                           struct error *ret_error)
{
    struct topics_kafka topics = {.options = options};
    struct log *log;

    topics_kafka_name(&topics);
    enum error_code code = topics_kafka_founding(&topics, TOPICS_KAFKA_CHECK, ret_error);
    if (code)
        return code;
    const struct log_kafka_options log_options = topics_kafka_control(&topics);
    code = log_kafka_open(&log_options, &log, ret_error);
    if (code)
        return code;
    const struct founding_log founding = topics_kafka_founding_log(&topics, log);
    code = founding_log_change(&founding, topics.report.cluster, ret_error);
    log_close(log);
    return code;
}

enum error_code topics_kafka_create(const struct topics_kafka_options *options,
                                    struct topics_kafka_report *ret_report, struct error *ret_error)
{
    return topics_kafka_run(options, TOPICS_KAFKA_CREATE, ret_report, ret_error);
}

enum error_code topics_kafka_check(const struct topics_kafka_options *options,
                                   struct topics_kafka_report *ret_report, struct error *ret_error)
{
    return topics_kafka_run(options, TOPICS_KAFKA_CHECK, ret_report, ret_error);
}
