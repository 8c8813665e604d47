/* rocksdb.c - the storage on RocksDB: failures and reopening. */
#include "store/rocksdb_store.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define RECOVER_PAUSE_NS UINT64_C(100000000)  /* interval of readers' attempts */
#define LOOK_PAUSE_NS    UINT64_C(1000000000) /* interval of checks of the folder by writes */

static inline struct bytes rocksdb_key_bytes(const struct store_key *key)
{
    return (struct bytes){key->data, key->size};
}

/* ---- RocksDB's calls, in our terms ---- */

enum error_code store_failed(struct error *ret_error, const char *what, char *text)
{
    /* The C interface gives only the text. */
    bool is_full = strstr(text, "No space left on device") || strstr(text, "Space limit reached") ||
                   strstr(text, "Disk quota exceeded");

    error_set(ret_error, is_full ? ERROR_DISK_FULL : ERROR_IO, "%s: %s", what, text);
    rocksdb_free(text);
    return is_full ? ERROR_DISK_FULL : ERROR_IO;
}

enum error_code store_access_failed(struct rocksdb_store *store, struct error *ret_error,
                                    const char *what, char *text)
{
    rocksdb_block_note(store, text);
    return store_failed(ret_error, what, text);
}

enum error_code store_get(struct rocksdb_store *store, enum store_table table,
                          const rocksdb_readoptions_t *options, struct bytes key, struct buffer *to,
                          struct error *ret_error)
{
    char *text = NULL;

    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned_cf(store->db, options ? options : store->point_options,
                              store->tables[table], key.data, key.size, &text);
    if (text)
        return store_access_failed(store, ret_error, "read", text);
    if (!slice)
        return ERROR_NOT_FOUND;
    size_t size;
    const char *value = rocksdb_pinnableslice_value(slice, &size);
    buffer_clear(to);
    buffer_append(to, value, size);
    rocksdb_pinnableslice_destroy(slice);
    return buffer_failed(to) ? error_set(ret_error, ERROR_NO_MEMORY, "read") : ERROR_NONE;
}

void store_batch_put(rocksdb_writebatch_t *batch, struct rocksdb_store *store,
                     enum store_table table, struct bytes key, struct bytes value)
{
    rocksdb_writebatch_put_cf(batch, store->tables[table], key.data, key.size, value.data,
                              value.size);
}

enum error_code store_write(struct rocksdb_store *store, rocksdb_writebatch_t *batch,
                            struct error *ret_error)
{
    char *text = NULL;

    rocksdb_write(store->db, store->write_options, batch, &text);
    return text ? store_access_failed(store, ret_error, "commit", text) : ERROR_NONE;
}

/* Writes the memtables of all tables to files together. A flush of the C interface would write only
 * one table, and so a place without its rows. A compaction first flushes all of them, and this one
 * then finds no keys in its range. It reports no failure, but the next write does. */
enum error_code store_flush(struct rocksdb_store *store, struct error *ret_error)
{
    static const char behind_all_keys[] = "\xff";
    rocksdb_writebatch_t *nothing = rocksdb_writebatch_create();

    rocksdb_compact_range_cf(store->db, store->tables[STORE_META], behind_all_keys, 1, NULL, 0);
    const enum error_code code = store_write(store, nothing, ret_error);
    rocksdb_writebatch_destroy(nothing);
    return code;
}

/* ---- failures ---- */

/* Closes the database and opens it again. RocksDB takes no more writes after a file could not be
 * written, and its own repair can hang. Logs have the rows of the memtables and those that wait. */
enum error_code store_open_again(struct rocksdb_store *store, struct error *ret_error)
{
    const unsigned closed = STORE_REFUSING | STORE_BEHIND;

    store->merges_wait = store->faults & STORE_FULL;
    store->faults |= closed;
    store_close_database(store);
    store_queue_drop(store);
    const enum error_code code = store_open_database(store, ret_error);
    store->faults &= ~(unsigned)STORE_FULL;
    if (!code)
        store->faults &= ~closed;
    else if (code == ERROR_DISK_FULL)
        store->faults |= STORE_FULL;
    return code;
}

