/* rocksdb.c - the storage on RocksDB: commits, failures and reopening. */
#include "storage/rocksdb_block.h"
#include "storage/rocksdb_store.h"
#include "sys/files.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define TOUCHES_MAX 64 /* of one row, one after the other */

/* ---- keys as bytes ---- */

struct store_key store_row_key(struct record_key key)
{
    struct store_key bytes = {.size = RECORD_ROW_SIZE};

    put_be(bytes.data, key.high, 8);
    put_be(bytes.data + 8, key.low, 8);
    return bytes;
}

struct store_key store_pointer_key(struct record_key key)
{
    struct store_key bytes = {.size = RECORD_POINTER_SIZE};

    put_be(bytes.data, key.high, 2);
    put_be(bytes.data + 2, key.low, 8);
    return bytes;
}

struct store_key store_meta_key(uint16_t partition)
{
    struct store_key bytes = {.data = "p", .size = 3};

    put_be(bytes.data + 1, partition, 2);
    return bytes;
}

struct store_tenant_key store_tenant_key(uint16_t partition, struct bytes tenant)
{
    struct store_tenant_key key = {.data = "t", .size = STORE_TENANT_SIZE + tenant.size};

    put_be(key.data + 1, partition, 2);
    if (tenant.size)
        memcpy(key.data + STORE_TENANT_SIZE, tenant.data, tenant.size);
    return key;
}

bool store_row_key_parse(struct bytes key, struct record_key *ret_key)
{
    if (key.size != RECORD_ROW_SIZE)
        return false;
    *ret_key = (struct record_key){get_be(key.data, 8), get_be(key.data + 8, 8)};
    return true;
}

bool store_pointer_key_parse(struct bytes key, struct record_key *ret_key)
{
    if (key.size != RECORD_POINTER_SIZE)
        return false;
    *ret_key = (struct record_key){get_be(key.data, 2), get_be(key.data + 2, 8)};
    return true;
}

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

enum error_code store_enter(struct rocksdb_store *store, struct error *ret_error)
{
    pthread_rwlock_rdlock(&store->open_lock);
    if (store->db)
        return ERROR_NONE;
    pthread_rwlock_unlock(&store->open_lock);
    return error_set(ret_error, ERROR_IO, "%s could not be opened again", store->folder);
}

void store_leave(struct rocksdb_store *store)
{
    pthread_rwlock_unlock(&store->open_lock);
}

/* ---- commits ---- */

/* One row to put, or to delete when there is no timer. */
struct store_row {
    struct record_key key;
    const struct timer *timer;
    size_t order; /* of two changes to one key the later holds */
    bool is_touch;
};

