/*
 * Goal: what workers rely on, one promise at a time, and what other queues got wrong. Method: the
 * queue on top of a real engine over storage in memory, driven by hand on a clock of the test's
 * own. Random histories are queue_model_test's.
 */
#include "delivery/queue.h"

#include "engine/engine_turn_testing.h"
#include "timer/queue_target.h"
#include "store/testing/memory.h"
#include "store/storage_writing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define START     ((struct wall){UINT64_C(1800000000000)})
#define HOUR_MS   UINT64_C(3600000)
#define ITEMS_MAX 16

struct queue_fixture {
    struct storage *storage;
    struct engine *engine;
    struct queue *queue;
    uint64_t ms;
    bool holds_commits; /* nothing becomes durable */
};

/* A worker's request, and what it was answered. */
struct queue_asked {
    struct queue_request request;
    bool is_answered;
    size_t count;
    struct queue_receipt receipts[ITEMS_MAX];
    struct timer_id ids[ITEMS_MAX];
    uint32_t attempts[ITEMS_MAX];
    enum queue_verdict verdicts[ITEMS_MAX];
};

static struct instant queue_test_now_of(const struct queue_fixture *fixture)
{
    return (struct instant){(1000 + fixture->ms) * 1000000};
}

static struct wall wall_of(const struct queue_fixture *fixture)
{
    return wall_add(START, fixture->ms);
}

static void queue_test_take_replies(struct queue_fixture *fixture)
{
    struct queue_request *request;

    while ((request = queue_take_reply(fixture->queue))) {
        struct queue_asked *asked = list_item(request, struct queue_asked, request);

        asked->is_answered = true;
        LIST_FOR_EACH ((struct list *)request->leases, link) {
            const struct queue_lease *lease = list_item(link, struct queue_lease, link);

            asked->receipts[asked->count] = lease->receipt;
            asked->attempts[asked->count] = lease->delivery->attempt;
            asked->ids[asked->count++] = lease->delivery->timer->id;
        }
    }
}

static struct delivery *queue_test_pull(struct queue_fixture *fixture, struct bytes name)
{
    for (unsigned priority = QUEUE_PRIORITY_COUNT; priority > 0; priority--) {
        struct delivery *delivery =
            turn_pull(fixture->engine, wall_of(fixture), name, priority - 1);

        if (delivery)
            return delivery;
    }
    return NULL;
}

/* Nobody waits for what a command is answered. */
static void drop_replies(struct queue_fixture *fixture)
{
    while (engine_take_reply(fixture->engine))
        ;
}

static bool carry_out_once(struct queue_fixture *fixture)
{
    struct storage_batch *batch =
        fixture->holds_commits ? NULL : engine_take_batch(fixture->engine);
    struct engine_read *read = engine_take_read(fixture->engine);
    struct delivery *delivery = queue_take_ended(fixture->queue);

    drop_replies(fixture);
    if (batch) {
        batch->result = storage_write(fixture->storage, &batch, 1, NULL);
        turn_committed(fixture->engine, wall_of(fixture), batch);
        drop_replies(fixture);
    }
    if (read) {
        read->result = read->kind == ENGINE_READ_FIND
                           ? storage_find(fixture->storage, &read->id, &read->timer, NULL)
                           : storage_scan(fixture->storage, &read->scan, &read->page, NULL);
        turn_read_done(fixture->engine, wall_of(fixture), read);
        drop_replies(fixture);
    }
    if (delivery)
        turn_delivered(fixture->engine, wall_of(fixture), delivery);
    while ((delivery = engine_take_recorded(fixture->engine)))
        queue_recorded(fixture->queue, delivery);
    turn_advance(fixture->engine, wall_of(fixture));
    queue_advance(fixture->queue, queue_test_now_of(fixture));
    struct bytes name;
    while (engine_take_woken(fixture->engine, &name))
        queue_wake(fixture->queue, name);
    while (queue_wants(fixture->queue, &name))
        queue_give(fixture->queue, queue_test_now_of(fixture), queue_test_pull(fixture, name));
    queue_test_take_replies(fixture);
    queue_check(fixture->queue);
    return batch || read;
}

