/* Goal: every tenant is counted, none for another, and the unnamed one not at all. Method: random
 * changes of a few hundred tenants beside an array of counts. */
#include "timer/tenant_counts.h"
#include "timer/timer_testing.h"

enum { TENANTS = 300 };

static struct bytes name_of(char text[16], size_t index)
{
    return (struct bytes){text, (size_t)snprintf(text, 16, "t%zu", index)};
}

/* proves: tenant-pending, tenant-name */
static void test_counts(void **state)
{
    struct random random = random_seeded(testing_seed());
    bool has_changed[TENANTS] = {false};

    (void)state;
    struct tenant_counts tenant_counts;
    tenant_counts_init(&tenant_counts);
    uint64_t counts[TENANTS] = {0};
    const struct tenant_counts_tenant *tenant;
    for (size_t step = 0; step < 20000; step++) {
        size_t i = random_below(&random, TENANTS);
        int64_t change = (int64_t)random_below(&random, 3) - (counts[i] > 0);

        char text[16];
        assert_true(tenant_counts_add(&tenant_counts, name_of(text, i), change));
        counts[i] += (uint64_t)change;
        has_changed[i] |= change != 0;
        assert_int_equal(tenant_counts_count(&tenant_counts, name_of(text, i)), counts[i]);
        while (step % 1000 == 0 && (tenant = tenant_counts_take_changed(&tenant_counts))) {
            i = strtoul(tenant->name + 1, NULL, 10);
            assert_true(has_changed[i] && tenant->count == counts[i]);
            has_changed[i] = false;
        }
    }
    while ((tenant = tenant_counts_take_changed(&tenant_counts)))
        has_changed[strtoul(tenant->name + 1, NULL, 10)] = false;
    for (size_t i = 0; i < TENANTS; i++)
        assert_false(has_changed[i]);
    size_t cursor = 0, seen = 0;
    while ((tenant = tenant_counts_next(&tenant_counts, &cursor)))
        seen += tenant->count == counts[strtoul(tenant->name + 1, NULL, 10)];
    assert_int_equal(seen, TENANTS);
    tenant_counts_clear(&tenant_counts);
    assert_int_equal(tenant_counts_count(&tenant_counts, BYTES("t1")), 0);
    tenant_counts_deinit(&tenant_counts);
}

/* What one thread of test_limit_is_exact does, and how often it was let in and refused. */
struct admitting {
    struct tenant_counts *tenant_counts;
    uint64_t admitted, refused;
};

enum { ADMITTED_MAX = 5, ADMITTING_THREADS = 4, ADMITTING_ROUNDS = 20000 };

static void *admit_and_dismiss(void *argument)
{
    struct admitting *admitting = argument;

    for (size_t i = 0; i < ADMITTING_ROUNDS; i++) {
        const struct bytes name = i % 2 ? BYTES("shop") : BYTES("rival");

        if (tenant_counts_admit(admitting->tenant_counts, name, ADMITTED_MAX)) {
            admitting->refused++;
            continue;
        }
        admitting->admitted++;
        if (i % 3) /* a timer that lives on is dismissed by a later round */
            tenant_counts_dismiss(admitting->tenant_counts, name, 1);
    }
    return NULL;
}

/* Goal: with several threads a limit is neither exceeded nor missed. Method: each thread lets
 * timers in and out; what is left in at the end is at the limit exactly, and no count is lost. */
static void test_limit_is_exact(void **state)
{
    (void)state;
    struct tenant_counts tenant_counts;
    tenant_counts_init(&tenant_counts);
    struct admitting admitting[ADMITTING_THREADS];
    pthread_t threads[ADMITTING_THREADS];
    for (size_t i = 0; i < ADMITTING_THREADS; i++) {
        admitting[i] = (struct admitting){.tenant_counts = &tenant_counts};
        assert_int_equal(pthread_create(&threads[i], NULL, admit_and_dismiss, &admitting[i]), 0);
    }
    for (size_t i = 0; i < ADMITTING_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(admitting[i].admitted + admitting[i].refused, ADMITTING_ROUNDS);
        assert_true(admitting[i].refused > 0);
    }
    assert_int_equal(tenant_counts_count(&tenant_counts, BYTES("shop")), ADMITTED_MAX);
    assert_int_equal(tenant_counts_count(&tenant_counts, BYTES("rival")), ADMITTED_MAX);
    tenant_counts_deinit(&tenant_counts);
}

/* What the engine makes itself is admitted by the limit that is known; the unnamed tenant has
 * none. */
