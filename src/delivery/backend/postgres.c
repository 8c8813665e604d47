/*
 * Tables and functions of PostgreSQL, by libpq. A message to a table is a row, and its id is unique
 * there: a repeat adds nothing. A message to a function is a call in one transaction with the row
 * that records it.
 *
 * Messages to tables that wait together are one transaction. If one of them fails, none
 * is stored, and each is sent again in a transaction of its own, so a message that is refused
 * delays the others by a moment and no more. If a table is locked, all messages to it in that
 * transaction have failed. A call is always alone. Calls have a connection of their own, because
 * their time is the user's.
 *
 * A server with synchronous standbys may have committed a row that no standby has: it was
 * restarted, or an administrator ended its wait. The repeat finds the row. So each transaction
 * writes a message into the server's log, and its commit waits for the standby in any case. A
 * commit with a warning was not waited for, and the connection counts as lost.
 *
 * All statements of a connection are sent without waiting for answers (pipeline mode). Answers come
 * in the order of the statements, so the statements under way are a list of steps.
 */
#include "delivery/broker_backend.h"

#include "base/base64.h"
#include "base/json_write.h"
#include "base/sql_name.h"
#include "log/postgres/log_postgres_once.h"
#include "log/postgres/postgres_connection.h"
#include "sys/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Sets the times in milliseconds after which the server ends a statement, such as a function that
 * does not return, and its wait for a lock. The third column makes the transaction one that
 * writes. */
#define SETUP_SQL(lock_ms)                                          \
    "SELECT set_config('statement_timeout', '5000', true),"         \
    " set_config('lock_timeout', '" lock_ms "', true),"             \
    " CASE WHEN current_setting('synchronous_standby_names') <> ''" \
    " THEN pg_catalog.pg_logical_emit_message(true, 'tickwheel', ''::text) END"
static const char setup_sql[] = SETUP_SQL("1000"), setup_call_sql[] = SETUP_SQL("0");

enum {
    ANSWER_MS = 10000, /* time without an answer after which a connection is lost */
    LANES = 2,
    COMMITS_MAX = 2, /* transactions of tables under way: while one is synced, another is sent */
    VALUES = 7,
};

enum step_kind {
    STEP_SETUP, /* begin, and the time limit of statements */
    STEP_ROW,   /* a message */
    STEP_COMMIT,
};

/* A statement without an answer. */
struct inbox_step {
    struct list link;
    enum step_kind kind;
    uint64_t ticket;
    bool is_call;
    /* ROW, when answered: what the server said; "" if it did not refuse. `is_aborted` means that it
     * refused an earlier one of the transaction, `is_locked` that it waited too long for a lock of
     * the table. */
    bool is_aborted, is_locked;
    enum delivery_result result;
    char error[160];
    /* the statement and its values, for sending it again */
    char *sql;
    struct postgres_value values[VALUES];
    size_t value_count;
};

/* What a message is: one statement, with its values, which are in the buffers or borrowed from the
 * message. */
struct inbox_statement {
    bool is_call;
    struct buffer sql, headers, event;
    struct postgres_value values[VALUES];
    size_t value_count;
};

/* A connection with its statements under way. */
struct inbox_lane {
    struct postgres_connection connection;
    unsigned generation;
    struct list steps;    /* without an answer, in the order in which they were sent */
    struct list answered; /* rows of the transaction whose commit has no answer */
    struct list fresh;    /* rows that were not sent yet */
    struct list again;    /* rows to send again, each in a transaction of its own */
    unsigned commits;     /* number of transactions under way */
};

struct inbox {
    const struct broker_settings *settings;
    struct inbox_lane lanes[LANES]; /* for tables, and for calls */
    bool is_connected;
    const char *lost;          /* reason to give the connection up; NULL if there is none */
    size_t row_count, row_max; /* messages without an outcome of the server */
    struct inbox_statement statement;
};

static void inbox_version(char ret_text[BROKER_VERSION_SIZE])
{
    const int version = PQlibVersion();

    snprintf(ret_text, BROKER_VERSION_SIZE, "libpq %d.%d", version / 10000, version % 10000);
}

