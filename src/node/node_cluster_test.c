/* Goal: timers that a node of a cluster acknowledged are there after a restart, with its disk or
 * without it, and on the next owner; nodes share the partitions and their copies as the plan says;
 * a node whose log does not answer serves nothing, and serves again later; a number is taken once.
 * Method: whole nodes, with real storages and threads, on the broker in memory of librdkafka. */
#ifdef TICKWHEEL_WITH_LOG_KAFKA

#include "node/node_cluster_testing.h"
#include "node/receiver_testing.h"

#include <errno.h>

/* ---- the tests ---- */

static void test_the_disk_is_lost(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];

    cluster_boot(host);
    assert_int_equal(node_cluster_id(host->node), CLUSTER_ID);
    cluster_await(host, true);
    cluster_fill(fixture, 100);
    assert_cluster_has_all(fixture);
    cluster_halt(host);
    cluster_boot(host);
    cluster_await(host, true);
    assert_cluster_has_all(fixture);
    cluster_fill(fixture, 20);
    cluster_halt(host);
    testing_folder_remove(&host->folder);
    cluster_boot(host);
    cluster_await(host, true);
    assert_cluster_has_all(fixture);
    cluster_fill(fixture, 20);
    cluster_halt(host);
    assert_cluster_is_needed(host);
}

/* The owner copies its rows into the log, and a host without a disk reads both. */
static void test_the_log_is_swept(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct node_cluster_stats stats = {0};

    cluster_set(host, "cluster_sweep_bytes_min", "8K");
    cluster_boot(host);
    cluster_await(host, true);
    cluster_fill(fixture, 150);
    while (stats.sweeps < CLUSTER_PARTITIONS) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
        node_cluster_stats(host->node, &stats);
    }
    assert_true(stats.sweep_rows >= CLUSTER_PARTITIONS && stats.sweep_failures == 0);
    assert_true(stats.log_bytes > 0 && stats.restarts == 0);
    assert_cluster_has_all(fixture);
    cluster_halt(host);
    testing_folder_remove(&host->folder);
    cluster_boot(host);
    cluster_await(host, true);
    assert_cluster_has_all(fixture);
}

/* The second has followed, and owns all when the first has stopped. */
static void test_the_next_owner(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];

    cluster_boot(first);
    cluster_await(first, true);
    cluster_fill(fixture, 50);
    cluster_boot(second);
    cluster_await_shares(fixture);
    cluster_fill(fixture, 50);
    cluster_halt(first);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
    cluster_fill(fixture, 20);
    cluster_boot(first);
    cluster_await_shares(fixture);
    cluster_halt(second);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
}

/* Each gets a partition, and a copy of another one; those of one that stops go to the others; it
 * gets one when it is back. With two standbys each reads what it had dropped again. */
static void test_three_hosts_share(void **state)
{
    struct cluster_fixture *fixture = *state;

    for (size_t i = 0; i < CLUSTER_NODES; i++)
        cluster_boot(&fixture->hosts[i]);
    cluster_await_shares(fixture);
    cluster_fill(fixture, 60);
    cluster_await_copies(fixture, 2);
    for (size_t i = 0; i < CLUSTER_NODES; i++) {
        cluster_halt(&fixture->hosts[i]);
        if (i == 0) /* the others may have what they are to drop soon */
            assert_cluster_disk_has(&fixture->hosts[i], 2);
        cluster_await_shares(fixture);
        assert_cluster_has_all(fixture);
        cluster_fill(fixture, 30);
        if (i > 0)
            cluster_set(&fixture->hosts[i], "cluster_standbys", "2");
        cluster_boot(&fixture->hosts[i]);
        cluster_await_shares(fixture);
        assert_cluster_has_all(fixture);
    }
    cluster_halt(&fixture->hosts[0]); /* the others make the plan */
    cluster_set(&fixture->hosts[0], "cluster_standbys", "2");
    cluster_boot(&fixture->hosts[0]);
    cluster_await_copies(fixture, 3);
    cluster_halt(&fixture->hosts[0]);
    cluster_halt(&fixture->hosts[1]);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
}

