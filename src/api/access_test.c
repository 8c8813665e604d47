/*
 * Goal: who calls is who the token says, the rate is kept to the request, and each route says what
 * it needs. Method: the module by hand, with times of our own; the table of routes.
 */
#include "api/core/access.h"

#include "api/api.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NS_PER_S UINT64_C(1000000000)

/* Made of the texts "r", "s" and "a". */
#define LINES                                                                                   \
    "token shop read sha256:454349e422f05297191ead13e21d3db520e5abef52055e4964b82fb213f593a1\n" \
    "token shop schedule "                                                                      \
    "sha256:043a718774c572bd8a25adbeb1bfcd5c0256ae11cecf9f9c3f925d0e52beaf89\n"                 \
    "token ops admin sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\n"

static struct tokens *tokens_of(const char *limits)
{
    struct buffer text;

    buffer_init(&text);
    buffer_append_text(&text, LINES);
    buffer_append_text(&text, limits);
    struct tokens *tokens = NULL;
    struct error error;
    if (tokens_parse(buffer_bytes(&text), "tokens", &tokens, &error))
        fail_msg("%s", error.text);
    buffer_deinit(&text);
    return tokens;
}

static enum error_code access_test_check(struct access *access, const char *token,
                                         enum access_need need, uint64_t now_ns,
                                         struct caller *ret_caller, uint64_t *ret_wait_ns)
{
    char header[100];

    snprintf(header, sizeof(header), "Bearer %s", token);
    return access_check(access, bytes_of(header), need, (struct instant){now_ns}, ret_caller,
                        ret_wait_ns);
}

/* proves: unauthenticated */
static void test_without_tokens(void **state)
{
    struct access *access = access_create(NULL);
    struct caller caller = {.tenant_size = 1};

    (void)state;
    uint64_t wait_ns;
    assert_int_equal(access_check(access, (struct bytes){0}, ACCESS_SCHEDULE, (struct instant){1},
                                  &caller, &wait_ns),
                     ERROR_NONE);
    assert_int_equal(caller.tenant_size, 0);
    assert_int_equal(access_test_check(access, "whatever", ACCESS_ADMIN, 1, &caller, &wait_ns),
                     ERROR_NONE);
    assert_int_equal(access_spend(access, &caller, (struct instant){1}), ERROR_NONE);
    access_destroy(access);
}

/* proves: forbidden */
static void test_scopes(void **state)
{
    static const enum access_need needs[] = {ACCESS_READ, ACCESS_SCHEDULE, ACCESS_ADMIN};
    static const char *const tokens[] = {"r", "s", "a"};
    struct access *access = access_create(tokens_of("limit shop body_bytes_max=7\n"));

    (void)state;
    struct caller caller;
    uint64_t wait_ns;
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++) {
            enum error_code error =
                access_test_check(access, tokens[i], needs[j], 1, &caller, &wait_ns);

            assert_int_equal(error, i == j ? ERROR_NONE : ERROR_FORBIDDEN);
            if (error)
                continue;
            assert_true(bytes_equal(caller_tenant(&caller), i < 2 ? BYTES("shop") : BYTES("ops")));
            assert_int_equal(caller.limits.body_bytes_max, i < 2 ? 7 : 0);
        }
    assert_int_equal(access_test_check(access, "x", ACCESS_READ, 1, &caller, &wait_ns),
                     ERROR_UNAUTHENTICATED);
    assert_int_equal(
        access_check(access, BYTES("Bearer"), ACCESS_READ, (struct instant){1}, &caller, &wait_ns),
        ERROR_UNAUTHENTICATED);
    assert_int_equal(access_test_check(access, "x", ACCESS_OPEN, 1, &caller, &wait_ns), ERROR_NONE);
    assert_int_equal(caller.tenant_size, 0); /* who needs nothing gets nothing */
    access_destroy(access);
}

/* Two a second, four at once: exactly these, at any time, and the wait that is told is enough. */
/* proves: tenant-rate */
static void test_rate(void **state)
{
    struct access *access = access_create(tokens_of("limit shop rate=2 burst=4\n"));
    uint64_t now_ns = 1000 * NS_PER_S;

    (void)state;
    uint64_t wait_ns = 0;
    struct caller caller;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            assert_int_equal(access_test_check(access, i % 2 ? "r" : "s",
                                               i % 2 ? ACCESS_READ : ACCESS_SCHEDULE, now_ns,
                                               &caller, &wait_ns),
                             ERROR_NONE);
        assert_int_equal(access_test_check(access, "r", ACCESS_READ, now_ns, &caller, &wait_ns),
                         ERROR_RATE_EXCEEDED);
        assert_int_equal(wait_ns, NS_PER_S / 2);
        assert_int_equal(access_spend(access, &caller, (struct instant){now_ns}),
                         ERROR_RATE_EXCEEDED);
        assert_int_equal(
            access_test_check(access, "r", ACCESS_READ, now_ns + wait_ns - 1, &caller, &wait_ns),
            ERROR_RATE_EXCEEDED);
        assert_int_equal(wait_ns, 1);
        now_ns += NS_PER_S / 2;
        assert_int_equal(access_spend(access, &caller, (struct instant){now_ns}), ERROR_NONE);
        assert_int_equal(access_test_check(access, "r", ACCESS_READ, now_ns, &caller, &wait_ns),
                         ERROR_RATE_EXCEEDED);
        /* What is refused for another reason costs nothing, nor does another tenant. */
        assert_int_equal(access_test_check(access, "a", ACCESS_ADMIN, now_ns, &caller, &wait_ns),
                         ERROR_NONE);
        access_test_check(access, "r", ACCESS_READ, now_ns + 2 * NS_PER_S, &caller, &wait_ns);
        for (int i = 0; i < 10; i++)
            assert_int_equal(
                access_test_check(access, "r", ACCESS_ADMIN, now_ns, &caller, &wait_ns),
                ERROR_FORBIDDEN);
        now_ns += 1000 * NS_PER_S; /* a long pause does not save up more */
    }
    access_destroy(access);
}

