/*
 * log_postgres.h - the logs of a cluster (log.h) in one table of a PostgreSQL database.
 *
 *     log_postgres_client_open(&options, &client, &error);            one for a node
 *     log_postgres_open(client, partition, &log, &error);             one for each partition
 *
 * A row is a record: its partition, its offset (`place`), and `chain`, the hash of the record and
 * of the chain before it. So two rows with one chain have equal records before them, and a server
 * that has lost records is noticed by the next append, the next read and, after a new connection,
 * at once: LOST.
 *
 * The primary key (partition, place) is the fence. An append of a partition names the place after
 * the last record that this log has returned or appended. If another record is there, the append is
 * REFUSED. Appends of the control log go to its end, wherever that is.
 *
 * An append whose connection breaks is sent again to the same place. A row with its chain there is
 * the append itself; before it has LANDED the row is written once more, which waits until the
 * server has replicated it.
 *
 * What the server acknowledged is as durable as its settings say: tables_postgres.h checks them,
 * and with `must_replicate` each append does.
 *
 * Errors     ERROR_INVALID for a URI that libpq does not take.
 * Threads    As log.h. A client has one thread, with at most LOG_POSTGRES_CONNECTIONS connections;
 *            log_postgres_once.h uses four more.
 */
#ifndef TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_H
#define TICKWHEEL_LOG_POSTGRES_LOG_POSTGRES_H

#include "log/log.h"

enum {
    LOG_POSTGRES_CONNECTIONS = 5,
    LOG_POSTGRES_NAME_MAX = 58, /* bytes of a cluster's name: that of its table has 63 */
};

/* Partition number of the control log. */
#define LOG_POSTGRES_CONTROL UINT32_MAX

struct log_postgres_options {
    const char *uri;            /* postgres://...; borrowed until the close, like `name` */
    const char *name;           /* name of the cluster; its table is NAME_log */
    uint64_t append_timeout_ms; /* time after which an append is in doubt */
    /* a server whose settings do not make a commit wait for a standby takes no append */
    bool must_replicate;
};

struct log_postgres_client;

/* Does not wait for the server. */
enum error_code log_postgres_client_open(const struct log_postgres_options *options,
                                         struct log_postgres_client **ret_client,
                                         struct error *ret_error);

/* Its logs must be closed. NULL is fine. */
void log_postgres_client_close(struct log_postgres_client *client);

/* Does not wait for the server. One log of a partition can be open in a client. */
enum error_code log_postgres_open(struct log_postgres_client *client, uint32_t partition,
                                  struct log **ret_log, struct error *ret_error);

#endif
