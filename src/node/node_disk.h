/*
 * node_disk.h - the storage of a node, with the thread for finds and scans that all shards share
 * (storage_loops.h). They come back to the inboxes of their partitions.
 *
 * Threads    The thread that starts and stops the node. A member of the struct says which thread or
 *            lock it has, or is atomic.
 */
#ifndef TICKWHEEL_NODE_NODE_DISK_H
#define TICKWHEEL_NODE_NODE_DISK_H

#include "node/node_log.h"
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
    struct partition *partitions; /* to which reads come back */
    const struct node_log *log;   /* of a node without a cluster; borrowed */
    struct mailbox *news;         /* woken when the state of the storage has changed */
    struct storage *storage;

    atomic_bool is_failing; /* the last commit failed; in a node without a cluster */

    /* The read thread's, which looks after the disk as well. */
    pthread_t read_thread;
    /* Called by the thread. Returns the time until its next call, in nanoseconds. NULL for none. */
    uint64_t (*sample)(void *context);
    void *sample_context;
    struct mailbox to_read;          /* of struct engine_read */
    atomic_bool wants_look;          /* it is to look after the disk */
    _Atomic uint64_t looked_ns;      /* when it did last, an instant */
    _Atomic uint64_t unlooked_bytes; /* committed since */
    atomic_bool is_lost;             /* the data folder was removed or replaced */
    atomic_bool is_full;             /* free disk is below the reserve */
    atomic_bool is_scarce;           /* less than disk_reserve_bytes above the reserve is free */
    struct tenant_pot room;          /* bytes of the creates since then */
    struct storage_health health;

    atomic_bool ends;     /* the thread ends when its mailbox is empty */
    pthread_mutex_t lock; /* guards the next two */
    struct storage_stats stats;
    struct error error; /* of the last read or commit that failed; text empty: none did */
};

/* False: no file descriptors. */
bool node_disk_init(struct node_disk *disk, const struct config *config, struct metrics *metrics,
                    struct partition *partitions, const struct node_log *log, struct mailbox *news);
void node_disk_deinit(struct node_disk *disk);

enum error_code node_disk_open(struct node_disk *disk, uint64_t cluster, struct error *ret_error);

/* Starts the thread; and ends it when all that was posted is done. */
enum error_code node_disk_start(struct node_disk *disk, struct error *ret_error);
void node_disk_stop(struct node_disk *disk);

#endif
