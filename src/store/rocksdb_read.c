/* rocksdb_read.c - scans, lookups and finds, and setting damaged records aside. */
#include "store/page.h"
#include "store/rocksdb_store.h"
#include "sys/clock.h"

#include <assert.h>
#include <stdlib.h>

/* Scans of at least BIG_SCAN_ROWS read ahead, because they read whole files, and leave the cache
 * to single lookups. */
enum {
    BIG_SCAN_ROWS = 256,
    READAHEAD_BYTES = 256 * 1024,
};

/* ---- setting aside ---- */

/* Appends the key of a damaged record in the quarantine: a letter for its table, and its own
 * key, which may have any size if it is damaged too. */
static void rocksdb_read_put_quarantine_key(struct buffer *to, enum store_table table,
                                            struct bytes key)
{
    buffer_append_text(to, table == STORE_TIMERS ? "t" : table == STORE_MOVED ? "m" : "n");
    buffer_append_bytes(to, key);
}

static bool rocksdb_read_is_damaged(enum store_table table, struct bytes key, struct bytes value)
{
    struct record_key at;
    struct timer view;

    if (table == STORE_TIMERS)
        return !store_row_key_parse(key, &at) || record_row_decode(at, value, &view, NULL);
    struct record_name name;
    if (table == STORE_NAMES)
        return !store_row_key_parse(key, &at) || record_name_decode(at, value, &name, NULL);
    struct record_pointer pointer;
    return !store_pointer_key_parse(key, &at) || record_pointer_decode(at, value, &pointer, NULL);
}

/* Moves a damaged record to the quarantine and counts it, in one synced write. If that fails the
 * record stays, and its next reader tries again. The lock keeps a record of the log from
 * replacing it between the check and the deletion. */
static void rocksdb_read_set_aside(struct rocksdb_store *store, enum store_table table,
                                   struct bytes key)
{
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    struct buffer aside;

    buffer_init(&aside);
    struct buffer value;
    buffer_init(&value);
    struct buffer count;
    buffer_init(&count);
    rocksdb_read_put_quarantine_key(&aside, table, key);
    pthread_mutex_lock(&store->apply_lock);
    uint64_t corrupt = atomic_load_explicit(&store->corrupt_count, memory_order_relaxed) + 1;
    record_number_encode(&count, STORE_KEY_CORRUPT, corrupt);
    if (!store_get(store, table, NULL, key, &value, NULL) &&
        rocksdb_read_is_damaged(table, key, buffer_bytes(&value)) && !buffer_failed(&count) &&
        !buffer_failed(&aside)) {
        store_batch_put(batch, store, STORE_QUARANTINE, buffer_bytes(&aside), buffer_bytes(&value));
        store_batch_put(batch, store, STORE_META, STORE_KEY_CORRUPT, buffer_bytes(&count));
        rocksdb_writebatch_delete_cf(batch, store->tables[table], key.data, key.size);
        if (!store_write(store, batch, NULL))
            atomic_store_explicit(&store->corrupt_count, corrupt, memory_order_relaxed);
    }
    pthread_mutex_unlock(&store->apply_lock);
    buffer_deinit(&count);
    buffer_deinit(&value);
    buffer_deinit(&aside);
    rocksdb_writebatch_destroy(batch);
}

static bool rocksdb_read_is_aside(struct rocksdb_store *store, enum store_table table,
                                  struct store_key key)
{
    if (!atomic_load_explicit(&store->corrupt_count, memory_order_relaxed))
        return false;
    struct buffer aside;
    buffer_init(&aside);
    struct buffer value;
    buffer_init(&value);
    rocksdb_read_put_quarantine_key(&aside, table, (struct bytes){key.data, key.size});
    enum error_code code = ERROR_NOT_FOUND;
    if (!buffer_failed(&aside))
        code = store_get(store, STORE_QUARANTINE, NULL, buffer_bytes(&aside), &value, NULL);
    buffer_deinit(&value);
    buffer_deinit(&aside);
    return !code;
}

static bool rocksdb_read_is_row_aside(struct rocksdb_store *store, uint16_t partition,
                                      struct storage_position position)
{
    return rocksdb_read_is_aside(store, STORE_TIMERS,
                                 store_row_key(record_row_key(partition, position)));
}

