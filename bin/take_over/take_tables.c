/* take_tables.c - all that knows RocksDB. */
#include "take_tables.h"

#include "store/record.h"
#include "store/store_key.h"

#include <rocksdb/c.h>
#include <stdlib.h>

enum {
    TAKE_CACHE_BYTES = 32 << 20, /* cache of indexes; without it all of them are in memory */
    TAKE_OPEN_FILES = 256,
    TAKE_READ_AHEAD = 1 << 20,
};

/* Names of the column families, by enum take_table. */
static const char *const take_names[TAKE_TABLE_COUNT] = {"default", "timers", "moved", "names",
                                                         "quarantine"};

#define TAKE_ANONYMOUS "verify_sst_unique_id_in_manifest=false"

struct take_tables {
    char *folder;
    rocksdb_t *db; /* NULL if it is not open */
    rocksdb_column_family_handle_t *handles[TAKE_TABLE_COUNT];
    rocksdb_options_t *database;
    rocksdb_options_t *options[TAKE_TABLE_COUNT];
    rocksdb_cache_t *cache;
};

/* Makes an error of RocksDB's text, and frees the text. */
static enum error_code take_tables_failed(const struct take_tables *tables, char *text,
                                          struct error *ret_error)
{
    enum error_code code = ERROR_IO;

    if (strstr(text, "Corruption") || strstr(text, "No such file") ||
        strstr(text, "Column family not found"))
        code = error_set(ret_error, ERROR_CORRUPT, "%.60s is damaged, and " TAKE_ADVICE ": %.60s",
                         tables->folder, text);
    else
        error_set(ret_error, code, "%.60s: %.180s", tables->folder, text);
    rocksdb_free(text);
    return code;
}

/* ---- touches, which are beside their rows as merge operands ---- */

/* Returns memory of RocksDB's with the bytes; NULL if there is none. */
static char *take_touch_give(struct buffer *result, unsigned char *ret_success, size_t *ret_size)
{
    char *data = buffer_failed(result) ? NULL : malloc(result->size + 1);

    if (data && result->size)
        memcpy(data, result->data, result->size);
    *ret_success = data != NULL;
    *ret_size = data ? result->size : 0;
    buffer_deinit(result);
    return data;
}

/* The newest touch replaces all earlier ones. */
static char *take_touch_row(void *state, const char *key, size_t key_size, const char *row,
                            size_t row_size, const char *const *touches, const size_t *touch_sizes,
                            int touch_count, unsigned char *ret_success, size_t *ret_size)
{
    const struct bytes touch = {touches[touch_count - 1], touch_sizes[touch_count - 1]};
    struct record_key at;
    struct buffer result;

    (void)state;
    buffer_init(&result);
    if (store_row_key_parse((struct bytes){key, key_size}, &at))
        record_touch_apply(&result, at, (struct bytes){row, row ? row_size : 0}, touch);
    return take_touch_give(&result, ret_success, ret_size);
}

static char *take_touch_touches(void *state, const char *key, size_t key_size,
                                const char *const *touches, const size_t *touch_sizes,
                                int touch_count, unsigned char *ret_success, size_t *ret_size)
{
    struct buffer result;

    (void)state, (void)key, (void)key_size;
    buffer_init(&result);
    buffer_append(&result, touches[touch_count - 1], touch_sizes[touch_count - 1]);
    return take_touch_give(&result, ret_success, ret_size);
}

static void take_touch_take_back(void *state, const char *value, size_t size)
{
    (void)state, (void)size;
    free((char *)(uintptr_t)value);
}

static void take_touch_end(void *state)
{
    (void)state;
}

static const char *take_touch_name(void *state)
{
    (void)state;
    return "tickwheel.touch"; /* the name in the files */
}

/* ---- opening ---- */

static void take_tables_set_options(struct take_tables *tables, enum take_tables_state state)
{
    rocksdb_options_t *base = rocksdb_options_create();
    rocksdb_block_based_table_options_t *blocks = rocksdb_block_based_options_create();
    char *refusal = NULL;

    tables->cache = rocksdb_cache_create_lru(TAKE_CACHE_BYTES);
    tables->database = rocksdb_options_create();
    if (state ==
        TAKE_TABLES_MENDED) /* an older library does not know this option, and compares no ids */
        rocksdb_get_options_from_string(base, TAKE_ANONYMOUS, tables->database, &refusal);
    rocksdb_free(refusal);
    rocksdb_options_destroy(base);
    rocksdb_options_set_paranoid_checks(tables->database, 1);
    rocksdb_options_set_max_open_files(tables->database, TAKE_OPEN_FILES);
    rocksdb_block_based_options_set_block_cache(blocks, tables->cache);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(blocks, 1);
    for (size_t i = 0; i < TAKE_TABLE_COUNT; i++) {
        tables->options[i] = rocksdb_options_create();
        rocksdb_options_set_block_based_table_factory(tables->options[i], blocks);
    }
    rocksdb_options_set_merge_operator(
        tables->options[TAKE_TIMERS],
        rocksdb_mergeoperator_create(NULL, take_touch_end, take_touch_row, take_touch_touches,
                                     take_touch_take_back, take_touch_name));
    rocksdb_block_based_options_destroy(blocks);
}

