/*
 * founding_log.h - the founding of a cluster (founding.h) in its control log: read, made, and
 * changed, whatever carries the log.
 *
 * Time       Each call waits for the log for `wait_ms` at most.
 * Errors     ERROR_IO: the log does not answer, or refuses. ERROR_INVALID: it begins with another
 *            record, or has another count of partitions. ERROR_NOT_FOUND: it has no record.
 * Threads    The owner of the log.
 */
#ifndef TICKWHEEL_CLUSTER_FOUNDING_LOG_H
#define TICKWHEEL_CLUSTER_FOUNDING_LOG_H

#include "cluster/founding.h"
#include "log/log.h"

#include <stdatomic.h>

struct founding_log {
    struct log *log;
    const char *name; /* what carries the log, for texts: "topic tickwheel.control" */
    uint16_t partition_count;
    struct bytes secret; /* secret of the nodes, for a founding; may be empty */
    uint64_t wait_ms;
    const atomic_bool *stops; /* ends the call with ERROR_IO when true; NULL for never */
};

/* Reads the founding and the id of the cluster, which is in its frame. */
enum error_code founding_log_read(const struct founding_log *founding, uint64_t *ret_cluster,
                                  struct founding *ret_founding, struct error *ret_error);

/* The same; founds the cluster if the log has no record. Where two nodes do so, the first record
 * counts. */
enum error_code founding_log_make(const struct founding_log *founding, uint64_t *ret_cluster,
                                  bool *ret_is_founded, struct error *ret_error);

/* Judges the first record of the log; uses neither `log` nor `wait_ms`. */
enum error_code founding_log_judge(const struct founding_log *founding, struct bytes bytes,
                                   uint64_t *ret_cluster, struct founding *ret_founding,
                                   struct error *ret_error);

/* Appends a founding of this cluster with the secret. */
enum error_code founding_log_change(const struct founding_log *founding, uint64_t cluster,
                                    struct error *ret_error);

#endif
