/*
 * postgres_connection.h - a connection to a PostgreSQL server. Every connection of this program is
 * set up, asked and closed here.
 *
 *     const struct postgres_setup setup = {.uri = "postgres://timers@db1,db2/timers", ...};
 *     postgres_connection_open(&connection, &setup, &error);      no I/O yet
 *     for (;;) {
 *         if (postgres_connection_turn(&connection) && !is_sent)
 *             postgres_connection_send(&connection, &query, &error);
 *         while ((result = postgres_connection_take(&connection)))
 *             ...;
 *         poll(postgres_connection_fd(&connection), postgres_connection_events(&connection), ...);
 *     }
 *     postgres_connection_close(&connection);
 *
 * A connection by itself uses nothing that lives longer than a transaction (prepared statements,
 * settings), so a pooler that gives servers for one transaction may be in between. A caller that
 * prepares statements must know that there is none.
 *
 * Of several hosts in the URI the first that accepts writes is taken. A connection that breaks, or
 * does not answer in time, is made again by postgres_connection_turn, with growing pauses. What was
 * in flight then has no result: the caller compares `generation`.
 *
 * Time       CLOCK_MONOTONIC.
 * Errors     ERROR_INVALID for a URI that libpq does not take, without any part of it; ERROR_IO for
 *            the rest, in words without a password.
 * Ownership  The setup's texts are borrowed until the close. Results belong to the caller: PQclear.
 * Threads    One owner for each connection.
 */
#ifndef TICKWHEEL_LOG_POSTGRES_POSTGRES_CONNECTION_H
#define TICKWHEEL_LOG_POSTGRES_POSTGRES_CONNECTION_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"

#include <libpq-fe.h>

/* Types of values, by the numbers that every server has. */
enum postgres_type {
    POSTGRES_READ = 0, /* text, which the server reads as the type that its place has */
    POSTGRES_BYTEA = 17,
    POSTGRES_INT8 = 20,
    POSTGRES_TEXT = 25,
    POSTGRES_BYTEA_ARRAY = 1001,
    POSTGRES_INT8_ARRAY = 1016,
};

/* A value in the binary format of its type. A READ has a NUL behind it. */
struct postgres_value {
    enum postgres_type type;
    struct bytes bytes; /* the text itself for TEXT; data is NULL for the SQL value NULL */
};

enum { POSTGRES_VALUES_MAX = 8 };

struct postgres_query {
    const char *sql; /* one statement, which names its values $1, $2 and so on */
    const struct postgres_value *values;
    size_t value_count; /* at most POSTGRES_VALUES_MAX */
    bool is_prepared;   /* sql is the name of a statement that the session has prepared */
};

struct postgres_setup {
    const char *uri;     /* postgres://user@host:port,host:port/database?sslmode=... */
    const char *name;    /* application_name, unless the URI has one */
    uint64_t connect_ms; /* time limit for a connection to one host */
    uint64_t answer_ms;  /* time limit for each answer */
    /* A statement without an answer is cancelled when its connection is given up: while it waits,
     * for a lock or for a standby, the server does not notice that. */
    bool cancels;
};

/* All 0 before the first open. */
struct postgres_connection {
    PGconn *client;      /* NULL if there is none */
    unsigned generation; /* number of connections that were made; it changes with each */
    char cause[200];     /* last error of a connection; empty after an answer */
    struct postgres_setup setup_;
    struct postgres_cancel *cancel_; /* the last cancel that was sent; NULL if there was none */
    PQconninfoOption *options_;
    unsigned host_count_, host_; /* number of hosts in the URI; the one that is tried first */
    bool is_ready_, is_polled_;  /* connected; PQconnectPoll waits for the descriptor */
    PostgresPollingStatusType wants_;
    unsigned in_flight_, failures_;
    bool has_warning_;
    struct instant until_; /* time limit of the connect, or of the answer */
    struct instant again_at_;
};

/* Checks the URI. Connects at the first turn. */
enum error_code postgres_connection_open(struct postgres_connection *connection,
                                         const struct postgres_setup *setup,
                                         struct error *ret_error);

/* Closes it. Fine for a closed one. */
void postgres_connection_close(struct postgres_connection *connection);

/* Moves on without waiting: connects, sends, reads. Returns true if queries can be sent. */
bool postgres_connection_turn(struct postgres_connection *connection);

