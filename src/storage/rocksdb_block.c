/* rocksdb_block.c - damaged blocks of tables: which one it is, and how it is emptied. */
#include "storage/rocksdb_block.h"

#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TRAILER_BYTES = 5, /* of a block: compression 1, checksum 4 */
    TABLE_BLOCK_BYTES_MAX = 16 << 20,
    BLOCK_NOTE_BYTES_MAX = 4096,
    PROPERTIES_BYTES = 64 << 10, /* with what lies behind them in a file */
    VALUE_SIZE_BYTES = 5,        /* of the size of a value, in groups of seven bits */
    DAMAGED_BLOCKS_MAX = 16,
};

/* ---- which block ---- */

/* The number after the last `word`; UINT64_MAX: there is none. */
static uint64_t rocksdb_block_number_after(const char *text, const char *word)
{
    const char *at = NULL;

    for (const char *next = text; (next = strstr(next, word)); next++)
        at = next + strlen(word);
    if (!at)
        return UINT64_MAX;
    char *end;
    unsigned long long number = strtoull(at, &end, 10);
    return end == at ? UINT64_MAX : number;
}

/* "block checksum mismatch: stored = 1, computed = 2, type = 4  in /data/000012.sst offset 3 size
 * 4": the file's path may hold any of these words, so all but `computed` are looked for from the
 * end. */
static bool rocksdb_block_parse(const char *text, struct store_block *ret_block)
{
    const char *begin = strstr(text, "block checksum mismatch"), *path;

    if (!begin || !(path = strstr(begin, "  in ")))
        return false;
    uint64_t computed = rocksdb_block_number_after(begin, "computed = ");
    const char *name = NULL;
    for (const char *end = path; (end = strstr(end, ".sst offset ")); end++)
        name = end;
    uint64_t offset = rocksdb_block_number_after(path, ".sst offset ");
    uint64_t size = rocksdb_block_number_after(path, " size ");
    while (name && name > path && name[-1] != '/')
        name--;
    if (!name || name == path || offset == UINT64_MAX || size == 0 || size > TABLE_BLOCK_BYTES_MAX)
        return false;
    *ret_block = (struct store_block){.offset = offset, .size = size, .computed = computed};
    return (size_t)snprintf(ret_block->name, sizeof(ret_block->name), "%.*s",
                            (int)(strstr(name, ".sst") + 4 - name), name) < sizeof(ret_block->name);
}

void rocksdb_block_note(struct rocksdb_store *store, const char *text)
{
    struct store_block block;

    if (!rocksdb_block_parse(text, &block))
        return;
    pthread_mutex_lock(&store->block_lock);
    store->block = block;
    pthread_mutex_unlock(&store->block_lock);
}

/* ---- where it lies ---- */

/* What the database says of a block that it cannot read. */
struct block_place {
    enum store_table table;
    uint64_t records;           /* an estimate */
    struct store_key last;      /* the last key of the table's kind that leads into the block */
    struct store_block blocker; /* size 0: none. Another damaged block, which is met before */
};

/* Reads on from `key`; ERROR_IO: a damaged block was met, and *ret_block says which. */
static enum error_code rocksdb_block_probe(struct rocksdb_store *store, enum store_table table,
                                           const struct store_key *from, const struct store_key *to,
                                           struct store_key *ret_last,
                                           struct store_block *ret_block)
{
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();

    rocksdb_readoptions_set_fill_cache(options, 0);
    rocksdb_readoptions_set_total_order_seek(options, 1);
    rocksdb_iterator_t *records =
        rocksdb_create_iterator_cf(store->db, options, store->tables[table]);
    for (rocksdb_iter_seek(records, from->data, from->size); rocksdb_iter_valid(records);
         rocksdb_iter_next(records)) {
        size_t size;
        const char *key = rocksdb_iter_key(records, &size);

        if (size != from->size || memcmp(key, to->data, size) > 0)
            break;
        memcpy(ret_last->data, key, size);
    }
    char *text = NULL;
    rocksdb_iter_get_error(records, &text);
    rocksdb_iter_destroy(records);
    rocksdb_readoptions_destroy(options);
    if (!text)
        return ERROR_NONE;
    if (!rocksdb_block_parse(text, ret_block))
        *ret_block = (struct store_block){.name = ""};
    rocksdb_free(text);
    return ERROR_IO;
}

static bool rocksdb_block_is_one(const struct store_block *a, const struct store_block *b)
{
    return a->offset == b->offset && strcmp(a->name, b->name) == 0;
}

