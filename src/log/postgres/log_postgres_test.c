/* Goal: what the server acknowledged is read back in one order, at the offsets that were told; an
 * append to a taken place is refused; one whose connection breaks is found again; a server that
 * lost records is noticed at once, by appends and by readers. Method: two clients, as of two nodes,
 * on the server that POSTGRES_URI names, and SQL beside them that plays the other node and the
 * fail-over. */
#include "log/postgres/log_postgres_testing.h"

/* Two nodes read one order. The own record is read as well as landed. */
static void test_nodes_read_one_order(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);
    struct log *one = fixture->log, *two = fixture->other;

    assert_int_equal(log_follow(one, 0, NULL), ERROR_NONE);
    assert_int_equal(log_follow(two, 0, NULL), ERROR_NONE);
    assert_event(one, LOG_END, 0);
    assert_event(two, LOG_END, 0);
    assert_sends(one, 7, "claim of one", 0);
    assert_is_read(one, "claim of one", 0);
    assert_event(one, LOG_END, 1);
    assert_is_read(two, "claim of one", 0);
    assert_event(two, LOG_END, 1);
    assert_sends(two, 8, "claim of two", 1);
    assert_is_read(two, "claim of two", 1);
    assert_is_read(one, "claim of two", 1);
    assert_event(one, LOG_END, 2);
    assert_int_equal(log_follow(one, 1, NULL), ERROR_NONE); /* again, with the one before */
    assert_is_read(one, "claim of one", 0);
    assert_is_read(one, "claim of two", 1);
    assert_event(one, LOG_END, 2);
    assert_int_equal(log_follow_begin(one, NULL), ERROR_NONE);
    assert_is_read(one, "claim of one", 0);
    assert_is_read(one, "claim of two", 1);
    assert_event(one, LOG_END, 2);
    assert_int_equal(log_follow_end(one, 1, NULL), ERROR_NONE);
    assert_is_read(one, "claim of two", 1);
    assert_event(one, LOG_END, 2);
    assert_int_equal(log_follow_end(one, 0, NULL), ERROR_NONE);
    assert_event(one, LOG_END, 2);
    assert_int_equal(log_follow_end(one, 9, NULL), ERROR_NONE);
    assert_is_read(one, "claim of one", 0);
}

/* A former owner that has not read the claim of its successor: its append is not in the log. */
static void test_a_taken_place(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);
    struct log *zombie = fixture->log, *owner = fixture->other;

    assert_int_equal(log_follow(zombie, 0, NULL), ERROR_NONE);
    assert_event(zombie, LOG_END, 0);
    assert_int_equal(log_follow(owner, 0, NULL), ERROR_NONE);
    assert_event(owner, LOG_END, 0);
    assert_sends(owner, 1, "claim", 0);
    assert_is_read(owner, "claim", 0);
    assert_event(owner, LOG_END, 1);
    send_text(zombie, 2, "late"); /* the claim may be read before the answer, and was not before */
    await_event(zombie, LOG_REFUSED, "another record");
    assert_sends(owner, 3, "next", 1);
    assert_int_equal(log_follow(zombie, 0, NULL), ERROR_NONE);
    assert_is_read(zombie, "claim", 0);
    assert_is_read(zombie, "next", 1);
    assert_event(zombie, LOG_END, 2);
}

/* Appends of the control log go to its end, wherever that is. */
static void test_the_control_log(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);
    struct log *one = open_log(fixture->client, LOG_POSTGRES_CONTROL);
    struct log *two = open_log(fixture->other_client, LOG_POSTGRES_CONTROL);

    assert_sends(one, 1, "a", 0);
    assert_sends(two, 2, "b", 1);
    assert_sends(one, 3, "c", 2);
    assert_int_equal(log_follow_begin(two, NULL), ERROR_NONE);
    assert_is_read(two, "a", 0);
    assert_is_read(two, "b", 1);
    assert_is_read(two, "c", 2);
    log_close(one);
    log_close(two);
}

