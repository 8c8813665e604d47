/*
 * outbox.c - reads the outbox of a PostgreSQL database (src/cli/postgres_outbox.sql).
 *
 * One daemon at a time reads: the row of tickwheel.reader names it for a while, and its epoch rises
 * with each reader, so that one that lost its place deletes nothing more. Nodes of a cluster take
 * the place of each other at once, because they share the ledger (source.h).
 *
 * A batch is the first rows that are visible, by id. There is no lowest id to begin with: a
 * transaction that commits late has lower ids than others that were taken before. Taken rows are
 * deleted before the next batch is read, as the ledger of the engine needs it; both queries are
 * sent together.
 *
 * While there are no rows the reader waits for NOTIFY. A writer sends it only if the reader sleeps,
 * which it shows by an exclusive lock that each writer asks for, shared, until its commit. The
 * reader gets the lock when no writer is left, and then looks once more: so no row is missed.
 * Behind a pooler sessions are nobody's, so it polls, with growing pauses, and prepares no
 * statements.
 */
#include "source/source.h"

#include "api/json/problem.h"
#include "base/json_write.h"
#include "log/postgres/postgres_connection.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OUTBOX_VERSION = 1, /* of the schema */
    OUTBOX_CONNECT_MS = 5000,
    OUTBOX_ANSWER_MS = 10000,
    OUTBOX_RENEW_MS = 5000, /* a third of the time for which a reader is named */
    OUTBOX_SLEEP_MS = 5000, /* longest sleep with NOTIFY */
    OUTBOX_FEW = 64,        /* rows of a batch below which the next one waits for: */
    OUTBOX_POLL_MS_MIN = 1,
    OUTBOX_POLL_MS_MAX = 1500, /* longest pause without NOTIFY */
    OUTBOX_AWAKE_MS_MAX = 100, /* likewise, while a writer keeps the reader from sleeping */
    OUTBOX_ROOM_MS_MIN = 50,   /* pause while the node has no room, doubled by each further one */
    OUTBOX_ROOM_MS_MAX = 2000,
    OUTBOX_VACUUM_ROWS = 20000, /* rows between two runs of VACUUM, which are also apart by: */
    OUTBOX_VACUUM_MS = 5000,
    OUTBOX_VACUUM_SHARE = 20, /* and by this many times of what the last one took */
};

#define OUTBOX_STATEMENT_MS "9000"    /* below OUTBOX_ANSWER_MS */
#define OUTBOX_ROWS_MAX     "4000"    /* rows of a batch */
#define OUTBOX_BATCH_BYTES  "8388608" /* size of the bodies of a batch as they are stored */

/* The ledger knows a row by its id and 19 bits of the microseconds at which it was written: a
 * standby that takes the place of its primary may give out ids once more. */
#define OUTBOX_ID_BITS "44"
#define OUTBOX_ID_MASK ((UINT64_C(1) << 44) - 1)
#define OUTBOX_NUMBER                                                         \
    "(id | (((extract(epoch FROM written)::float8 * 1000000::float8)::bigint" \
    " & 524287::bigint) << " OUTBOX_ID_BITS "))"

/* Columns of the answer to OUTBOX_READ. */
enum { OUTBOX_ROW, OUTBOX_OP, OUTBOX_KEY, OUTBOX_BODY, OUTBOX_BYTES, OUTBOX_AGE_US };

enum outbox_then { OUTBOX_DELETE_ONLY, OUTBOX_READ_ON };

struct outbox_reader {
    struct source_thread *source;
    struct source_rows *rows;
    struct postgres_connection connection;
    unsigned generation; /* of the connection in use */
    bool is_direct;      /* no pooler is between: LISTEN and locks work */
    bool is_asleep;      /* this session holds the lock of a sleeping reader */
    uint64_t epoch;      /* 0 if this is not the reader */
    struct instant renewed, vacuumed;
    uint64_t vacuum_rest_ms; /* time until the next VACUUM, after `vacuumed` */
    uint64_t deleted;        /* rows since the last VACUUM */
    bool is_long;            /* the last VACUUM left the table as long as it was */
    PGresult *next;          /* rows that were read and not taken; NULL if none were read */
    struct instant next_at;  /* time of that answer */
    struct buffer ids, refused, problems;
    struct error error;
};