static const char *inbox_refusal(const struct bytes names[], struct bytes key)
{
    const bool is_pair = names[1].data != NULL;

    if (key.data)
        return "may have no key: a table has none";
    if (is_pair && !bytes_equal(names[0], BYTES("call")))
        return "has a / in the name of a table; a function is call/FUNCTION";
    if (names[is_pair].size == 0)
        return is_pair ? "names no function" : "names no table";
    return NULL;
}

static void inbox_statement_init(struct inbox_statement *statement)
{
    buffer_init(&statement->sql);
    buffer_init(&statement->headers);
    buffer_init(&statement->event);
}

static void inbox_statement_deinit(struct inbox_statement *statement)
{
    buffer_deinit(&statement->sql);
    buffer_deinit(&statement->headers);
    buffer_deinit(&statement->event);
}

/* ---- settings ---- */

static struct postgres_setup inbox_setup(const struct inbox *inbox)
{
    return (struct postgres_setup){.uri = inbox->settings->url->text,
                                   .name = inbox->settings->client_name,
                                   .connect_ms = inbox->settings->connect_timeout_ms,
                                   .answer_ms = ANSWER_MS,
                                   .cancels = true};
}

static void inbox_destroy(void *client)
{
    struct inbox *inbox = client;

    inbox_statement_deinit(&inbox->statement);
    free(inbox);
}

static enum error_code inbox_create(const struct broker_settings *settings, void **ret_client,
                                    struct error *ret_error)
{
    struct inbox *inbox = calloc(1, sizeof(*inbox));

    if (!inbox)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    inbox->settings = settings;
    /* Messages that timed out stay until their answer, so there is room for twice the limit. */
    inbox->row_max = 2 * (size_t)settings->inflight_max;
    inbox_statement_init(&inbox->statement);
    for (size_t i = 0; i < LANES; i++) {
        list_init(&inbox->lanes[i].steps);
        list_init(&inbox->lanes[i].answered);
        list_init(&inbox->lanes[i].fresh);
        list_init(&inbox->lanes[i].again);
    }
    const struct postgres_setup setup = inbox_setup(inbox);
    struct postgres_connection probe;
    const enum error_code code = postgres_connection_open(&probe, &setup, ret_error);
    if (code) {
        inbox_destroy(inbox);
        return code;
    }
    postgres_connection_close(&probe);
    *ret_client = inbox;
    return ERROR_NONE;
}

/* ---- the connections ---- */

static void inbox_free_steps(struct list *steps)
{
    for (struct list *link; (link = list_pop(steps));)
        free(list_item(link, struct inbox_step, link));
}

static void inbox_disconnect(void *client)
{
    struct inbox *inbox = client;

    for (size_t i = 0; i < LANES; i++) {
        struct inbox_lane *lane = &inbox->lanes[i];

        if (inbox->is_connected)
            postgres_connection_close(&lane->connection);
        inbox_free_steps(&lane->steps);
        inbox_free_steps(&lane->answered);
        inbox_free_steps(&lane->fresh);
        inbox_free_steps(&lane->again);
        lane->commits = 0;
    }
    inbox->is_connected = false;
    inbox->lost = NULL;
    inbox->row_count = 0;
}

/* Waits until an event of a connection, `wake_fd`, or the time. Returns false if the system
 * refuses. */
static bool inbox_poll(const struct inbox *inbox, int wake_fd, int timeout_ms)
{
    struct pollfd polled[LANES + 1] = {{.fd = wake_fd, .events = POLLIN}};
    const struct instant now = instant_now();

    for (size_t i = 0; i < LANES; i++) {
        const struct postgres_connection *connection = &inbox->lanes[i].connection;
        const struct instant wake_at = postgres_connection_wake_at(connection);

        polled[i + 1] = (struct pollfd){.fd = postgres_connection_fd(connection),
                                        .events = postgres_connection_events(connection)};
        if (wake_at.ns == UINT64_MAX)
            continue;
        const uint64_t wait_ms = instant_since_ns(now, wake_at) / 1000000 + 1;
        if (timeout_ms < 0 || wait_ms < (uint64_t)timeout_ms)
            timeout_ms = (int)wait_ms;
    }
    return poll(polled, LANES + 1, timeout_ms) >= 0 || errno == EINTR;
}