/* Waits until the disk takes writes again before the database is closed, because its memtables
 * may have what its files lack. A library with assertions also aborts if it cannot write its
 * event log when it opens. */
static enum error_code rocksdb_make_writable(struct rocksdb_store *store, struct error *ret_error)
{
    const uint64_t needed = store->options.memtable_bytes;

    if (!(store->faults & STORE_REFUSING))
        return ERROR_NONE;
    uint64_t free_bytes = 0;
    if (store->faults & STORE_FULL)
        ballast_release(&store->ballast);
    if ((store->faults & STORE_FULL) &&
        (files_free_bytes(store->folder, &free_bytes, NULL) || free_bytes < needed))
        return error_set(ret_error, ERROR_DISK_FULL, "%s: %llu bytes free, %llu needed",
                         store->folder, (unsigned long long)free_bytes, (unsigned long long)needed);
    enum error_code code = files_probe(store->folder, SIZE_MAX, ret_error);
    if (code)
        return code;
    pthread_rwlock_wrlock(&store->open_lock);
    code = store_open_again(store, ret_error);
    pthread_rwlock_unlock(&store->open_lock);
    return code;
}

void store_recover(struct rocksdb_store *store)
{
    if ((store->faults & STORE_REFUSING) && !rocksdb_block_set_aside(store) &&
        (store->faults & STORE_BEHIND))
        rocksdb_make_writable(store, NULL);
}

bool store_mend(struct rocksdb_store *store)
{
    pthread_mutex_lock(&store->commit_lock);
    const bool is_mended = rocksdb_block_set_aside(store);
    pthread_mutex_unlock(&store->commit_lock);
    return is_mended;
}

/* Lets a reader try to end a failure, like a change does, because an engine that cannot read
 * sends no changes. Not if a change or another reader does or did so a moment ago. */
static bool rocksdb_recover_now(struct rocksdb_store *store)
{
    if (store->is_reader || pthread_mutex_trylock(&store->commit_lock))
        return false;
    const struct instant now = instant_now();
    const bool is_time = instant_since_ns(store->recovered_at, now) >= RECOVER_PAUSE_NS;
    if (is_time) {
        store_recover(store);
        store->recovered_at = instant_now();
    }
    pthread_mutex_unlock(&store->commit_lock);
    return is_time;
}

/* ---- access ---- */

static enum error_code rocksdb_try_enter(struct rocksdb_store *store, struct error *ret_error)
{
    pthread_rwlock_rdlock(&store->open_lock);
    if (!(store->faults & STORE_BEHIND))
        return ERROR_NONE;
    pthread_rwlock_unlock(&store->open_lock);
    return error_set(ret_error, ERROR_IO, "%s has writes that its tables do not take",
                     store->folder);
}

static enum error_code rocksdb_try_enter_to_read(struct rocksdb_store *store,
                                                 struct error *ret_error)
{
    enum error_code code = rocksdb_try_enter(store, ret_error);

    if (code)
        return code;
    code = store_apply_to(store, store->queue.pushed, ret_error);
    if (!code)
        return ERROR_NONE;
    store_leave(store);
    return error_set(ret_error, ERROR_IO, "%s has writes that its tables do not take",
                     store->folder);
}

enum error_code store_enter(struct rocksdb_store *store, struct error *ret_error)
{
    const enum error_code code = rocksdb_try_enter_to_read(store, ret_error);

    return code && rocksdb_recover_now(store) ? rocksdb_try_enter_to_read(store, ret_error) : code;
}

enum error_code store_enter_partition(struct rocksdb_store *store, uint16_t partition,
                                      struct error *ret_error)
{
    const enum error_code code = store_enter(store, ret_error);

    if (code || !atomic_load(&store->follows[partition].is_rewound))
        return code;
    store_leave(store);
    return error_set(ret_error, ERROR_IO, "%s has lost what the log has: it is applied again",
                     store->folder);
}

