/*
 * node_cluster_testing.h - hosts of a cluster for tests: whole nodes, with real storages and
 * threads, on the broker in memory of librdkafka; and requests to them.
 */
#ifndef TICKWHEEL_NODE_NODE_CLUSTER_TESTING_H
#define TICKWHEEL_NODE_NODE_CLUSTER_TESTING_H

#include "node/node_members.h"
#include "node/node_ownership.h"

#include "cluster/log_kafka_testing.h"
#include "store/wheel/diskwheel.h"
#include "store/storage_testing.h"
#include "sys/clock.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <poll.h>
#include <pthread.h>

#define CLUSTER_FAR_MS     UINT64_C(3600000)
#define CLUSTER_WAIT_MS    120000
#define CLUSTER_PARTITIONS 3

enum { CLUSTER_NODES = 3, CLUSTER_TIMERS = 300, CLUSTER_ID = 77 };

struct cluster_fixture;

struct cluster_host {
    struct cluster_fixture *fixture;
    bool is_cut; /* no page comes to it */
    struct testing_folder folder;
    struct config config;
    struct metrics *metrics;
    struct node *node; /* NULL: it does not run */
};

struct cluster_fixture {
    rd_kafka_t *owner;
    rd_kafka_mock_cluster_t *brokers;
    struct cluster_host hosts[CLUSTER_NODES];
    struct timer_id ids[CLUSTER_TIMERS];
    size_t count;
    pthread_mutex_t lock; /* hosts do not go while they give a page */
};

/* ---- hosts ---- */

static inline void cluster_set(struct cluster_host *host, const char *name, const char *value)
{
    assert_int_equal(config_set(&host->config, name, value, NULL), ERROR_NONE);
}

static inline void cluster_boot_on(struct cluster_host *host, const struct node_route *route)
{
    struct error error = {.text = ""};
    struct node *node;

    if (node_start(&host->config, host->metrics, NULL, route, &node, &error))
        fail_msg("%s", error.text);
    pthread_mutex_lock(&host->fixture->lock);
    host->node = node;
    pthread_mutex_unlock(&host->fixture->lock);
}

static inline void cluster_boot(struct cluster_host *host)
{
    cluster_boot_on(host, NULL);
}

static inline void cluster_halt(struct cluster_host *host)
{
    struct node *node = host->node;

    pthread_mutex_lock(&host->fixture->lock);
    host->node = NULL;
    pthread_mutex_unlock(&host->fixture->lock);
    if (node)
        node_stop(node);
}

/* Gives a page of another host's copy, at once. */
static inline void cluster_copy(void *context, struct peers_copy *ask)
{
    const struct cluster_host *host = context;
    struct cluster_fixture *fixture = host->fixture;
    struct copy_page page = {.at = ask->at};
    struct buffer rows;

    page.at.rows_max = 5;
    page.at.bytes_max = COPY_BYTES_MAX;
    buffer_init(&rows);
    pthread_mutex_lock(&fixture->lock);
    struct node *giver = host->is_cut ? NULL : fixture->hosts[ask->node - 1].node;
    const bool has_page = giver && node_give_copy(giver, &page, &rows);
    pthread_mutex_unlock(&fixture->lock);
    page.rows = buffer_bytes(&rows);
    ask->done(ask, has_page ? &page : NULL);
    buffer_deinit(&rows);
}

static inline void cluster_boot_copying(struct cluster_host *host)
{
    const struct node_route route = {.context = host, .copy = cluster_copy};

    cluster_set(host, "cluster_copy_records_min", "1");
    cluster_boot_on(host, &route);
    node_tell_address(host->node, "127.0.0.1:1"); /* the way to others is open */
}

static inline bool cluster_is_ready(struct cluster_host *host)
{
    struct node_health health;

    node_health(host->node, &health);
    return health.is_ready;
}

static inline void cluster_await(struct cluster_host *host, bool is_ready)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);

    while (cluster_is_ready(host) != is_ready) {
        struct pollfd news = {.fd = node_news_fd(host->node), .events = POLLIN};

        assert_true(instant_now().ns < until.ns);
        poll(&news, 1, 100);
        node_take_news(host->node);
    }
}

