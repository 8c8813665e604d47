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

    assert(partition < store->partition_count);
    *ret_meta = (struct storage_meta){0};
    pthread_mutex_lock(&store->lock);
    enum error_code code = diskwheel_part_check(part, ret_error);
    if (!code && part->meta.size)
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
    size_t cursor = 0;

    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->lock);
    enum error_code code = diskwheel_part_check(&store->parts[partition], ret_error);
    pthread_mutex_unlock(&store->lock);
    pthread_mutex_lock(&store->parts[partition].counts_lock);
    const struct tenant_counts *counts = &store->parts[partition].counts.tenant_counts;
    while (!code && (tenant = tenant_counts_next(counts, &cursor)))
        if (atomic_load(&tenant->count) &&
            !tenant_counts_add(tenant_counts, (struct bytes){tenant->name, tenant->name_size},
                               (int64_t)atomic_load(&tenant->count)))
            code = error_set(ret_error, ERROR_NO_MEMORY, "counts of tenants");
    pthread_mutex_unlock(&store->parts[partition].counts_lock);
    return code;
}

static enum error_code diskwheel_load_note(struct storage *storage, enum storage_note note,
                                           uint16_t partition, struct buffer *to,
                                           struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    const struct store_key key = store_note_key(note, partition);
    struct bytes bytes = {0};

    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->lock);
    const struct buffer *record = &store->parts[partition].notes[note];
    enum error_code code = diskwheel_part_check(&store->parts[partition], ret_error);
    if (!code && record->size)
        code = record_note_decode((struct bytes){key.data, key.size}, buffer_bytes(record), &bytes,
                                  ret_error);
    if (!code)
        buffer_append_bytes(to, bytes);
    pthread_mutex_unlock(&store->lock);
    return code;
}

/* Fails while the folder is away: the log beside it cannot be read from the place on, and whoever
 * tried would take its records for lost. */
static enum error_code diskwheel_load_place(struct storage *storage, uint16_t partition,
                                            struct storage_place *ret_place,
                                            struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    const enum error_code code = diskwheel_disk_check(store, ret_error);

    assert(partition < store->partition_count);
    pthread_mutex_lock(&store->lock);
    *ret_place = store->parts[partition].place;
    pthread_mutex_unlock(&store->lock);
    return code;
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
        ret_stats->memory_bytes += diskwheel_run_memory(run);
        ret_stats->corrupt_blocks += atomic_load(&run->damaged_blocks);
        ret_stats->corrupt_records += atomic_load(&run->damaged_records);
    }
    ret_stats->memory_bytes +=
        store->active->layer.bytes + (store->frozen ? store->frozen->layer.bytes : 0);
    pthread_mutex_unlock(&store->lock);
    diskwheel_disk_stats(store, ret_stats);
}

/* ---- open and close ---- */

static void diskwheel_close(struct storage *storage)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);

    pthread_mutex_lock(&store->lock);
    const bool has_changed = store->has_changed;
    pthread_mutex_unlock(&store->lock);
    const bool is_written = !store->is_reader && (!has_changed || !diskwheel_flush(storage, NULL));
    diskwheel_worker_stop(store);
    diskwheel_aside_blocks(store);
    if (is_written) /* what it fails to write, the log has */
        diskwheel_folder_close(store);
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
    .tend = diskwheel_tend,
    .relieve = diskwheel_relieve,
    .flush = diskwheel_flush,
    .load_kept = diskwheel_load_kept,
    .get_log = diskwheel_get_log,
    .set_log = diskwheel_set_log,
    .backup = diskwheel_backup,
    .prepare = diskwheel_prepare,
    .apply = diskwheel_apply,
    .load_place = diskwheel_load_place,
    .export = diskwheel_export,
    .clear = diskwheel_clear,
    .close = diskwheel_close,
};

enum error_code diskwheel_storage_open(const struct diskwheel_options *options,
                                       struct storage **ret_storage, struct error *ret_error)
{
    struct diskwheel_store *store;
    const enum error_code code = diskwheel_open(options, &store, ret_error);

    if (code)
        return code;
    store->storage.ops = &diskwheel_ops;
    *ret_storage = &store->storage;
    return ERROR_NONE;
}

enum error_code diskwheel_storage_open_to_export(const char *folder, struct storage **ret_storage,
                                                 uint16_t *ret_partition_count,
                                                 uint64_t *ret_cluster, struct error *ret_error)
{
    struct diskwheel_store *store;
    const enum error_code code = diskwheel_open_to_read(folder, &store, ret_error);

    if (code)
        return code;
    store->storage.ops = &diskwheel_ops;
    *ret_storage = &store->storage;
    *ret_partition_count = store->partition_count;
    *ret_cluster = store->identity.cluster;
    return ERROR_NONE;
}
