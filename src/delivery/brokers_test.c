/*
 * Goal: a delivery goes to the connection that its target names, one that is down delays its own
 * only, and wrong settings and targets are refused with the reason and without a secret. Method:
 * fake brokers (broker_fixture.h) behind the real set of connections.
 */
#include "delivery/brokers.h"

#include "delivery/broker_fixture.h"

static const struct broker_backend *const backends[] = {&fake_backend, NULL};

#define LONG 60000

struct set {
    struct broker_fixture a, b; /* of them, only the fakes and what came back */
    char connections[256];
    struct brokers *brokers;
};

static struct brokers_options options_of(struct set *set)
{
    return (struct brokers_options){
        .connections = set->connections,
        .backends = backends,
        .client_name = "test",
        .inflight_max = 8,
        .inflight_bytes_max = 1 << 20,
        .connect_timeout_ms = 1000,
        .done = broker_fixture_done,
        .context = &set->a,
    };
}

static void set_init(struct set *set)
{
    broker_fixture_init(&set->a);
    broker_fixture_init(&set->b);
    snprintf(set->connections, sizeof(set->connections), "  a=%s b-2.x=%s ", set->a.fake.text,
             set->b.fake.text);
}

static void set_start(struct set *set)
{
    struct brokers_options options = options_of(set);
    struct error error;

    if (brokers_start(&options, &set->brokers, &error))
        fail_msg("%s", error.text);
}

static void set_stop(struct set *set)
{
    brokers_stop(set->brokers);
    broker_fixture_deinit(&set->a);
    broker_fixture_deinit(&set->b);
}

static void brokers_test_post(struct set *set, struct broker_shipment *shipments, size_t count)
{
    struct list list;

    shipments_list(shipments, count, &list);
    brokers_post(set->brokers, &list);
    assert_true(list_is_empty(&list));
}

/* Goal: while one broker is down and holds its deliveries, those of the other all go through. */
static void test_down_delays_its_own_only(void **state)
{
    struct broker_shipment *shipments = calloc(200, sizeof(*shipments));

    (void)state;
    struct set set;
    set_init(&set);
    set.a.fake.is_down = true;
    set.a.fake.answers = set.b.fake.answers = true;
    set_start(&set);
    for (size_t i = 0; i < 200; i++)
        broker_shipment_init(&shipments[i], i % 4 < 2 ? "redis://a/s" : "redis://b-2.x/s", LONG);
    brokers_test_post(&set, shipments, 200);
    broker_fixture_wait(&set.a, 100);
    pthread_mutex_lock(&set.a.lock);
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(shipments[i].done_count, i % 4 < 2 ? 0 : 1);
    pthread_mutex_unlock(&set.a.lock);
    fake_wait_for(&set.a.fake, &set.a.fake.tries, 2); /* so the first has been told of */
    struct broker_status status;
    brokers_status(set.brokers, 0, &status);
    assert_string_equal(status.name, "a");
    assert_string_equal(status.cause, "it is away");
    brokers_status(set.brokers, 1, &status);
    assert_true(status.is_up);
    assert_false(brokers_status(set.brokers, 2, &status));
    fake_set(&set.a.fake, &set.a.fake.is_down, false);
    broker_fixture_wait(&set.a, 200);
    set_stop(&set);
    for (size_t i = 0; i < 200; i++)
        check_outcome(&shipments[i], DELIVERY_DONE, "");
    assert_int_equal(set.a.fake.sent_count, 100);
    assert_int_equal(set.b.fake.sent_count, 100);
    shipments_destroy(shipments, 200);
}

