/*
 * node_disk.h - the storage of a node, with the two threads that all shards share: batches to be
 * committed go to one, finds and scans to the other (storage_loops.h). Both come back to the
 * inboxes of their partitions.
 *
 * Threads    The thread that starts and stops the node. A member of the struct says which thread or
 *            lock it has, or is atomic.
 */
#ifndef TICKWHEEL_NODE_NODE_DISK_H
#define TICKWHEEL_NODE_NODE_DISK_H

#include "node/partition.h"
#include "node/storage_health.h"
#include "ops/config.h"
#include "ops/metrics.h"
#include "store/storage.h"
#include "sys/mailbox.h"
#include "timer/tenant_pot.h"

#include <pthread.h>
#include <stdatomic.h>

struct node_disk {
    const struct config *config; /* borrowed, as are the next four */
    struct metrics *metrics;
    struct partition *partitions;      /* to which batches and reads come back */
    const struct tenant_pot *inflight; /* timers in requests that are not answered */
    struct mailbox *news;              /* woken when the state of the storage has changed */
    struct storage *storage;

    /* Commits: on the commit thread, or on that of a shard. */
    pthread_t commit_thread;
    struct mailbox to_commit;    /* of struct storage_batch */
    pthread_mutex_t commit_lock; /* held during a commit */
    _Atomic uint64_t commit_ns;  /* decaying maximum of recent commit durations */
    atomic_bool is_failing;      /* the last commit failed */

    /* The read thread's, which looks after the disk as well. */
    pthread_t read_thread;
    struct mailbox to_read;          /* of struct engine_read */
    atomic_bool wants_look;          /* it is to look after the disk */
    _Atomic uint64_t looked_ns;      /* when it did last, an instant */
    _Atomic uint64_t unlooked_bytes; /* committed since */
    atomic_bool is_lost;             /* the data folder was removed or replaced */
    atomic_bool is_full;             /* free disk is below the reserve */
    atomic_bool is_scarce;           /* less than disk_reserve_bytes above the reserve is free */
    struct tenant_pot room;          /* bytes of the creates since then */
    struct storage_health health;

    atomic_bool ends;     /* both threads end when their mailboxes are empty */
    pthread_mutex_t lock; /* guards the next two */
    struct storage_stats stats;
    struct error error; /* of the last read or commit that failed; text empty: none did */
};

/* False: no file descriptors. */
bool node_disk_init(struct node_disk *disk, const struct config *config, struct metrics *metrics,
                    struct partition *partitions, const struct tenant_pot *inflight,
                    struct mailbox *news);
void node_disk_deinit(struct node_disk *disk);

enum error_code node_disk_open(struct node_disk *disk, uint64_t cluster, struct error *ret_error);

/* Starts both threads; and ends them when all that was posted is done. */
enum error_code node_disk_start(struct node_disk *disk, struct error *ret_error);
void node_disk_stop(struct node_disk *disk);

#endif
