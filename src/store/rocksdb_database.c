/* rocksdb_database.c - the options of RocksDB, its tables and their format. */
#include "store/rocksdb_store.h"

#include <stdlib.h>

/* Sizes for a machine with a gigabyte to spare. */
enum {
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
    BACKGROUND_JOBS = STORE_MERGES + 1, /* one flushes, the others merge */
    FILTER_BITS = 10,
    NAME_HASH_SIZE = 8, /* size of the hash at the front of a name's key */
    EVENT_LOG_BYTES = 1 << 20,
    EVENT_LOG_COUNT = 3,
    EVENT_LOG_FATAL = 4,
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

/* ---- options ---- */

static void rocksdb_database_set_blocks(rocksdb_options_t *options, rocksdb_cache_t *cache,
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
static void rocksdb_database_set_levels(rocksdb_options_t *options)
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
static rocksdb_options_t *rocksdb_database_options_of(const char *text, struct error *ret_error)
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

static rocksdb_options_t *rocksdb_database_table_options(const struct rocksdb_store *store,
                                                         enum store_table table,
                                                         struct error *ret_error)
{
    rocksdb_options_t *options = rocksdb_database_options_of(table_text, ret_error);
    size_t memtable_bytes = store->options.memtable_bytes;

    if (!options)
        return NULL;
    rocksdb_options_set_write_buffer_size(options, SMALL_MEMTABLE_BYTES);
    rocksdb_database_set_blocks(options, store->cache,
                                table != STORE_META && table != STORE_QUARANTINE);
    rocksdb_database_set_levels(options);
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

static rocksdb_options_t *rocksdb_database_options(const struct rocksdb_store *store,
                                                   struct error *ret_error)
{
    const bool has_anonymous = store->has_anonymous;
    rocksdb_options_t *options = rocksdb_database_options_of(
        has_anonymous ? DATABASE_TEXT ANONYMOUS_TEXT UNCOUNTED_TEXT : DATABASE_TEXT UNCOUNTED_TEXT,
        NULL);

    if (!options) /* older versions neither know the option nor compare */
        options = rocksdb_database_options_of(
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

/* ---- the tables ---- */

/* Refuses unknown tables, which belong to a newer version. A folder without a database has none. */
static enum error_code rocksdb_database_check_tables(const rocksdb_options_t *options,
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

static enum error_code rocksdb_database_failed(struct rocksdb_store *store, struct error *ret_error,
                                               char *text)
{
    const char *folder = store->folder;

    store_note_damage(store, text);
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

static rocksdb_t *rocksdb_database_open(struct rocksdb_store *store,
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

static enum error_code rocksdb_database_open_tables(struct rocksdb_store *store,
                                                    struct error *ret_error)
{
    rocksdb_options_t *database = rocksdb_database_options(store, ret_error),
                      *tables[STORE_TABLE_COUNT];
    enum error_code code =
        database ? rocksdb_database_check_tables(database, store->folder, ret_error) : ERROR_IO;

    for (size_t i = 0; i < STORE_TABLE_COUNT; i++) {
        tables[i] = rocksdb_database_table_options(store, (enum store_table)i, ret_error);
        if (!tables[i])
            code = ERROR_IO;
    }
    if (!code) {
        char *text = NULL;
        store->db = rocksdb_database_open(store, database, tables, &text);
        if (text) {
            store->db = NULL;
            code = rocksdb_database_failed(store, ret_error, text);
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
    const enum error_code code = rocksdb_database_open_tables(store, NULL);
    store->is_listing = false;
    return code;
}

/* ---- the format ---- */

/* Returns false if out of memory. */
static bool rocksdb_database_put_number(struct rocksdb_store *store, struct bytes name,
                                        uint64_t number)
{
    buffer_clear(&store->scratch);
    record_number_encode(&store->scratch, name, number);
    if (buffer_failed(&store->scratch))
        return false;
    store_batch_put(store->batch, store, STORE_META, name, buffer_bytes(&store->scratch));
    return true;
}

/* Writes the numbers into files. Until then a start repeats this. */
static enum error_code rocksdb_database_write_numbers(struct rocksdb_store *store,
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
static enum error_code rocksdb_database_write_format(struct rocksdb_store *store,
                                                     struct error *ret_error)
{
    rocksdb_writebatch_clear(store->batch);
    if (!rocksdb_database_put_number(store, STORE_KEY_FORMAT, RECORD_FORMAT) ||
        !rocksdb_database_put_number(store, STORE_KEY_PARTITIONS, store->partition_count) ||
        !rocksdb_database_put_number(store, STORE_KEY_CORRUPT, 0))
        return error_set(ret_error, ERROR_NO_MEMORY, "open");
    return rocksdb_database_write_numbers(store, ret_error);
}

bool store_make_counts(struct rocksdb_store *store, uint16_t count)
{
    store->counts = calloc((size_t)count + 1, sizeof(*store->counts));
    store->follows = calloc((size_t)count + 1, sizeof(*store->follows));
    store->partition_count = store->counts && store->follows ? count : 0;
    for (size_t i = 0; i < store->partition_count; i++)
        tenant_counts_init(&store->counts[i].tenant_counts);
    return store->counts && store->follows;
}

/* Takes the folder's partition count, for a read-only check. */
static enum error_code rocksdb_database_adopt_partitions(struct rocksdb_store *store,
                                                         uint64_t count, struct error *ret_error)
{
    if (count == 0 || count > UINT16_MAX)
        return error_set(ret_error, ERROR_CORRUPT, "%s has %llu partitions", store->folder,
                         (unsigned long long)count);
    if (store->partition_count == count)
        return ERROR_NONE; /* it is opened again */
    free(store->counts);   /* no partition is known yet */
    free(store->follows);
    return store_make_counts(store, (uint16_t)count)
               ? ERROR_NONE
               : error_set(ret_error, ERROR_NO_MEMORY, "open");
}

static enum error_code rocksdb_database_check_format(struct rocksdb_store *store,
                                                     struct error *ret_error)
{
    enum error_code code = store_load_number(store, STORE_KEY_FORMAT, &store->format, ret_error);

    if (code == ERROR_NOT_FOUND && store->is_reader)
        return error_set(ret_error, ERROR_INVALID, "%s is no data folder of tickwheeld",
                         store->folder);
    if (code == ERROR_NOT_FOUND)
        return rocksdb_database_write_format(store, ret_error);
    if (code)
        return code;
    if (store->format != RECORD_FORMAT)
        return folder_refuse_format(store->folder, FOLDER_OF_ROCKSDB, store->format, ret_error);
    uint64_t partitions, corrupt;
    if ((code = store_load_number(store, STORE_KEY_PARTITIONS, &partitions, ret_error)) ||
        (code = store_load_number(store, STORE_KEY_CORRUPT, &corrupt, ret_error)))
        return code;
    if (!store->options.partition_count)
        code = rocksdb_database_adopt_partitions(store, partitions, ret_error);
    else if (partitions != store->partition_count)
        return error_set(ret_error, ERROR_INVALID,
                         "%s was made with %llu partitions and cannot be opened with %u",
                         store->folder, (unsigned long long)partitions, store->partition_count);
    atomic_store_explicit(&store->corrupt_count, corrupt, memory_order_relaxed);
    return code;
}

/* Loads the trims. Damaged metadata is reported when it is loaded, and counts as missing here: a
 * range that begins too early drops nothing more. */
static enum error_code rocksdb_database_load_trims(struct rocksdb_store *store,
                                                   struct error *ret_error)
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
static enum error_code rocksdb_database_load_tenant(struct rocksdb_store *store, struct bytes key,
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
static enum error_code rocksdb_database_count_row(struct rocksdb_store *store,
                                                  struct bytes key_text, struct bytes value)
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

static void rocksdb_database_clear_tenant_counts(struct rocksdb_store *store)
{
    for (size_t i = 0; i < store->partition_count; i++)
        tenant_counts_clear(&store->counts[i].tenant_counts);
}

/* Walks the keys of a table that begin with the prefix. */
static enum error_code rocksdb_database_walk(
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
static enum error_code rocksdb_database_load_tenant_counts(struct rocksdb_store *store,
                                                           struct error *ret_error)
{
    rocksdb_database_clear_tenant_counts(store);
    enum error_code code = rocksdb_database_walk(store, STORE_META, BYTES(STORE_TENANT_PREFIX),
                                                 rocksdb_database_load_tenant, ret_error);
    if (code == ERROR_CORRUPT) {
        rocksdb_database_clear_tenant_counts(store);
        return rocksdb_database_walk(store, STORE_TIMERS, BYTES(""), rocksdb_database_count_row,
                                     ret_error);
    }
    for (size_t i = 0; i < store->partition_count; i++)
        while (tenant_counts_take_changed(&store->counts[i].tenant_counts))
            continue; /* the disk has them */
    return code;
}

/* Before the first open all places are 0, so none is rewound. */
static enum error_code rocksdb_database_load_places(struct rocksdb_store *store,
                                                    struct error *ret_error)
{
    for (uint32_t i = 0; i < store->partition_count; i++) {
        struct store_follow *follow = &store->follows[i];
        struct storage_place place;
        const enum error_code code = store_read_place(store, (uint16_t)i, NULL, &place, ret_error);

        if (code)
            return code;
        if (place.next < follow->place.next)
            atomic_store(&follow->is_rewound, true);
        follow->place = place;
    }
    return ERROR_NONE;
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
    enum error_code code = rocksdb_database_open_tables(store, ret_error);

    if (!code)
        code = rocksdb_database_check_format(store, ret_error);
    if (!code)
        code = rocksdb_database_load_trims(store, ret_error);
    if (!code)
        code = rocksdb_database_load_tenant_counts(store, ret_error);
    if (!code)
        code = rocksdb_database_load_places(store, ret_error);
    store->errors_seen = 0;
    if (code)
        store_close_database(store);
    return code;
}

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
