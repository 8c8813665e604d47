/* Goal: whatever is asked of a partition, a node that does not own it gives the answer that its
 * owner gives. Method: two nodes of one process, with folders of their own and half of the
 * partitions each, over loopback; each thing is done through one of them, and seen through both.
 * Then two nodes that share by the plan of their cluster, on the broker in memory of librdkafka. */
#include "node/passing.h"

#include "ops/stats.h"
#include "store/storage_testing.h"
#include "sys/clock.h"

#include <poll.h>
#include <pthread.h>

#ifdef TICKWHEEL_WITH_LOG_KAFKA
#include "cluster/log_kafka_testing.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#endif

enum { PARTITIONS = 4 };

#define FAR_MS  UINT64_C(3600000)
#define CLUSTER UINT64_C(5) /* its id */

struct half {
    struct testing_folder folder;
    struct config config;
    struct metrics *metrics;
    struct node *node;
    struct passing passing;
    struct passing_map map;
    struct halves *both;
    uint32_t id;
};

struct halves {
    struct half half[2]; /* nodes 1 and 2: 1 has the even partitions */
};

static bool half_is_here(void *context, uint16_t partition, uint32_t *ret_node)
{
    const struct half *half = context;

    *ret_node = partition % 2 + 1;
    return *ret_node == half->id;
}

static bool half_address(void *context, uint32_t node, char ret_address[PEERS_ADDRESS_SIZE])
{
    const struct half *half = context;

    snprintf(ret_address, PEERS_ADDRESS_SIZE, "127.0.0.1:%u",
             passing_port(&half->both->half[node - 1].passing));
    return true;
}

static void half_set(struct half *half, const char *name, const char *value)
{
    assert_int_equal(config_set(&half->config, name, value, NULL), ERROR_NONE);
}

static void half_init(struct half *half)
{
    testing_folder_make(&half->folder);
    config_init(&half->config);
    half_set(half, "data_folder", half->folder.path);
    half_set(half, "partitions", "4");
    half_set(half, "webhook_allow", "127.0.0.0/8");
    half_set(half, "cluster_node_id", half->id == 1 ? "1" : "2");
    half_set(half, "disk_reserve_bytes", "0");
    half->metrics = metrics_create("test", wall_now());
}

/* Starts a half. Without a map, owners are those that the node knows. */
static void half_start(struct half *half, const struct passing_map *map)
{
    struct error error = {.text = ""};

    passing_init(&half->passing, map);
    if (node_start(&half->config, half->metrics, NULL, &half->passing.route, &half->node, &error))
        fail_msg("%s", error.text);
    const struct peers_options options = {.cluster = CLUSTER,
                                          .node = half->id,
                                          .secret = BYTES("between two halves"),
                                          .address = "127.0.0.1",
                                          .wait_ms = 30000};
    if (passing_open(&half->passing, half->node, &options, &error))
        fail_msg("%s", error.text);
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%u", passing_port(&half->passing));
    node_tell_address(half->node, address);
}

static int halves_set_up(void **state)
{
    struct halves *both = calloc(1, sizeof(*both));

    assert_non_null(both);
    for (uint32_t i = 0; i < 2; i++) {
        struct half *half = &both->half[i];

        half->id = i + 1;
        half->both = both;
        half->map = (struct passing_map){half, half_is_here, half_address};
        half_init(half);
        half_start(half, &half->map);
    }
    *state = both;
    return 0;
}

static int halves_tear_down(void **state)
{
    struct halves *both = *state;

    for (size_t i = 0; i < 2; i++)
        passing_close(&both->half[i].passing);
    for (size_t i = 0; i < 2; i++) {
        node_stop(both->half[i].node);
        metrics_destroy(both->half[i].metrics);
        testing_folder_remove(&both->half[i].folder);
    }
    free(both);
    return 0;
}

/* ---- one request, and copies of its answer ---- */

struct question {
    struct node_request request;
    struct timer *shown;
    struct timer *rows[16];
    size_t row_count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_answered; /* guarded by lock */
};

static void question_done(struct node_request *request)
{
    struct question *question = list_item(request, struct question, request);
    const struct command *command = &request->command;

    if (command->timer)
        question->shown = timer_copy(command->timer, &command->timer->texts);
    for (size_t i = 0; command->kind == COMMAND_LIST && i < command->page.count && i < 16; i++)
        question->rows[question->row_count++] =
            timer_copy(command->page.timers[i], &command->page.timers[i]->texts);
    pthread_mutex_lock(&question->lock);
    question->is_answered = true;
    pthread_cond_signal(&question->changed);
    pthread_mutex_unlock(&question->lock);
}

static void question_await(struct question *question)
{
    pthread_mutex_lock(&question->lock);
    while (!question->is_answered)
        pthread_cond_wait(&question->changed, &question->lock);
    pthread_mutex_unlock(&question->lock);
    pthread_mutex_destroy(&question->lock);
    pthread_cond_destroy(&question->changed);
}

