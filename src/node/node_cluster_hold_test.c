/* Goal: pauses, maintenance, resets, definitions, and limits of tenants and of targets hold on all
 * nodes. Method: whole nodes, with real storages and threads, on the broker in memory of
 * librdkafka. */
#ifdef TICKWHEEL_WITH_LOG_KAFKA

#include "node/node_cluster_testing.h"
#include "node/node_state.h"
#include "node/receiver_testing.h"

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
        asked.hold.definition =
            (struct definition){.key = name, .value = note, .version = NODE_ANY_VERSION};
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
    struct target_pauses *resets = target_pause_board_take_resets(&host->node->holds.pauses);
    const bool is_reset =
        resets && target_pauses_find(resets, (struct bytes){0}, BYTES("http://receiver"));

    target_pauses_leave(resets);
    return is_reset;
}

static bool cluster_is_defined(struct cluster_host *host)
{
    struct definitions *definitions = node_definitions(host->node);
    const struct definition *row =
        definitions_find(definitions, (struct bytes){0}, DEFINITION_TARGET, BYTES("billing"));
    const bool is_so = row && bytes_equal(row->value, BYTES("url"));

    definitions_leave(definitions);
    return is_so;
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
    cluster_hold(first, NODE_HOLD_DEFINE, BYTES("tbilling"), BYTES("url"));
    assert_true(cluster_is_defined(first));
    cluster_hold(second, NODE_HOLD_MAINTAIN, (struct bytes){0}, BYTES("disk"));
    assert_true(cluster_is_paused(second) && cluster_is_maintained(second));
    assert_true(cluster_is_defined(second));
    while (!cluster_is_maintained(first)) {
        assert_true(instant_now().ns < until.ns);
        poll(NULL, 0, 10);
    }
    cluster_halt(first);
    cluster_halt(second);
    cluster_boot(third);
    assert_true(cluster_is_paused(third) && cluster_is_maintained(third));
    assert_true(cluster_is_defined(third));
    cluster_hold(third, NODE_HOLD_UNDEFINE, BYTES("tbilling"), (struct bytes){0});
    assert_false(cluster_is_defined(third));
    cluster_hold(third, NODE_HOLD_RESUME, BYTES("http://receiver"), (struct bytes){0});
    cluster_hold(third, NODE_HOLD_END, (struct bytes){0}, (struct bytes){0});
    assert_false(cluster_is_paused(third) || cluster_is_maintained(third));
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
    assert_int_equal(atomic_load(&second->node->counts.pending_others), 0);
    assert_int_equal(cluster_create_until_refused(fixture, second, "", 0, 15), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_holds_of_all_hosts),
        TEST(test_a_reset_of_all_hosts),
        TEST(test_limits_of_all_hosts),
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