/* Adds 2^bit; false when the key would overflow. */
static bool rocksdb_block_add_bit(struct store_key *key, size_t bit)
{
    unsigned carry = 1u << bit % 8;

    for (size_t at = key->size - bit / 8; carry && at-- > 0; carry >>= 8) {
        carry += (uint8_t)key->data[at];
        key->data[at] = (char)carry;
    }
    return !carry;
}

/* The last key that leads into the block, as `key` does: keys that do are a range. */
static struct store_key rocksdb_block_last(struct rocksdb_store *store, enum store_table table,
                                           struct store_key key, const struct store_block *block)
{
    for (size_t bit = 8 * key.size; bit-- > 0;) {
        struct store_key next = key;

        struct store_key unused;
        struct store_block met;
        if (rocksdb_block_add_bit(&next, bit) &&
            rocksdb_block_probe(store, table, &next, &next, &unused, &met) &&
            rocksdb_block_is_one(&met, block))
            key = next;
    }
    return key;
}

/* Walks to the block from the first key of its file. */
static enum error_code rocksdb_block_find(struct rocksdb_store *store,
                                          const struct store_block *block, struct store_key first,
                                          const struct store_key *end,
                                          struct block_place *ret_place)
{
    struct store_key last = first;
    struct store_block met;

    if (!rocksdb_block_probe(store, ret_place->table, &first, end, &last, &met) || !met.size)
        return ERROR_CORRUPT;
    if (!rocksdb_block_is_one(&met, block)) {
        ret_place->blocker = met;
        return ERROR_NONE;
    }
    ret_place->last = rocksdb_block_last(store, ret_place->table, last, &met);
    return ERROR_NONE;
}

bool rocksdb_block_pass(struct rocksdb_store *store, enum store_table table, struct store_key *key)
{
    struct store_key unused;
    struct store_block block;

    if (rocksdb_block_probe(store, table, key, key, &unused, &block))
        *key = rocksdb_block_last(store, table, *key, &block);
    return rocksdb_block_add_bit(key, 0);
}

/* ERROR_CORRUPT: the table cannot lose records, or the block holds none. */
static enum error_code rocksdb_block_locate(struct rocksdb_store *store,
                                            const struct store_block *block,
                                            struct block_place *ret_place)
{
    const rocksdb_livefiles_t *files = rocksdb_livefiles(store->db);

    *ret_place = (struct block_place){.records = 0};
    enum error_code code = ERROR_CORRUPT;
    for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
        const char *name = rocksdb_livefiles_name(files, i);
        size_t first_size;
        const char *first = rocksdb_livefiles_smallestkey(files, i, &first_size);
        size_t last_size;
        const char *last = rocksdb_livefiles_largestkey(files, i, &last_size);
        struct store_key begin = {.size = first_size}, end = {.size = last_size};

        if (strcmp(name + (*name == '/'), block->name) != 0 || first_size != last_size ||
            first_size > sizeof(begin.data) ||
            !store_find_table(rocksdb_livefiles_column_family_name(files, i), &ret_place->table) ||
            ret_place->table == STORE_META || ret_place->table == STORE_QUARANTINE)
            continue;
        memcpy(begin.data, first, first_size);
        memcpy(end.data, last, last_size);
        ret_place->records = rocksdb_livefiles_entries(files, i) * (block->size + TRAILER_BYTES) /
                                 rocksdb_livefiles_size(files, i) +
                             1;
        code = rocksdb_block_find(store, block, begin, &end, ret_place);
        break;
    }
    rocksdb_livefiles_destroy(files);
    return code;
}

/* ---- emptying ---- */

struct block_paths {
    char file[PATH_MAX], copy[PATH_MAX], folder[PATH_MAX], kept[PATH_MAX], note[PATH_MAX];
};

static bool rocksdb_block_paths_of(const struct rocksdb_store *store,
                                   const struct store_block *block, struct block_paths *ret_paths)
{
    struct block_paths *paths = ret_paths;
    const char *const folder = store->folder;
    int size = snprintf(paths->note, sizeof(paths->note), "%s/" FOLDER_DAMAGED_NAME "/%s-at-%llu",
                        folder, block->name, (unsigned long long)block->offset);

    snprintf(paths->file, sizeof(paths->file), "%s/%s", folder, block->name);
    snprintf(paths->copy, sizeof(paths->copy), "%s/%s.new", folder, block->name);
    snprintf(paths->folder, sizeof(paths->folder), "%s/" FOLDER_DAMAGED_NAME, folder);
    snprintf(paths->kept, sizeof(paths->kept), "%s/" FOLDER_DAMAGED_NAME "/%s", folder,
             block->name);
    return size > 0 && (size_t)size < sizeof(paths->note); /* the longest of them */
}

