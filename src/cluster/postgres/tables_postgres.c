/* tables_postgres.c - the table of a cluster on PostgreSQL; see tables_postgres.h. */
#include "cluster/postgres/tables_postgres.h"

#include "log/postgres/log_postgres.h"
#include "log/postgres/log_postgres_table.h"
#include "cluster/founding_log.h"
#include "sys/clock.h"

#include <poll.h>
#include <stdio.h>

enum {
    TABLES_POSTGRES_CONNECT_MS = 3000,
    TABLES_POSTGRES_ANSWER_MS = 10000,
    TABLES_POSTGRES_AGAIN_MS = 200, /* pause before a server that does not answer is asked again */
};

struct tables_postgres {
    const struct tables_postgres_options *options;
    struct tables_postgres_report report;
    struct postgres_connection connection;
    char name[80]; /* for texts */
};

/* ---- settings ---- */

enum error_code tables_postgres_judge(const struct tables_postgres_settings *settings,
                                      enum tables_postgres_durability durability,
                                      struct tables_postgres_report *ret_report,
                                      struct error *ret_error)
{
    const char *commit = settings->synchronous_commit;
    const char *standbys = settings->synchronous_standby_names;
    const bool is_alone = !*standbys || !strcmp(commit, "local");
    const bool is_remote = !is_alone && strcmp(commit, "remote_write") != 0;

    if (settings->version < TABLES_POSTGRES_VERSION_MIN)
        return error_set(ret_error, ERROR_INVALID,
                         "the server has version %u: 13 or later is needed",
                         (unsigned)(settings->version / 10000));
    if (strcmp(settings->fsync, "on") != 0)
        return error_set(ret_error, ERROR_INVALID,
                         "fsync is off: the server loses acknowledged timers with its power");
    if (!strcmp(commit, "off"))
        return error_set(ret_error, ERROR_INVALID,
                         "synchronous_commit is off: the server loses acknowledged timers when it "
                         "crashes");
    if (is_alone && durability == TABLES_POSTGRES_REPLICATED)
        return error_set(ret_error, ERROR_INVALID,
                         "cluster_durability is replicated, and %s: acknowledged timers would be "
                         "on one server only. Set it there, or cluster_durability = server",
                         *standbys ? "synchronous_commit is local"
                                   : "synchronous_standby_names is empty");
    *ret_report->warning = '\0';
    if (is_remote)
        snprintf(ret_report->means, sizeof(ret_report->means),
                 "synced by the primary and by the synchronous standby (%.80s)", standbys);
    else if (!is_alone)
        snprintf(ret_report->means, sizeof(ret_report->means),
                 "synced by the primary, and in the memory of the synchronous standby (%.80s)",
                 standbys);
    else
        snprintf(ret_report->means, sizeof(ret_report->means), "synced by one server");
    if (is_alone)
        snprintf(ret_report->warning, sizeof(ret_report->warning),
                 "what is acknowledged is on one server, unless its storage is replicated: all "
                 "timers are lost with it");
    else if (!is_remote)
        snprintf(
            ret_report->warning, sizeof(ret_report->warning),
            "synchronous_commit is remote_write: acknowledged timers are lost when primary and "
            "standby lose their power");
    return ERROR_NONE;
}

static void tables_postgres_text(const PGresult *result, int column, char *ret_text, size_t size)
{
    const struct bytes bytes = postgres_result_bytes(result, 0, column);

    snprintf(ret_text, size, "%.*s", (int)bytes.size, bytes.data);
}

static enum error_code tables_postgres_check_settings(struct tables_postgres *tables,
                                                      struct error *ret_error)
{
    static const struct postgres_query query = {
        .sql = "SELECT current_setting('server_version_num')::int8,"
               " current_setting('server_version'), current_setting('synchronous_commit'),"
               " current_setting('synchronous_standby_names'), current_setting('fsync')"};
    char commit[20], standbys[200], fsync[8];
    PGresult *result = NULL;
    const enum error_code code =
        postgres_connection_ask(&tables->connection, &query, &result, ret_error);

    if (code)
        return code;
    const uint64_t version = postgres_result_u64(result, 0, 0);
    tables_postgres_text(result, 1, tables->report.server, sizeof(tables->report.server));
    tables_postgres_text(result, 2, commit, sizeof(commit));
    tables_postgres_text(result, 3, standbys, sizeof(standbys));
    tables_postgres_text(result, 4, fsync, sizeof(fsync));
    PQclear(result);
    const struct tables_postgres_settings settings = {version, commit, standbys, fsync};
    return tables_postgres_judge(&settings, tables->options->durability, &tables->report,
                                 ret_error);
}

/* ---- the founding ---- */

static struct founding_log tables_postgres_founding(const struct tables_postgres *tables,
                                                    struct log *log)
{
    return (struct founding_log){
        .log = log,
        .name = tables->name,
        .partition_count = tables->options->partition_count,
        .secret = tables->options->secret,
        .wait_ms = TABLES_POSTGRES_WAIT_MS,
        .stops = tables->options->stops,
    };
}

/* Reads the founding without a log, which would need more connections. */
static enum error_code tables_postgres_read_founding(struct tables_postgres *tables,
                                                     struct error *ret_error)
{
    const struct founding_log founding = tables_postgres_founding(tables, NULL);
    char sql[300];
    const struct postgres_query query = {.sql = sql};
    PGresult *result = NULL;

