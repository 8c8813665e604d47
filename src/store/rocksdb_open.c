/* rocksdb_open.c - opens the storage of a data folder, and closes it. */
#include "store/rocksdb_store.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* Sizes for a machine with a gigabyte to spare. */
enum {
    CACHE_BYTES = 64 << 20,
    MEMTABLE_BYTES = 32 << 20,
    SEGMENT_BYTES = 16 << 20,
    TABLES_MENDED_MAX = 64, /* maximum of tables mended by one start */
    FREE_BYTES_MIN =
        1 << 20, /* free bytes needed to open: this library aborts if a write fails then */
};

/* ---- the cluster ---- */

/* True if the partition has a row; a damaged block counts as one. */
static bool rocksdb_open_has_rows(struct rocksdb_store *store, uint16_t partition)
{
    const struct store_key from =
        store_row_key(record_row_key(partition, (struct storage_position){0}));
    rocksdb_iterator_t *rows =
        rocksdb_create_iterator_cf(store->db, store->point_options, store->tables[STORE_TIMERS]);
    struct record_key key;
    struct bytes at;
    char *text = NULL;

    rocksdb_iter_seek(rows, from.data, from.size);
    bool has_rows = rocksdb_iter_valid(rows);
    if (has_rows) {
        at.data = rocksdb_iter_key(rows, &at.size);
        has_rows = store_row_key_parse(at, &key) && key.high >> 48 == partition;
    } else {
        rocksdb_iter_get_error(rows, &text);
        has_rows = text != NULL;
        rocksdb_free(text);
    }
    rocksdb_iter_destroy(rows);
    return has_rows;
}

/* Empties the places of partitions without rows, whose log was one of a single node. They are in
 * files before FOLDER names the cluster: no crash leaves a place that its log does not have. */
static enum error_code rocksdb_open_forget_log(struct rocksdb_store *store, struct error *ret_error)
{
    const struct storage_place nothing = {0};
    enum error_code code = ERROR_NONE;

    for (uint32_t i = 0; !code && i < store->partition_count; i++)
        if (store->follows[i].place.next > 0)
            code = store_partition_clear(&store->storage, (uint16_t)i, &nothing, ret_error);
    if (!code)
        code = store_flush(store, ret_error);
    store->identity.has_log = code != ERROR_NONE;
    return code;
}

/* Refuses rows of a single node in a cluster. A folder that passes belongs to the cluster of the
 * options. */
static enum error_code rocksdb_open_join_cluster(struct rocksdb_store *store,
                                                 struct error *ret_error)
{
    const uint64_t cluster = store->options.cluster;

    if (store->identity.cluster == cluster)
        return ERROR_NONE;
    for (uint32_t i = 0; i < store->partition_count; i++)
        if (rocksdb_open_has_rows(store, (uint16_t)i))
            return folder_refuse_single(store->home, ret_error);
    const enum error_code code = rocksdb_open_forget_log(store, ret_error);
    if (code)
        return code;
    store->identity.cluster = cluster;
    return folder_write_identity(store->home, &store->identity, ret_error);
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
    if (is_whole && folder_is_there(store->folder, FOLDER_OF_ROCKSDB, store->folder_lock))
        folder_seal(store->folder, FOLDER_OF_ROCKSDB,
                    NULL); /* without it the next start knows less */
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

/* ---- opening ---- */

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
    return store_make_counts(store, options->partition_count) && store->home && store->folder;
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
    return is_ours ? ERROR_NONE : folder_check_strangers(store->folder, state, ret_error);
}

/* A folder without FOLDER may be of an older format: refuses that before anything changes. */
static enum error_code rocksdb_open_check_older(struct rocksdb_store *store,
                                                struct error *ret_error)
{
    uint64_t format = RECORD_FORMAT;

    if (store->identity.is_known || store->folder_state.is_new || store_open_to_list(store))
        return ERROR_NONE; /* the open reports better what is wrong */
    store_load_number(store, STORE_KEY_FORMAT, &format, NULL);
    store_close_database(store);
    return format == RECORD_FORMAT
               ? ERROR_NONE
               : folder_refuse_format(store->folder, FOLDER_OF_ROCKSDB, format, ret_error);
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
        code = folder_identify(store->folder, FOLDER_OF_ROCKSDB, &store->identity, ret_error);
    if (!code)
        code = folder_look(store->folder, FOLDER_OF_ROCKSDB, state, ret_error);
    if (!code)
        code = rocksdb_open_check_owner(store, ret_error);
    if (!code)
        code = rocksdb_open_check_older(store, ret_error);
    if (!code)
        code = folder_guess_identity(store->home, state, store->options.cluster, &store->identity,
                                     ret_error);
    if (!code)
        code =
            folder_check_cluster(store->home, &store->identity, store->options.cluster, ret_error);
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
        code = folder_identify(folder, FOLDER_OF_ROCKSDB, &store->identity, ret_error);
    if (!code)
        code = folder_look(folder, FOLDER_OF_ROCKSDB, &store->folder_state, ret_error);
    if (!code && store->folder_state.is_new)
        code = error_set(ret_error, ERROR_INVALID, "%s is no data folder: there is no database",
                         folder);
    if (!code)
        code = rocksdb_open_check_owner(store, ret_error);
    if (!code) {
        if (!store->identity.is_known)
            folder_find_log(store->home, &store->identity);
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
        folder_seal(store->folder, FOLDER_OF_ROCKSDB, NULL);
}

enum error_code store_open(const struct rocksdb_options *options, struct rocksdb_store **ret_store,
                           struct error *ret_error)
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
            code = rocksdb_open_join_cluster(store, ret_error);
        if (!code)
            code = store_queue_start(store, store_recover, ret_error);
        if (code)
            rocksdb_open_seal_again(store);
    }
    if (code) {
        store_close(store);
        return code;
    }
    *ret_store = store;
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