/* A disk that takes no writes: the host is not ready and says why, others own its partitions, and
 * it gets its part when the disk works again. */
/* proves: dead-disk */
static void test_a_disk_is_dead(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct node_health health;
    char path[300];

    snprintf(path, sizeof(path), "%s/probe", host->folder.path);
    for (size_t i = 0; i < CLUSTER_NODES; i++)
        cluster_boot(&fixture->hosts[i]);
    cluster_await_shares(fixture);
    cluster_fill(fixture, 30);
    while (mkdir(path, 0700)) /* no file can be written there; now and then there is one */
        assert_int_equal(errno, EEXIST);
    cluster_await(host, false);
    while (cluster_share(host) > 0 ||
           cluster_share(&fixture->hosts[1]) + cluster_share(&fixture->hosts[2]) <
               CLUSTER_PARTITIONS) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
    }
    node_health(host->node, &health);
    assert_non_null(strstr(health.reason, "the storage fails, and other nodes own"));
    assert_non_null(strstr(health.reason, path));
    node_refresh_metrics(host->node);
    assert_true(metrics_get(host->metrics, METRIC_STORAGE_FAILURES) >= 1);
    assert_int_equal(rmdir(path), 0);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
}

/* Until each partition has begun with a copy, or with the log. */
static struct node_cluster_stats cluster_await_begun(struct cluster_host *host)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct node_cluster_stats stats = {0};

    while (stats.copies + stats.copy_failures < CLUSTER_PARTITIONS) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
        node_cluster_stats(host->node, &stats);
    }
    return stats;
}

/* A host without a disk gets its copies from another one, page by page. When none gives it one, or
 * the giver goes, it reads the log. */
static void test_copies_of_other_hosts(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];
    struct node_cluster_stats stats, given;

    cluster_boot(first);
    cluster_await(first, true);
    cluster_fill(fixture, 90);
    cluster_boot_copying(second);
    stats = cluster_await_begun(second);
    cluster_await_shares(fixture);
    node_cluster_stats(first->node, &given);
    assert_int_equal(stats.copies, CLUSTER_PARTITIONS);
    assert_int_equal(given.copies_given, CLUSTER_PARTITIONS);
    assert_true(stats.copy_rows >= 90 && stats.copy_failures == 0 && stats.restarts == 0);
    cluster_fill(fixture, 30);
    cluster_halt(first);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
    testing_folder_remove(&first->folder);
    first->is_cut = true;
    cluster_boot_copying(first);
    stats = cluster_await_begun(first);
    cluster_await_shares(fixture);
    assert_true(stats.copies == 0 && stats.copy_failures == CLUSTER_PARTITIONS);
    cluster_halt(second);
    cluster_await_shares(fixture);
    assert_cluster_has_all(fixture);
}

static void test_nodes_know_addresses(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    char address[NODE_ADDRESS_SIZE];

    cluster_boot(first);
    node_tell_address(first->node, "10.0.0.1:8464");
    cluster_boot(second);
    while (!node_peer_address(second->node, 1, address)) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
    }
    assert_string_equal(address, "10.0.0.1:8464");
    assert_false(node_peer_address(second->node, 2, address)); /* it was told none */
    assert_false(node_peer_address(second->node, 3, address)); /* it is no member */
}

/* ---- what is held back ---- */

struct cluster_hold {
    struct node_hold hold;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_answered; /* guarded by lock */
};

static void cluster_held(struct node_hold *hold)
{
    struct cluster_hold *asked = list_item(hold, struct cluster_hold, hold);

    pthread_mutex_lock(&asked->lock);
    asked->is_answered = true;
    pthread_cond_signal(&asked->changed);
    pthread_mutex_unlock(&asked->lock);
}

/* On a busy machine the log may not answer in time. */
static void cluster_hold(struct cluster_host *host, enum node_hold_kind kind, struct bytes name,
                         struct bytes note)
{
    enum error_code code = ERROR_IN_DOUBT;

