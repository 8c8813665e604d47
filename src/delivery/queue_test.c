/*
 * Goal: what workers rely on, one promise at a time, and what other queues got wrong. Method: the
 * queue on top of a real engine over storage in memory, driven by hand on a clock of the test's
 * own. Random histories are queue_model_test's.
 */
#include "delivery/queue.h"

#include "engine/engine_turn_testing.h"
#include "timer/queue_target.h"
#include "storage/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define START     ((struct wall){UINT64_C(1800000000000)})
#define HOUR_MS   UINT64_C(3600000)
#define ITEMS_MAX 16

struct bed {
    struct storage *storage;
    struct engine *engine;
    struct queue *queue;
    uint64_t ms;
    bool holds_commits; /* nothing becomes durable */
};

/* A worker's request, and what it was answered. */
struct asked {
    struct queue_request request;
    bool is_answered;
    size_t count;
    struct queue_receipt receipts[ITEMS_MAX];
    struct timer_id ids[ITEMS_MAX];
    uint32_t attempts[ITEMS_MAX];
    enum queue_verdict verdicts[ITEMS_MAX];
};

static struct instant now_of(const struct bed *bed)
{
    return (struct instant){(1000 + bed->ms) * 1000000};
}

static struct wall wall_of(const struct bed *bed)
{
    return wall_add(START, bed->ms);
}

static void take_replies(struct bed *bed)
{
    struct queue_request *request;

    while ((request = queue_take_reply(bed->queue))) {
        struct asked *asked = list_item(request, struct asked, request);

        asked->is_answered = true;
        LIST_FOR_EACH ((struct list *)request->leases, link) {
            const struct queue_lease *lease = list_item(link, struct queue_lease, link);

            asked->receipts[asked->count] = lease->receipt;
            asked->attempts[asked->count] = lease->delivery->attempt;
            asked->ids[asked->count++] = lease->delivery->timer->id;
        }
    }
}

static struct delivery *pull(struct bed *bed, struct bytes name)
{
    for (unsigned priority = QUEUE_PRIORITY_COUNT; priority > 0; priority--) {
        struct delivery *delivery = turn_pull(bed->engine, wall_of(bed), name, priority - 1);

        if (delivery)
            return delivery;
    }
    return NULL;
}

/* Nobody waits for what a command is answered. */
static void drop_replies(struct bed *bed)
{
    while (engine_take_reply(bed->engine))
        ;
}

static bool carry_out_once(struct bed *bed)
{
    struct storage_batch *batch = bed->holds_commits ? NULL : engine_take_batch(bed->engine);
    struct engine_read *read = engine_take_read(bed->engine);
    struct delivery *delivery = queue_take_ended(bed->queue);
    struct bytes name;

    drop_replies(bed);
    if (batch) {
        batch->result = storage_commit(bed->storage, &batch, 1, NULL);
        turn_committed(bed->engine, wall_of(bed), batch);
        drop_replies(bed);
    }
    if (read) {
        read->result = read->kind == ENGINE_READ_FIND
                           ? storage_find(bed->storage, &read->id, &read->timer, NULL)
                           : storage_scan(bed->storage, &read->scan, &read->page, NULL);
        turn_read_done(bed->engine, wall_of(bed), read);
        drop_replies(bed);
    }
    if (delivery)
        turn_delivered(bed->engine, wall_of(bed), delivery);
    while ((delivery = engine_take_recorded(bed->engine)))
        queue_recorded(bed->queue, delivery);
    turn_advance(bed->engine, wall_of(bed));
    queue_advance(bed->queue, now_of(bed));
    while (engine_take_woken(bed->engine, &name))
        queue_wake(bed->queue, name);
    while (queue_wants(bed->queue, &name))
        queue_give(bed->queue, now_of(bed), pull(bed, name));
    take_replies(bed);
    queue_check(bed->queue);
    return batch || read;
}

static void settle(struct bed *bed)
{
    for (int idle = 0; idle < 3;)
        idle = carry_out_once(bed) ? 0 : idle + 1;
}

static void pass(struct bed *bed, uint64_t ms)
{
    bed->ms += ms;
    settle(bed);
}

