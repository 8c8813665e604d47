/*
 * cluster_import.c - puts the timers of data folders into the empty log of a cluster.
 *
 * Each partition becomes the beginning of the log of that partition (import.h), from the folder
 * that has the best copy of it (import_folders.h). First all logs are looked at. Then each gets its
 * first record: from then on a node that starts waits for the rest, and claims nothing. Then the
 * rest is appended, and at last everything is read and compared. The command can be repeated when
 * it was interrupted: it goes on behind the records that the log has.
 */
#include "import_folders.h"
#include "steps.h"

#include "node/node_cluster_log.h"
#include "cluster/import.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum { IMPORT_DONE = 0, IMPORT_FAILED = 1, IMPORT_UNREADABLE = 2, IMPORT_WAIT_MS = 60000 };

enum cluster_import_step {
    /* first pass: appends nothing, but checks that the log is empty or begins with this import */
    CLUSTER_IMPORT_LOOK,
    CLUSTER_IMPORT_BEGIN,   /* appends only the first record */
    CLUSTER_IMPORT_APPEND,  /* appends the records that are missing */
    CLUSTER_IMPORT_COMPARE, /* reads the log again: it must have every record of the import */
    CLUSTER_IMPORT_STEPS,
};

struct cluster_import {
    const struct config *config;
    struct import_folders folders;
    uint64_t cluster;
    struct cluster_log_client *client;
    uint16_t partition;
    enum cluster_import_step step;
    struct import *import;
    struct log *log;
    uint64_t live; /* timers of the partitions that were compared */
    uint64_t records;
    bool is_appending; /* the end of the log was reached, so the following records are appended */
    bool is_sent;      /* an append of the import is in flight */
};

static bool cluster_import_is_over(const struct cluster_import *run)
{
    return import_frame(run->import).size == 0;
}

/* Counts a record that the log has, and makes the next record of the import. */
static enum error_code cluster_import_go_on(struct cluster_import *run, struct error *ret_error)
{
    run->records++;
    return import_next(run->import, ret_error);
}

static enum error_code cluster_import_compare(struct cluster_import *run, struct bytes record,
                                              struct error *ret_error)
{
    if (run->is_appending)
        return ERROR_NONE; /* a record that this run has appended */
    if (bytes_equal(record, import_frame(run->import)))
        return cluster_import_go_on(run, ret_error);
    if (import_is_repeat(run->import, record))
        return ERROR_NONE;
    return error_set(ret_error, ERROR_INVALID,
                     "partition %u of the cluster %.64s is not empty, and has something else than "
                     "the import of these folders: use a cluster that no node has started in",
                     run->partition, run->config->cluster_name);
}

static enum error_code cluster_import_end(struct cluster_import *run, struct error *ret_error)
{
    if (run->step == CLUSTER_IMPORT_COMPARE)
        return error_set(ret_error, ERROR_IO, "partition %u of the cluster %.64s lacks records",
                         run->partition, run->config->cluster_name);
    /* from here on records are missing, and are appended in the steps that append */
    run->is_appending = true;
    return ERROR_NONE;
}

static enum error_code cluster_import_handle(struct cluster_import *run,
                                             const struct log_event *event, struct error *ret_error)
{
    switch (event->kind) {
    case LOG_RECORD:
        return cluster_import_compare(run, event->bytes, ret_error);
    case LOG_END:
        return cluster_import_end(run, ret_error);
    case LOG_LANDED:
        run->is_sent = false;
        return cluster_import_go_on(run, ret_error);
    case LOG_FAILED:
    case LOG_LOST:
        return error_set(ret_error, ERROR_IO, "the log of partition %u: %.100s", run->partition,
                         event->reason);
    default:
        return ERROR_NONE;
    }
}

static bool cluster_import_has_done(const struct cluster_import *run)
{
    if (run->step == CLUSTER_IMPORT_LOOK && run->is_appending)
        return true;
    return cluster_import_is_over(run) || (run->step <= CLUSTER_IMPORT_BEGIN && run->records > 0);
}

/* Runs one step of one partition. */
static enum error_code cluster_import_walk(struct cluster_import *run, struct error *ret_error)
{
    struct instant until = instant_add_ms(instant_now(), IMPORT_WAIT_MS);
    enum error_code code = log_follow_begin(run->log, ret_error);