    while (code == ERROR_IN_DOUBT) {
        struct cluster_hold asked = {
            .hold = {.kind = kind, .at = wall_now(), .done = cluster_held}};

        asked.hold.pause = (struct target_pause){
            .name = name, .note = note, .since = asked.hold.at, .until = WALL_NEVER};
        pthread_mutex_init(&asked.lock, NULL);
        pthread_cond_init(&asked.changed, NULL);
        node_hold(host->node, &asked.hold);
        pthread_mutex_lock(&asked.lock);
        while (!asked.is_answered)
            pthread_cond_wait(&asked.changed, &asked.lock);
        pthread_mutex_unlock(&asked.lock);
        pthread_mutex_destroy(&asked.lock);
        pthread_cond_destroy(&asked.changed);
        code = asked.hold.result;
    }
    assert_int_equal(code, ERROR_NONE);
}

static bool cluster_is_paused(struct cluster_host *host)
{
    struct target_pauses *pauses = node_pauses(host->node);
    const bool is_paused =
        target_pauses_find(pauses, (struct bytes){0}, BYTES("http://receiver")) != NULL;

    target_pauses_leave(pauses);
    return is_paused;
}

static bool cluster_is_maintained(struct cluster_host *host)
{
    char note[NODE_NOTE_SIZE_MAX];
    size_t size;
    const bool is_on = node_maintenance(host->node, note, &size);

    return is_on && bytes_equal((struct bytes){note, size}, BYTES("disk"));
}

static bool cluster_is_reset(struct cluster_host *host)
{
    struct target_pauses *resets = target_pause_board_take_resets(&host->node->pauses);
    const bool is_reset =
        resets && target_pauses_find(resets, (struct bytes){0}, BYTES("http://receiver"));

    target_pauses_leave(resets);
    return is_reset;
}

/* Each host closes its breakers. */
static void test_a_reset_of_all_hosts(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);

    cluster_boot(first);
    cluster_boot(second);
    assert_false(cluster_is_reset(first) || cluster_is_reset(second));
    cluster_hold(first, NODE_HOLD_RESET, BYTES("http://receiver"), (struct bytes){0});
    assert_true(cluster_is_reset(first));
    while (!cluster_is_reset(second)) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
    }
    assert_false(cluster_is_paused(first) || cluster_is_maintained(first));
}

/* A pause that was answered holds on the other host soon, and on one that starts when all others
 * have gone. */
static void test_holds_of_all_hosts(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];
    struct cluster_host *third = &fixture->hosts[2];
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);

    cluster_boot(first);
    cluster_boot(second);
    cluster_hold(first, NODE_HOLD_PAUSE, BYTES("http://receiver"), BYTES("why"));
    assert_true(cluster_is_paused(first));
    cluster_hold(second, NODE_HOLD_MAINTAIN, (struct bytes){0}, BYTES("disk"));
    assert_true(cluster_is_paused(second) && cluster_is_maintained(second));
    while (!cluster_is_maintained(first)) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
    }
    cluster_halt(first);
    cluster_halt(second);
    cluster_boot(third);
    assert_true(cluster_is_paused(third) && cluster_is_maintained(third));
    cluster_hold(third, NODE_HOLD_RESUME, BYTES("http://receiver"), (struct bytes){0});
    cluster_hold(third, NODE_HOLD_END, (struct bytes){0}, (struct bytes){0});
    assert_false(cluster_is_paused(third) || cluster_is_maintained(third));
}

static void test_a_number_of_another_host(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];
    struct error error = {.text = ""};

    cluster_boot(first);
    cluster_await(first, true);
    cluster_set(second, "cluster_node_id", "1");
    assert_int_equal(
        node_start(&second->config, second->metrics, NULL, NULL, &second->node, &error),
        ERROR_INVALID);
    second->node = NULL;
    assert_non_null(strstr(error.text, "another process of the cluster has the number 1"));
    cluster_fill(fixture, 10);
    assert_cluster_has_all(fixture);
}

