/*
 * log_postgres_once.c - transactions with statements of users; see log_postgres_once.h.
 *
 * All statements are sent without waiting for answers (pipeline mode). The frames follow when the
 * server has carried out all, and the commit when it has the frames.
 */
#include "log/postgres/log_postgres_once.h"

#include "log/postgres/log_postgres_client.h"
#include "sys/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ONCE_SESSION_MS = 5000, /* time limit for a free session */
    /* the same for a transaction apart: the partition's other messages wait meanwhile */
    ONCE_APART_MS = 1000,
    ONCE_SETTLE_MS = 10000, /* for all statements; the server ends each, and its wait for a lock */
};

/* What a role's or a database's own settings must not decide: the server ends a transaction whose
 * node is silent, since its rows would make those of the next owner wait; and no other one. */
#define LIFE_SQL                                                                     \
    " pg_catalog.set_config('idle_in_transaction_session_timeout', '5000', true),"   \
    " CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL" \
    " THEN pg_catalog.set_config('transaction_timeout', '0', true) END"

/* Statements before those of users: the time limits in milliseconds, of a statement and of its wait
 * for a lock, during which the session's other transactions wait too; and the encoding, which a
 * pooler may have from another one. */
static const char begin_sql[] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
#define LIMITS_SQL(lock_ms)                                            \
    "SELECT pg_catalog.set_config('statement_timeout', '5000', true)," \
    " pg_catalog.set_config('lock_timeout', '" lock_ms "', true),"     \
    " pg_catalog.set_config('client_encoding', 'UTF8', true)," LIFE_SQL
static const char limits_sql[] = LIMITS_SQL("200"), limits_call_sql[] = LIMITS_SQL("0");

/* After them. A cursor that outlives the transaction would run its query in the commit. A commit
 * that a standby lacks is told by a warning. */
static const char *const once_checks[] = {
    "SET CONSTRAINTS ALL IMMEDIATE",
    "CLOSE ALL",
    "RESET SESSION AUTHORIZATION",
    "RESET ROLE",
    "RESET ALL",
    "SELECT pg_catalog.set_config('client_min_messages', 'warning', true)," LIFE_SQL
    ", CASE WHEN pg_catalog.current_setting('transaction_read_only') = 'on'"
    " THEN ('a function has made the transaction read only: '"
    " || pg_catalog.current_setting('transaction_read_only'))::int8 END",
};
enum { ONCE_CHECKS = sizeof(once_checks) / sizeof(once_checks[0]) };

struct log_postgres_once {
    struct log_once once;
    struct log_postgres *log;
    struct log_postgres_session *session; /* NULL if none is taken */
    unsigned generation;                  /* of its connection */
    bool is_lost;                         /* there is no session, or its connection has failed */
    bool is_apart, are_calls;
    uint64_t *texts; /* hash of the text of each statement */
    size_t sent, capacity;
    char reason[LOG_POSTGRES_REASON_SIZE];
};

static struct log_postgres_once *log_postgres_once_of(struct log_once *once)
{
    return (struct log_postgres_once *)(void *)once;
}

static void once_note(struct log_postgres_once *once, const char *reason)
{
    snprintf(once->reason, sizeof(once->reason), "%s", reason);
}

/* ---- the session ---- */

/* Returns a session that is free; NULL if there is none. Called with the lock. */
static struct log_postgres_session *once_find_session(const struct log_postgres_once *once)
{
    struct log_postgres_session *sessions = once->log->client->sessions;
    size_t i = once->are_calls ? LOG_POSTGRES_CALLS : once->is_apart ? LOG_POSTGRES_APART : 0;
    const size_t end = i > 0 ? i + 1 : LOG_POSTGRES_APART;

    while (i < end && sessions[i].is_taken)
        i++;
    return i < end ? &sessions[i] : NULL;
}

static bool once_take_session(struct log_postgres_once *once)
{
    struct log_postgres_client *client = once->log->client;
    const uint64_t wait_ms = once->is_apart ? ONCE_APART_MS : ONCE_SESSION_MS;
    const struct timespec until = instant_timespec(instant_add_ms(instant_now(), wait_ms));
    int timed_out = 0;

    pthread_mutex_lock(&client->lock);
    while (!(once->session = once_find_session(once)) && !timed_out)
        timed_out = pthread_cond_timedwait(&client->session_freed, &client->lock, &until);
    if (once->session)
        once->session->is_taken = true;
    pthread_mutex_unlock(&client->lock);
    if (!once->session)
        once_note(once, "other transactions take too long");
    return once->session;
}

static void once_free_session(struct log_postgres_once *once)
{
    struct log_postgres_client *client = once->log->client;

    pthread_mutex_lock(&client->lock);
    once->session->is_taken = false;
    pthread_cond_broadcast(&client->session_freed);
    pthread_mutex_unlock(&client->lock);
    once->session = NULL;
}