static void test_a_record_of_a_megabyte(void **state)
{
    enum { LARGE = 990000 };
    struct log_postgres_fixture *fixture = fixture_of(state);
    char *text = malloc(LARGE + 1);

    assert_non_null(text);
    for (uint32_t i = 0, random = 1; i < LARGE; i++, random = random * 1664525 + 1013904223)
        text[i] = (char)('0' + (random >> 24) % 64);
    text[LARGE] = '\0';
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_event(fixture->log, LOG_END, 0);
    assert_sends(fixture->log, 1, text, 0);
    assert_int_equal(log_follow(fixture->other, 0, NULL), ERROR_NONE);
    assert_is_read(fixture->other, text, 0);
    free(text);
}

/* Another transaction has the place for a while: the append waits for its end. */
static void begin_at_the_place(struct log_postgres_fixture *fixture, const char *text)
{
    run_sql(fixture, "BEGIN");
    run_sql(fixture, "INSERT INTO \"%s_log\" VALUES (1, 0, %lld, 1, '%s')", fixture->name,
            (long long)bytes_hash(0, bytes_of(text)), text);
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_event(fixture->log, LOG_END, 0);
    send_text(fixture->log, 5, "mine");
    struct log_event event;
    /* until the append waits */
    while (sql_u64(fixture, "SELECT count(*) FROM pg_locks WHERE NOT granted") == 0)
        assert_int_equal(log_wait(fixture->log, 1, &event), LOG_NOTHING);
}

static void test_the_place_is_given_back(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);

    begin_at_the_place(fixture, "another");
    run_sql(fixture, "ROLLBACK");
    assert_event(fixture->log, LOG_LANDED, 0);
    assert_is_read(fixture->log, "mine", 0);
}

/* The connection of the append breaks, and with it the knowledge of what became of it. */
static void break_connections(struct log_postgres_fixture *fixture)
{
    run_sql(fixture, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                     " application_name = 'tickwheel' AND pid <> pg_backend_pid()");
}

static void test_a_broken_connection(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);

    begin_at_the_place(fixture, "another");
    break_connections(fixture);
    run_sql(fixture, "ROLLBACK");
    assert_event(fixture->log, LOG_LANDED, 0);
    assert_is_read(fixture->log, "mine", 0);
}

/* The record was committed before the connection broke: it has landed, once. */
static void test_a_commit_without_an_answer(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);

    begin_at_the_place(fixture, "mine");
    break_connections(fixture);
    run_sql(fixture, "COMMIT");
    await_event(fixture->log, LOG_LANDED, NULL);
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_is_read(fixture->log, "mine", 0);
    assert_event(fixture->log, LOG_END, 1);
    assert_sends(fixture->log, 6, "next", 1);
}

static void test_a_place_lost_meanwhile(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);

    begin_at_the_place(fixture, "another");
    break_connections(fixture);
    run_sql(fixture, "COMMIT");
    await_event(fixture->log, LOG_REFUSED, "another record");
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_is_read(fixture->log, "another", 0);
}

/* The server has committed, and warns that it does not know of the standby. The append lands when
 * a later commit is known to be replicated. */
static void test_a_commit_with_a_warning(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);

    run_sql(fixture,
            "CREATE FUNCTION \"warn-%s\"() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN RAISE WARNING ''canceling wait''; RETURN NEW; END'",
            fixture->name);
    run_sql(fixture,
            "CREATE TRIGGER warn BEFORE INSERT ON \"%s_log\" FOR EACH ROW"
            " EXECUTE FUNCTION \"warn-%s\"()",
            fixture->name, fixture->name);
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_event(fixture->log, LOG_END, 0);
    assert_sends(fixture->log, 1, "mine", 0);
}

/* An append without an answer in time is in doubt. It lands later, and takes the place. */
static void test_an_append_without_an_answer(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);
    struct log_postgres_client *client = open_client(fixture, 300);
    struct log *log = open_log(client, 2);
    struct log_event event;

    assert_int_equal(log_follow(log, 0, NULL), ERROR_NONE);
    assert_event(log, LOG_END, 0);
    run_sql(fixture, "BEGIN");
    run_sql(fixture, "LOCK TABLE \"%s_log\" IN SHARE ROW EXCLUSIVE MODE", fixture->name);
    send_text(log, 1, "late");
    assert_int_equal(log_append(log, 2, BYTES("too soon"), NULL), ERROR_OVERLOADED);
    event = next_event(log);
    assert_int_equal(event.kind, LOG_FAILED);
    assert_int_equal(event.ticket, 1);
    run_sql(fixture, "COMMIT");
    assert_is_read(log, "late", 0);
    assert_event(log, LOG_END, 1);
    assert_sends(log, 3, "next", 1);
    log_close(log);
    log_postgres_client_close(client);
}

