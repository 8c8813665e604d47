/* Goal: queries are answered in order and with the right values, a connection that breaks is made
 * again, a refusal is told in words, and no text has a password. Method: the server that
 * POSTGRES_URI names (tests/support/postgres_servers.py starts one); without it only what needs
 * none. */
#include "log/postgres/postgres_connection.h"

#include "sys/clock.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define WAIT_MS UINT64_C(60000)

static struct postgres_connection connect_to(const char *uri)
{
    const struct postgres_setup setup = {
        .uri = uri, .name = "test", .connect_ms = 10000, .answer_ms = WAIT_MS};
    struct postgres_connection connection;
    struct error error;

    if (postgres_connection_open(&connection, &setup, &error))
        fail_msg("%s", error.text);
    return connection;
}

/* Returns a connection; skips the test if there is no server. */
static struct postgres_connection connect_here(void)
{
    if (!getenv("POSTGRES_URI"))
        skip();
    return connect_to(getenv("POSTGRES_URI"));
}

static uint64_t ask_u64(struct postgres_connection *connection, const char *sql)
{
    const struct postgres_query query = {.sql = sql};
    PGresult *result = NULL;
    struct error error;

    if (postgres_connection_ask(connection, &query, &result, &error))
        fail_msg("%s", error.text);
    const uint64_t number = postgres_result_u64(result, 0, 0);
    PQclear(result);
    return number;
}

/* Waits for the next answer of a query that was sent. */
static PGresult *await_answer(struct postgres_connection *connection)
{
    const struct instant until = instant_add_ms(instant_now(), WAIT_MS);
    PGresult *result;

    while (assert_true(postgres_connection_turn(connection)),
           !(result = postgres_connection_take(connection))) {
        struct pollfd fd = {.fd = postgres_connection_fd(connection),
                            .events = postgres_connection_events(connection)};

        assert_true(instant_now().ns < until.ns);
        poll(&fd, 1, 100);
    }
    return result;
}

static void test_bad_uris(void **state)
{
    static const char *const bad[] = {
        "",
        "localhost",
        "http://localhost/",
        "host=localhost password=s3cret",
        "postgres://a:s3cret%zz@localhost/",
        "postgres://a:s3cret@localhost/b?nonsense=1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct postgres_setup setup = {.uri = bad[i]};
        struct postgres_connection connection;
        struct error error;

        assert_int_equal(postgres_connection_open(&connection, &setup, &error), ERROR_INVALID);
        assert_null(strstr(error.text, "s3cret"));
        postgres_connection_close(&connection);
    }
}

/* Nobody listens on the port 1 of loopback. */
static void test_no_server(void **state)
{
    struct postgres_connection connection = connect_to("postgres://a:s3cret@127.0.0.1:1/b");
    const struct postgres_query query = {.sql = "SELECT 1"};
    struct error error;

    (void)state;
    connection.setup_.connect_ms = 200;
    assert_int_equal(postgres_connection_ask(&connection, &query, NULL, &error), ERROR_IO);
    assert_non_null(strstr(error.text, "127.0.0.1"));
    assert_null(strstr(error.text, "s3cret"));
    postgres_connection_close(&connection);
}

static void test_binary_values(void **state)
{
    struct postgres_connection connection = connect_here();
    struct buffer numbers, texts;
    char room[8];

    (void)state;
    buffer_init(&numbers);
    buffer_init(&texts);
    postgres_array_begin(&numbers, POSTGRES_INT8, 2);
    postgres_array_u64(&numbers, 7);
    postgres_array_u64(&numbers, UINT64_C(1) << 40);
    postgres_array_begin(&texts, POSTGRES_BYTEA, 2);
    postgres_array_bytes(&texts, BYTES("one\0two"));
    postgres_array_bytes(&texts, BYTES(""));
    const struct postgres_value values[] = {
        postgres_array_value(&numbers, POSTGRES_INT8),
        postgres_array_value(&texts, POSTGRES_BYTEA),
        postgres_u64(3, room),
        postgres_text("o'clock"),
        {POSTGRES_TEXT, {NULL, 0}},
    };
    const struct postgres_query query = {
        .sql = "SELECT n, t, $3 + 1, $4, $5 IS NULL FROM unnest($1, $2) AS u (n, t)",
        .values = values,
        .value_count = 5};
    PGresult *result = NULL;
    assert_int_equal(postgres_connection_ask(&connection, &query, &result, NULL), ERROR_NONE);
    assert_int_equal(PQntuples(result), 2);
    assert_int_equal(postgres_result_u64(result, 0, 0), 7);
    assert_int_equal(postgres_result_u64(result, 1, 0), UINT64_C(1) << 40);
    assert_true(bytes_equal(postgres_result_bytes(result, 0, 1), BYTES("one\0two")));
    assert_int_equal(postgres_result_bytes(result, 1, 1).size, 0);
    assert_int_equal(postgres_result_u64(result, 0, 2), 4);
    assert_true(bytes_equal(postgres_result_bytes(result, 0, 3), BYTES("o'clock")));
    assert_int_equal(postgres_result_u64(result, 0, 4), 1);
    PQclear(result);
    buffer_deinit(&numbers);
    buffer_deinit(&texts);
    postgres_connection_close(&connection);
}

