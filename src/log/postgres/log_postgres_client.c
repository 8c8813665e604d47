/* log_postgres_client.c - the thread of the logs on PostgreSQL; see log_postgres_client.h. */
#include "log/postgres/log_postgres_client.h"

#include "sys/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

enum {
    CONNECT_MS = 2000,
    ANSWER_MS = 4000, /* of the reader, and of a lane while the reader gets no answer */
    SESSION_MS = 10000,
    LANE_MS = 600000,
    BATCH_BYTES = 4 << 20, /* size from which no more appends join a statement */
    READ_BYTES = 1 << 20,  /* size from which no more records of one log are read at once */
    READ_BYTES_ALL = 16 << 20,
    READ_ROWS = 256, /* of one log; read_format has it too */
    AGAIN_MS = 100,  /* pause after a refused statement */
    IDLE_MS = 200,
};

/* The statements. %1$s is the name of the table, %2$s a condition. Functions and types leave no
 * choice that the search path could make, where other roles may have put functions.
 *
 * An append names the record before it, and takes part only if that is there, or if it is the first
 * one of the log; rows are inserted in one order, so that statements of two nodes do not wait for
 * each other in a circle. */
static const char append_format[] =
    "INSERT INTO \"%1$s_log\" AS l (partition, place, chain, appended, body)"
    " SELECT a.partition, a.place, a.chain,"
    " (extract(epoch FROM clock_timestamp())::float8 * 1000::float8)::int8, a.body"
    " FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::bytea[])"
    " AS a (partition, place, before, chain, body)"
    " WHERE (EXISTS (SELECT FROM \"%1$s_log\" b WHERE b.partition = a.partition"
    " AND b.place = a.place - 1 AND b.chain = a.before) OR (a.place = 0"
    " AND NOT EXISTS (SELECT FROM \"%1$s_log\" b WHERE b.partition = a.partition)))%2$s"
    " ORDER BY a.partition ON CONFLICT DO NOTHING RETURNING l.partition, l.appended";
static const char look_format[] =
    "SELECT (SELECT chain FROM \"%1$s_log\" WHERE partition = $1 AND place = $2),"
    " (SELECT chain FROM \"%1$s_log\" WHERE partition = $1 AND place = $2 - 1),"
    " (SELECT max(place) FROM \"%1$s_log\" WHERE partition = $1)";
static const char repeat_format[] = "UPDATE \"%1$s_log\" SET chain = chain WHERE partition = $1"
                                    " AND place = $2 AND chain = $3%2$s RETURNING appended";
static const char seek_format[] = "SELECT place, chain FROM \"%1$s_log\" WHERE partition = $1"
                                  " ORDER BY place DESC LIMIT 1";
static const char read_format[] =
    "SELECT f.partition, t.place, t.chain, t.body"
    " FROM unnest($1::int8[], $2::int8[]) AS f (partition, next), LATERAL"
    " (SELECT s.place, s.chain, s.body, sum(octet_length(s.body)) OVER (ORDER BY s.place)"
    " - octet_length(s.body) AS size FROM"
    " (SELECT place, chain, body FROM \"%1$s_log\" WHERE partition = f.partition"
    " AND place >= CASE WHEN f.next >= 0 THEN f.next ELSE"
    " (SELECT max(place) FROM \"%1$s_log\" WHERE partition = f.partition) + 1 + f.next END"
    " ORDER BY place LIMIT 256) AS s) AS t WHERE t.size < $3 ORDER BY 1, 2";
static const char anchor_format[] =
    "SELECT f.partition, l.chain,"
    " (SELECT max(place) FROM \"%1$s_log\" WHERE partition = f.partition)"
    " FROM unnest($1::int8[], $2::int8[]) AS f (partition, next)"
    " LEFT JOIN \"%1$s_log\" l ON l.partition = f.partition AND l.place = f.next - 1";
/* The last record stays: the next append names it. A server that lacks the last record which the
 * node knows needs the older ones. All are deleted at once: a node that reads from the first record
 * on must find one that the log may begin with. */
