/*
 * storage_health.h - whether the storage of a node works.
 *
 * Threads    Any, unless a function names its thread.
 */
#ifndef TICKWHEEL_NODE_STORAGE_HEALTH_H
#define TICKWHEEL_NODE_STORAGE_HEALTH_H

#include "base/error.h"
#include "base/time.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct node_disk;

/* Health of the storage. Times are nanoseconds of CLOCK_BOOTTIME. */
struct storage_health {
    _Atomic uint64_t probed_ns;      /* begin of the running probe; 0 if none runs */
    _Atomic uint64_t read_failed_ns; /* time of the last read that failed; 0 if none did */
    _Atomic uint64_t since_ns;       /* begin of the failure; 0 if the storage works */
    _Atomic uint64_t worked_ns;      /* time since when it works again */
    _Atomic uint64_t failures;       /* number of times that probes or replicas began to fail */
    atomic_uint failing_replicas;    /* whose storage fails */
    atomic_bool probe_fails;         /* the last probe has failed */
    atomic_bool gives_up;            /* storage_health_gives_up */
};

/* Checks each second, on the read thread, whether the storage works. */
void storage_health_look(struct node_disk *disk);

/* Remembers for the log of the daemon why a read or a commit failed. */
void storage_health_note(struct node_disk *disk, const struct error *error);

/* Notes that a read of a partition failed. */
void storage_health_read_failed(struct node_disk *disk);

/* True if other nodes should own this node's partitions: its storage has failed for a lease, or
 * has not answered for two. It stays true until the storage has worked for two leases. Called on
 * the thread of the control topic. */
bool storage_health_gives_up(struct node_disk *disk, struct instant now);

/* True if reads fail although the disk takes writes: what they read is damaged. */
bool storage_health_is_damaged(const struct node_disk *disk);

/* True if the storage fails, with the reason. */
bool storage_health_fails(struct node_disk *disk, char *ret_reason, size_t size);

#endif
