/*
 * Goal: each kind of target goes to its sender, and one that nobody sends comes back as a dead
 * letter. Method: all senders with the default settings, and one delivery for each kind.
 */
#include "delivery/sender.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct sender_fixture {
    struct config config;
    struct targets *targets;
    struct senders *senders;
    pthread_mutex_t lock;
    struct list back; /* under the lock: deliveries come back on the senders' threads too */
};

static void sender_test_done(void *context, struct list *deliveries)
{
    struct sender_fixture *fixture = context;

    pthread_mutex_lock(&fixture->lock);
    list_join(&fixture->back, deliveries);
    pthread_mutex_unlock(&fixture->lock);
}

static void sender_fixture_init(struct sender_fixture *fixture)
{
    const struct targets_options targets_options = {.breaker = {5, 1000, 60000}};
    const struct sender_options options = {.config = &fixture->config,
                                           .user_agent = "test",
                                           .done = sender_test_done,
                                           .context = fixture};
    struct sender_options wanted = options;

    config_init(&fixture->config);
    pthread_mutex_init(&fixture->lock, NULL);
    list_init(&fixture->back);
    fixture->targets = targets_create(&targets_options);
    wanted.targets = fixture->targets;
    assert_int_equal(senders_start(&wanted, &fixture->senders, NULL), ERROR_NONE);
}

static void sender_fixture_deinit(struct sender_fixture *fixture)
{
    senders_drain(fixture->senders);
    senders_stop(fixture->senders);
    targets_destroy(fixture->targets);
    pthread_mutex_destroy(&fixture->lock);
}

static struct timer *sender_test_timer(const char *target)
{
    const struct timer_texts texts = {.target = bytes_of(target)};
    struct timer *timer = timer_alloc(&texts);

    assert_non_null(timer);
    return timer;
}

static void test_outcome_by_kind(void **state)
{
    static const struct {
        const char *target;
        enum delivery_result result;
        const char *error;
    } cases[] = {
        {"http://127.0.0.1/", DELIVERY_FAILED, "loopback"},
        {"https://127.0.0.1/", DELIVERY_FAILED, "loopback"},
        {"redis://none/stream", DELIVERY_FAILED, "no broker connection"},
        {"queue:mail", DELIVERY_ENDED, "cannot deliver"},
        {"gopher://a/", DELIVERY_ENDED, "cannot deliver"},
        {"", DELIVERY_ENDED, "cannot deliver"},
    };

    (void)state;
    struct sender_fixture fixture;
    sender_fixture_init(&fixture);
    struct list posted;
    list_init(&posted);
    struct delivery deliveries[COUNT(cases)] = {0};
    for (size_t i = 0; i < COUNT(cases); i++) {
        deliveries[i].timer = sender_test_timer(cases[i].target);
        list_push(&posted, &deliveries[i].link);
    }
    senders_post(fixture.senders, &posted);
    assert_true(list_is_empty(&posted));
    sender_fixture_deinit(&fixture); /* and so all of them are back */
    size_t count = 0;
    LIST_FOR_EACH (&fixture.back, link)
        count++;
    assert_int_equal(count, COUNT(cases));
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct delivery_outcome *outcome = &deliveries[i].outcome;

        if (outcome->result != cases[i].result)
            fail_msg("%s: %d %s", cases[i].target, (int)outcome->result, outcome->error);
        if (!strstr(outcome->error, cases[i].error) && !strstr(outcome->error, "stopping"))
            fail_msg("%s: %s", cases[i].target, outcome->error);
        timer_free((struct timer *)deliveries[i].timer);
    }
}