/* How many partitions it owns. */
static inline size_t cluster_share(const struct cluster_host *host)
{
    size_t count = 0;
    uint32_t owner;

    for (uint16_t i = 0; host->node && i < CLUSTER_PARTITIONS; i++)
        count += node_owns(host->node, i, &owner);
    return count;
}

/* Whether each host that runs owns its part of the partitions, and all are ready. */
static inline bool cluster_is_even(struct cluster_fixture *fixture)
{
    size_t running = 0;
    bool is_even = true;

    for (size_t i = 0; i < CLUSTER_NODES; i++)
        running += fixture->hosts[i].node != NULL;
    for (size_t i = 0; i < CLUSTER_NODES; i++) {
        struct cluster_host *host = &fixture->hosts[i];
        const size_t share = cluster_share(host);

        is_even =
            is_even && (!host->node || (share >= CLUSTER_PARTITIONS / running &&
                                        share <= (CLUSTER_PARTITIONS + running - 1) / running &&
                                        cluster_is_ready(host)));
    }
    return is_even;
}

static inline void cluster_await_shares(struct cluster_fixture *fixture)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);

    while (!cluster_is_even(fixture)) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
    }
}

/* How many partitions it has a copy of. */
static inline size_t cluster_copies(const struct cluster_host *host)
{
    struct node_partition_view view;
    size_t count = 0;

    for (uint16_t i = 0; i < CLUSTER_PARTITIONS; i++) {
        assert_true(node_partition(host->node, i, &view));
        count += strcmp(view.state, "absent") != 0;
    }
    return count;
}

/* Waits until all hosts run, and each has copies of `count` partitions. */
static inline void cluster_await_copies(struct cluster_fixture *fixture, size_t count)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    bool is_even = false;

    while (!is_even) {
        cluster_await_shares(fixture);
        is_even = true;
        for (size_t i = 0; i < CLUSTER_NODES; i++)
            is_even = is_even && cluster_copies(&fixture->hosts[i]) == count;
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
    }
}

/* Of a host that does not run: it has the timers of that many partitions, and nothing of others. */
static inline void assert_cluster_disk_has(struct cluster_host *host, size_t count)
{
    const struct diskwheel_options options = {
        .folder = host->folder.path,
        .partition_count = CLUSTER_PARTITIONS,
        .cluster = CLUSTER_ID,
    };
    struct storage *storage;
    size_t found = 0;

    assert_int_equal(diskwheel_storage_open(&options, &storage, NULL), ERROR_NONE);
    for (uint16_t i = 0; i < CLUSTER_PARTITIONS; i++) {
        const struct storage_scan scan = {.partition = i,
                                          .kind = STORAGE_SCAN_ALL,
                                          .to = {STORAGE_DEAD_FROM, 0},
                                          .rows_max = CLUSTER_TIMERS,
                                          .bytes_max = SIZE_MAX};
        struct storage_place place;
        struct storage_meta meta;
        struct storage_page page;

        assert_int_equal(storage_load_place(storage, i, &place, NULL), ERROR_NONE);
        assert_int_equal(storage_load_meta(storage, i, &meta, NULL), ERROR_NONE);
        assert_int_equal(storage_scan(storage, &scan, &page, NULL), ERROR_NONE);
        assert_int_equal(page.count > 0, place.next > 0);
        assert_int_equal(meta.pending, page.count);
        found += page.count > 0;
        storage_page_free(&page);
    }
    storage_close(storage);
    assert_int_equal(found, count);
}

/* The host that owns the partition; NULL: none does at the moment. */
static inline struct cluster_host *cluster_owner(struct cluster_fixture *fixture,
                                                 uint16_t partition)
{
    uint32_t owner;

    for (size_t i = 0; i < CLUSTER_NODES; i++)
        if (fixture->hosts[i].node && node_owns(fixture->hosts[i].node, partition, &owner)) {
            assert_int_equal(owner, i + 1);
            return &fixture->hosts[i];
        }
    return NULL;
}