static const char trim_format[] =
    "DELETE FROM \"%1$s_log\" WHERE partition = $1 AND place < least($2,"
    " (SELECT max(place) FROM \"%1$s_log\" WHERE partition = $1))"
    " AND EXISTS (SELECT FROM \"%1$s_log\" WHERE partition = $1 AND place = $3 AND chain = $4)";

/* The condition of what is written, if it must be on two servers: a server that would acknowledge
 * it alone, such as a standby after its promotion, fails with ALONE_STATE, for the text is no
 * number. */
static const char replicated[] =
    " AND CASE WHEN current_setting('synchronous_standby_names') = ''"
    " OR current_setting('synchronous_commit') IN ('off', 'local')"
    " THEN ('alone: ' || current_setting('synchronous_commit'))::int8 ELSE 0 END = 0";
#define ALONE_STATE "22P02"

void log_postgres_client_wake(struct log_postgres_client *client)
{
    eventfd_write(client->event_fd, 1);
}

/* Wakes the owner of the log, if it has an event. Called with the lock. */
static void log_postgres_tell(struct log_postgres *log)
{
    if (log->state.append.done.kind == LOG_LANDED)
        log->unlanded_at = (struct instant){0};
    if (log_postgres_state_has_event(&log->state))
        eventfd_write(log->event_fd, 1);
}

uint64_t log_postgres_row(uint32_t partition)
{
    return partition == LOG_POSTGRES_CONTROL ? UINT64_MAX : partition;
}

/* ---- set-up ---- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static bool log_postgres_write(char *room, size_t size, const char *format,
                               const struct log_postgres_options *options)
{
    const char *condition = options->must_replicate ? replicated : "";

    return (size_t)snprintf(room, size, format, options->name, condition) < size;
}
#pragma GCC diagnostic pop

enum error_code log_postgres_client_prepare(struct log_postgres_client *client,
                                            struct error *ret_error)
{
    const char *name = client->options.name;
    struct postgres_setup setup = {.uri = client->options.uri,
                                   .name = "tickwheel",
                                   .connect_ms = CONNECT_MS,
                                   .answer_ms = ANSWER_MS};
    const struct {
        char *room;
        size_t size;
        const char *format;
    } texts[] = {
        {client->append_sql, sizeof(client->append_sql), append_format},
        {client->look_sql, sizeof(client->look_sql), look_format},
        {client->repeat_sql, sizeof(client->repeat_sql), repeat_format},
        {client->seek_sql, sizeof(client->seek_sql), seek_format},
        {client->read_sql, sizeof(client->read_sql), read_format},
        {client->anchor_sql, sizeof(client->anchor_sql), anchor_format},
        {client->trim_sql, sizeof(client->trim_sql), trim_format},
    };

    if (strlen(name) > LOG_POSTGRES_NAME_MAX || strchr(name, '"'))
        return error_set(ret_error, ERROR_INVALID, "cluster_name: at most %d bytes, and no \"",
                         LOG_POSTGRES_NAME_MAX);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (!log_postgres_write(texts[i].room, texts[i].size, texts[i].format, &client->options))
            return error_set(ret_error, ERROR_INVALID, "cluster_name: it is too long");
    client->answered_at = instant_now();
    enum error_code code = postgres_connection_open(&client->reader, &setup, ret_error);
    setup.answer_ms = LANE_MS;
    if (!code)
        code = postgres_connection_open(&client->trimmer, &setup, ret_error);
    for (size_t i = 0; i < LOG_POSTGRES_LANES && !code; i++)
        code = postgres_connection_open(&client->lanes[i].connection, &setup, ret_error);
    setup.answer_ms = SESSION_MS;
    setup.cancels = true;
    for (size_t i = 0; i < LOG_POSTGRES_SESSIONS && !code; i++)
        code = postgres_connection_open(&client->sessions[i].connection, &setup, ret_error);
    return code;
}

/* ---- lanes: appends ---- */