/* Until the node owns no partition, and the engines are gone. */
static void cluster_await_standby(struct cluster_host *host)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct node_partition_view view;

    for (uint16_t i = 0; i < CLUSTER_PARTITIONS; i++)
        while (node_partition(host->node, i, &view) && strcmp(view.state, "standby") != 0) {
            assert_true(instant_now().ns < until.ns);
            poll(NULL, 0, 10);
        }
}

/* Timers that fall due when the lease is over do not keep their partition from going. */
static void test_timers_are_due_after_the_lease(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    struct timer_id id;

    cluster_boot(host);
    cluster_await(host, true);
    for (uint64_t after_ms = 500; after_ms < 4000; after_ms += 100)
        for (uint16_t i = 0; i < CLUSTER_PARTITIONS; i++)
            cluster_create_after(host, i, after_ms, &id); /* a busy machine may refuse some */
    assert_int_equal(rd_kafka_mock_broker_set_down(fixture->brokers, 1), 0);
    cluster_await_standby(host);
    assert_int_equal(rd_kafka_mock_broker_set_up(fixture->brokers, 1), 0);
    cluster_await(host, true);
}

/* A node without its log is silent, answers every request, and is back when the log is. */
static void test_the_log_is_silent(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    struct timer_id id;

    cluster_boot(host);
    cluster_await(host, true);
    cluster_fill(fixture, 30);
    assert_int_equal(rd_kafka_mock_broker_set_down(fixture->brokers, 1), 0);
    assert_int_not_equal(cluster_create(host, 0, &id), ERROR_NONE);
    cluster_await(host, false);
    assert_int_not_equal(cluster_get(host, &fixture->ids[0]), ERROR_NONE);
    assert_int_equal(rd_kafka_mock_broker_set_up(fixture->brokers, 1), 0);
    cluster_await(host, true);
    assert_cluster_has_all(fixture);
    cluster_fill(fixture, 10);
}

/* ---- limits ---- */

enum { LIMIT_ALL = 40, LIMIT_SHOP = 20 };

/* As many timers of the tenant as the host admits, at most `most`; or else it says TOO_MANY. */
static size_t cluster_create_until_refused(struct cluster_fixture *fixture,
                                           struct cluster_host *host, const char *tenant,
                                           uint64_t limit, size_t most)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    const struct timer_texts texts = {
        .target = BYTES("log:"), .payload = BYTES("1"), .tenant = bytes_of(tenant)};
    size_t count = 0;

    while (count < most) {
        uint16_t partition = 0;
        struct timer_id id;

        while (partition < CLUSTER_PARTITIONS - 1 && cluster_owner(fixture, partition) != host)
            partition++;
        const enum error_code code =
            cluster_create_of(host, partition, &texts, limit, CLUSTER_FAR_MS, &id);
        if (code == ERROR_TOO_MANY)
            break;
        assert_true(code == ERROR_NONE || code == ERROR_OVERLOADED);
        assert_true(instant_now().ns < until.ns);
        count += code == ERROR_NONE;
    }
    return count;
}

struct cluster_tenants {
    uint64_t shop, all;
};

static void cluster_add_tenant(void *context, struct bytes tenant, uint64_t pending)
{
    struct cluster_tenants *tenants = context;

    tenants->shop += bytes_equal(tenant, BYTES("shop")) ? pending : 0;
    tenants->all += pending;
}

/* Until the host counts so many timers of all hosts. */
static void cluster_await_pending(struct cluster_host *host, uint64_t shop, uint64_t all)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct cluster_tenants tenants = {0};

    while (tenants.shop != shop || tenants.all != all) {
        if (instant_now().ns >= until.ns)
            fail_msg("host %u counts %llu of shop, %llu in all", host->config.cluster_node_id,
                     (unsigned long long)tenants.shop, (unsigned long long)tenants.all);
        poll(NULL, 0, 10);
        tenants = (struct cluster_tenants){0};
        node_tenants(host->node, cluster_add_tenant, &tenants);
    }
}

/* What one host admitted the other one counts, in all and of a tenant; and once only when it owns
 * the partitions of the first. */