static void question_init(struct question *question, const struct command *command)
{
    *question = (struct question){.request = {.command = *command, .done = question_done}};
    pthread_mutex_init(&question->lock, NULL);
    pthread_cond_init(&question->changed, NULL);
}

/* Asks, and returns the error. The caller frees the answer by question_free. */
static enum error_code question_ask(struct question *question, const struct half *half,
                                    const struct command *command)
{
    question_init(question, command);
    assert_int_equal(node_submit(half->node, &question->request), ERROR_NONE);
    question_await(question);
    return question->request.command.error;
}

static void question_free(struct question *question)
{
    timer_free(question->shown);
    while (question->row_count > 0)
        timer_free(question->rows[--question->row_count]);
}

static struct timer *timer_of(const char *key, uint64_t due_ms)
{
    struct timer *timer =
        timer_alloc(&(struct timer_texts){.target = BYTES("http://a.example/"),
                                          .payload = BYTES("{\"n\":1}"),
                                          .key = bytes_of(key),
                                          .labels = BYTES("{\"team\":\"checkout\"}"),
                                          .watch = BYTES("order:1\n")});

    assert_non_null(timer);
    timer->due.ms = due_ms;
    timer->created = wall_now();
    return timer;
}

static struct timer_id create(const struct half *half, uint16_t partition, const char *key)
{
    struct timer *timer = timer_of(key, wall_now().ms + FAR_MS);
    struct command_created result = {.error = ERROR_NONE};
    struct question question;
    const struct command command = {.kind = COMMAND_CREATE,
                                    .partition = partition,
                                    .timers = &timer,
                                    .results = &result,
                                    .timer_count = 1};

    assert_int_equal(question_ask(&question, half, &command), ERROR_NONE);
    assert_int_equal(result.error, ERROR_NONE);
    assert_int_equal(result.id.partition, partition);
    question_free(&question);
    return result.id;
}

static void assert_same_timers(const struct timer *a, const struct timer *b)
{
    assert_true(!a == !b);
    if (!a)
        return;
    assert_true(timer_id_equal(&a->id, &b->id) && a->due.ms == b->due.ms && a->at.ms == b->at.ms);
    assert_true(a->created.ms == b->created.ms && a->ended.ms == b->ended.ms);
    assert_true(a->version == b->version && a->state == b->state && a->attempts == b->attempts);
    assert_true(a->paused.ms == b->paused.ms && retry_policy_equal(&a->retry, &b->retry));
    assert_true(bytes_equal(a->texts.key, b->texts.key));
    assert_true(bytes_equal(a->texts.labels, b->texts.labels));
    assert_true(bytes_equal(a->texts.note, b->texts.note));
    if (timer_keeps_content(a->state))
        assert_true(bytes_equal(a->texts.payload, b->texts.payload));
}

/* Checks that both nodes show the same timer, by its id and by its key. */
static void assert_seen_equally(const struct halves *both, const struct timer_id *id,
                                const char *key, enum timer_state state)
{
    struct question seen[4];

    for (size_t i = 0; i < 4; i++) {
        struct command command = {.kind = COMMAND_GET, .partition = id->partition, .id = *id};

        if (i >= 2) {
            command.id = (struct timer_id){.partition = id->partition};
            command.name = bytes_of(key);
        }
        question_ask(&seen[i], &both->half[i % 2], &command);
        assert_non_null(seen[i].shown);
        assert_int_equal(seen[i].shown->state, state);
    }
    for (size_t i = 1; i < 4; i++) {
        assert_int_equal(seen[0].request.command.error, seen[i].request.command.error);
        assert_same_timers(seen[0].shown, seen[i].shown);
    }
    for (size_t i = 0; i < 4; i++)
        question_free(&seen[i]);
}

static enum error_code change(const struct half *half, enum command_kind kind,
                              const struct timer_id *id, uint32_t version, struct timer *patch)
{
    struct question question;
    struct command command = {
        .kind = kind, .partition = id->partition, .id = *id, .if_version = version, .patch = patch};

    if (patch && kind != COMMAND_PAUSE)
        command.patch_fields = PATCH_DUE;
    const enum error_code error = question_ask(&question, half, &command);
    question_free(&question);
    return error;
}

/* ---- tests ---- */