/* Gives the appends of a statement back, to be sent again. Called with the lock. */
static void log_postgres_unsend(struct log_postgres_lane *lane)
{
    for (size_t i = 0; i < lane->count; i++)
        if (lane->logs[i])
            lane->logs[i]->state.append.is_sent = false;
    lane->count = 0;
}

/* Chooses the appends of the next statement, and writes its values. Called with the lock. */
static void log_postgres_choose(struct log_postgres_client *client, struct log_postgres_lane *lane)
{
    size_t bytes = 0;

    lane->count = 0;
    lane->step = LOG_POSTGRES_WAITS;
    LIST_FOR_EACH (&client->logs, link) {
        struct log_postgres *log = list_item(link, struct log_postgres, link);
        const enum log_postgres_step step = log->state.append.step;

        if (step == LOG_POSTGRES_IDLE || step == LOG_POSTGRES_TRANSACTS ||
            log->state.append.is_sent)
            continue;
        if (step != LOG_POSTGRES_WAITS) { /* a question about one append alone */
            if (lane->count > 0)
                continue;
            lane->step = step;
            lane->logs[lane->count++] = log;
            break;
        }
        if (lane->count == LOG_POSTGRES_BATCH || bytes >= BATCH_BYTES)
            break;
        lane->logs[lane->count++] = log;
        bytes += log->state.append.body.size;
    }
    for (size_t k = 0; k < 4; k++)
        postgres_array_begin(&lane->numbers[k], POSTGRES_INT8, lane->count);
    postgres_array_begin(&lane->bodies, POSTGRES_BYTEA, lane->count);
    for (size_t i = 0; i < lane->count; i++) {
        struct log_postgres_append *append = &lane->logs[i]->state.append;

        append->is_sent = true;
        postgres_array_u64(&lane->numbers[0], log_postgres_row(lane->logs[i]->partition));
        postgres_array_u64(&lane->numbers[1], append->place);
        postgres_array_u64(&lane->numbers[2], append->before);
        postgres_array_u64(&lane->numbers[3], append->chain);
        postgres_array_bytes(&lane->bodies, buffer_bytes(&append->body));
    }
}

/* Sends the statement that was chosen. Returns false if it was not sent. */
static bool log_postgres_send(struct log_postgres_client *client, struct log_postgres_lane *lane)
{
    struct postgres_value values[5];
    struct postgres_query query = {.values = values, .value_count = 5};
    bool failed = buffer_failed(&lane->bodies);

    for (size_t k = 0; k < 4; k++) {
        values[k] = postgres_array_value(&lane->numbers[k], POSTGRES_INT8);
        failed |= buffer_failed(&lane->numbers[k]);
    }
    values[4] = postgres_array_value(&lane->bodies, POSTGRES_BYTEA);
    if (failed)
        return false;
    query.sql = client->append_sql;
    if (lane->step != LOG_POSTGRES_WAITS) {
        /* the one element of an array, without its head */
        const struct bytes all[] = {values[0].bytes, values[1].bytes, values[3].bytes};

        for (size_t k = 0; k < 3; k++)
            values[k] = (struct postgres_value){POSTGRES_INT8, {all[k].data + all[k].size - 8, 8}};
        query.sql = lane->step == LOG_POSTGRES_LOOKS     ? client->look_sql
                    : lane->step == LOG_POSTGRES_REPEATS ? client->repeat_sql
                                                         : client->seek_sql;
        query.value_count = lane->step == LOG_POSTGRES_LOOKS     ? 2
                            : lane->step == LOG_POSTGRES_REPEATS ? 3
                                                                 : 1;
    }
    lane->sent_at = instant_now();
    lane->generation = lane->connection.generation;
    return postgres_connection_send(&lane->connection, &query, NULL) == ERROR_NONE;
}

