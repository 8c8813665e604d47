/* rocksdb_call.c - RocksDB's calls, in our terms. */
#include "store/rocksdb_store.h"

const char *const store_table_names[] = {
#define X(id, name) name,
    STORE_TABLE_LIST(X)
#undef X
};

bool store_find_table(const char *name, enum store_table *ret_table)
{
    for (size_t i = 0; i < STORE_TABLE_COUNT; i++)
        if (strcmp(store_table_names[i], name) == 0) {
            *ret_table = (enum store_table)i;
            return true;
        }
    return false;
}

/* ---- failures ---- */

void store_note_damage(struct rocksdb_store *store, const char *text)
{
    if (bytes_has_prefix(bytes_of(text), BYTES("Corruption")))
        atomic_store(&store->is_damage_met, true);
}

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
    store_note_damage(store, text);
    return store_failed(ret_error, what, text);
}

/* ---- records ---- */

static inline struct bytes rocksdb_key_bytes(const struct store_key *key)
{
    return (struct bytes){key->data, key->size};
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

enum error_code store_load_number(struct rocksdb_store *store, struct bytes name,
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

enum error_code store_read_place(struct rocksdb_store *store, uint16_t partition,
                                 const rocksdb_readoptions_t *options,
                                 struct storage_place *ret_place, struct error *ret_error)
{
    const struct store_key key = store_place_key(partition);
    const struct bytes name = rocksdb_key_bytes(&key);
    struct buffer value;

    buffer_init(&value);
    enum error_code code = store_get(store, STORE_META, options, name, &value, ret_error);
    if (!code)
        code = record_place_decode(name, buffer_bytes(&value), ret_place, ret_error);
    else if (code == ERROR_NOT_FOUND) {
        *ret_place = (struct storage_place){0};
        code = ERROR_NONE;
    }
    buffer_deinit(&value);
    return code;
}
