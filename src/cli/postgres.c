/* postgres.c - the verb postgres: prints, makes or checks the outbox of a database. */
#include "cli/verbs.h"

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

static enum cli_exit postgres_apply(struct cli *cli, const char *uri)
{
    struct buffer sql;
    uint64_t unused;

    buffer_init(&sql);
    buffer_append(&sql, postgres_outbox, postgres_outbox_size);
    buffer_append(&sql, "", 1);
    const enum cli_exit code = buffer_failed(&sql) ? cli_complain(CLI_EXIT_FAILED, "out of memory")
                                                   : postgres_ask(uri, sql.data, &unused);
    buffer_deinit(&sql);
    if (!code)
        buffer_append_text(&cli->out, "the outbox is ready\n");
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

static enum cli_exit postgres_apply(struct cli *cli, const char *uri)
{
    (void)cli;
    (void)uri;
    return cli_complain(CLI_EXIT_USAGE, "this tickwheel was built without PostgreSQL: give what it "
                                        "prints to psql");
}

static enum cli_exit postgres_check(struct cli *cli, const char *uri)
{
    return postgres_apply(cli, uri);
}

#endif

enum cli_exit postgres_run(struct cli *cli)
{
    const size_t count = cli->options.argument_count;
    const char *uri = count > 1 ? cli->options.arguments[1] : NULL;
    const bool applies = cli_flag(cli, CLI_FLAG_APPLY), checks = cli_flag(cli, CLI_FLAG_CHECK);

    if (strcmp(cli->options.arguments[0], "init") != 0)
        return cli_complain(CLI_EXIT_USAGE, "write: postgres init [URI] [--apply|--check]");
    if (applies && checks)
        return cli_complain(CLI_EXIT_USAGE, "give --apply or --check");
    if ((applies || checks) && !uri)
        return cli_complain(CLI_EXIT_USAGE,
                            "give the URI of the database: postgres://USER@HOST/NAME");
    if (applies)
        return postgres_apply(cli, uri);
    if (checks)
        return postgres_check(cli, uri);
    buffer_append(&cli->out, postgres_outbox, postgres_outbox_size);
    return CLI_EXIT_DONE;
}
