/* log_postgres_none.c - in place of the log on PostgreSQL, where libpq is not there. */
#include "log/postgres/log_postgres_once.h"

enum error_code log_postgres_client_open(const struct log_postgres_options *options,
                                         struct log_postgres_client **ret_client,
                                         struct error *ret_error)
{
    (void)options, (void)ret_client;
    return error_set(ret_error, ERROR_INVALID, "cluster_log: this program was built without libpq");
}

void log_postgres_client_close(struct log_postgres_client *client)
{
    (void)client;
}

enum error_code log_postgres_open(struct log_postgres_client *client, uint32_t partition,
                                  struct log **ret_log, struct error *ret_error)
{
    (void)client, (void)partition, (void)ret_log;
    return error_set(ret_error, ERROR_INVALID, "cluster_log: this program was built without libpq");
}

enum error_code log_postgres_once_open(struct log *log, struct log_once **ret_once,
                                       struct error *ret_error)
{
    (void)log, (void)ret_once;
    return error_set(ret_error, ERROR_INVALID, "cluster_log: this program was built without libpq");
}