/* Index and filters lie behind the data, the size of which is among the properties of the table.
 * Their entry is stored without the part of its name that it shares with the one before. */
static bool rocksdb_block_is_data(const struct store_block *block, const char *path, uint64_t size)
{
    static const char name[] = "data.size";
    const size_t tail_size = size < PROPERTIES_BYTES ? (size_t)size : PROPERTIES_BYTES;
    char *tail = malloc(tail_size);
    uint64_t data_size = 0;

    if (tail && !files_read_at(path, size - tail_size, tail, tail_size, NULL))
        for (size_t at = 3; at + sizeof(name) + 10 < tail_size; at++) {
            if (memcmp(tail + at, name, sizeof(name) - 1) != 0 ||
                tail[at - 2] != (char)(sizeof(name) - 1))
                continue;
            data_size = 0;
            for (size_t i = 0; i < 9; i++) {
                const uint8_t byte = (uint8_t)tail[at + sizeof(name) - 1 + i];

                data_size |= (uint64_t)(byte & 0x7f) << 7 * i;
                if (byte < 0x80)
                    break;
            }
        }
    free(tail);
    return block->offset < data_size;
}

/* What an operator is told, and the next start counts. It is on disk before the block is emptied.
 */
static enum error_code rocksdb_block_write_note(struct rocksdb_store *store,
                                                const struct store_block *block,
                                                const struct block_place *place,
                                                const struct block_paths *paths)
{
    char text[STORAGE_FOUND_SIZE];

    snprintf(text, sizeof(text),
             "about %llu records of the table \"%s\" were set aside: %s, byte %llu, %llu bytes",
             (unsigned long long)place->records, store_table_names[place->table], block->name,
             (unsigned long long)block->offset, (unsigned long long)block->size);
    enum error_code code = files_make_folder(paths->folder, NULL);
    if (!code)
        code = files_write(paths->note, bytes_of(text), NULL);
    if (code)
        return code;
    pthread_mutex_lock(&store->block_lock);
    store->blocks_aside++;
    store->block_records += place->records;
    snprintf(store->block_found, sizeof(store->block_found), "%s", text);
    pthread_mutex_unlock(&store->block_lock);
    return ERROR_NONE;
}

/* A block cannot hold nothing: RocksDB looks into it without a look at its count. It holds one
 * deletion, older than every record: sizes of key and value, the key with its number (0) and kind
 * (0), and the value, which fills the room; then one restart, at 0, and their count. The checksum
 * is written when RocksDB has computed it. NULL: out of memory, or no room. */
static char *rocksdb_block_make(const struct store_block *block, const struct store_key *key)
{
    const size_t head = 2 + VALUE_SIZE_BYTES, entry = block->size - 8, key_size = key->size + 8;
    const size_t size = block->size + TRAILER_BYTES;
    char *bytes;

    if (block->size < 8 + head + key_size || !(bytes = calloc(1, size)))
        return NULL;
    size_t value_size = entry - head - key_size;
    bytes[1] = (char)key_size;
    for (size_t i = 0; i < VALUE_SIZE_BYTES; i++)
        bytes[2 + i] =
            (char)((value_size >> 7 * i & 0x7f) | (i + 1 < VALUE_SIZE_BYTES ? 0x80u : 0));
    memcpy(bytes + head, key->data, key->size);
    put_le(bytes + block->size - 4, 1, 4);
    return bytes;
}

static enum error_code rocksdb_block_write_sum(const struct store_block *block,
                                               const struct block_paths *paths)
{
    char sum[4];

    put_le(sum, block->computed, sizeof(sum));
    return files_patch(paths->file, block->offset + block->size + 1,
                       (struct bytes){sum, sizeof(sum)}, NULL);
}

