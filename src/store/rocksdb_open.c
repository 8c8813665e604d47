/* rocksdb_open.c - the options of RocksDB, the data folder and its format. */
#include "store/rocksdb_store.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* Sizes for a machine with a gigabyte to spare. */
enum {
    CACHE_BYTES = 64 << 20,
    MEMTABLE_BYTES = 32 << 20,
    MEMTABLE_COUNT = 4,
    SMALL_MEMTABLE_BYTES = 4 << 20,
    MEMTABLES_BYTES_MAX = 256 << 20,
    BLOCK_BYTES = 8 << 10,
    FILE_BYTES = 64 << 20,
    YOUNG_TABLES = 6,       /* tables of the first level that are merged into the next together */
    YOUNG_TABLES_SLOW = 30, /* number of such tables that slows writes down */
    YOUNG_TABLES_STOP = 50, /* number of such tables that stops writes */
    LEVEL_BYTES = 64 << 20,
    SYNC_BYTES = 1 << 20,
    OPEN_FILES_MAX = 256,
    /* one flushes, three merge, so that young tables do not wait for a deep merge */
    BACKGROUND_JOBS = 4,
    TABLES_MENDED_MAX = 64, /* maximum of tables mended by one start */
    FILTER_BITS = 10,
    NAME_HASH_SIZE = 8, /* size of the hash at the front of a name's key */
    EVENT_LOG_BYTES = 1 << 20,
    EVENT_LOG_COUNT = 3,
    EVENT_LOG_FATAL = 4,
    FREE_BYTES_MIN =
        1 << 20, /* free bytes needed to open: this library aborts if a write fails then */
    SEGMENT_BYTES = 16 << 20,
};

#define NAME_FILTER_SHARE 0.05 /* part of a memtable */

/* Options that the C interface lacks. Recovery writes the records of the log into synced files
 * before anything new is logged: the end of the log may be only in memory, after a kill or a
 * failed sync, and a later sync would not help. After a power cut, recovery would stop at that
 * end, and lose every record acknowledged in the next log since. RocksDB must not resume after
 * an error by itself: in this version that can hang forever, as then does closing. */
#define DATABASE_TEXT "avoid_flush_during_recovery=false;max_bgerror_resume_count=0"

/* For versions that compare the number of records that a compaction reads with the table's
 * count: after a block was set aside it is lower. */
#define UNCOUNTED_TEXT ";compaction_verify_record_count=false"

/* A table without properties cannot show that it is the manifest's. */
#define ANONYMOUS_TEXT ";verify_sst_unique_id_in_manifest=false"

/* Every file is rewritten once a day, so that timers cancelled long before their due time are
 * dropped too. */
static const char table_text[] = "periodic_compaction_seconds=86400";

const char *const store_table_names[] = {
#define X(id, name) name,
    STORE_TABLE_LIST(X)
#undef X
};

/* ---- options ---- */