static void test_limits_of_all_hosts(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];

    for (size_t i = 0; i < 2; i++) {
        cluster_set(&fixture->hosts[i], "pending_max", "40");
        cluster_boot(&fixture->hosts[i]);
    }
    cluster_await_shares(fixture);
    assert_int_equal(cluster_create_until_refused(fixture, first, "shop", LIMIT_SHOP, 15), 15);
    assert_int_equal(cluster_create_until_refused(fixture, first, "", 0, 15), 15);
    cluster_await_pending(second, 15, 30);
    assert_int_equal(cluster_create_until_refused(fixture, second, "shop", LIMIT_SHOP, 15), 5);
    assert_int_equal(cluster_create_until_refused(fixture, second, "", 0, 15), 5);
    cluster_await_pending(first, LIMIT_SHOP, LIMIT_ALL);
    assert_int_equal(cluster_create_until_refused(fixture, first, "shop", LIMIT_SHOP, 15), 0);
    cluster_halt(first);
    cluster_await_shares(fixture);
    cluster_await_pending(second, LIMIT_SHOP, LIMIT_ALL);
    assert_int_equal(atomic_load(&second->node->pending_others), 0);
    assert_int_equal(cluster_create_until_refused(fixture, second, "", 0, 15), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cluster_set_up, cluster_tear_down)

/* How many records the topic has, when `least` of them have come. */
static size_t cluster_count(struct cluster_fixture *fixture, const char *topic, size_t least)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    const struct log_kafka_options options = {
        .brokers = rd_kafka_mock_cluster_bootstraps(fixture->brokers),
        .topic = topic,
        .append_timeout_ms = CLUSTER_WAIT_MS,
    };
    struct log_event event = {.kind = LOG_NOTHING};
    struct log *log;
    size_t count = 0;

    assert_int_equal(log_kafka_open(&options, &log, NULL), ERROR_NONE);
    assert_int_equal(log_follow(log, 0, NULL), ERROR_NONE);
    while (count < least || event.kind != LOG_END) {
        assert_true(instant_now().ns < until.ns);
        count += log_wait(log, 1000, &event) == LOG_RECORD;
    }
    log_close(log);
    return count;
}

/* ---- places in flight ---- */

enum { PLACES = 6, PLACES_EACH = 8 };

/* More timers in each partition than there are places for. */
static void places_fill(struct cluster_fixture *fixture, const struct receiver *receiver)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);

    for (unsigned i = 0; i < CLUSTER_PARTITIONS * PLACES_EACH; i++) {
        const uint16_t partition = (uint16_t)(i % CLUSTER_PARTITIONS);
        enum error_code code;
        struct timer_id id;
        char target[64];

        snprintf(target, sizeof(target), "http://127.0.0.1:%u/1", receiver->port);
        do {
            struct cluster_host *host = cluster_owner(fixture, partition);
            code = host ? cluster_create_to(host, partition, target, 0, &id) : ERROR_OVERLOADED;
            assert_true(!code || cluster_may_repeat(code, until));
        } while (code);
    }
}

/* The receiver answers meanwhile, so that engines can end. */
static void places_await_even(struct cluster_fixture *fixture, struct receiver *receiver)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);

    while (!cluster_is_even(fixture)) {
        assert_true(instant_now().ns < until.ns);
        receiver_look(receiver, RECEIVER_QUIET_MS);
        while (receiver_answer(receiver))
            ;
    }
}

static void assert_all_places_taken(struct receiver *receiver)
{
    receiver_await(receiver, PLACES);
    receiver_look(receiver, RECEIVER_QUIET_MS);
    assert_int_equal(receiver->out, PLACES);
}

/* Goal: the limit of a target is that of all nodes, whichever partitions they own; partitions that
 * are lost with deliveries out, and those that go to another node, leave their places. Method: the
 * log is silent until its partitions are lost; a second host joins. */
