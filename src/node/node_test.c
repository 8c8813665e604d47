/*
 * A node on a folder of its own, with the real storage and threads: what the door lets in, that
 * stopping answers everything, and that what was answered is there at the next start.
 */
#include "node/node_replica.h"
#include "node/node_state.h"
#include "store/storage_testing.h"
#include "sys/clock.h"

#include <pthread.h>
#include <sched.h>

#define FAR_MS UINT64_C(3600000)

struct fixture {
    struct testing_folder folder;
    struct config config;
    struct metrics *metrics;
    struct node *node;
};

/* A create or a get, with what the engine thread left as its answer. */
struct asked {
    struct node_request request;
    struct timer *timer;
    struct command_created created;
    struct wall due_shown;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_answered; /* guarded by lock */
};

static void start(struct fixture *fixture)
{
    struct error error = {.text = ""};

    if (node_start(&fixture->config, fixture->metrics, NULL, NULL, &fixture->node, &error))
        fail_msg("%s", error.text);
}

static void set(struct fixture *fixture, const char *name, const char *value)
{
    assert_int_equal(config_set(&fixture->config, name, value, NULL), ERROR_NONE);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    testing_folder_make(&fixture->folder);
    config_init(&fixture->config);
    set(fixture, "data_folder", fixture->folder.path);
    set(fixture, "partitions", "2");
    set(fixture, "disk_reserve_bytes", "0");
    fixture->metrics = metrics_create("test", wall_now());
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    metrics_destroy(fixture->metrics);
    testing_folder_remove(&fixture->folder);
    free(fixture);
    return 0;
}

static void done(struct node_request *request)
{
    struct asked *asked = list_item(request, struct asked, request);

    if (request->command.timer)
        asked->due_shown = request->command.timer->due;
    pthread_mutex_lock(&asked->lock);
    asked->is_answered = true;
    pthread_cond_signal(&asked->changed);
    pthread_mutex_unlock(&asked->lock);
}

static void asked_init(struct asked *asked)
{
    *asked = (struct asked){.request.done = done};
    pthread_mutex_init(&asked->lock, NULL);
    pthread_cond_init(&asked->changed, NULL);
}

static enum error_code answer_of(struct asked *asked)
{
    pthread_mutex_lock(&asked->lock);
    while (!asked->is_answered)
        pthread_cond_wait(&asked->changed, &asked->lock);
    pthread_mutex_unlock(&asked->lock);
    pthread_mutex_destroy(&asked->lock);
    pthread_cond_destroy(&asked->changed);
    return asked->request.command.error;
}

static void asked_create(struct node *node, struct asked *asked, struct wall due)
{
    struct timer_texts texts = {.target = BYTES("http://a.example/"), .payload = BYTES("1")};

    asked_init(asked);
    asked->timer = timer_alloc(&texts);
    asked->timer->due = due;
    asked->request.command = (struct command){.kind = COMMAND_CREATE,
                                              .partition = node_partition_next(node, 0, 1),
                                              .timers = &asked->timer,
                                              .results = &asked->created,
                                              .timer_count = 1};
}

static enum error_code submit_create(struct node *node, struct asked *asked, struct wall due)
{
    asked_create(node, asked, due);
    enum error_code code = node_submit(node, &asked->request);
    if (code)
        timer_free(asked->timer);
    return code;
}

static enum error_code get(struct node *node, const struct timer_id *id, struct wall *ret_due)
{
    struct asked asked;

    asked_init(&asked);
    asked.request.command =
        (struct command){.kind = COMMAND_GET, .partition = id->partition, .id = *id};
    assert_int_equal(node_submit(node, &asked.request), ERROR_NONE);
    enum error_code code = answer_of(&asked);
    *ret_due = asked.due_shown;
    return code;
}

/* Goal: acknowledged is there after a restart, and ids of two runs never meet. Method: the same
 * create before and after a stop. */
