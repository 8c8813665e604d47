#include "storage/rocksdb_store.h"
#include "sys/files.h"

#include <stdlib.h>

/* The sizes that fit a machine with a gigabyte to spare; docs/storage.md gives the reasons. */
enum {
    CACHE_BYTES = 64 << 20,
    MEMTABLE_BYTES = 32 << 20,
    MEMTABLE_COUNT = 4,
    SMALL_MEMTABLE_BYTES = 4 << 20,
    LOG_BYTES_MAX = 256 << 20,
    BLOCK_BYTES = 8 << 10,
    FILE_BYTES = 64 << 20,
    LEVEL_BYTES = 256 << 20,
    SYNC_BYTES = 1 << 20,
    OPEN_FILES_MAX = 256,
    BACKGROUND_JOBS = 2,
    FILTER_BITS = 10,
    EVENT_LOG_BYTES = 1 << 20,
    EVENT_LOG_COUNT = 3,
    EVENT_LOG_FATAL = 4,
};

/* What the C interface has no function for.
 *
 * Recovery keeps what it read in the memtables: a start does not wait until it is written out once
 * more. After an error RocksDB is not to go on by itself: in this version that can hang for ever,
 * and closing then hangs too. */
static const char database_text[] = "avoid_flush_during_recovery=true;max_bgerror_resume_count=0";

/* Every file is rewritten once a day, so that what was cancelled far ahead is forgotten too. */
static const char table_text[] = "periodic_compaction_seconds=86400";

static const char *const table_names[] = {
#define X(id, name) name,
    STORE_TABLE_LIST(X)
#undef X
};

/* ---- options ---- */