static enum error_code inbox_connect(void *client, struct error *ret_error)
{
    struct inbox *inbox = client;
    const struct postgres_setup setup = inbox_setup(inbox);
    const struct instant until = instant_add_ms(instant_now(), setup.connect_ms);

    for (size_t i = 0; i < LANES; i++)
        postgres_connection_open(&inbox->lanes[i].connection, &setup, NULL);
    inbox->is_connected = true;
    for (;;) {
        const struct postgres_connection *missing = NULL;

        for (size_t i = 0; i < LANES; i++) {
            struct inbox_lane *lane = &inbox->lanes[i];

            if (postgres_connection_turn(&lane->connection))
                lane->generation = lane->connection.generation;
            else
                missing = &lane->connection;
        }
        if (!missing)
            return ERROR_NONE;
        const struct instant now = instant_now();
        if (now.ns >= until.ns ||
            !inbox_poll(inbox, -1, (int)(instant_since_ns(now, until) / 1000000) + 1)) {
            error_set(ret_error, ERROR_IO, "%.190s",
                      *missing->cause ? missing->cause : "the server does not answer");
            inbox_disconnect(inbox);
            return ERROR_IO;
        }
    }
}

/* ---- statements ---- */

/* Sends the statement and adds the step to those under way, or frees it. */
static void inbox_send(struct inbox *inbox, struct inbox_lane *lane, struct inbox_step *step,
                       const char *sql)
{
    if (!step) {
        inbox->lost = "out of memory";
        return;
    }
    const struct postgres_query query = {
        .sql = sql, .values = step->values, .value_count = step->value_count};

    list_push(&lane->steps, &step->link);
    /* A failure breaks the connection, which the next turn reports. */
    postgres_connection_send(&lane->connection, &query, NULL);
}

static void inbox_send_plain(struct inbox *inbox, struct inbox_lane *lane, enum step_kind kind,
                             const char *sql)
{
    struct inbox_step *step = calloc(1, sizeof(*step));

    if (step)
        step->kind = kind;
    inbox_send(inbox, lane, step, sql);
}

/* Sends the rows as one transaction, and empties the list. */
static void inbox_transact(struct inbox *inbox, struct inbox_lane *lane, struct list *rows)
{
    inbox_send_plain(inbox, lane, STEP_SETUP, "BEGIN");
    inbox_send_plain(inbox, lane, STEP_SETUP,
                     lane == &inbox->lanes[1] ? setup_call_sql : setup_sql);
    for (struct list *link; (link = list_pop(rows));) {
        struct inbox_step *step = list_item(link, struct inbox_step, link);

        inbox_send(inbox, lane, step, step->sql);
    }
    inbox_send_plain(inbox, lane, STEP_COMMIT, "COMMIT");
    lane->commits++;
}

/* Sends each row as a transaction of its own, and empties the list. */
static void inbox_transact_each(struct inbox *inbox, struct inbox_lane *lane, struct list *rows)
{
    for (struct list *link; (link = list_pop(rows));) {
        struct list one;

        list_init(&one);
        list_push(&one, link);
        inbox_transact(inbox, lane, &one);
    }
}

/* Sends what may be sent. Rows that come while transactions are under way wait, and are one. */
static void inbox_send_waiting(struct inbox *inbox, struct inbox_lane *lane)
{
    inbox_transact_each(inbox, lane, &lane->again);
    if (lane == &inbox->lanes[1])
        inbox_transact_each(inbox, lane, &lane->fresh);
    else if (lane->commits < COMMITS_MAX && !list_is_empty(&lane->fresh))
        inbox_transact(inbox, lane, &lane->fresh);
}

