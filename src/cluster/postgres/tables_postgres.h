/*
 * tables_postgres.h - the table of a cluster on PostgreSQL: makes it, and checks that the settings
 * of the server keep what the cluster promises.
 *
 *     const struct tables_postgres_options options = {"postgres://...", "tickwheel", 24};
 *     if (tables_postgres_create(&options, &report, &error)) ... error.text says what is wrong
 *
 * The first record of the control log founds the cluster (founding_log.h).
 *
 * Time       Waits for the server for TABLES_POSTGRES_WAIT_MS at most.
 * Errors     ERROR_IO: the server does not answer, or refuses. ERROR_INVALID: a setting endangers
 *            timers, or contradicts `durability`. ERROR_NOT_FOUND, of the check alone: there is no
 *            such table, or no founding.
 * Threads    No state: any. A check has one connection.
 */
#ifndef TICKWHEEL_CLUSTER_POSTGRES_TABLES_POSTGRES_H
#define TICKWHEEL_CLUSTER_POSTGRES_TABLES_POSTGRES_H

#include "cluster/founding.h"
#include "base/error.h"

#include <stdatomic.h>

enum {
    TABLES_POSTGRES_WAIT_MS = 30000,
    TABLES_POSTGRES_VERSION_MIN = 130000, /* server_version_num */
};

/* Where an acknowledged timer must be. */
enum tables_postgres_durability {
    TABLES_POSTGRES_REPLICATED, /* synced by the primary, and at a synchronous standby */
    TABLES_POSTGRES_SERVER,     /* synced by the server; what stands behind it is not asked */
};

struct tables_postgres_options {
    const char *uri;
    const char *name; /* name of the cluster */
    uint16_t partition_count;
    enum tables_postgres_durability durability;
    struct bytes secret; /* secret of the nodes, for the founding; may be empty */
    /* Called with the reason for which the server is awaited, once for each. May be NULL. */
    void (*waits)(const void *context, const char *reason);
    const void *context;
    const atomic_bool *stops; /* ends the call with ERROR_IO when true; NULL for never */
};

struct tables_postgres_report {
    uint64_t cluster;
    struct founding founding;
    bool is_founded;   /* whether this call founded the cluster */
    char server[60];   /* version of the server */
    char means[200];   /* what acknowledged means with the settings of the server */
    char warning[200]; /* what these settings risk; empty if nothing */
};

/* Settings of the server, as it names them. */
struct tables_postgres_settings {
    uint64_t version; /* server_version_num */
    const char *synchronous_commit, *synchronous_standby_names, *fsync;
};

/* Makes the table and founds the cluster, if they are not there, and checks all. */
enum error_code tables_postgres_create(const struct tables_postgres_options *options,
                                       struct tables_postgres_report *ret_report,
                                       struct error *ret_error);

/* Changes nothing. */
enum error_code tables_postgres_check(const struct tables_postgres_options *options,
                                      struct tables_postgres_report *ret_report,
                                      struct error *ret_error);

/* Founds the cluster again with another secret. */
enum error_code tables_postgres_change_secret(const struct tables_postgres_options *options,
                                              struct error *ret_error);

/* Judges the settings: fills means and warning, or refuses them. */
enum error_code tables_postgres_judge(const struct tables_postgres_settings *settings,
                                      enum tables_postgres_durability durability,
                                      struct tables_postgres_report *ret_report,
                                      struct error *ret_error);

#endif