static bool once_send(struct log_postgres_once *once, const struct postgres_query *query)
{
    struct error error;

    if (!once->is_lost && postgres_connection_send(&once->session->connection, query, &error)) {
        once->is_lost = true;
        once_note(once, error.text);
    }
    return !once->is_lost;
}

static bool once_send_text(struct log_postgres_once *once, const char *sql)
{
    const struct postgres_query query = {.sql = sql};

    return once_send(once, &query);
}

/* Returns the next answer; NULL if the connection is lost, or time is over. */
static PGresult *once_await(struct log_postgres_once *once, struct instant until)
{
    PGresult *result = NULL;
    struct error error;

    if (!once->is_lost && postgres_connection_await(&once->session->connection, once->generation,
                                                    until, &result, &error)) {
        once->is_lost = true;
        once_note(once, error.text);
    }
    return result;
}

/* Ends the transaction without effect, and gives the session back. */
static void once_roll_back(struct log_postgres_once *once)
{
    if (!once->session)
        return;
    const struct instant until = instant_add_ms(instant_now(), ONCE_SESSION_MS);
    PGresult *result = once_send_text(once, "ROLLBACK") ? once_await(once, until) : NULL;
    if (!result || postgres_result_check(result, NULL))
        postgres_connection_break(&once->session->connection, once->reason);
    PQclear(result);
    once_free_session(once);
}

/* ---- statements ---- */

static enum error_code log_postgres_once_begin(struct log_once *head, bool is_apart,
                                               struct error *ret_error)
{
    struct log_postgres_once *once = log_postgres_once_of(head);

    (void)ret_error;
    assert(!once->session);
    once->is_apart = is_apart;
    once->sent = 0;
    once->is_lost = false;
    once->reason[0] = '\0';
    return ERROR_NONE;
}

/* Begins the transaction in the session. Returns false if its connection is lost, or the server is
 * one that does not write: another connection may find another. */
static bool once_try_to_start(struct log_postgres_once *once)
{
    struct postgres_connection *connection = &once->session->connection;
    struct error error;
    bool has_begun = true;

    if (postgres_connection_await_ready(connection, &error)) {
        once_note(once, error.text);
        return false;
    }
    postgres_connection_set_cancels(connection, true);
    once->generation = connection->generation;
    once->is_lost = false;
    once_send_text(once, begin_sql);
    once_send_text(once, once->are_calls ? limits_call_sql : limits_sql);
    for (size_t i = 0; i < 2 && has_begun; i++) {
        PGresult *result = once_await(once, instant_add_ms(instant_now(), ONCE_SESSION_MS));

        has_begun = result && !postgres_result_check(result, &error);
        if (result && !has_begun)
            once_note(once, error.text);
        PQclear(result);
    }
    if (!has_begun)
        postgres_connection_break(connection, once->reason);
    return has_begun;
}

/* Takes a session and begins. The server may have closed one that was not used for long, which is
 * seen when it is used. */
static bool once_start(struct log_postgres_once *once, bool is_call)
{
    bool has_begun = false;

    once->are_calls = is_call;
    if (once_take_session(once))
        for (int tries = 0; tries < 2 && !has_begun; tries++)
            has_begun = once_try_to_start(once);
    return has_begun;
}

static bool once_reserve_text(struct log_postgres_once *once)
{
    const size_t capacity = once->capacity ? 2 * once->capacity : 64;

    if (once->sent < once->capacity)
        return true;
    uint64_t *texts = realloc(once->texts, capacity * sizeof(*texts));
    if (!texts)
        return false;
    once->texts = texts;
    once->capacity = capacity;
    return true;
}

void log_postgres_once_put(struct log_once *head, size_t index, const struct postgres_query *query,
                           bool is_call)
{
    struct log_postgres_once *once = log_postgres_once_of(head);

    if (!once->session && !once->is_lost)
        once->is_lost = !once_start(once, is_call);
    if (once->is_lost)
        return;
    if (index != once->sent || !once_reserve_text(once)) { /* one is missing: settle sees it */
        once_note(once, "out of memory");
        return;
    }
    if (once_send(once, query))
        once->texts[once->sent++] = bytes_hash(0, bytes_of(query->sql));
}

/* ---- what became of them ---- */

/* What the server said about the first statement that failed; or no answer came to it. */
struct once_failure {
    size_t index; /* beyond the last statement: a check, and `fate` is that of all */
    enum log_once_fate fate, of_equal; /* its own, and that of others with its text */
};

/* Returns whether the failure is about the statement itself, whatever its values: there is no such
 * table, column or unique index. What a trigger raises has a context. */
