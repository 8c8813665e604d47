/* postgres_connection.c - connections to PostgreSQL; see postgres_connection.h. */
#include "log/postgres/postgres_connection.h"

#include "sys/clock.h"
#include "sys/process.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POSTGRES_BACKOFF_MS_MIN = 50, /* pause after the first failure; each further one doubles it */
    POSTGRES_BACKOFF_MS_MAX = 1000,
    OPTION_COUNT = 64, /* options of libpq with a value */
    ARRAY_HEAD = 20,   /* bytes before the elements of an array */
};

/* ---- texts ---- */

/* Stores the first line of a text of libpq. Such texts name hosts, users and databases, but no
 * password. */
static void postgres_connection_note(struct postgres_connection *connection, const char *text)
{
    size_t size = strcspn(text, "\n");

    if (size >= sizeof(connection->cause))
        size = sizeof(connection->cause) - 1;
    memcpy(connection->cause, text, size);
    connection->cause[size] = '\0';
}

static void postgres_connection_on_notice(void *context, const PGresult *result)
{
    struct postgres_connection *connection = context;
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);

    if (severity && !strcmp(severity, "WARNING")) {
        connection->has_warning_ = true;
        postgres_connection_note(connection, PQresultErrorMessage(result));
    }
}

bool postgres_connection_take_warning(struct postgres_connection *connection)
{
    const bool has_warning = connection->has_warning_;

    connection->has_warning_ = false;
    return has_warning;
}

/* ---- hosts ---- */

static const char *postgres_option(const struct postgres_connection *connection, const char *name)
{
    for (const PQconninfoOption *option = connection->options_; option && option->keyword; option++)
        if (!strcmp(option->keyword, name))
            return option->val;
    return NULL;
}

/* Writes the list with its elements `first`, `first` + 1 and so on, then those before. libpq itself
 * begins with the first one after each time-out, although that one may be the silent one. */
static void postgres_rotate(const char *list, unsigned first, struct buffer *out)
{
    const struct bytes all = bytes_of(list);

    buffer_clear(out);
    for (unsigned pass = 0; pass < 2; pass++) {
        struct bytes rest = all;
        bool has_more = true;

        for (unsigned i = 0; has_more; i++) {
            const char *comma = memchr(rest.data, ',', rest.size);
            const struct bytes item = {rest.data, comma ? (size_t)(comma - rest.data) : rest.size};

            if ((i >= first) == (pass == 0)) {
                if (out->size > 0)
                    buffer_append_text(out, ",");
                buffer_append_bytes(out, item);
            }
            has_more = comma;
            if (comma)
                rest = (struct bytes){comma + 1, (size_t)(rest.data + rest.size - comma - 1)};
        }
    }
    buffer_append(out, "", 1);
}

static unsigned postgres_count(const char *list)
{
    unsigned count = 1;

    for (; list && *list; list++)
        count += *list == ',';
    return count;
}

/* ---- connecting ---- */

enum error_code postgres_connection_open(struct postgres_connection *connection,
                                         const struct postgres_setup *setup,
                                         struct error *ret_error)
{
    *connection = (struct postgres_connection){.setup_ = *setup};
    if (strncmp(setup->uri, "postgres://", 11) != 0 &&
        strncmp(setup->uri, "postgresql://", 13) != 0)
        return error_set(ret_error, ERROR_INVALID, "a URI postgres://... is needed");
    /* libpq's words would quote the URI */
    connection->options_ = PQconninfoParse(setup->uri, NULL);
    if (!connection->options_)
        return error_set(ret_error, ERROR_INVALID,
                         "libpq does not take the postgres:// URI: is a part of it not "
                         "percent-encoded, or a parameter unknown?");
    const unsigned hosts = postgres_count(postgres_option(connection, "host"));
    const unsigned addresses = postgres_count(postgres_option(connection, "hostaddr"));
    connection->host_count_ = hosts > addresses ? hosts : addresses;
    return ERROR_NONE;
}

/* ---- statements that are given up ---- */

/* A cancel, which a connection and a thread hold. */
struct postgres_cancel {
    PGcancel *request;
    atomic_uint holders;
};

static void postgres_cancel_leave(struct postgres_cancel *cancel)
{
    if (!cancel || atomic_fetch_sub(&cancel->holders, 1) > 1)
        return;
    PQfreeCancel(cancel->request);
    free(cancel);
}