/* The answer to appends: the rows that were inserted. */
static void log_postgres_take_append(struct log_postgres_lane *lane, const PGresult *result,
                                     bool has_warning)
{
    for (size_t i = 0; i < lane->count; i++) {
        struct log_postgres *log = lane->logs[i];
        struct log_postgres_answer answer = {.has_warning = has_warning};
        int row = 0;

        if (!log)
            continue;
        while (row < PQntuples(result) &&
               postgres_result_u64(result, row, 0) != log_postgres_row(log->partition))
            row++;
        answer.is_there = row < PQntuples(result);
        if (answer.is_there)
            answer.appended_ms = postgres_result_u64(result, row, 1);
        log_postgres_state_answer(&log->state, &answer);
        log_postgres_tell(log);
    }
}

/* Reads the answer to a question about one append. */
static struct log_postgres_answer log_postgres_read_answer(enum log_postgres_step step,
                                                           const PGresult *result)
{
    const bool has_row = PQntuples(result) > 0;

    if (step == LOG_POSTGRES_LOOKS)
        return (struct log_postgres_answer){
            .is_there = !PQgetisnull(result, 0, 0),
            .chain = postgres_result_u64(result, 0, 0),
            .has_before = !PQgetisnull(result, 0, 1),
            .before = postgres_result_u64(result, 0, 1),
            .end = PQgetisnull(result, 0, 2) ? 0 : postgres_result_u64(result, 0, 2) + 1,
        };
    if (step == LOG_POSTGRES_SEEKS)
        return (struct log_postgres_answer){
            .is_there = has_row,
            .place = has_row ? postgres_result_u64(result, 0, 0) : 0,
            .chain = has_row ? postgres_result_u64(result, 0, 1) : 0,
        };
    return (struct log_postgres_answer){
        .is_there = has_row, .appended_ms = has_row ? postgres_result_u64(result, 0, 0) : 0};
}

/* If the server warned it may have given up to wait for a standby. */
static void log_postgres_take_answer(struct log_postgres_client *client,
                                     struct log_postgres_lane *lane, const PGresult *result,
                                     bool has_warning)
{
    struct log_postgres *log = lane->logs[0];

    if (lane->step == LOG_POSTGRES_WAITS) {
        log_postgres_take_append(lane, result, has_warning);
        return;
    }
    if (!log)
        return;
    struct log_postgres_answer answer = log_postgres_read_answer(lane->step, result);
    answer.has_warning = has_warning;
    log_postgres_state_answer(&log->state, &answer);
    log_postgres_tell(log);
    client->read_at = (struct instant){0}; /* another node may have appended */
}

const char *log_postgres_client_cause(const struct log_postgres_client *client,
                                      const char *otherwise)
{
    if (client->refuses_alone)
        return "the server would acknowledge alone (synchronous_standby_names, synchronous_commit),"
               " and cluster_durability is replicated";
    return *client->cause ? client->cause : otherwise;
}

static void log_postgres_note(struct log_postgres_client *client, const char *cause)
{
    pthread_mutex_lock(&client->lock);
    snprintf(client->cause, sizeof(client->cause), "%.199s", cause);
    pthread_mutex_unlock(&client->lock);
}

/* Returns whether the statement failed, with its words in `cause`. A server that takes no writes
 * any more is left for another one. */
static bool log_postgres_has_failed(struct log_postgres_client *client,
                                    struct postgres_connection *connection, const PGresult *result)
{
    struct error error;

    if (!postgres_result_check(result, &error)) {
        pthread_mutex_lock(&client->lock);
        client->answered_at = instant_now();
        pthread_mutex_unlock(&client->lock);
        return false;
    }
    log_postgres_note(client, error.text);
    if (postgres_result_is(result, "25006"))
        postgres_connection_break(connection, error.text);
    return true;
}

/* Returns whether the lane's server is given up: the reader gets no answer of it either. */
static bool log_postgres_lane_is_dead(const struct log_postgres_client *client,
                                      const struct log_postgres_lane *lane, struct instant now)
{
    return lane->count > 0 && now.ns >= instant_add_ms(lane->sent_at, ANSWER_MS).ns &&
           now.ns >= instant_add_ms(client->answered_at, ANSWER_MS).ns;
}