static int set_up(void **state)
{
    struct engine_options options = ENGINE_OPTIONS_DEFAULT;
    struct storage_meta meta = {.epoch = 1};
    struct bed *bed = calloc(1, sizeof(*bed));

    bed->storage = memory_storage_create(1);
    bed->engine = engine_create(&options, &meta, START);
    bed->queue = queue_create((const uint8_t[QUEUE_SECRET_SIZE]){1, 2}, now_of(bed));
    settle(bed);
    *state = bed;
    return 0;
}

static int tear_down(void **state)
{
    struct bed *bed = *state;

    queue_destroy(bed->queue);
    engine_destroy(bed->engine);
    storage_close(bed->storage);
    free(bed);
    return 0;
}

static struct timer_id create(struct bed *bed, const char *target, uint64_t after_ms,
                              uint32_t attempts_max)
{
    struct timer_texts texts = {.target = bytes_of(target), .payload = BYTES("{}")};
    struct timer *timer = timer_alloc(&texts);
    struct command_created created;
    struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &created, .timer_count = 1};

    timer->due = wall_add(wall_of(bed), after_ms);
    timer->retry.attempts_max = attempts_max;
    turn_submit(bed->engine, wall_of(bed), &command);
    settle(bed);
    assert_int_equal(created.error, ERROR_NONE);
    return created.id;
}

static void submit_lease(struct bed *bed, struct asked *asked, const char *name, uint32_t max,
                         uint64_t wait_ms, uint64_t lease_ms)
{
    *asked = (struct asked){.request = {.kind = QUEUE_LEASE,
                                        .queue = bytes_of(name),
                                        .items_max = max,
                                        .bytes_max = SIZE_MAX,
                                        .wait_until = instant_add_ms(now_of(bed), wait_ms),
                                        .lease_ms = lease_ms}};
    queue_submit(bed->queue, now_of(bed), &asked->request);
    settle(bed);
}

/* Without waiting: what is there now. */
static size_t lease(struct bed *bed, struct asked *asked, uint32_t max)
{
    submit_lease(bed, asked, "mail", max, 0, 30000);
    assert_true(asked->is_answered);
    return asked->count;
}

/* Speaks about one lease; the verdict. */
static enum queue_verdict speak(struct bed *bed, enum queue_kind kind, const char *name,
                                struct queue_receipt receipt, struct delivery_outcome outcome)
{
    struct asked asked = {.request = {.kind = kind,
                                      .queue = bytes_of(name),
                                      .receipts = &receipt,
                                      .verdicts = asked.verdicts,
                                      .receipt_count = 1,
                                      .lease_ms = 30000,
                                      .outcome = outcome}};

    asked.request.verdicts = asked.verdicts;
    queue_submit(bed->queue, now_of(bed), &asked.request);
    settle(bed);
    assert_true(asked.is_answered);
    return asked.verdicts[0];
}

static enum queue_verdict ack(struct bed *bed, struct queue_receipt receipt)
{
    return speak(bed, QUEUE_ACK, "mail", receipt, (struct delivery_outcome){0});
}

static struct engine_stats stats_of(const struct bed *bed)
{
    struct engine_stats stats;

    engine_stats(bed->engine, &stats);
    return stats;
}

/* Celery #3270: a task that is delayed longer than the visibility time-out was delivered again
 * every hour, for it was leased while it waited. Here what waits is not leased. */
static void test_delayed_longer_than_a_lease_comes_once(void **state)
{
    struct bed *bed = *state;
    struct asked asked;
    size_t arrivals = 0;

    create(bed, "queue:mail", 12 * HOUR_MS, 10);
    for (int hour = 0; hour < 24; hour++) {
        if (lease(bed, &asked, 10)) {
            assert_int_equal(hour, 12);
            assert_int_equal(ack(bed, asked.receipts[0]), QUEUE_OK);
            arrivals += asked.count;
        }
        pass(bed, HOUR_MS);
    }
    assert_int_equal(arrivals, 1);
    assert_int_equal(stats_of(bed).attempts, 1);
}

/* beanstalkd #62: the time of a replay was added to every delay. A due time is absolute: the pause
 * that a worker asks for counts from its nack, whatever happens in between. */
