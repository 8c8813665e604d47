/* rocksdb_check.c - looks through a whole data folder.
 *
 * Each table is read once from end to end, past the cache. */
#include "store/rocksdb_check.h"

#include "store/rocksdb_store.h"
#include "sys/files.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { READAHEAD_BYTES = 1 << 20 };

struct rocksdb_checker {
    struct storage_checker checker;
    struct rocksdb_store *store;
};

static enum error_code rocksdb_check_get(void *context, enum rowop_table table, struct bytes key,
                                         struct buffer *to)
{
    static const enum store_table tables[] = {[ROWOP_META] = STORE_META,
                                              [ROWOP_TIMERS] = STORE_TIMERS,
                                              [ROWOP_MOVED] = STORE_MOVED,
                                              [ROWOP_NAMES] = STORE_NAMES};

    return store_get(context, tables[table], NULL, key, to, NULL);
}

/* Looks at a record of the meta table that belongs to no partition. Returns false if it is none. */
static bool rocksdb_check_number(struct rocksdb_checker *checker, struct bytes key,
                                 struct bytes value)
{
    const struct bytes numbers[] = {STORE_KEY_FORMAT, STORE_KEY_PARTITIONS, STORE_KEY_CORRUPT};
    struct error error;
    uint64_t number;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (bytes_equal(key, numbers[i])) {
            if (record_number_decode(key, value, &number, &error))
                storage_checker_find(&checker->checker, "default: %.*s: %s", (int)key.size,
                                     key.data, error.text);
            return true;
        }
    return false;
}

/* Looks at a record that was set aside: a letter for its table, then its key. */
static void rocksdb_check_set_aside(struct rocksdb_checker *checker, struct bytes key)
{
    const bool is_row = key.size == 1 + RECORD_ROW_SIZE && key.data[0] == 't';

    if (is_row)
        key = (struct bytes){key.data + 1, key.size - 1};
    storage_checker_look_set_aside(&checker->checker, is_row ? ROWOP_TIMERS : ROWOP_META, key);
}

static void rocksdb_check_look(struct rocksdb_checker *checker, enum store_table table,
                               struct bytes key, struct bytes value)
{
    switch (table) {
    case STORE_QUARANTINE:
        rocksdb_check_set_aside(checker, key);
        break;
    case STORE_META:
        if (!rocksdb_check_number(checker, key, value))
            storage_checker_look(&checker->checker, ROWOP_META, key, value);
        break;
    default:
        storage_checker_look(&checker->checker,
                             table == STORE_TIMERS  ? ROWOP_TIMERS
                             : table == STORE_MOVED ? ROWOP_MOVED
                                                    : ROWOP_NAMES,
                             key, value);
    }
}

static bool rocksdb_check_is_at(const rocksdb_iterator_t *records, const struct store_key *key)
{
    size_t size;
    const char *data = rocksdb_iter_key(records, &size);

    return key->size &&
           bytes_equal((struct bytes){data, size}, (struct bytes){key->data, key->size});
}

/* Reads the records after `key`, which becomes the last one read. Returns false if a block
 * cannot be read. */
static bool rocksdb_check_walk_on(struct rocksdb_checker *checker, enum store_table table,
                                  struct store_key *key)
{
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();