/* Descriptor and events (POLLIN, POLLOUT) for poll; -1 and 0 if only time helps. */
int postgres_connection_fd(const struct postgres_connection *connection);
short postgres_connection_events(const struct postgres_connection *connection);

/* Returns when a turn is due although the descriptor has no events. */
struct instant postgres_connection_wake_at(const struct postgres_connection *connection);

/* Sends the query. Any number may be in flight; the answers keep their order. Each query is a
 * transaction of its own. */
enum error_code postgres_connection_send(struct postgres_connection *connection,
                                         const struct postgres_query *query,
                                         struct error *ret_error);

/* Returns the next answer, or NULL if there is none yet. Rows are in binary format. */
PGresult *postgres_connection_take(struct postgres_connection *connection);

/* Waits until queries can be sent, connecting for at most connect_ms times the number of hosts. */
enum error_code postgres_connection_await_ready(struct postgres_connection *connection,
                                                struct error *ret_error);

/* Waits until `until` for the next answer of this generation's connection, and at most for
 * answer_ms, after which the connection is broken. */
enum error_code postgres_connection_await(struct postgres_connection *connection,
                                          unsigned generation, struct instant until,
                                          PGresult **ret_result, struct error *ret_error);

/* Sends the query and waits for its answer, at most answer_ms, connecting before for at most
 * connect_ms times the number of hosts. Nothing else may be in flight. A refused query fails with
 * the words of the server; `ret_result` may be NULL. If the answer is missing, the query may have
 * been carried out. */
enum error_code postgres_connection_ask(struct postgres_connection *connection,
                                        const struct postgres_query *query, PGresult **ret_result,
                                        struct error *ret_error);

/* Sends all queries at once and waits for their answers, like postgres_connection_ask. Each query
 * is a transaction of its own, which begins when the one before it has ended, refused or not. Fails
 * with the first error; then all of `ret_results` are NULL. */
enum error_code postgres_connection_ask_all(struct postgres_connection *connection,
                                            const struct postgres_query *queries, size_t count,
                                            PGresult **ret_results, struct error *ret_error);

/* Sets whether a statement without an answer is cancelled (postgres_setup). */
void postgres_connection_set_cancels(struct postgres_connection *connection, bool cancels);

/* Breaks the connection; the next turn makes another one. For a server that answers nonsense. */
void postgres_connection_break(struct postgres_connection *connection, const char *cause);

/* Returns whether the server warned since the last call. A warning with a commit means that it was
 * not replicated as the settings ask. */
bool postgres_connection_take_warning(struct postgres_connection *connection);

/* Returns whether a notification came since the last call (LISTEN; not behind a pooler). The turn
 * reads it. */
bool postgres_connection_take_notice(struct postgres_connection *connection);

/* Returns ERROR_NONE if the query was carried out. If not, the text is that of the server. */
enum error_code postgres_result_check(const PGresult *result, struct error *ret_error);

/* Returns whether the query was refused with this SQLSTATE, such as "23505". */
bool postgres_result_is(const PGresult *result, const char *sqlstate);

/* Returns whether the server will refuse the insert of such a row whenever it is sent: a value that
 * its column does not take, or a row that is too large. What a migration, a grant or other rows may
 * cure is not final. */
bool postgres_result_is_final(const PGresult *result);

/* Returns the value of a field; 0 and empty if it is NULL. */
uint64_t postgres_result_u64(const PGresult *result, int row, int column);
struct bytes postgres_result_bytes(const PGresult *result, int row, int column);

/* Makes a value of a number; `room` has 8 bytes and is borrowed. */
struct postgres_value postgres_u64(uint64_t number, char *room);
struct postgres_value postgres_text(const char *text);
struct postgres_value postgres_bytea(struct bytes bytes);

/* Begins an array in `buffer` and adds its elements; NULL is no element. postgres_array_value ends
 * it: the count must be that of the elements. */
void postgres_array_begin(struct buffer *buffer, enum postgres_type element, size_t count);
void postgres_array_u64(struct buffer *buffer, uint64_t number);
void postgres_array_bytes(struct buffer *buffer, struct bytes bytes);
struct postgres_value postgres_array_value(const struct buffer *buffer, enum postgres_type element);

#endif