static void log_postgres_lane_turn(struct log_postgres_client *client,
                                   struct log_postgres_lane *lane, struct instant now)
{
    struct postgres_connection *connection = &lane->connection;

    if (log_postgres_lane_is_dead(client, lane, now))
        postgres_connection_break(connection, "the server does not answer");
    const bool is_ready = postgres_connection_turn(connection);
    PGresult *result = is_ready && lane->count > 0 ? postgres_connection_take(connection) : NULL;

    if (result) {
        const bool has_warning = postgres_connection_take_warning(connection);
        const bool failed = log_postgres_has_failed(client, connection, result);

        pthread_mutex_lock(&client->lock);
        if (lane->step == LOG_POSTGRES_WAITS || lane->step == LOG_POSTGRES_REPEATS)
            client->refuses_alone = postgres_result_is(result, ALONE_STATE);
        if (!failed)
            log_postgres_take_answer(client, lane, result, has_warning);
        log_postgres_unsend(lane);
        pthread_mutex_unlock(&client->lock);
        if (failed)
            lane->again_at = instant_add_ms(now, AGAIN_MS);
        PQclear(result);
    } else if (lane->count > 0 && (!is_ready || lane->generation != connection->generation)) {
        pthread_mutex_lock(&client->lock);
        log_postgres_unsend(lane);
        pthread_mutex_unlock(&client->lock);
    }
    if (!connection->client && *connection->cause)
        log_postgres_note(client, connection->cause);
    if (!is_ready || !connection->client || lane->count > 0 || now.ns < lane->again_at.ns)
        return;
    pthread_mutex_lock(&client->lock);
    log_postgres_choose(client, lane);
    pthread_mutex_unlock(&client->lock);
    if (lane->count > 0 && !log_postgres_send(client, lane)) {
        pthread_mutex_lock(&client->lock);
        log_postgres_unsend(lane);
        pthread_mutex_unlock(&client->lock);
        lane->again_at = instant_add_ms(now, AGAIN_MS);
    }
}

/* Ends the appends whose time is over. */
static void log_postgres_expire(struct log_postgres_client *client, struct instant now)
{
    pthread_mutex_lock(&client->lock);
    LIST_FOR_EACH (&client->logs, link) {
        struct log_postgres *log = list_item(link, struct log_postgres, link);

        if (log->state.append.step == LOG_POSTGRES_IDLE ||
            log->state.append.step == LOG_POSTGRES_TRANSACTS || now.ns < log->state.append.until.ns)
            continue;
        for (size_t i = 0; i < LOG_POSTGRES_LANES; i++)
            for (size_t k = 0; k < client->lanes[i].count; k++)
                if (client->lanes[i].logs[k] == log)
                    client->lanes[i].logs[k] = NULL;
        log_postgres_state_doubt(
            &log->state, log_postgres_client_cause(client, "the server did not answer in time"));
        log_postgres_tell(log);
    }
    pthread_mutex_unlock(&client->lock);
}

/* ---- the reader ---- */

/* Chooses the logs of the next question. Called with the lock. */
static void log_postgres_choose_read(struct log_postgres_client *client)
{
    struct log_postgres_read *read = &client->read;

    read->count = 0;
    LIST_FOR_EACH (&client->logs, link) {
        const struct log_postgres *log = list_item(link, struct log_postgres, link);
        const struct log_postgres_state *state = &log->state;

        if (!(read->is_anchor ? log_postgres_state_has_anchor(state)
                              : log_postgres_state_wants_records(state)))
            continue;
        if (read->count == read->capacity) {
            const size_t capacity = read->capacity ? 2 * read->capacity : 32;
            struct log_postgres_asked *logs = realloc(read->logs, capacity * sizeof(*logs));

            if (!logs)
                break; /* the others are asked for next */
            read->logs = logs;
            read->capacity = capacity;
        }
        read->logs[read->count++] = (struct log_postgres_asked){
            .partition = log->partition,
            .follow_id = state->follow_id,
            .next = read->is_anchor ? state->next : log_postgres_state_wanted(state),
            .chain = state->chain,
        };
    }
}