static void queue_test_settle(struct queue_fixture *fixture)
{
    for (int idle = 0; idle < 3;)
        idle = carry_out_once(fixture) ? 0 : idle + 1;
}

static void pass(struct queue_fixture *fixture, uint64_t ms)
{
    fixture->ms += ms;
    queue_test_settle(fixture);
}

static int queue_test_set_up(void **state)
{
    struct storage_meta meta = {.epoch = 1};
    struct queue_fixture *fixture = calloc(1, sizeof(*fixture));

    fixture->storage = memory_storage_create(1);
    struct engine_options options = ENGINE_OPTIONS_DEFAULT;
    fixture->engine = engine_create(&options, &meta, START);
    fixture->queue =
        queue_create((const uint8_t[QUEUE_SECRET_SIZE]){1, 2}, 0, queue_test_now_of(fixture));
    queue_test_settle(fixture);
    *state = fixture;
    return 0;
}

static int queue_test_tear_down(void **state)
{
    struct queue_fixture *fixture = *state;

    queue_destroy(fixture->queue);
    engine_destroy(fixture->engine);
    storage_close(fixture->storage);
    free(fixture);
    return 0;
}

static struct timer_id queue_test_create(struct queue_fixture *fixture, const char *target,
                                         uint64_t after_ms, uint32_t attempts_max)
{
    struct timer_texts texts = {.target = bytes_of(target), .payload = BYTES("{}")};
    struct timer *timer = timer_alloc(&texts);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    timer->due = wall_add(wall_of(fixture), after_ms);
    timer->retry.attempts_max = attempts_max;
    turn_submit(fixture->engine, wall_of(fixture), &command);
    queue_test_settle(fixture);
    assert_int_equal(created.error, ERROR_NONE);
    return created.id;
}

static void submit_lease(struct queue_fixture *fixture, struct queue_asked *asked, const char *name,
                         uint32_t max, uint64_t wait_ms, uint64_t lease_ms)
{
    *asked = (struct queue_asked){
        .request = {.kind = QUEUE_LEASE,
                    .queue = bytes_of(name),
                    .items_max = max,
                    .bytes_max = SIZE_MAX,
                    .wait_until = instant_add_ms(queue_test_now_of(fixture), wait_ms),
                    .lease_ms = lease_ms}};
    queue_submit(fixture->queue, queue_test_now_of(fixture), &asked->request);
    queue_test_settle(fixture);
}

/* Without waiting: what is there now. */
static size_t lease(struct queue_fixture *fixture, struct queue_asked *asked, uint32_t max)
{
    submit_lease(fixture, asked, "mail", max, 0, 30000);
    assert_true(asked->is_answered);
    return asked->count;
}

/* Speaks about one lease; the verdict. */
static enum queue_verdict queue_test_speak(struct queue_fixture *fixture, enum queue_kind kind,
                                           const char *name, struct queue_receipt receipt,
                                           struct delivery_outcome outcome)
{
    struct queue_asked asked = {.request = {.kind = kind,
                                            .queue = bytes_of(name),
                                            .receipts = &receipt,
                                            .verdicts = asked.verdicts,
                                            .receipt_count = 1,
                                            .lease_ms = 30000,
                                            .outcome = outcome}};

    asked.request.verdicts = asked.verdicts;
    queue_submit(fixture->queue, queue_test_now_of(fixture), &asked.request);
    queue_test_settle(fixture);
    assert_true(asked.is_answered);
    return asked.verdicts[0];
}

static enum queue_verdict ack(struct queue_fixture *fixture, struct queue_receipt receipt)
{
    return queue_test_speak(fixture, QUEUE_ACK, "mail", receipt, (struct delivery_outcome){0});
}

static struct engine_stats stats_of(const struct queue_fixture *fixture)
{
    struct engine_stats stats;

    engine_stats(fixture->engine, &stats);
    return stats;
}

/* Celery #3270: a task that is delayed longer than the visibility time-out was delivered again
 * every hour, for it was leased while it waited. Here what waits is not leased. */