static const char *inbox_field(const struct broker_message *message, const char *name)
{
    for (size_t i = message->field_count; i-- > 0;)
        if (!strcmp(message->fields[i].name, name))
            return message->fields[i].value.data;
    return "";
}

/* Writes the fields as an object. Those before the fixed ones are the timer's own. */
static void inbox_write_headers(struct buffer *out, const char *name,
                                const struct broker_message *message)
{
    json_open(out, name, '{');
    for (size_t i = 0; i < message->field_count; i++)
        json_put_pair(out, bytes_of(message->fields[i].name), message->fields[i].value);
    json_close(out, '}');
}

static struct postgres_value inbox_text(struct bytes text)
{
    return (struct postgres_value){POSTGRES_TEXT, text.size ? text : (struct bytes){NULL, 0}};
}

/* A text that the server reads as the type that its place in the statement has. */
static struct postgres_value inbox_read(struct bytes text)
{
    return (struct postgres_value){POSTGRES_READ, text};
}

static void inbox_write_row(struct inbox_statement *statement, const struct broker_message *message)
{
    const struct bytes nothing = {NULL, 0};
    struct postgres_value *values = statement->values;

    buffer_append_text(&statement->sql, "INSERT INTO ");
    sql_name_append(&statement->sql, message->names[0]);
    buffer_append_text(&statement->sql,
                       " (webhook_id, due, attempt, key, headers, payload, body)"
                       " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (webhook_id) DO NOTHING");
    inbox_write_headers(&statement->headers, NULL, message);
    values[0] = inbox_text(bytes_of(message->id));
    values[1] = inbox_read(bytes_of(inbox_field(message, "tickwheel-due")));
    values[2] = inbox_read(bytes_of(inbox_field(message, "tickwheel-attempt")));
    values[3] = inbox_text(message->timer_key);
    values[4] = inbox_read(buffer_bytes(&statement->headers));
    values[5] = inbox_read(message->is_json && message->payload.size ? message->payload : nothing);
    values[6] = postgres_bytea(message->payload);
    if (message->is_json)
        values[6].bytes = nothing;
    statement->value_count = VALUES;
}

static void inbox_write_call(struct inbox_statement *statement,
                             const struct broker_message *message)
{
    struct buffer *event = &statement->event;

    buffer_append_text(&statement->sql,
                       "WITH first AS (INSERT INTO tickwheel.called (webhook_id) VALUES ($1)"
                       " ON CONFLICT (webhook_id) DO NOTHING RETURNING webhook_id) SELECT ");
    sql_name_append(&statement->sql, message->names[1]);
    buffer_append_text(&statement->sql, "($2::jsonb) IS NULL FROM first");
    json_open(event, NULL, '{');
    json_put_text(event, "webhook_id", message->id);
    json_put_text(event, "due", inbox_field(message, "tickwheel-due"));
    json_put_raw(event, "attempt", bytes_of(inbox_field(message, "tickwheel-attempt")));
    json_put_some(event, "key", message->timer_key);
    inbox_write_headers(event, "headers", message);
    if (message->is_json) {
        json_put_some_raw(event, "payload", message->payload);
    } else {
        json_put_name(event, "body_base64");
        buffer_append_text(event, "\"");
        base64_append(event, message->payload);
        buffer_append_text(event, "\"");
    }
    json_close(event, '}');
    statement->values[0] = inbox_text(bytes_of(message->id));
    statement->values[1] = inbox_text(buffer_bytes(event));
    statement->value_count = 2;
}

/* Returns false if out of memory. */
static bool inbox_statement_write(struct inbox_statement *statement,
                                  const struct broker_message *message)
{
    buffer_clear(&statement->sql);
    buffer_clear(&statement->headers);
    buffer_clear(&statement->event);
    statement->is_call = message->names[1].data != NULL;
    if (statement->is_call)
        inbox_write_call(statement, message);
    else
        inbox_write_row(statement, message);
    return !buffer_failed(&statement->sql) && !buffer_failed(&statement->headers) &&
           !buffer_failed(&statement->event);
}