/* Goal: a timer whose connection is no longer configured fails, and others of the list do not. */
static void test_connection_that_is_gone(void **state)
{
    static const char *const targets[] = {"redis://gone/s", "redis://a/s", "nats://a/s",
                                          "redis://a/s"};

    (void)state;
    struct set set;
    set_init(&set);
    set.a.fake.answers = true;
    set_start(&set);
    struct broker_shipment shipments[COUNT(targets)];
    for (size_t i = 0; i < COUNT(targets); i++)
        broker_shipment_init(&shipments[i], targets[i], LONG);
    brokers_test_post(&set, shipments, COUNT(targets));
    broker_fixture_wait(&set.a, COUNT(targets));
    set_stop(&set);
    check_outcome(&shipments[0], DELIVERY_FAILED, "no broker connection \"gone\"");
    check_outcome(&shipments[1], DELIVERY_DONE, "");
    check_outcome(&shipments[2], DELIVERY_FAILED, "is one for redis:");
    check_outcome(&shipments[3], DELIVERY_DONE, "");
    for (size_t i = 0; i < COUNT(targets); i++)
        timer_free(shipments[i].timer);
}

/* Goal: a clean stop waits for no broker that is away, and all comes back. */
static void test_drain_and_stop(void **state)
{
    struct broker_shipment *shipments = shipments_create(20, "redis://a/s", LONG);

    (void)state;
    struct set set;
    set_init(&set);
    set.a.fake.is_down = true;
    set_start(&set);
    brokers_test_post(&set, shipments, 10);
    brokers_drain(set.brokers);
    broker_fixture_wait(&set.a, 10);
    brokers_test_post(&set, shipments + 10, 10);
    brokers_stop(set.brokers);
    assert_int_equal(broker_fixture_done_count(&set.a), 20);
    for (size_t i = 0; i < 20; i++)
        check_outcome(&shipments[i], DELIVERY_POSTPONED, i < 10 ? "it is away" : "is");
    broker_fixture_deinit(&set.a);
    broker_fixture_deinit(&set.b);
    shipments_destroy(shipments, 20);
}

static void brokers_test_reload(struct set *set, const char *connections, enum error_code code,
                                const char *reason)
{
    struct error error = {.text = ""};

    assert_int_equal(brokers_reload(set->brokers, connections, &error), code);
    if (!strstr(error.text, reason) || strstr(error.text, "hush"))
        fail_msg("%s", error.text);
}

/* Goal: other connections are taken while deliveries are under way, which come back with their
 * outcome; an equal connection stays, and a wrong setting changes nothing. */
/* proves: broker-reload */
static void test_other_connections(void **state)
{
    struct broker_shipment *shipments = shipments_create(5, "redis://a/s", LONG);
    struct broker_shipment *others = shipments_create(1, "redis://b-2.x/s", LONG);
    struct broker_fixture c;
    char text[256];
    struct set set;

    (void)state;
    broker_fixture_init(&c);
    set_init(&set);
    set.b.fake.answers = c.fake.answers = true;
    set_start(&set);
    brokers_test_post(&set, shipments, 2);
    fake_wait_for(&set.a.fake, &set.a.fake.sent_count, 2);
    fake_wait_for(&set.b.fake, &set.b.fake.connects, 1);
    snprintf(text, sizeof(text), "b-2.x=%s\na=%s", set.b.fake.text, c.fake.text);
    brokers_test_reload(&set, text, ERROR_NONE, "");
    brokers_test_post(&set, shipments + 2, 2);
    broker_fixture_wait(&set.a, 2);
    check_outcome(&shipments[2], DELIVERY_DONE, "");
    assert_int_equal(c.fake.sent_count, 2);
    fake_answer(&set.a.fake, 0, DELIVERY_DONE);
    fake_answer(&set.a.fake, 1, DELIVERY_FAILED);
    broker_fixture_wait(&set.a, 4);
    check_outcome(&shipments[0], DELIVERY_DONE, "");
    check_outcome(&shipments[1], DELIVERY_FAILED, "told so");
    brokers_test_reload(&set, "a=fax://hush/1", ERROR_INVALID, "a: fax: is no kind");
    brokers_test_reload(&set, "a=redis://hush/0", ERROR_INVALID, "a: its path is wrong");
    snprintf(text, sizeof(text), "b-2.x=%s", set.b.fake.text);
    brokers_test_reload(&set, text, ERROR_NONE, "");
    brokers_test_post(&set, shipments + 4, 1);
    brokers_test_post(&set, others, 1);
    broker_fixture_wait(&set.a, 6);
    check_outcome(&shipments[4], DELIVERY_FAILED, "no broker connection \"a\"");
    check_outcome(&others[0], DELIVERY_DONE, "");
    assert_int_equal(set.b.fake.connects, 1);
    set_stop(&set);
    broker_fixture_deinit(&c);
    shipments_destroy(shipments, 5);
    shipments_destroy(others, 1);
}