/* Each step is made through the node that owns the partition, and through the other one. */
static void test_a_life_through_either_node(void **state)
{
    const struct halves *both = *state;

    for (uint16_t i = 0; i < 2 * PARTITIONS; i++) {
        const struct half *half = &both->half[i % 2];
        char key[16];
        struct timer *patch;

        snprintf(key, sizeof(key), "key-%u", i);
        const struct timer_id id = create(half, i / 2, key);
        assert_seen_equally(both, &id, key, TIMER_SCHEDULED);
        assert_int_equal(change(half, COMMAND_PATCH, &id, 1, timer_of("", wall_now().ms + FAR_MS)),
                         ERROR_NONE);
        assert_int_equal(change(half, COMMAND_PATCH, &id, 1, timer_of("", wall_now().ms + FAR_MS)),
                         ERROR_VERSION_MISMATCH);
        assert_int_equal(
            change(half, COMMAND_TOUCH, &id, 0, timer_of("", wall_now().ms + 2 * FAR_MS)),
            ERROR_NONE);
        assert_seen_equally(both, &id, key, TIMER_SCHEDULED);
        patch = timer_alloc(&(struct timer_texts){.note = BYTES("not today")});
        assert_non_null(patch);
        patch->at = STORAGE_PAUSED_AT;
        assert_int_equal(change(half, COMMAND_PAUSE, &id, 0, patch), ERROR_NONE);
        assert_seen_equally(both, &id, key, TIMER_PAUSED);
        assert_int_equal(change(half, COMMAND_FIRE, &id, 0, NULL), ERROR_PAUSED);
        assert_int_equal(change(half, COMMAND_RESUME, &id, 0, NULL), ERROR_NONE);
        assert_int_equal(change(half, COMMAND_CANCEL, &id, 0, NULL), ERROR_NONE);
        assert_seen_equally(both, &id, key, TIMER_CANCELLED);
        assert_int_equal(change(half, COMMAND_CANCEL, &id, 0, NULL), ERROR_GONE);
        const struct timer_id none = {id.first, id.partition, id.serial + 1000};
        assert_int_equal(change(half, COMMAND_CANCEL, &none, 0, NULL), ERROR_NOT_FOUND);
    }
}

static void test_lists_and_counts(void **state)
{
    const struct halves *both = *state;
    uint64_t due[2][48] = {{0}};
    struct forecast forecasts[2];

    for (uint16_t i = 0; i < 12; i++) {
        char key[16];

        snprintf(key, sizeof(key), "row-%u", i);
        create(&both->half[i / PARTITIONS % 2], i % PARTITIONS, key);
    }
    for (uint16_t partition = 0; partition < PARTITIONS; partition++) {
        struct question lists[2], counts[2];

        for (size_t i = 0; i < 2; i++) {
            const struct command list = {
                .kind = COMMAND_LIST,
                .partition = partition,
                .scan = {partition, STORAGE_SCAN_LIVE, {{0}, 0}, {WALL_NEVER, 0}, 10, 1 << 20, 0}};

            assert_int_equal(question_ask(&lists[i], &both->half[i], &list), ERROR_NONE);
            assert_int_equal(lists[i].row_count, 3);
            forecasts[i] = (struct forecast){.from = wall_now(),
                                             .unit_ms = 3600000,
                                             .count = 48,
                                             .rows_max = 1000,
                                             .due = due[i]};
            const struct command count = {
                .kind = COMMAND_FORECAST, .partition = partition, .forecast = &forecasts[i]};
            assert_int_equal(question_ask(&counts[i], &both->half[i], &count), ERROR_NONE);
            assert_int_equal(forecasts[i].rows_own, 3);
        }
        for (size_t j = 0; j < 3; j++)
            assert_same_timers(lists[0].rows[j], lists[1].rows[j]);
        assert_int_equal(forecasts[0].rows, forecasts[1].rows);
        for (size_t i = 0; i < 2; i++) {
            question_free(&lists[i]);
            question_free(&counts[i]);
        }
    }
    /* An event ends what waits for it in every partition, whichever node is asked. */
    uint64_t changed = 0;
    for (uint16_t partition = 0; partition < PARTITIONS; partition++) {
        struct question question;
        const struct command command = {.kind = COMMAND_COMPLETE,
                                        .partition = partition,
                                        .name = BYTES("order:1"),
                                        .each = COMMAND_CANCEL};

        assert_int_equal(question_ask(&question, &both->half[0], &command), ERROR_NONE);
        changed += question.request.command.completed.changed;
        question_free(&question);
    }
    assert_int_equal(changed, 12);
}