static void test_delayed_longer_than_a_lease_comes_once(void **state)
{
    struct queue_fixture *fixture = *state;

    queue_test_create(fixture, "queue:mail", 12 * HOUR_MS, 10);
    size_t arrivals = 0;
    for (int hour = 0; hour < 24; hour++) {
        struct queue_asked asked;
        if (lease(fixture, &asked, 10)) {
            assert_int_equal(hour, 12);
            assert_int_equal(ack(fixture, asked.receipts[0]), QUEUE_OK);
            arrivals += asked.count;
        }
        pass(fixture, HOUR_MS);
    }
    assert_int_equal(arrivals, 1);
    assert_int_equal(stats_of(fixture).attempts, 1);
}

/* beanstalkd #62: the time of a replay was added to every delay. A due time is absolute: the pause
 * that a worker asks for counts from its nack, whatever happens in between. */
/* proves: nack-delay */
static void test_a_delay_is_absolute(void **state)
{
    struct delivery_outcome later = {
        .result = DELIVERY_FAILED, .pause = DELIVERY_PAUSE_EXACT, .retry_after_ms = 60000};
    struct queue_fixture *fixture = *state;

    queue_test_create(fixture, "queue:mail", 0, 10);
    struct queue_asked asked;
    assert_int_equal(lease(fixture, &asked, 1), 1);
    pass(fixture, 10000);
    assert_int_equal(queue_test_speak(fixture, QUEUE_NACK, "mail", asked.receipts[0], later),
                     QUEUE_OK);
    pass(fixture, 59999);
    assert_int_equal(lease(fixture, &asked, 1), 0);
    pass(fixture, 1);
    assert_int_equal(lease(fixture, &asked, 1), 1);
    assert_int_equal(asked.attempts[0], 2);
}

/* beanstalkd's job time-out: a worker that dies loses its job to another one, at once when its time
 * is up, and what it says afterwards counts for nothing. */
/* proves: lease-time, lease-ends */
static void test_a_lease_that_ends_comes_back(void **state)
{
    struct queue_fixture *fixture = *state;

    queue_test_create(fixture, "queue:mail", 0, 10);
    struct queue_asked dead;
    assert_int_equal(lease(fixture, &dead, 1), 1);
    struct queue_asked alive;
    submit_lease(fixture, &alive, "mail", 1, 60000, 30000);
    pass(fixture, 29999);
    assert_false(alive.is_answered);
    pass(fixture, 1);
    assert_true(alive.is_answered);
    assert_int_equal(alive.count, 1);
    assert_int_equal(alive.attempts[0], 2);
    assert_int_equal(ack(fixture, dead.receipts[0]), QUEUE_STALE);
    assert_int_equal(stats_of(fixture).fired, 0);
    assert_int_equal(ack(fixture, alive.receipts[0]), QUEUE_OK);
    assert_int_equal(ack(fixture, alive.receipts[0]), QUEUE_STALE);
    assert_int_equal(stats_of(fixture).fired, 1);
}

/* A release ends the lease of one timer only, as the end of its time does; without a lease it does
 * nothing. The engine's answer to the first question is that it is leased; to the second, that the
 * end is durable. */
/* proves: release */
static void test_a_release_ends_one_lease(void **state)
{
    struct queue_fixture *fixture = *state;
    const struct timer_id id = queue_test_create(fixture, "queue:mail", 0, 10);

    queue_test_create(fixture, "queue:mail", 0, 10);
    assert_null(queue_release(fixture->queue, &id));
    struct queue_asked dead, alive;
    assert_int_equal(lease(fixture, &dead, 2), 2);
    const size_t index = timer_id_equal(&dead.ids[0], &id) ? 0 : 1;
    struct command command = {.kind = COMMAND_RELEASE, .id = id};
    turn_submit(fixture->engine, wall_of(fixture), &command);
    assert_ptr_equal(engine_take_reply(fixture->engine), &command);
    assert_int_equal(command.error, ERROR_NONE);
    struct delivery *delivery = queue_release(fixture->queue, &id);
    assert_non_null(delivery);
    assert_null(queue_release(fixture->queue, &id));
    turn_delivered(fixture->engine, wall_of(fixture), delivery);
    command.has_acted = true;
    fixture->holds_commits = true;
    turn_submit(fixture->engine, wall_of(fixture), &command);
    assert_null(engine_take_reply(fixture->engine));
    fixture->holds_commits = false;
    queue_test_settle(fixture);
    assert_int_equal(command.error, ERROR_NONE);
    assert_int_equal(ack(fixture, dead.receipts[index]), QUEUE_STALE);
    assert_int_equal(ack(fixture, dead.receipts[1 - index]), QUEUE_OK);
    assert_int_equal(lease(fixture, &alive, 2), 1);
    assert_int_equal(alive.attempts[0], 2);
}