static void rocksdb_open_set_blocks(rocksdb_options_t *options, rocksdb_cache_t *cache,
                                    bool has_filter)
{
    rocksdb_block_based_table_options_t *blocks = rocksdb_block_based_options_create();

    rocksdb_block_based_options_set_block_size(blocks, BLOCK_BYTES);
    rocksdb_block_based_options_set_format_version(blocks, 5);
    rocksdb_block_based_options_set_block_cache(blocks, cache);
    /* Index and filters grow with the timers on disk. In the cache, in parts, they obey its
     * limit. */
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

/* Sizes the level after the young tables about like all of them together: merges are short, and
 * consecutive creates keep their pace. */
static void rocksdb_open_set_levels(rocksdb_options_t *options)
{
    rocksdb_options_set_compression(options, rocksdb_lz4_compression);
    rocksdb_options_set_level0_file_num_compaction_trigger(options, YOUNG_TABLES);
    rocksdb_options_set_level0_slowdown_writes_trigger(options, YOUNG_TABLES_SLOW);
    rocksdb_options_set_level0_stop_writes_trigger(options, YOUNG_TABLES_STOP);
    rocksdb_options_set_target_file_size_base(options, FILE_BYTES);
    rocksdb_options_set_max_bytes_for_level_base(options, LEVEL_BYTES);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
}

/* Returns NULL if RocksDB does not know an option of `text`. */
static rocksdb_options_t *rocksdb_open_options_of(const char *text, struct error *ret_error)
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

static rocksdb_options_t *rocksdb_open_table_options(const struct rocksdb_store *store,
                                                     enum store_table table,
                                                     struct error *ret_error)
{
    rocksdb_options_t *options = rocksdb_open_options_of(table_text, ret_error);
    size_t memtable_bytes = store->options.memtable_bytes;

    if (!options)
        return NULL;
    rocksdb_options_set_write_buffer_size(options, SMALL_MEMTABLE_BYTES);
    rocksdb_open_set_blocks(options, store->cache,
                            table != STORE_META && table != STORE_QUARANTINE);
    rocksdb_open_set_levels(options);
    rocksdb_options_set_disable_auto_compactions(options, store->is_reader || store->merges_wait);
    if (table == STORE_TIMERS) {
        rocksdb_options_set_write_buffer_size(options, memtable_bytes);
        rocksdb_options_set_max_write_buffer_number(options, MEMTABLE_COUNT);
        /* Most lookups find their row, so the last level, which has most rows, needs no filter. */
        rocksdb_options_set_optimize_filters_for_hits(options, 1);
        rocksdb_options_set_compaction_filter(options, store->row_filter);
        rocksdb_options_set_merge_operator(options, store_touch_operator_create());
    }
    if (table == STORE_MOVED) {
        rocksdb_options_set_write_buffer_size(options, memtable_bytes / 2);
        rocksdb_options_set_compaction_filter(options, store->pointer_filter);
    }
    if (table == STORE_NAMES) {
        rocksdb_options_set_write_buffer_size(options, memtable_bytes / 2);
        rocksdb_options_set_compaction_filter(options, store->name_filter);
        /* Most names that are looked up are new: a filter of the hashes shows that at once. */
        rocksdb_options_set_prefix_extractor(
            options, rocksdb_slicetransform_create_fixed_prefix(NAME_HASH_SIZE));
        rocksdb_options_set_memtable_prefix_bloom_size_ratio(options, NAME_FILTER_SHARE);
    }
    return options;
}

static rocksdb_options_t *rocksdb_open_database_options(const struct rocksdb_store *store,
                                                        struct error *ret_error)
{
    const bool has_anonymous = store->has_anonymous;
    rocksdb_options_t *options = rocksdb_open_options_of(
        has_anonymous ? DATABASE_TEXT ANONYMOUS_TEXT UNCOUNTED_TEXT : DATABASE_TEXT UNCOUNTED_TEXT,
        NULL);

    if (!options) /* older versions neither know the option nor compare */
        options = rocksdb_open_options_of(
            has_anonymous ? DATABASE_TEXT ANONYMOUS_TEXT : DATABASE_TEXT, ret_error);
    if (!options)
        return NULL;
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_create_missing_column_families(options, 1);
    rocksdb_options_set_paranoid_checks(options, !store->is_listing);
    /* All tables are flushed together, with the mark in one of them. The log keeps about what
     * the memtables hold, so their limit is its limit too. */
    rocksdb_options_set_atomic_flush(options, 1);
    rocksdb_options_set_db_write_buffer_size(options, MEMTABLES_BYTES_MAX);
    rocksdb_options_set_max_background_jobs(options, BACKGROUND_JOBS);
    rocksdb_options_set_max_open_files(options, OPEN_FILES_MAX);
    /* Files of a compaction are synced while they are written, so that commits do not wait for
     * one long sync at the end. */
    rocksdb_options_set_bytes_per_sync(options, SYNC_BYTES);
    rocksdb_options_set_stats_dump_period_sec(options, 0);
    rocksdb_options_set_stats_persist_period_sec(options, 0);
    /* RocksDB's event log is on the disk of the data, and a library with assertions aborts if it
     * cannot write there. */
    rocksdb_options_set_info_log_level(options, EVENT_LOG_FATAL);
    rocksdb_options_set_max_log_file_size(options, EVENT_LOG_BYTES);
    rocksdb_options_set_keep_log_file_num(options, EVENT_LOG_COUNT);
    return options;
}

/* ---- the folder ---- */

bool store_find_table(const char *name, enum store_table *ret_table)
{
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        if (strcmp(store_table_names[i], name) == 0) {
            *ret_table = (enum store_table)i;
            return true;
        }
    return false;
}

/* Refuses unknown tables, which belong to a newer version. A folder without a database has none. */
static enum error_code rocksdb_open_check_tables(const rocksdb_options_t *options,
                                                 const char *folder, struct error *ret_error)
{
    char *text = NULL;
    size_t count = 0;
    char **names = rocksdb_list_column_families(options, folder, &count, &text);

    rocksdb_free(text); /* the open reports any error better */
    enum error_code code = ERROR_NONE;
    enum store_table known;
    for (size_t i = 0; i < count && !code; i++)
        if (!store_find_table(names[i], &known))
            code = error_set(ret_error, ERROR_INVALID,
                             "%s was made by a newer version: it has a table \"%s\"", folder,
                             names[i]);
    rocksdb_list_column_families_destroy(names, count);
    return code;
}

static enum error_code rocksdb_open_failed(struct rocksdb_store *store, struct error *ret_error,
                                           char *text)
{
    const char *folder = store->folder;

    rocksdb_block_note(store, text);
    if (strncmp(text, "Corruption", strlen("Corruption")) == 0) {
        error_set(ret_error, ERROR_CORRUPT, "%s is damaged; restore a backup. %s", folder, text);
        rocksdb_free(text);
        return ERROR_CORRUPT;
    }
    if (strstr(text, "LOCK")) {
        rocksdb_free(text);
        return error_set(ret_error, ERROR_IO, "%s is in use by another process", folder);
    }
    return store_failed(ret_error, "open", text);
}

static rocksdb_t *rocksdb_open_database(struct rocksdb_store *store,
                                        const rocksdb_options_t *database,
                                        rocksdb_options_t *const tables[STORE_TABLE_COUNT],
                                        char **ret_text)
{
    const rocksdb_options_t *const *options = (const rocksdb_options_t *const *)tables;

    if (store->is_listing || (store->is_reader && !store->has_shadow))
        return rocksdb_open_for_read_only_column_families(database, store->folder,
                                                          STORE_TABLE_COUNT, store_table_names,
                                                          options, store->tables, 0, ret_text);
    return rocksdb_open_column_families(database, store->folder, STORE_TABLE_COUNT,
                                        store_table_names, options, store->tables, ret_text);
}

static enum error_code rocksdb_open_tables(struct rocksdb_store *store, struct error *ret_error)
{
    rocksdb_options_t *database = rocksdb_open_database_options(store, ret_error),
                      *tables[STORE_TABLE_COUNT];
    enum error_code code =
        database ? rocksdb_open_check_tables(database, store->folder, ret_error) : ERROR_IO;

    for (size_t i = 0; i < STORE_TABLE_COUNT; i++) {
        tables[i] = rocksdb_open_table_options(store, (enum store_table)i, ret_error);
        if (!tables[i])
            code = ERROR_IO;
    }
    if (!code) {
        char *text = NULL;
        store->db = rocksdb_open_database(store, database, tables, &text);
        if (text) {
            store->db = NULL;
            code = rocksdb_open_failed(store, ret_error, text);
        }
    }
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        if (tables[i])
            rocksdb_options_destroy(tables[i]);
    if (database)
        rocksdb_options_destroy(database);
    return code;
}

enum error_code store_open_to_list(struct rocksdb_store *store)
{
    store->is_listing = true;
    const enum error_code code = rocksdb_open_tables(store, NULL);
    store->is_listing = false;
    return code;
}

/* ---- the format ---- */

/* Reads a number of the meta table; ERROR_NOT_FOUND if there is none. */
static enum error_code rocksdb_open_load_number(struct rocksdb_store *store, struct bytes name,
                                                uint64_t *ret_number, struct error *ret_error)
{
    struct buffer value;

    buffer_init(&value);
    enum error_code code = store_get(store, STORE_META, NULL, name, &value, ret_error);
    if (!code)
        code = record_number_decode(name, buffer_bytes(&value), ret_number, ret_error);
    buffer_deinit(&value);
    return code;
}

/* Returns false if out of memory. */
static bool rocksdb_open_put_number(struct rocksdb_store *store, struct bytes name, uint64_t number)
{
    buffer_clear(&store->scratch);
    record_number_encode(&store->scratch, name, number);
    if (buffer_failed(&store->scratch))
        return false;
    store_batch_put(store->batch, store, STORE_META, name, buffer_bytes(&store->scratch));
    return true;
}

/* Writes the numbers into files. Until then a start repeats this. */
static enum error_code rocksdb_open_write_numbers(struct rocksdb_store *store,
                                                  struct error *ret_error)
{
    enum error_code code = store_write(store, store->batch, ret_error);

    if (!code)
        code = store_flush(store, ret_error);
    if (!code)
        store->format = RECORD_FORMAT;
    return code;
}

/* Writes the format first into a new folder. A folder that lost power earlier has no timers
 * either. */
static enum error_code rocksdb_open_write_format(struct rocksdb_store *store,
                                                 struct error *ret_error)
{
    rocksdb_writebatch_clear(store->batch);
    if (!rocksdb_open_put_number(store, STORE_KEY_FORMAT, RECORD_FORMAT) ||
        !rocksdb_open_put_number(store, STORE_KEY_PARTITIONS, store->partition_count) ||
        !rocksdb_open_put_number(store, STORE_KEY_CORRUPT, 0))
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    return rocksdb_open_write_numbers(store, ret_error);
}

static bool rocksdb_open_make_counts(struct rocksdb_store *store, uint16_t count)
{
    store->counts = calloc((size_t)count + 1, sizeof(*store->counts));
    store->follows = calloc((size_t)count + 1, sizeof(*store->follows));
    store->partition_count = store->counts && store->follows ? count : 0;
    for (size_t i = 0; i < store->partition_count; i++)
        tenant_counts_init(&store->counts[i].tenant_counts);
    return store->counts && store->follows;
}

/* Takes the folder's partition count, for a read-only check. */
static enum error_code rocksdb_open_adopt_partitions(struct rocksdb_store *store, uint64_t count,
                                                     struct error *ret_error)
{
    if (count == 0 || count > UINT16_MAX)
        return error_set(ret_error, ERROR_CORRUPT, "%s has %llu partitions", store->folder,
                         (unsigned long long)count);
    if (store->partition_count == count)
        return ERROR_NONE; /* it is opened again */
    free(store->counts);   /* no partition is known yet */
    free(store->follows);
    return rocksdb_open_make_counts(store, (uint16_t)count)
               ? ERROR_NONE
               : error_set(ret_error, ERROR_NO_MEMORY, "open");
}

static enum error_code rocksdb_open_check_format(struct rocksdb_store *store,
                                                 struct error *ret_error)
{
    enum error_code code =
        rocksdb_open_load_number(store, STORE_KEY_FORMAT, &store->format, ret_error);

    if (code == ERROR_NOT_FOUND && store->is_reader)
        return error_set(ret_error, ERROR_INVALID, "%s is no data folder of tickwheeld",
                         store->folder);
    if (code == ERROR_NOT_FOUND)
        return rocksdb_open_write_format(store, ret_error);
    if (code)
        return code;
    if (store->format != RECORD_FORMAT)
        return folder_refuse_format(store->folder, store->format, ret_error);
    uint64_t partitions, corrupt;
    if ((code = rocksdb_open_load_number(store, STORE_KEY_PARTITIONS, &partitions, ret_error)) ||
        (code = rocksdb_open_load_number(store, STORE_KEY_CORRUPT, &corrupt, ret_error)))
        return code;
    if (!store->options.partition_count)
        code = rocksdb_open_adopt_partitions(store, partitions, ret_error);
    else if (partitions != store->partition_count)
        return error_set(ret_error, ERROR_INVALID,
                         "%s was made with %llu partitions and cannot be opened with %u",
                         store->folder, (unsigned long long)partitions, store->partition_count);
    atomic_store_explicit(&store->corrupt_count, corrupt, memory_order_relaxed);
    return code;
}

/* Loads the trims. Damaged metadata is reported when it is loaded, and counts as missing here: a
 * range that begins too early drops nothing more. */
static enum error_code rocksdb_open_load_trims(struct rocksdb_store *store, struct error *ret_error)
{
    for (uint32_t i = 0; i < store->partition_count; i++) {
        struct storage_meta meta = {0};
        enum error_code code = store_load_meta(store, (uint16_t)i, &meta, ret_error);

        if (code && code != ERROR_CORRUPT)
            return code;
        store->counts[i].trim = meta.trim;
        store->counts[i].pending = meta.pending;
    }
    return ERROR_NONE;
}

/* Loads one record of a tenant's count. CORRUPT if it is damaged. */
static enum error_code rocksdb_open_load_tenant(struct rocksdb_store *store, struct bytes key,
                                                struct bytes value)
{
    if (key.size <= STORE_TENANT_SIZE)
        return ERROR_CORRUPT;
    struct bytes name = {key.data + STORE_TENANT_SIZE, key.size - STORE_TENANT_SIZE};
    uint64_t partition = get_be(key.data + 1, 2);
    uint64_t count;
    if (partition >= store->partition_count || !tenant_is_valid(name) ||
        record_number_decode(key, value, &count, NULL))
        return ERROR_CORRUPT;
    return tenant_counts_add(&store->counts[partition].tenant_counts, name, (int64_t)count)
               ? ERROR_NONE
               : ERROR_NO_MEMORY;
}

/* Counts a live row for its tenant; a damaged row is not counted. */
static enum error_code rocksdb_open_count_row(struct rocksdb_store *store, struct bytes key_text,
                                              struct bytes value)
{
    struct record_key key;
    struct timer view;

    if (!store_row_key_parse(key_text, &key) || record_row_decode(key, value, &view, NULL) ||
        timer_is_final(view.state) || view.id.partition >= store->partition_count)
        return ERROR_NONE;
    return tenant_counts_add(&store->counts[view.id.partition].tenant_counts, view.texts.tenant, 1)
               ? ERROR_NONE
               : ERROR_NO_MEMORY;
}

static void rocksdb_open_clear_tenant_counts(struct rocksdb_store *store)
{
    for (size_t i = 0; i < store->partition_count; i++)
        tenant_counts_clear(&store->counts[i].tenant_counts);
}

/* Walks the keys of a table that begin with the prefix. */
static enum error_code rocksdb_open_walk(
    struct rocksdb_store *store, enum store_table table, struct bytes prefix,
    enum error_code (*visit)(struct rocksdb_store *, struct bytes key, struct bytes value),
    struct error *ret_error)
{
    rocksdb_iterator_t *iterator =
        rocksdb_create_iterator_cf(store->db, store->point_options, store->tables[table]);
    enum error_code code = ERROR_NONE;

    for (rocksdb_iter_seek(iterator, prefix.data, prefix.size);
         !code && rocksdb_iter_valid(iterator); rocksdb_iter_next(iterator)) {
        struct bytes key;

        key.data = rocksdb_iter_key(iterator, &key.size);
        struct bytes value;
        value.data = rocksdb_iter_value(iterator, &value.size);
        if (!bytes_has_prefix(key, prefix))
            break;
        code = visit(store, key, value);
    }
    char *text = NULL;
    rocksdb_iter_get_error(iterator, &text);
    rocksdb_iter_destroy(iterator);
    if (text)
        return store_access_failed(store, ret_error, "read", text);
    return code ? error_set(ret_error, code, "open: the timers of tenants") : ERROR_NONE;
}

/* Loads the counts. If one is damaged, counts all rows again, which is slow. */
static enum error_code rocksdb_open_load_tenant_counts(struct rocksdb_store *store,
                                                       struct error *ret_error)
{
    rocksdb_open_clear_tenant_counts(store);
    enum error_code code = rocksdb_open_walk(store, STORE_META, BYTES(STORE_TENANT_PREFIX),
                                             rocksdb_open_load_tenant, ret_error);
    if (code == ERROR_CORRUPT) {
        rocksdb_open_clear_tenant_counts(store);
        return rocksdb_open_walk(store, STORE_TIMERS, BYTES(""), rocksdb_open_count_row, ret_error);
    }
    for (size_t i = 0; i < store->partition_count; i++)
        while (tenant_counts_take_changed(&store->counts[i].tenant_counts))
            continue; /* the disk has them */
    return code;
}

/* ---- opening ---- */

void store_close_database(struct rocksdb_store *store)
{
    if (!store->db)
        return;
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        rocksdb_column_family_handle_destroy(store->tables[i]);
    rocksdb_close(store->db);
    store->db = NULL;
}

enum error_code store_open_database(struct rocksdb_store *store, struct error *ret_error)
{
    enum error_code code = rocksdb_open_tables(store, ret_error);

    if (!code)
        code = rocksdb_open_check_format(store, ret_error);
    if (!code)
        code = rocksdb_open_load_trims(store, ret_error);
    if (!code)
        code = rocksdb_open_load_tenant_counts(store, ret_error);
    if (!code)
        code = store_follow_load(store, ret_error);
    store->errors_seen = 0;
    if (code)
        store_close_database(store);
    return code;
}

/* A damaged table that the first reads find and that cannot be mended is a damaged folder. */
static enum error_code rocksdb_open_first(struct rocksdb_store *store, struct error *ret_error)
{
    enum error_code code = rocksdb_block_load(store, ret_error);

    if (code)
        return code;
    struct error cause = {.text = ""};
    unsigned mends = 0;
    do
        code = store_open_database(store, &cause);
    while (code && mends++ < TABLES_MENDED_MAX && rocksdb_block_set_aside(store));
    if (!code)
        return ERROR_NONE;
    const char *text = strstr(cause.text, "Corruption");
    if (code == ERROR_IO && text)
        return error_set(ret_error, ERROR_CORRUPT, "%s is damaged; restore a backup. %s",
                         store->folder, text);
    if (code == ERROR_CORRUPT && !text && !strstr(cause.text, "restore a backup"))
        return error_set(ret_error, ERROR_CORRUPT,
                         "%s is damaged; restore a backup. Its format: %s", store->folder,
                         cause.text);
    if (ret_error)
        *ret_error = cause;
    return code;
}

static void rocksdb_open_store_init_locks(struct rocksdb_store *store)
{
    pthread_rwlockattr_t kind;

    /* Prefers writers: a continuous sequence of readers would keep the database from being
     * opened again. */
    pthread_rwlockattr_init(&kind);
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&store->open_lock, &kind);
    pthread_rwlockattr_destroy(&kind);
    pthread_mutex_init(&store->commit_lock, NULL);
    pthread_mutex_init(&store->write_lock, NULL);
    pthread_mutex_init(&store->apply_lock, NULL);
    store_queue_init(&store->queue);
    pthread_mutex_init(&store->block_lock, NULL);
}