/* Many requests in one outbox are for both nodes. New timers without a name stay on this node. */
static void test_an_outbox_for_both(void **state)
{
    enum { MANY = 400 };
    const struct halves *both = *state;
    struct question *questions = calloc(MANY, sizeof(*questions));
    struct timer **timers = calloc(MANY, sizeof(*timers));
    struct command_created *results = calloc(MANY, sizeof(*results));
    struct list outbox;

    assert_true(questions && timers && results);
    list_init(&outbox);
    for (size_t i = 0; i < MANY; i++) {
        timers[i] = timer_of("", wall_now().ms + FAR_MS);
        question_init(&questions[i], &(struct command){.kind = COMMAND_CREATE,
                                                       .partition = i % PARTITIONS,
                                                       .timers = &timers[i],
                                                       .results = &results[i],
                                                       .timer_count = 1});
        assert_int_equal(node_submit_later(both->half[0].node, &questions[i].request, &outbox),
                         ERROR_NONE);
    }
    node_send(both->half[0].node, &outbox);
    assert_true(list_is_empty(&outbox));
    for (size_t i = 0; i < MANY; i++) {
        question_await(&questions[i]);
        assert_int_equal(results[i].error, ERROR_NONE);
        assert_int_equal(results[i].id.partition, i % PARTITIONS);
        question_free(&questions[i]);
    }
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(node_partition_next(both->half[1].node, 0, 1) % 2, 1);
    free(results);
    free(timers);
    free(questions);
}

/* ---- workers ---- */

enum { LEASED_MAX = 16 };

struct hand {
    struct node_queue_request request;
    struct queue_receipt receipts[LEASED_MAX];
    enum queue_verdict verdicts[LEASED_MAX];
    char keys[LEASED_MAX][16];
    uint32_t attempts[LEASED_MAX];
    size_t count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_answered; /* guarded by lock */
};

static void hand_leased(struct node_queue_request *request)
{
    struct hand *hand = list_item(request, struct hand, request);

    LIST_FOR_EACH (request->queue.leases, link) {
        const struct queue_lease *lease = list_item(link, struct queue_lease, link);
        const struct bytes key = lease->delivery->timer->texts.key;

        assert_true(hand->count < LEASED_MAX);
        hand->receipts[hand->count] = lease->receipt;
        hand->attempts[hand->count] = lease->delivery->attempt;
        snprintf(hand->keys[hand->count++], sizeof(hand->keys[0]), "%.*s", (int)key.size, key.data);
    }
    assert_true(request->queue.leased_until.ns > instant_now().ns);
}

static void hand_done(struct node_queue_request *request)
{
    struct hand *hand = list_item(request, struct hand, request);

    pthread_mutex_lock(&hand->lock);
    hand->is_answered = true;
    pthread_cond_signal(&hand->changed);
    pthread_mutex_unlock(&hand->lock);
}

static void hand_begin(struct hand *hand, const struct half *half, enum queue_kind kind)
{
    hand->is_answered = false;
    hand->request.queue.kind = kind;
    hand->request.queue.queue = BYTES("jobs");
    hand->request.queue.lease_ms = 3600000;
    hand->request.leased = hand_leased;
    hand->request.done = hand_done;
    pthread_mutex_init(&hand->lock, NULL);
    pthread_cond_init(&hand->changed, NULL);
    assert_int_equal(node_queue_submit(half->node, &hand->request), ERROR_NONE);
}

static void hand_await(struct hand *hand)
{
    pthread_mutex_lock(&hand->lock);
    while (!hand->is_answered)
        pthread_cond_wait(&hand->changed, &hand->lock);
    pthread_mutex_unlock(&hand->lock);
    pthread_mutex_destroy(&hand->lock);
    pthread_cond_destroy(&hand->changed);
    assert_int_equal(hand->request.queue.error, ERROR_NONE);
}

static void hand_lease(struct hand *hand, const struct half *half, uint64_t wait_ms)
{
    *hand = (struct hand){.request.queue = {.items_max = 10, .bytes_max = 1 << 20}};
    hand->request.queue.wait_until = instant_add_ms(instant_now(), wait_ms);
    hand_begin(hand, half, QUEUE_LEASE);
}

/* Reports on all receipts, and compares the verdicts. */
static void hand_report(struct hand *hand, const struct half *half, enum queue_kind kind,
                        enum queue_verdict expected)
{
    hand->request.queue = (struct queue_request){
        .receipts = hand->receipts, .verdicts = hand->verdicts, .receipt_count = hand->count};
    if (kind == QUEUE_NACK)
        hand->request.queue.outcome = (struct delivery_outcome){.result = DELIVERY_FAILED,
                                                                .pause = DELIVERY_PAUSE_EXACT,
                                                                .retry_after_ms = 1,
                                                                .error = "not mine"};
    hand_begin(hand, half, kind);
    hand_await(hand);
    for (size_t i = 0; i < hand->count; i++)
        assert_int_equal(hand->verdicts[i], expected);
}

static void create_job(const struct half *half, uint16_t partition, const char *key)
{
    struct timer *timer =
        timer_alloc(&(struct timer_texts){.target = BYTES("queue:jobs"), .key = bytes_of(key)});
    struct command_created result = {.error = ERROR_NONE};
    struct question question;
    const struct command command = {.kind = COMMAND_CREATE,
                                    .partition = partition,
                                    .timers = &timer,
                                    .results = &result,
                                    .timer_count = 1};

    assert_non_null(timer);
    timer->due = timer->created = wall_now();
    assert_int_equal(question_ask(&question, half, &command), ERROR_NONE);
    assert_int_equal(result.error, ERROR_NONE);
    question_free(&question);
}