    rocksdb_readoptions_set_readahead_size(options, READAHEAD_BYTES);
    rocksdb_readoptions_set_fill_cache(options, 0);
    rocksdb_readoptions_set_verify_checksums(options, 1);
    rocksdb_readoptions_set_total_order_seek(options, 1);
    rocksdb_iterator_t *records =
        rocksdb_create_iterator_cf(checker->store->db, options, checker->store->tables[table]);
    rocksdb_iter_seek(records, key->data, key->size);
    if (rocksdb_iter_valid(records) && rocksdb_check_is_at(records, key))
        rocksdb_iter_next(records);
    for (; rocksdb_iter_valid(records); rocksdb_iter_next(records)) {
        struct bytes at;

        at.data = rocksdb_iter_key(records, &at.size);
        struct bytes value;
        value.data = rocksdb_iter_value(records, &value.size);
        if (at.size <= sizeof(key->data)) {
            memcpy(key->data, at.data, at.size);
            key->size = at.size;
        }
        rocksdb_check_look(checker, table, at, value);
    }
    char *text = NULL;
    rocksdb_iter_get_error(records, &text);
    if (text) {
        storage_checker_find(&checker->checker, "%s: a block cannot be read: %s",
                             store_table_names[table], text);
        store_note_damage(checker->store, text);
    }
    rocksdb_iter_destroy(records);
    rocksdb_readoptions_destroy(options);
    rocksdb_free(text);
    return !text;
}

/* Walks a table, and continues after each unreadable block in a mended copy. */
static void rocksdb_check_walk(struct rocksdb_checker *checker, enum store_table table)
{
    struct store_key key = {.size = 0};

    while (!rocksdb_check_walk_on(checker, table, &key)) {
        checker->checker.check->blocks_unread++;
        if (!rocksdb_block_set_aside(checker->store))
            return;
    }
}

/* Verifies the tables, because a walk does not read filters. */
static void rocksdb_check_tables(struct rocksdb_checker *checker)
{
    const rocksdb_livefiles_t *files = rocksdb_livefiles(checker->store->db);
    struct buffer table;

    buffer_init(&table);
    for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
        char path[PATH_MAX];
        const char *name = rocksdb_livefiles_name(files, i);

        snprintf(path, sizeof(path), "%s/%s", checker->store->folder, name + (*name == '/'));
        buffer_clear(&table);
        if (files_read_regular(path, TABLEFILE_BYTES_MAX, &table, NULL) || buffer_failed(&table) ||
            !tablefile_is_sound(table.data, table.size)) {
            checker->checker.check->blocks_unread++;
            storage_checker_find(&checker->checker, "%s: a block is damaged",
                                 name + (*name == '/'));
        }
    }
    buffer_deinit(&table);
    rocksdb_livefiles_destroy(files);
}

static void rocksdb_check_all(struct rocksdb_checker *checker)
{
    const struct folder_state *state = &checker->store->folder_state;

    if (state->has_loss)
        storage_checker_find(&checker->checker, "%s", state->loss.text);
    if (checker->store->has_mended) /* it could not be opened otherwise */
        storage_checker_find(&checker->checker, "%s", checker->store->block_found);
    else if (checker->store->block_records)
        storage_checker_find(&checker->checker,
                             FOLDER_DAMAGED_NAME ": %" PRIu64 " blocks of tables, about %" PRIu64
                                                 " records, were set aside",
                             checker->store->blocks_aside, checker->store->block_records);
    storage_checker_load_metas(&checker->checker, &checker->store->storage);
    rocksdb_check_walk(checker, STORE_META);
    rocksdb_check_walk(checker, STORE_QUARANTINE);
    rocksdb_check_walk(checker, STORE_TIMERS);
    rocksdb_check_walk(checker, STORE_MOVED);
    rocksdb_check_walk(checker, STORE_NAMES);
    rocksdb_check_tables(checker);
}

enum error_code rocksdb_check(struct storage *storage, struct storage_check *check,
                              struct error *ret_error)
{
    struct rocksdb_store *store = store_of(storage);
    struct rocksdb_checker checker = {
        .checker = {.check = check, .get = rocksdb_check_get, .context = store}, .store = store};
    enum error_code code = store_enter(store, ret_error);

    if (code)
        return code;
    store_leave(store);
    check->format = store->format;
    check->disk_bytes = store->folder_state.bytes;
    check->was_closed = store->folder_state.was_closed;
    check->partition_count = store->partition_count;
    if (storage_checker_begin(&checker.checker))
        rocksdb_check_all(&checker);
    return storage_checker_end(&checker.checker, ret_error);
}
