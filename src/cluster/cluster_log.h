/*
 * cluster_log.h - the logs of a cluster on the servers that its settings name: Kafka's brokers, or
 * a PostgreSQL database.
 *
 *     cluster_log_check(&options, &report, &error);                 at the start
 *     cluster_log_client_open(&options, &client, &error);           one for a node
 *     cluster_log_open(client, partition, lost_ms, &log, &error);   one for each partition
 *     cluster_log_open_once(client, partition, log, lease_ms, &once, &error);
 *
 * On Kafka the logs are the topics NAME.log and NAME.control (kafka/topics_kafka.h), on PostgreSQL
 * the table NAME_log (postgres/tables_postgres.h).
 *
 * Errors     ERROR_IO: the servers do not answer, or refuse. ERROR_INVALID: a setting endangers
 *            timers. ERROR_NOT_FOUND: the cluster was not made.
 * Ownership  The options are borrowed until the client is closed.
 * Threads    Any; a log has one owner.
 */
#ifndef TICKWHEEL_CLUSTER_CLUSTER_LOG_H
#define TICKWHEEL_CLUSTER_CLUSTER_LOG_H

#include "cluster/founding.h"
#include "log/log.h"
#include "log/log_once.h"

#include <stdatomic.h>

/* Where an acknowledged timer on PostgreSQL must be: the words of cluster_durability. */
enum cluster_log_durability { CLUSTER_LOG_REPLICATED, CLUSTER_LOG_SERVER };

/* Partition number of the control log. */
#define CLUSTER_LOG_CONTROL UINT32_MAX

struct cluster_log_options {
    const char *brokers; /* Kafka's, as host:port, separated by commas; empty for PostgreSQL */
    const char *uri;     /* postgres://...; empty for Kafka */
    const char *name;    /* name of the cluster */
    uint16_t partition_count;
    uint32_t replica_count; /* replicas of each record on Kafka; 0 means three */
    enum cluster_log_durability durability;
    uint64_t append_timeout_ms; /* of a client: time after which an append is in doubt */
    struct bytes secret;        /* secret of the nodes, for the founding; may be empty */
    /* Called with the reason for which servers are awaited, once for each reason. May be NULL. */
    void (*waits)(const void *context, const char *reason);
    const void *context;
    const atomic_bool *stops; /* ends the call with ERROR_IO when true; NULL for never */
};

struct cluster_log_report {
    uint64_t cluster;
    bool is_founded;   /* whether this call founded the cluster */
    char text[300];    /* what carries the log, and how safely */
    char warning[200]; /* what the settings risk; empty if nothing */
};

/* Makes what is missing, and checks all. A second call changes nothing. */
enum error_code cluster_log_create(const struct cluster_log_options *options,
                                   struct cluster_log_report *ret_report, struct error *ret_error);

/* Changes nothing. */
enum error_code cluster_log_check(const struct cluster_log_options *options,
                                  struct cluster_log_report *ret_report, struct error *ret_error);

/* Reads the id of the cluster and its founding. */
enum error_code cluster_log_identify(const struct cluster_log_options *options,
                                     uint64_t *ret_cluster, struct founding *ret_founding,
                                     struct error *ret_error);

/* Founds the cluster again with another secret. Nodes that have only the former one are refused. */
enum error_code cluster_log_change_secret(const struct cluster_log_options *options,
                                          struct error *ret_error);

/* What the logs of a node share. */
struct cluster_log_client;

/* Does not wait for a server. */
enum error_code cluster_log_client_open(const struct cluster_log_options *options,
                                        struct cluster_log_client **ret_client,
                                        struct error *ret_error);

/* Its logs must be closed. NULL is fine. */
void cluster_log_client_close(struct cluster_log_client *client);

/* Descriptor for a thread that serves several logs, as in log_kafka.h: when it is written, the
 * thread calls cluster_log_client_poll. -1 if the client needs none. */
int cluster_log_client_fd(const struct cluster_log_client *client);
void cluster_log_client_poll(struct cluster_log_client *client);

/* Opens the log of a partition, or the control log. Brokers may lack the next record for `lost_ms`
 * before it is LOST. */
enum error_code cluster_log_open(struct cluster_log_client *client, uint32_t partition,
                                 uint64_t lost_ms, struct log **ret_log, struct error *ret_error);

/* Opens transactions of a partition (log_once.h), whose log is `log`. After the claim that follows
 * none of a former owner is committed: Kafka ends them in this call, within `lease_ms`; PostgreSQL
 * has the claim at their place. */
enum error_code cluster_log_open_once(struct cluster_log_client *client, uint32_t partition,
                                      struct log *log, uint64_t lease_ms,
                                      struct log_once **ret_once, struct error *ret_error);

#endif
