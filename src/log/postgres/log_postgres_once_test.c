/* Goal: rows of users and frames of the log are there together or not at all, at the place after
 * what the owner knows; what one statement does or leaves behind reaches neither the others nor the
 * log. Method: two nodes on the server that POSTGRES_URI names, and SQL beside them that plays the
 * other owner and looks what is there. */
#include "log/postgres/log_postgres_once.h"

#include "log/postgres/log_postgres_client.h"
#include "log/postgres/log_postgres_testing.h"

#define LEASE_MS 20000

static const struct bytes frames[] = {{"one", 3}, {"two", 3}};

struct transaction {
    struct log_postgres_fixture *fixture;
    struct log_once *once;
    struct log_once_report reports[4];
};

/* The owner knows the claim at place 0. */
static struct transaction begin_as_owner(void **state)
{
    struct transaction own = {.fixture = fixture_of(state)};
    struct log_postgres_fixture *fixture = own.fixture;

    run_sql(fixture, "DROP TABLE IF EXISTS rows");
    run_sql(fixture, "CREATE TABLE rows (id text PRIMARY KEY, n int CHECK (n > 0))");
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_event(fixture->log, LOG_END, 0);
    assert_sends(fixture->log, 1, "claim", 0);
    assert_is_read(fixture->log, "claim", 0);
    assert_event(fixture->log, LOG_END, 1);
    assert_int_equal(log_postgres_once_open(fixture->log, &own.once, NULL), ERROR_NONE);
    return own;
}

static void end(struct transaction *own)
{
    log_once_close(own->once);
    own->once = NULL;
}

/* Puts the statements, which end with NULL, and returns whether all are taken. */
static bool stage(struct transaction *own, bool are_calls, const char *const *statements)
{
    size_t count = 0;

    assert_int_equal(log_once_begin(own->once, are_calls, NULL), ERROR_NONE);
    for (; statements[count]; count++) {
        const struct postgres_query query = {.sql = statements[count]};

        log_postgres_once_put(own->once, count, &query, are_calls);
    }
    return log_once_settle(own->once, own->reports, count);
}

#define STAGE(own, are_calls, ...) stage(own, are_calls, (const char *const[]){__VA_ARGS__, NULL})

static enum error_code commit(struct transaction *own, uint64_t from, uint64_t *ret_offset,
                              struct error *ret_error)
{
    const struct log_once_commit wanted = {frames, 2, from, from + 1, LEASE_MS};

    return log_once_commit(own->once, &wanted, ret_offset, ret_error);
}

static void assert_commits(struct transaction *own, uint64_t from)
{
    uint64_t offset = 0;
    struct error error;

    if (commit(own, from, &offset, &error))
        fail_msg("%s", error.text);
    assert_int_equal(offset, from + 1);
}

static void assert_rows(struct transaction *own, uint64_t rows, uint64_t records)
{
    char sql[100];

    assert_int_equal(sql_u64(own->fixture, "SELECT count(*) FROM rows"), rows);
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM \"%s_log\"", own->fixture->name);
    assert_int_equal(sql_u64(own->fixture, sql), records);
}

static void test_rows_and_frames(void **state)
{
    struct transaction own = begin_as_owner(state);

    assert_true(
        STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)", "INSERT INTO rows VALUES ('b', 1)"));
    assert_rows(&own, 0, 1); /* nothing before the commit */
    assert_commits(&own, 1);
    assert_rows(&own, 2, 3);
    assert_is_read(own.fixture->log, "one", 1);
    assert_is_read(own.fixture->log, "two", 2);
    assert_true(STAGE(&own, true, "INSERT INTO rows VALUES ('c', 1)"));
    assert_commits(&own, 3);
    /* the log's own appends go on behind */
    send_text(own.fixture->log, 9, "next");
    await_event(own.fixture->log, LOG_LANDED, NULL);
    assert_rows(&own, 3, 6);
    assert_int_equal(log_follow(own.fixture->other, 0, NULL), ERROR_NONE);
    assert_is_read(own.fixture->other, "claim", 0);
    assert_is_read(own.fixture->other, "one", 1);
    end(&own);
}

/* Closed before the commit: no row, and no record. */
static void test_a_transaction_is_given_up(void **state)
{
    struct transaction own = begin_as_owner(state);

    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    end(&own);
    run_sql(own.fixture, "ALTER TABLE rows ADD ended int"); /* waits for its end */
    assert_rows(&own, 0, 1);
}

static void test_another_owner(void **state)
{
    struct transaction own = begin_as_owner(state);
    uint64_t offset;
    struct error error;

    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    assert_int_equal(log_follow(own.fixture->other, 0, NULL), ERROR_NONE);
    assert_is_read(own.fixture->other, "claim", 0);
    assert_event(own.fixture->other, LOG_END, 1);
    assert_sends(own.fixture->other, 2, "claim of another", 1);
    assert_int_equal(commit(&own, 1, &offset, &error), ERROR_IO);
    assert_rows(&own, 0, 2);
    await_event(own.fixture->log, LOG_RECORD, NULL); /* which it reads now */
    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    assert_int_equal(commit(&own, 1, &offset, &error), ERROR_IO); /* not behind that claim either */
    assert_rows(&own, 0, 2);
    end(&own);
}

