/* Goal: what several threads add is found, by their tenants only, after a stop and after kill -9
 * too; and a log that cannot keep up holds nobody up. Method: the real thread on a real folder; a
 * query whose `done` waits stands for a disk that does not answer. */
#include "delivery_log/delivery_log.h"
#include "delivery_log/delivery_log_testing.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

enum { FEEDERS = 4, ENTRIES = 5000 };

struct log_test_fixture {
    struct testing_log files; /* only its folder is used */
    struct delivery_log_options options;
    struct delivery_log *log;
};

struct log_test_question {
    struct delivery_query query;
    sem_t answered, go_on;
};

static void dlog_test_start(struct log_test_fixture *fixture)
{
    struct error error = {0};

    if (delivery_log_start(&fixture->options, &fixture->log, &error))
        fail_msg("%s", error.text);
}

static int dlog_test_setup(void **state)
{
    struct log_test_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    testing_log_init(&fixture->files, DELIVERY_RING_BYTES_MIN);
    fixture->options = (struct delivery_log_options){.ring = {.folder = fixture->files.folder,
                                                              .bytes_max = 64 << 20,
                                                              .age_ms_max = UINT64_C(1) << 50},
                                                     .feeders = FEEDERS};
    dlog_test_start(fixture);
    *state = fixture;
    return 0;
}

static int dlog_test_teardown(void **state)
{
    struct log_test_fixture *fixture = *state;

    delivery_log_stop(fixture->log);
    testing_log_deinit(&fixture->files);
    free(fixture);
    return 0;
}

static void dlog_test_done(struct delivery_query *query)
{
    struct log_test_question *question = list_item(query, struct log_test_question, query);

    sem_post(&question->answered);
    sem_wait(&question->go_on);
}

/* Submits a query for the deliveries of a tenant, and waits for its answer. The log's thread stays
 * in `done` until dlog_test_ask_end. */
static void dlog_test_ask_begin(struct log_test_fixture *fixture,
                                struct log_test_question *question, const char *tenant,
                                const char *timer)
{
    sem_init(&question->answered, 0, 0);
    sem_init(&question->go_on, 0, 0);
    delivery_query_init(&question->query);
    question->query.tenant = bytes_of(tenant);
    question->query.timer = bytes_of(timer);
    question->query.done = dlog_test_done;
    delivery_log_ask(fixture->log, &question->query);
    sem_wait(&question->answered);
}

static uint32_t dlog_test_ask_end(struct log_test_question *question)
{
    const uint32_t count = question->query.count;

    delivery_query_deinit(&question->query);
    sem_post(&question->go_on);
    return count;
}

static uint32_t dlog_test_ask(struct log_test_fixture *fixture, const char *tenant,
                              const char *timer)
{
    /* Several, because the log's thread may still wait in `done` of an earlier one. */
    static struct log_test_question questions[8];
    static unsigned next;
    struct log_test_question *question = &questions[next++ % 8];

    dlog_test_ask_begin(fixture, question, tenant, timer);
    return dlog_test_ask_end(question);
}

static void dlog_test_add(struct delivery_log *log, unsigned feeder, const char *tenant, int number)
{
    char timer[32];
    struct delivery_entry entry = {.ended_us = 1000000 + (uint64_t)number, .attempt = 1};

    snprintf(timer, sizeof(timer), "t%d", number);
    entry.texts[DELIVERY_TEXT_timer] = bytes_of(timer);
    delivery_log_add(log, feeder, bytes_of(tenant), &entry);
}

struct log_test_feeding {
    struct delivery_log *log;
    unsigned feeder;
};

static const char *const tenants[FEEDERS] = {"", "b", "c", "c"};

static void *dlog_test_feed(void *argument)
{
    const struct log_test_feeding *feeding = argument;

    for (int i = 0; i < ENTRIES; i++)
        dlog_test_add(feeding->log, feeding->feeder, tenants[feeding->feeder], i);
    return NULL;
}

static void finds_what_several_threads_added(void **state)
{
    struct log_test_fixture *fixture = *state;
    struct log_test_feeding feedings[FEEDERS];
    pthread_t threads[FEEDERS];
    struct delivery_ring_stats stats;

    for (unsigned i = 0; i < FEEDERS; i++) {
        feedings[i] = (struct log_test_feeding){fixture->log, i};
        assert_int_equal(pthread_create(&threads[i], NULL, dlog_test_feed, &feedings[i]), 0);
    }
    for (unsigned i = 0; i < FEEDERS; i++)
        pthread_join(threads[i], NULL);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < ENTRIES; i += 99) {
            char timer[32];

            snprintf(timer, sizeof(timer), "t%d", i);
            assert_int_equal(dlog_test_ask(fixture, "", timer), 1);
            assert_int_equal(dlog_test_ask(fixture, "b", timer), 1);
            assert_int_equal(dlog_test_ask(fixture, "c", timer), 2);
            assert_int_equal(dlog_test_ask(fixture, "d", timer), 0);
        }
        delivery_log_stats(fixture->log, &stats);
        assert_true(stats.bytes > (uint64_t)FEEDERS * ENTRIES * DELIVERY_ENTRY_FIXED_SIZE);
        assert_int_equal(stats.dropped + stats.damaged, 0);
        delivery_log_stop(fixture->log);
        dlog_test_start(fixture);
    }
}

