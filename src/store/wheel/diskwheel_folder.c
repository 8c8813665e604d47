/* diskwheel_folder.c - whose the folder is, and what it had at the last stop: the lock, FOLDER and
 * CLOSED (folder.h). A store on a disk for tests has none of them. */
#include "store/wheel/diskwheel_store.h"
#include "sys/files.h"

#include <stdio.h>
#include <stdlib.h>

/* Refuses a damaged folder, or one of others, before anything changes. */
static enum error_code diskwheel_folder_check(struct diskwheel_store *store,
                                              struct error *ret_error)
{
    struct folder_state *state = &store->folder_state;
    struct folder_identity *identity = &store->identity;
    enum error_code code = folder_identify(store->folder, identity, ret_error);

    if (!code)
        code = folder_look(store->folder, state, ret_error);
    if (!code && state->is_new && !identity->is_known)
        code = folder_check_strangers(store->folder, state, ret_error);
    if (code || store->is_reader)
        return code;
    code = folder_guess_identity(store->folder, state, store->options.cluster, identity, ret_error);
    return code ? code
                : folder_check_cluster(store->folder, identity, store->options.cluster, ret_error);
}

enum error_code diskwheel_folder_open(struct diskwheel_store *store, struct error *ret_error)
{
    if (store->options.disk)
        return store->disk->make_folder(store->disk, store->folder, ret_error);
    enum error_code code =
        store->is_reader ? ERROR_NONE : files_make_folder(store->folder, ret_error);
    if (!code)
        code = files_lock_folder(store->folder,
                                 store->is_reader ? FILES_LOCK_SHARED : FILES_LOCK_EXCLUSIVE,
                                 &store->folder_lock, ret_error);
    if (!code)
        code = diskwheel_folder_check(store, ret_error);
    if (code || !store->is_reader)
        return code;
    if (!store->identity.is_known)
        folder_find_log(store->folder, &store->identity);
    return ERROR_NONE;
}

/* True if a run or the log's changes in memory may have a record of the partition. */
static bool diskwheel_folder_has_rows(const struct diskwheel_store *store, uint16_t partition)
{
    for (size_t i = 0; i < store->view->count; i++) {
        const struct diskwheel_run *run = store->view->runs[i];

        if (diskwheel_run_find_slice(run, partition) &&
            atomic_load(&run->cuts[partition]) != DISKWHEEL_CUT_ALL)
            return true;
    }
    return false;
}

/* Makes the folder of a single node without timers one of the cluster, whose log begins anew: its
 * places are of another log. The caller writes the state before FOLDER names the cluster. */
static enum error_code diskwheel_folder_join(struct diskwheel_store *store, struct error *ret_error)
{
    for (uint16_t i = 0; i < store->partition_count; i++)
        if (diskwheel_folder_has_rows(store, i))
            return folder_refuse_single(store->folder, ret_error);
    for (uint16_t i = 0; i < store->partition_count; i++)
        if (store->parts[i].place.next) {
            diskwheel_part_reset(&store->parts[i]);
            store->parts[i].place = (struct storage_place){0};
        }
    store->identity.has_log = false;
    store->identity.cluster = store->options.cluster;
    diskwheel_state_drop(&store->kept);
    if (!diskwheel_state_keep(store, &store->kept))
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    const enum error_code code = diskwheel_state_write(store, store->view, ret_error);
    return code ? code : folder_write_identity(store->folder, &store->identity, ret_error);
}

/* The folder is this store's from here on, even if the start is interrupted: FOLDER is its first
 * file. */
enum error_code diskwheel_folder_take(struct diskwheel_store *store, struct error *ret_error)
{
    struct folder_identity *identity = &store->identity;
    const bool is_new = store->folder_state.is_new;

    if (store->is_reader)
        return ERROR_NONE;
    if (store->options.disk)
        return is_new ? diskwheel_state_write(store, store->view, ret_error) : ERROR_NONE;
    enum error_code code = files_make_private(store->folder, ret_error);
    if (is_new)
        *identity = (struct folder_identity){.cluster = store->options.cluster};
    if (!code && (is_new || !identity->is_known))
        code = folder_write_identity(store->folder, identity, ret_error);
    identity->is_known = true;
    if (!code && is_new)
        code = diskwheel_state_write(store, store->view, ret_error);
    if (!code && identity->cluster != store->options.cluster)
        code = diskwheel_folder_join(store, ret_error);
    return code ? code : folder_unseal(store->folder, ret_error);
}

/* True if CLOSED may vouch for the files. A start that was refused for its log has changed nothing,
 * and knows only that something is wrong. So does one beside a log of another folder. */
static bool diskwheel_folder_may_seal(const struct diskwheel_store *store)
{
    char *path = NULL;
    const bool has_log =
        asprintf(&path, "%s/" FOLDER_LOG_NAME, store->folder) >= 0 && files_exists(path);

    free(path);
    return (store->folder_state.is_new || store->folder_state.was_closed || store->wanted) &&
           (!has_log || store->identity.has_log || store->identity.cluster);
}

void diskwheel_folder_close(struct diskwheel_store *store)
{
    if (store->folder_lock >= 0 && !store->is_reader && diskwheel_folder_may_seal(store) &&
        folder_is_there(store->folder, store->folder_lock))
        folder_seal(store->folder, NULL); /* without it a start knows less */
}

bool diskwheel_get_log(const struct storage *storage, uint8_t ret_id[STORAGE_LOG_ID_SIZE])
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    pthread_mutex_lock(&store->lock);
    memcpy(ret_id, store->identity.log_id, STORAGE_LOG_ID_SIZE);
    const bool has_log = store->identity.has_log;
    pthread_mutex_unlock(&store->lock);
    return has_log;
}

enum error_code diskwheel_set_log(struct storage *storage, const uint8_t id[STORAGE_LOG_ID_SIZE],
                                  struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    pthread_mutex_lock(&store->lock);
    memcpy(store->identity.log_id, id, STORAGE_LOG_ID_SIZE);
    store->identity.has_log = true;
    const struct folder_identity identity = store->identity;
    pthread_mutex_unlock(&store->lock);
    return store->options.disk ? ERROR_NONE
                               : folder_write_identity(store->folder, &identity, ret_error);
}