static bool rocksdb_read_is_pointer_aside(struct rocksdb_store *store, const struct timer_id *id)
{
    return rocksdb_read_is_aside(store, STORE_MOVED,
                                 store_pointer_key(record_pointer_key(id->partition, id->serial)));
}

/* ---- scans ---- */

/* Returns the time before which ended timers count as trimmed; 0 for none. */
static struct wall rocksdb_read_forgotten_before(const struct rocksdb_store *store)
{
    return (struct wall){wall_since((struct wall){store->retention.retain_ms}, wall_now())};
}

static rocksdb_readoptions_t *rocksdb_read_scan_options(const struct storage_scan *scan,
                                                        const struct store_key *end)
{
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();

    rocksdb_readoptions_set_iterate_upper_bound(options, end->data, end->size);
    if (scan->rows_max >= BIG_SCAN_ROWS || scan->looks_max >= BIG_SCAN_ROWS) {
        rocksdb_readoptions_set_readahead_size(options, READAHEAD_BYTES);
        rocksdb_readoptions_set_fill_cache(options, 0);
    }
    return options;
}

static enum error_code rocksdb_read_scan_rows(struct rocksdb_store *store,
                                              struct page_builder *builder,
                                              rocksdb_iterator_t *rows, struct error *ret_error)
{
    for (; !page_builder_is_full(builder) && rocksdb_iter_valid(rows); rocksdb_iter_next(rows)) {
        struct bytes key;

        key.data = rocksdb_iter_key(rows, &key.size);
        struct bytes value;
        value.data = rocksdb_iter_value(rows, &value.size);
        struct record_key at;
        enum error_code code = ERROR_CORRUPT;
        if (store_row_key_parse(key, &at))
            code = page_builder_add(builder, at, value);
        if (code == ERROR_CORRUPT)
            rocksdb_read_set_aside(store, STORE_TIMERS, key);
        else if (code)
            return error_set(ret_error, code, "scan");
    }
    char *text = NULL;
    rocksdb_iter_get_error(rows, &text);
    return text ? store_access_failed(store, ret_error, "scan", text) : ERROR_NONE;
}

static enum error_code rocksdb_read_scan(struct storage *storage, const struct storage_scan *scan,
                                         struct storage_page *ret_page, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    const struct store_key begin = store_row_key(record_row_key(scan->partition, scan->from));
    const bool has_end = scan->kind == STORAGE_SCAN_LIVE && scan->to.at.ms > STORAGE_DEAD_FROM.ms;
    const struct storage_position to =
        has_end ? (struct storage_position){STORAGE_DEAD_FROM, 0} : scan->to;
    const struct store_key end = store_row_key(record_row_key(scan->partition, to));

    assert(scan->partition < store->partition_count && scan->rows_max);
    struct page_builder builder;
    page_builder_init(&builder, scan, rocksdb_read_forgotten_before(store));
    if (memcmp(begin.data, end.data, begin.size) >= 0) {
        page_builder_finish(&builder, ret_page);
        return ERROR_NONE;
    }
    enum error_code code;
    if ((code = store_enter_partition(store, scan->partition, ret_error))) {
        page_builder_drop(&builder);
        return code;
    }
    rocksdb_readoptions_t *options = rocksdb_read_scan_options(scan, &end);
    rocksdb_iterator_t *rows =
        rocksdb_create_iterator_cf(store->db, options, store->tables[STORE_TIMERS]);
    rocksdb_iter_seek(rows, begin.data, begin.size);
    code = rocksdb_read_scan_rows(store, &builder, rows, ret_error);
    rocksdb_iter_destroy(rows);
    rocksdb_readoptions_destroy(options);
    store_leave(store);
    if (code)
        page_builder_drop(&builder);
    else
        page_builder_finish(&builder, ret_page);
    return code;
}

enum error_code store_scan(struct storage *storage, const struct storage_scan *scan,
                           struct storage_page *ret_page, struct error *ret_error)
{
    enum error_code code;
    unsigned repeats = 0;

    do
        code = rocksdb_read_scan(storage, scan, ret_page, ret_error);
    while (store_can_repeat(store_of(storage), code, &repeats));
    return code;
}