static int rocksdb_compare_rows(const void *left, const void *right)
{
    const struct store_row *a = left, *b = right;

    if (!record_key_equal(a->key, b->key))
        return record_key_before(a->key, b->key) ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* A reader of a row applies every touch since the row was written. The number of touches is
 * bounded: the write after the last of them writes the whole row. */
static bool rocksdb_is_short(const struct storage_write *write)
{
    return write->is_touch && write->timer->version % TOUCHES_MAX != 0;
}

/* The rows of a batch in the order of their keys: then each is put into the memtable right after
 * the one before. Often they come so, and then this is one look at each. */
static size_t rocksdb_collect_rows(struct rocksdb_store *store, const struct storage_batch *batch)
{
    struct store_row *rows = store->rows;
    size_t count = 0;

    for (size_t i = 0; i < batch->write_count; i++) {
        const struct storage_write *write = &batch->writes[i];
        const struct record_change change = record_change_of(write);
        const uint64_t serial = write->timer->id.serial;

        assert(write->timer->id.partition == batch->partition);
        if (change.cut.ms) {
            rows[count] = (struct store_row){
                record_row_key(batch->partition, (struct storage_position){change.cut, serial}),
                NULL, count, false};
            count++;
        }
        if (!change.put.ms)
            continue;
        rows[count] = (struct store_row){
            record_row_key(batch->partition, (struct storage_position){change.put, serial}),
            write->timer, count, rocksdb_is_short(write)};
        count++;
    }
    bool is_sorted = true;
    for (size_t i = 1; i < count && is_sorted; i++)
        is_sorted = rocksdb_compare_rows(&rows[i - 1], &rows[i]) < 0;
    if (!is_sorted)
        qsort(rows, count, sizeof(*rows), rocksdb_compare_rows);
    return count;
}

static bool rocksdb_reserve_rows(struct rocksdb_store *store, size_t count)
{
    if (count <= store->row_capacity)
        return true;
    struct store_row *rows = realloc(store->rows, count * sizeof(*rows));
    if (!rows)
        return false;
    store->rows = rows;
    store->row_capacity = count;
    return true;
}

/* Appends the contents of the scratch buffer; false when it could not grow. */
static bool rocksdb_put_scratch(struct rocksdb_store *store, enum store_table table,
                                const struct store_key *key)
{
    if (buffer_failed(&store->scratch))
        return false;
    store_batch_put(store->batch, store, table, rocksdb_key_bytes(key),
                    buffer_bytes(&store->scratch));
    buffer_clear(&store->scratch);
    return true;
}

static bool rocksdb_merge_touch(struct rocksdb_store *store, const struct store_row *row,
                                const struct store_key *key)
{
    record_touch_encode(&store->scratch, row->key, row->timer);
    if (buffer_failed(&store->scratch))
        return false;
    rocksdb_writebatch_merge_cf(store->batch, store->tables[STORE_TIMERS], key->data, key->size,
                                store->scratch.data, store->scratch.size);
    buffer_clear(&store->scratch);
    return true;
}

static bool rocksdb_put_rows(struct rocksdb_store *store, const struct storage_batch *batch)
{
    size_t count = rocksdb_collect_rows(store, batch);

    for (size_t i = 0; i < count; i++) {
        const struct store_row *row = &store->rows[i];
        const struct store_key key = store_row_key(row->key);

        if (!row->timer) {
            rocksdb_writebatch_delete_cf(store->batch, store->tables[STORE_TIMERS], key.data,
                                         key.size);
            continue;
        }
        if (row->is_touch) {
            if (!rocksdb_merge_touch(store, row, &key))
                return false;
            continue;
        }
        record_row_encode(&store->scratch, row->key, row->timer);
        if (!rocksdb_put_scratch(store, STORE_TIMERS, &key))
            return false;
    }
    return true;
}

static bool rocksdb_put_pointers(struct rocksdb_store *store, const struct storage_batch *batch)
{
    for (size_t i = 0; i < batch->write_count; i++) {
        const struct timer *timer = batch->writes[i].timer;
        const struct record_change change = record_change_of(&batch->writes[i]);
        const struct record_key at = record_pointer_key(batch->partition, timer->id.serial);
        const struct store_key key = store_pointer_key(at);

        if (change.pointer == RECORD_POINTER_DELETE)
            rocksdb_writebatch_delete_cf(store->batch, store->tables[STORE_MOVED], key.data,
                                         key.size);
        if (change.pointer != RECORD_POINTER_PUT)
            continue;
        record_pointer_encode(&store->scratch, at,
                              (struct record_pointer){change.put, record_ended(timer)});
        if (!rocksdb_put_scratch(store, STORE_MOVED, &key))
            return false;
    }
    return true;
}

static bool rocksdb_put_names(struct rocksdb_store *store, const struct storage_batch *batch)
{
    for (size_t i = 0; i < batch->write_count; i++) {
        struct record_name_walk walk = {.write = &batch->writes[i]};
        enum record_name_change change;
        struct record_key at;
        struct record_name name;

        while (record_name_next(&walk, &change, &at, &name)) {
            const struct store_key key = store_row_key(at);

            if (change == RECORD_NAME_DELETE) {
                rocksdb_writebatch_delete_cf(store->batch, store->tables[STORE_NAMES], key.data,
                                             key.size);
                continue;
            }
            record_name_encode(&store->scratch, at, &name);
            if (!rocksdb_put_scratch(store, STORE_NAMES, &key))
                return false;
        }
    }
    return true;
}

/* The range ends within the partition: the end of the last possible one, at RECORD_AT_MAX, too. */
static void rocksdb_put_trim(struct rocksdb_store *store, uint16_t partition, struct wall from,
                             struct wall to)
{
    const struct store_key begin =
        store_row_key(record_row_key(partition, (struct storage_position){from, 0}));
    const struct store_key end =
        store_row_key(record_row_key(partition, (struct storage_position){to, 0}));

    if (from.ms < to.ms)
        rocksdb_writebatch_delete_range_cf(store->batch, store->tables[STORE_TIMERS], begin.data,
                                           begin.size, end.data, end.size);
}

/* Counts the timers of tenants that begin to live, or cease to; with `sign` -1 takes that back.
 * False when out of memory: nothing changed. */
static bool rocksdb_count_tenants(struct rocksdb_store *store, const struct storage_batch *batch,
                                  int sign)
{
    struct tenant_counts *tenant_counts = &store->tenant_counts_of[batch->partition];

    for (size_t i = 0; i < batch->write_count; i++) {
        const struct storage_write *write = &batch->writes[i];

        if (tenant_counts_add(tenant_counts, write->timer->texts.tenant,
                              sign * record_live_change(write)))
            continue;
        while (i-- > 0)
            tenant_counts_add(tenant_counts, batch->writes[i].timer->texts.tenant,
                              -sign * record_live_change(&batch->writes[i]));
        return false;
    }
    return true;
}

/* Writes the counts that the batch changed; a tenant without timers needs no record. */
static bool rocksdb_put_tenants(struct rocksdb_store *store, const struct storage_batch *batch)
{
    const struct tenant_counts_tenant *tenant;

    while ((tenant = tenant_counts_take_changed(&store->tenant_counts_of[batch->partition]))) {
        const struct bytes name = {tenant->name, tenant->name_size};
        const struct store_tenant_key key = store_tenant_key(batch->partition, name);
        const struct bytes at = {key.data, key.size};

        if (!tenant->count) {
            rocksdb_writebatch_delete_cf(store->batch, store->tables[STORE_META], at.data, at.size);
            continue;
        }
        record_number_encode(&store->scratch, at, tenant->count);
        if (buffer_failed(&store->scratch))
            return false;
        store_batch_put(store->batch, store, STORE_META, at, buffer_bytes(&store->scratch));
        buffer_clear(&store->scratch);
    }
    return true;
}

/* Writes of a batch stand before its trim, and the next batch after it, so that a trim takes effect
 * on earlier rows and on no later row. */
static bool rocksdb_put_batch(struct rocksdb_store *store, const struct storage_batch *batch)
{
    const struct store_key key = store_meta_key(batch->partition);
    struct wall *trim = &store->trims[batch->partition];
    uint64_t *pending = &store->pendings[batch->partition];
    struct storage_meta meta = batch->meta;

    assert(batch->partition < store->partition_count);
    if (!rocksdb_reserve_rows(store, 2 * batch->write_count) || !rocksdb_put_rows(store, batch) ||
        !rocksdb_put_pointers(store, batch) || !rocksdb_put_names(store, batch))
        return false;
    rocksdb_put_trim(store, batch->partition, *trim, batch->meta.trim);
    *trim = batch->meta.trim;
    meta.pending = *pending + (uint64_t)record_pending_change(batch);
    record_meta_encode(&store->scratch, batch->partition, &meta);
    if (!rocksdb_put_scratch(store, STORE_META, &key) || !rocksdb_count_tenants(store, batch, 1))
        return false;
    *pending = meta.pending;
    if (rocksdb_put_tenants(store, batch))
        return true;
    *pending -= (uint64_t)record_pending_change(batch);
    rocksdb_count_tenants(store, batch, -1);
    return false;
}

static enum error_code rocksdb_commit_locked(struct rocksdb_store *store,
                                             struct storage_batch *const *batches, size_t count,
                                             struct error *ret_error)
{
    rocksdb_writebatch_clear(store->batch);
    buffer_clear(&store->scratch);
    size_t put_count = 0;
    while (put_count < count && rocksdb_put_batch(store, batches[put_count]))
        put_count++;
    enum error_code code = ERROR_NONE;
    if (put_count < count)
        code = error_set(ret_error, ERROR_NO_MEMORY, "commit");
    else
        code = store_write(store, store->batch, ret_error);
    /* What the disk has now is not known. Beginning at zero is always right, only slower: before
     * the trim there are no rows. */
    for (size_t i = 0; i < put_count && code; i++) {
        store->trims[batches[i]->partition] = (struct wall){0};
        store->pendings[batches[i]->partition] -= (uint64_t)record_pending_change(batches[i]);
        rocksdb_count_tenants(store, batches[i], -1);
    }
    return code;
}

/* A log that could not be written is never written again: the database is closed, and opened with a
 * new one. On a full disk that needs room for the memtables; until then it is open for reading
 * only, at once, before RocksDB begins to repair itself. */

static enum error_code rocksdb_reopen(struct rocksdb_store *store, enum store_state state,
                                      struct error *ret_error)
{
    pthread_rwlock_wrlock(&store->open_lock);
    store_close_database(store);
    store->state = state;
    enum error_code code = store_open_database(store, ret_error);
    pthread_rwlock_unlock(&store->open_lock);
    return code;
}

static enum error_code rocksdb_make_writable(struct rocksdb_store *store, struct error *ret_error)
{
    uint64_t needed = store->options.memtable_bytes;

    if (store->state == STORE_WRITABLE)
        return ERROR_NONE;
    uint64_t free_bytes = 0;
    if (store->state == STORE_FULL &&
        (files_free_bytes(store->folder, &free_bytes, NULL) || free_bytes < needed))
        return error_set(ret_error, ERROR_DISK_FULL, "%s: %llu bytes free, %llu needed",
                         store->folder, (unsigned long long)free_bytes, (unsigned long long)needed);
    enum error_code code;
    /* The disk is asked first: a library built with assertions ends the process when it cannot
     * write the event log with which it opens. */
    if ((code = files_probe(store->folder, ret_error)))
        return code;
    code = rocksdb_reopen(store, STORE_WRITABLE, ret_error);
    if (code) /* should that fail too, reads fail until a commit succeeds */
        rocksdb_reopen(store, code == ERROR_DISK_FULL ? STORE_FULL : STORE_FAILED, NULL);
    return code;
}

/* Before a write into a new log is acknowledged, LIVE names that log. RocksDB begins one only with
 * new memtables, and then its version rises. The lock keeps others from writing, so all logs are
 * synced. Should LIVE not be written, the old one holds and says less. */
static void rocksdb_mark_live(struct rocksdb_store *store)
{
    uint64_t version = 0;

    if (store->options.sync != ROCKSDB_SYNC_ALWAYS ||
        rocksdb_property_int_cf(store->db, store->tables[STORE_META],
                                "rocksdb.current-super-version-number", &version) ||
        version == store->live_version)
        return;
    if (!folder_mark_live(store->folder, &store->live_log, NULL))
        store->live_version = version;
}

static enum error_code rocksdb_commit(struct storage *storage, struct storage_batch *const *batches,
                                      size_t count, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);

    if (!count)
        return ERROR_NONE;
    if (!folder_is_there(store->folder, store->folder_lock))
        return error_set(ret_error, ERROR_IO, "%s was removed or replaced", store->folder);
    enum error_code code = rocksdb_make_writable(store, ret_error);
    if (code)
        return code;
    if ((code = store_enter(store, ret_error)))
        return code;
    pthread_mutex_lock(&store->write_lock);
    code = rocksdb_commit_locked(store, batches, count, ret_error);
    if (!code)
        rocksdb_mark_live(store);
    pthread_mutex_unlock(&store->write_lock);
    store_leave(store);
    if (code == ERROR_IO)
        store->state = STORE_FAILED;
    if (code == ERROR_IO && rocksdb_block_set_aside(store))
        return code; /* met by a compaction; the database was opened again */
    /* The failed write may be in the log nevertheless. Readers must see it before the next change
     * of the timer; otherwise that change would be applied at the old position, and the timer would
     * come back at the new one. Possible only if the disk accepts writes. */
    if (code == ERROR_IO && !files_probe(store->folder, NULL))
        rocksdb_reopen(store, STORE_FAILED, NULL);
    else if (code == ERROR_DISK_FULL)
        rocksdb_reopen(store, STORE_FULL, NULL);
    return code;
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
    if ((code = store_enter(store, ret_error)))
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
    enum error_code code = store_enter(store, ret_error);

    assert(partition < store->partition_count);
    if (code)
        return code;
    pthread_mutex_lock(&store->write_lock);
    const struct tenant_counts_tenant *tenant;
    size_t cursor = 0;
    bool is_added = true;
    while (is_added && (tenant = tenant_counts_next(&store->tenant_counts_of[partition], &cursor)))
        is_added = tenant_counts_add(tenant_counts, (struct bytes){tenant->name, tenant->name_size},
                                     (int64_t)tenant->count);
    pthread_mutex_unlock(&store->write_lock);
    store_leave(store);
    return is_added ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "tenant_counts");
}

