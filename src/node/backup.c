/*
 * Backups, on their own thread: the storage copies every commit that ended before the backup began,
 * so every acknowledged change is in it. On a shard's thread every request would wait while memory
 * is written out, and while files are copied to another disk.
 */
#include "node/backup.h"

#include "node/backup_record.h"
#include "node/clock_mark.h"
#include "node/node_state.h"
#include "sys/clock.h"
#include "sys/files.h"
#include "sys/process.h"

#include <stdio.h>

enum { NAME_TRIES = 60 };

/* Sets the name and the folder of the backup. A planned one takes a name that is free: another
 * daemon may have made one in the same second. */
static enum error_code backup_choose(const struct backup_place *place, struct node_backup *backup)
{
    for (uint64_t i = 0; i < NAME_TRIES; i++) {
        backup_name(wall_add(backup->at, i * 1000), backup->name);
        if ((size_t)snprintf(backup->folder, sizeof(backup->folder), "%s/%s", place->backups,
                             backup->name) >= sizeof(backup->folder))
            return error_set(&backup->error, ERROR_IO, "backup_folder is too long");
        if (!backup->keep || !files_exists(backup->folder))
            return ERROR_NONE;
    }
    return error_set(&backup->error, ERROR_BACKUP_EXISTS, "%s is there already", backup->folder);
}

/* Locks the folder of backups, because daemons that share it must not take each other's partial
 * ones for theirs. Waits for the end of another one's backup. */
static enum error_code backup_lock(const struct backup_place *place, int *ret_lock,
                                   struct error *ret_error)
{
    enum error_code code = files_make_folder(place->backups, ret_error);

    return code ? code
                : files_lock_folder(place->backups, FILES_LOCK_WHEN_FREE, ret_lock, ret_error);
}

static enum error_code backup_copy_locked(struct node *node, const struct backup_place *place,
                                          struct node_backup *backup)
{
    char partial[PATH_MAX];
    enum error_code code = backup_choose(place, backup);

    if (!code)
        code = backup_record_begin(place, backup->name, partial, &backup->error);
    if (code)
        return code;
    code = storage_backup(node->disk.storage, partial, &backup->copy, &backup->error);
    if (!code && clock_is_virtual())
        code = clock_mark_write(partial, wall_now(), &backup->error);
    if (!code)
        code = backup_record_finish(place, backup->name,
                                    backup->keep ? BACKUP_PLANNED : BACKUP_ASKED, &backup->error);
    if (code)
        backup_record_clean(place->data);
    else if (backup->keep)
        backup->prune_error.code = backup_record_prune(place, backup->name, backup->keep,
                                                       &backup->removed, &backup->prune_error);
    return code;
}

static enum error_code backup_copy(struct node *node, struct node_backup *backup)
{
    const struct backup_place place = {node->config->data_folder, node->config->backup_folder};
    int lock = -1;
    enum error_code code = backup_lock(&place, &lock, &backup->error);

    if (code)
        return code;
    code = backup_copy_locked(node, &place, backup);
    files_unlock(lock);
    return code;
}

static void *backup_run(void *argument)
{
    struct node_backup *backup = argument;
    struct node *node = backup->node_;

    backup->result = backup_copy(node, backup);
    backup->finished = wall_machine_now();
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