void store_leave(struct rocksdb_store *store)
{
    pthread_rwlock_unlock(&store->open_lock);
}

/* ---- changes ---- */

/* Checks whether RocksDB takes writes, as far as it knows. If not, nothing is appended to the
 * log, because readers could not see it. RocksDB counts the errors after which it may take none. */
static enum error_code rocksdb_ask_tables(struct rocksdb_store *store, struct error *ret_error)
{
    uint64_t errors;

    if (rocksdb_property_int(store->db, "rocksdb.background-errors", &errors) ||
        errors == store->errors_seen)
        return ERROR_NONE;
    pthread_mutex_lock(&store->apply_lock);
    rocksdb_writebatch_clear(store->batch);
    const enum error_code code = store_write(store, store->batch, ret_error);
    pthread_mutex_unlock(&store->apply_lock);
    if (code)
        store->faults |= STORE_REFUSING | (code == ERROR_DISK_FULL ? STORE_FULL : 0u);
    else
        store->errors_seen = errors;
    return code;
}

/* True if the data folder is where it was. */
static bool rocksdb_look(struct rocksdb_store *store)
{
    const bool is_there = folder_is_there(store->folder, store->folder_lock);

    atomic_store(&store->seen_ns, is_there ? instant_now().ns : 0);
    return is_there;
}

/* Uses the last check if it is less than a second old, because a check takes longer than a small
 * write. */
static bool rocksdb_is_there(struct rocksdb_store *store)
{
    const struct instant seen = {atomic_load(&store->seen_ns)};

    return instant_since_ns(seen, instant_now()) < LOOK_PAUSE_NS || rocksdb_look(store);
}

static enum error_code rocksdb_begin_write(struct rocksdb_store *store, bool asks,
                                           struct error *ret_error)
{
    if (!store->is_reader && !rocksdb_is_there(store))
        return error_set(ret_error, ERROR_IO, "%s was removed or replaced", store->folder);
    enum error_code code = rocksdb_make_writable(store, ret_error);
    if (!code) {
        code = rocksdb_try_enter(store, ret_error);
        if (code && store->faults & STORE_FULL) /* since it was writable */
            code = error_set(ret_error, ERROR_DISK_FULL, "%s has no room for its tables",
                             store->folder);
    }
    if (code)
        return code;
    if (asks)
        code = rocksdb_ask_tables(store, ret_error);
    if (!code)
        code = store_queue_make_room(store, ret_error);
    if (code) {
        store_leave(store);
        store_recover(store);
    }
    return code;
}

static enum error_code rocksdb_begin_change(struct rocksdb_store *store, bool asks,
                                            struct error *ret_error)
{
    const enum error_code code = rocksdb_begin_write(store, asks, ret_error);

    if (code != ERROR_DISK_FULL || !ballast_held(&store->ballast))
        return code;
    return rocksdb_begin_write(store, asks, ret_error); /* it releases the ballast */
}

enum error_code store_begin_write(struct rocksdb_store *store, struct error *ret_error)
{
    return rocksdb_begin_change(store, true, ret_error);
}

enum error_code store_begin_apply(struct rocksdb_store *store, struct error *ret_error)
{
    return rocksdb_begin_change(store, false, ret_error);
}

/* ---- metas and statistics ---- */

enum error_code store_load_meta(struct rocksdb_store *store, uint16_t partition,
                                struct storage_meta *ret_meta, struct error *ret_error)
{
    const struct store_key key = store_meta_key(partition);
    struct buffer value;

    buffer_init(&value);
    enum error_code code =
        store_get(store, STORE_META, NULL, rocksdb_key_bytes(&key), &value, ret_error);
    if (!code)
        code = record_meta_decode(partition, buffer_bytes(&value), ret_meta, ret_error);
    else if (code == ERROR_NOT_FOUND) {
        *ret_meta = (struct storage_meta){0};
        code = ERROR_NONE;
    }
    buffer_deinit(&value);
    return code;
}