/* What a worker is told is not later than the end of any of its leases, however long they took to
 * be given, and to be told. */
/* proves: lease-time */
static void test_the_end_that_is_told_is_the_first(void **state)
{
    struct queue_fixture *fixture = *state;
    struct queue_asked asked = {.request = {.kind = QUEUE_LEASE,
                                            .queue = BYTES("mail"),
                                            .items_max = 2,
                                            .bytes_max = SIZE_MAX,
                                            .wait_until = {UINT64_MAX},
                                            .lease_ms = 30000}};

    queue_test_create(fixture, "queue:mail", 0, 10);
    queue_test_create(fixture, "queue:mail", 0, 10);
    queue_submit(fixture->queue, queue_test_now_of(fixture), &asked.request);
    fixture->ms += 100;
    struct instant first = queue_test_now_of(fixture);
    struct bytes name;
    for (int i = 0; i < 2; i++) {
        assert_true(queue_wants(fixture->queue, &name));
        queue_give(fixture->queue, queue_test_now_of(fixture), queue_test_pull(fixture, name));
        fixture->ms += 700;
    }
    queue_test_take_replies(fixture);
    assert_int_equal(asked.count, 2);
    assert_true(asked.request.leased_until.ns == instant_add_ms(first, 30000).ns);
    pass(fixture, 30000 - 1400 - 1);
    assert_int_equal(ack(fixture, asked.receipts[0]), QUEUE_OK);
    pass(fixture, 700);
    assert_int_equal(ack(fixture, asked.receipts[1]), QUEUE_OK);
}

/* One poison message must not come for ever: RocketMQ #9654. */
/* proves: retry-attempts, nack */
static void test_poison_becomes_a_dead_letter(void **state)
{
    struct queue_fixture *fixture = *state;

    queue_test_create(fixture, "queue:mail", 0, 3);
    struct queue_asked asked;
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        assert_int_equal(lease(fixture, &asked, 1), 1);
        assert_int_equal(asked.attempts[0], attempt);
        pass(fixture, 30000);
    }
    assert_int_equal(lease(fixture, &asked, 1), 0);
    assert_int_equal(stats_of(fixture).dead, 1);
    queue_test_create(fixture, "queue:mail", 0, 3);
    assert_int_equal(lease(fixture, &asked, 1), 1);
    assert_int_equal(
        queue_test_speak(fixture, QUEUE_NACK, "mail", asked.receipts[0],
                         (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "bad"}),
        QUEUE_OK);
    assert_int_equal(stats_of(fixture).dead, 2);
}

/* beanstalkd's touch: each extension counts from when it is asked for. */
/* proves: extend */
static void test_extend(void **state)
{
    struct queue_fixture *fixture = *state;

    queue_test_create(fixture, "queue:mail", 0, 10);
    struct queue_asked asked;
    assert_int_equal(lease(fixture, &asked, 1), 1);
    struct queue_asked other;
    for (int i = 0; i < 10; i++) {
        pass(fixture, 29000);
        assert_int_equal(lease(fixture, &other, 1), 0);
        assert_int_equal(queue_test_speak(fixture, QUEUE_EXTEND, "mail", asked.receipts[0],
                                          (struct delivery_outcome){0}),
                         QUEUE_OK);
    }
    pass(fixture, 29999);
    assert_int_equal(lease(fixture, &other, 1), 0);
    pass(fixture, 1);
    assert_int_equal(lease(fixture, &other, 1), 1);
    assert_int_equal(queue_test_speak(fixture, QUEUE_EXTEND, "mail", asked.receipts[0],
                                      (struct delivery_outcome){0}),
                     QUEUE_STALE);
}