/* Many in flight; one of them is refused, and those after it are not. */
static void test_a_pipeline(void **state)
{
    enum { COUNT = 500, REFUSED = 250 };
    struct postgres_connection connection = connect_here();

    (void)state;
    assert_int_equal(ask_u64(&connection, "SELECT 5::int8"), 5);
    for (uint64_t i = 0; i < COUNT; i++) {
        char room[8];
        const struct postgres_value value = postgres_u64(i, room);
        const struct postgres_query query = {
            .sql = "SELECT 1000 / ($1 - 250) * 0 + $1", .values = &value, .value_count = 1};

        assert_int_equal(postgres_connection_send(&connection, &query, NULL), ERROR_NONE);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        PGresult *result = await_answer(&connection);
        struct error error;

        if (i == REFUSED) {
            assert_int_equal(postgres_result_check(result, &error), ERROR_IO);
            assert_string_equal(error.text, "division by zero");
            assert_true(postgres_result_is(result, "22012"));
        } else {
            assert_int_equal(postgres_result_check(result, NULL), ERROR_NONE);
            assert_int_equal(postgres_result_u64(result, 0, 0), i);
        }
        PQclear(result);
    }
    assert_null(postgres_connection_take(&connection));
    postgres_connection_close(&connection);
}

/* Queries that are sent together, one of them by the name of a prepared statement: each sees what
 * the one before it did. A refusal fails all, and none of their answers is left for the next
 * question. */
static void test_several_together(void **state)
{
    struct postgres_connection connection = connect_here();
    char room[8];
    const struct postgres_value two = postgres_u64(2, room);
    struct postgres_query queries[] = {
        {.sql = "CREATE TEMPORARY TABLE t (n int8)"},
        {.sql = "PREPARE twice (int8) AS INSERT INTO t VALUES ($1), ($1)"},
        {.sql = "twice", .values = &two, .value_count = 1, .is_prepared = true},
        {.sql = "SELECT sum(n)::int8 FROM t"},
    };
    PGresult *results[4];
    struct error error;

    (void)state;
    assert_int_equal(postgres_connection_ask_all(&connection, queries, 4, results, &error),
                     ERROR_NONE);
    assert_int_equal(postgres_result_u64(results[3], 0, 0), 4);
    for (size_t i = 0; i < 4; i++)
        PQclear(results[i]);
    queries[1].sql = "SELECT 1 / (n - n) FROM t";
    assert_int_equal(postgres_connection_ask_all(&connection, queries + 1, 3, results, &error),
                     ERROR_IO);
    assert_string_equal(error.text, "division by zero");
    assert_null(results[2]);
    assert_int_equal(ask_u64(&connection, "SELECT sum(n)::int8 FROM t"), 8);
    postgres_connection_close(&connection);
}

/* The server ends the connection in the midst of a query: it has no answer, and the next one goes
 * to another connection. */
