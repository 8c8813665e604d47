/* Goal: each setting of a topic that endangers timers is refused with words that say which one and
 * why. Method: values as brokers give them, and a property that librdkafka does not know. The
 * topics themselves are tested with real brokers, by `make test-cluster`. */
#include "cluster/kafka/topics_kafka.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_settings_of_a_topic(void **state)
{
    static const struct {
        const char *name, *value;
        uint32_t replica_count;
        const char *refusal; /* NULL: it may be */
    } cases[] = {
        {"cleanup.policy", "delete", 3, NULL},
        {"cleanup.policy", "compact,delete", 3, "deletes records of live timers"},
        {"retention.ms", "-1", 3, NULL},
        {"retention.ms", "604800000", 3, "too old"},
        {"retention.bytes", "1073741824", 3, "too large"},
        {"min.insync.replicas", "2", 3, NULL},
        {"min.insync.replicas", "3", 3, NULL},
        {"min.insync.replicas", "1", 3, "must be at least 2: what is acknowledged may lie on one"},
        {"min.insync.replicas", "1", 2, "at least 2"},
        {"min.insync.replicas", "1", 1, NULL},
        {"unclean.leader.election.enable", "true", 3, "may become the leader"},
        {"message.timestamp.type", "CreateTime", 3, "clocks"},
        {"flush.messages", "9223372036854775807", 3, "lose their power"},
        {"max.message.bytes", "1048588", 3, NULL},
        {"max.message.bytes", "65536", 3, "large commits are refused"},
        {"segment.bytes", "12", 3, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct error error = {.text = ""};
        const enum error_code code = topics_kafka_judge("a.log", cases[i].replica_count,
                                                        cases[i].name, cases[i].value, &error);
        if (code != (cases[i].refusal ? ERROR_INVALID : ERROR_NONE) ||
            (cases[i].refusal &&
             (!strstr(error.text, cases[i].refusal) || !strstr(error.text, cases[i].name) ||
              !strstr(error.text, "a.log"))))
            fail_msg("%s=%s: %s", cases[i].name, cases[i].value, error.text);
    }
}

static void test_a_property_that_is_none(void **state)
{
    const struct log_kafka_property wrong = {"no.such.property", "1"};
    const struct topics_kafka_options options = {.brokers = "127.0.0.1:9",
                                                 .name = "a",
                                                 .partition_count = 1,
                                                 .properties = &wrong,
                                                 .property_count = 1};
    struct topics_kafka_report report;
    struct error error;

    (void)state;
    assert_int_equal(topics_kafka_check(&options, &report, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "no.such.property"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_of_a_topic),
        cmocka_unit_test(test_a_property_that_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