/* An ack is answered when it is durable, not before: else a crash would bring back what was said to
 * be done. */
/* proves: ack */
static void test_an_ack_waits_for_the_disk(void **state)
{
    struct queue_fixture *fixture = *state;

    queue_test_create(fixture, "queue:mail", 0, 10);
    struct queue_asked asked;
    assert_int_equal(lease(fixture, &asked, 1), 1);
    struct queue_asked acked = {0};
    acked.request = (struct queue_request){.kind = QUEUE_ACK,
                                           .queue = BYTES("mail"),
                                           .receipts = asked.receipts,
                                           .verdicts = acked.verdicts,
                                           .receipt_count = 1};
    fixture->holds_commits = true;
    queue_submit(fixture->queue, queue_test_now_of(fixture), &acked.request);
    queue_test_settle(fixture);
    assert_false(acked.is_answered);
    fixture->holds_commits = false;
    queue_test_settle(fixture);
    assert_true(acked.is_answered);
    assert_int_equal(acked.verdicts[0], QUEUE_OK);
}

/* Who waits is served as soon as there is work, in the order in which they came, and each gets no
 * more than it asked for. */
/* proves: lease-wait */
static void test_waiting_is_fair(void **state)
{
    struct queue_fixture *fixture = *state;
    struct queue_asked workers[3];

    for (int i = 0; i < 3; i++)
        submit_lease(fixture, &workers[i], "mail", 2, 60000, 30000);
    for (int i = 0; i < 3; i++) {
        queue_test_create(fixture, "queue:mail", 100, 10);
        pass(fixture, 99);
        assert_false(workers[i].is_answered);
        pass(fixture, 1);
        assert_true(workers[i].is_answered);
        assert_int_equal(workers[i].count, 1);
    }
    for (int i = 0; i < 3; i++)
        submit_lease(fixture, &workers[i], "mail", 2, 100, 30000);
    queue_test_create(fixture, "queue:other", 0, 10);
    pass(fixture, 99);
    for (int i = 0; i < 3; i++)
        assert_false(workers[i].is_answered);
    pass(fixture, 1);
    for (int i = 0; i < 3; i++)
        assert_true(workers[i].is_answered && workers[i].count == 0);
}

/* A receipt is good for its own lease and queue only, and cannot be made up. */
/* proves: receipt */
static void test_receipts(void **state)
{
    struct queue_fixture *fixture = *state;

    queue_test_create(fixture, "queue:mail", 0, 10);
    struct queue_asked asked;
    assert_int_equal(lease(fixture, &asked, 1), 1);
    struct queue_receipt receipt = asked.receipts[0];
    assert_int_equal(
        queue_test_speak(fixture, QUEUE_ACK, "other", receipt, (struct delivery_outcome){0}),
        QUEUE_STALE);
    for (int bit = 0; bit < 64; bit++) {
        struct queue_receipt forged = receipt;

        forged.proof ^= UINT64_C(1) << bit;
        assert_int_equal(ack(fixture, forged), QUEUE_STALE);
    }
    char text[QUEUE_RECEIPT_SIZE];
    queue_receipt_format(receipt, text);
    struct queue_receipt parsed;
    assert_true(queue_receipt_parse(bytes_of(text), &parsed));
    assert_true(parsed.number == receipt.number && parsed.proof == receipt.proof);
    assert_false(queue_receipt_parse((struct bytes){text, 31}, &parsed));
    text[7] = 'G';
    assert_false(queue_receipt_parse(bytes_of(text), &parsed));
    text[7] = 'A'; /* one spelling for each */
    assert_false(queue_receipt_parse(bytes_of(text), &parsed));
    assert_int_equal(ack(fixture, parsed), QUEUE_OK);
}