/* The owner knows more than the replica has said: another record of it lies before. */
static void test_a_place_that_is_not_meant(void **state)
{
    struct transaction own = begin_as_owner(state);
    uint64_t offset;
    struct error error;

    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    assert_int_equal(commit(&own, 4, &offset, &error), ERROR_IO);
    assert_rows(&own, 0, 1);
    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    assert_commits(&own, 1);
    end(&own);
}

/* Which of them is refused, for good or not, and what the others of its table and of others are. */
static void test_refusals(void **state)
{
    static const char good[] = "INSERT INTO rows VALUES ('a', 1)";
    static const struct {
        const char *bad;
        enum log_once_fate fate, of_equal;
    } cases[] = {
        {"INSERT INTO rows VALUES ('b', 0)", LOG_ONCE_NEVER, LOG_ONCE_CROWDED},
        {"INSERT INTO rows VALUES (NULL, 1)", LOG_ONCE_NEVER, LOG_ONCE_CROWDED},
        {"INSERT INTO nowhere VALUES ('b', 1)", LOG_ONCE_REFUSED, LOG_ONCE_REFUSED},
        {"INSERT INTO rows (m) VALUES (1)", LOG_ONCE_REFUSED, LOG_ONCE_REFUSED},
        {"SELECT 1 / 0", LOG_ONCE_NEVER, LOG_ONCE_CROWDED},
    };
    struct transaction own = begin_as_owner(state);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_false(STAGE(&own, false, good, cases[i].bad, cases[i].bad));
        if (own.reports[1].fate != cases[i].fate || own.reports[2].fate != cases[i].of_equal)
            fail_msg("%s: %d and %d", cases[i].bad, (int)own.reports[1].fate,
                     (int)own.reports[2].fate);
        assert_int_equal(own.reports[0].fate, LOG_ONCE_UNKNOWN);
        assert_true(*own.reports[1].reason);
        assert_false(STAGE(&own, true, cases[i].bad)); /* a function may be cured */
        assert_int_equal(own.reports[0].fate, LOG_ONCE_REFUSED);
    }
    assert_true(STAGE(&own, false, good));
    assert_commits(&own, 1);
    end(&own);
}

/* What a trigger raises is about its row, whatever it says. */
static void test_a_trigger_that_raises(void **state)
{
    static const char evil[] = "INSERT INTO rows VALUES ('b', 2)";
    struct transaction own = begin_as_owner(state);

    run_sql(own.fixture, "CREATE OR REPLACE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS"
                         " $$BEGIN RAISE undefined_table; END$$");
    run_sql(own.fixture, "CREATE TRIGGER spoil BEFORE INSERT ON rows FOR EACH ROW"
                         " WHEN (NEW.n = 2) EXECUTE FUNCTION spoil()");
    assert_false(STAGE(&own, false, evil, evil));
    assert_int_equal(own.reports[0].fate, LOG_ONCE_REFUSED);
    assert_int_equal(own.reports[1].fate, LOG_ONCE_CROWDED);
    end(&own);
}

/* The server has closed the sessions that nobody used. */
static void test_a_session_that_was_idle(void **state)
{
    struct transaction own = begin_as_owner(state);

    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    assert_commits(&own, 1);
    run_sql(own.fixture, "CREATE TEMP TABLE ended AS SELECT pid, pg_terminate_backend(pid)"
                         " FROM pg_stat_activity WHERE state = 'idle'"
                         " AND application_name = 'tickwheel'");
    while (sql_u64(own.fixture, "SELECT count(*) FROM ended JOIN pg_stat_activity USING (pid)"))
        ;
    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('b', 1)"));
    assert_commits(&own, 3);
    assert_rows(&own, 2, 5);
    end(&own);
}

