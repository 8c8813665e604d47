/*
 * delivery_log.h - the log of deliveries: what became of each attempt, kept on disk in a ring
 * (delivery_ring.h) by a thread of its own. The thread starts when there is a delivery or a
 * question, or at the start if the folder has deliveries, which get too old.
 *
 *     delivery_log_start(&options, &log, &error);
 *     delivery_log_add(log, shard, tenant, &entry);     never waits
 *     delivery_log_ask(log, &query);                    query.done comes on the log's thread
 *     delivery_log_stop(log);
 *
 * Promises   Entries are written at the latest a second after they were added, and by a stop or
 *            before a query is answered: kill -9 loses those of the last second. The end of the
 *            machine may lose more, because nothing is synced. The disk never delays `add`: an
 *            entry for which there is no room is dropped and counted.
 * Errors     If the system refuses a thread, entries wait as for a slow disk, and a query fails
 *            within delivery_log_ask.
 * Ownership  Entries are copied. A query is the caller's again when `done` is called.
 * Threads    add, ask and stats from any thread; start and stop from one.
 */
#ifndef TICKWHEEL_DELIVERY_LOG_DELIVERY_LOG_H
#define TICKWHEEL_DELIVERY_LOG_DELIVERY_LOG_H

#include "delivery_log/delivery_ring.h"

/* name of the log's folder in a data folder; backups omit it */
#define DELIVERY_LOG_FOLDER "deliveries"

#define DELIVERY_LOG_WRITE_MS 1000 /* time for which an entry waits to be written */

/* Maximum size of the entries of a feeder that wait to be written. */
#define DELIVERY_LOG_FEEDER_BYTES (2 << 20)

struct delivery_log_options {
    struct delivery_ring_options ring;
    unsigned feeders; /* number of threads that usually add */
};

struct delivery_log;

enum error_code delivery_log_start(const struct delivery_log_options *options,
                                   struct delivery_log **ret_log, struct error *ret_error);

/* Writes what was added, answers what was asked, and ends the thread. NULL is allowed. */
void delivery_log_stop(struct delivery_log *log);

/* Adds an entry. `feeder` is the number of the calling thread, below options.feeders, so that
 * threads do not wait for each other. */
void delivery_log_add(struct delivery_log *log, unsigned feeder, struct bytes tenant,
                      const struct delivery_entry *entry);

/* Answers the query later. Queries of different tenants take turns. */
void delivery_log_ask(struct delivery_log *log, struct delivery_query *query);

void delivery_log_stats(const struct delivery_log *log, struct delivery_ring_stats *ret_stats);

/* Returns the number of entries whose write failed, and the cause of the last failure. */
uint64_t delivery_log_failed(struct delivery_log *log, struct error *ret_cause);

#endif