/* A worker at one node gets the items of the other, and reports on them there. */
static void test_items_of_the_other_node(void **state)
{
    const struct halves *both = *state;
    const struct half *first = &both->half[0], *second = &both->half[1];
    struct hand hand, nobody;

    hand_lease(&nobody, second, 0);
    hand_await(&nobody);
    assert_int_equal(nobody.count, 0);
    create_job(first, 0, "a");
    create_job(first, 2, "b");
    hand_lease(&hand, second, 60000);
    hand_await(&hand);
    while (hand.count < 2) { /* the second had not been found due */
        struct hand more;

        hand_lease(&more, second, 60000);
        hand_await(&more);
        for (size_t i = 0; i < more.count; i++) {
            hand.receipts[hand.count] = more.receipts[i];
            memcpy(hand.keys[hand.count++], more.keys[i], sizeof(more.keys[i]));
        }
    }
    assert_true((hand.keys[0][0] == 'a') != (hand.keys[1][0] == 'a'));
    assert_int_equal(hand.attempts[0], 1);
    hand_report(&hand, second, QUEUE_EXTEND, QUEUE_OK);
    hand_report(&hand, second, QUEUE_NACK, QUEUE_OK);
    hand_report(&hand, second, QUEUE_ACK, QUEUE_STALE);
    for (size_t acked = 0; acked < 2; acked += hand.count) { /* they come again */
        hand_lease(&hand, second, 60000);
        hand_await(&hand);
        assert_int_equal(hand.attempts[0], 2);
        hand_report(&hand, second, QUEUE_ACK, QUEUE_OK);
        hand_report(&hand, first, QUEUE_ACK, QUEUE_STALE);
    }
    hand_lease(&nobody, first, 0);
    hand_await(&nobody);
    assert_int_equal(nobody.count, 0);
}

/* A worker that waits at one node is given what becomes due at the other. Receipts of both nodes
 * in one report; a forged one is found nowhere. */
static void test_workers_wait_for_both_nodes(void **state)
{
    const struct halves *both = *state;
    const struct half *first = &both->half[0], *second = &both->half[1];
    struct hand hands[2], all = {.count = 0};

    for (size_t i = 0; i < 2; i++)
        hand_lease(&hands[i], second, 120000);
    create_job(first, 0, "here");
    create_job(first, 1, "there");
    for (size_t i = 0; i < 2; i++) {
        hand_await(&hands[i]);
        assert_int_equal(hands[i].count, 1);
        all.receipts[all.count++] = hands[i].receipts[0];
    }
    hand_report(&all, first, QUEUE_ACK, QUEUE_OK);
    all.receipts[0].proof ^= 1;
    all.receipts[1].number = UINT64_MAX;
    hand_report(&all, first, QUEUE_ACK, QUEUE_STALE);
}

/* A worker that has gone does not wait for another node either. */
static void test_a_worker_at_both_nodes_is_given_up(void **state)
{
    const struct halves *both = *state;
    const struct half *second = &both->half[1];
    struct hand hand;

    hand_lease(&hand, second, 600000);
    node_queue_give_up(second->node, &hand.request);
    hand_await(&hand); /* or the test is too late */
    assert_int_equal(hand.count, 0);
}

/* ---- what nodes tell of themselves ---- */

/* Asks for the survey of a node through one half. The caller frees its rows. */
static enum error_code survey_ask(struct survey *survey, const struct half *half,
                                  enum survey_kind kind, uint32_t node)
{
    struct question question;
    const struct command command = {.kind = COMMAND_SURVEY, .survey = survey};

    *survey = (struct survey){.kind = kind, .node = node};
    const enum error_code error = question_ask(&question, half, &command);
    question_free(&question);
    return error;
}

/* Returns the number of workers that wait for "jobs" at the node, as the half is told. Node 0 is
 * the half itself. */
static uint64_t workers_at(const struct half *half, uint32_t node)
{
    struct survey survey;
    uint64_t count = 0;

    assert_int_equal(survey_ask(&survey, half, SURVEY_WORKERS, node), ERROR_NONE);
    for (size_t i = 0; i < survey.row_count; i++) {
        assert_true(bytes_equal(survey_name(&survey, &survey.rows[i]), BYTES("jobs")));
        count += survey.rows[i].ready;
    }
    survey_deinit(&survey);
    return count;
}

static void await_workers(const struct half *half, uint32_t node, uint64_t count)
{
    while (workers_at(half, node) != count) /* one asks the other node again each second */
        poll(NULL, 0, 1);
}