/* proves: token-reload */
static void test_replaced(void **state)
{
    struct access *access = access_create(tokens_of("limit shop rate=1\n"));

    (void)state;
    struct caller caller;
    uint64_t wait_ns;
    assert_int_equal(access_test_check(access, "r", ACCESS_READ, NS_PER_S, &caller, &wait_ns),
                     ERROR_NONE);
    struct caller before = caller;
    assert_int_equal(access_recheck(access, &before), ERROR_NONE);
    assert_int_equal(access_replace(access, tokens_of("limit ops rate=9\nlimit shop rate=1\n")),
                     ERROR_NONE);
    assert_int_equal(access_test_check(access, "r", ACCESS_READ, NS_PER_S, &caller, &wait_ns),
                     ERROR_RATE_EXCEEDED);
    struct tokens *tokens = NULL;
    assert_int_equal(tokens_parse(BYTES("token new read sha256:454349e422f05297191ead13e21d3db520e5"
                                        "abef52055e4964b82fb213f593a1\n"),
                                  "tokens", &tokens, NULL),
                     ERROR_NONE);
    assert_int_equal(access_recheck(access, &before), ERROR_NONE); /* the token is still there */
    assert_int_equal(before.limits.rate, 1);
    assert_int_equal(access_replace(access, tokens), ERROR_NONE);
    assert_int_equal(access_recheck(access, &before), ERROR_UNAUTHENTICATED); /* another tenant's */
    assert_int_equal(access_test_check(access, "s", ACCESS_SCHEDULE, NS_PER_S, &caller, &wait_ns),
                     ERROR_UNAUTHENTICATED);
    caller = (struct caller){.limits = {.rate = 1}, .tenant_size = 4, .tenant = "shop"};
    assert_int_equal(access_spend(access, &caller, (struct instant){NS_PER_S}), ERROR_NONE);
    assert_int_equal(access_test_check(access, "r", ACCESS_READ, NS_PER_S, &caller, &wait_ns),
                     ERROR_NONE);
    assert_true(bytes_equal(caller_tenant(&caller), BYTES("new")));
    access_destroy(access);
}

/* ---- replaced while it is used ---- */

struct access_race {
    struct access *access;
    atomic_bool is_over;
    atomic_size_t checked;
};

static void *check_on_and_on(void *argument)
{
    struct access_race *race = argument;

    while (!atomic_load(&race->is_over)) {
        uint64_t now_ns = 1 + 10000 * atomic_fetch_add(&race->checked, 1); /* time for ten */

        struct caller caller;
        uint64_t wait_ns;
        enum error_code error =
            access_test_check(race->access, "r", ACCESS_READ, now_ns, &caller, &wait_ns);

        if (error == ERROR_RATE_EXCEEDED)
            continue; /* this thread was held up, and asks with a time long past */
        assert_int_equal(error, ERROR_NONE);
        assert_true(bytes_equal(caller_tenant(&caller), BYTES("shop")));
        access_spend(race->access, &caller, (struct instant){now_ns});
    }
    return NULL;
}

static void test_replaced_while_used(void **state)
{
    struct access_race race = {.access = access_create(tokens_of("limit shop rate=1000000\n"))};

    (void)state;
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, check_on_and_on, &race), 0);
    for (int i = 0; i < 200 || atomic_load(&race.checked) < 1000; i++)
        assert_int_equal(access_replace(race.access, tokens_of(i % 2 ? "limit shop rate=1000000\n"
                                                                     : "limit ops rate=7\n")),
                         ERROR_NONE);
    atomic_store(&race.is_over, true);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    access_destroy(race.access);
}

/* proves: unauthenticated, forbidden */
static void test_routes(void **state)
{
    (void)state;
    for (size_t i = 0; i < routes_count; i++) {
        if (routes[i].need == ACCESS_UNSAID)
            fail_msg("%s %s does not say what it needs", routes[i].method, routes[i].path);
        if (routes[i].need == ACCESS_OPEN)
            assert_int_not_equal(strncmp(routes[i].path, "/v1/", 4), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_tokens), cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_rate),           cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_routes),         cmocka_unit_test(test_replaced_while_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