/* Refuses a folder with unknown tables: what is in them would be lost. */
static enum error_code take_tables_check(const struct take_tables *tables, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;
    char *text = NULL;
    size_t count = 0;
    char **names = rocksdb_list_column_families(tables->database, tables->folder, &count, &text);

    if (text)
        return take_tables_failed(tables, text, ret_error);
    for (size_t i = 0; i < count && !code; i++) {
        bool is_known = false;

        for (size_t k = 0; k < TAKE_TABLE_COUNT; k++)
            is_known = is_known || strcmp(names[i], take_names[k]) == 0;
        if (!is_known)
            code = error_set(ret_error, ERROR_INVALID,
                             "%.100s has a table \"%.40s\", which no version has made",
                             tables->folder, names[i]);
    }
    rocksdb_list_column_families_destroy(names, count);
    return code;
}

enum error_code take_tables_open(const char *folder, enum take_tables_state state,
                                 struct take_tables **ret_tables, struct error *ret_error)
{
    struct take_tables *tables = calloc(1, sizeof(*tables));
    char *text = NULL;

    if (!tables || !(tables->folder = strdup(folder))) {
        free(tables);
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    }
    take_tables_set_options(tables, state);
    enum error_code code = take_tables_check(tables, ret_error);
    if (!code) {
        tables->db = rocksdb_open_for_read_only_column_families(
            tables->database, folder, TAKE_TABLE_COUNT, take_names,
            (const rocksdb_options_t *const *)tables->options, tables->handles, 0, &text);
        if (text) {
            tables->db = NULL;
            code = take_tables_failed(tables, text, ret_error);
        }
    }
    if (code)
        take_tables_close(tables);
    else
        *ret_tables = tables;
    return code;
}

void take_tables_close(struct take_tables *tables)
{
    if (!tables)
        return;
    for (size_t i = 0; i < TAKE_TABLE_COUNT && tables->db; i++)
        rocksdb_column_family_handle_destroy(tables->handles[i]);
    if (tables->db)
        rocksdb_close(tables->db);
    for (size_t i = 0; i < TAKE_TABLE_COUNT; i++)
        rocksdb_options_destroy(tables->options[i]);
    rocksdb_options_destroy(tables->database);
    rocksdb_cache_destroy(tables->cache);
    free(tables->folder);
    free(tables);
}

/* ---- reading ---- */

uint64_t take_tables_bytes(const struct take_tables *tables)
{
    const rocksdb_livefiles_t *files = rocksdb_livefiles(tables->db);
    uint64_t bytes = 0;

    for (int i = 0; i < rocksdb_livefiles_count(files); i++)
        bytes += rocksdb_livefiles_size(files, i);
    rocksdb_livefiles_destroy(files);
    return bytes;
}

enum error_code take_tables_number(const struct take_tables *tables, struct bytes name,
                                   uint64_t *ret_number, struct error *ret_error)
{
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    struct bytes value = {0};
    char *text = NULL;
    char *data = rocksdb_get_cf(tables->db, options, tables->handles[TAKE_META], name.data,
                                name.size, &value.size, &text);
    enum error_code code = ERROR_NONE;

    value.data = data;
    rocksdb_readoptions_destroy(options);
    if (text)
        code = take_tables_failed(tables, text, ret_error);
    else if (!data || record_number_decode(name, value, ret_number, NULL))
        code = error_set(ret_error, ERROR_CORRUPT,
                         "%.60s does not say its number of %.*s, and " TAKE_ADVICE, tables->folder,
                         (int)name.size, name.data);
    rocksdb_free(data);
    return code;
}

enum error_code take_tables_walk(const struct take_tables *tables, enum take_table table,
                                 enum error_code (*visit)(void *context, struct bytes key,
                                                          struct bytes value,
                                                          struct error *ret_error),
                                 void *context, struct error *ret_error)
{
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    enum error_code code = ERROR_NONE;
    char *text = NULL;

    rocksdb_readoptions_set_verify_checksums(options, 1);
    rocksdb_readoptions_set_readahead_size(options, TAKE_READ_AHEAD);
    rocksdb_readoptions_set_fill_cache(options, 0);
    rocksdb_iterator_t *records =
        rocksdb_create_iterator_cf(tables->db, options, tables->handles[table]);
    for (rocksdb_iter_seek_to_first(records); !code && rocksdb_iter_valid(records);
         rocksdb_iter_next(records)) {
        struct bytes key, value;

        key.data = rocksdb_iter_key(records, &key.size);
        value.data = rocksdb_iter_value(records, &value.size);
        code = visit(context, key, value, ret_error);
    }
    rocksdb_iter_get_error(records, &text);
    if (text && !code)
        code = take_tables_failed(tables, text, ret_error);
    else
        rocksdb_free(text);
    rocksdb_iter_destroy(records);
    rocksdb_readoptions_destroy(options);
    return code;
}