/* Copies the statement and its values, each with a NUL behind it. */
static struct inbox_step *inbox_copy(const struct inbox_statement *statement)
{
    const struct buffer *sql = &statement->sql;
    const struct postgres_value *values = statement->values;
    const size_t count = statement->value_count;
    size_t size = sizeof(struct inbox_step) + sql->size + 1;

    for (size_t i = 0; i < count; i++)
        size += values[i].bytes.size + 1;
    struct inbox_step *step = malloc(size);
    if (!step)
        return NULL;
    *step = (struct inbox_step){.kind = STEP_ROW, .value_count = count};
    char *to = (char *)(step + 1);
    step->sql = memcpy(to, sql->data, sql->size);
    to += sql->size;
    *to++ = '\0';
    for (size_t i = 0; i < count; i++) {
        step->values[i] = values[i];
        if (!values[i].bytes.data)
            continue;
        step->values[i].bytes.data = memcpy(to, values[i].bytes.data, values[i].bytes.size);
        to += values[i].bytes.size;
        *to++ = '\0';
    }
    return step;
}

static bool inbox_publish(void *client, uint64_t ticket, const struct broker_message *message)
{
    struct inbox *inbox = client;
    struct inbox_statement *statement = &inbox->statement;

    if (inbox->row_count == inbox->row_max)
        return false;
    struct inbox_step *step =
        inbox_statement_write(statement, message) ? inbox_copy(statement) : NULL;
    if (!step) {
        broker_outcome(inbox->settings->sink, ticket, DELIVERY_FAILED, "out of memory");
        return true;
    }
    step->ticket = ticket;
    step->is_call = statement->is_call;
    inbox->row_count++;
    list_push(&inbox->lanes[step->is_call].fresh, &step->link);
    return true;
}

/* Out of memory the message is missing in its transaction, which then fails. */
static void inbox_stage(struct log_once *once, size_t index, const struct broker_message *message)
{
    struct inbox_statement statement;

    inbox_statement_init(&statement);
    struct inbox_step *step =
        inbox_statement_write(&statement, message) ? inbox_copy(&statement) : NULL;
    if (step) {
        const struct postgres_query query = {
            .sql = step->sql, .values = step->values, .value_count = step->value_count};

        log_postgres_once_put(once, index, &query, statement.is_call);
    }
    free(step);
    inbox_statement_deinit(&statement);
}

/* ---- answers ---- */

static void inbox_note(struct inbox *inbox, struct inbox_step *step, const PGresult *result)
{
    struct error error;

    step->result = DELIVERY_DONE;
    if (!postgres_result_check(result, &error))
        return;
    snprintf(step->error, sizeof(step->error), "%.150s", error.text);
    step->is_aborted = postgres_result_is(result, "25P02");
    /* everything that a function raises may be cured */
    step->is_locked = !step->is_call &&
                      (postgres_result_is(result, "55P03") || postgres_result_is(result, "57014"));
    step->result =
        !step->is_call && postgres_result_is_final(result) ? DELIVERY_ENDED : DELIVERY_FAILED;
    if (postgres_result_is(result, "25006")) /* a standby now */
        inbox->lost = "the server is read only";
}

static void inbox_settle(struct inbox *inbox, struct inbox_step *step)
{
    inbox->row_count--;
    broker_outcome(inbox->settings->sink, step->ticket, step->result, step->error);
    free(step);
}

/* Lets the aborted rows fail that go to the table that was locked: each would wait for it again. */
static void inbox_fail_locked(struct inbox_lane *lane)
{
    const struct inbox_step *locked = NULL;

    LIST_FOR_EACH (&lane->answered, link) {
        struct inbox_step *step = list_item(link, struct inbox_step, link);

        if (step->is_locked) {
            locked = step;
        } else if (locked && step->is_aborted && !strcmp(step->sql, locked->sql)) {
            step->is_aborted = false;
            step->result = DELIVERY_FAILED;
            memcpy(step->error, locked->error, sizeof(step->error));
        }
    }
}

