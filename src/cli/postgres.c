/* postgres.c - the verb postgres: prints, makes or checks the outbox of a database, or an inbox. */
#include "cli/verbs.h"

#include "base/sql_name.h"

#ifdef TICKWHEEL_WITH_POSTGRES
#include "log/postgres/postgres_connection.h"
#endif

#include <string.h>

extern const char postgres_outbox[]; /* postgres_outbox.sql */
extern const size_t postgres_outbox_size;

#ifdef TICKWHEEL_WITH_POSTGRES

#define POSTGRES_OUTBOX_VERSION 1

/* Time limits, in milliseconds. A change of the schema may wait for transactions that write. */
enum { POSTGRES_CONNECT_MS = 10000, POSTGRES_ANSWER_MS = 60000 };

static enum cli_exit postgres_ask(const char *uri, const char *sql, uint64_t *ret_number)
{
    const struct postgres_setup setup = {.uri = uri,
                                         .name = "tickwheel",
                                         .connect_ms = POSTGRES_CONNECT_MS,
                                         .answer_ms = POSTGRES_ANSWER_MS};
    const struct postgres_query query = {.sql = sql};
    struct postgres_connection connection = {0};
    PGresult *result = NULL;
    struct error error;

    if (postgres_connection_open(&connection, &setup, &error))
        return cli_complain(CLI_EXIT_USAGE, "%s", error.text);
    const enum error_code code = postgres_connection_ask(&connection, &query, &result, &error);
    if (!code && PQntuples(result) == 1)
        *ret_number = postgres_result_u64(result, 0, 0);
    PQclear(result);
    const bool is_connected = connection.generation > 0;
    postgres_connection_close(&connection);
    if (code)
        return cli_complain(is_connected ? CLI_EXIT_FAILED : CLI_EXIT_UNAVAILABLE, "%s",
                            error.text);
    return CLI_EXIT_DONE;
}

static enum cli_exit postgres_apply(struct cli *cli, const char *uri, const char *sql)
{
    uint64_t unused;
    const enum cli_exit code = postgres_ask(uri, sql, &unused);

    if (!code)
        buffer_printf(&cli->out, "the %s is ready\n",
                      cli_flag(cli, CLI_FLAG_INBOX) ? "inbox" : "outbox");
    return code;
}

static enum cli_exit postgres_check(struct cli *cli, const char *uri)
{
    uint64_t exists = 0, version = 0;
    enum cli_exit code = postgres_ask(
        uri, "SELECT count(*) FROM pg_class WHERE oid = to_regclass('tickwheel.reader')", &exists);

    if (!code && !exists)
        return cli_complain(CLI_EXIT_NOT_FOUND,
                            "there is no outbox: make it by tickwheel postgres init URI --apply");
    if (!code)
        code = postgres_ask(uri, "SELECT version::bigint FROM tickwheel.reader", &version);
    if (code)
        return code;
    if (version != POSTGRES_OUTBOX_VERSION)
        return cli_complain(CLI_EXIT_CONFLICT, "the outbox has version %llu, this tickwheel %d%s",
                            (unsigned long long)version, POSTGRES_OUTBOX_VERSION,
                            version < POSTGRES_OUTBOX_VERSION ? ": --apply brings it up to date"
                                                              : "");
    buffer_printf(&cli->out, "the outbox has version %d\n", POSTGRES_OUTBOX_VERSION);
    return CLI_EXIT_DONE;
}

#else

static enum cli_exit postgres_apply(struct cli *cli, const char *uri, const char *sql)
{
    (void)cli;
    (void)uri;
    (void)sql;
    return cli_complain(CLI_EXIT_USAGE, "this tickwheel was built without PostgreSQL: give what it "
                                        "prints to psql");
}

static enum cli_exit postgres_check(struct cli *cli, const char *uri)
{
    return postgres_apply(cli, uri, "");
}

#endif

/* Appends the statements that make the outbox, or the inbox of this name. */
static void postgres_append_sql(struct buffer *sql, const char *inbox)
{
    if (!inbox) {
        buffer_append(sql, postgres_outbox, postgres_outbox_size);
        return;
    }
    buffer_append_text(sql, "CREATE TABLE IF NOT EXISTS ");
    sql_name_append(sql, bytes_of(inbox));
    buffer_append_text(sql,
                       " (\n    webhook_id text PRIMARY KEY,\n    due timestamptz NOT NULL,\n"
                       "    attempt integer NOT NULL,\n    key text,\n"
                       "    headers jsonb NOT NULL,\n    payload jsonb,\n    body bytea\n);\n");
}

enum cli_exit postgres_run(struct cli *cli)
{
    const size_t count = cli->options.argument_count;
    const char *uri = count > 1 ? cli->options.arguments[1] : NULL;
    const char *inbox = cli_flag(cli, CLI_FLAG_INBOX);
    const bool applies = cli_flag(cli, CLI_FLAG_APPLY), checks = cli_flag(cli, CLI_FLAG_CHECK);
    struct buffer sql;

    if (strcmp(cli->options.arguments[0], "init") != 0)
        return cli_complain(CLI_EXIT_USAGE,
                            "write: postgres init [URI] [--inbox TABLE] [--apply|--check]");
    if (applies && checks)
        return cli_complain(CLI_EXIT_USAGE, "give --apply or --check");
    if ((applies || checks) && !uri)
        return cli_complain(CLI_EXIT_USAGE,
                            "give the URI of the database: postgres://USER@HOST/NAME");
    if (inbox && (checks || !*inbox))
        return cli_complain(CLI_EXIT_USAGE, "give --inbox the name of a table, without --check");
    if (checks)
        return postgres_check(cli, uri);
    buffer_init(&sql);
    postgres_append_sql(&sql, inbox);
    enum cli_exit code = CLI_EXIT_DONE;
    if (!applies)
        buffer_append(&cli->out, sql.data, sql.size);
    buffer_append(&sql, "", 1);
    if (buffer_failed(&sql))
        code = cli_complain(CLI_EXIT_FAILED, "out of memory");
    else if (applies)
        code = postgres_apply(cli, uri, sql.data);
    buffer_deinit(&sql);
    return code;
}