/* Each tells the other how many workers wait at it: those of its own, and no others. */
static void test_workers_of_the_other_node(void **state)
{
    const struct halves *both = *state;
    const struct half *first = &both->half[0], *second = &both->half[1];
    uint32_t others[NODE_OTHERS_MAX];
    struct hand hands[3];

    assert_int_equal(node_others(first->node, others), 1);
    assert_int_equal(others[0], 2);
    assert_int_equal(node_others(second->node, others), 1);
    assert_int_equal(others[0], 1);
    for (size_t i = 0; i < 3; i++)
        hand_lease(&hands[i], i ? second : first, 600000);
    await_workers(first, 0, 1);
    await_workers(second, 1, 1);
    await_workers(first, 2, 2);
    await_workers(second, 0, 2);
    for (size_t i = 0; i < 3; i++) {
        node_queue_give_up(i ? second->node : first->node, &hands[i].request);
        hand_await(&hands[i]);
    }
    await_workers(second, 1, 0);
    await_workers(first, 2, 0);
}

static void tell_refusals(void *context,
                          void (*tell)(void *to, struct bytes tenant, uint64_t refused), void *to)
{
    (void)context;
    tell(to, BYTES("shop"), 3);
}

/* Each tells the other what waits of a tenant, and what its API refused. */
static void test_tenants_of_the_other_node(void **state)
{
    const struct halves *both = *state;
    const struct half *first = &both->half[0], *second = &both->half[1];
    const struct node_refusals refusals = {.each = tell_refusals};
    struct survey survey;
    uint64_t ready = 0;

    node_set_refusals(first->node, &refusals);
    create_job(second, 0, "a");
    create_job(second, 2, "b");
    for (; ready != 2; poll(NULL, 0, 1)) { /* shards tell each second */
        uint64_t refused = 0;

        assert_int_equal(survey_ask(&survey, second, SURVEY_TENANTS, 1), ERROR_NONE);
        ready = 0;
        for (size_t i = 0; i < survey.row_count; i++) {
            const struct survey_row *row = &survey.rows[i];
            const struct bytes name = survey_name(&survey, row);

            assert_true(bytes_equal(name, row->is_spilled ? BYTES("shop") : BYTES("")));
            assert_true((row->ready > 0) == (row->oldest.ms != WALL_NEVER.ms));
            ready += row->ready;
            refused += row->taken;
        }
        assert_int_equal(refused, 3);
        survey_deinit(&survey);
    }
    node_set_refusals(first->node, NULL);
}

/* What fails at one node is told to the other. */
static void test_failures_of_the_other_node(void **state)
{
    const struct halves *both = *state;
    const struct half *first = &both->half[0], *second = &both->half[1];
    struct timer *timer =
        timer_alloc(&(struct timer_texts){.target = BYTES("http://127.0.0.1:1/")});
    struct command_created result = {.error = ERROR_NONE};
    struct question question;
    struct survey survey = {0};
    const struct command command = {
        .kind = COMMAND_CREATE, .timers = &timer, .results = &result, .timer_count = 1};

    assert_non_null(timer);
    timer->due = timer->created = wall_now();
    assert_int_equal(question_ask(&question, first, &command), ERROR_NONE);
    question_free(&question);
    do { /* until it has failed */
        survey_deinit(&survey);
        assert_int_equal(survey_ask(&survey, second, SURVEY_FAILURES, 1), ERROR_NONE);
    } while (survey.failure_count == 0);
    assert_int_equal(survey.failure_count, 1);
    assert_true(bytes_equal(survey_origin(&survey, survey.failures), BYTES("http://127.0.0.1:1")));
    assert_true(survey.failures->failures > 0);
    assert_true(survey_error(&survey, survey.failures).size > 0);
    survey_deinit(&survey);
    assert_int_equal(survey_ask(&survey, second, SURVEY_FAILURES, 0), ERROR_NONE);
    assert_int_equal(survey.failure_count, 0);
    survey_deinit(&survey);
}

/* The figures of one node are its own. */
static void test_statistics_of_the_other_node(void **state)
{
    const struct halves *both = *state;
    const struct half *first = &both->half[0], *second = &both->half[1];
    struct survey survey = {0};

    create(second, 0, "one"); /* both are of the first */
    create(first, 2, "two");
    do { /* shards tell each second */
        survey_deinit(&survey);
        assert_int_equal(survey_ask(&survey, second, SURVEY_STATS, 1), ERROR_NONE);
        assert_int_equal(survey.number_count, STATS_COUNT);
    } while (survey.numbers[STATS_TIMERS_PENDING] < 2);
    assert_int_equal(survey.numbers[STATS_TIMERS_PENDING], 2);
    survey_deinit(&survey);
    assert_int_equal(survey_ask(&survey, second, SURVEY_STATS, 0), ERROR_NONE);
    assert_int_equal(survey.numbers[STATS_TIMERS_PENDING], 0);
    survey_deinit(&survey);
}