static inline int cluster_set_up(void **state)
{
    struct cluster_fixture *fixture = calloc(1, sizeof(*fixture));
    char text[200];

    assert_non_null(fixture);
    fixture->owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof(text));
    assert_non_null(fixture->owner);
    fixture->brokers = rd_kafka_mock_cluster_new(fixture->owner, 1);
    assert_non_null(fixture->brokers);
    assert_int_equal(
        rd_kafka_mock_topic_create(fixture->brokers, "test.log", CLUSTER_PARTITIONS, 1), 0);
    assert_int_equal(rd_kafka_mock_topic_create(fixture->brokers, "test.control", 1, 1), 0);
    testing_found(rd_kafka_mock_cluster_bootstraps(fixture->brokers), "test.control", CLUSTER_ID,
                  CLUSTER_PARTITIONS);
    pthread_mutex_init(&fixture->lock, NULL);
    for (unsigned i = 0; i < CLUSTER_NODES; i++) {
        struct cluster_host *host = &fixture->hosts[i];

        host->fixture = fixture;
        testing_folder_make(&host->folder);
        config_init(&host->config);
        snprintf(text, sizeof(text), "%u", i + 1);
        cluster_set(host, "cluster_node_id", text);
        cluster_set(host, "cluster_brokers", rd_kafka_mock_cluster_bootstraps(fixture->brokers));
        cluster_set(host, "cluster_name", "test");
        cluster_set(host, "cluster_lease", "1s");
        cluster_set(host, "data_folder", host->folder.path);
        cluster_set(host, "partitions", "3");
        cluster_set(host, "shards", "2");
        cluster_set(host, "drain", "1s");
        cluster_set(host, "disk_reserve_bytes", "0");
        host->metrics = metrics_create("test", wall_now());
    }
    *state = fixture;
    return 0;
}

static inline int cluster_tear_down(void **state)
{
    struct cluster_fixture *fixture = *state;

    for (unsigned i = 0; i < CLUSTER_NODES; i++) {
        cluster_halt(&fixture->hosts[i]);
        metrics_destroy(fixture->hosts[i].metrics);
        testing_folder_remove(&fixture->hosts[i].folder);
    }
    rd_kafka_mock_cluster_destroy(fixture->brokers);
    rd_kafka_destroy(fixture->owner);
    pthread_mutex_destroy(&fixture->lock);
    free(fixture);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_set_up, cluster_tear_down)

/* ---- requests ---- */

struct cluster_asked {
    struct node_request request;
    struct timer *timer;
    struct command_created created;
    bool has_timer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_answered; /* guarded by lock */
};

static inline void cluster_done(struct node_request *request)
{
    struct cluster_asked *asked = list_item(request, struct cluster_asked, request);

    asked->has_timer = request->command.timer != NULL;
    pthread_mutex_lock(&asked->lock);
    asked->is_answered = true;
    pthread_cond_signal(&asked->changed);
    pthread_mutex_unlock(&asked->lock);
}

static inline void cluster_asked_init(struct cluster_asked *asked)
{
    *asked = (struct cluster_asked){.request.done = cluster_done};
    pthread_mutex_init(&asked->lock, NULL);
    pthread_cond_init(&asked->changed, NULL);
}

static inline enum error_code cluster_answer(struct cluster_asked *asked)
{
    pthread_mutex_lock(&asked->lock);
    while (!asked->is_answered)
        pthread_cond_wait(&asked->changed, &asked->lock);
    pthread_mutex_unlock(&asked->lock);
    pthread_mutex_destroy(&asked->lock);
    pthread_cond_destroy(&asked->changed);
    return asked->request.command.error;
}