/* Ends the transaction of the answered rows: its commit has this answer. */
static void inbox_end_transaction(struct inbox *inbox, struct inbox_lane *lane, PGresult *result)
{
    struct error error = {.text = "rolled back"};
    /* the commit of a failed transaction is answered by ROLLBACK, without an error */
    const bool is_stored =
        !postgres_result_check(result, &error) && !strcmp(PQcmdStatus(result), "COMMIT");
    lane->commits--;
    const bool is_alone = lane->answered.next == lane->answered.prev;

    inbox_fail_locked(lane);
    for (struct list *link; (link = list_pop(&lane->answered));) {
        struct inbox_step *step = list_item(link, struct inbox_step, link);
        const bool is_refused = step->result != DELIVERY_DONE && !step->is_aborted;

        if (is_stored || is_refused) {
            inbox_settle(inbox, step);
        } else if (!is_alone) {
            *step->error = '\0';
            step->is_aborted = false;
            list_push(&lane->again, &step->link);
        } else { /* the commit was refused, for instance by a deferred constraint */
            step->result = DELIVERY_FAILED;
            snprintf(step->error, sizeof(step->error), "%.150s", error.text);
            inbox_settle(inbox, step);
        }
    }
}

static void inbox_answer(struct inbox *inbox, struct inbox_lane *lane, PGresult *result)
{
    struct list *link = list_pop(&lane->steps);
    struct inbox_step *step = link ? list_item(link, struct inbox_step, link) : NULL;
    /* A function that warns does so before the answer to its row. */
    const bool has_warning = postgres_connection_take_warning(&lane->connection);

    if (!step) {
        inbox->lost = "the server answered more than was asked";
        return;
    }
    if (step->kind == STEP_ROW) {
        inbox_note(inbox, step, result);
        list_push(&lane->answered, &step->link);
        return;
    }
    if (step->kind == STEP_COMMIT && has_warning)
        inbox->lost = "committed without the standby";
    else if (step->kind == STEP_COMMIT)
        inbox_end_transaction(inbox, lane, result);
    else if (postgres_result_check(result, NULL))
        inbox->lost = "the server refuses transactions that write";
    free(step);
}

/* Moves the connection on. Returns ERROR_IO if it is lost. */
static enum error_code inbox_turn(struct inbox *inbox, struct inbox_lane *lane, bool *has_answers,
                                  struct error *ret_error)
{
    bool is_up;

    inbox_send_waiting(inbox, lane);
    is_up = postgres_connection_turn(&lane->connection) &&
            lane->connection.generation == lane->generation;
    for (PGresult *result;
         is_up && !inbox->lost && (result = postgres_connection_take(&lane->connection));) {
        inbox_answer(inbox, lane, result);
        PQclear(result);
        *has_answers = true;
    }
    inbox_send_waiting(inbox, lane);
    if (is_up && !inbox->lost)
        return ERROR_NONE;
    const char *cause = inbox->lost ? inbox->lost : lane->connection.cause;
    return error_set(ret_error, ERROR_IO, "%.190s", *cause ? cause : "the connection is lost");
}

static enum error_code inbox_wait(void *client, int wake_fd, int timeout_ms,
                                  struct error *ret_error)
{
    struct inbox *inbox = client;
    bool has_answers = false;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < LANES; i++)
            if (inbox_turn(inbox, &inbox->lanes[i], &has_answers, ret_error))
                return ERROR_IO;
        if (pass == 0 && !inbox_poll(inbox, wake_fd, has_answers ? 0 : timeout_ms))
            return error_set(ret_error, ERROR_IO, "the system refuses to wait");
    }
    return ERROR_NONE;
}

const struct broker_backend broker_postgres = {
    .scheme = "postgres",
    .version = inbox_version,
    .refusal = inbox_refusal,
    .create = inbox_create,
    .connect = inbox_connect,
    .publish = inbox_publish,
    .stage = inbox_stage,
    .wait = inbox_wait,
    .disconnect = inbox_disconnect,
    .destroy = inbox_destroy,
};
