/* rocksdb.c - the storage on RocksDB: its operations. */
#include "store/rocksdb_store.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <assert.h>
#include <stdio.h>

enum { MERGED_MS = 60000 }; /* time after the last merge for which its threads are kept */

/* ---- metas and statistics ---- */

static enum error_code rocksdb_load_meta(struct storage *storage, uint16_t partition,
                                         struct storage_meta *ret_meta, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);

    assert(partition < store->partition_count);
    enum error_code code;
    unsigned repeats = 0;

    do {
        code = store_enter_partition(store, partition, ret_error);
        if (code)
            return code;
        code = store_load_meta(store, partition, ret_meta, ret_error);
        store_leave(store);
    } while (store_can_repeat(store, code, &repeats));
    return code;
}

static enum error_code rocksdb_read_note(struct rocksdb_store *store, enum storage_note note,
                                         uint16_t partition, struct buffer *to,
                                         struct error *ret_error)
{
    const struct store_key key = store_note_key(note, partition);
    const struct bytes name = {key.data, key.size};
    struct buffer value;
    struct bytes bytes = {0};

    buffer_init(&value);
    enum error_code code = store_get(store, STORE_META, NULL, name, &value, ret_error);
    if (!code)
        code = record_note_decode(name, buffer_bytes(&value), &bytes, ret_error);
    else if (code == ERROR_NOT_FOUND)
        code = ERROR_NONE;
    buffer_append_bytes(to, bytes);
    buffer_deinit(&value);
    return code || !buffer_failed(to) ? code : error_set(ret_error, ERROR_NO_MEMORY, "note");
}

static enum error_code rocksdb_load_note(struct storage *storage, enum storage_note note,
                                         uint16_t partition, struct buffer *to,
                                         struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    const size_t size = to->size;
    enum error_code code;
    unsigned repeats = 0;

    do {
        to->size = size;
        code = store_enter_partition(store, partition, ret_error);
        if (code)
            return code;
        code = rocksdb_read_note(store, note, partition, to, ret_error);
        store_leave(store);
    } while (store_can_repeat(store, code, &repeats));
    return code;
}

static enum error_code rocksdb_load_tenant_counts(struct storage *storage, uint16_t partition,
                                                  struct tenant_counts *tenant_counts,
                                                  struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    enum error_code code = store_enter_partition(store, partition, ret_error);

    assert(partition < store->partition_count);
    if (code)
        return code;
    pthread_mutex_lock(&store->write_lock);
    const struct tenant_counts_tenant *tenant;
    size_t cursor = 0;
    bool is_added = true;
    while (is_added &&
           (tenant = tenant_counts_next(&store->counts[partition].tenant_counts, &cursor)))
        is_added = tenant_counts_add(tenant_counts, (struct bytes){tenant->name, tenant->name_size},
                                     (int64_t)tenant->count);
    pthread_mutex_unlock(&store->write_lock);
    store_leave(store);
    return is_added ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "tenant_counts");
}

/* Returns the sum over all tables; 0 where RocksDB has no value. */
static uint64_t rocksdb_property_sum(struct rocksdb_store *store, const char *name)
{
    uint64_t sum = 0, value;

    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        if (!rocksdb_property_int_cf(store->db, store->tables[i], name, &value))
            sum += value;
    return sum;
}

/* With commit_lock. */
static void rocksdb_resume_merges(struct rocksdb_store *store)
{
    static const char *const names[] = {"disable_auto_compactions"}, *const values[] = {"false"};

    if (!store->merges_wait || store->faults || !store->db)
        return;
    store->merges_wait = false;
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++) {
        char *text = NULL;

        rocksdb_set_options_cf(store->db, store->tables[i], 1, names, values, &text);
        store->merges_wait |= text != NULL;
        rocksdb_free(text);
    }
}

/* RocksDB starts a thread for each merge that may run, when it opens. Keeps one while nothing is
 * merged, and all as soon as something is. With commit_lock. */
static void rocksdb_fit_threads(struct rocksdb_store *store)
{
    const struct instant now = instant_now();

    if (!store->db)
        return;
    if (rocksdb_property_sum(store, "rocksdb.num-running-compactions") ||
        rocksdb_property_sum(store, "rocksdb.compaction-pending"))
        store->merged_at = now;
    const bool merges = now.ns < instant_add_ms(store->merged_at, MERGED_MS).ns;
    const int wanted = merges && store->merged_at.ns ? STORE_MERGES : 1;
    rocksdb_env_t *env = rocksdb_create_default_env();
    if (rocksdb_env_get_low_priority_background_threads(env) != wanted)
        rocksdb_env_set_low_priority_background_threads(env, wanted);
    rocksdb_env_destroy(env);
}

/* Makes the ballast again if the disk has room for it. */
static void rocksdb_tend(struct storage *storage)
{
    struct rocksdb_store *store = store_of(storage);
    uint64_t free_bytes;

    if (store->is_reader || files_free_bytes(store->folder, &free_bytes, NULL) ||
        pthread_mutex_trylock(&store->commit_lock) != 0)
        return;
    if (!(store->faults & STORE_FULL))
        ballast_fill(&store->ballast, free_bytes);
    if (free_bytes >= store->ballast.bytes)
        rocksdb_resume_merges(store);
    rocksdb_fit_threads(store);
    pthread_mutex_unlock(&store->commit_lock);
}