static void test_a_limit_is_known_from_before(void **state)
{
    struct tenant_counts tenant_counts;

    (void)state;
    tenant_counts_init(&tenant_counts);
    assert_int_equal(tenant_counts_admit_known(&tenant_counts, BYTES("a")), ERROR_NONE);
    assert_false(tenant_counts_is_full(&tenant_counts, BYTES("a")));
    assert_int_equal(tenant_counts_admit(&tenant_counts, BYTES("a"), 3), ERROR_NONE);
    assert_int_equal(tenant_counts_admit_known(&tenant_counts, BYTES("a")), ERROR_NONE);
    assert_true(tenant_counts_is_full(&tenant_counts, BYTES("a")));
    assert_int_equal(tenant_counts_admit_known(&tenant_counts, BYTES("a")), ERROR_TOO_MANY);
    assert_int_equal(tenant_counts_count(&tenant_counts, BYTES("a")), 3);
    assert_true(tenant_counts_limit(&tenant_counts, BYTES("a"), 0));
    assert_int_equal(tenant_counts_admit_known(&tenant_counts, BYTES("a")), ERROR_NONE);
    assert_true(tenant_counts_limit(&tenant_counts, BYTES("b"), 1));
    assert_false(tenant_counts_is_full(&tenant_counts, BYTES("b")));
    assert_int_equal(tenant_counts_admit_known(&tenant_counts, BYTES("b")), ERROR_NONE);
    assert_int_equal(tenant_counts_admit_known(&tenant_counts, BYTES("b")), ERROR_TOO_MANY);
    assert_true(tenant_counts_limit(&tenant_counts, BYTES(""), 1));
    assert_int_equal(tenant_counts_admit_known(&tenant_counts, BYTES("")), ERROR_NONE);
    assert_false(tenant_counts_is_full(&tenant_counts, BYTES("")));
    tenant_counts_deinit(&tenant_counts);
}

static void test_the_unnamed(void **state)
{
    (void)state;
    struct tenant_counts tenant_counts;
    tenant_counts_init(&tenant_counts);
    assert_true(tenant_counts_add(&tenant_counts, (struct bytes){0}, 5));
    assert_int_equal(tenant_counts_count(&tenant_counts, (struct bytes){0}), 0);
    assert_null(tenant_counts_take_changed(&tenant_counts));
    size_t cursor = 0;
    assert_null(tenant_counts_next(&tenant_counts, &cursor));
    tenant_counts_deinit(&tenant_counts);
}

/* ---- several nodes ---- */

enum { SHARING_NODES = 3 };

/* Nodes that tell each other their counts. */
struct sharing {
    struct tenant_counts counts[SHARING_NODES];
    uint64_t limits[TENANTS];
    uint64_t pending[SHARING_NODES][TENANTS];
    size_t tenant_count;
};

static struct sharing *sharing_create(struct random *random, size_t tenant_count)
{
    struct sharing *sharing = calloc(1, sizeof(*sharing));

    assert_non_null(sharing);
    sharing->tenant_count = tenant_count;
    for (size_t n = 0; n < SHARING_NODES; n++)
        tenant_counts_init(&sharing->counts[n]);
    for (size_t i = 0; i < tenant_count; i++)
        sharing->limits[i] = 1 + random_below(random, 40);
    return sharing;
}

static void sharing_destroy(struct sharing *sharing)
{
    for (size_t n = 0; n < SHARING_NODES; n++)
        tenant_counts_deinit(&sharing->counts[n]);
    free(sharing);
}

/* All hear what all have told. */
static void sharing_exchange(struct sharing *sharing)
{
    const struct tenant_counts_tenant *told[SHARING_NODES][TENANT_COUNTS_TOLD_MAX];
    size_t told_count[SHARING_NODES];

    for (size_t n = 0; n < SHARING_NODES; n++) {
        told_count[n] = tenant_counts_tell(&sharing->counts[n], told[n]);
        for (size_t i = 1; i < told_count[n]; i++)
            assert_true(strcmp(told[n][i - 1]->name, told[n][i]->name) < 0);
    }
    for (size_t n = 0; n < SHARING_NODES; n++) {
        uint32_t full = 0;

        for (size_t other = 0; other < SHARING_NODES; other++) {
            const bool is_full = told_count[other] == TENANT_COUNTS_TOLD_MAX;

            full += other != n && is_full;
            for (size_t i = 0; other != n && i < told_count[other]; i++)
                assert_true(tenant_counts_hear(
                    &sharing->counts[n],
                    (struct bytes){told[other][i]->name, told[other][i]->name_size},
                    told[other][i]->count, is_full));
        }
        tenant_counts_heard(&sharing->counts[n], SHARING_NODES, full);
    }
}

static uint64_t sharing_sum(const struct sharing *sharing, size_t tenant)
{
    uint64_t sum = 0;

    for (size_t n = 0; n < SHARING_NODES; n++)
        sum += sharing->pending[n][tenant];
    return sum;
}

/* Whether the node admits a timer of the tenant. */
static bool sharing_admit(struct sharing *sharing, size_t n, size_t tenant)
{
    char text[16];
    const enum error_code code =
        tenant_counts_admit(&sharing->counts[n], name_of(text, tenant), sharing->limits[tenant]);

    sharing->pending[n][tenant] += code == ERROR_NONE;
    return code == ERROR_NONE;
}

/* Goal: a limit holds for the timers of all nodes, and all of it can be used at any of them, while
 * each tells all tenants. Method: random nodes admit and dismiss, beside sums. */
