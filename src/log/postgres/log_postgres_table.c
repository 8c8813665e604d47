/* log_postgres_table.c - see log_postgres_table.h. */
#include "log/postgres/log_postgres_table.h"

#include "log/postgres/log_postgres.h"

#include <stdio.h>

enum { SQL_SIZE = 1200 };

/* The bodies are compressed already, or small. Trimmed rows are many: vacuum follows the trims
 * without pauses, so that new rows take their space. */
static const char create_format[] =
    "CREATE TABLE IF NOT EXISTS \"%1$s_log\" (partition int8 NOT NULL, place int8 NOT NULL,"
    " chain int8 NOT NULL, appended int8 NOT NULL, body bytea NOT NULL,"
    " PRIMARY KEY (partition, place)) WITH (autovacuum_vacuum_scale_factor = 0.05,"
    " autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,"
    " toast.autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_threshold = 10000,"
    " toast.autovacuum_vacuum_cost_delay = 0)";
static const char store_format[] =
    "ALTER TABLE \"%1$s_log\" ALTER COLUMN body SET STORAGE EXTERNAL";
static const char check_format[] =
    "SELECT (SELECT string_agg(a.attname::text || ' ' || format_type(a.atttypid, NULL), ', '"
    " ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attnum > 0"
    " AND NOT a.attisdropped),"
    " (SELECT string_agg(a.attname::text, ', ' ORDER BY a.attnum) FROM pg_index i, pg_attribute a"
    " WHERE i.indrelid = t.oid AND i.indisprimary AND a.attrelid = t.oid"
    " AND a.attnum = ANY (i.indkey)),"
    " has_table_privilege(t.oid, 'SELECT, INSERT') AND has_table_privilege(t.oid, 'UPDATE')"
    " AND has_table_privilege(t.oid, 'DELETE')"
    " FROM (SELECT to_regclass('\"%1$s_log\"')::oid AS oid) AS t WHERE t.oid IS NOT NULL";
static const char columns[] =
    "partition bigint, place bigint, chain bigint, appended bigint, body bytea";

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static enum error_code log_postgres_table_ask(struct postgres_connection *connection,
                                              const char *format, const char *name,
                                              PGresult **ret_result, struct error *ret_error)
{
    char sql[SQL_SIZE];
    const struct postgres_query query = {.sql = sql};

    if (strlen(name) > LOG_POSTGRES_NAME_MAX || strpbrk(name, "\"'\\"))
        return error_set(ret_error, ERROR_INVALID, "cluster_name: at most %d bytes, and no quotes",
                         LOG_POSTGRES_NAME_MAX);
    if ((size_t)snprintf(sql, sizeof(sql), format, name) >= sizeof(sql))
        return error_set(ret_error, ERROR_INVALID, "cluster_name: it is too long");
    return postgres_connection_ask(connection, &query, ret_result, ret_error);
}
#pragma GCC diagnostic pop

enum error_code log_postgres_table_create(struct postgres_connection *connection, const char *name,
                                          struct error *ret_error)
{
    const enum error_code code =
        log_postgres_table_ask(connection, create_format, name, NULL, ret_error);

    return code ? code : log_postgres_table_ask(connection, store_format, name, NULL, ret_error);
}

enum error_code log_postgres_table_check(struct postgres_connection *connection, const char *name,
                                         struct error *ret_error)
{
    PGresult *result = NULL;
    enum error_code code =
        log_postgres_table_ask(connection, check_format, name, &result, ret_error);

    if (code)
        return code;
    if (PQntuples(result) == 0)
        code = error_set(
            ret_error, ERROR_NOT_FOUND,
            "the database has no table %.60s_log: tickwheeld --cluster-create makes it", name);
    else if (!bytes_equal(postgres_result_bytes(result, 0, 0), bytes_of(columns)) ||
             !bytes_equal(postgres_result_bytes(result, 0, 1), BYTES("partition, place")))
        code =
            error_set(ret_error, ERROR_INVALID,
                      "table %.60s_log has other columns or another primary key than a log", name);
    else if (!postgres_result_u64(result, 0, 2))
        code = error_set(ret_error, ERROR_INVALID,
                         "table %.60s_log: the user lacks SELECT, INSERT, UPDATE or DELETE", name);
    PQclear(result);
    return code;
}