static bool rocksdb_open_store_init(struct rocksdb_store *store,
                                    const struct rocksdb_options *options)
{
    store->storage.ops = &store_ops;
    store->folder_lock = -1;
    store->options = *options;
    if (!options->memtable_bytes)
        store->options.memtable_bytes = MEMTABLE_BYTES;
    if (!options->segment_bytes)
        store->options.segment_bytes = SEGMENT_BYTES;
    store->retention.retain_ms = options->retain_ms;
    rocksdb_open_store_init_locks(store);
    buffer_init(&store->scratch);
    store->home = strdup(options->folder);
    store->folder = strdup(options->folder);
    store->cache =
        rocksdb_cache_create_lru(options->cache_bytes ? options->cache_bytes : CACHE_BYTES);
    store->row_filter = store_row_filter_create(&store->retention);
    store->pointer_filter = store_pointer_filter_create(&store->retention);
    store->name_filter = store_name_filter_create(&store->retention);
    store->batch = rocksdb_writebatch_create();
    store->point_options = rocksdb_readoptions_create();
    store->write_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(store->write_options, 1);
    return rocksdb_open_make_counts(store, options->partition_count) && store->home &&
           store->folder;
}

/* Refuses a database without FOLDER and tables of ours: it is another program's, and an open
 * would add tables to it. */