static void test_limits_over_nodes(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct sharing *sharing = sharing_create(&random, TENANT_COUNTS_TOLD_MAX - 1);

    (void)state;
    for (size_t step = 0; step < 3000; step++) {
        const size_t n = random_below(&random, SHARING_NODES);
        const size_t tenant = random_below(&random, sharing->tenant_count);
        char text[16];

        if (random_below(&random, 4) == 0 && sharing->pending[n][tenant]) {
            tenant_counts_dismiss(&sharing->counts[n], name_of(text, tenant), 1);
            sharing->pending[n][tenant]--;
        } else {
            const bool is_room = sharing_sum(sharing, tenant) < sharing->limits[tenant];

            assert_int_equal(sharing_admit(sharing, n, tenant), is_room);
        }
        sharing_exchange(sharing);
    }
    sharing_destroy(sharing);
}

/* Nodes admit what they can; no tenant is left without a timer. */
static void sharing_press(struct sharing *sharing, struct random *random, uint64_t factor)
{
    for (size_t round = 0; round < 8; round++) {
        for (size_t i = 0; i < SHARING_NODES * TENANTS; i++)
            if (sharing_admit(sharing, random_below(random, SHARING_NODES),
                              random_below(random, TENANTS)))
                sharing_exchange(sharing);
        for (size_t i = 0; i < TENANTS; i++)
            assert_true(sharing_sum(sharing, i) < factor * sharing->limits[i] + SHARING_NODES);
    }
    for (size_t i = 0; i < TENANTS; i++)
        assert_true(sharing_sum(sharing, i) > 0);
}

/* Goal: with many more tenants than a node can tell, each has no more than its limit, but for
 * rounding. Method: nodes are full before tenants press. */
static void test_more_tenants_than_are_told(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct sharing *sharing = sharing_create(&random, TENANTS);

    (void)state;
    for (size_t i = 0; i < TENANTS; i++) {
        sharing->limits[i] += SHARING_NODES;
        for (size_t n = 0; n < SHARING_NODES; n++)
            assert_true(sharing_admit(sharing, n, i));
    }
    sharing_exchange(sharing);
    sharing_press(sharing, &random, 1);
    sharing_destroy(sharing);
}

/* Goal: a tenant that had more than its share when it was known has less than twice its limit when
 * others have displaced it. Method: tenants press on nodes that are empty. */
static void test_tenants_are_displaced(void **state)
{
    struct random random = random_seeded(testing_seed());
    struct sharing *sharing = sharing_create(&random, TENANTS);

    (void)state;
    sharing_press(sharing, &random, 2);
    sharing_destroy(sharing);
}

/* A node that cannot name a tenant keeps to its share, although it knows the others' counts. */
static void test_share_of_a_tenant_that_is_not_told(void **state)
{
    const struct tenant_counts_tenant *told[TENANT_COUNTS_TOLD_MAX];
    struct tenant_counts counts;
    char text[16];
    size_t admitted = 0;

    (void)state;
    tenant_counts_init(&counts);
    for (size_t i = 0; i <= TENANT_COUNTS_TOLD_MAX; i++) /* nearer to their limits */
        assert_int_equal(tenant_counts_admit(&counts, name_of(text, i), 1), ERROR_NONE);
    assert_int_equal(tenant_counts_admit(&counts, BYTES("shop"), 41), ERROR_NONE);
    assert_int_equal(tenant_counts_tell(&counts, told), TENANT_COUNTS_TOLD_MAX);
    tenant_counts_heard(&counts, 2, 0);
    while (!tenant_counts_admit(&counts, BYTES("shop"), 41))
        admitted++;
    assert_int_equal(admitted + 1, 21); /* of two nodes, rounded up */
    tenant_counts_heard(&counts, 1, 0); /* alone again */
    assert_int_equal(tenant_counts_admit(&counts, BYTES("shop"), 41), ERROR_NONE);
    tenant_counts_deinit(&counts);
}

static void test_tenant_counts_names(void **state)
{
    (void)state;
    char text[TENANT_SIZE_MAX + 2];
    memset(text, 'a', sizeof(text));
    assert_true(tenant_is_valid((struct bytes){text, TENANT_SIZE_MAX}));
    assert_false(tenant_is_valid((struct bytes){text, TENANT_SIZE_MAX + 1}));
    assert_true(tenant_is_valid(BYTES("Shop-1.eu_west")));
    assert_false(tenant_is_valid((struct bytes){0}));
    for (const char *c = " /:;,=#\"\n\x7f\xc3"; *c; c++) {
        text[1] = *c;
        assert_false(tenant_is_valid((struct bytes){text, 3}));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_limit_is_exact),
        cmocka_unit_test(test_a_limit_is_known_from_before),
        cmocka_unit_test(test_the_unnamed),
        cmocka_unit_test(test_limits_over_nodes),
        cmocka_unit_test(test_more_tenants_than_are_told),
        cmocka_unit_test(test_tenants_are_displaced),
        cmocka_unit_test(test_share_of_a_tenant_that_is_not_told),
        cmocka_unit_test(test_tenant_counts_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