static void fill(struct log_postgres_fixture *fixture)
{
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_event(fixture->log, LOG_END, 0);
    for (uint64_t i = 0; i < 3; i++) {
        send_text(fixture->log, i + 1, "record");
        await_event(fixture->log, LOG_LANDED, NULL);
    }
    assert_int_equal(log_follow(fixture->other, 2, NULL), ERROR_NONE);
    assert_is_read(fixture->other, "record", 1);
    assert_is_read(fixture->other, "record", 2);
    assert_event(fixture->other, LOG_END, 3);
}

/* The tail is gone, as after a fail-over to a standby that lacked it: an append notices, and a node
 * that only reads does. */
static void test_a_lost_tail(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);

    fill(fixture);
    run_sql(fixture, "DELETE FROM \"%s_log\" WHERE place = 2", fixture->name);
    send_text(fixture->log, 9, "next");
    await_event(fixture->log, LOG_REFUSED, "lacks");
    await_event(fixture->log, LOG_LOST, "lacks record 2");
    send_text(fixture->log, 10, "nowhere"); /* at the end of such a log it would hide the loss */
    await_event(fixture->log, LOG_REFUSED, "unknown");
    await_event(fixture->other, LOG_LOST, "lacks record 2");
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_is_read(fixture->log, "record", 0);
    assert_is_read(fixture->log, "record", 1);
    assert_event(fixture->log, LOG_END, 2);
    /* a node that had read further finds the end too early */
    assert_int_equal(log_follow(fixture->other, 3, NULL), ERROR_NONE);
    await_event(fixture->other, LOG_LOST, "ends before record 3");
}

/* The tail is another one: the standby lacked it, and another node has appended since. */
static void test_another_tail(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);

    fill(fixture);
    run_sql(fixture, "UPDATE \"%s_log\" SET chain = 77, body = 'another' WHERE place = 2",
            fixture->name);
    send_text(fixture->log, 9, "next");
    await_event(fixture->log, LOG_REFUSED, "lacks");
    await_event(fixture->log, LOG_LOST, "record 2");
    await_event(fixture->other, LOG_LOST, "record 2 of the server is another one");
}

/* A record that does not follow from those before is told, and not returned. */
static void test_a_spoiled_row(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);

    fill(fixture);
    run_sql(fixture, "UPDATE \"%s_log\" SET body = 'spoiled' WHERE place = 1", fixture->name);
    assert_int_equal(log_follow(fixture->other, 0, NULL), ERROR_NONE);
    assert_is_read(fixture->other, "record", 0);
    await_event(fixture->other, LOG_LOST, "record 1 does not follow");
    run_sql(fixture, "DELETE FROM \"%s_log\" WHERE place = 1", fixture->name);
    assert_int_equal(log_follow(fixture->other, 0, NULL), ERROR_NONE);
    assert_is_read(fixture->other, "record", 0);
    await_event(fixture->other, LOG_LOST, "record 1 is missing");
}

/* A place behind the end is one of another log, or of one that lost records. */
static void test_a_follow_beyond_the_end(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);

    fill(fixture);
    assert_int_equal(log_follow(fixture->log, 9, NULL), ERROR_NONE);
    await_event(fixture->log, LOG_LOST, "ends before record 9");
    assert_int_equal(log_follow(fixture->log, 3, NULL), ERROR_NONE);
    assert_is_read(fixture->log, "record", 2);
    assert_event(fixture->log, LOG_END, 3);
    assert_sends(fixture->log, 20, "next", 3);
}