/* The verdict on a receipt whose node does not answer is QUEUE_UNKNOWN. */
static void test_receipts_of_a_node_that_has_gone(void **state)
{
    struct halves *both = *state;
    struct half *first = &both->half[0], *second = &both->half[1];
    struct hand hand;
    struct error error;

    create_job(first, 0, "a");
    hand_lease(&hand, second, 60000);
    hand_await(&hand);
    assert_int_equal(hand.count, 1);
    passing_close(&second->passing);
    const struct peers_options options = {.cluster = 6, /* of no other node */
                                          .node = 2,
                                          .secret = BYTES("between two halves"),
                                          .address = "127.0.0.1",
                                          .wait_ms = 300};
    assert_int_equal(passing_open(&second->passing, second->node, &options, &error), ERROR_NONE);
    hand_report(&hand, second, QUEUE_ACK, QUEUE_UNKNOWN);
    hand_report(&hand, first, QUEUE_ACK, QUEUE_OK);
}

/* The other node has gone: what it owns fails, what is here goes on. */
static void test_other_node_stops(void **state)
{
    struct halves *both = *state;
    struct question question;
    const struct timer_id id = create(&both->half[0], 0, "here");
    const struct command get = {.kind = COMMAND_GET, .partition = 1, .id = {{1}, 1, 1}};

    passing_close(&both->half[0].passing);
    assert_int_equal(change(&both->half[0], COMMAND_CANCEL, &id, 0, NULL), ERROR_NONE);
    const struct peers_options options = {.cluster = 6, /* of no other node */
                                          .node = 1,
                                          .secret = BYTES("between two halves"),
                                          .address = "127.0.0.1",
                                          .wait_ms = 300};
    struct error error;
    assert_int_equal(passing_open(&both->half[0].passing, both->half[0].node, &options, &error),
                     ERROR_NONE);
    assert_int_equal(question_ask(&question, &both->half[0], &get), ERROR_OVERLOADED);
    question_free(&question);
    struct survey survey;
    assert_int_equal(survey_ask(&survey, &both->half[0], SURVEY_WORKERS, 2), ERROR_OVERLOADED);
    assert_int_equal(survey_ask(&survey, &both->half[0], SURVEY_WORKERS, 0), ERROR_NONE);
    survey_deinit(&survey);
}

#ifdef TICKWHEEL_WITH_LOG_KAFKA

/* ---- nodes that follow their logs ---- */

#define AWAIT_MS UINT64_C(120000)

struct cluster {
    struct halves both; /* a half without a node does not run */
    rd_kafka_t *broker;
    rd_kafka_mock_cluster_t *brokers;
};

static int sharing_set_up(void **state)
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));
    char text[200];

    assert_non_null(cluster);
    cluster->broker = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof(text));
    assert_non_null(cluster->broker);
    cluster->brokers = rd_kafka_mock_cluster_new(cluster->broker, 1);
    assert_non_null(cluster->brokers);
    assert_int_equal(rd_kafka_mock_topic_create(cluster->brokers, "test.log", PARTITIONS, 1), 0);
    assert_int_equal(rd_kafka_mock_topic_create(cluster->brokers, "test.control", 1, 1), 0);
    testing_found(rd_kafka_mock_cluster_bootstraps(cluster->brokers), "test.control", CLUSTER,
                  PARTITIONS);
    for (uint32_t i = 0; i < 2; i++) {
        struct half *half = &cluster->both.half[i];

        half->id = i + 1;
        half->both = &cluster->both;
        half_init(half);
        half_set(half, "cluster_brokers", rd_kafka_mock_cluster_bootstraps(cluster->brokers));
        half_set(half, "cluster_name", "test");
        half_set(half, "cluster_lease", "1s");
        half_set(half, "drain", "1s");
    }
    *state = cluster;
    return 0;
}

static void half_stop(struct half *half)
{
    if (!half->node)
        return;
    passing_close(&half->passing);
    node_stop(half->node);
    half->node = NULL;
}

static int sharing_tear_down(void **state)
{
    struct cluster *cluster = *state;

    for (size_t i = 0; i < 2; i++) {
        half_stop(&cluster->both.half[i]);
        metrics_destroy(cluster->both.half[i].metrics);
        testing_folder_remove(&cluster->both.half[i].folder);
    }
    rd_kafka_mock_cluster_destroy(cluster->brokers);
    rd_kafka_destroy(cluster->broker);
    free(cluster);
    return 0;
}

/* Waits until the half answers or passes every request. */
static void half_await(struct half *half)
{
    const struct instant until = instant_add_ms(instant_now(), AWAIT_MS);
    struct node_health health;

    for (node_health(half->node, &health); !health.is_ready; node_health(half->node, &health)) {
        struct pollfd news = {.fd = node_news_fd(half->node), .events = POLLIN};

        assert_true(instant_now().ns < until.ns);
        poll(&news, 1, 100);
        node_take_news(half->node);
    }
}

