/*
 * Goal: the limits of places in flight hold for a node, whatever the number of its partitions and
 * threads; no partition starves, and one alone has all places. Method: whole nodes, whose receiver
 * is this thread: it answers no request before it has looked whether more come.
 */
#include "node/node_state.h"
#include "node/receiver_testing.h"
#include "store/storage_testing.h"
#include "sys/clock.h"

#include <sched.h>

enum {
    PARTITIONS = 24,
    SHARDS = 3,
    HOSTS = 4, /* origins: 127.0.0.1, 127.0.0.2, ... */
    WAIT_MS = 120000,
};

struct place_fixture {
    struct testing_folder folder;
    struct config config;
    struct metrics *metrics;
    struct node *node;
    struct receiver receiver; /* the paths are partitions */
};

/* ---- the node ---- */

static void places_set(struct place_fixture *fixture, const char *name, unsigned value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", value);
    assert_int_equal(config_set(&fixture->config, name, text, NULL), ERROR_NONE);
}

static int places_set_up(void **state)
{
    struct place_fixture *fixture = calloc(1, sizeof(*fixture));

    testing_folder_make(&fixture->folder);
    config_init(&fixture->config);
    config_set(&fixture->config, "data_folder", fixture->folder.path, NULL);
    config_set(&fixture->config, "webhook_allow", "127.0.0.0/8", NULL);
    places_set(fixture, "partitions", PARTITIONS);
    places_set(fixture, "shards", SHARDS);
    places_set(fixture, "disk_reserve_bytes", 0);
    places_set(fixture, "target_breaker_failures", 0);
    fixture->metrics = metrics_create("test", wall_now());
    receiver_open(&fixture->receiver);
    *state = fixture;
    return 0;
}

static void places_start(struct place_fixture *fixture)
{
    struct error error = {.text = ""};

    if (node_start(&fixture->config, fixture->metrics, NULL, NULL, &fixture->node, &error))
        fail_msg("%s", error.text);
}