/* The last record stays, whatever is trimmed. */
static void test_log_trims(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);

    fill(fixture);
    assert_int_equal(log_trim(fixture->log, 2, NULL), ERROR_NONE);
    assert_int_equal(log_trim(fixture->log, 2, NULL), ERROR_OVERLOADED);
    await_event(fixture->log, LOG_TRIMMED, NULL);
    assert_int_equal(log_follow(fixture->other, 0, NULL), ERROR_NONE);
    await_event(fixture->other, LOG_LOST, "record 0 is missing");
    assert_int_equal(log_follow_begin(fixture->other, NULL), ERROR_NONE);
    assert_is_read(fixture->other, "record", 2);
    assert_event(fixture->other, LOG_END, 3);
    assert_int_equal(log_trim(fixture->log, 3, NULL), ERROR_NONE);
    await_event(fixture->log, LOG_TRIMMED, NULL);
    send_text(fixture->log, 20, "next");
    await_event(fixture->log, LOG_LANDED, NULL);
    assert_is_read(fixture->other, "next", 3);
}

static uint64_t used_ms(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

/* The server ends the connection that trims while nothing is to be trimmed. */
static void test_an_end_between_trims(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);
    struct log_event event;

    fill(fixture);
    assert_int_equal(log_trim(fixture->log, 2, NULL), ERROR_NONE);
    await_event(fixture->log, LOG_TRIMMED, NULL);
    assert_int_equal(sql_u64(fixture, "SELECT count(pg_terminate_backend(pid)) FROM"
                                      " pg_stat_activity WHERE query LIKE 'DELETE FROM%'"),
                     1);
    const uint64_t began_ms = used_ms();
    assert_int_equal(log_wait(fixture->log, 1000, &event), LOG_NOTHING);
    assert_true(used_ms() - began_ms < 500); /* nobody turns round and round */
    assert_int_equal(log_trim(fixture->log, 3, NULL), ERROR_NONE);
    await_event(fixture->log, LOG_TRIMMED, NULL);
}

/* All that is trimmed goes at once, so that no reader sees the log begin between. */
static void test_a_trim_is_one_change(void **state)
{
    enum { RECORDS = 600 };
    struct log_postgres_fixture *fixture = fixture_of(state);

    run_sql(fixture, "CREATE TABLE \"%s-trims\" (rows int8)", fixture->name);
    run_sql(fixture,
            "CREATE FUNCTION \"trims-%s\"() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN INSERT INTO \"%s-trims\" SELECT count(*) FROM gone; RETURN NULL; END'",
            fixture->name, fixture->name);
    run_sql(fixture,
            "CREATE TRIGGER trims AFTER DELETE ON \"%s_log\" REFERENCING OLD TABLE AS gone"
            " FOR EACH STATEMENT EXECUTE FUNCTION \"trims-%s\"()",
            fixture->name, fixture->name);
    assert_int_equal(log_follow(fixture->log, 0, NULL), ERROR_NONE);
    assert_event(fixture->log, LOG_END, 0);
    for (uint64_t i = 0; i < RECORDS; i++) {
        send_text(fixture->log, i + 1, "record");
        await_event(fixture->log, LOG_LANDED, NULL);
    }
    assert_int_equal(log_trim(fixture->log, RECORDS - 1, NULL), ERROR_NONE);
    await_event(fixture->log, LOG_TRIMMED, NULL);
    char sql[100];
    snprintf(sql, sizeof(sql), "SELECT max(rows) FROM \"%s-trims\"", fixture->name);
    assert_int_equal(sql_u64(fixture, sql), RECORDS - 1);
}

/* A standby that lacks the end of the log needs all before it, whatever the node asked for. */
static void test_a_trim_of_a_lost_tail(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);
    char sql[100];

    fill(fixture);
    run_sql(fixture, "DELETE FROM \"%s_log\" WHERE place = 2", fixture->name);
    assert_int_equal(log_trim(fixture->log, 2, NULL), ERROR_NONE);
    await_event(fixture->log, LOG_LOST, "lacks record 2");
    struct log_event event;
    while (log_trim(fixture->log, 1, NULL) != ERROR_NONE) /* until the first has ended */
        log_wait(fixture->log, 10, &event);
    await_event(fixture->log, LOG_TRIM_FAILED, NULL);
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM \"%s_log\"", fixture->name);
    assert_int_equal(sql_u64(fixture, sql), 2);
}