/* The sum over all tables; 0 where RocksDB does not know. */
static uint64_t rocksdb_property_sum(struct rocksdb_store *store, const char *name)
{
    uint64_t sum = 0, value;

    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        if (!rocksdb_property_int_cf(store->db, store->tables[i], name, &value))
            sum += value;
    return sum;
}

static void rocksdb_stats(struct storage *storage, struct storage_stats *ret_stats)
{
    struct rocksdb_store *store = store_of(storage);

    *ret_stats = (struct storage_stats){
        .corrupt_records = atomic_load_explicit(&store->corrupt_count, memory_order_relaxed),
        .torn_logs = store->folder_state.was_closed ? 0 : store->folder_state.torn_count,
        .lost_writes = store->folder_state.lost,
        .memory_bytes = rocksdb_cache_get_usage(store->cache),
    };
    folder_describe(&store->folder_state, ret_stats->found, sizeof(ret_stats->found));
    pthread_mutex_lock(&store->block_lock);
    ret_stats->is_lost = !folder_is_there(store->folder, store->folder_lock);
    ret_stats->corrupt_records += store->block_records;
    ret_stats->corrupt_blocks = store->blocks_aside;
    if (store->blocks_aside)
        snprintf(ret_stats->found, sizeof(ret_stats->found), "%s", store->block_found);
    pthread_mutex_unlock(&store->block_lock);
    if (files_free_bytes(store->folder, &ret_stats->disk_free_bytes, NULL))
        ret_stats->disk_free_bytes = 0; /* a disk that does not answer takes no more */
    if (store_enter(store, NULL))
        return;
    /* The log holds about what the memtables hold. */
    ret_stats->disk_bytes = rocksdb_property_sum(store, "rocksdb.total-sst-files-size") +
                            rocksdb_property_sum(store, "rocksdb.cur-size-all-mem-tables");
    ret_stats->memory_bytes += rocksdb_property_sum(store, "rocksdb.size-all-mem-tables") +
                               rocksdb_property_sum(store, "rocksdb.estimate-table-readers-mem");
    store_leave(store);
}

