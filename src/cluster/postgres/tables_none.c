/* tables_none.c - in place of tables_postgres.c, where libpq is not there. */
#include "cluster/postgres/tables_postgres.h"

static enum error_code tables_none_refuse(struct error *ret_error)
{
    return error_set(ret_error, ERROR_INVALID, "cluster_log: this program was built without libpq");
}

enum error_code tables_postgres_create(const struct tables_postgres_options *options,
                                       struct tables_postgres_report *ret_report,
                                       struct error *ret_error)
{
    (void)options, (void)ret_report;
    return tables_none_refuse(ret_error);
}

enum error_code tables_postgres_check(const struct tables_postgres_options *options,
                                      struct tables_postgres_report *ret_report,
                                      struct error *ret_error)
{
    (void)options, (void)ret_report;
    return tables_none_refuse(ret_error);
}

enum error_code tables_postgres_change_secret(const struct tables_postgres_options *options,
                                              struct error *ret_error)
{
    (void)options;
    return tables_none_refuse(ret_error);
}
