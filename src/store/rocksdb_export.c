/* rocksdb_export.c - copies of a partition's records, and an empty partition, in RocksDB.
 *
 * The key of a name is a hash, so the names of one partition are found by a look at all. A part of
 * an export looks at a bounded number, and so does each write that empties a partition, for other
 * partitions wait for commit_lock meanwhile. */
#include "store/export.h"
#include "store/rocksdb_store.h"
#include "sys/clock.h"

#include <assert.h>

enum {
    CLEAR_LOOKS = 4096,            /* maximum of names examined in one write */
    EXPORT_READAHEAD = 256 * 1024, /* each block is read once */
};

/* Range of keys of a table, from `begin` up to `end`, which is excluded. */
struct rocksdb_export_range {
    struct store_key begin, end;
};

/* Returns the range of a partition's rows or pointers. */
static struct rocksdb_export_range rocksdb_export_range_of(uint64_t partition,
                                                           enum rowop_table table)
{
    if (table == ROWOP_TIMERS)
        return (struct rocksdb_export_range){
            store_row_key((struct record_key){partition << 48, 0}),
            store_row_key((struct record_key){(partition + 1) << 48, 0})};
    if (table == ROWOP_MOVED)
        return (struct rocksdb_export_range){
            store_pointer_key((struct record_key){partition, 0}),
            store_pointer_key((struct record_key){partition + 1, 0})};
    if (table == ROWOP_META) /* ledgers, metas and counts of tenants */
        return (struct rocksdb_export_range){{"o", 1}, {"u", 1}};
    return (struct rocksdb_export_range){{.size = 0}, {.size = 0}}; /* all names */
}

/* `snapshot` NULL means the present tables. */
static rocksdb_readoptions_t *rocksdb_export_options(const struct store_key *end,
                                                     const rocksdb_snapshot_t *snapshot)
{
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();

    rocksdb_readoptions_set_total_order_seek(options, 1);
    rocksdb_readoptions_set_readahead_size(options, EXPORT_READAHEAD);
    rocksdb_readoptions_set_fill_cache(options, 0);
    rocksdb_readoptions_set_snapshot(options, snapshot);
    if (end->size)
        rocksdb_readoptions_set_iterate_upper_bound(options, end->data, end->size);
    return options;
}

static struct bytes rocksdb_export_iter_key(const rocksdb_iterator_t *records)
{
    struct bytes key;

    key.data = rocksdb_iter_key(records, &key.size);
    return key;
}

static struct bytes rocksdb_export_iter_value(const rocksdb_iterator_t *records)
{
    struct bytes value;

    value.data = rocksdb_iter_value(records, &value.size);
    return value;
}

/* Moves to the first record after the key; to the first of all if the key is empty. */
static void rocksdb_export_seek(rocksdb_iterator_t *records, struct bytes begin, struct bytes last)
{
    const struct bytes from = last.size ? last : begin;

    rocksdb_iter_seek(records, from.data, from.size);
    if (last.size && rocksdb_iter_valid(records) &&
        bytes_equal(rocksdb_export_iter_key(records), last))
        rocksdb_iter_next(records);
}

/* ---- copies ---- */

static enum error_code rocksdb_export_table(struct rocksdb_store *store, struct export_part *part,
                                            const rocksdb_snapshot_t *snapshot,
                                            struct error *ret_error)
{
    const enum rowop_table table = export_table(part->export);
    const struct rocksdb_export_range range =
        rocksdb_export_range_of(part->export->partition, table);
    rocksdb_readoptions_t *options = rocksdb_export_options(&range.end, snapshot);
    rocksdb_iterator_t *records =
        rocksdb_create_iterator_cf(store->db, options, store->tables[table]);
    enum error_code code = ERROR_NONE;
    char *text = NULL;

    rocksdb_export_seek(records, (struct bytes){range.begin.data, range.begin.size},
                        export_key(part->export));
    for (; !code && !export_is_full(part) && rocksdb_iter_valid(records);
         rocksdb_iter_next(records))
        code = export_add(part, rocksdb_export_iter_key(records),
                          rocksdb_export_iter_value(records), ret_error);
    rocksdb_iter_get_error(records, &text);
    if (text)
        code = store_access_failed(store, ret_error, "export", text);
    else if (!code && !export_is_full(part))
        export_end_table(part->export);
    rocksdb_iter_destroy(records);
    rocksdb_readoptions_destroy(options);
    return code;
}

