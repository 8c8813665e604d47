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
            tenant_counts_dismiss(admitting->tenant_counts, name);
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
        cmocka_unit_test(test_the_unnamed),
        cmocka_unit_test(test_tenant_counts_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