/* The queries of a batch. Functions and types leave no choice that the search path could make:
 * other roles may have put functions there (postgres_outbox.sql). */
#define OUTBOX_SIZE "coalesce(pg_catalog.pg_column_size(body), 0)"
#define OUTBOX_READ                                                                         \
    "SELECT " OUTBOX_NUMBER ", op, key,"                                                    \
    " CASE WHEN octet_length(body::text) <= $2 THEN body::text END,"                        \
    " octet_length(body::text)::bigint, greatest(0::float8,"                                \
    " extract(epoch FROM clock_timestamp() - written)::float8 * 1000000::float8)::bigint"   \
    " FROM (SELECT *, sum(" OUTBOX_SIZE ") OVER (ORDER BY id) AS before"                    \
    " FROM (SELECT * FROM tickwheel.outbox ORDER BY id LIMIT " OUTBOX_ROWS_MAX ") AS rows)" \
    " AS sized WHERE (before - " OUTBOX_SIZE ") < " OUTBOX_BATCH_BYTES                      \
    " AND EXISTS (SELECT FROM tickwheel.reader WHERE epoch = $1) ORDER BY id"
#define OUTBOX_DELETE                                 \
    "DELETE FROM tickwheel.outbox WHERE id = ANY($1)" \
    " AND EXISTS (SELECT FROM tickwheel.reader WHERE epoch = $2)" OUTBOX_DURABLE
/* A condition that is true. A commit that a crash could take back would bring rows back. */
#define OUTBOX_DURABLE                                                        \
    " AND (SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN" \
    " set_config('synchronous_commit', 'on', true) END) IS DISTINCT FROM ''"

static enum error_code outbox_ask(struct outbox_reader *outbox, const char *sql,
                                  const struct postgres_value *values, size_t count,
                                  PGresult **ret_result)
{
    const struct postgres_query query = {.sql = sql, .values = values, .value_count = count};

    return postgres_connection_ask(&outbox->connection, &query, ret_result, &outbox->error);
}

/* Sends a query, unless it is NULL, and reads the next rows when it has ended. */
static enum error_code outbox_ask_and_read(struct outbox_reader *outbox,
                                           const struct postgres_query *first,
                                           PGresult **ret_result)
{
    char rooms[2][8];
    const struct postgres_value values[] = {
        postgres_u64(outbox->epoch, rooms[0]),
        postgres_u64(source_config(outbox->source)->body_bytes_max, rooms[1])};
    const struct postgres_query read = {.sql = outbox->is_direct ? "outbox_read" : OUTBOX_READ,
                                        .values = values,
                                        .value_count = 2,
                                        .is_prepared = outbox->is_direct};
    const struct postgres_query queries[] = {first ? *first : read, read};
    const size_t count = first ? 2 : 1;
    PGresult *results[2] = {NULL, NULL};

    PQclear(outbox->next);
    outbox->next = NULL;
    const enum error_code code =
        postgres_connection_ask_all(&outbox->connection, queries, count, results, &outbox->error);
    outbox->next = results[count - 1];
    outbox->next_at = instant_now();
    if (first && ret_result)
        *ret_result = results[0];
    else if (first)
        PQclear(results[0]);
    return code;
}

/* Fails if the server committed the last statement without its standby, since a wait for it was
 * cancelled: after a fail-over the rows would be there again. A new connection begins with a commit
 * that waits, and deletes them once more. */
static enum error_code outbox_check_commit(struct outbox_reader *outbox)
{
    return postgres_connection_take_warning(&outbox->connection)
               ? error_set(&outbox->error, ERROR_IO,
                           "the server committed without its standby: it is asked again")
               : ERROR_NONE;
}

/* ---- to become the reader ---- */