static bool once_is_of_all(const PGresult *result)
{
    return !PQresultErrorField(result, PG_DIAG_CONTEXT) &&
           (postgres_result_is(result, "42P01") || postgres_result_is(result, "42703") ||
            postgres_result_is(result, "42P10"));
}

/* The session has ended before this answer, perhaps by the statement; or time is over, and those of
 * its table take too long together. */
static struct once_failure once_judge_silence(const struct log_postgres_once *once, size_t index,
                                              bool is_late)
{
    struct once_failure failure = {index, LOG_ONCE_CROWDED,
                                   is_late ? LOG_ONCE_CROWDED : LOG_ONCE_UNKNOWN};

    if (once->sent == 1)
        failure.fate = LOG_ONCE_REFUSED;
    else if (index >= once->sent)
        failure.fate = LOG_ONCE_UNKNOWN;
    return failure;
}

static struct once_failure once_judge_answer(const struct log_postgres_once *once, size_t index,
                                             const PGresult *result)
{
    struct once_failure failure = {index, LOG_ONCE_REFUSED, LOG_ONCE_CROWDED};
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    if (state && !strncmp(state, "57P", 3)) /* the last words of a session */
        return once_judge_silence(once, index, false);
    if (index >= once->sent && once->sent > 1)
        failure.fate = LOG_ONCE_CROWDED;
    if (once->are_calls || index >= once->sent)
        return failure; /* whatever a function raises may be cured */
    if (postgres_result_is(result, "55P03"))
        failure.fate = failure.of_equal = LOG_ONCE_LATER;
    else if (once_is_of_all(result))
        failure.of_equal = LOG_ONCE_REFUSED;
    else if (postgres_result_is_final(result))
        failure.fate = LOG_ONCE_NEVER;
    return failure;
}

/* Takes all answers. Returns true if the server has carried out all. */
static bool once_take_answers(struct log_postgres_once *once, struct once_failure *ret_failure)
{
    const struct instant until = instant_add_ms(instant_now(), ONCE_SETTLE_MS);
    bool has_failed = false;

    for (size_t i = 0; i < once->sent + ONCE_CHECKS; i++) {
        PGresult *result = once_await(once, until);
        struct error error;

        if (!result && !has_failed)
            *ret_failure = once_judge_silence(once, i, instant_now().ns >= until.ns);
        if (!result)
            return false;
        if (!has_failed && postgres_result_check(result, &error)) {
            has_failed = true;
            once_note(once, error.text);
            *ret_failure = once_judge_answer(once, i, result);
        }
        PQclear(result);
    }
    return !has_failed;
}

static enum log_once_fate once_fate(const struct log_postgres_once *once,
                                    const struct once_failure *failure, size_t index)
{
    if (failure->index >= once->sent || index == failure->index)
        return failure->fate;
    return once->texts[index] == once->texts[failure->index] ? failure->of_equal : LOG_ONCE_UNKNOWN;
}

static bool log_postgres_once_settle(struct log_once *head, struct log_once_report *reports,
                                     size_t count)
{
    struct log_postgres_once *once = log_postgres_once_of(head);
    struct once_failure failure = {0};
    const bool is_begun = once->session && !once->is_lost;
    bool is_done = is_begun;

    for (size_t i = 0; i < ONCE_CHECKS && is_begun; i++)
        once_send_text(once, once_checks[i]);
    if (is_begun)
        is_done = once_take_answers(once, &failure) && once->sent == count;
    for (size_t i = 0; i < count; i++) {
        enum log_once_fate fate = LOG_ONCE_TAKEN;

        if (!is_done && is_begun && once->sent == count)
            fate = once_fate(once, &failure, i);
        else if (!is_done)
            fate = LOG_ONCE_UNKNOWN;
        reports[i] = (struct log_once_report){fate, once->reason};
    }
    if (!is_done)
        once_roll_back(once);
    return is_done;
}

/* ---- the frames ---- */

/* Sends the append of a frame, after a record with the chain `before`. Returns its chain. */
static uint64_t once_send_frame(struct log_postgres_once *once, struct bytes frame, uint64_t place,
                                uint64_t before)
{
    const uint64_t chain = bytes_hash(before, frame);
    const uint64_t numbers[4] = {log_postgres_row(once->log->partition), place, before, chain};
    struct buffer texts[5];
    struct postgres_value values[5];
    const struct postgres_query query = {
        .sql = once->log->client->append_sql, .values = values, .value_count = 5};
    bool has_failed = false;

    for (size_t i = 0; i < 5; i++) {
        const enum postgres_type type = i < 4 ? POSTGRES_INT8 : POSTGRES_BYTEA;

        buffer_init(&texts[i]);
        postgres_array_begin(&texts[i], type, 1);
        if (i < 4)
            postgres_array_u64(&texts[i], numbers[i]);
        else
            postgres_array_bytes(&texts[i], frame);
        values[i] = postgres_array_value(&texts[i], type);
        has_failed |= buffer_failed(&texts[i]);
    }
    if (has_failed) {
        once->is_lost = true;
        once_note(once, "out of memory");
    }
    once_send(once, &query);
    for (size_t i = 0; i < 5; i++)
        buffer_deinit(&texts[i]);
    return chain;
}