/* A claim of the first place, from a node that has read nothing since: the place is trimmed. */
static void test_a_first_place_that_is_trimmed(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);
    struct log *late = open_log(fixture->other_client, 2), *log = open_log(fixture->client, 2);

    assert_int_equal(log_follow(late, 0, NULL), ERROR_NONE);
    assert_event(late, LOG_END, 0);
    assert_int_equal(log_follow(log, 0, NULL), ERROR_NONE);
    assert_event(log, LOG_END, 0);
    send_text(log, 1, "claim");
    await_event(log, LOG_LANDED, NULL);
    send_text(log, 2, "next");
    await_event(log, LOG_LANDED, NULL);
    assert_int_equal(log_trim(log, 1, NULL), ERROR_NONE);
    await_event(log, LOG_TRIMMED, NULL);
    send_text(late, 3, "late");
    await_event(late, LOG_FAILED, "trimmed");
    assert_int_equal(log_follow_begin(log, NULL), ERROR_NONE);
    await_event(log, LOG_RECORD, NULL);
    assert_event(log, LOG_END, 2); /* "next" was the only one */
    log_close(late);
    log_close(log);
}

/* Many logs of one client share statements; each keeps its order. */
static void test_many_logs(void **state)
{
    enum { LOGS = 24, RECORDS = 200 };
    struct log_postgres_fixture *fixture = fixture_of(state);
    struct log *logs[LOGS];
    uint64_t landed[LOGS] = {0}, left = LOGS * RECORDS;
    const struct instant begun = instant_now();

    for (uint32_t i = 0; i < LOGS; i++) {
        logs[i] = open_log(fixture->client, 100 + i);
        assert_int_equal(log_follow(logs[i], 0, NULL), ERROR_NONE);
        assert_event(logs[i], LOG_END, 0);
        send_text(logs[i], 1, "record");
    }
    while (left > 0)
        for (uint32_t i = 0; i < LOGS; i++) {
            struct log_event event;

            while (log_wait(logs[i], 0, &event) != LOG_NOTHING) {
                if (event.kind != LOG_LANDED)
                    continue;
                assert_int_equal(event.offset, landed[i]);
                landed[i]++;
                left--;
                if (landed[i] < RECORDS)
                    send_text(logs[i], landed[i] + 1, "record");
            }
        }
    const uint64_t ms = instant_since_ns(begun, instant_now()) / 1000000;
    print_message("%d appends in %llu ms\n", LOGS * RECORDS, (unsigned long long)ms);
    for (uint32_t i = 0; i < LOGS; i++) {
        struct log *reader = open_log(fixture->other_client, 100 + i);

        assert_int_equal(log_follow(reader, 0, NULL), ERROR_NONE);
        for (uint64_t k = 0; k < RECORDS; k++)
            assert_is_read(reader, "record", k);
        assert_event(reader, LOG_END, RECORDS);
        log_close(reader);
        log_close(logs[i]);
    }
}

/* A server without a standby takes no append that must be on two servers, and says why. */
static void test_a_server_that_would_acknowledge_alone(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);
    const struct log_postgres_options options = {.uri = getenv("POSTGRES_URI"),
                                                 .name = fixture->name,
                                                 .append_timeout_ms = 2500,
                                                 .must_replicate = true};
    struct log_postgres_client *client = NULL;
    struct log_event event;
    char text[300];
    bool is_told = false;

    assert_int_equal(log_postgres_client_open(&options, &client, NULL), ERROR_NONE);
    struct log *log = open_log(client, 7);
    assert_int_equal(log_follow(log, 0, NULL), ERROR_NONE);
    assert_event(log, LOG_END, 0);
    send_text(log, 1, "alone");
    while (log_wait(log, 50, &event) == LOG_NOTHING)
        if (log_get_trouble(log, text, sizeof(text)) == LOG_SLOW)
            is_told = strstr(text, "the server would acknowledge alone") != NULL;
    assert_true(is_told);
    assert_int_equal(event.kind, LOG_FAILED);
    assert_non_null(strstr(event.reason, "cluster_durability is replicated"));
    log_close(log);
    log_postgres_client_close(client);
    struct log *reader = open_log(fixture->client, 7);
    assert_int_equal(log_follow(reader, 0, NULL), ERROR_NONE);
    assert_event(reader, LOG_END, 0);
    log_close(reader);
}