/* Should this end half-way, the next call that meets the block completes it. */
static enum error_code rocksdb_block_empty(struct rocksdb_store *store,
                                           const struct store_block *block,
                                           const struct block_place *place,
                                           const struct block_paths *paths)
{
    char *bytes = rocksdb_block_make(block, &place->last);
    enum error_code code = bytes ? ERROR_NONE : ERROR_NO_MEMORY;

    if (!code)
        code = files_link(paths->file, paths->kept, NULL);
    if (!code)
        code = files_copy(paths->file, paths->copy, NULL);
    if (!code)
        code = files_patch(paths->copy, block->offset,
                           (struct bytes){bytes, block->size + TRAILER_BYTES}, NULL);
    free(bytes);
    if (code)
        return code;
    store_close_database(store);
    code = files_rename(paths->copy, paths->file, NULL);
    if (store_open_database(store, NULL)) {
        store->state = STORE_FAILED;
        return ERROR_IO;
    }
    struct store_key unused;
    struct store_block met;
    if (!code &&
        rocksdb_block_probe(store, place->table, &place->last, &place->last, &unused, &met) &&
        rocksdb_block_is_one(&met, block))
        code = rocksdb_block_write_sum(&met, paths);
    return code;
}

/* Whether the block was emptied, and only its checksum is wrong. */
static bool rocksdb_block_is_empty(const struct store_block *block, const struct block_paths *paths)
{
    const size_t size = block->size;
    char *kept = malloc(size), *now = malloc(size);
    bool is_empty = kept && now && files_exists(paths->kept) &&
                    !files_read_at(paths->kept, block->offset, kept, size, NULL) &&
                    !files_read_at(paths->file, block->offset, now, size, NULL) &&
                    memcmp(kept, now, size) != 0;

    free(kept);
    free(now);
    return is_empty;
}

/* `block` becomes another one if that is met before. */
static bool rocksdb_block_set_one_aside(struct rocksdb_store *store, struct store_block *block)
{
    for (unsigned i = 0; i < DAMAGED_BLOCKS_MAX; i++) {
        struct block_paths paths;
        if (!rocksdb_block_paths_of(store, block, &paths))
            return false;
        if (rocksdb_block_is_empty(block, &paths))
            return !rocksdb_block_write_sum(block, &paths);
        struct block_place place;
        uint64_t size;
        if (!store->db || files_size(paths.file, &size, NULL) ||
            !rocksdb_block_is_data(block, paths.file, size) ||
            rocksdb_block_locate(store, block, &place))
            return false;
        if (!place.blocker.size)
            return (files_exists(paths.note) ||
                    !rocksdb_block_write_note(store, block, &place, &paths)) &&
                   !rocksdb_block_empty(store, block, &place, &paths);
        *block = place.blocker;
    }
    return false;
}

bool rocksdb_block_set_aside(struct rocksdb_store *store)
{
    pthread_mutex_lock(&store->block_lock);
    struct store_block block = store->block;
    store->block.size = 0;
    pthread_mutex_unlock(&store->block_lock);
    if (!block.size)
        return false;
    pthread_rwlock_wrlock(&store->open_lock);
    bool is_aside = store->db && rocksdb_block_set_one_aside(store, &block);
    pthread_rwlock_unlock(&store->open_lock);
    return is_aside;
}

/* ---- earlier runs ---- */

struct block_notes {
    struct rocksdb_store *store;
    const char *folder;
    enum error_code code;
};

static bool rocksdb_block_load_note(void *context, const struct files_entry *entry)
{
    struct block_notes *notes = context;
    struct rocksdb_store *store = notes->store;

    if (!strstr(entry->name, ".sst-at-"))
        return true;
    struct buffer text;
    buffer_init(&text);
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", notes->folder, entry->name);
    notes->code = files_read(path, BLOCK_NOTE_BYTES_MAX, &text, NULL);
    buffer_append(&text, "", 1);
    if (!notes->code && !buffer_failed(&text)) {
        uint64_t records = rocksdb_block_number_after(text.data, "about ");

        store->blocks_aside++;
        store->block_records += records == UINT64_MAX ? 1 : records;
        snprintf(store->block_found, sizeof(store->block_found), "%s", text.data);
    }
    buffer_deinit(&text);
    return !notes->code;
}

enum error_code rocksdb_block_load(struct rocksdb_store *store, struct error *ret_error)
{
    char folder[PATH_MAX];
    struct block_notes notes = {store, folder, ERROR_NONE};

    snprintf(folder, sizeof(folder), "%s/" FOLDER_DAMAGED_NAME, store->folder);
    if (!files_exists(folder))
        return ERROR_NONE;
    store->blocks_aside = store->block_records = 0;
    enum error_code code = files_list(folder, rocksdb_block_load_note, &notes, ret_error);
    return code ? code : notes.code;
}
