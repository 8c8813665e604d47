/*
 * backup.h - copies of the storage.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_BACKUP_H
#define TICKWHEEL_NODE_BACKUP_H

#include "node/node.h"

#include <pthread.h>
#include <stdatomic.h>

struct node_backups {
    atomic_bool is_running; /* whether a backup runs */
    pthread_mutex_t lock;   /* guards the next two fields */
    pthread_t thread;       /* thread of the last backup */
    bool has_thread;        /* whether it must be joined */
};

/* Waits for the running backup. */
void backup_join(struct node_backups *backups);

#endif