/* A table is locked by another session, which the second transaction does not have to wait for. */
static void test_a_locked_table(void **state)
{
    struct transaction own = begin_as_owner(state);

    run_sql(own.fixture, "BEGIN");
    run_sql(own.fixture, "LOCK TABLE rows");
    assert_false(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    assert_int_equal(own.reports[0].fate, LOG_ONCE_LATER);
    assert_non_null(strstr(own.reports[0].reason, "lock timeout"));
    run_sql(own.fixture, "ROLLBACK");
    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    assert_commits(&own, 1);
    end(&own);
}

/* What statements leave behind ends before the frames, and is told as theirs. */
static void test_what_is_left_behind(void **state)
{
    static const struct {
        const char *sql, *words;
    } cases[] = {
        {"SET search_path = nowhere", NULL},
        {"SET LOCAL search_path = nowhere", NULL},
        {"SELECT set_config('synchronous_commit', 'off', false)", NULL},
        {"SET LOCAL synchronous_commit = off", NULL},
        {"SET LOCAL lock_timeout = 1", NULL},
        {"SET CONSTRAINTS ALL DEFERRED", NULL},
        {"DECLARE c CURSOR WITH HOLD FOR SELECT 1 / (relnatts - relnatts) FROM pg_class", NULL},
        {"SET TRANSACTION READ ONLY", "read only"},
        {"INSERT INTO child VALUES ('nobody')", "foreign key"},
    };
    struct transaction own = begin_as_owner(state);
    uint64_t place = 1;

    run_sql(own.fixture, "DROP TABLE IF EXISTS child");
    run_sql(own.fixture,
            "CREATE TABLE child (id text REFERENCES rows DEFERRABLE INITIALLY DEFERRED)");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bool is_taken = STAGE(&own, true, cases[i].sql);
        if (is_taken != !cases[i].words)
            fail_msg("%s: %s", cases[i].sql, own.reports[0].reason);
        if (!is_taken) {
            assert_int_equal(own.reports[0].fate, LOG_ONCE_REFUSED);
            assert_non_null(strstr(own.reports[0].reason, cases[i].words));
            continue;
        }
        const struct postgres_query query = {.sql = "SHOW synchronous_commit"};
        struct postgres_connection *session =
            &own.fixture->client->sessions[LOG_POSTGRES_APART].connection;
        PGresult *result = NULL;
        assert_int_equal(postgres_connection_ask(session, &query, &result, NULL), ERROR_NONE);
        assert_string_equal(PQgetvalue(result, 0, 0), "on");
        PQclear(result);
        assert_commits(&own, place);
        place += 2;
    }
    run_sql(own.fixture, "DROP TABLE child");
    end(&own);
}

/* The session ends, by an administrator or with its server: no row, no record, and the next
 * transaction has another. */
static void test_a_session_that_ends(void **state)
{
    static const char own_end[] = "SELECT pg_terminate_backend(pg_backend_pid())";
    struct transaction own = begin_as_owner(state);
    uint64_t offset;
    struct error error;

    assert_false(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)", own_end));
    /* the answer to the first may be lost with the session */
    assert_int_equal(own.reports[0].fate + own.reports[1].fate,
                     LOG_ONCE_UNKNOWN + LOG_ONCE_CROWDED);
    assert_false(STAGE(&own, false, own_end)); /* it does so alone, too */
    assert_int_equal(own.reports[0].fate, LOG_ONCE_REFUSED);
    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    run_sql(own.fixture, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                         " WHERE state = 'idle in transaction'");
    assert_int_equal(commit(&own, 1, &offset, &error), ERROR_IO);
    assert_rows(&own, 0, 1);
    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    assert_commits(&own, 1);
    assert_rows(&own, 1, 3);
    end(&own);
}

/* A node that stands still in a transaction: the next owner's row waits for a few seconds, and not
 * for the node. */
static void test_a_node_that_is_silent(void **state)
{
    struct transaction own = begin_as_owner(state);
    uint64_t offset;
    struct error error;

    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    run_sql(own.fixture, "INSERT INTO rows VALUES ('a', 2)");
    assert_int_equal(commit(&own, 1, &offset, &error), ERROR_IO);
    assert_rows(&own, 1, 1);
    end(&own);
}

/* Each transaction has a session of its own; one apart does not take those of the others. */
static void test_sessions_are_shared(void **state)
{
    struct transaction own = begin_as_owner(state);
    struct transaction second = own, third = own;

    assert_int_equal(log_postgres_once_open(own.fixture->log, &second.once, NULL), ERROR_NONE);
    assert_int_equal(log_postgres_once_open(own.fixture->log, &third.once, NULL), ERROR_NONE);
    assert_true(STAGE(&own, false, "INSERT INTO rows VALUES ('a', 1)"));
    assert_true(STAGE(&second, false, "INSERT INTO rows VALUES ('b', 1)"));
    assert_true(STAGE(&third, true, "INSERT INTO rows VALUES ('c', 1)"));
    end(&second);
    assert_int_equal(log_postgres_once_open(own.fixture->log, &second.once, NULL), ERROR_NONE);
    assert_false(STAGE(&second, true, "SELECT 1")); /* that session is in use */
    assert_int_equal(second.reports[0].fate, LOG_ONCE_UNKNOWN);
    assert_non_null(strstr(second.reports[0].reason, "take too long"));
    assert_true(STAGE(&second, false, "INSERT INTO rows VALUES ('b', 1)"));
    end(&third);
    end(&second);
    assert_commits(&own, 1);
    assert_rows(&own, 1, 3);
    end(&own);
}

int main(void)
{
#define ONCE_TEST(test) \
    cmocka_unit_test_setup_teardown(test, log_postgres_set_up, log_postgres_tear_down)
    const struct CMUnitTest tests[] = {
        ONCE_TEST(test_rows_and_frames),
        ONCE_TEST(test_a_transaction_is_given_up),
        ONCE_TEST(test_another_owner),
        ONCE_TEST(test_a_place_that_is_not_meant),
        ONCE_TEST(test_refusals),
        ONCE_TEST(test_a_trigger_that_raises),
        ONCE_TEST(test_a_session_that_was_idle),
        ONCE_TEST(test_a_locked_table),
        ONCE_TEST(test_what_is_left_behind),
        ONCE_TEST(test_a_session_that_ends),
        ONCE_TEST(test_a_node_that_is_silent),
        ONCE_TEST(test_sessions_are_shared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