static bool log_postgres_send_read(struct log_postgres_client *client)
{
    struct log_postgres_read *read = &client->read;
    const uint64_t share = READ_BYTES_ALL / (read->count > 0 ? read->count : 1);
    char room[8];

    read->bytes_max = share < READ_BYTES ? share : READ_BYTES;

    postgres_array_begin(&client->numbers[0], POSTGRES_INT8, read->count);
    postgres_array_begin(&client->numbers[1], POSTGRES_INT8, read->count);
    for (size_t i = 0; i < read->count; i++) {
        postgres_array_u64(&client->numbers[0], log_postgres_row(read->logs[i].partition));
        postgres_array_u64(&client->numbers[1], read->logs[i].next);
    }
    if (buffer_failed(&client->numbers[0]) || buffer_failed(&client->numbers[1]))
        return false;
    const struct postgres_value values[] = {
        postgres_array_value(&client->numbers[0], POSTGRES_INT8),
        postgres_array_value(&client->numbers[1], POSTGRES_INT8),
        postgres_u64(read->bytes_max, room),
    };
    const struct postgres_query query = {.sql = read->is_anchor ? client->anchor_sql
                                                                : client->read_sql,
                                         .values = values,
                                         .value_count = read->is_anchor ? 2 : 3};
    read->generation = client->reader.generation;
    return postgres_connection_send(&client->reader, &query, NULL) == ERROR_NONE;
}

/* Returns the log that a question was about, if it still has it; NULL otherwise. */
static struct log_postgres *log_postgres_find(struct log_postgres_client *client,
                                              const struct log_postgres_asked *asked)
{
    LIST_FOR_EACH (&client->logs, link) {
        struct log_postgres *log = list_item(link, struct log_postgres, link);

        if (log->partition == asked->partition && log->state.follow_id == asked->follow_id)
            return log->state.is_followed && !log->state.is_lost ? log : NULL;
    }
    return NULL;
}

/* Handles an answer of records. Returns whether there may be more. */
static bool log_postgres_take_rows(struct log_postgres_client *client, const PGresult *result)
{
    struct log_postgres_read *read = &client->read;
    bool has_more = false;
    size_t i = 0;

    for (int row = 0; row < PQntuples(result); row++) {
        const uint64_t partition = postgres_result_u64(result, row, 0);

        for (size_t k = 0; k < read->count; k++, i = i + 1 < read->count ? i + 1 : 0)
            if (log_postgres_row(read->logs[i].partition) == partition)
                break;
        struct log_postgres *log = log_postgres_find(client, &read->logs[i]);
        read->logs[i].rows++;
        read->logs[i].end = postgres_result_u64(result, row, 1) + 1;
        read->logs[i].bytes += postgres_result_bytes(result, row, 3).size;
        if (log)
            log_postgres_state_read(&log->state, postgres_result_u64(result, row, 1),
                                    postgres_result_u64(result, row, 2),
                                    postgres_result_bytes(result, row, 3));
    }
    for (size_t k = 0; k < read->count; k++) {
        const struct log_postgres_asked *asked = &read->logs[k];
        const bool is_cut = asked->rows == READ_ROWS || asked->bytes >= read->bytes_max;
        struct log_postgres *log = log_postgres_find(client, asked);

        has_more |= is_cut;
        if (!log)
            continue;
        log_postgres_state_read_all(&log->state, asked->next, asked->end, is_cut);
        log_postgres_tell(log);
    }
    return has_more;
}