static enum error_code rocksdb_open_check_owner(struct rocksdb_store *store,
                                                struct error *ret_error)
{
    const struct folder_state *state = &store->folder_state;
    rocksdb_options_t *options;
    bool is_ours = store->identity.is_known;
    char *text = NULL;
    size_t count = 0;

    if (!is_ours && !state->is_new) {
        options = rocksdb_options_create();
        char **names = rocksdb_list_column_families(options, store->folder, &count, &text);
        is_ours = text != NULL; /* it is damaged, which the open reports better */
        for (size_t i = 0; i < count; i++)
            is_ours |= strcmp(names[i], store_table_names[STORE_TIMERS]) == 0;
        if (names)
            rocksdb_list_column_families_destroy(names, count);
        rocksdb_free(text);
        rocksdb_options_destroy(options);
        return is_ours ? ERROR_NONE
                       : error_set(ret_error, ERROR_INVALID,
                                   "%.200s holds the database of another program, and is left as "
                                   "it is: set data_folder to an empty folder or a new one",
                                   store->folder);
    }
    if (is_ours || !state->has_strangers)
        return ERROR_NONE;
    return error_set(ret_error, ERROR_INVALID,
                     "%.200s holds other files, such as %s, and is left as it is: set data_folder "
                     "to an empty folder or a new one",
                     store->folder, state->stranger);
}