static size_t half_count_owned(const struct half *half)
{
    size_t count = 0;
    uint32_t owner;

    for (uint16_t i = 0; i < PARTITIONS; i++)
        count += node_owns(half->node, i, &owner);
    return count;
}

/* Waits until both halves run, own their partitions (the first half `first` of them), and can ask
 * each other. */
static void sharing_await(struct cluster *cluster, size_t first)
{
    const struct instant until = instant_add_ms(instant_now(), AWAIT_MS);
    uint32_t others[NODE_OTHERS_MAX];

    for (size_t i = 0; i < 2; i++) {
        const struct half *half = &cluster->both.half[i];

        while (half_count_owned(half) != (i == 0 ? first : PARTITIONS - first) ||
               node_others(half->node, others) != 1) {
            assert_true(instant_now().ns < until.ns);
            poll(NULL, 0, 10);
        }
        assert_int_equal(others[0], 2 - i);
    }
}

/* Each node knows from the log, and from the notes of the other, whom to ask. */
static void test_the_log_says_who_owns(void **state)
{
    struct cluster *cluster = *state;

    for (size_t i = 0; i < 2; i++)
        half_start(&cluster->both.half[i], NULL);
    for (size_t i = 0; i < 2; i++)
        half_await(&cluster->both.half[i]);
    sharing_await(cluster, PARTITIONS / 2);
    for (uint16_t i = 0; i < 2 * PARTITIONS; i++) {
        const struct half *half = &cluster->both.half[i % 2];
        char key[16];

        snprintf(key, sizeof(key), "key-%u", i);
        const struct timer_id id = create(half, i / 2, key);
        assert_seen_equally(&cluster->both, &id, key, TIMER_SCHEDULED);
        assert_int_equal(change(half, COMMAND_CANCEL, &id, 0, NULL), ERROR_NONE);
        assert_seen_equally(&cluster->both, &id, key, TIMER_CANCELLED);
    }
}

/* When an owner stops, what was asked of it waits for the next one; and it is another process at
 * another port when it comes back. A node is asked for its figures although it owns nothing, and
 * not when it has stopped. */
static void test_the_owner_changes(void **state)
{
    struct cluster *cluster = *state;
    struct half *first = &cluster->both.half[0], *second = &cluster->both.half[1];
    struct timer_id ids[PARTITIONS];
    char key[16];

    half_set(first, "cluster_weight", "1000");
    half_start(first, NULL);
    half_await(first);
    half_start(second, NULL);
    half_await(second);
    sharing_await(cluster, PARTITIONS);
    for (uint16_t i = 0; i < PARTITIONS; i++) {
        snprintf(key, sizeof(key), "kept-%u", i);
        ids[i] = create(second, i, key);
    }
    for (int round = 0; round < 2; round++) {
        half_stop(first);
        for (uint16_t i = 0; i < PARTITIONS; i++)
            assert_int_equal(change(second, COMMAND_FIRE, &ids[i], 9, NULL),
                             ERROR_VERSION_MISMATCH);
        assert_int_equal(half_count_owned(second), PARTITIONS);
        uint32_t others[NODE_OTHERS_MAX];
        assert_int_equal(node_others(second->node, others), 0);
        half_set(first, "cluster_weight", "1");
        half_start(first, NULL);
        half_await(first);
        sharing_await(cluster, PARTITIONS / 2);
        for (uint16_t i = 0; i < PARTITIONS; i++) {
            snprintf(key, sizeof(key), "kept-%u", i);
            assert_seen_equally(&cluster->both, &ids[i], key, TIMER_SCHEDULED);
        }
    }
}

#define SHARING(test) cmocka_unit_test_setup_teardown(test, sharing_set_up, sharing_tear_down)
#define SHARING_TESTS SHARING(test_the_log_says_who_owns), SHARING(test_the_owner_changes),

#else

#define SHARING_TESTS /* without librdkafka there is no log */

#endif

#define HALVES(test) cmocka_unit_test_setup_teardown(test, halves_set_up, halves_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARING_TESTS HALVES(test_a_life_through_either_node),
        HALVES(test_lists_and_counts),
        HALVES(test_an_outbox_for_both),
        HALVES(test_items_of_the_other_node),
        HALVES(test_workers_wait_for_both_nodes),
        HALVES(test_a_worker_at_both_nodes_is_given_up),
        HALVES(test_workers_of_the_other_node),
        HALVES(test_tenants_of_the_other_node),
        HALVES(test_failures_of_the_other_node),
        HALVES(test_statistics_of_the_other_node),
        HALVES(test_receipts_of_a_node_that_has_gone),
        HALVES(test_other_node_stops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