/* proves: nack-delay */
static void test_a_delay_is_absolute(void **state)
{
    struct delivery_outcome later = {
        .result = DELIVERY_FAILED, .pause = DELIVERY_PAUSE_EXACT, .retry_after_ms = 60000};
    struct bed *bed = *state;
    struct asked asked;

    create(bed, "queue:mail", 0, 10);
    assert_int_equal(lease(bed, &asked, 1), 1);
    pass(bed, 10000);
    assert_int_equal(speak(bed, QUEUE_NACK, "mail", asked.receipts[0], later), QUEUE_OK);
    pass(bed, 59999);
    assert_int_equal(lease(bed, &asked, 1), 0);
    pass(bed, 1);
    assert_int_equal(lease(bed, &asked, 1), 1);
    assert_int_equal(asked.attempts[0], 2);
}

/* beanstalkd's job time-out: a worker that dies loses its job to another one, at once when its time
 * is up, and what it says afterwards counts for nothing. */
/* proves: lease-time, lease-ends */
static void test_a_lease_that_ends_comes_back(void **state)
{
    struct bed *bed = *state;
    struct asked dead, alive;

    create(bed, "queue:mail", 0, 10);
    assert_int_equal(lease(bed, &dead, 1), 1);
    submit_lease(bed, &alive, "mail", 1, 60000, 30000);
    pass(bed, 29999);
    assert_false(alive.is_answered);
    pass(bed, 1);
    assert_true(alive.is_answered);
    assert_int_equal(alive.count, 1);
    assert_int_equal(alive.attempts[0], 2);
    assert_int_equal(ack(bed, dead.receipts[0]), QUEUE_STALE);
    assert_int_equal(stats_of(bed).fired, 0);
    assert_int_equal(ack(bed, alive.receipts[0]), QUEUE_OK);
    assert_int_equal(ack(bed, alive.receipts[0]), QUEUE_STALE);
    assert_int_equal(stats_of(bed).fired, 1);
}

/* What a worker is told is not later than the end of any of its leases, however long they took to
 * be given, and to be told. */
/* proves: lease-time */
static void test_the_end_that_is_told_is_the_first(void **state)
{
    struct bed *bed = *state;
    struct bytes name;
    struct asked asked = {.request = {.kind = QUEUE_LEASE,
                                      .queue = BYTES("mail"),
                                      .items_max = 2,
                                      .bytes_max = SIZE_MAX,
                                      .wait_until = {UINT64_MAX},
                                      .lease_ms = 30000}};
    struct instant first;

    create(bed, "queue:mail", 0, 10);
    create(bed, "queue:mail", 0, 10);
    queue_submit(bed->queue, now_of(bed), &asked.request);
    bed->ms += 100;
    first = now_of(bed);
    for (int i = 0; i < 2; i++) {
        assert_true(queue_wants(bed->queue, &name));
        queue_give(bed->queue, now_of(bed), pull(bed, name));
        bed->ms += 700;
    }
    take_replies(bed);
    assert_int_equal(asked.count, 2);
    assert_true(asked.request.leased_until.ns == instant_add_ms(first, 30000).ns);
    pass(bed, 30000 - 1400 - 1);
    assert_int_equal(ack(bed, asked.receipts[0]), QUEUE_OK);
    pass(bed, 700);
    assert_int_equal(ack(bed, asked.receipts[1]), QUEUE_OK);
}

/* One poison message must not come for ever: RocketMQ #9654. */
/* proves: retry-attempts, nack */
static void test_poison_becomes_a_dead_letter(void **state)
{
    struct bed *bed = *state;
    struct asked asked;

    create(bed, "queue:mail", 0, 3);
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        assert_int_equal(lease(bed, &asked, 1), 1);
        assert_int_equal(asked.attempts[0], attempt);
        pass(bed, 30000);
    }
    assert_int_equal(lease(bed, &asked, 1), 0);
    assert_int_equal(stats_of(bed).dead, 1);
    create(bed, "queue:mail", 0, 3);
    assert_int_equal(lease(bed, &asked, 1), 1);
    assert_int_equal(speak(bed, QUEUE_NACK, "mail", asked.receipts[0],
                           (struct delivery_outcome){.result = DELIVERY_ENDED, .error = "bad"}),
                     QUEUE_OK);
    assert_int_equal(stats_of(bed).dead, 2);
}