    snprintf(sql, sizeof(sql),
             "SELECT body FROM \"%.60s_log\" WHERE partition = -1 ORDER BY place LIMIT 1",
             tables->options->name);
    enum error_code code = postgres_connection_ask(&tables->connection, &query, &result, ret_error);
    if (code)
        return code;
    code = PQntuples(result) == 0
               ? error_set(ret_error, ERROR_NOT_FOUND,
                           "the cluster is not founded: tickwheeld --cluster-create does it")
               : founding_log_judge(&founding, postgres_result_bytes(result, 0, 0),
                                    &tables->report.cluster, &tables->report.founding, ret_error);
    PQclear(result);
    return code;
}

enum tables_postgres_step { TABLES_POSTGRES_FOUND, TABLES_POSTGRES_CHANGE };

static enum error_code tables_postgres_append(struct tables_postgres *tables,
                                              enum tables_postgres_step step,
                                              struct error *ret_error)
{
    const struct log_postgres_options options = {.uri = tables->options->uri,
                                                 .name = tables->options->name,
                                                 .append_timeout_ms = TABLES_POSTGRES_WAIT_MS,
                                                 .must_replicate = tables->options->durability ==
                                                                   TABLES_POSTGRES_REPLICATED};
    struct log_postgres_client *client = NULL;
    struct log *log = NULL;
    enum error_code code = log_postgres_client_open(&options, &client, ret_error);

    if (!code)
        code = log_postgres_open(client, LOG_POSTGRES_CONTROL, &log, ret_error);
    if (!code) {
        const struct founding_log founding = tables_postgres_founding(tables, log);

        code = step == TABLES_POSTGRES_FOUND
                   ? founding_log_make(&founding, &tables->report.cluster,
                                       &tables->report.is_founded, ret_error)
                   : founding_log_change(&founding, tables->report.cluster, ret_error);
    }
    log_close(log);
    log_postgres_client_close(client);
    return code;
}

/* ---- both ---- */

/* Waits until the server answers. */
static enum error_code tables_postgres_open(struct tables_postgres *tables, struct error *ret_error)
{
    const struct tables_postgres_options *options = tables->options;
    const struct postgres_setup setup = {.uri = options->uri,
                                         .name = "tickwheel",
                                         .connect_ms = TABLES_POSTGRES_CONNECT_MS,
                                         .answer_ms = TABLES_POSTGRES_ANSWER_MS};
    const struct instant until = instant_add_ms(instant_now(), TABLES_POSTGRES_WAIT_MS);
    static const struct postgres_query query = {.sql = "SELECT 1"};
    struct error error;

    snprintf(tables->name, sizeof(tables->name), "table %.60s_log", options->name);
    if (strlen(options->name) > LOG_POSTGRES_NAME_MAX || strpbrk(options->name, "\"'\\"))
        return error_set(ret_error, ERROR_INVALID, "cluster_name: at most %d bytes, and no quotes",
                         LOG_POSTGRES_NAME_MAX);
    if (postgres_connection_open(&tables->connection, &setup, &error))
        return error_set(ret_error, ERROR_INVALID, "cluster_log: %.200s", error.text);
    for (bool is_first = true; postgres_connection_ask(&tables->connection, &query, NULL, &error);
         is_first = false) {
        if (instant_now().ns >= until.ns || (options->stops && atomic_load(options->stops)))
            return error_set(ret_error, ERROR_IO, "cluster_log: %.200s", error.text);
        if (is_first && options->waits)
            options->waits(options->context, error.text);
        poll(NULL, 0, TABLES_POSTGRES_AGAIN_MS);
    }
    return ERROR_NONE;
}

static enum error_code tables_postgres_look(struct tables_postgres *tables, struct error *ret_error)
{
    enum error_code code = tables_postgres_check_settings(tables, ret_error);

    return code ? code
                : log_postgres_table_check(&tables->connection, tables->options->name, ret_error);
}

enum error_code tables_postgres_create(const struct tables_postgres_options *options,
                                       struct tables_postgres_report *ret_report,
                                       struct error *ret_error)
{
    struct tables_postgres tables = {.options = options};
    enum error_code code = tables_postgres_open(&tables, ret_error);

    if (!code)
        code = tables_postgres_check_settings(&tables, ret_error);
    if (!code)
        code = log_postgres_table_create(&tables.connection, options->name, ret_error);
    if (!code)
        code = log_postgres_table_check(&tables.connection, options->name, ret_error);
    if (!code)
        code = tables_postgres_append(&tables, TABLES_POSTGRES_FOUND, ret_error);
    postgres_connection_close(&tables.connection);
    if (!code)
        *ret_report = tables.report;
    return code;
}

enum error_code tables_postgres_check(const struct tables_postgres_options *options,
                                      struct tables_postgres_report *ret_report,
                                      struct error *ret_error)
{
    struct tables_postgres tables = {.options = options};
    enum error_code code = tables_postgres_open(&tables, ret_error);

    if (!code)
        code = tables_postgres_look(&tables, ret_error);
    if (!code)
        code = tables_postgres_read_founding(&tables, ret_error);
    postgres_connection_close(&tables.connection);
    if (!code)
        *ret_report = tables.report;
    return code;
}

enum error_code tables_postgres_change_secret(const struct tables_postgres_options *options,
                                              struct error *ret_error)
{
    struct tables_postgres tables = {.options = options};
    enum error_code code = tables_postgres_open(&tables, ret_error);

    if (!code)
        code = tables_postgres_read_founding(&tables, ret_error);
    if (!code)
        code = tables_postgres_append(&tables, TABLES_POSTGRES_CHANGE, ret_error);
    postgres_connection_close(&tables.connection);
    return code;
}