static void *postgres_cancel_run(void *argument)
{
    struct postgres_cancel *cancel = argument;
    char error[256];

    PQcancel(cancel->request, error, sizeof(error));
    postgres_cancel_leave(cancel);
    return NULL;
}

/* Has the server cancel what the connection runs. libpq waits for the server meanwhile, which may
 * stand still, so a thread does it; while it has not ended the connection begins no other one. */
static void postgres_connection_cancel(struct postgres_connection *connection)
{
    struct postgres_cancel *cancel = connection->cancel_;
    pthread_t thread;

    if (cancel && atomic_load(&cancel->holders) > 1)
        return;
    postgres_cancel_leave(cancel);
    connection->cancel_ = cancel = calloc(1, sizeof(*cancel));
    if (!cancel)
        return;
    cancel->request = PQgetCancel(connection->client);
    atomic_init(&cancel->holders, 2);
    if (cancel->request && !thread_start(&thread, postgres_cancel_run, cancel, "tw-cancel"))
        pthread_detach(thread);
    else
        postgres_cancel_leave(cancel);
}

static void postgres_connection_drop(struct postgres_connection *connection)
{
    if (connection->setup_.cancels && connection->is_ready_ && connection->in_flight_ > 0)
        postgres_connection_cancel(connection);
    PQfinish(connection->client);
    connection->client = NULL;
    connection->is_ready_ = false;
    connection->in_flight_ = 0;
}

void postgres_connection_close(struct postgres_connection *connection)
{
    postgres_connection_drop(connection);
    postgres_cancel_leave(connection->cancel_);
    connection->cancel_ = NULL;
    PQconninfoFree(connection->options_);
    connection->options_ = NULL;
}

static void postgres_connection_fail(struct postgres_connection *connection)
{
    uint64_t pause_ms = POSTGRES_BACKOFF_MS_MIN;

    postgres_connection_drop(connection);
    for (unsigned i = 0; i < connection->failures_ && pause_ms < POSTGRES_BACKOFF_MS_MAX; i++)
        pause_ms *= 2;
    connection->failures_++;
    connection->host_ = (connection->host_ + 1) % connection->host_count_;
    /* other hosts are tried at once */
    if (connection->failures_ % connection->host_count_ != 0)
        pause_ms = 0;
    connection->again_at_ = instant_add_ms(
        instant_now(), pause_ms < POSTGRES_BACKOFF_MS_MAX ? pause_ms : POSTGRES_BACKOFF_MS_MAX);
}

void postgres_connection_break(struct postgres_connection *connection, const char *cause)
{
    postgres_connection_note(connection, cause);
    postgres_connection_fail(connection);
}

/* Adds an option unless the URI has it. */
static void postgres_default(const struct postgres_connection *connection, const char **keys,
                             const char **values, size_t *count, const char *key, const char *value)
{
    if (postgres_option(connection, key))
        return;
    keys[*count] = key;
    values[(*count)++] = value;
}

static void postgres_connection_begin(struct postgres_connection *connection)
{
    const char *keys[OPTION_COUNT + 16] = {NULL}, *values[OPTION_COUNT + 16] = {NULL};
    static const char *const rotated[] = {"host", "hostaddr", "port"};
    struct buffer lists[3];
    char silence_ms[24];
    size_t count = 0;

    for (const PQconninfoOption *option = connection->options_; option->keyword; option++)
        if (option->val && count < OPTION_COUNT) {
            keys[count] = option->keyword;
            values[count++] = option->val;
        }
    for (size_t i = 0; i < 3; i++) {
        const char *list = postgres_option(connection, rotated[i]);

        buffer_init(&lists[i]);
        if (!list || !strchr(list, ','))
            continue;
        postgres_rotate(list, connection->host_, &lists[i]);
        keys[count] = rotated[i]; /* the last value wins */
        values[count++] = lists[i].data;
    }
    snprintf(silence_ms, sizeof(silence_ms), "%llu",
             (unsigned long long)connection->setup_.answer_ms);
    postgres_default(connection, keys, values, &count, "fallback_application_name",
                     connection->setup_.name);
    postgres_default(connection, keys, values, &count, "tcp_user_timeout", silence_ms);
    postgres_default(connection, keys, values, &count, "keepalives_idle", "5");
    postgres_default(connection, keys, values, &count, "keepalives_interval", "2");
    postgres_default(connection, keys, values, &count, "keepalives_count", "3");
    keys[count] = "target_session_attrs";
    values[count++] = "read-write";
    keys[count] = "client_encoding"; /* all texts of ours are */
    values[count++] = "UTF8";
    bool failed = false;
    for (size_t i = 0; i < 3; i++)
        failed |= buffer_failed(&lists[i]);
    connection->client = failed ? NULL : PQconnectStartParams(keys, values, 0);
    for (size_t i = 0; i < 3; i++)
        buffer_deinit(&lists[i]);
    connection->wants_ = PGRES_POLLING_WRITING;
    connection->until_ = instant_add_ms(instant_now(), connection->setup_.connect_ms);
    if (connection->client && PQstatus(connection->client) != CONNECTION_BAD) {
        PQsetNoticeReceiver(connection->client, postgres_connection_on_notice, connection);
        return;
    }
    postgres_connection_break(connection, connection->client ? PQerrorMessage(connection->client)
                                                             : "out of memory");
}