/* Compares the chains of the server with those that were read. */
static void log_postgres_take_anchors(struct log_postgres_client *client, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        const uint64_t partition = postgres_result_u64(result, row, 0);
        const struct log_postgres_anchor anchor = {
            .is_there = !PQgetisnull(result, row, 1),
            .chain = postgres_result_u64(result, row, 1),
            .has_records = !PQgetisnull(result, row, 2),
            .last = postgres_result_u64(result, row, 2),
        };

        for (size_t k = 0; k < client->read.count; k++) {
            const struct log_postgres_asked *asked = &client->read.logs[k];
            struct log_postgres *log = log_postgres_row(asked->partition) == partition
                                           ? log_postgres_find(client, asked)
                                           : NULL;

            if (!log)
                continue;
            log_postgres_state_compare(&log->state, asked->next, asked->chain, &anchor);
            log_postgres_tell(log);
        }
    }
}

static void log_postgres_reader_turn(struct log_postgres_client *client, struct instant now)
{
    struct log_postgres_read *read = &client->read;
    struct postgres_connection *reader = &client->reader;
    const bool is_ready = postgres_connection_turn(reader);
    PGresult *result = is_ready && read->is_sent ? postgres_connection_take(reader) : NULL;

    if (result) {
        read->is_sent = false;
        client->read_at = instant_add_ms(now, AGAIN_MS);
        if (!log_postgres_has_failed(client, reader, result)) {
            pthread_mutex_lock(&client->lock);
            if (read->is_anchor)
                log_postgres_take_anchors(client, result);
            const bool has_more = read->is_anchor || log_postgres_take_rows(client, result);
            *client->cause = '\0';
            pthread_mutex_unlock(&client->lock);
            client->read_at = has_more ? now : instant_add_ms(now, LOG_POSTGRES_POLL_MS);
        }
        PQclear(result);
    } else if (read->is_sent && (!is_ready || read->generation != reader->generation)) {
        read->is_sent = false;
    }
    if (!reader->client && *reader->cause)
        log_postgres_note(client, reader->cause);
    if (!is_ready || !reader->client || read->is_sent || now.ns < client->read_at.ns)
        return;
    /* before anything is read from a server that may be another one */
    read->is_anchor = log_postgres_compares(&client->compared, reader->generation, now);
    pthread_mutex_lock(&client->lock);
    log_postgres_choose_read(client);
    pthread_mutex_unlock(&client->lock);
    read->is_sent = read->count > 0 && log_postgres_send_read(client);
    if (!read->is_sent)
        client->read_at = read->is_anchor ? now : instant_add_ms(now, LOG_POSTGRES_POLL_MS);
}

/* ---- trims ---- */

static struct log_postgres *log_postgres_trimming(struct log_postgres_client *client)
{
    LIST_FOR_EACH (&client->logs, link) {
        struct log_postgres *log = list_item(link, struct log_postgres, link);

        if (log->wants_trim)
            return log;
    }
    return NULL;
}

static void log_postgres_end_trim(struct log_postgres_client *client, enum log_kind kind)
{
    pthread_mutex_lock(&client->lock);
    struct log_postgres *log = log_postgres_trimming(client);
    if (log && log->partition == client->trim_partition) {
        log->wants_trim = false;
        log->trimmed = (struct log_event){
            .kind = kind, .offset = log->trim_before, .reason = "the server refused it"};
        eventfd_write(log->event_fd, 1);
    }
    pthread_mutex_unlock(&client->lock);
}