/* Finds out whether a pooler is between, which shows another process than that of the server. */
static enum error_code outbox_look_at_session(struct outbox_reader *outbox)
{
    PGresult *result = NULL;
    enum error_code code = outbox_ask(outbox, "SELECT pg_backend_pid()::bigint", NULL, 0, &result);

    if (code)
        return code;
    outbox->generation = outbox->connection.generation;
    outbox->is_asleep = false;
    outbox->is_direct =
        postgres_result_u64(result, 0, 0) == (uint64_t)PQbackendPID(outbox->connection.client);
    PQclear(result);
    return ERROR_NONE;
}

/* Asks two queries whose answers say nothing. */
static enum error_code outbox_tell(struct outbox_reader *outbox,
                                   const struct postgres_query queries[2])
{
    PGresult *results[2] = {NULL, NULL};
    const enum error_code code =
        postgres_connection_ask_all(&outbox->connection, queries, 2, results, &outbox->error);

    PQclear(results[0]);
    PQclear(results[1]);
    return code;
}

/* Sets up what only a session of its own can have. The server ends a statement before the reader
 * gives it up: a session that waits for a lock would stay behind, and soon there would be many. A
 * prepared plan is kept while the outbox grows, so it must use the index although that costs more
 * for the few rows that are there at first. */
static enum error_code outbox_set_up_session(struct outbox_reader *outbox)
{
    static const struct postgres_query queries[] = {
        {.sql = "LISTEN tickwheel_outbox"},
        {.sql =
             "SELECT set_config(name, value, false) FROM (VALUES ('enable_seqscan', 'off'),"
             " ('enable_sort', 'off'), ('jit', 'off'), ('plan_cache_mode', 'force_generic_plan'),"
             " ('statement_timeout', '" OUTBOX_STATEMENT_MS "')) AS settings (name, value)"},
    };

    return outbox_tell(outbox, queries);
}

static enum error_code outbox_prepare(struct outbox_reader *outbox)
{
    static const struct postgres_query queries[] = {
        {.sql = "PREPARE outbox_read (bigint, bigint) AS " OUTBOX_READ},
        {.sql = "PREPARE outbox_delete (bigint[], bigint) AS " OUTBOX_DELETE},
    };

    return outbox_tell(outbox, queries);
}

/* Says why this daemon cannot be the reader. */
static enum error_code outbox_explain_reader(struct outbox_reader *outbox)
{
    PGresult *result = NULL;
    enum error_code code = outbox_ask(
        outbox, "SELECT version::bigint, holder FROM tickwheel.reader", NULL, 0, &result);

    if (code)
        return code;
    const uint64_t version = PQntuples(result) ? postgres_result_u64(result, 0, 0) : 0;
    if (version != OUTBOX_VERSION)
        code = error_set(&outbox->error, ERROR_INVALID,
                         "the outbox has version %llu instead of %d: run tickwheel postgres init",
                         (unsigned long long)version, OUTBOX_VERSION);
    else
        code = error_set(&outbox->error, ERROR_OVERLOADED, "another daemon reads it: %.64s",
                         PQgetvalue(result, 0, 1));
    PQclear(result);
    return code;
}

static enum error_code outbox_claim(struct outbox_reader *outbox, uint64_t *ret_incarnation)
{
    static const char sql[] =
        "UPDATE tickwheel.reader SET epoch = epoch + 1, holder = $1,"
        " held_until = clock_timestamp() + interval '15 s'"
        " WHERE version = 1 AND (held_until < clock_timestamp()"
        " OR split_part(holder, ' node ', 1) = split_part($1, ' node ', 1))" OUTBOX_DURABLE
        " RETURNING incarnation, epoch";
    char text[SOURCE_HOLDER_SIZE];
    PGresult *result = NULL;

    source_name_holder(outbox->source, text);
    const struct postgres_value holder = postgres_text(text);
    enum error_code code = outbox_ask(outbox, sql, &holder, 1, &result);