static void test_check_by_kind(void **state)
{
    static const struct {
        const char *target;
        enum error_code code;
        bool has_breaker;
    } cases[] = {
        {"http://127.0.0.1/", ERROR_INVALID, true}, {"https://[::1]/", ERROR_INVALID, true},
        {"http://shop.example/", ERROR_NONE, true}, {"redis://none/stream", ERROR_INVALID, false},
        {"queue:mail", ERROR_NONE, false},          {"gopher://a/", ERROR_NONE, false},
    };

    (void)state;
    struct sender_fixture fixture;
    sender_fixture_init(&fixture);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct timer *timer = sender_test_timer(cases[i].target);
        struct target_status status = {.wait_ms = 77};

        assert_int_equal(senders_check(fixture.senders, timer->texts.tenant, timer->texts.target,
                                       &timer->target, NULL),
                         cases[i].code);
        assert_int_equal(senders_status(fixture.senders, timer, &status), cases[i].has_breaker);
        assert_int_equal(status.wait_ms, cases[i].has_breaker ? 0 : 77);
        timer_free(timer);
    }
    assert_ptr_equal(senders_find(fixture.senders, TARGET_HTTP),
                     senders_find(fixture.senders, TARGET_HTTPS));
    assert_ptr_not_equal(senders_find(fixture.senders, TARGET_HTTP),
                         senders_find(fixture.senders, TARGET_REDIS));
    sender_fixture_deinit(&fixture);
}

/* Goal: a sender that cannot start is named, and those before it are stopped. */
static void test_sender_start_fails(void **state)
{
    (void)state;
    struct sender_fixture fixture;
    sender_fixture_init(&fixture);
    const struct sender_options options = {.config = &fixture.config,
                                           .user_agent = "test",
                                           .targets = fixture.targets,
                                           .done = sender_test_done,
                                           .context = &fixture.back};
    struct error error;
    assert_int_equal(config_set(&fixture.config, "broker_connections", "a", &error), ERROR_NONE);
    struct senders *senders = NULL;
    assert_int_equal(senders_start(&options, &senders, &error), ERROR_INVALID);
    assert_non_null(strstr(error.text, "connection 1"));
    assert_null(senders);
    sender_fixture_deinit(&fixture);
}

/* ---- threads ---- */

static unsigned sender_test_count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned count = 0;

    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks));)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* Posts a delivery to a forbidden address, and returns its outcome. */
static struct delivery_outcome sender_test_post(struct sender_fixture *fixture)
{
    struct delivery delivery = {.timer = sender_test_timer("http://127.0.0.1/")};
    struct list posted;
    bool is_back = false;

    list_init(&posted);
    list_push(&posted, &delivery.link);
    senders_post(fixture->senders, &posted);
    while (!is_back) {
        pthread_mutex_lock(&fixture->lock);
        is_back = list_pop(&fixture->back) != NULL;
        pthread_mutex_unlock(&fixture->lock);
        sched_yield();
    }
    timer_free((struct timer *)delivery.timer);
    return delivery.outcome;
}

/* Goal: senders without deliveries have no threads. A delivery for which the system refuses a
 * thread waits, and the next one gets it. */
static void test_sender_begins(void **state)
{
    pthread_attr_t usual, huge;

    (void)state;
    struct sender_fixture fixture;
    const unsigned threads = sender_test_count_threads();
    sender_fixture_init(&fixture);
    assert_int_equal(sender_test_count_threads(), threads);
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_getattr_default_np(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 47), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    struct delivery_outcome outcome = sender_test_post(&fixture);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    assert_int_equal(outcome.result, DELIVERY_POSTPONED);
    assert_int_equal(outcome.retry_after_ms, 1000);
    assert_string_equal(outcome.error, "no thread left for webhooks");
    outcome = sender_test_post(&fixture);
    assert_int_equal(outcome.result, DELIVERY_FAILED);
    assert_non_null(strstr(outcome.error, "loopback"));
    assert_true(sender_test_count_threads() > threads);
    sender_fixture_deinit(&fixture);
    while (sender_test_count_threads() > threads) /* the system removes them soon after the join */
        sched_yield();
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outcome_by_kind),
        cmocka_unit_test(test_check_by_kind),
        cmocka_unit_test(test_sender_start_fails),
        cmocka_unit_test(test_sender_begins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