/* A table that is another one, and a name that is no name of a table. */
static void test_tables(void **state)
{
    struct log_postgres_fixture *fixture = fixture_of(state);
    struct error error;

    assert_int_equal(log_postgres_table_check(&fixture->sql, "none", &error), ERROR_NOT_FOUND);
    run_sql(fixture, "CREATE TABLE IF NOT EXISTS other_log (partition int8)");
    assert_int_equal(log_postgres_table_check(&fixture->sql, "other", &error), ERROR_INVALID);
    assert_int_equal(log_postgres_table_create(&fixture->sql, "a\"; DROP TABLE b; --", &error),
                     ERROR_INVALID);
    assert_int_equal(log_postgres_table_create(&fixture->sql, "a'b", &error), ERROR_INVALID);
}

/* Without a server the log says so, and a password is not shown. */
static void test_no_postgres_is_there(void **state)
{
    const struct log_postgres_options options = {
        .uri = "postgres://a:s3cret@127.0.0.1:1/b", .name = "x", .append_timeout_ms = 2500};
    struct log_postgres_client *client = NULL;
    char text[300] = "";
    bool is_alone = false;
    struct log_event event;

    (void)state;
    assert_int_equal(log_postgres_client_open(&options, &client, NULL), ERROR_NONE);
    struct log *log = open_log(client, LOG_POSTGRES_CONTROL);
    send_text(log, 1, "lost");
    while (log_wait(log, 50, &event) == LOG_NOTHING)
        if (log_get_trouble(log, text, sizeof(text)) == LOG_ALONE)
            is_alone = true;
    assert_true(is_alone);
    assert_non_null(strstr(text, "127.0.0.1"));
    assert_null(strstr(text, "s3cret"));
    assert_int_equal(event.kind, LOG_FAILED);
    assert_null(strstr(event.reason, "s3cret"));
    log_close(log);
    log_postgres_client_close(client);
}

int main(void)
{
#define LOG_POSTGRES_TEST(test) \
    cmocka_unit_test_setup_teardown(test, log_postgres_set_up, log_postgres_tear_down)
    const struct CMUnitTest tests[] = {
        LOG_POSTGRES_TEST(test_nodes_read_one_order),
        LOG_POSTGRES_TEST(test_a_taken_place),
        LOG_POSTGRES_TEST(test_the_control_log),
        LOG_POSTGRES_TEST(test_a_record_of_a_megabyte),
        LOG_POSTGRES_TEST(test_the_place_is_given_back),
        LOG_POSTGRES_TEST(test_a_broken_connection),
        LOG_POSTGRES_TEST(test_a_commit_without_an_answer),
        LOG_POSTGRES_TEST(test_a_place_lost_meanwhile),
        LOG_POSTGRES_TEST(test_a_commit_with_a_warning),
        LOG_POSTGRES_TEST(test_an_append_without_an_answer),
        LOG_POSTGRES_TEST(test_a_lost_tail),
        LOG_POSTGRES_TEST(test_another_tail),
        LOG_POSTGRES_TEST(test_a_spoiled_row),
        LOG_POSTGRES_TEST(test_a_follow_beyond_the_end),
        LOG_POSTGRES_TEST(test_log_trims),
        LOG_POSTGRES_TEST(test_an_end_between_trims),
        LOG_POSTGRES_TEST(test_a_trim_is_one_change),
        LOG_POSTGRES_TEST(test_a_trim_of_a_lost_tail),
        LOG_POSTGRES_TEST(test_a_first_place_that_is_trimmed),
        LOG_POSTGRES_TEST(test_many_logs),
        LOG_POSTGRES_TEST(test_a_server_that_would_acknowledge_alone),
        LOG_POSTGRES_TEST(test_tables),
        cmocka_unit_test(test_no_postgres_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