    if (code)
        return code;
    if ((code = outbox_check_commit(outbox))) {
        PQclear(result);
        return code;
    }
    if (PQntuples(result)) {
        *ret_incarnation = postgres_result_u64(result, 0, 0);
        outbox->epoch = postgres_result_u64(result, 0, 1);
        outbox->renewed = instant_now();
    } else {
        code = outbox_explain_reader(outbox);
    }
    PQclear(result);
    return code;
}

/* Keeps the place of the reader. VERSION_MISMATCH if another one has it. */
static enum error_code outbox_renew(struct outbox_reader *outbox)
{
    static const char sql[] = "UPDATE tickwheel.reader SET held_until = clock_timestamp() +"
                              " interval '15 s' WHERE epoch = $1 RETURNING 1::bigint";
    char room[8];
    const struct postgres_value epoch = postgres_u64(outbox->epoch, room);
    PGresult *result = NULL;

    if (instant_since_ns(outbox->renewed, instant_now()) / 1000000 < OUTBOX_RENEW_MS)
        return ERROR_NONE;
    enum error_code code = outbox_ask(outbox, sql, &epoch, 1, &result);
    if (!code && !PQntuples(result))
        code = error_set(&outbox->error, ERROR_VERSION_MISMATCH,
                         "another daemon reads it now, or the outbox was made anew");
    PQclear(result);
    outbox->renewed = instant_now();
    return code;
}

/* ---- rows ---- */

static bool outbox_needs_vacuum(const struct outbox_reader *outbox)
{
    return (outbox->deleted >= OUTBOX_VACUUM_ROWS || (outbox->is_asleep && outbox->is_long)) &&
           instant_since_ns(outbox->vacuumed, instant_now()) / 1000000 >= outbox->vacuum_rest_ms;
}

/* Deletes the rows in `ids`, and moves those in `refused` to tickwheel.rejected. With
 * OUTBOX_READ_ON it reads the next rows too, unless a VACUUM comes before them. */
static enum error_code outbox_delete(struct outbox_reader *outbox, size_t count,
                                     size_t refused_count, enum outbox_then then)
{
    static const char moving[] =
        "WITH gone AS (" OUTBOX_DELETE " RETURNING *)"
        " INSERT INTO tickwheel.rejected (id, op, key, body, written, problem)"
        " SELECT gone.id, op, key, body, written, pg_catalog.convert_from(problem, 'UTF8')::json "
        "FROM gone"
        " JOIN unnest($3::bigint[], $4::bytea[]) AS refused (id, problem) ON gone.id = refused.id"
        " ON CONFLICT (id) DO NOTHING";
    char room[8];
    const struct postgres_value values[] = {
        postgres_array_value(&outbox->ids, POSTGRES_INT8),
        postgres_u64(outbox->epoch, room),
        postgres_array_value(&outbox->refused, POSTGRES_INT8),
        postgres_array_value(&outbox->problems, POSTGRES_BYTEA),
    };
    const struct postgres_query query = {.sql = refused_count       ? moving
                                                : outbox->is_direct ? "outbox_delete"
                                                                    : OUTBOX_DELETE,
                                         .values = values,
                                         .value_count = refused_count ? 4 : 2,
                                         .is_prepared = !refused_count && outbox->is_direct};

    if (!count)
        return ERROR_NONE;
    if (buffer_failed(&outbox->ids) || buffer_failed(&outbox->refused) ||
        buffer_failed(&outbox->problems))
        return error_set(&outbox->error, ERROR_NO_MEMORY, "out of memory");
    outbox->deleted += count;
    /* an earlier warning is that of a VACUUM, which the server skips for all but the owner */
    postgres_connection_take_warning(&outbox->connection);
    const enum error_code code =
        then == OUTBOX_READ_ON && !outbox_needs_vacuum(outbox)
            ? outbox_ask_and_read(outbox, &query, NULL)
            : postgres_connection_ask(&outbox->connection, &query, NULL, &outbox->error);
    return code ? code : outbox_check_commit(outbox);
}