/* beanstalkd's touch: each extension counts from when it is asked for. */
/* proves: extend */
static void test_extend(void **state)
{
    struct bed *bed = *state;
    struct asked asked, other;

    create(bed, "queue:mail", 0, 10);
    assert_int_equal(lease(bed, &asked, 1), 1);
    for (int i = 0; i < 10; i++) {
        pass(bed, 29000);
        assert_int_equal(lease(bed, &other, 1), 0);
        assert_int_equal(
            speak(bed, QUEUE_EXTEND, "mail", asked.receipts[0], (struct delivery_outcome){0}),
            QUEUE_OK);
    }
    pass(bed, 29999);
    assert_int_equal(lease(bed, &other, 1), 0);
    pass(bed, 1);
    assert_int_equal(lease(bed, &other, 1), 1);
    assert_int_equal(
        speak(bed, QUEUE_EXTEND, "mail", asked.receipts[0], (struct delivery_outcome){0}),
        QUEUE_STALE);
}

/* An ack is answered when it is durable, not before: else a crash would bring back what was said to
 * be done. */
/* proves: ack */
static void test_an_ack_waits_for_the_disk(void **state)
{
    struct bed *bed = *state;
    struct asked asked, acked = {0};

    create(bed, "queue:mail", 0, 10);
    assert_int_equal(lease(bed, &asked, 1), 1);
    acked.request = (struct queue_request){.kind = QUEUE_ACK,
                                           .queue = BYTES("mail"),
                                           .receipts = asked.receipts,
                                           .verdicts = acked.verdicts,
                                           .receipt_count = 1};
    bed->holds_commits = true;
    queue_submit(bed->queue, now_of(bed), &acked.request);
    settle(bed);
    assert_false(acked.is_answered);
    bed->holds_commits = false;
    settle(bed);
    assert_true(acked.is_answered);
    assert_int_equal(acked.verdicts[0], QUEUE_OK);
}

/* Who waits is served as soon as there is work, in the order in which they came, and each gets no
 * more than it asked for. */
/* proves: lease-wait */
static void test_waiting_is_fair(void **state)
{
    struct bed *bed = *state;
    struct asked workers[3];

    for (int i = 0; i < 3; i++)
        submit_lease(bed, &workers[i], "mail", 2, 60000, 30000);
    for (int i = 0; i < 3; i++) {
        create(bed, "queue:mail", 100, 10);
        pass(bed, 99);
        assert_false(workers[i].is_answered);
        pass(bed, 1);
        assert_true(workers[i].is_answered);
        assert_int_equal(workers[i].count, 1);
    }
    for (int i = 0; i < 3; i++)
        submit_lease(bed, &workers[i], "mail", 2, 100, 30000);
    create(bed, "queue:other", 0, 10);
    pass(bed, 99);
    for (int i = 0; i < 3; i++)
        assert_false(workers[i].is_answered);
    pass(bed, 1);
    for (int i = 0; i < 3; i++)
        assert_true(workers[i].is_answered && workers[i].count == 0);
}

/* A receipt is good for its own lease and queue only, and cannot be made up. */
/* proves: receipt */
static void test_receipts(void **state)
{
    struct bed *bed = *state;
    struct queue_receipt receipt, parsed;
    char text[QUEUE_RECEIPT_SIZE];
    struct asked asked;

    create(bed, "queue:mail", 0, 10);
    assert_int_equal(lease(bed, &asked, 1), 1);
    receipt = asked.receipts[0];
    assert_int_equal(speak(bed, QUEUE_ACK, "other", receipt, (struct delivery_outcome){0}),
                     QUEUE_STALE);
    for (int bit = 0; bit < 64; bit++) {
        struct queue_receipt forged = receipt;

        forged.proof ^= UINT64_C(1) << bit;
        assert_int_equal(ack(bed, forged), QUEUE_STALE);
    }
    queue_receipt_format(receipt, text);
    assert_true(queue_receipt_parse(bytes_of(text), &parsed));
    assert_true(parsed.number == receipt.number && parsed.proof == receipt.proof);
    assert_false(queue_receipt_parse((struct bytes){text, 31}, &parsed));
    text[7] = 'G';
    assert_false(queue_receipt_parse(bytes_of(text), &parsed));
    text[7] = 'A'; /* one spelling for each */
    assert_false(queue_receipt_parse(bytes_of(text), &parsed));
    assert_int_equal(ack(bed, parsed), QUEUE_OK);
}