/* ---- finding one ---- */

/* Reads the row at `at` and makes a timer of it. */
static enum error_code rocksdb_read_find_row(struct rocksdb_store *store,
                                             const rocksdb_readoptions_t *options, struct wall at,
                                             const struct timer_id *id, struct timer **ret_timer,
                                             struct error *ret_error)
{
    const struct record_key key =
        record_row_key(id->partition, (struct storage_position){at, id->serial});
    const struct store_key bytes = store_row_key(key);
    struct buffer value;

    buffer_init(&value);
    enum error_code code = store_get(store, STORE_TIMERS, options,
                                     (struct bytes){bytes.data, bytes.size}, &value, ret_error);
    struct timer view;
    if (!code)
        code = record_row_decode(key, buffer_bytes(&value), &view, ret_error);
    if (code == ERROR_CORRUPT)
        rocksdb_read_set_aside(store, STORE_TIMERS, (struct bytes){bytes.data, bytes.size});
    else if (!code &&
             (!timer_id_equal(&view.id, id) || store_is_row_forgotten(&store->retention, &view)))
        code = ERROR_NOT_FOUND;
    struct timer *timer = NULL;
    if (!code) {
        timer = timer_copy(&view, &view.texts);
        code = timer ? ERROR_NONE : error_set(ret_error, ERROR_NO_MEMORY, "find");
    }
    buffer_deinit(&value);
    if (code)
        return code;
    *ret_timer = timer;
    return ERROR_NONE;
}

static enum error_code rocksdb_read_find_pointer(struct rocksdb_store *store,
                                                 const rocksdb_readoptions_t *options,
                                                 const struct timer_id *id,
                                                 struct record_pointer *ret_pointer,
                                                 struct error *ret_error)
{
    const struct record_key key = record_pointer_key(id->partition, id->serial);
    const struct store_key bytes = store_pointer_key(key);
    struct buffer value;

    buffer_init(&value);
    enum error_code code = store_get(store, STORE_MOVED, options,
                                     (struct bytes){bytes.data, bytes.size}, &value, ret_error);
    if (!code)
        code = record_pointer_decode(key, buffer_bytes(&value), ret_pointer, ret_error);
    if (code == ERROR_CORRUPT)
        rocksdb_read_set_aside(store, STORE_MOVED, (struct bytes){bytes.data, bytes.size});
    buffer_deinit(&value);
    return code;
}

/* Looks up the pointer and its row at one moment. */
static enum error_code rocksdb_read_find_moved(struct rocksdb_store *store,
                                               const rocksdb_readoptions_t *options,
                                               const struct timer_id *id, struct timer **ret_timer,
                                               struct error *ret_error)
{
    const struct storage_position home = {id->first, id->serial};
    enum error_code code =
        rocksdb_read_find_row(store, options, id->first, id, ret_timer, ret_error);

    if (code != ERROR_NOT_FOUND)
        return code;
    struct record_pointer pointer;
    code = rocksdb_read_find_pointer(store, options, id, &pointer, ret_error);
    bool was_aside;
    if (!code) {
        const struct storage_position there = {pointer.at, id->serial};

        code = rocksdb_read_find_row(store, options, pointer.at, id, ret_timer, ret_error);
        was_aside =
            code == ERROR_NOT_FOUND && rocksdb_read_is_row_aside(store, id->partition, there);
    } else {
        was_aside =
            code == ERROR_NOT_FOUND && (rocksdb_read_is_row_aside(store, id->partition, home) ||
                                        rocksdb_read_is_pointer_aside(store, id));
    }
    return was_aside ? error_set(ret_error, ERROR_CORRUPT, "the record was set aside") : code;
}

static enum error_code rocksdb_read_find_anywhere(struct rocksdb_store *store,
                                                  const struct timer_id *id,
                                                  struct timer **ret_timer, struct error *ret_error)
{
    enum error_code code = rocksdb_read_find_row(store, NULL, id->first, id, ret_timer, ret_error);

