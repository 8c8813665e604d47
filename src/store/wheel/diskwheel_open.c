/* diskwheel_open.c - opens the store of a folder, and frees it. */
#include "store/wheel/diskwheel_store.h"
#include "sys/files.h"

#include <stdlib.h>

enum { OPEN_MEMORY_BYTES = 64 << 20 };

void diskwheel_free(struct diskwheel_store *store)
{
    diskwheel_worker_stop(store);
    diskwheel_stage_release(store->active);
    diskwheel_stage_release(store->frozen);
    diskwheel_view_release(store->view);
    diskwheel_state_drop(&store->kept);
    diskwheel_state_drop(&store->frozen_kept);
    struct diskwheel_run *const *gone = (const void *)store->gone.data;
    for (size_t i = 0; i < store->gone.size / sizeof(struct diskwheel_run *); i++)
        diskwheel_run_release(gone[i]);
    buffer_deinit(&store->gone);
    buffer_deinit(&store->late);
    buffer_deinit(&store->aside);
    for (uint16_t i = 0; i < store->partition_count && store->parts; i++) {
        struct diskwheel_part *part = &store->parts[i];

        buffer_deinit(&part->meta);
        for (size_t k = 0; k < STORAGE_NOTE_COUNT; k++)
            buffer_deinit(&part->notes[k]);
        tenant_counts_deinit(&part->counts.tenant_counts);
        prepare_rows_deinit(&part->rows);
        pthread_mutex_destroy(&part->counts_lock);
    }
    free(store->parts);
    if (store->folder_lock >= 0)
        files_unlock(store->folder_lock);
    pthread_cond_destroy(&store->work);
    pthread_cond_destroy(&store->done);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->quarantine.lock);
    pthread_mutex_destroy(&store->ballast_lock);
    ballast_deinit(&store->ballast);
    free(store->folder);
    free(store);
}

static struct diskwheel_store *diskwheel_open_create(const struct diskwheel_options *options)
{
    struct diskwheel_store *store = calloc(1, sizeof(*store));

    if (!store)
        return NULL;
    store->options = *options;
    if (!options->memory_bytes)
        store->options.memory_bytes = OPEN_MEMORY_BYTES;
    store->disk = options->disk ? options->disk : disk_system();
    store->folder_lock = -1;
    store->partition_count = options->partition_count;
    pthread_mutex_init(&store->lock, NULL);
    pthread_mutex_init(&store->quarantine.lock, NULL);
    pthread_mutex_init(&store->ballast_lock, NULL);
    pthread_cond_init(&store->work, NULL);
    pthread_cond_init(&store->done, NULL);
    store->folder = strdup(options->folder);
    store->parts = calloc(options->partition_count, sizeof(*store->parts));
    store->active = diskwheel_stage_create(options->partition_count);
    for (uint16_t i = 0; i < options->partition_count && store->parts; i++) {
        tenant_counts_init(&store->parts[i].counts.tenant_counts);
        pthread_mutex_init(&store->parts[i].counts_lock, NULL);
    }
    if (store->folder && store->parts && store->active)
        return store;
    diskwheel_free(store);
    return NULL;
}

/* Lists the files again after a start that was refused: no damage happened since. */
static void diskwheel_open_seal_again(struct diskwheel_store *store)
{
    if (store->folder_state.was_closed && store->folder_lock >= 0 && !store->is_reader)
        folder_seal(store->folder, NULL);
}

/* Opens the store, or frees it. */
static enum error_code diskwheel_open_store(struct diskwheel_store *store,
                                            struct diskwheel_store **ret_store,
                                            struct error *ret_error)
{
    if (!store)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    enum error_code code = diskwheel_folder_open(store, ret_error);
    if (!code)
        code = diskwheel_disk_open(store, ret_error);
    if (!code)
        code = diskwheel_state_read(store, ret_error);
    if (!code)
        code = diskwheel_aside_load(store, ret_error);
    if (!code)
        code = diskwheel_folder_take(store, ret_error);
    if (!code && !store->is_reader) {
        code = diskwheel_worker_start(store, ret_error);
        if (code)
            diskwheel_open_seal_again(store);
    }
    if (code) {
        diskwheel_free(store);
        return code;
    }
    *ret_store = store;
    return ERROR_NONE;
}

enum error_code diskwheel_open(const struct diskwheel_options *options,
                               struct diskwheel_store **ret_store, struct error *ret_error)
{
    return diskwheel_open_store(diskwheel_open_create(options), ret_store, ret_error);
}

/* Says what is wrong with a folder without a state. */
static enum error_code diskwheel_open_refuse(const char *folder, struct error *ret_error)
{
    struct folder_state state;
    const enum error_code code = folder_look(folder, &state, ret_error);

    return code ? code
                : error_set(ret_error, ERROR_INVALID, "%s is no data folder: there is no store",
                            folder);
}

enum error_code diskwheel_open_to_read(const char *folder, struct diskwheel_store **ret_store,
                                       struct error *ret_error)
{
    struct diskwheel_options options = {.folder = folder, .retain_ms = UINT64_MAX};
    struct folder_identity identity;
    enum error_code code = folder_identify(folder, &identity, ret_error);

    if (!code)
        code = diskwheel_state_read_count(folder, &options.partition_count, ret_error);
    if (code == ERROR_NOT_FOUND)
        return diskwheel_open_refuse(folder, ret_error);
    if (code)
        return code;
    struct diskwheel_store *store = diskwheel_open_create(&options);
    if (store)
        store->is_reader = true;
    return diskwheel_open_store(store, ret_store, ret_error);
}