static void set_blocks(rocksdb_options_t *options, rocksdb_cache_t *cache, bool has_filter)
{
    rocksdb_block_based_table_options_t *blocks = rocksdb_block_based_options_create();

    rocksdb_block_based_options_set_block_size(blocks, BLOCK_BYTES);
    rocksdb_block_based_options_set_format_version(blocks, 5);
    rocksdb_block_based_options_set_block_cache(blocks, cache);
    /* Index and filters grow with the timers on disk: in the cache, in parts, they obey its limit.
     */
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(blocks, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(blocks, 1);
    rocksdb_block_based_options_set_pin_top_level_index_and_filter(blocks, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(blocks, 1);
    rocksdb_block_based_options_set_index_type(
        blocks, rocksdb_block_based_table_index_type_two_level_index_search);
    if (has_filter) {
        rocksdb_block_based_options_set_partition_filters(blocks, 1);
        rocksdb_block_based_options_set_filter_policy(
            blocks, rocksdb_filterpolicy_create_bloom_full(FILTER_BITS));
    }
    rocksdb_options_set_block_based_table_factory(options, blocks);
    rocksdb_block_based_options_destroy(blocks);
}

static void set_compression(rocksdb_options_t *options)
{
    rocksdb_options_set_compression(options, rocksdb_lz4_compression);
    rocksdb_options_set_bottommost_compression(options, rocksdb_zstd_compression);
}

static void set_levels(rocksdb_options_t *options)
{
    rocksdb_options_set_target_file_size_base(options, FILE_BYTES);
    rocksdb_options_set_max_bytes_for_level_base(options, LEVEL_BYTES);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
}

/* NULL when RocksDB does not know what is in `text`. */
static rocksdb_options_t *options_of(const char *text, struct error *ret_error)
{
    rocksdb_options_t *base = rocksdb_options_create(), *options = rocksdb_options_create();
    char *refusal = NULL;

    rocksdb_get_options_from_string(base, text, options, &refusal);
    rocksdb_options_destroy(base);
    if (!refusal)
        return options;
    store_failed(ret_error, "options", refusal);
    rocksdb_options_destroy(options);
    return NULL;
}

static rocksdb_options_t *table_options(const struct rocksdb_store *store, enum store_table table,
                                        struct error *ret_error)
{
    rocksdb_options_t *options = options_of(table_text, ret_error);
    size_t memtable_bytes = store->options.memtable_bytes;

    if (!options)
        return NULL;
    rocksdb_options_set_write_buffer_size(options, SMALL_MEMTABLE_BYTES);
    set_blocks(options, store->cache, table == STORE_TIMERS || table == STORE_MOVED);
    set_levels(options);
    set_compression(options);
    if (table == STORE_TIMERS) {
        rocksdb_options_set_write_buffer_size(options, memtable_bytes);
        rocksdb_options_set_max_write_buffer_number(options, MEMTABLE_COUNT);
        /* Who looks for a row mostly finds it: the last level, most of them, needs no filter. */
        rocksdb_options_set_optimize_filters_for_hits(options, 1);
        rocksdb_options_set_compaction_filter(options, store->row_filter);
    }
    if (table == STORE_MOVED) {
        rocksdb_options_set_write_buffer_size(options, memtable_bytes / 2);
        rocksdb_options_set_compaction_filter(options, store->pointer_filter);
    }
    return options;
}

static rocksdb_options_t *database_options(struct error *ret_error)
{
    rocksdb_options_t *options = options_of(database_text, ret_error);

    if (!options)
        return NULL;
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_create_missing_column_families(options, 1);
    /* All tables flush together: else a small one, seldom full, holds on to logs whose timers are
     * long in files, and a start reads them all again. */
    rocksdb_options_set_atomic_flush(options, 1);
    rocksdb_options_set_max_total_wal_size(options, LOG_BYTES_MAX);
    rocksdb_options_set_max_background_jobs(options, BACKGROUND_JOBS);
    rocksdb_options_set_max_open_files(options, OPEN_FILES_MAX);
    /* Files of a compaction go to the disk as they are written, not all at their end, where a
     * commit would have to wait behind them. */
    rocksdb_options_set_bytes_per_sync(options, SYNC_BYTES);
    rocksdb_options_set_stats_dump_period_sec(options, 0);
    rocksdb_options_set_stats_persist_period_sec(options, 0);
    /* Its own event log lies on the same disk, and a library built with assertions aborts when it
     * cannot write there any more. */
    rocksdb_options_set_info_log_level(options, EVENT_LOG_FATAL);
    rocksdb_options_set_max_log_file_size(options, EVENT_LOG_BYTES);
    rocksdb_options_set_keep_log_file_num(options, EVENT_LOG_COUNT);
    return options;
}

/* ---- the folder ---- */

static bool is_known_table(const char *name)
{
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        if (strcmp(table_names[i], name) == 0)
            return true;
    return false;
}

/* A table that we do not know belongs to a newer version. A folder without a database has none. */
static enum error_code check_tables(const rocksdb_options_t *options, const char *folder,
                                    struct error *ret_error)
{
    enum error_code code = ERROR_NONE;
    char *text = NULL;
    size_t count = 0;
    char **names = rocksdb_list_column_families(options, folder, &count, &text);

    rocksdb_free(text); /* whatever is wrong, opening says it better */
    for (size_t i = 0; i < count && !code; i++)
        if (!is_known_table(names[i]))
            code = error_set(ret_error, ERROR_INVALID,
                             "%s was made by a newer version: it has a table \"%s\"", folder,
                             names[i]);
    rocksdb_list_column_families_destroy(names, count);
    return code;
}

static enum error_code open_failed(struct error *ret_error, const char *folder, char *text)
{
    if (strstr(text, "LOCK")) {
        rocksdb_free(text);
        return error_set(ret_error, ERROR_IO, "%s is in use by another process", folder);
    }
    return store_failed(ret_error, "open", text);
}

static rocksdb_t *open_database(struct rocksdb_store *store, const rocksdb_options_t *database,
                                rocksdb_options_t *const tables[STORE_TABLE_COUNT], char **ret_text)
{
    const rocksdb_options_t *const *options = (const rocksdb_options_t *const *)tables;

    if (store->state != STORE_WRITABLE)
        return rocksdb_open_for_read_only_column_families(database, store->folder,
                                                          STORE_TABLE_COUNT, table_names, options,
                                                          store->tables, 0, ret_text);
    return rocksdb_open_column_families(database, store->folder, STORE_TABLE_COUNT, table_names,
                                        options, store->tables, ret_text);
}

static enum error_code open_tables(struct rocksdb_store *store, struct error *ret_error)
{
    rocksdb_options_t *database = database_options(ret_error), *tables[STORE_TABLE_COUNT];
    enum error_code code = database ? check_tables(database, store->folder, ret_error) : ERROR_IO;
    char *text = NULL;

    for (size_t i = 0; i < STORE_TABLE_COUNT; i++) {
        tables[i] = table_options(store, (enum store_table)i, ret_error);
        if (!tables[i])
            code = ERROR_IO;
    }
    if (!code) {
        store->db = open_database(store, database, tables, &text);
        if (text) {
            store->db = NULL;
            code = open_failed(ret_error, store->folder, text);
        }
    }
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        if (tables[i])
            rocksdb_options_destroy(tables[i]);
    if (database)
        rocksdb_options_destroy(database);
    return code;
}

/* ---- the format ---- */

/* Reads a number of the meta table; ERROR_NOT_FOUND when it is not there. */
static enum error_code load_number(struct rocksdb_store *store, struct bytes name,
                                   uint64_t *ret_number, struct error *ret_error)
{
    struct buffer value;
    enum error_code code;

    buffer_init(&value);
    code = store_get(store, STORE_META, NULL, name, &value, ret_error);
    if (!code)
        code = record_number_decode(name, buffer_bytes(&value), ret_number, ret_error);
    buffer_deinit(&value);
    return code;
}

static void put_number(struct rocksdb_store *store, struct bytes name, uint64_t number)
{
    buffer_clear(&store->scratch);
    record_number_encode(&store->scratch, name, number);
    store_batch_put(store->batch, store, STORE_META, name, buffer_bytes(&store->scratch));
}

/* The first thing written to a new folder; a folder that lost power before has no timers either. */
static enum error_code write_format(struct rocksdb_store *store, struct error *ret_error)
{
    rocksdb_writebatch_clear(store->batch);
    put_number(store, STORE_KEY_FORMAT, RECORD_VERSION);
    put_number(store, STORE_KEY_PARTITIONS, store->partition_count);
    put_number(store, STORE_KEY_CORRUPT, 0);
    return buffer_failed(&store->scratch) ? error_set(ret_error, ERROR_NO_MEMORY, "open")
                                          : store_write(store, store->batch, ret_error);
}

static enum error_code check_format(struct rocksdb_store *store, struct error *ret_error)
{
    uint64_t format, partitions, corrupt;
    enum error_code code = load_number(store, STORE_KEY_FORMAT, &format, ret_error);

    if (code == ERROR_NOT_FOUND)
        return write_format(store, ret_error);
    if (code)
        return code;
    if (format > RECORD_VERSION)
        return error_set(ret_error, ERROR_INVALID,
                         "%s was made by a newer version: its format is %llu, ours %d",
                         store->folder, (unsigned long long)format, RECORD_VERSION);
    if ((code = load_number(store, STORE_KEY_PARTITIONS, &partitions, ret_error)) ||
        (code = load_number(store, STORE_KEY_CORRUPT, &corrupt, ret_error)))
        return code;
    if (partitions != store->partition_count)
        return error_set(ret_error, ERROR_INVALID,
                         "%s was made with %llu partitions and cannot be opened with %u",
                         store->folder, (unsigned long long)partitions, store->partition_count);
    atomic_store_explicit(&store->corrupt_count, corrupt, memory_order_relaxed);
    return ERROR_NONE;
}

/* A damaged meta is told to who asks for it; to the trim it is as good as none, since a range that
 * begins too early drops nothing more. */
static enum error_code load_trims(struct rocksdb_store *store, struct error *ret_error)
{
    for (uint32_t i = 0; i < store->partition_count; i++) {
        struct storage_meta meta = {0};
        enum error_code code = store_load_meta(store, (uint16_t)i, &meta, ret_error);

        if (code && code != ERROR_CORRUPT)
            return code;
        store->trims[i] = meta.trim;
        store->pendings[i] = meta.pending;
    }
    return ERROR_NONE;
}

/* ---- opening ---- */

void store_close_database(struct rocksdb_store *store)
{
    char *text = NULL;

    if (!store->db)
        return;
    /* After an error there is nothing left to sync, and RocksDB is not to be asked. */
    if (store->options.sync == ROCKSDB_SYNC_NEVER && store->state == STORE_WRITABLE)
        rocksdb_flush_wal(store->db, 1, &text);
    rocksdb_free(text);
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        rocksdb_column_family_handle_destroy(store->tables[i]);
    rocksdb_close(store->db);
    store->db = NULL;
}

enum error_code store_open_database(struct rocksdb_store *store, struct error *ret_error)
{
    enum error_code code = files_make_folder(store->folder, ret_error);

    if (!code)
        code = open_tables(store, ret_error);
    if (!code)
        code = check_format(store, ret_error);
    if (!code)
        code = load_trims(store, ret_error);
    if (code)
        store_close_database(store);
    return code;
}

static void store_init_locks(struct rocksdb_store *store)
{
    pthread_rwlockattr_t kind;

    /* Else readers without a gap between them would keep it from being opened again. */
    pthread_rwlockattr_init(&kind);
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&store->open_lock, &kind);
    pthread_rwlockattr_destroy(&kind);
    pthread_mutex_init(&store->write_lock, NULL);
}

static bool store_init(struct rocksdb_store *store, const struct rocksdb_options *options)
{
    store->storage.ops = &store_ops;
    store->options = *options;
    if (!options->memtable_bytes)
        store->options.memtable_bytes = MEMTABLE_BYTES;
    store->partition_count = options->partition_count;
    store->retention.retain_ms = options->retain_ms;
    store_init_locks(store);
    buffer_init(&store->scratch);
    store->folder = strdup(options->folder);
    store->trims = calloc((size_t)options->partition_count + 1, sizeof(*store->trims));
    store->cache =
        rocksdb_cache_create_lru(options->cache_bytes ? options->cache_bytes : CACHE_BYTES);
    store->row_filter = store_row_filter_create(&store->retention);
    store->pointer_filter = store_pointer_filter_create(&store->retention);
    store->batch = rocksdb_writebatch_create();
    store->point_options = rocksdb_readoptions_create();
    store->write_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(store->write_options, options->sync == ROCKSDB_SYNC_ALWAYS);
    store->pendings = calloc((size_t)options->partition_count + 1, sizeof(*store->pendings));
    return store->folder && store->trims && store->pendings;
}

enum error_code rocksdb_storage_open(const struct rocksdb_options *options,
                                     struct storage **ret_storage, struct error *ret_error)
{
    struct rocksdb_store *store = calloc(1, sizeof(*store));
    enum error_code code;

    if (!store)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    code = store_init(store, options) ? store_open_database(store, ret_error)
                                      : error_set(ret_error, ERROR_NO_MEMORY, "open");
    if (code) {
        store_close(store);
        return code;
    }
    *ret_storage = &store->storage;
    return ERROR_NONE;
}