static void a_stop_writes_what_was_added(void **state)
{
    struct log_test_fixture *fixture = *state;

    for (int i = 0; i < 10; i++) {
        dlog_test_add(fixture->log, 0, "a", i);
        delivery_log_stop(fixture->log);
        dlog_test_start(fixture);
    }
    assert_int_equal(dlog_test_ask(fixture, "a", ""), 10);
}

/* proves: delivery-log-full */
static void a_log_that_does_not_answer_holds_nobody_up(void **state)
{
    struct log_test_fixture *fixture = *state;
    struct log_test_question question;
    struct delivery_ring_stats stats;
    uint64_t added = 0;

    dlog_test_ask_begin(fixture, &question, "a", "");
    do {
        dlog_test_add(fixture->log, 1, "a", (int)added++);
        delivery_log_stats(fixture->log, &stats);
    } while (stats.dropped == 0 && added < DELIVERY_LOG_FEEDER_BYTES);
    assert_int_equal(stats.dropped, 1);
    assert_in_range(added, DELIVERY_LOG_FEEDER_BYTES / 200, DELIVERY_LOG_FEEDER_BYTES / 50);
    dlog_test_add(fixture->log, 2, "b", 0); /* another thread has its own room */
    assert_int_equal(dlog_test_ask_end(&question), 0);
    assert_int_equal(dlog_test_ask(fixture, "b", ""), 1);
    assert_int_equal(dlog_test_ask(fixture, "a", "t0"), 1);
    dlog_test_add(fixture->log, 1, "a", -1);
    assert_int_equal(dlog_test_ask(fixture, "a", "t-1"), 1);
}

static void kill_9_loses_only_what_was_not_written(void **state)
{
    struct log_test_fixture *fixture = *state;
    int pipes[2];
    char byte;

    delivery_log_stop(fixture->log);
    fixture->log = NULL;
    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dlog_test_start(fixture);
        for (int i = 0; i < ENTRIES; i++)
            dlog_test_add(fixture->log, 0, "a", i);
        dlog_test_ask(fixture, "a", "t0"); /* writes what was added */
        if (write(pipes[1], "x", 1) == 1)
            for (int i = ENTRIES;; i++)
                dlog_test_add(fixture->log, 0, "a", i);
        _exit(1);
    }
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(pipes[0]);
    close(pipes[1]);
    dlog_test_start(fixture);
    for (int i = 0; i < ENTRIES; i += 101) {
        char timer[32];

        snprintf(timer, sizeof(timer), "t%d", i);
        assert_int_equal(dlog_test_ask(fixture, "a", timer), 1);
    }
    struct delivery_ring_stats stats;
    delivery_log_stats(fixture->log, &stats);
    assert_int_equal(stats.damaged, 0);
}

static void dlog_test_note(struct delivery_query *query)
{
    query->limit = 0;
}

/* Goal: a log without deliveries has no thread. While the system refuses one, deliveries wait and
 * queries fail; then both are answered. */
static void a_refused_thread_comes_later(void **state)
{
    struct log_test_fixture *fixture = *state;
    struct delivery_query query;
    pthread_attr_t usual, huge;

    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_getattr_default_np(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 47), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    dlog_test_add(fixture->log, 0, "a", 1);
    dlog_test_add(fixture->log, 0, "a", 2);
    delivery_query_init(&query);
    query.tenant = bytes_of("a");
    query.done = dlog_test_note;
    delivery_log_ask(fixture->log, &query);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    assert_int_equal(query.limit, 0); /* done was called */
    assert_true(buffer_failed(&query.found));
    delivery_query_deinit(&query);
    assert_int_equal(dlog_test_ask(fixture, "a", ""), 2);
    dlog_test_add(fixture->log, 0, "a", 3);
    assert_int_equal(dlog_test_ask(fixture, "a", ""), 3);
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_what_several_threads_added, dlog_test_setup,
                                        dlog_test_teardown),
        cmocka_unit_test_setup_teardown(a_stop_writes_what_was_added, dlog_test_setup,
                                        dlog_test_teardown),
        cmocka_unit_test_setup_teardown(a_log_that_does_not_answer_holds_nobody_up, dlog_test_setup,
                                        dlog_test_teardown),
        cmocka_unit_test_setup_teardown(a_refused_thread_comes_later, dlog_test_setup,
                                        dlog_test_teardown),
        cmocka_unit_test_setup_teardown(kill_9_loses_only_what_was_not_written, dlog_test_setup,
                                        dlog_test_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
