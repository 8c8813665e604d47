/*
 * log_postgres_once.h - statements of users, and frames of a partition's log, in one transaction of
 * PostgreSQL (log_once.h): the inbox of a database that has the log too.
 *
 * The statements run in the log's database as its user. A frame is appended as by log_postgres.h,
 * so a former owner's transaction finds its place taken. Before the frames, the transaction is what
 * it was at its begin, whatever a function has set: constraints are checked, and the session's user
 * and settings are as before.
 *
 * A statement to a table that does not exist is REFUSED with all that have its text, and LATER if
 * the table is locked. Of another one that is refused, or gets no answer, those with its text are
 * CROWDED.
 *
 * Four sessions of the client serve all its partitions, one transaction at a time each. One is for
 * rows that are apart, and one for calls of functions, whose time is the user's.
 */
#ifndef TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_ONCE_H
#define TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_ONCE_H

#include "log/log.h"
#include "log/log_once.h"
#include "log/postgres/log_postgres.h"

struct postgres_query;

/* Opens transactions of this log, of log_postgres.h, which must be closed after them. Does not wait
 * for the server. */
enum error_code log_postgres_once_open(struct log *log, struct log_once **ret_once,
                                       struct error *ret_error);

/* Adds the statement `index`: 0, 1, 2 and so on. The first waits for a session, which another
 * partition may have. Whatever a call raises may be cured; a row may be refused for good. */
void log_postgres_once_put(struct log_once *once, size_t index, const struct postgres_query *query,
                           bool is_call);

#endif