/* proves: target-broker */
static void test_targets(void **state)
{
    static const struct {
        const char *target;
        enum error_code code;
        const char *reason;
    } cases[] = {
        {"redis://a/s", ERROR_NONE, ""},
        {"redis://b-2.x/s/t%20", ERROR_NONE, ""},
        {"redis://c/s", ERROR_INVALID, "no broker connection \"c\" in this server's"},
        {"redis:///s", ERROR_INVALID, "no broker connection \"\""},
        {"kafka://a/s", ERROR_INVALID, "kafka: targets are not built into this server"},
        {"redis://a/no%20where", ERROR_INVALID, "it leads nowhere"},
    };

    (void)state;
    struct set set;
    set_init(&set);
    set_start(&set);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct bytes text = bytes_of(cases[i].target);
        struct target target;

        assert_int_equal(target_parse(text, &target, NULL), ERROR_NONE);
        struct error error;
        enum error_code code = brokers_check(set.brokers, text, &target, &error);
        if (code != cases[i].code || (code && !strstr(error.text, cases[i].reason)))
            fail_msg("%s: %d, %s", cases[i].target, (int)code, error.text);
    }
    set_stop(&set);
}

static enum error_code check_settings(const char *connections,
                                      const struct broker_backend *const *kinds,
                                      struct error *ret_error)
{
    const struct brokers_options options = {.connections = connections, .backends = kinds};

    return brokers_check_settings(&options, ret_error);
}

/* proves: brokers, broker-name */
static void test_brokers_settings(void **state)
{
    static const struct {
        const char *connections, *reason;
    } cases[] = {
        {"hush", "connection 1 is not NAME=URL"},
        {"a=redis://h/1 =redis://hush/1", "connection 2 is not NAME=URL"},
        {"a/b=redis://hush/1", "connection 1 is not NAME=URL"},
        {"a=redis://h/1 a=redis://hush/1", "a: there are two"},
        {"a=hush", "a: it is no URL"},
        {"a=fax://hush/1", "a: fax: is no kind of broker"},
        {"a=redis://:hush@h/", "a: its path is wrong"},
    };
    char many[BROKERS_MAX * 24 + 64] = "";

    (void)state;
    struct set set;
    set_init(&set);
    struct error error;
    assert_int_equal(check_settings(set.connections, backends, &error), ERROR_NONE);
    assert_int_equal(check_settings("", backends, &error), ERROR_NONE);
    struct brokers *brokers;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct brokers_options options = options_of(&set);

        options.connections = cases[i].connections;
        assert_int_equal(check_settings(cases[i].connections, backends, &error), ERROR_INVALID);
        if (!strstr(error.text, cases[i].reason) || strstr(error.text, "hush"))
            fail_msg("%s", error.text);
        assert_int_equal(brokers_start(&options, &brokers, &error), ERROR_INVALID);
        assert_null(strstr(error.text, "hush"));
    }
    for (int i = 0; i <= BROKERS_MAX; i++) {
        snprintf(many + strlen(many), 24, "n%d=redis://h/1 ", i);
        assert_int_equal(check_settings(many, backends, &error),
                         i < BROKERS_MAX ? ERROR_NONE : ERROR_INVALID);
    }
    assert_non_null(strstr(error.text, "more than 64"));
    for (int more = 0; more < 2; more++) {
        snprintf(many, sizeof(many), "%0*d=redis://h/1", BROKER_NAME_SIZE_MAX + more, 0);
        assert_int_equal(check_settings(many, backends, &error), more ? ERROR_INVALID : ERROR_NONE);
    }
    broker_fixture_deinit(&set.a);
    broker_fixture_deinit(&set.b);
}

static void fake_stage(struct log_once *once, size_t index, const struct broker_message *message)
{
    (void)once, (void)index, (void)message;
    fail();
}