static bool rocksdb_export_is_damaged(struct rocksdb_store *store)
{
    pthread_mutex_lock(&store->block_lock);
    const bool has_blocks = store->blocks_aside > 0 || atomic_load(&store->is_damage_met);
    pthread_mutex_unlock(&store->block_lock);
    return has_blocks || atomic_load(&store->corrupt_count) > 0;
}

/* Reads the rows and the place at one moment. */
static enum error_code rocksdb_export_part(struct rocksdb_store *store, struct export_part *part,
                                           struct error *ret_error)
{
    struct storage_export *export = part->export;
    const rocksdb_snapshot_t *snapshot = rocksdb_create_snapshot(store->db);
    rocksdb_readoptions_t *options =
        rocksdb_export_options(&(struct store_key){.size = 0}, snapshot);
    enum error_code code =
        store_read_place(store, export->partition, options, &export->place, ret_error);

    while (!code && !export->is_done && !export_is_full(part))
        code = rocksdb_export_table(store, part, snapshot, ret_error);
    rocksdb_readoptions_destroy(options);
    rocksdb_release_snapshot(store->db, snapshot);
    return code;
}

enum error_code store_export(struct storage *storage, struct storage_export *export,
                             struct buffer *to, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    const struct wall forgotten_before = {
        wall_since((struct wall){store->retention.retain_ms}, wall_now())};
    struct export_part part;

    assert(export->partition < store->partition_count && export->rows_max);
    if (rocksdb_export_is_damaged(store))
        return error_set(ret_error, ERROR_CORRUPT, "records of %s are damaged", store->home);
    enum error_code code = store_enter_partition(store, export->partition, ret_error);
    if (code)
        return code;
    export_begin(&part, export, forgotten_before, to);
    code = rocksdb_export_part(store, &part, ret_error);
    export_end(&part);
    store_leave(store);
    if (!code && buffer_failed(to))
        code = error_set(ret_error, ERROR_NO_MEMORY, "export");
    return code;
}

/* ---- an empty partition ---- */

static void rocksdb_clear_add_range(struct rocksdb_store *store, enum store_table table,
                                    struct bytes begin, struct bytes end)
{
    rocksdb_writebatch_delete_range_cf(store->batch, store->tables[table], begin.data, begin.size,
                                       end.data, end.size);
}

/* Deletes rows, pointers, counts and metadata in one write, with the place. */
static enum error_code rocksdb_clear_write(struct rocksdb_store *store, uint16_t partition,
                                           const struct storage_place *place,
                                           struct error *ret_error)
{
    const struct rocksdb_export_range rows = rocksdb_export_range_of(partition, ROWOP_TIMERS);
    const struct rocksdb_export_range pointers = rocksdb_export_range_of(partition, ROWOP_MOVED);
    const struct store_tenant_key tenants = store_tenant_key(partition, (struct bytes){0});
    const struct store_tenant_key tenants_end =
        store_tenant_key((uint16_t)(partition + 1), (struct bytes){0});
    const struct store_key meta = store_meta_key(partition), at = store_place_key(partition);
    const struct store_key holds = store_note_key(STORAGE_HOLDS, partition);
    const struct store_key ledger = store_note_key(STORAGE_LEDGER, partition);
    const struct bytes name = {at.data, at.size};
    struct buffer value;

    buffer_init(&value);
    record_place_encode(&value, name, place);
    if (buffer_failed(&value))
        return error_set(ret_error, ERROR_NO_MEMORY, "clear");
    pthread_mutex_lock(&store->apply_lock);
    rocksdb_writebatch_clear(store->batch);
    rocksdb_clear_add_range(store, STORE_TIMERS, (struct bytes){rows.begin.data, rows.begin.size},
                            (struct bytes){rows.end.data, rows.end.size});
    rocksdb_clear_add_range(store, STORE_MOVED,
                            (struct bytes){pointers.begin.data, pointers.begin.size},
                            (struct bytes){pointers.end.data, pointers.end.size});
    rocksdb_clear_add_range(store, STORE_META, (struct bytes){tenants.data, tenants.size},
                            (struct bytes){tenants_end.data, tenants_end.size});
    rocksdb_writebatch_delete_cf(store->batch, store->tables[STORE_META], meta.data, meta.size);
    rocksdb_writebatch_delete_cf(store->batch, store->tables[STORE_META], holds.data, holds.size);
    rocksdb_writebatch_delete_cf(store->batch, store->tables[STORE_META], ledger.data, ledger.size);
    if (place->next)
        store_batch_put(store->batch, store, STORE_META, name, buffer_bytes(&value));
    else
        rocksdb_writebatch_delete_cf(store->batch, store->tables[STORE_META], at.data, at.size);
    const enum error_code code = store_write(store, store->batch, ret_error);
    rocksdb_writebatch_clear(store->batch);
    pthread_mutex_unlock(&store->apply_lock);
    buffer_deinit(&value);
    return code;
}