/* Trims the first log that wants it. The connection is used only then. */
static void log_postgres_trimmer_turn(struct log_postgres_client *client)
{
    struct postgres_connection *trimmer = &client->trimmer;
    char rooms[4][8];
    uint64_t place = 0, chain = 0;

    pthread_mutex_lock(&client->lock);
    const struct log_postgres *log = log_postgres_trimming(client);
    const uint32_t partition = log ? log->partition : 0;
    const uint64_t before = log ? log->trim_before : 0;
    const bool may_trim = log && log_postgres_state_trims(&log->state, &place, &chain);
    pthread_mutex_unlock(&client->lock);
    client->trimmer_is_wanted = log || client->trim_is_sent;
    if (!client->trimmer_is_wanted || !postgres_connection_turn(trimmer)) {
        client->trim_is_sent = client->trim_is_sent && trimmer->client;
        return;
    }
    PGresult *result = client->trim_is_sent ? postgres_connection_take(trimmer) : NULL;
    if (result) {
        client->trim_is_sent = false;
        if (log_postgres_has_failed(client, trimmer, result))
            log_postgres_end_trim(client, LOG_TRIM_FAILED);
        else
            log_postgres_end_trim(client, LOG_TRIMMED);
        PQclear(result);
        log_postgres_client_wake(client); /* another turn, for other logs */
        return;
    }
    if (client->trim_generation != trimmer->generation)
        client->trim_is_sent = false;
    if (client->trim_is_sent || !log)
        return;
    client->trim_partition = partition;
    if (!may_trim) {
        log_postgres_end_trim(client, LOG_TRIM_FAILED);
        return;
    }
    const struct postgres_value values[] = {
        postgres_u64(log_postgres_row(partition), rooms[0]), postgres_u64(before, rooms[1]),
        postgres_u64(place, rooms[2]), postgres_u64(chain, rooms[3])};
    const struct postgres_query query = {
        .sql = client->trim_sql, .values = values, .value_count = 4};
    client->trim_generation = trimmer->generation;
    client->trim_is_sent = postgres_connection_send(trimmer, &query, NULL) == ERROR_NONE;
}

/* ---- the thread ---- */

static struct instant log_postgres_earlier(struct instant a, struct instant b)
{
    return a.ns < b.ns ? a : b;
}

static void log_postgres_client_wait(struct log_postgres_client *client, struct instant now)
{
    struct pollfd fds[LOG_POSTGRES_CONNECTIONS + 1] = {{.fd = client->event_fd, .events = POLLIN}};
    const struct postgres_connection *all[LOG_POSTGRES_CONNECTIONS] = {&client->reader,
                                                                       &client->trimmer};
    struct instant until = instant_add_ms(now, IDLE_MS);
    eventfd_t count;

    for (size_t i = 0; i < LOG_POSTGRES_LANES; i++) {
        all[2 + i] = &client->lanes[i].connection;
        if (client->lanes[i].again_at.ns > now.ns)
            until = log_postgres_earlier(until, client->lanes[i].again_at);
    }
    for (size_t i = 0; i < LOG_POSTGRES_CONNECTIONS; i++) {
        /* nobody reads the trimmer's connection while it is not wanted: what comes there, such as
         * its end, would end each wait at once */
        if (i == 1 && !client->trimmer_is_wanted) {
            fds[1 + i].fd = -1;
            continue;
        }
        fds[1 + i] = (struct pollfd){.fd = postgres_connection_fd(all[i]),
                                     .events = postgres_connection_events(all[i])};
        if (i != 1 || client->trim_is_sent) /* the trimmer connects when it is wanted */
            until = log_postgres_earlier(until, postgres_connection_wake_at(all[i]));
    }
    if (client->reader.client && !client->read.is_sent)
        until = log_postgres_earlier(until, client->read_at);
    const uint64_t wait_ns = instant_since_ns(instant_now(), until);
    poll(fds, LOG_POSTGRES_CONNECTIONS + 1, (int)((wait_ns + 999999) / 1000000));
    if (fds[0].revents)
        eventfd_read(client->event_fd, &count);
}

void *log_postgres_client_run(void *argument)
{
    struct log_postgres_client *client = argument;

    while (!atomic_load(&client->ends)) {
        const struct instant now = instant_now();

        log_postgres_reader_turn(client, now);
        for (size_t i = 0; i < LOG_POSTGRES_LANES; i++)
            log_postgres_lane_turn(client, &client->lanes[i], now);
        log_postgres_trimmer_turn(client);
        log_postgres_expire(client, now);
        log_postgres_client_wait(client, now);
    }
    return NULL;
}