/* proves: create-durable, webhook-epoch */
static void test_restart_keeps_what_was_acknowledged(void **state)
{
    struct fixture *fixture = *state;
    struct wall due = wall_add(wall_now(), FAR_MS);

    start(fixture);
    struct asked first;
    assert_int_equal(submit_create(fixture->node, &first, due), ERROR_NONE);
    assert_int_equal(answer_of(&first), ERROR_NONE);
    node_stop(fixture->node);
    start(fixture);
    struct wall shown;
    assert_int_equal(get(fixture->node, &first.created.id, &shown), ERROR_NONE);
    assert_int_equal(shown.ms, due.ms);
    struct asked second;
    assert_int_equal(submit_create(fixture->node, &second, due), ERROR_NONE);
    assert_int_equal(answer_of(&second), ERROR_NONE);
    assert_true(second.created.id.serial >> 40 > first.created.id.serial >> 40);
    node_stop(fixture->node);
}

/* Goal: stopping answers whatever was let in. Method: many creates, and a stop before any answer is
 * waited for. */
/* proves: stop */
static void test_stop_answers_everything(void **state)
{
    enum { COUNT = 2000 };
    struct fixture *fixture = *state;
    struct asked *asked = calloc(COUNT, sizeof(*asked));
    struct wall due = wall_add(wall_now(), FAR_MS);

    start(fixture);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(submit_create(fixture->node, &asked[i], due), ERROR_NONE);
    node_stop(fixture->node);
    start(fixture);
    struct wall shown;
    for (size_t i = 0; i < COUNT; i++) {
        enum error_code code = answer_of(&asked[i]);

        assert_true(code == ERROR_NONE || code == ERROR_STOPPING);
        if (code == ERROR_NONE)
            assert_int_equal(get(fixture->node, &asked[i].created.id, &shown), ERROR_NONE);
    }
    node_stop(fixture->node);
    free(asked);
}

static enum error_code check_target(struct node *node, const char *text)
{
    struct target target;

    assert_int_equal(target_parse(bytes_of(text), &target, NULL), ERROR_NONE);
    return node_check_target(node, BYTES(""), bytes_of(text), &target, NULL);
}

/* Goal: at its limits the door refuses and takes nothing. */
/* proves: overload, unavailable, inflight_max */
static void test_the_door_refuses(void **state)
{
    struct fixture *fixture = *state;

    set(fixture, "inflight_max", "1");
    start(fixture);
    struct asked asked;
    asked_init(&asked);
    struct command_created results[2];
    struct timer *timers[2] = {timer_alloc(&(struct timer_texts){.payload = BYTES("{}")}),
                               timer_alloc(&(struct timer_texts){.payload = BYTES("{}")})};
    asked.request.command = (struct command){
        .kind = COMMAND_CREATE, .timers = timers, .results = results, .timer_count = 2};
    assert_int_equal(node_submit(fixture->node, &asked.request), ERROR_OVERLOADED);
    timer_free(timers[0]);
    timer_free(timers[1]);
    assert_int_equal(submit_create(fixture->node, &asked, wall_add(wall_now(), FAR_MS)),
                     ERROR_NONE);
    assert_int_equal(answer_of(&asked), ERROR_NONE);
    assert_int_equal(check_target(fixture->node, "http://shop.example/"), ERROR_NONE);
    assert_int_equal(check_target(fixture->node, "http://127.0.0.1/"), ERROR_INVALID);
    assert_int_equal(check_target(fixture->node, "redis://none/stream"), ERROR_INVALID);
    assert_int_equal(check_target(fixture->node, "queue:mail"), ERROR_NONE);
    node_stop(fixture->node);
}

static enum error_code reset_target(struct node *node, unsigned tenant, unsigned number,
                                    struct wall now, struct error *error)
{
    char tenant_text[16], name[32];
    size_t count;

    snprintf(tenant_text, sizeof(tenant_text), "t%u", tenant);
    snprintf(name, sizeof(name), "https://a%u.example", number);
    return node_holds_reset(&node->holds, bytes_of(tenant_text), bytes_of(name), now, &count,
                            error);
}

/* Goal: the number of targets of a tenant, and of all tenants, that may be reset in a minute is
 * bounded; resetting one of them again does not count. Method: as many as may be, one more, and a
 * minute later. */
