/*
 * backup.h - copies of the storage, made when asked for or by a plan.
 *
 * Threads    Any, but for the plan, which is the thread's that calls node_backup_look.
 */
#ifndef TICKWHEEL_NODE_BACKUP_H
#define TICKWHEEL_NODE_BACKUP_H

#include "calendar/cron.h"
#include "node/node.h"

#include <pthread.h>
#include <stdatomic.h>

#define BACKUP_TROUBLE_SIZE 256 /* as the detail of node_health */

/* The plan of backup_cron. */
struct backup_plan {
    bool is_read; /* whether the next two are set */
    bool is_on;   /* false without backup_cron */
    struct cron cron;
    struct wall next;       /* when the next backup is due; WALL_NEVER while it is unknown */
    struct wall from;       /* time of which that is the next */
    bool is_running;        /* whether `run` was started and its end was not seen */
    atomic_bool has_ended;  /* set by the backup's thread */
    struct node_backup run; /* the last planned backup */
};

struct node_backups {
    atomic_bool is_running;            /* whether a backup runs */
    pthread_mutex_t lock;              /* guards the next three fields */
    pthread_t thread;                  /* thread of the last backup */
    bool has_thread;                   /* whether it must be joined */
    char trouble[BACKUP_TROUBLE_SIZE]; /* why the last planned backup failed; empty if it did not */
    struct backup_plan plan;
};

/* Waits for the running backup. */
void backup_join(struct node_backups *backups);

/* Copies the trouble of the last planned backup; empty if there is none. */
void backup_tell_trouble(struct node_backups *backups, char *ret_text, size_t size);

#endif
