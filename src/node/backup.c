/*
 * Backups, on their own thread: RocksDB copies every commit that ended before the backup began, so
 * every acknowledged change is in it. On a shard's thread every request would wait while memory is
 * written out, and while files are copied to another disk.
 */
#include "node/backup.h"

#include "node/backup_record.h"
#include "node/node_state.h"
#include "sys/clock.h"
#include "sys/process.h"

#include <stdio.h>

static enum error_code backup_copy(struct node *node, struct node_backup *backup)
{
    const struct backup_place place = {node->config->data_folder, node->config->backup_folder};
    char partial[PATH_MAX];

    backup_name(backup->at, backup->name);
    if ((size_t)snprintf(backup->folder, sizeof(backup->folder), "%s/%s", place.backups,
                         backup->name) >= sizeof(backup->folder))
        return error_set(&backup->error, ERROR_IO, "backup_folder is too long");
    enum error_code code = backup_record_begin(&place, backup->name, partial, &backup->error);
    if (code)
        return code;
    code = storage_backup(node->disk.storage, partial, &backup->copy, &backup->error);
    if (!code)
        code = backup_record_finish(&place, backup->name,
                                    backup->keep ? BACKUP_PLANNED : BACKUP_ASKED, &backup->error);
    if (code)
        backup_record_clean(place.data);
    else if (backup->keep)
        backup->prune_error.code = backup_record_prune(&place, backup->name, backup->keep,
                                                       &backup->removed, &backup->prune_error);
    return code;
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