/* ---- closing ---- */

void store_close(struct rocksdb_store *store)
{
    const bool is_whole = store->db && store->state == STORE_WRITABLE;

    store_close_database(store);
    if (store->has_shadow)
        files_remove_shadow(store->folder);
    if (is_whole && folder_is_there(store->folder, store->folder_lock))
        folder_seal(store->folder, NULL); /* without it the next start only knows less */
    if (store->folder_lock >= 0)
        files_unlock(store->folder_lock);
    rocksdb_writebatch_destroy(store->batch);
    rocksdb_writeoptions_destroy(store->write_options);
    rocksdb_readoptions_destroy(store->point_options);
    rocksdb_compactionfilter_destroy(store->row_filter);
    rocksdb_compactionfilter_destroy(store->pointer_filter);
    rocksdb_compactionfilter_destroy(store->name_filter);
    rocksdb_cache_destroy(store->cache);
    pthread_mutex_destroy(&store->write_lock);
    pthread_mutex_destroy(&store->block_lock);
    pthread_rwlock_destroy(&store->open_lock);
    buffer_deinit(&store->scratch);
    free(store->rows);
    for (size_t i = 0; store->tenant_counts_of && i < store->partition_count; i++)
        tenant_counts_deinit(&store->tenant_counts_of[i]);
    free(store->tenant_counts_of);
    free(store->trims);
    free(store->pendings);
    free(store->folder);
    free(store);
}

static void rocksdb_close_storage(struct storage *storage)
{
    store_close(store_of(storage));
}

const struct storage_ops store_ops = {
    .commit = rocksdb_commit,
    .scan = store_scan,
    .find = store_find,
    .lookup = store_lookup,
    .load_meta = rocksdb_load_meta,
    .load_tenant_counts = rocksdb_load_tenant_counts,
    .stats = rocksdb_stats,
    .backup = store_backup,
    .close = rocksdb_close_storage,
};

#ifdef __SANITIZE_THREAD__
/* The library as it is packaged knows nothing of the sanitizer, which so misses how it passes
 * memory from one thread to another; our readers look into that memory. */
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