/* Notes that the tables have nothing of the partition. */
static void rocksdb_clear_note(struct rocksdb_store *store, uint16_t partition,
                               const struct storage_place *place)
{
    struct prepare_counts *counts = &store->counts[partition];
    struct store_follow *follow = &store->follows[partition];

    pthread_mutex_lock(&store->write_lock);
    tenant_counts_deinit(&counts->tenant_counts);
    *counts = (struct prepare_counts){.pending = 0};
    tenant_counts_init(&counts->tenant_counts);
    follow->place = *place;
    pthread_mutex_unlock(&store->write_lock);
    atomic_store(&follow->is_rewound, false);
}

static void rocksdb_clear_add_names(struct rocksdb_store *store, uint16_t partition,
                                    rocksdb_iterator_t *names, struct store_key *last)
{
    struct record_key at;
    struct record_name name;

    for (size_t looks = 0; looks < CLEAR_LOOKS && rocksdb_iter_valid(names);
         looks++, rocksdb_iter_next(names)) {
        const struct bytes key = rocksdb_export_iter_key(names);

        if (store_row_key_parse(key, &at) &&
            !record_name_decode(at, rocksdb_export_iter_value(names), &name, NULL) &&
            name.id.partition == partition)
            rocksdb_writebatch_delete_cf(store->batch, store->tables[STORE_NAMES], key.data,
                                         key.size);
        last->size = key.size < sizeof(last->data) ? key.size : sizeof(last->data);
        memcpy(last->data, key.data, last->size);
    }
}

/* Deletes the partition's names after `last`, which becomes the last one examined. */
static enum error_code rocksdb_clear_names(struct rocksdb_store *store, uint16_t partition,
                                           struct store_key *last, bool *ret_is_done,
                                           struct error *ret_error)
{
    rocksdb_readoptions_t *options = rocksdb_export_options(&(struct store_key){.size = 0}, NULL);
    char *text = NULL;

    pthread_mutex_lock(&store->apply_lock);
    rocksdb_writebatch_clear(store->batch);
    rocksdb_iterator_t *names =
        rocksdb_create_iterator_cf(store->db, options, store->tables[STORE_NAMES]);
    rocksdb_export_seek(names, (struct bytes){0}, (struct bytes){last->data, last->size});
    rocksdb_clear_add_names(store, partition, names, last);
    *ret_is_done = !rocksdb_iter_valid(names);
    rocksdb_iter_get_error(names, &text);
    rocksdb_iter_destroy(names);
    rocksdb_readoptions_destroy(options);
    const enum error_code code = text ? store_access_failed(store, ret_error, "clear", text)
                                 : rocksdb_writebatch_count(store->batch)
                                     ? store_write(store, store->batch, ret_error)
                                     : ERROR_NONE;
    rocksdb_writebatch_clear(store->batch);
    pthread_mutex_unlock(&store->apply_lock);
    return code;
}

/* Makes one write: the first deletes all but the names. */
static enum error_code rocksdb_clear_step(struct rocksdb_store *store, uint16_t partition,
                                          const struct storage_place *place, struct store_key *last,
                                          bool *is_done, struct error *ret_error)
{
    enum error_code code = store_begin_write(store, ret_error);

    if (code)
        return code;
    code = store_apply_to(store, store->queue.pushed, ret_error);
    if (!code && place)
        code = rocksdb_clear_write(store, partition, place, ret_error);
    else if (!code)
        code = rocksdb_clear_names(store, partition, last, is_done, ret_error);
    if (!code && place)
        rocksdb_clear_note(store, partition, place);
    if (code)
        store->faults |= STORE_REFUSING | (code == ERROR_DISK_FULL ? STORE_FULL : 0u);
    store_leave(store);
    if (store->faults)
        store_recover(store);
    return code;
}

enum error_code store_partition_clear(struct storage *storage, uint16_t partition,
                                      const struct storage_place *place, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    struct store_key last = {.size = 0};
    enum error_code code = ERROR_NONE;

    assert(partition < store->partition_count);
    for (bool is_begun = false, is_done = false; !code && !is_done; is_begun = true) {
        pthread_mutex_lock(&store->commit_lock);
        code = rocksdb_clear_step(store, partition, is_begun ? NULL : place, &last, &is_done,
                                  ret_error);
        pthread_mutex_unlock(&store->commit_lock);
    }
    return code;
}