/* Only on the brokers, or in the database, of the cluster's log, by its own clients. */
static void test_exactly_once_settings(void **state)
{
    static const struct broker_backend kafka = {
        .scheme = "kafka", .create = fake_create, .destroy = fake_destroy, .stage = fake_stage};
    static const struct broker_backend postgres = {
        .scheme = "postgres", .create = fake_create, .destroy = fake_destroy, .stage = fake_stage};
    static const struct broker_backend *const kinds[] = {&kafka, &postgres, &fake_backend, NULL};
    static const struct {
        const char *connections, *brokers, *log, *reason;
    } cases[] = {
        {"a=kafka://h:1/1?exactly_once=true", "h:1", NULL, NULL},
        {"a=kafka://h:1,i:2/1?exactly_once=true", "h:1,i:2", NULL, NULL},
        {"a=kafka://h:1/1?exactly_once=false", "", NULL, NULL},
        {"a=kafka://h:1/1?exactly_once=yes", "h:1", NULL, "a: exactly_once: is true or false"},
        {"a=kafka://h:1/1?exactly_once=true", "", NULL, "a: exactly_once needs a cluster"},
        {"a=kafka://h:1/1?exactly_once=true", NULL, NULL, "a: exactly_once needs a cluster"},
        {"a=kafka://h:1/1?exactly_once=true", NULL, "postgres://h:1/1", "set cluster_brokers"},
        {"a=kafka://h:2/1?exactly_once=true", "h:1", NULL, "as cluster_brokers has them"},
        {"a=kafka://:hush@h:1/1?exactly_once=true", "h:1", NULL, "no user and no other parameter"},
        {"a=kafka://h:1/1?exactly_once=true&acks=0", "h:1", NULL, "no user and no other parameter"},
        {"a=redis://h:1/1?exactly_once=true", "h:1", NULL, "a: exactly_once is for"},
        {"a=postgres://u:hush@h,i/d?exactly_once=true", NULL, "postgres://u:hush@h,i/d", NULL},
        {"a=postgres://u@h/d?x=%20y&exactly_once=true", "", "postgres://u@h/d?x=%20y", NULL},
        {"a=postgres://u@h/d?exactly_once=true&x=1&y=2", "", "postgres://u@h/d?x=1&y=2", NULL},
        {"a=postgres://u@h/d?x=1&exactly%5Fonce=true&y=2", "", "postgres://u@h/d?x=1&y=2", NULL},
        {"a=postgres://u@h/d?exactly_once=false", "", "postgres://other/d", NULL},
        {"a=postgres://u@h/d?exactly_once=true", "h:1", "", "set cluster_log"},
        {"a=postgres://u:hush@h/d?exactly_once=true", "", "postgres://u:hush@h/e",
         "as cluster_log"},
        {"a=postgres://u:hush@h/d?exactly_once=true", "", "postgres://v:hush@h/d", "as its user"},
        {"a=postgres://u@h/d?exactly_once=true", "", "postgres://u@h/d?x=1", "as cluster_log"},
    };
    struct error error;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct brokers_options options = {.connections = cases[i].connections,
                                                .backends = kinds,
                                                .cluster_brokers = cases[i].brokers,
                                                .cluster_log = cases[i].log};
        const enum error_code code = brokers_check_settings(&options, &error);

        if (code != (cases[i].reason ? ERROR_INVALID : ERROR_NONE))
            fail_msg("%s: %d %s", cases[i].connections, (int)code, code ? error.text : "");
        if (cases[i].reason && (!strstr(error.text, cases[i].reason) || strstr(error.text, "hush")))
            fail_msg("%s", error.text);
    }
}