/* A folder without FOLDER may be of an older format: refuses that before anything changes. */
static enum error_code rocksdb_open_check_older(struct rocksdb_store *store,
                                                struct error *ret_error)
{
    uint64_t format = RECORD_FORMAT;

    if (store->identity.is_known || store->folder_state.is_new || store_open_to_list(store))
        return ERROR_NONE; /* the open reports better what is wrong */
    rocksdb_open_load_number(store, STORE_KEY_FORMAT, &format, NULL);
    store_close_database(store);
    return format == RECORD_FORMAT ? ERROR_NONE
                                   : folder_refuse_format(store->folder, format, ret_error);
}

/* Without FOLDER a log that is there counts as the folder's. */
static void rocksdb_open_take_log(struct rocksdb_store *store)
{
    char path[PATH_MAX];
    const struct log_files_options options = {
        .folder = path, .mode = LOG_FILES_READ, .damage = LOG_FILES_DAMAGE_SKIP};
    struct log_files_stats stats;
    struct log_files *files;
    const int size = snprintf(path, sizeof(path), "%s/" FOLDER_LOG_NAME, store->home);

    if (size >= (int)sizeof(path) || !files_exists(path) || log_files_open(&options, &files, NULL))
        return;
    log_files_get_stats(files, &stats);
    log_files_close(files);
    store->identity.has_log = true;
    memcpy(store->identity.log_id, stats.id, LOG_ID_SIZE);
}