static void postgres_connection_greet(struct postgres_connection *connection)
{
    if (PQsetnonblocking(connection->client, 1) || !PQenterPipelineMode(connection->client)) {
        postgres_connection_break(connection, PQerrorMessage(connection->client));
        return;
    }
    connection->is_ready_ = true;
    connection->generation++;
    connection->has_warning_ = false;
}

/* Returns whether the descriptor has the events that libpq waits for: PQconnectPoll may block
 * before. */
static bool postgres_connection_is_due(const struct postgres_connection *connection)
{
    struct pollfd fd = {.fd = PQsocket(connection->client),
                        .events = connection->wants_ == PGRES_POLLING_READING ? POLLIN : POLLOUT};

    return poll(&fd, 1, 0) > 0;
}

static void postgres_connection_connect(struct postgres_connection *connection)
{
    while (connection->client && !connection->is_ready_ && postgres_connection_is_due(connection)) {
        connection->wants_ = PQconnectPoll(connection->client);
        if (connection->wants_ == PGRES_POLLING_OK)
            postgres_connection_greet(connection);
        else if (connection->wants_ == PGRES_POLLING_FAILED)
            postgres_connection_break(connection, PQerrorMessage(connection->client));
    }
}

bool postgres_connection_turn(struct postgres_connection *connection)
{
    const struct instant now = instant_now();

    if (!connection->client) {
        if (now.ns < connection->again_at_.ns)
            return false;
        postgres_connection_begin(connection);
    }
    if (!connection->client)
        return false;
    if (!connection->is_ready_) {
        postgres_connection_connect(connection);
        if (connection->client && !connection->is_ready_ && now.ns >= connection->until_.ns)
            postgres_connection_break(connection, "the server does not answer");
        return connection->is_ready_;
    }
    if (PQflush(connection->client) < 0 || !PQconsumeInput(connection->client))
        postgres_connection_break(connection, PQerrorMessage(connection->client));
    else if (PQstatus(connection->client) == CONNECTION_BAD)
        postgres_connection_break(connection, "the connection was closed");
    else if (connection->in_flight_ > 0 && now.ns >= connection->until_.ns &&
             PQisBusy(connection->client))
        postgres_connection_break(connection, "the server does not answer");
    return connection->is_ready_;
}

int postgres_connection_fd(const struct postgres_connection *connection)
{
    return connection->client ? PQsocket(connection->client) : -1;
}

short postgres_connection_events(const struct postgres_connection *connection)
{
    if (!connection->client)
        return 0;
    if (!connection->is_ready_)
        return connection->wants_ == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    return (short)(POLLIN | (PQflush(connection->client) > 0 ? POLLOUT : 0));
}

struct instant postgres_connection_wake_at(const struct postgres_connection *connection)
{
    if (!connection->client)
        return connection->again_at_;
    if (!connection->is_ready_ || connection->in_flight_ > 0)
        return connection->until_;
    return (struct instant){UINT64_MAX};
}

/* ---- queries ---- */

enum error_code postgres_connection_send(struct postgres_connection *connection,
                                         const struct postgres_query *query,
                                         struct error *ret_error)
{
    Oid types[POSTGRES_VALUES_MAX];
    const char *values[POSTGRES_VALUES_MAX];
    int sizes[POSTGRES_VALUES_MAX], formats[POSTGRES_VALUES_MAX];