/* A stop keeps nobody waiting and gives back what is leased, without counting an attempt. */
/* proves: lease-ends */
static void test_queue_stop(void **state)
{
    struct queue_fixture *fixture = *state;
    struct queue_asked waiting;

    submit_lease(fixture, &waiting, "idle", 1, HOUR_MS, 30000);
    queue_test_create(fixture, "queue:mail", 0, 10);
    struct queue_asked leased;
    assert_int_equal(lease(fixture, &leased, 1), 1);
    queue_stop_waiting(fixture->queue);
    queue_test_settle(fixture);
    assert_true(waiting.is_answered && waiting.count == 0);
    struct queue_asked late;
    submit_lease(fixture, &late, "idle", 1, HOUR_MS, 30000);
    assert_true(late.is_answered && late.count == 0);
    engine_drain(fixture->engine);
    queue_return_all(fixture->queue);
    queue_test_settle(fixture);
    assert_true(engine_is_idle(fixture->engine));
    assert_int_equal(stats_of(fixture).attempts, 0);
}

/* A wait that is over while a pull is still to come is answered after it: no worker leaves with
 * empty hands when there is work. */
static void test_a_late_pull_counts(void **state)
{
    struct queue_fixture *fixture = *state;
    struct queue_asked asked = {
        .request = {.kind = QUEUE_LEASE,
                    .queue = BYTES("mail"),
                    .items_max = 1,
                    .bytes_max = SIZE_MAX,
                    .wait_until = instant_add_ms(queue_test_now_of(fixture), 100),
                    .lease_ms = 1000}};

    queue_test_create(fixture, "queue:mail", 0, 10);
    queue_submit(fixture->queue, queue_test_now_of(fixture), &asked.request);
    fixture->ms += 200;
    queue_advance(fixture->queue, queue_test_now_of(fixture));
    queue_test_take_replies(fixture);
    assert_false(asked.is_answered);
    queue_test_settle(fixture);
    assert_true(asked.is_answered);
    assert_int_equal(asked.count, 1);
}

/* A lease stops growing when it is as large as the worker said. */
/* proves: lease-max, queue_bytes_max */
static void test_queue_bytes(void **state)
{
    struct queue_fixture *fixture = *state;

    for (int i = 0; i < 5; i++)
        queue_test_create(fixture, "queue:mail", 0, 10);
    struct queue_asked asked = {.request = {.kind = QUEUE_LEASE,
                                            .queue = BYTES("mail"),
                                            .items_max = 5,
                                            .bytes_max = 1,
                                            .wait_until = queue_test_now_of(fixture),
                                            .lease_ms = 1000}};
    queue_submit(fixture->queue, queue_test_now_of(fixture), &asked.request);
    queue_test_settle(fixture);
    assert_int_equal(asked.count, 1); /* one, however large it is */
    /* To the byte: with the one that reaches it the lease is full. */
    for (size_t more = 0; more < 2; more++) {
        const size_t footprint = asked.request.bytes_ / asked.count;

        asked = (struct queue_asked){.request = {.kind = QUEUE_LEASE,
                                                 .queue = BYTES("mail"),
                                                 .items_max = 5,
                                                 .bytes_max = footprint + more,
                                                 .wait_until = queue_test_now_of(fixture),
                                                 .lease_ms = 1000}};
        queue_submit(fixture->queue, queue_test_now_of(fixture), &asked.request);
        queue_test_settle(fixture);
        assert_int_equal(asked.count, 1 + more);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, queue_test_set_up, queue_test_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_delayed_longer_than_a_lease_comes_once),
        TEST(test_a_delay_is_absolute),
        TEST(test_a_lease_that_ends_comes_back),
        TEST(test_a_release_ends_one_lease),
        TEST(test_the_end_that_is_told_is_the_first),
        TEST(test_poison_becomes_a_dead_letter),
        TEST(test_extend),
        TEST(test_an_ack_waits_for_the_disk),
        TEST(test_waiting_is_fair),
        TEST(test_receipts),
        TEST(test_queue_stop),
        TEST(test_a_late_pull_counts),
        TEST(test_queue_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