/* No connection of a cluster writes into topics with the names of its log, wherever they are. */
static void test_topics_of_the_log(void **state)
{
    static const struct broker_backend kafka = {.scheme = "kafka",
                                                .refusal = fake_refusal,
                                                .create = fake_create,
                                                .connect = fake_connect,
                                                .wait = fake_wait,
                                                .disconnect = fake_disconnect,
                                                .destroy = fake_destroy};
    static const struct broker_backend *const kinds[] = {&kafka, &fake_backend, NULL};
    static const struct {
        const char *target, *cluster;
        enum error_code code;
    } cases[] = {
        {"kafka://bus/wheel.log", "h:1", ERROR_INVALID},
        {"kafka://bus/wheel.control", "h:1", ERROR_INVALID},
        {"kafka://bus/wheel.l%6Fg", "h:1", ERROR_INVALID},
        {"kafka://bus/wheel.logs", "h:1", ERROR_NONE},
        {"kafka://bus/wheel.log", "", ERROR_NONE}, /* no cluster */
        {"kafka://bus/wheel.log", NULL, ERROR_NONE},
        {"redis://mem/wheel.log", "h:1", ERROR_NONE},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct set set;
        struct target target;
        struct error error = {.text = ""};

        set_init(&set);
        snprintf(set.connections, sizeof(set.connections), "bus=kafka%s mem=%s",
                 strchr(set.a.fake.text, ':'), set.b.fake.text);
        struct brokers_options options = options_of(&set);
        options.backends = kinds;
        options.cluster_brokers = cases[i].cluster;
        options.cluster_name = "wheel";
        assert_int_equal(brokers_start(&options, &set.brokers, &error), ERROR_NONE);
        assert_int_equal(target_parse(bytes_of(cases[i].target), &target, NULL), ERROR_NONE);
        const enum error_code code =
            brokers_check(set.brokers, bytes_of(cases[i].target), &target, &error);
        if (code != cases[i].code || (code && !strstr(error.text, "the cluster's own log")))
            fail_msg("%s: %d, %s", cases[i].target, (int)code, error.text);
        set_stop(&set);
    }
}

/* The log of the cluster has begun with the connections that it carries. */
static void test_exactly_once_stays(void **state)
{
    static const struct broker_backend kafka = {.scheme = "kafka",
                                                .create = fake_create,
                                                .connect = fake_connect,
                                                .stage = fake_stage,
                                                .wait = fake_wait,
                                                .disconnect = fake_disconnect,
                                                .destroy = fake_destroy};
    static const struct broker_backend *const kinds[] = {&kafka, &fake_backend, NULL};
    char other[600];
    struct set set;
    struct error error;

    (void)state;
    set_init(&set);
    snprintf(set.connections, sizeof(set.connections), "bus=kafka%s?exactly_once=true",
             strchr(set.a.fake.text, ':'));
    struct brokers_options options = options_of(&set);
    options.backends = kinds;
    options.cluster_brokers = "fake";
    options.cluster_name = "wheel";
    assert_int_equal(brokers_start(&options, &set.brokers, &error), ERROR_NONE);
    snprintf(other, sizeof(other), "%s mem=%s", set.connections, set.b.fake.text);
    brokers_test_reload(&set, "", ERROR_INVALID,
                        "bus: with exactly_once it changes at a restart only");
    brokers_test_reload(&set, other, ERROR_NONE, "");
    snprintf(other, sizeof(other), "%s too=kafka%s?exactly_once=true", set.connections,
             strchr(set.b.fake.text, ':'));
    brokers_test_reload(&set, other, ERROR_INVALID, "too: with exactly_once");
    set_stop(&set);
}

static void test_backends(void **state)
{
    static const struct broker_backend *const none[] = {NULL}, *const two[] = {&fake_backend,
                                                                               &fake_backend, NULL};

    (void)state;
    struct buffer text;
    buffer_init(&text);
    brokers_format_backends(none, &text);
    buffer_append_text(&text, "; ");
    brokers_format_backends(two, &text);
    buffer_append(&text, "", 1);
    assert_string_equal(text.data, "none; redis (fake 1.0), redis (fake 1.0)");
    buffer_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_down_delays_its_own_only),
        cmocka_unit_test(test_connection_that_is_gone),
        cmocka_unit_test(test_drain_and_stop),
        cmocka_unit_test(test_other_connections),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_brokers_settings),
        cmocka_unit_test(test_exactly_once_settings),
        cmocka_unit_test(test_topics_of_the_log),
        cmocka_unit_test(test_exactly_once_stays),
        cmocka_unit_test(test_backends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
