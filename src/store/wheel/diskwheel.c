/* diskwheel.c - the store on a timing wheel: its operations, open and close. */
#include "store/wheel/diskwheel.h"

#include "store/wheel/diskwheel_store.h"
#include "sys/files.h"

#include <assert.h>
#include <stdlib.h>

/* ---- what is read without the runs ---- */

static enum error_code diskwheel_load_meta(struct storage *storage, uint16_t partition,
                                           struct storage_meta *ret_meta, struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    const struct diskwheel_part *part = &store->parts[partition];
    enum error_code code = ERROR_NONE;

    assert(partition < store->partition_count);
    *ret_meta = (struct storage_meta){0};
    pthread_mutex_lock(&store->lock);
    if (part->meta.size)
        code = record_meta_decode(partition, buffer_bytes(&part->meta), ret_meta, ret_error);
    pthread_mutex_unlock(&store->lock);
    return code;
}

static enum error_code diskwheel_load_tenant_counts(struct storage *storage, uint16_t partition,
                                                    struct tenant_counts *tenant_counts,
                                                    struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    const struct tenant_counts_tenant *tenant;
    enum error_code code = ERROR_NONE;
    size_t cursor = 0;

    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->lock);
    const struct tenant_counts *counts = &store->parts[partition].counts.tenant_counts;
    while (!code && (tenant = tenant_counts_next(counts, &cursor)))
        if (atomic_load(&tenant->count) &&
            !tenant_counts_add(tenant_counts, (struct bytes){tenant->name, tenant->name_size},
                               (int64_t)atomic_load(&tenant->count)))
            code = error_set(ret_error, ERROR_NO_MEMORY, "counts of tenants");
    pthread_mutex_unlock(&store->lock);
    return code;
}

static enum error_code diskwheel_load_note(struct storage *storage, enum storage_note note,
                                           uint16_t partition, struct buffer *to,
                                           struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    const struct store_key key = store_note_key(note, partition);
    enum error_code code = ERROR_NONE;
    struct bytes bytes = {0};

    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->lock);
    const struct buffer *record = &store->parts[partition].notes[note];
    if (record->size)
        code = record_note_decode((struct bytes){key.data, key.size}, buffer_bytes(record), &bytes,
                                  ret_error);
    if (!code)
        buffer_append_bytes(to, bytes);
    pthread_mutex_unlock(&store->lock);
    return code;
}

static enum error_code diskwheel_load_place(struct storage *storage, uint16_t partition,
                                            struct storage_place *ret_place,
                                            struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    (void)ret_error;
    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->lock);
    *ret_place = store->parts[partition].place;
    pthread_mutex_unlock(&store->lock);
    return ERROR_NONE;
}

static enum error_code diskwheel_load_kept(struct storage *storage, uint16_t partition,
                                           uint64_t *ret_next, struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    (void)ret_error;
    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->lock);
    *ret_next = store->parts[partition].kept;
    pthread_mutex_unlock(&store->lock);
    return ERROR_NONE;
}

static void diskwheel_stats(struct storage *storage, struct storage_stats *ret_stats)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    *ret_stats = (struct storage_stats){.disk_free_bytes = UINT64_MAX};
    pthread_mutex_lock(&store->lock);
    ret_stats->corrupt_records = store->corrupt_records;
    ret_stats->corrupt_blocks = store->corrupt_blocks;
    memcpy(ret_stats->found, store->found, sizeof(store->found));
    for (size_t i = 0; i < store->view->count; i++) {
        const struct diskwheel_run *run = store->view->runs[i];

        ret_stats->disk_bytes += run->bytes;
        ret_stats->corrupt_blocks += atomic_load(&run->damaged_blocks);
        ret_stats->corrupt_records += atomic_load(&run->damaged_records);
    }
    ret_stats->memory_bytes =
        store->active->layer.bytes + (store->frozen ? store->frozen->layer.bytes : 0);
    pthread_mutex_unlock(&store->lock);
    files_free_bytes(store->folder, &ret_stats->disk_free_bytes, NULL);
}

static bool diskwheel_get_log(const struct storage *storage, uint8_t ret_id[STORAGE_LOG_ID_SIZE])
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    pthread_mutex_lock(&store->lock);
    memcpy(ret_id, store->log_id, STORAGE_LOG_ID_SIZE);
    const bool has_log = store->has_log;
    pthread_mutex_unlock(&store->lock);
    return has_log;
}