/* Takes commit_lock alone, which guards the ballast. */
static bool rocksdb_relieve(struct storage *storage)
{
    struct rocksdb_store *store = store_of(storage);

    pthread_mutex_lock(&store->commit_lock);
    const bool has_room = ballast_release(&store->ballast) > 0;
    pthread_mutex_unlock(&store->commit_lock);
    return has_room;
}

static enum error_code rocksdb_flush_all(struct storage *storage, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    enum error_code code = store_enter(store, ret_error);

    if (code)
        return code;
    code = store_flush(store, ret_error);
    store_leave(store);
    return code;
}

/* Counts the ballast as free space, because it is reserved for the storage itself. */
static void rocksdb_stats_disk(const struct rocksdb_store *store, struct storage_stats *ret_stats)
{
    uint64_t free_bytes;

    if (files_free_bytes(store->folder, &free_bytes, NULL))
        free_bytes = 0; /* a disk that does not answer has no room */
    ret_stats->disk_free_bytes = free_bytes + ballast_held(&store->ballast);
    ret_stats->disk_floor_bytes = ballast_floor(&store->ballast);
}

static void rocksdb_stats(struct storage *storage, struct storage_stats *ret_stats)
{
    struct rocksdb_store *store = store_of(storage);

    *ret_stats = (struct storage_stats){
        .corrupt_records = atomic_load_explicit(&store->corrupt_count, memory_order_relaxed),
        .memory_bytes = rocksdb_cache_get_usage(store->cache),
    };
    snprintf(ret_stats->found, sizeof(ret_stats->found), "%s", store->folder_state.loss.text);
    pthread_mutex_lock(&store->block_lock);
    ret_stats->is_lost = !store_look(store);
    ret_stats->corrupt_records += store->block_records;
    ret_stats->corrupt_blocks = store->blocks_aside;
    if (store->blocks_aside)
        snprintf(ret_stats->found, sizeof(ret_stats->found), "%s", store->block_found);
    pthread_mutex_unlock(&store->block_lock);
    rocksdb_stats_disk(store, ret_stats);
    ret_stats->memory_bytes += store->queue.bytes;
    if (store_try_enter(store, NULL))
        return;
    ret_stats->disk_bytes += rocksdb_property_sum(store, "rocksdb.total-sst-files-size");
    ret_stats->memory_bytes += rocksdb_property_sum(store, "rocksdb.size-all-mem-tables") +
                               rocksdb_property_sum(store, "rocksdb.estimate-table-readers-mem");
    store_leave(store);
}

/* ---- opening and closing ---- */

static void rocksdb_close_storage(struct storage *storage)
{
    store_close(store_of(storage));
}

static const struct storage_ops rocksdb_ops = {
    .scan = store_scan,
    .find = store_find,
    .lookup = store_lookup,
    .load_meta = rocksdb_load_meta,
    .load_tenant_counts = rocksdb_load_tenant_counts,
    .load_note = rocksdb_load_note,
    .stats = rocksdb_stats,
    .tend = rocksdb_tend,
    .relieve = rocksdb_relieve,
    .flush = rocksdb_flush_all,
    .load_kept = store_load_kept,
    .get_log = store_get_log,
    .set_log = store_set_log,
    .backup = store_backup,
    .prepare = store_prepare,
    .apply = store_apply,
    .load_place = store_load_place,
    .export = store_export,
    .clear = store_partition_clear,
    .close = rocksdb_close_storage,
};

enum error_code rocksdb_storage_open(const struct rocksdb_options *options,
                                     struct storage **ret_storage, struct error *ret_error)
{
    struct rocksdb_store *store;
    const enum error_code code = store_open(options, &store, ret_error);

    if (code)
        return code;
    store->storage.ops = &rocksdb_ops;
    *ret_storage = &store->storage;
    return ERROR_NONE;
}

enum error_code rocksdb_storage_open_to_export(const char *folder, struct storage **ret_storage,
                                               uint16_t *ret_partition_count, uint64_t *ret_cluster,
                                               struct error *ret_error)
{
    struct rocksdb_store *store;
    const enum error_code code = store_open_to_read(folder, &store, ret_error);

    if (code)
        return code;
    store->storage.ops = &rocksdb_ops;
    *ret_storage = &store->storage;
    *ret_cluster = store->identity.cluster;
    *ret_partition_count = store->partition_count;
    return ERROR_NONE;
}

#ifdef __SANITIZE_THREAD__
/* The packaged library lacks the sanitizer's instrumentation, so the sanitizer does not see how
 * it passes memory between threads, which our readers access. */
const char *__tsan_default_suppressions(void);

__attribute__((weak)) const char *__tsan_default_suppressions(void)
{
    return "race:librocksdb.so\n"
           "race:libzstd.so\n"
           "race:liblz4.so\n"
           "race:store_find\n"
           "race:store_scan\n"
           "race:store_lookup\n"
           "race:store_load_meta\n";
}
#endif