static enum error_code rocksdb_load_meta(struct storage *storage, uint16_t partition,
                                         struct storage_meta *ret_meta, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);

    assert(partition < store->partition_count);
    enum error_code code;
    if ((code = store_enter_partition(store, partition, ret_error)))
        return code;
    code = store_load_meta(store, partition, ret_meta, ret_error);
    store_leave(store);
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
    pthread_mutex_unlock(&store->commit_lock);
}

/* Without the lock that a change holds, which may wait for room. */
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
    ret_stats->is_lost = !rocksdb_look(store);
    ret_stats->corrupt_records += store->block_records;
    ret_stats->corrupt_blocks = store->blocks_aside;
    if (store->blocks_aside)
        snprintf(ret_stats->found, sizeof(ret_stats->found), "%s", store->block_found);
    pthread_mutex_unlock(&store->block_lock);
    rocksdb_stats_disk(store, ret_stats);
    ret_stats->memory_bytes += store->queue.bytes;
    if (rocksdb_try_enter(store, NULL))
        return;
    ret_stats->disk_bytes += rocksdb_property_sum(store, "rocksdb.total-sst-files-size");
    ret_stats->memory_bytes += rocksdb_property_sum(store, "rocksdb.size-all-mem-tables") +
                               rocksdb_property_sum(store, "rocksdb.estimate-table-readers-mem");
    store_leave(store);
}

/* ---- closing ---- */

/* True if a log is there that belongs to another folder, as beside a backup. */
static bool rocksdb_has_foreign_log(const struct rocksdb_store *store)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/" FOLDER_LOG_NAME, store->home);
    return !store->identity.has_log && !store->identity.cluster && files_exists(path);
}

/* True if CLOSED may vouch for the files. A start that was refused for its log has changed nothing,
 * and knows only that something is wrong. */
static bool rocksdb_may_seal(const struct rocksdb_store *store)
{
    const struct folder_state *state = &store->folder_state;

    return (state->is_new || state->was_closed || store->queue.pushed > 0) &&
           !rocksdb_has_foreign_log(store);
}

void store_close(struct rocksdb_store *store)
{
    bool is_whole = !store->is_reader && store->db && rocksdb_may_seal(store);

    store_queue_stop(store);
    if (is_whole && !store->faults)
        store_apply_to(store, store->queue.pushed, NULL);
    is_whole = is_whole && !store->faults;
    store_close_database(store);
    if (store->has_shadow)
        files_remove_folder(store->folder);
    if (is_whole && folder_is_there(store->folder, store->folder_lock))
        folder_seal(store->folder, NULL); /* without it the next start knows less */
    if (store->folder_lock >= 0)
        files_unlock(store->folder_lock);
    rocksdb_writebatch_destroy(store->batch);
    rocksdb_writeoptions_destroy(store->write_options);
    rocksdb_readoptions_destroy(store->point_options);
    rocksdb_compactionfilter_destroy(store->row_filter);
    rocksdb_compactionfilter_destroy(store->pointer_filter);
    rocksdb_compactionfilter_destroy(store->name_filter);
    rocksdb_cache_destroy(store->cache);
    ballast_deinit(&store->ballast);
    pthread_mutex_destroy(&store->commit_lock);
    pthread_mutex_destroy(&store->write_lock);
    pthread_mutex_destroy(&store->apply_lock);
    store_queue_deinit(&store->queue);
    pthread_mutex_destroy(&store->block_lock);
    pthread_rwlock_destroy(&store->open_lock);
    buffer_deinit(&store->scratch);
    prepare_rows_deinit(&store->rows);
    for (size_t i = 0; i < store->partition_count; i++)
        tenant_counts_deinit(&store->counts[i].tenant_counts);
    free(store->counts);
    free(store->follows);
    free(store->folder);
    free(store->home);
    free(store);
}

static void rocksdb_close_storage(struct storage *storage)
{
    store_close(store_of(storage));
}

const struct storage_ops store_ops = {
    .scan = store_scan,
    .find = store_find,
    .lookup = store_lookup,
    .load_meta = rocksdb_load_meta,
    .load_tenant_counts = rocksdb_load_tenant_counts,
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