    if (code != ERROR_NOT_FOUND)
        return code;
    /* It moved, or never existed. A commit that moves it between two looks must not hide it, so
     * the second look uses one snapshot. */
    const rocksdb_snapshot_t *snapshot = rocksdb_create_snapshot(store->db);
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_snapshot(options, snapshot);
    code = rocksdb_read_find_moved(store, options, id, ret_timer, ret_error);
    rocksdb_readoptions_destroy(options);
    rocksdb_release_snapshot(store->db, snapshot);
    return code;
}

enum error_code store_find(struct storage *storage, const struct timer_id *id,
                           struct timer **ret_timer, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);

    if (id->partition >= store->partition_count)
        return error_set(ret_error, ERROR_NOT_FOUND, "there is no partition %u", id->partition);
    enum error_code code;
    unsigned repeats = 0;
    do {
        if ((code = store_enter_partition(store, id->partition, ret_error)))
            return code;
        code = rocksdb_read_find_anywhere(store, id, ret_timer, ret_error);
        store_leave(store);
    } while (store_can_repeat(store, code, &repeats));
    return code == ERROR_NOT_FOUND ? error_set(ret_error, ERROR_NOT_FOUND, "there is no such timer")
                                   : code;
}

/* ---- names ---- */

/* Appends the ids of the entries from the iterator's position on. */
static enum error_code rocksdb_read_names(struct rocksdb_store *store,
                                          const struct storage_lookup *lookup,
                                          rocksdb_iterator_t *entries, struct storage_names *names,
                                          struct error *ret_error)
{
    for (; names->count < lookup->count_max && rocksdb_iter_valid(entries);
         rocksdb_iter_next(entries)) {
        struct bytes key;

        key.data = rocksdb_iter_key(entries, &key.size);
        struct bytes value;
        value.data = rocksdb_iter_value(entries, &value.size);
        struct record_key at;
        struct record_name name;
        if (!store_row_key_parse(key, &at) || record_name_decode(at, value, &name, NULL))
            rocksdb_read_set_aside(store, STORE_NAMES, key);
        else if (name.id.partition == lookup->partition &&
                 !(name.ended.ms && store_is_forgotten(&store->retention, name.ended)))
            names->ids[names->count++] = name.id;
    }
    char *text = NULL;
    rocksdb_iter_get_error(entries, &text);
    return text ? store_access_failed(store, ret_error, "lookup", text) : ERROR_NONE;
}

static enum error_code rocksdb_read_lookup(struct storage *storage,
                                           const struct storage_lookup *lookup,
                                           struct storage_names *ret_names, struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    const bool is_all = lookup->serial_below == UINT64_MAX;
    const struct store_key begin =
        store_row_key(record_name_key(lookup->name, lookup->serial_below - !is_all));
    const struct store_key last = store_row_key(record_name_key(lookup->name, 0));
    struct storage_names names = {malloc(lookup->count_max * sizeof(*names.ids)), 0};

    assert(lookup->partition < store->partition_count && lookup->count_max);
    if (!names.ids)
        return error_set(ret_error, ERROR_NO_MEMORY, "lookup");
    enum error_code code;
    if ((code = store_enter_partition(store, lookup->partition, ret_error))) {
        free(names.ids);
        return code;
    }
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_prefix_same_as_start(options, 1);
    /* No serial is 0, so the upper bound is never the key of an entry. */
    rocksdb_readoptions_set_iterate_upper_bound(options, last.data, last.size);
    rocksdb_iterator_t *entries =
        rocksdb_create_iterator_cf(store->db, options, store->tables[STORE_NAMES]);
    rocksdb_iter_seek(entries, begin.data, begin.size);
    code = rocksdb_read_names(store, lookup, entries, &names, ret_error);
    rocksdb_iter_destroy(entries);
    rocksdb_readoptions_destroy(options);
    store_leave(store);
    if (code)
        free(names.ids);
    else
        *ret_names = names;
    return code;
}

enum error_code store_lookup(struct storage *storage, const struct storage_lookup *lookup,
                             struct storage_names *ret_names, struct error *ret_error)
{
    enum error_code code;
    unsigned repeats = 0;

    do
        code = rocksdb_read_lookup(storage, lookup, ret_names, ret_error);
    while (store_can_repeat(store_of(storage), code, &repeats));
    return code;
}