/* Appends the frames. Returns false if one is not at its place; `ret_chain` is that of the last. */
static bool once_append(struct log_postgres_once *once, const struct log_once_commit *commit,
                        uint64_t place, uint64_t before, struct instant until, uint64_t *ret_chain)
{
    bool is_there = true;

    *ret_chain = before;
    for (size_t i = 0; i < commit->frame_count; i++)
        *ret_chain = once_send_frame(once, commit->frames[i], place + i, *ret_chain);
    for (size_t i = 0; i < commit->frame_count && !once->is_lost; i++) {
        PGresult *result = once_await(once, until);
        struct error error;

        if (result && postgres_result_check(result, &error)) {
            is_there = false;
            once_note(once, error.text);
        } else if (result && PQntuples(result) == 0) {
            is_there = false;
            once_note(once, "another record has its place");
        }
        PQclear(result);
    }
    return is_there && !once->is_lost;
}

/* Commits. Returns false if it is not, or may not be; or a standby may lack it. The commit is never
 * cancelled: one that waits for the standby would be there, without it. */
static bool once_decide(struct log_postgres_once *once, struct instant until)
{
    struct postgres_connection *connection = &once->session->connection;

    postgres_connection_set_cancels(connection, false);
    postgres_connection_take_warning(connection); /* those of functions */
    PGresult *result = once_send_text(once, "COMMIT") ? once_await(once, until) : NULL;
    const bool has_warning = postgres_connection_take_warning(connection);
    struct error error = {.text = ""};
    const bool is_done = result && !postgres_result_check(result, &error) &&
                         !strcmp(PQcmdStatus(result), "COMMIT") && !has_warning;

    if (result && !is_done)
        once_note(once, has_warning ? "committed without the standby" : error.text);
    PQclear(result);
    return is_done;
}

static enum error_code log_postgres_once_commit(struct log_once *head,
                                                const struct log_once_commit *commit,
                                                uint64_t *ret_offset, struct error *ret_error)
{
    struct log_postgres_once *once = log_postgres_once_of(head);
    struct log_postgres *log = once->log;
    struct log_postgres_state *state = &log->state;
    const struct instant now = instant_now(), until = instant_add_ms(now, commit->timeout_ms);
    const uint64_t place = commit->from; /* no marker of a transaction is before it */
    uint64_t before = 0, chain = 0;

    pthread_mutex_lock(&log->client->lock);
    const bool is_begun = log_postgres_state_transact(state, commit->from, commit->frames[0]);
    if (is_begun)
        before = state->append.before;
    if (is_begun && log->unlanded_at.ns == 0)
        log->unlanded_at = now;
    pthread_mutex_unlock(&log->client->lock);
    if (!is_begun) {
        once_roll_back(once);
        return error_set(ret_error, ERROR_IO, "append: another record lies before it");
    }
    const bool is_done =
        once_append(once, commit, place, before, until, &chain) && once_decide(once, until);
    pthread_mutex_lock(&log->client->lock);
    log_postgres_state_transacted(state, is_done, place + commit->frame_count, chain);
    if (is_done)
        log->unlanded_at = (struct instant){0};
    pthread_mutex_unlock(&log->client->lock);
    if (!is_done) {
        once_roll_back(once);
        return error_set(ret_error, ERROR_IO, "append: %.140s", once->reason);
    }
    once_free_session(once);
    *ret_offset = place + commit->frame_count - 1;
    return ERROR_NONE;
}

/* ---- open and close ---- */

static void log_postgres_once_close(struct log_once *head)
{
    struct log_postgres_once *once = log_postgres_once_of(head);

    if (once->session) {
        postgres_connection_break(&once->session->connection, "its transaction was given up");
        once_free_session(once);
    }
    free(once->texts);
    free(once);
}

enum error_code log_postgres_once_open(struct log *log, struct log_once **ret_once,
                                       struct error *ret_error)
{
    static const struct log_once_ops ops = {
        .begin = log_postgres_once_begin,
        .settle = log_postgres_once_settle,
        .commit = log_postgres_once_commit,
        .close = log_postgres_once_close,
    };
    struct log_postgres_once *once = calloc(1, sizeof(*once));

    if (!once)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    once->once.ops = &ops;
    once->log = (struct log_postgres *)(void *)log;
    *ret_once = &once->once;
    return ERROR_NONE;
}