/* Begins the three arrays of outbox_delete. */
static void outbox_begin_delete(struct outbox_reader *outbox, size_t count, size_t refused_count)
{
    postgres_array_begin(&outbox->ids, POSTGRES_INT8, count);
    postgres_array_begin(&outbox->refused, POSTGRES_INT8, refused_count);
    postgres_array_begin(&outbox->problems, POSTGRES_BYTEA, refused_count);
}

/* Adds a row to what is deleted. With a problem it was refused. The problem becomes ASCII, for the
 * database may have an encoding that lacks what it quotes. */
static void outbox_add_taken(struct outbox_reader *outbox, uint64_t number,
                             const struct buffer *problem)
{
    const uint64_t id = number & OUTBOX_ID_MASK;

    postgres_array_u64(&outbox->ids, id);
    if (!problem)
        return;
    struct buffer ascii;
    buffer_init(&ascii);
    json_append_ascii(&ascii, buffer_bytes(problem));
    postgres_array_u64(&outbox->refused, id);
    postgres_array_bytes(&outbox->problems, buffer_bytes(&ascii));
    buffer_deinit(&ascii);
}

/* Removes from `taken` what is not in the outbox, such as rows whose ids were given out once more
 * after a fail-over. */
static enum error_code outbox_find_taken(struct outbox_reader *outbox, struct source_taken *taken,
                                         size_t *count)
{
    static const char sql[] =
        "SELECT at FROM tickwheel.outbox, unnest($1::bigint[]) WITH ORDINALITY AS taken (number, "
        "at)"
        " WHERE id = (number & ((1::bigint << " OUTBOX_ID_BITS ") - 1::bigint))"
        " AND (number = " OUTBOX_NUMBER " OR number = id) ORDER BY at";
    struct postgres_value numbers;
    PGresult *result = NULL;
    size_t found = 0;

    postgres_array_begin(&outbox->ids, POSTGRES_INT8, *count);
    for (size_t i = 0; i < *count; i++)
        postgres_array_u64(&outbox->ids, taken[i].number);
    numbers = postgres_array_value(&outbox->ids, POSTGRES_INT8);
    const enum error_code code = outbox_ask(outbox, sql, &numbers, 1, &result);
    for (; !code && found < (size_t)PQntuples(result); found++)
        taken[found] = taken[postgres_result_u64(result, (int)found, 0) - 1];
    PQclear(result);
    *count = found;
    return code;
}

/* Deletes what an earlier reader has taken. */
static enum error_code outbox_recover(struct outbox_reader *outbox, uint64_t incarnation)
{
    struct source_taken *taken = NULL;
    size_t count = 0, refused_count = 0;
    struct buffer problem;
    enum error_code code =
        source_rows_begin(outbox->rows, incarnation, outbox->epoch, &taken, &count);

    if (code)
        return error_set(&outbox->error, code, "the partitions are not ready: %s",
                         error_title(code));
    code = outbox_find_taken(outbox, taken, &count);
    for (size_t i = 0; i < count; i++)
        refused_count += taken[i].error != ERROR_NONE;
    outbox_begin_delete(outbox, count, refused_count);
    buffer_init(&problem);
    for (size_t i = 0; i < count; i++) {
        buffer_clear(&problem);
        if (taken[i].error)
            source_rows_append_problem(taken[i].error, &problem);
        outbox_add_taken(outbox, taken[i].number, taken[i].error ? &problem : NULL);
    }
    buffer_deinit(&problem);
    free(taken);
    return code ? code : outbox_delete(outbox, count, refused_count, OUTBOX_DELETE_ONLY);
}