/* A stop keeps nobody waiting and gives back what is leased, without counting an attempt. */
/* proves: lease-ends */
static void test_stop(void **state)
{
    struct bed *bed = *state;
    struct asked waiting, leased, late;

    submit_lease(bed, &waiting, "idle", 1, HOUR_MS, 30000);
    create(bed, "queue:mail", 0, 10);
    assert_int_equal(lease(bed, &leased, 1), 1);
    queue_stop_waiting(bed->queue);
    settle(bed);
    assert_true(waiting.is_answered && waiting.count == 0);
    submit_lease(bed, &late, "idle", 1, HOUR_MS, 30000);
    assert_true(late.is_answered && late.count == 0);
    engine_drain(bed->engine);
    queue_return_all(bed->queue);
    settle(bed);
    assert_true(engine_is_idle(bed->engine));
    assert_int_equal(stats_of(bed).attempts, 0);
}

/* A wait that is over while a pull is still to come is answered after it: no worker leaves with
 * empty hands when there is work. */
static void test_a_late_pull_counts(void **state)
{
    struct bed *bed = *state;
    struct asked asked = {.request = {.kind = QUEUE_LEASE,
                                      .queue = BYTES("mail"),
                                      .items_max = 1,
                                      .bytes_max = SIZE_MAX,
                                      .wait_until = instant_add_ms(now_of(bed), 100),
                                      .lease_ms = 1000}};

    create(bed, "queue:mail", 0, 10);
    queue_submit(bed->queue, now_of(bed), &asked.request);
    bed->ms += 200;
    queue_advance(bed->queue, now_of(bed));
    take_replies(bed);
    assert_false(asked.is_answered);
    settle(bed);
    assert_true(asked.is_answered);
    assert_int_equal(asked.count, 1);
}

/* A lease stops growing when it is as large as the worker said. */
/* proves: lease-max, queue_bytes_max */
static void test_bytes(void **state)
{
    struct bed *bed = *state;
    struct asked asked;

    for (int i = 0; i < 5; i++)
        create(bed, "queue:mail", 0, 10);
    asked = (struct asked){.request = {.kind = QUEUE_LEASE,
                                       .queue = BYTES("mail"),
                                       .items_max = 5,
                                       .bytes_max = 1,
                                       .wait_until = now_of(bed),
                                       .lease_ms = 1000}};
    queue_submit(bed->queue, now_of(bed), &asked.request);
    settle(bed);
    assert_int_equal(asked.count, 1); /* one, however large it is */
    /* To the byte: with the one that reaches it the lease is full. */
    for (size_t more = 0; more < 2; more++) {
        const size_t footprint = asked.request.bytes_ / asked.count;

        asked = (struct asked){.request = {.kind = QUEUE_LEASE,
                                           .queue = BYTES("mail"),
                                           .items_max = 5,
                                           .bytes_max = footprint + more,
                                           .wait_until = now_of(bed),
                                           .lease_ms = 1000}};
        queue_submit(bed->queue, now_of(bed), &asked.request);
        settle(bed);
        assert_int_equal(asked.count, 1 + more);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_delayed_longer_than_a_lease_comes_once),
        TEST(test_a_delay_is_absolute),
        TEST(test_a_lease_that_ends_comes_back),
        TEST(test_the_end_that_is_told_is_the_first),
        TEST(test_poison_becomes_a_dead_letter),
        TEST(test_extend),
        TEST(test_an_ack_waits_for_the_disk),
        TEST(test_waiting_is_fair),
        TEST(test_receipts),
        TEST(test_stop),
        TEST(test_a_late_pull_counts),
        TEST(test_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