    assert(query->value_count <= POSTGRES_VALUES_MAX);
    if (!connection->is_ready_)
        return error_set(ret_error, ERROR_IO, "%.190s",
                         *connection->cause ? connection->cause : "not connected");
    for (size_t i = 0; i < query->value_count; i++) {
        types[i] = query->values[i].type;
        values[i] = query->values[i].bytes.data;
        sizes[i] = (int)query->values[i].bytes.size;
        formats[i] = types[i] != POSTGRES_READ;
    }
    const int count = (int)query->value_count;
    const bool is_sent =
        query->is_prepared
            ? PQsendQueryPrepared(connection->client, query->sql, count, values, sizes, formats, 1)
            : PQsendQueryParams(connection->client, query->sql, count, types, values, sizes,
                                formats, 1);
    if (!is_sent || !PQpipelineSync(connection->client)) {
        postgres_connection_break(connection, PQerrorMessage(connection->client));
        return error_set(ret_error, ERROR_IO, "%.190s", connection->cause);
    }
    if (connection->in_flight_++ == 0)
        connection->until_ = instant_add_ms(instant_now(), connection->setup_.answer_ms);
    return ERROR_NONE;
}

static void postgres_connection_answered(struct postgres_connection *connection)
{
    connection->in_flight_--;
    connection->failures_ = 0;
    if (!connection->has_warning_)
        *connection->cause = '\0';
    connection->until_ = instant_add_ms(instant_now(), connection->setup_.answer_ms);
}

PGresult *postgres_connection_take(struct postgres_connection *connection)
{
    bool was_empty = false;

    while (connection->is_ready_ && connection->in_flight_ > 0 && !PQisBusy(connection->client)) {
        PGresult *result = PQgetResult(connection->client);

        if (!result && was_empty)
            return NULL;
        was_empty = !result;
        if (!result) /* between the answer of a query and that of its sync */
            continue;
        switch (PQresultStatus(result)) {
        case PGRES_PIPELINE_SYNC:
            PQclear(result);
            break;
        case PGRES_PIPELINE_ABORTED: /* its own answer came before */
            PQclear(result);
            break;
        default:
            if (PQstatus(connection->client) == CONNECTION_BAD) {
                postgres_connection_break(connection, PQresultErrorMessage(result));
                PQclear(result);
                return NULL;
            }
            postgres_connection_answered(connection);
            return result;
        }
    }
    return NULL;
}

/* Waits for the descriptor or the time, whichever is first. */
static void postgres_connection_wait(const struct postgres_connection *connection,
                                     struct instant until)
{
    struct pollfd fd = {.fd = postgres_connection_fd(connection),
                        .events = postgres_connection_events(connection)};
    const struct instant wake_at = postgres_connection_wake_at(connection);
    const struct instant end = wake_at.ns < until.ns ? wake_at : until;
    const uint64_t wait_ms = instant_since_ns(instant_now(), end) / 1000000 + 1;

    poll(&fd, fd.fd < 0 ? 0 : 1, (int)(wait_ms < 1000 ? wait_ms : 1000));
}

enum error_code postgres_connection_await_ready(struct postgres_connection *connection,
                                                struct error *ret_error)
{
    const struct instant until =
        instant_add_ms(instant_now(), connection->setup_.connect_ms * connection->host_count_);

    while (!postgres_connection_turn(connection)) {
        if (instant_now().ns >= until.ns)
            return error_set(ret_error, ERROR_IO, "%.190s", connection->cause);
        postgres_connection_wait(connection, until);
    }
    return ERROR_NONE;
}

enum error_code postgres_connection_await(struct postgres_connection *connection,
                                          unsigned generation, struct instant until,
                                          PGresult **ret_result, struct error *ret_error)
{
    for (;;) {
        if (!postgres_connection_turn(connection) || connection->generation != generation)
            return error_set(ret_error, ERROR_IO, "%.190s", connection->cause);
        *ret_result = postgres_connection_take(connection); /* before the wait: a turn reads all */
        if (*ret_result)
            return ERROR_NONE;
        if (instant_now().ns >= until.ns)
            return error_set(ret_error, ERROR_IO, "the server did not answer in time");
        postgres_connection_wait(connection, until);
    }
}

