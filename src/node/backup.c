/*
 * Backups, on their own thread: RocksDB copies every commit that ended before the backup began, so
 * every acknowledged change is in it. On a shard's thread every request would wait while memory is
 * written out, and while files are copied to another disk.
 */
#include "node/backup.h"

#include "node/node_state.h"
#include "sys/clock.h"
#include "sys/files.h"
#include "sys/process.h"

#include <stdio.h>
#include <time.h>

static void backup_name(struct node_backup *backup)
{
    const time_t now = (time_t)(wall_now().ms / 1000);
    struct tm parts;

    gmtime_r(&now, &parts);
    strftime(backup->name, sizeof(backup->name), "%Y%m%dT%H%M%SZ", &parts);
}

static enum error_code backup_copy(struct node *node, struct node_backup *backup)
{
    const char *parent = node->config->backup_folder;
    enum error_code code = files_make_folder(parent, &backup->error);

    if (code)
        return code;
    backup_name(backup);
    if ((size_t)snprintf(backup->folder, sizeof(backup->folder), "%s/%s", parent, backup->name) >=
        sizeof(backup->folder))
        return error_set(&backup->error, ERROR_IO, "backup_folder is too long");
    return storage_backup(node->disk.storage, backup->folder, &backup->copy, &backup->error);
}

static void *backup_run(void *argument)
{
    struct node_backup *backup = argument;
    struct node *node = backup->node_;

    backup->result = backup_copy(node, backup);
    backup->finished = wall_now();
    metrics_add(node->metrics, backup->result ? METRIC_BACKUPS_FAILED : METRIC_BACKUPS, 1);
    if (!backup->result) {
        metrics_set(node->metrics, METRIC_BACKUP_LAST_MS, backup->finished.ms);
        metrics_set(node->metrics, METRIC_BACKUP_LAST_BYTES, backup->copy.bytes);
    }
    atomic_store(&node->backups.is_running, false); /* `done` may start the next backup at once */
    backup->done(backup);
    return NULL;
}

enum error_code node_backup_start(struct node *node, struct node_backup *backup)
{
    if (!*node->config->backup_folder)
        return ERROR_BACKUP_OFF;
    if (atomic_load(&node->disk.is_full))
        return ERROR_DISK_FULL;
    if (atomic_exchange(&node->backups.is_running, true))
        return ERROR_BACKUP_RUNS;
    backup->node_ = node;
    backup_join(&node->backups);
    pthread_mutex_lock(&node->backups.lock);
    enum error_code code = ERROR_NONE;
    if (atomic_load(&node->is_stopping))
        code = ERROR_STOPPING;
    else if (thread_start(&node->backups.thread, backup_run, backup, "backup") != 0)
        code = ERROR_NO_MEMORY;
    else
        node->backups.has_thread = true;
    pthread_mutex_unlock(&node->backups.lock);
    if (code)
        atomic_store(&node->backups.is_running, false);
    return code;
}

void backup_join(struct node_backups *backups)
{
    pthread_mutex_lock(&backups->lock);
    bool has_thread = backups->has_thread;
    pthread_t thread = backups->thread;
    backups->has_thread = false;
    pthread_mutex_unlock(&backups->lock);
    if (has_thread)
        pthread_join(thread, NULL);
}