static int places_tear_down(void **state)
{
    struct place_fixture *fixture = *state;

    node_stop(fixture->node);
    receiver_close(&fixture->receiver);
    metrics_destroy(fixture->metrics);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

struct place_asked {
    struct node_request request;
    struct timer *timer;
    struct command_created created;
    atomic_bool is_answered;
};

static void places_done(struct node_request *request)
{
    atomic_store(&list_item(request, struct place_asked, request)->is_answered, true);
}

/* A timer that is due now. */
static void places_create(struct place_fixture *fixture, uint16_t partition, const char *target)
{
    struct timer_texts texts = {.target = bytes_of(target)};
    struct place_asked asked = {.timer = timer_alloc(&texts)};

    asked.timer->due = wall_now();
    asked.request.done = places_done;
    asked.request.command = (struct command){.kind = COMMAND_CREATE,
                                             .partition = partition,
                                             .timers = &asked.timer,
                                             .results = &asked.created,
                                             .timer_count = 1};
    assert_int_equal(node_submit(fixture->node, &asked.request), ERROR_NONE);
    while (!atomic_load(&asked.is_answered))
        sched_yield();
    assert_int_equal(asked.created.error, ERROR_NONE);
}

static void places_create_webhook(struct place_fixture *fixture, uint16_t partition, unsigned host)
{
    char target[64];

    snprintf(target, sizeof(target), "http://127.0.0.%u:%u/%u", 1 + host, fixture->receiver.port,
             (unsigned)partition);
    places_create(fixture, partition, target);
}

/* Until all shards have told that `count` timers wait. */
static void places_await_waiting(struct place_fixture *fixture, uint64_t count)
{
    struct node *node = fixture->node;
    uint64_t waiting = 0;

    pthread_mutex_lock(&node->report.lock);
    while (waiting != count) {
        waiting = 0;
        for (unsigned i = 0; i < node->shards.count; i++)
            waiting += node->report.shards[i].stats.waiting;
        if (waiting != count)
            pthread_cond_wait(&node->report.changed, &node->report.lock);
    }
    pthread_mutex_unlock(&node->report.lock);
}

/* ---- the tests ---- */

/* Goal: one at a time to a target, and the partitions in turns. */
/* proves: target_deliveries_max (beyond) */
static void test_one_at_a_time(void **state)
{
    enum { EACH = 5 };
    struct place_fixture *fixture = *state;

    places_set(fixture, "target_deliveries_max", 1);
    places_start(fixture);
    for (unsigned i = 0; i < PARTITIONS * EACH; i++)
        places_create_webhook(fixture, (uint16_t)(i % PARTITIONS), 0);
    receiver_await(&fixture->receiver, 1);
    places_await_waiting(fixture, PARTITIONS * EACH - 1);
    for (unsigned i = 0; i < PARTITIONS * EACH; i++) {
        receiver_await(&fixture->receiver, 1);
        receiver_look(&fixture->receiver, RECEIVER_QUIET_MS);
        assert_int_equal(fixture->receiver.out, 1);
        size_t least = EACH, most = 0;
        for (int j = 0; j < PARTITIONS; j++) {
            least = fixture->receiver.counts[j] < least ? fixture->receiver.counts[j] : least;
            most = fixture->receiver.counts[j] > most ? fixture->receiver.counts[j] : most;
        }
        assert_true(most <= least + 1);
        assert_true(receiver_answer(&fixture->receiver));
    }
    receiver_look(&fixture->receiver, RECEIVER_QUIET_MS);
    assert_int_equal(fixture->receiver.arrived, PARTITIONS * EACH);
}

/* Goal: the limits of all webhooks and of each target hold together. */
/* proves: deliveries_max (beyond) */
static void test_limits_of_all(void **state)
{
    enum { EACH = 8, ALL = 5, OF_TARGET = 2 };
    struct place_fixture *fixture = *state;
    size_t most = 0;

    places_set(fixture, "deliveries_max", ALL);
    places_set(fixture, "target_deliveries_max", OF_TARGET);
    places_start(fixture);
    for (unsigned i = 0; i < PARTITIONS * EACH; i++)
        places_create_webhook(fixture, (uint16_t)(i % PARTITIONS), i % HOSTS);
    receiver_await(&fixture->receiver, ALL);
    places_await_waiting(fixture, PARTITIONS * EACH - ALL);
    for (unsigned i = 0; i < PARTITIONS * EACH; i++) {
        receiver_await(&fixture->receiver, 1);
        receiver_look(&fixture->receiver, RECEIVER_QUIET_MS);
        assert_true(fixture->receiver.out <= ALL);
        most = fixture->receiver.out > most ? fixture->receiver.out : most;
        assert_true(receiver_answer(&fixture->receiver));
    }
    assert_int_equal(most, ALL);
    assert_int_equal(fixture->receiver.arrived, PARTITIONS * EACH);
}

/* Goal: a target whose timers are all in one partition has as many places as any. */
static void test_one_partition_has_all(void **state)
{
    enum { ALL = 12 };
    struct place_fixture *fixture = *state;

    places_set(fixture, "target_deliveries_max", ALL);
    places_start(fixture);
    for (unsigned i = 0; i < 2 * ALL; i++)
        places_create_webhook(fixture, 7, 0);
    receiver_await(&fixture->receiver, ALL);
    receiver_look(&fixture->receiver, RECEIVER_QUIET_MS);
    assert_int_equal(fixture->receiver.out, ALL);
    while (fixture->receiver.arrived < 2 * ALL || fixture->receiver.out > 0) {
        receiver_await(&fixture->receiver, 1);
        assert_true(receiver_answer(&fixture->receiver));
    }
}

struct place_worker {
    struct node_queue_request request;
    struct queue_receipt receipts[PARTITIONS];
    enum queue_verdict verdicts[PARTITIONS];
    size_t count;
    atomic_bool is_answered;
};

static void place_worker_leased(struct node_queue_request *request)
{
    struct place_worker *worker = list_item(request, struct place_worker, request);

    LIST_FOR_EACH (request->queue.leases, link)
        worker->receipts[worker->count++] = list_item(link, struct queue_lease, link)->receipt;
}

static void place_worker_done(struct node_queue_request *request)
{
    atomic_store(&list_item(request, struct place_worker, request)->is_answered, true);
}

/* Sends what `worker` has asked, and waits for the answer. */
static void place_worker_ask(struct place_fixture *fixture, struct place_worker *worker)
{
    atomic_store(&worker->is_answered, false);
    worker->request.done = place_worker_done;
    assert_int_equal(node_queue_submit(fixture->node, &worker->request), ERROR_NONE);
    while (!atomic_load(&worker->is_answered))
        sched_yield();
}

static size_t place_worker_lease(struct place_fixture *fixture, struct place_worker *worker,
                                 const char *queue, uint64_t wait_ms)
{
    *worker = (struct place_worker){
        .request = {.queue = {.kind = QUEUE_LEASE,
                              .queue = bytes_of(queue),
                              .items_max = PARTITIONS,
                              .bytes_max = 1 << 20,
                              .lease_ms = WAIT_MS,
                              .wait_until = instant_add_ms(instant_now(), wait_ms)},
                    .leased = place_worker_leased}};
    place_worker_ask(fixture, worker);
    return worker->count;
}

static void place_worker_ack(struct place_fixture *fixture, struct place_worker *worker,
                             const char *queue)
{
    worker->request = (struct node_queue_request){.queue = {.kind = QUEUE_ACK,
                                                            .queue = bytes_of(queue),
                                                            .receipts = worker->receipts,
                                                            .verdicts = worker->verdicts,
                                                            .receipt_count = worker->count}};
    place_worker_ask(fixture, worker);
    for (size_t i = 0; i < worker->count; i++)
        assert_int_equal(worker->verdicts[i], QUEUE_OK);
}

/* Goal: leases of all partitions together stay within their limit, and a partition that waits for
 * one, while no worker asks for its items, does not keep it from those of another queue. */
/* proves: queue_leases_max (beyond) */
static void test_leases(void **state)
{
    enum { LEASES = 2 };
    struct place_fixture *fixture = *state;
    struct place_worker worker, other;
    size_t items = 0;

    places_set(fixture, "queue_leases_max", LEASES);
    places_start(fixture);
    for (uint16_t i = 0; i < PARTITIONS; i++) {
        places_create(fixture, i, "queue:x");
        places_create(fixture, i, "queue:y");
    }
    places_await_waiting(fixture, 2 * PARTITIONS);
    while (items < PARTITIONS) {
        assert_in_range(place_worker_lease(fixture, &worker, "x", WAIT_MS), 1, LEASES);
        while (worker.count < LEASES && items + worker.count < PARTITIONS) {
            assert_true(place_worker_lease(fixture, &other, "x", WAIT_MS) == 1);
            worker.receipts[worker.count++] = other.receipts[0];
        }
        if (worker.count == LEASES) {
            assert_int_equal(place_worker_lease(fixture, &other, "x", 0), 0);
            assert_int_equal(place_worker_lease(fixture, &other, "y", 0), 0);
        }
        items += worker.count;
        place_worker_ack(fixture, &worker, "x");
    }
    for (items = 0; items < PARTITIONS; items += worker.count) {
        assert_in_range(place_worker_lease(fixture, &worker, "y", WAIT_MS), 1, LEASES);
        place_worker_ack(fixture, &worker, "y");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_at_a_time, places_set_up, places_tear_down),
        cmocka_unit_test_setup_teardown(test_limits_of_all, places_set_up, places_tear_down),
        cmocka_unit_test_setup_teardown(test_one_partition_has_all, places_set_up,
                                        places_tear_down),
        cmocka_unit_test_setup_teardown(test_leases, places_set_up, places_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