/* proves: resets-tenant, resets-all */
static void test_resets_are_bounded(void **state)
{
    enum { TENANTS = NODE_RESETS_MAX / NODE_RESETS_TENANT_MAX };
    struct fixture *fixture = *state;
    const struct wall now = wall_now();
    struct error error;

    start(fixture);
    struct node *node = fixture->node;
    for (unsigned i = 0; i < TENANTS; i++) {
        for (unsigned j = 0; j < NODE_RESETS_TENANT_MAX; j++)
            assert_int_equal(reset_target(node, i, j, now, &error), ERROR_NONE);
        assert_int_equal(reset_target(node, i, NODE_RESETS_TENANT_MAX, now, &error),
                         ERROR_TOO_MANY);
        assert_non_null(strstr(error.text, "are reset in a minute"));
    }
    assert_int_equal(reset_target(node, TENANTS, 0, now, &error), ERROR_TOO_MANY);
    assert_int_equal(reset_target(node, 0, 0, now, &error), ERROR_NONE);
    const struct wall later = wall_add(now, NODE_RESET_MS);
    assert_int_equal(reset_target(node, TENANTS, 0, later, &error), ERROR_NONE);
    assert_int_equal(reset_target(node, 0, NODE_RESETS_TENANT_MAX, later, &error), ERROR_NONE);
    node_stop(node);
}

/* Goal: requests of an outbox count as in flight from the moment they are admitted, and each is
 * answered once it is sent, on whichever shard. Method: as many as are allowed and one more, for
 * partitions of two shards; the room is free again afterwards. */
/* proves: inflight_max */
static void test_an_outbox_is_sent(void **state)
{
    enum { COUNT = 8 };
    struct fixture *fixture = *state;
    struct wall due = wall_add(wall_now(), FAR_MS);

    set(fixture, "inflight_max", "8");
    set(fixture, "shards", "2");
    start(fixture);
    struct asked asked[COUNT + 1];
    struct list outbox;
    list_init(&outbox);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            asked_create(fixture->node, &asked[i], due);
            assert_int_equal(node_submit_later(fixture->node, &asked[i].request, &outbox),
                             ERROR_NONE);
        }
        asked_create(fixture->node, &asked[COUNT], due);
        assert_int_equal(node_submit_later(fixture->node, &asked[COUNT].request, &outbox),
                         ERROR_OVERLOADED);
        timer_free(asked[COUNT].timer);
        node_send(fixture->node, &outbox);
        assert_true(list_is_empty(&outbox));
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(answer_of(&asked[i]), ERROR_NONE);
    }
    node_stop(fixture->node);
}

/* Goal: what is written on a shard's thread and what on the log's thread is acknowledged and
 * durable alike. Method: creates under way in both ways, for the disk is said to be quick and slow
 * in turn; then a restart. */
static void test_commits_on_either_thread(void **state)
{
    enum { COUNT = 600 };
    struct fixture *fixture = *state;
    struct asked *asked = calloc(COUNT, sizeof(*asked));
    struct wall due = wall_add(wall_now(), FAR_MS);

    set(fixture, "shards", "2");
    start(fixture);
    for (size_t i = 0; i < COUNT; i++) {
        atomic_store(&fixture->node->log.write_ns, i % 2 ? UINT64_MAX : 0);
        assert_int_equal(submit_create(fixture->node, &asked[i], due), ERROR_NONE);
        if (i % 5 == 4) /* so that batches have all sizes, and some shard has none in flight */
            for (size_t j = i - 4; j <= i; j++)
                assert_int_equal(answer_of(&asked[j]), ERROR_NONE);
    }
    node_stop(fixture->node);
    start(fixture);
    for (size_t i = 0; i < COUNT; i++) {
        struct wall shown;

        assert_int_equal(get(fixture->node, &asked[i].created.id, &shown), ERROR_NONE);
        assert_int_equal(shown.ms, due.ms);
    }
    assert_int_equal(atomic_load(&fixture->node->counts.pending_all), COUNT);
    node_stop(fixture->node);
    free(asked);
}

/* Goal: new timers stay with the shard whose thread asks, in its partitions evenly, as long as the
 * others do not fall behind. Method: all of them from one shard. */
