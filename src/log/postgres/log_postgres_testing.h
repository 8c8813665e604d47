/*
 * log_postgres_testing.h - what tests of logs on PostgreSQL share: the logs of a partition by two
 * nodes, on the server that POSTGRES_URI names, and SQL beside them.
 */
#ifndef TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_TESTING_H
#define TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_TESTING_H

#include "log/postgres/log_postgres.h"

#include "log/postgres/log_postgres_table.h"
#include "sys/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define WAIT_MS UINT64_C(60000)

struct log_postgres_fixture {
    struct postgres_connection sql; /* beside the logs */
    char name[24];                  /* a table for each test */
    struct log_postgres_client *client, *other_client;
    struct log *log, *other; /* partition 1, by two nodes */
};

static inline void run_sql(struct log_postgres_fixture *fixture, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline void run_sql(struct log_postgres_fixture *fixture, const char *format, ...)
{
    char sql[500];
    const struct postgres_query query = {.sql = sql};
    struct error error;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(sql, sizeof(sql), format, arguments);
    va_end(arguments);
    if (postgres_connection_ask(&fixture->sql, &query, NULL, &error))
        fail_msg("%s: %s", sql, error.text);
}

static inline uint64_t sql_u64(struct log_postgres_fixture *fixture, const char *sql)
{
    const struct postgres_query query = {.sql = sql};
    PGresult *result = NULL;

    assert_int_equal(postgres_connection_ask(&fixture->sql, &query, &result, NULL), ERROR_NONE);
    const uint64_t number = postgres_result_u64(result, 0, 0);
    PQclear(result);
    return number;
}

static inline struct log_postgres_client *open_client(const struct log_postgres_fixture *fixture,
                                                      uint64_t append_timeout_ms)
{
    const struct log_postgres_options options = {.uri = getenv("POSTGRES_URI"),
                                                 .name = fixture->name,
                                                 .append_timeout_ms = append_timeout_ms};
    struct log_postgres_client *client = NULL;
    struct error error;

    if (log_postgres_client_open(&options, &client, &error))
        fail_msg("%s", error.text);
    return client;
}

static inline struct log *open_log(struct log_postgres_client *client, uint32_t partition)
{
    struct log *log = NULL;

    assert_int_equal(log_postgres_open(client, partition, &log, NULL), ERROR_NONE);
    return log;
}

static inline int log_postgres_set_up(void **state)
{
    static unsigned count;
    struct log_postgres_fixture *fixture = calloc(1, sizeof(*fixture));
    const struct postgres_setup setup = {
        .uri = getenv("POSTGRES_URI"), .name = "test", .connect_ms = 10000, .answer_ms = WAIT_MS};

    assert_non_null(fixture);
    *state = fixture;
    if (!setup.uri)
        return 0;
    snprintf(fixture->name, sizeof(fixture->name), "test-%u", count++);
    assert_int_equal(postgres_connection_open(&fixture->sql, &setup, NULL), ERROR_NONE);
    struct error error;
    if (log_postgres_table_create(&fixture->sql, fixture->name, &error) ||
        log_postgres_table_check(&fixture->sql, fixture->name, &error))
        fail_msg("%s", error.text);
    fixture->client = open_client(fixture, WAIT_MS);
    fixture->other_client = open_client(fixture, WAIT_MS);
    fixture->log = open_log(fixture->client, 1);
    fixture->other = open_log(fixture->other_client, 1);
    return 0;
}

static inline int log_postgres_tear_down(void **state)
{
    struct log_postgres_fixture *fixture = *state;

    log_close(fixture->log);
    log_close(fixture->other);
    log_postgres_client_close(fixture->client);
    log_postgres_client_close(fixture->other_client);
    postgres_connection_close(&fixture->sql);
    free(fixture);
    return 0;
}

static inline struct log_postgres_fixture *fixture_of(void **state)
{
    if (!getenv("POSTGRES_URI"))
        skip();
    return *state;
}

/* The next event that is one. */
static inline struct log_event next_event(struct log *log)
{
    const struct instant until = instant_add_ms(instant_now(), WAIT_MS);
    struct log_event event;

    while (log_wait(log, WAIT_MS, &event) == LOG_NOTHING)
        assert_true(instant_now().ns < until.ns);
    return event;
}

static inline void send_text(struct log *log, uint64_t ticket, const char *text)
{
    struct error error;

    if (log_append(log, ticket, bytes_of(text), &error))
        fail_msg("%s", error.text);
}

static inline void assert_event(struct log *log, enum log_kind kind, uint64_t offset)
{
    const struct log_event event = next_event(log);

    if (event.kind != kind && event.reason)
        print_message("%s\n", event.reason);
    assert_int_equal(event.kind, kind);
    assert_int_equal(event.offset, offset);
}

static inline void assert_sends(struct log *log, uint64_t ticket, const char *text, uint64_t offset)
{
    send_text(log, ticket, text);
    const struct log_event event = next_event(log);
    if (event.kind != LOG_LANDED && event.reason)
        print_message("%s\n", event.reason);
    assert_int_equal(event.kind, LOG_LANDED);
    assert_int_equal(event.ticket, ticket);
    assert_int_equal(event.offset, offset);
    /* by the server's clock, which is this machine's */
    assert_in_range(event.appended.ms, wall_machine_now().ms - WAIT_MS,
                    wall_machine_now().ms + 1000);
}

static inline void assert_is_read(struct log *log, const char *text, uint64_t offset)
{
    const struct log_event event = next_event(log);

    if (event.kind != LOG_RECORD && event.reason)
        print_message("%s\n", event.reason);
    assert_int_equal(event.kind, LOG_RECORD);
    assert_int_equal(event.offset, offset);
    assert_true(bytes_equal(event.bytes, bytes_of(text)));
}

/* Skips events until this one, whose reason has these words. */
static inline void await_event(struct log *log, enum log_kind kind, const char *words)
{
    const struct instant until = instant_add_ms(instant_now(), WAIT_MS);
    struct log_event event;

    do {
        event = next_event(log);
        assert_true(instant_now().ns < until.ns);
    } while (event.kind != kind);
    if (words && !strstr(event.reason, words))
        fail_msg("\"%s\" lacks \"%s\"", event.reason, words);
}

#endif