static enum error_code diskwheel_set_log(struct storage *storage,
                                         const uint8_t id[STORAGE_LOG_ID_SIZE],
                                         struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    pthread_mutex_lock(&store->lock);
    memcpy(store->log_id, id, STORAGE_LOG_ID_SIZE);
    store->has_log = true;
    pthread_mutex_unlock(&store->lock);
    return diskwheel_flush(storage, ret_error);
}

/* ---- open and close ---- */

static void diskwheel_free(struct diskwheel_store *store)
{
    diskwheel_worker_stop(store);
    diskwheel_stage_release(store->active);
    diskwheel_view_release(store->view);
    diskwheel_state_drop(&store->kept);
    buffer_deinit(&store->late);
    buffer_deinit(&store->aside);
    for (uint16_t i = 0; i < store->partition_count && store->parts; i++) {
        struct diskwheel_part *part = &store->parts[i];

        buffer_deinit(&part->meta);
        for (size_t k = 0; k < STORAGE_NOTE_COUNT; k++)
            buffer_deinit(&part->notes[k]);
        tenant_counts_deinit(&part->counts.tenant_counts);
    }
    free(store->parts);
    prepare_rows_deinit(&store->rows);
    if (store->folder_lock >= 0)
        files_unlock(store->folder_lock);
    pthread_cond_destroy(&store->work);
    pthread_cond_destroy(&store->done);
    pthread_mutex_destroy(&store->lock);
    free(store->folder);
    free(store);
}

static void diskwheel_close(struct storage *storage)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    if (store->has_changed)
        diskwheel_flush(storage, NULL); /* what it fails to write, the log has */
    diskwheel_free(store);
}

void diskwheel_storage_rest(struct storage *storage)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    pthread_mutex_lock(&store->lock);
    while (store->is_working || store->wanted != store->flushed)
        pthread_cond_wait(&store->done, &store->lock);
    pthread_mutex_unlock(&store->lock);
}

void diskwheel_storage_crash(struct storage *storage)
{
    diskwheel_free(diskwheel_store_of(storage));
}

static const struct storage_ops diskwheel_ops = {
    .scan = diskwheel_scan,
    .find = diskwheel_find,
    .lookup = diskwheel_lookup,
    .load_meta = diskwheel_load_meta,
    .load_tenant_counts = diskwheel_load_tenant_counts,
    .load_note = diskwheel_load_note,
    .stats = diskwheel_stats,
    .flush = diskwheel_flush,
    .load_kept = diskwheel_load_kept,
    .get_log = diskwheel_get_log,
    .set_log = diskwheel_set_log,
    .prepare = diskwheel_prepare,
    .apply = diskwheel_apply,
    .load_place = diskwheel_load_place,
    .export = diskwheel_export,
    .clear = diskwheel_clear,
    .close = diskwheel_close,
};

static struct diskwheel_store *diskwheel_create(const struct diskwheel_options *options)
{
    struct diskwheel_store *store = calloc(1, sizeof(*store));

    if (!store)
        return NULL;
    store->storage.ops = &diskwheel_ops;
    store->options = *options;
    store->disk = options->disk ? options->disk : disk_system();
    store->folder_lock = -1;
    store->partition_count = options->partition_count;
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->work, NULL);
    pthread_cond_init(&store->done, NULL);
    store->folder = strdup(options->folder);
    store->parts = calloc(options->partition_count, sizeof(*store->parts));
    store->active = diskwheel_stage_create(options->partition_count);
    for (uint16_t i = 0; i < options->partition_count && store->parts; i++)
        tenant_counts_init(&store->parts[i].counts.tenant_counts);
    if (store->folder && store->parts && store->active)
        return store;
    diskwheel_free(store);
    return NULL;
}

enum error_code diskwheel_storage_open(const struct diskwheel_options *options,
                                       struct storage **ret_storage, struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_create(options);

    if (!store)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    enum error_code code = store->disk->make_folder(store->disk, store->folder, ret_error);
    if (!code && !options->disk)
        code =
            files_lock_folder(store->folder, FILES_LOCK_EXCLUSIVE, &store->folder_lock, ret_error);
    if (!code)
        code = diskwheel_state_read(store, ret_error);
    if (!code)
        code = diskwheel_worker_start(store, ret_error);
    if (code) {
        diskwheel_free(store);
        return code;
    }
    *ret_storage = &store->storage;
    return ERROR_NONE;
}