static bool outbox_parse_op(struct bytes text, enum source_op *ret_op)
{
    static const char *const names[] = {[SOURCE_SCHEDULE] = "schedule",
                                        [SOURCE_PUT] = "put",
                                        [SOURCE_CANCEL] = "cancel",
                                        [SOURCE_TOUCH] = "touch",
                                        [SOURCE_COMPLETE] = "complete"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (bytes_equal(text, bytes_of(names[i]))) {
            *ret_op = (enum source_op)i;
            return true;
        }
    return false;
}

static void outbox_read_rows(const PGresult *result, struct source_row *batch)
{
    for (int i = 0; i < PQntuples(result); i++) {
        struct source_row *row = &batch[i];

        *row = (struct source_row){.number = postgres_result_u64(result, i, OUTBOX_ROW),
                                   .key = postgres_result_bytes(result, i, OUTBOX_KEY),
                                   .body = postgres_result_bytes(result, i, OUTBOX_BODY)};
        row->is_too_large =
            PQgetisnull(result, i, OUTBOX_BODY) && !PQgetisnull(result, i, OUTBOX_BYTES);
        buffer_init(&row->problem);
        if (!outbox_parse_op(postgres_result_bytes(result, i, OUTBOX_OP), &row->op)) {
            row->op = SOURCE_COMPLETE; /* of a later schema: refused for its empty key */
            row->key = (struct bytes){"", 0};
        }
    }
}

/* Deletes the rows that were taken. `ret_count` is their number. If some were not, the next rows
 * are read after a pause. */
static enum error_code outbox_end_batch(struct outbox_reader *outbox,
                                        const struct source_row *batch, size_t count,
                                        size_t *ret_count)
{
    size_t done = 0, refused = 0;

    for (size_t i = 0; i < count; i++) {
        refused += batch[i].state == SOURCE_ROW_REFUSED;
        done += batch[i].state == SOURCE_ROW_DONE || batch[i].state == SOURCE_ROW_REFUSED;
    }
    outbox_begin_delete(outbox, done, refused);
    for (size_t i = 0; i < count; i++) {
        if (batch[i].state == SOURCE_ROW_DONE || batch[i].state == SOURCE_ROW_REFUSED)
            outbox_add_taken(outbox, batch[i].number,
                             batch[i].state == SOURCE_ROW_REFUSED ? &batch[i].problem : NULL);
    }
    source_count(outbox->source, batch, count);
    *ret_count = done;
    return outbox_delete(outbox, done, refused,
                         done == count ? OUTBOX_READ_ON : OUTBOX_DELETE_ONLY);
}

/* Takes the rows of a result and deletes them. */
static enum error_code outbox_take(struct outbox_reader *outbox, const PGresult *result,
                                   size_t *ret_count)
{
    const size_t count = (size_t)PQntuples(result);
    struct source_row *batch = calloc(count, sizeof(*batch));
    struct error *error = &outbox->error;

    if (!batch)
        return error_set(error, ERROR_NO_MEMORY, "out of memory");
    outbox_read_rows(result, batch);
    source_set_age(outbox->source, postgres_result_u64(result, 0, OUTBOX_AGE_US) / 1000);
    enum error_code code = source_rows_take(outbox->rows, batch, count);
    const uint64_t took_us = instant_since_ns(outbox->next_at, instant_now()) / 1000;
    for (size_t i = 0; i < count; i++)
        if (batch[i].state == SOURCE_ROW_DONE)
            source_observe(outbox->source,
                           postgres_result_u64(result, (int)i, OUTBOX_AGE_US) + took_us);
    if (!code && count < OUTBOX_FEW) /* rows that come meanwhile share the next batch */
        source_wait(outbox->source, OUTBOX_POLL_MS_MIN, -1);
    if (code)
        error_set(error, code, "the rows of a batch: %s", error_title(code));
    else
        code = outbox_end_batch(outbox, batch, count, ret_count);
    for (size_t i = 0; i < count; i++)
        buffer_deinit(&batch[i].problem);
    free(batch);
    return code;
}

/* Takes the first rows, which are read unless they have been. `ret_found` is the number of rows,
 * `ret_taken` that of those that are deleted. */
static enum error_code outbox_read_batch(struct outbox_reader *outbox, size_t *ret_found,
                                         size_t *ret_taken)
{
    enum error_code code = outbox_renew(outbox);

    if (!code && !outbox->next)
        code = outbox_ask_and_read(outbox, NULL, NULL);
    if (code)
        return code;
    PGresult *result = outbox->next;
    outbox->next = NULL;
    *ret_found = (size_t)PQntuples(result);
    *ret_taken = 0;
    if (*ret_found)
        code = outbox_take(outbox, result, ret_taken);
    else
        source_set_age(outbox->source, 0);
    PQclear(result);
    return code;
}

/* Frees the space of deleted rows: the server itself looks once a minute, and the table would grow
 * until then. The owner of the table may; for others it has no effect. The table is made shorter
 * only while the reader sleeps: VACUUM waits up to 5 s for a moment in which nobody writes. */
static enum error_code outbox_vacuum(struct outbox_reader *outbox)
{
    if (outbox->next || !outbox_needs_vacuum(outbox))
        return ERROR_NONE;
    const char *sql = outbox->is_asleep ? "VACUUM (SKIP_LOCKED) tickwheel.outbox"
                                        : "VACUUM (SKIP_LOCKED, TRUNCATE false) tickwheel.outbox";
    outbox->deleted = 0;
    outbox->is_long = !outbox->is_asleep;
    const struct instant began = instant_now();
    const enum error_code code = outbox_ask(outbox, sql, NULL, 0, NULL);
    outbox->vacuumed = instant_now();
    const uint64_t took_ms = instant_since_ns(began, outbox->vacuumed) / 1000000;
    outbox->vacuum_rest_ms = OUTBOX_VACUUM_MS + OUTBOX_VACUUM_SHARE * took_ms;
    /* a long one is ended by statement_timeout, and autovacuum has no such limit */
    return outbox->connection.client ? ERROR_NONE : code;
}

/* ---- sleep ---- */

/* Asks for the lock of a sleeping reader, or gives it back, and then reads. */
static enum error_code outbox_set_asleep(struct outbox_reader *outbox, bool is_asleep)
{
    const struct postgres_query query = {
        .sql = is_asleep ? "SELECT pg_try_advisory_lock(1953065836, 0)::int::bigint"
                         : "SELECT pg_advisory_unlock(1953065836, 0)::int::bigint"};
    PGresult *result = NULL;
    const enum error_code code = outbox_ask_and_read(outbox, &query, &result);

    if (!code)
        outbox->is_asleep = is_asleep && postgres_result_u64(result, 0, 0);
    PQclear(result);
    return code;
}

/* Waits after a turn that found nothing; `empty` is the number of such turns before. */
static enum error_code outbox_rest(struct outbox_reader *outbox, unsigned empty)
{
    const uint64_t most = outbox->is_direct ? OUTBOX_AWAKE_MS_MAX : OUTBOX_POLL_MS_MAX;
    uint64_t pause_ms = OUTBOX_POLL_MS_MIN;

    if (outbox->is_asleep) {
        bool has_notice = postgres_connection_take_notice(&outbox->connection);

        if (!has_notice) {
            source_wait(outbox->source, OUTBOX_SLEEP_MS,
                        postgres_connection_fd(&outbox->connection));
            postgres_connection_turn(&outbox->connection);
            has_notice = postgres_connection_take_notice(&outbox->connection);
        }
        /* without one the next turn renews the place, and looks for rows all the same */
        return has_notice ? outbox_set_asleep(outbox, false) : ERROR_NONE;
    }
    if (outbox->is_direct) {
        const enum error_code code = outbox_set_asleep(outbox, true);

        /* with the lock an empty answer counts: writers that ended before did not notify */
        if (code || outbox->is_asleep || PQntuples(outbox->next) > 0)
            return code;
        PQclear(outbox->next);
        outbox->next = NULL;
    }
    for (unsigned i = 0; i < empty && pause_ms < most; i++)
        pause_ms *= 2;
    source_wait(outbox->source, pause_ms < most ? pause_ms : most, -1);
    return ERROR_NONE;
}

/* ---- the thread ---- */

/* Reads until something fails. */
static enum error_code outbox_read(struct outbox_reader *outbox)
{
    uint64_t incarnation = 0, postponed_ms = OUTBOX_ROOM_MS_MIN;
    unsigned empty = 0;
    enum error_code code = outbox_look_at_session(outbox);

    if (!code && outbox->is_direct)
        code = outbox_set_up_session(outbox);
    if (!code)
        code = outbox_claim(outbox, &incarnation);
    if (!code && outbox->is_direct)
        code = outbox_prepare(outbox);
    if (!code)
        code = outbox_recover(outbox, incarnation);
    if (code)
        return code;
    source_tell(outbox->source, NULL);
    while (!code && source_goes_on(outbox->source)) {
        size_t found = 0, taken = 0;

        code = outbox_read_batch(outbox, &found, &taken);
        if (!code && outbox->connection.generation != outbox->generation)
            code = error_set(&outbox->error, ERROR_IO, "the connection was lost");
        if (code)
            break;
        empty = found ? 0 : empty + 1;
        if (taken == found)
            postponed_ms = OUTBOX_ROOM_MS_MIN;
        if (!found) {
            code = outbox_rest(outbox, empty);
        } else if (taken < found) { /* the node has no room for some */
            source_wait(outbox->source, postponed_ms, -1);
            postponed_ms = postponed_ms < OUTBOX_ROOM_MS_MAX ? 2 * postponed_ms : postponed_ms;
        } else if (outbox->is_asleep) {
            code = outbox_set_asleep(outbox, false);
        }
        if (!code)
            code = outbox_vacuum(outbox);
        if (outbox->connection.generation != outbox->generation)
            code = error_set(&outbox->error, ERROR_IO, "the connection was lost");
    }
    return code;
}

static enum error_code outbox_connect(struct outbox_reader *outbox)
{
    const struct postgres_setup setup = {.uri = source_url(outbox->source),
                                         .name = "tickwheeld",
                                         .connect_ms = OUTBOX_CONNECT_MS,
                                         .answer_ms = OUTBOX_ANSWER_MS,
                                         .cancels = true};

    return postgres_connection_open(&outbox->connection, &setup, &outbox->error);
}

static const char *outbox_connect_and_read(void *reader)
{
    struct outbox_reader *outbox = reader;

    if (!outbox_connect(outbox))
        outbox_read(outbox);
    PQclear(outbox->next);
    outbox->next = NULL;
    postgres_connection_close(&outbox->connection);
    return outbox->error.text;
}

static void outbox_run(struct source_thread *source)
{
    struct outbox_reader outbox = {.source = source, .rows = source_rows_of(source)};

    buffer_init(&outbox.ids);
    buffer_init(&outbox.refused);
    buffer_init(&outbox.problems);
    source_repeat(source, outbox_connect_and_read, &outbox);
    buffer_deinit(&outbox.ids);
    buffer_deinit(&outbox.refused);
    buffer_deinit(&outbox.problems);
}

/* Returns true if no reader has renewed its place. */
static bool outbox_is_unread(struct source_thread *source)
{
    struct outbox_reader outbox = {.source = source};
    PGresult *result = NULL;
    const bool is_answered =
        !outbox_connect(&outbox) &&
        !outbox_ask(&outbox,
                    "SELECT (held_until < clock_timestamp())::int::bigint FROM tickwheel.reader",
                    NULL, 0, &result);
    const bool is_unread =
        is_answered && PQntuples(result) == 1 && postgres_result_u64(result, 0, 0);

    PQclear(result);
    postgres_connection_close(&outbox.connection);
    return is_unread;
}

static enum error_code outbox_check(const char *url, struct error *ret_error)
{
    const struct postgres_setup setup = {.uri = url, .name = "tickwheeld"};
    struct postgres_connection connection;
    const enum error_code code = postgres_connection_open(&connection, &setup, ret_error);

    if (!code)
        postgres_connection_close(&connection);
    return code;
}

const struct source_kind source_outbox = {
    .scheme = "postgres://",
    .check = outbox_check,
    .run = outbox_run,
    .is_unread = outbox_is_unread,
};
