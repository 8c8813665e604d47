/* diskwheel_backup.c - copies the store while it runs.
 *
 * Runs never change, so the copy shares their files by links, or has copies of them on another
 * disk, each with its damage: a flipped bit in one is turned back when the copy is read, and is a
 * finding of --check. The state of the copy is that of the last flush, which began after the call:
 * between the freeze of a flush and its end the marks and cuts are not those of one moment. */
#include "store/wheel/diskwheel_store.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* Takes the state of a moment at which no flush is under way, and holds its runs. */
static enum error_code diskwheel_backup_take(struct diskwheel_store *store, struct buffer *state,
                                             struct diskwheel_view **ret_view,
                                             struct error *ret_error)
{
    pthread_mutex_lock(&store->lock);
    store->takers++; /* under load one flush follows the other without a gap */
    while (store->frozen && !store->flush_code) /* what a flush that failed left is not awaited */
        pthread_cond_wait(&store->done, &store->lock);
    enum error_code code = store->flush_code;
    if (code)
        error_set(ret_error, code, "%s", store->flush_error.text);
    if (!code)
        diskwheel_state_encode(store, &store->kept, store->view, state);
    if (!code && buffer_failed(state))
        code = error_set(ret_error, ERROR_NO_MEMORY, "backup");
    if (!code)
        *ret_view = diskwheel_view_hold(store->view);
    store->takers--;
    pthread_cond_broadcast(&store->done);
    pthread_mutex_unlock(&store->lock);
    return code;
}

/* Links a run's file, or copies it if the folders are on different disks. */
static enum error_code diskwheel_backup_put_run(const struct diskwheel_run *run, const char *folder,
                                                struct error *ret_error)
{
    char name[DISKWHEEL_RUN_NAME_SIZE], path[PATH_MAX];

    diskwheel_run_name(run->number, name);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
        return error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(folder));
    const enum error_code code = files_link(run->path, path, ret_error);
    /* If the link is there although this failed, a copy to it would first empty the run itself. */
    return code && !files_exists(path) ? files_copy(run->path, path, ret_error) : code;
}

static enum error_code diskwheel_backup_fill(const struct diskwheel_store *store,
                                             const struct diskwheel_view *view, struct bytes state,
                                             const char *folder, struct error *ret_error)
{
    struct folder_identity identity = store->identity;
    enum error_code code = files_make_folder(folder, ret_error);
    char path[PATH_MAX];

    identity.has_log = false; /* the first start on the copy makes one */
    for (size_t i = 0; i < view->count && !code; i++)
        code = diskwheel_backup_put_run(view->runs[i], folder, ret_error);
    if (!code &&
        (size_t)snprintf(path, sizeof(path), "%s/" FOLDER_STATE_NAME, folder) >= sizeof(path))
        code = error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(folder));
    if (!code)
        code = files_write(path, state, ret_error);
    if (!code)
        code = folder_write_identity(folder, &identity, ret_error);
    if (!code)
        code = folder_seal(folder, ret_error);
    return code ? code : files_sync_folder_of(folder, ret_error);
}

/* Measures what a restore would find. */
static enum error_code diskwheel_backup_measure(const char *folder,
                                                struct storage_backup *ret_backup,
                                                struct error *ret_error)
{
    struct diskwheel_store *copy;
    const enum error_code code = diskwheel_open_to_read(folder, &copy, ret_error);

    if (code)
        return code;
    *ret_backup = (struct storage_backup){.bytes = copy->folder_state.bytes};
    for (uint16_t i = 0; i < copy->partition_count; i++)
        ret_backup->timers += copy->parts[i].counts.pending;
    diskwheel_free(copy);
    return ERROR_NONE;
}

enum error_code diskwheel_backup(struct storage *storage, const char *folder,
                                 struct storage_backup *ret_backup, struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    struct diskwheel_view *view = NULL;
    struct buffer state;

    if (store->is_reader || store->options.disk)
        return error_set(ret_error, ERROR_INVALID, "this storage makes no backups");
    if (files_exists(folder))
        return error_set(ret_error, ERROR_BACKUP_EXISTS, "%s is there already", folder);
    buffer_init(&state);
    enum error_code code = diskwheel_flush(storage, ret_error);
    if (!code)
        code = diskwheel_backup_take(store, &state, &view, ret_error);
    if (!code) {
        code = diskwheel_backup_fill(store, view, buffer_bytes(&state), folder, ret_error);
        if (!code)
            code = diskwheel_backup_measure(folder, ret_backup, ret_error);
        if (code)
            files_remove_folder(folder);
    }
    diskwheel_view_release(view);
    buffer_deinit(&state);
    return code;
}