enum error_code postgres_connection_ask_all(struct postgres_connection *connection,
                                            const struct postgres_query *queries, size_t count,
                                            PGresult **ret_results, struct error *ret_error)
{
    enum error_code code = postgres_connection_await_ready(connection, ret_error),
                    refused = ERROR_NONE;
    const unsigned generation = connection->generation;

    for (size_t i = 0; i < count; i++)
        ret_results[i] = NULL;
    for (size_t i = 0; i < count && !code; i++)
        code = postgres_connection_send(connection, &queries[i], ret_error);
    for (size_t i = 0; i < count && !code; i++) {
        code = postgres_connection_await(connection, generation, (struct instant){UINT64_MAX},
                                         &ret_results[i], ret_error);
        if (!code && !refused)
            refused = postgres_result_check(ret_results[i], ret_error);
    }
    for (size_t i = 0; i < count && (code || refused); i++) {
        PQclear(ret_results[i]);
        ret_results[i] = NULL;
    }
    return code ? code : refused;
}

enum error_code postgres_connection_ask(struct postgres_connection *connection,
                                        const struct postgres_query *query, PGresult **ret_result,
                                        struct error *ret_error)
{
    PGresult *result;
    const enum error_code code =
        postgres_connection_ask_all(connection, query, 1, &result, ret_error);

    if (!code && ret_result)
        *ret_result = result;
    else
        PQclear(result);
    return code;
}

void postgres_connection_set_cancels(struct postgres_connection *connection, bool cancels)
{
    connection->setup_.cancels = cancels;
}

bool postgres_connection_take_notice(struct postgres_connection *connection)
{
    bool has_any = false;

    for (PGnotify *notice; connection->is_ready_ && (notice = PQnotifies(connection->client));) {
        has_any = true;
        PQfreemem(notice);
    }
    return has_any;
}

/* ---- results ---- */

enum error_code postgres_result_check(const PGresult *result, struct error *ret_error)
{
    const ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
        return ERROR_NONE;
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    return error_set(ret_error, ERROR_IO, "%.190s", text ? text : PQresStatus(status));
}

bool postgres_result_is(const PGresult *result, const char *sqlstate)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    return state && !strcmp(state, sqlstate);
}

bool postgres_result_is_final(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    return state && (!strncmp(state, "22", 2) || !strncmp(state, "54", 2) ||
                     !strcmp(state, "23502") || !strcmp(state, "23514"));
}

uint64_t postgres_result_u64(const PGresult *result, int row, int column)
{
    const struct bytes bytes = postgres_result_bytes(result, row, column);

    return bytes.size <= 8 ? get_be(bytes.data, bytes.size) : 0;
}

struct bytes postgres_result_bytes(const PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column))
        return (struct bytes){"", 0};
    return (struct bytes){PQgetvalue(result, row, column),
                          (size_t)PQgetlength(result, row, column)};
}

/* ---- values ---- */

struct postgres_value postgres_u64(uint64_t number, char *room)
{
    put_be(room, number, 8);
    return (struct postgres_value){POSTGRES_INT8, {room, 8}};
}

struct postgres_value postgres_text(const char *text)
{
    return (struct postgres_value){POSTGRES_TEXT, bytes_of(text)};
}

struct postgres_value postgres_bytea(struct bytes bytes)
{
    return (struct postgres_value){POSTGRES_BYTEA, bytes.data ? bytes : BYTES("")};
}

static void postgres_array_be(struct buffer *buffer, uint64_t value, size_t width)
{
    char room[8];

    put_be(room, value, width);
    buffer_append(buffer, room, width);
}

void postgres_array_begin(struct buffer *buffer, enum postgres_type element, size_t count)
{
    buffer_clear(buffer);
    postgres_array_be(buffer, 1, 4); /* dimensions */
    postgres_array_be(buffer, 0, 4); /* no element is NULL */
    postgres_array_be(buffer, element, 4);
    postgres_array_be(buffer, count, 4);
    postgres_array_be(buffer, 1, 4); /* index of the first */
}

void postgres_array_u64(struct buffer *buffer, uint64_t number)
{
    postgres_array_be(buffer, 8, 4);
    postgres_array_be(buffer, number, 8);
}

void postgres_array_bytes(struct buffer *buffer, struct bytes bytes)
{
    postgres_array_be(buffer, bytes.size, 4);
    buffer_append_bytes(buffer, bytes);
}

struct postgres_value postgres_array_value(const struct buffer *buffer, enum postgres_type element)
{
    assert(buffer_failed(buffer) || buffer->size >= ARRAY_HEAD);
    return (struct postgres_value){element == POSTGRES_INT8 ? POSTGRES_INT8_ARRAY
                                                            : POSTGRES_BYTEA_ARRAY,
                                   buffer_bytes(buffer)};
}