    while (!code && !cluster_import_has_done(run)) {
        struct log_event event;

        if (run->is_appending && !run->is_sent) {
            code = log_append(run->log, run->records + 1, import_frame(run->import), ret_error);
            run->is_sent = !code;
        }
        if (!code && log_wait(run->log, IMPORT_WAIT_MS, &event)) {
            code = cluster_import_handle(run, &event, ret_error);
            until = instant_add_ms(instant_now(), IMPORT_WAIT_MS);
        } else if (!code && instant_now().ns >= until.ns) {
            code = error_set(ret_error, ERROR_IO, "the brokers do not answer");
        }
    }
    return code;
}

/* Counts the timers of a partition whose records were all read back. */
static enum error_code cluster_import_count(struct cluster_import *run, struct error *ret_error)
{
    const uint64_t live = import_live(run->import), counted = import_live_counted(run->import);

    if (live != counted)
        return error_set(ret_error, ERROR_CORRUPT,
                         "partition %u of %.100s has %" PRIu64 " live timers, and counts %" PRIu64
                         ": see --check",
                         run->partition,
                         run->folders.names[run->folders.choices[run->partition].taken], live,
                         counted);
    run->live += live;
    import_folders_tell(&run->folders, run->partition, live);
    return ERROR_NONE;
}

static enum error_code cluster_import_partition(struct cluster_import *run, struct error *ret_error)
{
    const struct import_choice *choice = &run->folders.choices[run->partition];
    enum error_code code = import_open(run->folders.storages[choice->taken], run->partition,
                                       run->cluster, choice->epoch, &run->import, ret_error);

    run->records = 0;
    run->is_appending = run->is_sent = false;
    if (code)
        return code;
    code = cluster_log_open(run->client, run->partition, 0, &run->log, ret_error);
    if (!code)
        code = import_next(run->import, ret_error);
    if (!code)
        code = cluster_import_walk(run, ret_error);
    if (!code && run->step == CLUSTER_IMPORT_COMPARE)
        code = cluster_import_count(run, ret_error);
    log_close(run->log);
    import_close(run->import);
    run->log = NULL;
    run->import = NULL;
    return code;
}

static enum error_code cluster_import_all(struct cluster_import *run, struct error *ret_error)
{
    struct cluster_log_options options = node_cluster_log_options(run->config);
    options.append_timeout_ms = IMPORT_WAIT_MS;
    enum error_code code = cluster_log_client_open(&options, &run->client, ret_error);

    for (int step = 0; step < CLUSTER_IMPORT_STEPS && !code; step++) {
        run->step = (enum cluster_import_step)step;
        for (uint32_t i = 0; i < run->config->partitions && !code; i++) {
            run->partition = (uint16_t)i;
            code = cluster_import_partition(run, ret_error);
        }
    }
    cluster_log_client_close(run->client);
    run->client = NULL;
    return code;
}

static enum error_code cluster_import_check(struct cluster_import *run, struct error *ret_error)
{
    const struct cluster_log_options options = node_cluster_log_options(run->config);
    struct cluster_log_report report;

    if (run->folders.partition_count != run->config->partitions)
        return error_set(
            ret_error, ERROR_INVALID,
            "the folder has %u partitions, and the cluster %u: ids and keys would lead "
            "elsewhere; use tickwheel export and import",
            run->folders.partition_count, run->config->partitions);
    const enum error_code code = cluster_log_check(&options, &report, ret_error);
    if (!code)
        run->cluster = report.cluster;
    return code;
}

static int cluster_import_failed(const struct error *error, int exit_code)
{
    fprintf(stderr, "tickwheeld: cluster-import: %s\n", error->text);
    return exit_code;
}

static int cluster_import_run(struct cluster_import *run)
{
    struct error error = {.text = ""};

    if (import_folders_choose(&run->folders, &error))
        return cluster_import_failed(&error, IMPORT_UNREADABLE);
    if (cluster_import_check(run, &error) || cluster_import_all(run, &error))
        return cluster_import_failed(&error, IMPORT_FAILED);
    printf("all %" PRIu64 " live timers are in the log of the cluster %s. Start its nodes with "
           "empty data folders.\n",
           run->live, run->config->cluster_name);
    return fflush(stdout) == 0 ? IMPORT_DONE : IMPORT_FAILED;
}

int cluster_import(const struct config *config, const char *const *folders, size_t folder_count)
{
    struct cluster_import run = {.config = config};
    struct error error;

    if (!config_is_cluster(config)) {
        fprintf(stderr, "tickwheeld: --cluster-import needs cluster_log or cluster_brokers\n");
        return IMPORT_UNREADABLE;
    }
    const int result = import_folders_open(&run.folders, folders, folder_count, &error)
                           ? cluster_import_failed(&error, IMPORT_UNREADABLE)
                           : cluster_import_run(&run);
    import_folders_close(&run.folders);
    return result;
}