/* Finds what a folder without FOLDER is: a single node's has a log beside the tables. */
static enum error_code rocksdb_open_guess_identity(struct rocksdb_store *store,
                                                   struct error *ret_error)
{
    if (store->identity.is_known || store->folder_state.is_new)
        return ERROR_NONE;
    rocksdb_open_take_log(store);
    if (store->identity.has_log)
        return ERROR_NONE;
    store->identity.cluster = store->options.cluster;
    return store->options.cluster
               ? ERROR_NONE
               : error_set(ret_error, ERROR_INVALID,
                           "%.150s follows the log of a cluster: start it with the cluster_* "
                           "settings of its node",
                           store->home);
}

/* The folder is ours from here on, even if the start is interrupted. */
static enum error_code rocksdb_open_take_folder(struct rocksdb_store *store,
                                                struct error *ret_error)
{
    const enum error_code code = files_make_private(store->folder, ret_error);

    if (code || (store->identity.is_known && !store->folder_state.is_new))
        return code;
    if (store->folder_state.is_new)
        store->identity = (struct folder_identity){.cluster = store->options.cluster};
    store->identity.is_known = true;
    return folder_write_identity(store->folder, &store->identity, ret_error);
}

/* Fits the sizes to the disk, and releases the ballast if opening needs it. */
static enum error_code rocksdb_open_prepare_disk(struct rocksdb_store *store,
                                                 struct error *ret_error)
{
    struct ballast_sizes sizes = {store->options.memtable_bytes, store->options.segment_bytes};
    uint64_t disk_bytes = UINT64_MAX, free_bytes = UINT64_MAX;
    char spare[PATH_MAX];