static void test_new_timers_stay_near(void **state)
{
    enum { NEAR = 2000, ALL = 40000 };
    struct fixture *fixture = *state;
    size_t counts[4] = {0};

    set(fixture, "partitions", "4");
    set(fixture, "shards", "2");
    start(fixture);
    for (size_t i = 0; i < NEAR; i++)
        counts[node_partition_next(fixture->node, 1, 1)]++;
    assert_int_equal(counts[1], NEAR / 2);
    assert_int_equal(counts[3], NEAR / 2);
    for (size_t i = NEAR; i < ALL; i += 4)
        counts[node_partition_next(fixture->node, 1, 4)] += 4;
    for (size_t i = 0; i < 4; i++)
        assert_in_range(counts[i], ALL / 4 - 1100, ALL / 4 + 1100);
    node_stop(fixture->node);
}

/* Goal: what cannot start says why and leaves nothing behind. */
/* proves: readyz */
static void test_start_says_what_is_wrong(void **state)
{
    struct fixture *fixture = *state;

    set(fixture, "webhook_allow", "10.0.0.0/99");
    struct error error;
    struct node *second;
    assert_int_equal(node_start(&fixture->config, fixture->metrics, NULL, NULL, &second, &error),
                     ERROR_INVALID);
    assert_non_null(strstr(error.text, "10.0.0.0/99"));
    set(fixture, "webhook_allow", "");
    start(fixture);
    assert_int_equal(node_start(&fixture->config, fixture->metrics, NULL, NULL, &second, &error),
                     ERROR_IO);
    assert_non_null(strstr(error.text, fixture->folder.path));
    struct node_health health;
    do
        node_health(fixture->node, &health);
    while (!health.is_ready);
    node_refresh_metrics(fixture->node);
    assert_int_equal(metrics_get(fixture->metrics, METRIC_READY), 1);
    node_stop(fixture->node);
}

/* A disk that takes no writes is noticed although no timer is created. */
/* proves: dead-disk */
static void test_dead_disk_is_not_ready(void **state)
{
    struct fixture *fixture = *state;
    struct node_health health;
    char path[300];

    start(fixture);
    do
        node_health(fixture->node, &health);
    while (!health.is_ready);
    snprintf(path, sizeof(path), "%s/probe", fixture->folder.path);
    assert_int_equal(mkdir(path, 0700), 0);
    do
        node_health(fixture->node, &health);
    while (health.is_ready);
    assert_non_null(strstr(health.reason, "the storage fails: write "));
    node_refresh_metrics(fixture->node);
    assert_true(metrics_get(fixture->metrics, METRIC_STORAGE_FAILURES) >= 1);
    assert_int_equal(rmdir(path), 0);
    do
        node_health(fixture->node, &health);
    while (!health.is_ready);
    node_stop(fixture->node);
}

/* ---- surveys of the node ---- */

struct node_test_worker {
    struct node_queue_request request;
    atomic_bool is_answered;
};

static void worker_done(struct node_queue_request *request)
{
    atomic_store(&list_item(request, struct node_test_worker, request)->is_answered, true);
}

static void survey_done(struct node_request *request)
{
    (void)request;
}

/* Returns the number of queues with waiting workers that the tenant is shown. If `queue` is not
 * empty, only that queue is asked for. */
static size_t count_queues(struct node *node, struct bytes tenant, struct bytes queue)
{
    struct survey survey = {.kind = SURVEY_WORKERS, .queue = queue};
    struct node_request request = {
        .command = {.kind = COMMAND_SURVEY, .tenant = tenant, .survey = &survey},
        .done = survey_done};

    assert_int_equal(node_submit(node, &request), ERROR_NONE); /* answered before it returns */
    assert_int_equal(request.command.error, ERROR_NONE);
    const size_t count = survey.row_count;
    survey_deinit(&survey);
    return count;
}