static void test_a_break(void **state)
{
    struct postgres_connection connection = connect_here(), other = connect_here();
    const struct postgres_query slow = {.sql = "SELECT pg_sleep(60)"};
    char sql[80];

    (void)state;
    snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d)::int::int8",
             (int)ask_u64(&connection, "SELECT pg_backend_pid()::int8"));
    assert_int_equal(connection.generation, 1);
    assert_int_equal(postgres_connection_send(&connection, &slow, NULL), ERROR_NONE);
    postgres_connection_turn(&connection);
    assert_int_equal(ask_u64(&other, sql), 1);
    const struct instant until = instant_add_ms(instant_now(), WAIT_MS);
    while (connection.generation == 1) {
        assert_true(instant_now().ns < until.ns);
        PGresult *result = postgres_connection_take(&connection);
        if (result) /* the words of the server, before it closes */
            assert_int_equal(postgres_result_check(result, NULL), ERROR_IO);
        PQclear(result);
        postgres_connection_turn(&connection);
    }
    assert_int_equal(ask_u64(&connection, "SELECT 6::int8"), 6);
    postgres_connection_close(&connection);
    postgres_connection_close(&other);
}

/* A query that takes longer than the time limit breaks the connection. */
static void test_a_silent_server(void **state)
{
    struct postgres_connection connection = connect_here();
    const struct postgres_query slow = {.sql = "SELECT pg_sleep(60)"};
    struct error error;

    (void)state;
    assert_int_equal(ask_u64(&connection, "SELECT 1::int8"), 1);
    connection.setup_.answer_ms = 100;
    assert_int_equal(postgres_connection_ask(&connection, &slow, NULL, &error), ERROR_IO);
    assert_string_equal(error.text, "the server does not answer");
    connection.setup_.answer_ms = WAIT_MS;
    assert_int_equal(ask_u64(&connection, "SELECT 2::int8"), 2);
    postgres_connection_close(&connection);
}

/* A warning is noticed once. */
static void test_a_warning(void **state)
{
    struct postgres_connection connection = connect_here();

    (void)state;
    assert_int_equal(ask_u64(&connection, "SELECT 1::int8"), 1);
    assert_false(postgres_connection_take_warning(&connection));
    const struct postgres_query query = {.sql = "DO $$ BEGIN RAISE WARNING 'canceling'; END $$"};
    assert_int_equal(postgres_connection_ask(&connection, &query, NULL, NULL), ERROR_NONE);
    assert_true(postgres_connection_take_warning(&connection));
    assert_false(postgres_connection_take_warning(&connection));
    postgres_connection_close(&connection);
}

/* The first host is nobody's: the second one answers. */
static void test_several_hosts(void **state)
{
    const char *here = getenv("POSTGRES_URI");
    char uri[400];

    (void)state;
    if (!here)
        skip();
    const char *host = strchr(here, '@') + 1;
    snprintf(uri, sizeof(uri), "%.*s127.0.0.1:1,%s", (int)(host - here), here, host);
    struct postgres_connection connection = connect_to(uri);
    assert_int_equal(ask_u64(&connection, "SELECT 1::int8"), 1);
    postgres_connection_close(&connection);
}

/* Returns the number of sessions that run the statement of test_given_up. */
static uint64_t count_sleepers(struct postgres_connection *connection)
{
    return ask_u64(connection, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
                               " AND query = 'SELECT pg_sleep(3600)'");
}

/* A statement that is given up ends at the server. */
static void test_given_up(void **state)
{
    struct postgres_connection connection = connect_here(), other = connect_here();
    const struct postgres_query query = {.sql = "SELECT pg_sleep(3600)"};
    const struct instant until = instant_add_ms(instant_now(), WAIT_MS);
    struct error error;

    (void)state;
    connection.setup_.cancels = true;
    ask_u64(&connection, "SELECT 1::bigint");
    connection.setup_.answer_ms = 300;
    assert_int_equal(postgres_connection_ask(&connection, &query, NULL, &error), ERROR_IO);
    while (count_sleepers(&other) > 0)
        assert_true(instant_now().ns < until.ns);
    postgres_connection_close(&connection);
    postgres_connection_close(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_uris),         cmocka_unit_test(test_no_server),
        cmocka_unit_test(test_binary_values),    cmocka_unit_test(test_a_pipeline),
        cmocka_unit_test(test_several_together), cmocka_unit_test(test_a_break),
        cmocka_unit_test(test_a_silent_server),  cmocka_unit_test(test_a_warning),
        cmocka_unit_test(test_several_hosts),    cmocka_unit_test(test_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