    if ((size_t)snprintf(spare, sizeof(spare), "%s/" FOLDER_SPARE_NAME, store->home) >=
        sizeof(spare))
        return error_set(ret_error, ERROR_IO, "a path of %zu bytes", strlen(store->home));

    files_disk_bytes(store->home, &disk_bytes, NULL);
    files_free_bytes(store->home, &free_bytes, NULL);
    sizes = ballast_fit(sizes, disk_bytes);
    store->options.memtable_bytes = sizes.memtable_bytes;
    store->options.segment_bytes = sizes.segment_bytes;
    if (!ballast_init(&store->ballast, store->home, sizes))
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    if (free_bytes < ballast_floor(&store->ballast))
        free_bytes += ballast_release(&store->ballast);
    /* The next file of the log can be made again when there is room. */
    if (free_bytes < FREE_BYTES_MIN && !files_remove(spare, NULL))
        files_free_bytes(store->home, &free_bytes, NULL);
    if (free_bytes >= FREE_BYTES_MIN)
        return ERROR_NONE;
    return error_set(ret_error, ERROR_DISK_FULL,
                     "%s: the disk is full: %llu bytes are free, a start needs %d", store->home,
                     (unsigned long long)free_bytes, FREE_BYTES_MIN);
}

/* Makes, locks and examines the folder before RocksDB does. Refuses a damaged folder, or one of
 * others, before anything changes. */
static enum error_code rocksdb_open_prepare_folder(struct rocksdb_store *store,
                                                   struct error *ret_error)
{
    struct folder_state *state = &store->folder_state;
    enum error_code code = files_make_folder(store->folder, ret_error);