static void test_places_follow_the_partitions(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *first = &fixture->hosts[0], *second = &fixture->hosts[1];
    struct receiver receiver = {0};

    receiver_open(&receiver);
    for (size_t i = 0; i < 2; i++) {
        cluster_set(&fixture->hosts[i], "webhook_allow", "127.0.0.1/32");
        cluster_set(&fixture->hosts[i], "target_deliveries_max", "6");
        cluster_set(&fixture->hosts[i], "target_breaker_failures", "0");
    }
    cluster_boot(first);
    cluster_await(first, true);
    places_fill(fixture, &receiver);
    assert_all_places_taken(&receiver);
    assert_int_equal(rd_kafka_mock_broker_set_down(fixture->brokers, 1), 0);
    cluster_await(first, false);
    assert_int_equal(rd_kafka_mock_broker_set_up(fixture->brokers, 1), 0);
    places_await_even(fixture, &receiver);
    places_fill(fixture, &receiver);
    assert_all_places_taken(&receiver);
    cluster_boot(second);
    places_await_even(fixture, &receiver);
    places_fill(fixture, &receiver);
    assert_all_places_taken(&receiver); /* 4 of one, and 2 of the other */
    receiver_close(&receiver);
}

/* A partition with a damaged log is not served; the others are, and the node says why it is not
 * ready. */
static void test_a_log_is_damaged(void **state)
{
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    struct node_cluster_stats stats;
    struct node_health health;
    struct timer_id id;

    cluster_boot(host);
    cluster_await(host, true);
    node_cluster_stats(host->node, &stats);
    assert_int_equal(stats.broken, 0);
    testing_append(rd_kafka_mock_cluster_bootstraps(fixture->brokers), "test.log", 1,
                   bytes_of("no frame"));
    cluster_await(host, false);
    node_health(host->node, &health);
    assert_non_null(strstr(health.reason, "broken"));
    node_cluster_stats(host->node, &stats);
    assert_int_equal(stats.broken, 1);
    assert_int_not_equal(cluster_create(host, 1, &id), ERROR_NONE);
    assert_int_equal(cluster_create(host, 0, &id), ERROR_NONE);
}

/* Each message is in its topic once, and its timer is over. */
static void test_exactly_once(void **state)
{
    const struct instant until = instant_add_ms(instant_now(), CLUSTER_WAIT_MS);
    struct cluster_fixture *fixture = *state;
    struct cluster_host *host = &fixture->hosts[0];
    char connections[200];

    snprintf(connections, sizeof(connections), "bus=kafka://%s?exactly_once=true",
             rd_kafka_mock_cluster_bootstraps(fixture->brokers));
    cluster_set(host, "broker_connections", connections);
    assert_int_equal(rd_kafka_mock_topic_create(fixture->brokers, "due", 1, 1), 0);
    cluster_boot(host);
    cluster_await(host, true);
    for (size_t i = 0; i < CLUSTER_TIMERS; i++) {
        const uint16_t partition = (uint16_t)(i % CLUSTER_PARTITIONS);
        enum error_code code;

        do {
            code = cluster_create_to(host, partition, "kafka://bus/due", 0, &fixture->ids[i]);
            assert_true(!code || cluster_may_repeat(code, until));
        } while (code);
    }
    cluster_count(fixture, "due", CLUSTER_TIMERS);
    for (size_t i = 0; i < CLUSTER_TIMERS; i++)
        while (cluster_get(host, &fixture->ids[i]) != ERROR_GONE)
            assert_true(instant_now().ns < until.ns);
    cluster_halt(host);
    assert_int_equal(cluster_count(fixture, "due", CLUSTER_TIMERS), CLUSTER_TIMERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_disk_is_dead),
        TEST(test_the_disk_is_lost),
        TEST(test_the_log_is_swept),
        TEST(test_the_next_owner),
        TEST(test_three_hosts_share),
        TEST(test_copies_of_other_hosts),
        TEST(test_nodes_know_addresses),
        TEST(test_holds_of_all_hosts),
        TEST(test_a_reset_of_all_hosts),
        TEST(test_limits_of_all_hosts),
        TEST(test_a_number_of_another_host),
        TEST(test_the_log_is_silent),
        TEST(test_a_log_is_damaged),
        TEST(test_exactly_once),
        TEST(test_timers_are_due_after_the_lease),
        TEST(test_places_follow_the_partitions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0; /* without librdkafka there is no log */
}

#endif
