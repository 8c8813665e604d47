/*
 * log_postgres_table.h - the table of a cluster's logs on PostgreSQL (log_postgres.h).
 *
 *     NAME_log    partition   int8     partition; -1 for the control log
 *                 place       int8     offset of the record in its log, from 0 on without gaps
 *                 chain       int8     hash of the record and of the chain before it
 *                 appended    int8     time of the append by the server, in ms since 1970
 *                 body        bytea    the record
 *
 * Errors     ERROR_IO: the server does not answer, or refuses. ERROR_INVALID: the name, or a table
 *            of that name with other columns. ERROR_NOT_FOUND: there is no such table.
 * Threads    One owner of the connection, which waits for the server.
 */
#ifndef TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_TABLE_H
#define TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_TABLE_H

#include "log/postgres/postgres_connection.h"

/* Makes the table if there is none. */
enum error_code log_postgres_table_create(struct postgres_connection *connection, const char *name,
                                          struct error *ret_error);

/* Checks that the table has these columns and its primary key, and may be written. */
enum error_code log_postgres_table_check(struct postgres_connection *connection, const char *name,
                                         struct error *ret_error);

#endif