/* NONE: the timer is acknowledged. `limit`: live timers of the tenant; 0: no limit. */
static inline enum error_code cluster_create_of(struct cluster_host *host, uint16_t partition,
                                                const struct timer_texts *texts, uint64_t limit,
                                                uint64_t after_ms, struct timer_id *ret_id)
{
    struct cluster_asked asked;

    cluster_asked_init(&asked);
    asked.timer = timer_alloc(texts);
    assert_non_null(asked.timer);
    asked.timer->due = wall_add(wall_now(), after_ms);
    asked.request.command = (struct command){.kind = COMMAND_CREATE,
                                             .partition = partition,
                                             .timers = &asked.timer,
                                             .results = &asked.created,
                                             .timer_count = 1,
                                             .tenant_pending_max = limit};
    const enum error_code refused = node_submit(host->node, &asked.request);
    if (refused) {
        timer_free(asked.timer);
        return refused;
    }
    const enum error_code code = cluster_answer(&asked);
    if (code)
        return code;
    if (!asked.created.error)
        *ret_id = asked.created.id;
    return asked.created.error;
}

static inline enum error_code cluster_create_to(struct cluster_host *host, uint16_t partition,
                                                const char *target, uint64_t after_ms,
                                                struct timer_id *ret_id)
{
    const struct timer_texts texts = {.target = bytes_of(target), .payload = BYTES("1")};

    return cluster_create_of(host, partition, &texts, 0, after_ms, ret_id);
}

static inline enum error_code cluster_create_after(struct cluster_host *host, uint16_t partition,
                                                   uint64_t after_ms, struct timer_id *ret_id)
{
    return cluster_create_to(host, partition, "log:", after_ms, ret_id);
}

static inline enum error_code cluster_create(struct cluster_host *host, uint16_t partition,
                                             struct timer_id *ret_id)
{
    return cluster_create_after(host, partition, CLUSTER_FAR_MS, ret_id);
}

static inline enum error_code cluster_get(struct cluster_host *host, const struct timer_id *id)
{
    struct cluster_asked asked;

    cluster_asked_init(&asked);
    asked.request.command =
        (struct command){.kind = COMMAND_GET, .partition = id->partition, .id = *id};
    const enum error_code refused = node_submit(host->node, &asked.request);
    if (refused)
        return refused;
    const enum error_code code = cluster_answer(&asked);
    return code ? code : asked.has_timer ? ERROR_NONE : ERROR_NOT_FOUND;
}

/* On a busy machine a lease may be over before its next append: then the host claims again. */
static inline bool cluster_may_repeat(enum error_code code, struct instant until)
{
    return (code == ERROR_OVERLOADED || code == ERROR_IN_DOUBT) && instant_now().ns < until.ns;
}

static inline void cluster_fill(struct cluster_fixture *fixture, size_t count)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);

    for (size_t i = 0; i < count; i++) {
        const uint16_t partition = (uint16_t)(i % CLUSTER_PARTITIONS);
        struct timer_id *id = &fixture->ids[fixture->count];
        enum error_code code;

        do {
            struct cluster_host *host = cluster_owner(fixture, partition);
            code = host ? cluster_create(host, partition, id) : ERROR_OVERLOADED;
            assert_true(!code || cluster_may_repeat(code, until));
        } while (code);
        fixture->count++;
    }
}

static inline void assert_cluster_has_all(struct cluster_fixture *fixture)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);

    for (size_t i = 0; i < fixture->count; i++) {
        const struct timer_id *id = &fixture->ids[i];
        enum error_code code;

        do {
            struct cluster_host *host = cluster_owner(fixture, id->partition);
            code = host ? cluster_get(host, id) : ERROR_OVERLOADED;
            assert_true(!code || cluster_may_repeat(code, until));
        } while (code);
    }
}

/* A folder that follows a log cannot be run without it. */
static inline void assert_cluster_is_needed(struct cluster_host *host)
{
    struct error error = {.text = ""};

    cluster_set(host, "cluster_brokers", "");
    assert_int_equal(node_start(&host->config, host->metrics, NULL, NULL, &host->node, &error),
                     ERROR_INVALID);
    assert_non_null(strstr(error.text, "follows the log of a cluster"));
    host->node = NULL;
}

#endif