/* Goal: a tenant is shown the workers of its own queues alone. Method: one worker that waits. */
/* proves: queues-list, tenant-isolation */
static void test_workers_are_told_to_their_tenant(void **state)
{
    struct fixture *fixture = *state;
    const struct bytes none = {0};
    struct node_test_worker worker = {
        .request = {.queue = {.kind = QUEUE_LEASE,
                              .queue = BYTES("shop/jobs"),
                              .items_max = 1,
                              .bytes_max = 1000,
                              .lease_ms = 1000,
                              .wait_until = instant_add_ms(instant_now(), FAR_MS)},
                    .done = worker_done}};

    start(fixture);
    assert_int_equal(node_queue_submit(fixture->node, &worker.request), ERROR_NONE);
    while (count_queues(fixture->node, BYTES("shop"), none) != 1)
        sched_yield();
    assert_int_equal(count_queues(fixture->node, BYTES("shop"), BYTES("shop/jobs")), 1);
    assert_int_equal(count_queues(fixture->node, BYTES("shop"), BYTES("shop/mail")), 0);
    assert_int_equal(count_queues(fixture->node, BYTES("rival"), none), 0);
    assert_int_equal(count_queues(fixture->node, none, none), 0);
    node_queue_give_up(fixture->node, &worker.request);
    while (!atomic_load(&worker.is_answered))
        sched_yield();
    node_stop(fixture->node);
}

/* A storage that fails, as tests exchange it for the real one. */
static struct {
    const struct storage_ops *real;
    atomic_bool fails_to_apply, may_find;
} failing;

static enum error_code failing_apply(struct storage *storage, uint16_t partition, struct bytes body,
                                     enum storage_body kind, const struct storage_place *place,
                                     struct error *ret_error)
{
    if (atomic_exchange(&failing.fails_to_apply, false))
        return error_set(ret_error, ERROR_IO, "a test");
    return failing.real->apply(storage, partition, body, kind, place, ret_error);
}

static enum error_code failing_find(struct storage *storage, const struct timer_id *id,
                                    struct timer **ret_timer, struct error *ret_error)
{
    (void)storage, (void)id, (void)ret_timer;
    while (!atomic_load(&failing.may_find))
        sched_yield();
    return error_set(ret_error, ERROR_NOT_FOUND, "a test");
}

/* Each table is right for the threads that use it; the thread sanitizer is not to see the write,
 * for which there is no lock. */
__attribute__((no_sanitize("thread"))) static void use(struct storage *storage,
                                                       const struct storage_ops *ops)
{
    storage->ops = ops;
}

/* Goal: nobody is told that a timer does not exist because the storage lost what the log has.
 * Method: a read that waits in the storage while a change that the log has is not applied. */
/* proves: create-durable */
static void test_a_failed_storage_denies_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct wall due = wall_add(wall_now(), FAR_MS), shown;
    struct asked far, read, other;

    start(fixture);
    assert_int_equal(submit_create(fixture->node, &far, due), ERROR_NONE);
    assert_int_equal(answer_of(&far), ERROR_NONE);
    failing.real = fixture->node->disk.storage->ops;
    struct storage_ops fails = *failing.real; /* before the threads that see it begin */
    fails.apply = failing_apply;
    fails.find = failing_find;
    atomic_store(&failing.may_find, false);
    node_stop(fixture->node); /* from now on `far` is on disk only */
    start(fixture);
    struct storage *storage = fixture->node->disk.storage;
    use(storage, &fails);
    asked_init(&read);
    read.request.command = (struct command){
        .kind = COMMAND_GET, .partition = far.created.id.partition, .id = far.created.id};
    assert_int_equal(node_submit(fixture->node, &read.request), ERROR_NONE);

    asked_create(fixture->node, &other, due);
    other.request.command.partition = far.created.id.partition;
    atomic_store(&failing.fails_to_apply, true);
    assert_int_equal(node_submit(fixture->node, &other.request), ERROR_NONE);
    assert_int_equal(answer_of(&other), ERROR_IO);
    atomic_store(&failing.may_find, true);
    assert_int_equal(answer_of(&read), ERROR_OVERLOADED);

    use(storage, failing.real);
    while (!node_replica_may_act(fixture->node, far.created.id.partition))
        sched_yield();
    assert_int_equal(get(fixture->node, &far.created.id, &shown), ERROR_NONE);
    node_stop(fixture->node);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_restart_keeps_what_was_acknowledged),
        TEST(test_stop_answers_everything),
        TEST(test_the_door_refuses),
        TEST(test_resets_are_bounded),
        TEST(test_an_outbox_is_sent),
        TEST(test_commits_on_either_thread),
        TEST(test_new_timers_stay_near),
        TEST(test_workers_are_told_to_their_tenant),
        TEST(test_start_says_what_is_wrong),
        TEST(test_dead_disk_is_not_ready),
        TEST(test_a_failed_storage_denies_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