    if (!code)
        code =
            files_lock_folder(store->folder, FILES_LOCK_EXCLUSIVE, &store->folder_lock, ret_error);
    if (!code)
        code = folder_identify(store->folder, &store->identity, ret_error);
    if (!code)
        code = folder_look(store->folder, state, ret_error);
    if (!code)
        code = rocksdb_open_check_owner(store, ret_error);
    if (!code)
        code = rocksdb_open_check_older(store, ret_error);
    if (!code)
        code = rocksdb_open_guess_identity(store, ret_error);
    if (!code)
        code = store_follow_check(store, ret_error);
    if (!code && state->has_loss && store->options.damage == ROCKSDB_DAMAGE_REFUSE)
        code = error_set(ret_error, ERROR_CORRUPT,
                         "%s; restore a backup, or set storage_damage = skip to start without what "
                         "it cost",
                         state->loss.text);
    if (!code)
        code = rocksdb_open_prepare_disk(store, ret_error);
    if (!code)
        code = rocksdb_open_take_folder(store, ret_error);
    return code ? code : folder_unseal(store->folder, ret_error);
}

enum error_code rocksdb_storage_use_links(struct storage *storage, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);

    if (store->has_shadow)
        return ERROR_NONE;
    store_close_database(store);
    store->faults = 0;
    const enum error_code code = rocksdb_block_begin_shadow(store, ret_error);
    return code ? code : rocksdb_open_first(store, ret_error);
}

enum error_code store_open_to_read(const char *folder, struct rocksdb_store **ret_store,
                                   struct error *ret_error)
{
    const struct rocksdb_options options = {.folder = folder, .retain_ms = UINT64_MAX};
    struct rocksdb_store *store = calloc(1, sizeof(*store));

    if (!store)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    if (!rocksdb_open_store_init(store, &options)) {
        store_close(store);
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    }
    store->is_reader = true;
    enum error_code code =
        files_lock_folder(folder, FILES_LOCK_SHARED, &store->folder_lock, ret_error);
    if (!code)
        code = folder_identify(folder, &store->identity, ret_error);
    if (!code)
        code = folder_look(folder, &store->folder_state, ret_error);
    if (!code && store->folder_state.is_new)
        code = error_set(ret_error, ERROR_INVALID, "%s is no data folder: there is no database",
                         folder);
    if (!code)
        code = rocksdb_open_check_owner(store, ret_error);
    if (!code) {
        if (!store->identity.is_known)
            rocksdb_open_take_log(store);
        code = rocksdb_open_first(store, ret_error);
        if (code && store->folder_state.has_loss) /* it is the cause */
            code = error_set(ret_error, ERROR_CORRUPT, "%s", store->folder_state.loss.text);
    }
    if (code)
        store_close(store);
    else
        *ret_store = store;
    return code;
}

/* Restores, after a refused start, the mark of the clean stop that it removed: no damage
 * happened since, and the next start must notice later damage. RocksDB may have replaced files. */
static void rocksdb_open_seal_again(struct rocksdb_store *store)
{
    store_close_database(store);
    if (store->folder_state.was_closed)
        folder_seal(store->folder, NULL);
}

enum error_code rocksdb_storage_open(const struct rocksdb_options *options,
                                     struct storage **ret_storage, struct error *ret_error)
{
    struct rocksdb_store *store = calloc(1, sizeof(*store));

    if (!store)
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    enum error_code code = rocksdb_open_store_init(store, options)
                               ? rocksdb_open_prepare_folder(store, ret_error)
                               : error_set(ret_error, ERROR_NO_MEMORY, "open");
    if (!code) {
        code = rocksdb_open_first(store, ret_error);
        if (!code)
            code = store_follow_join(store, ret_error);
        if (!code)
            code = store_queue_start(store, ret_error);
        if (code)
            rocksdb_open_seal_again(store);
    }
    if (code) {
        store_close(store);
        return code;
    }
    *ret_storage = &store->storage;
    return ERROR_NONE;
}

bool store_get_log(const struct storage *storage, uint8_t ret_id[STORAGE_LOG_ID_SIZE])
{
    const struct folder_identity *identity = &((const struct rocksdb_store *)storage)->identity;

    memcpy(ret_id, identity->log_id, LOG_ID_SIZE);
    return identity->has_log;
}

enum error_code store_set_log(struct storage *storage, const uint8_t id[STORAGE_LOG_ID_SIZE],
                              struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);

    store->identity.has_log = true;
    memcpy(store->identity.log_id, id, LOG_ID_SIZE);
    return folder_write_identity(store->home, &store->identity, ret_error);
}
