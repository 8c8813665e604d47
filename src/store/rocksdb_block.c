/*
 * rocksdb_block.c - mends tables with damaged blocks, so that everything else goes on.
 *
 * RocksDB ends each scan, look-up and compaction at a block whose checksum is wrong; after a failed
 * compaction it accepts no writes, and a table whose end is damaged keeps it from starting. So the
 * table is mended (tablefile.h): a flipped bit is turned back, a new index is made from the blocks
 * of records, and of these only those that are damaged themselves are set aside. The file as it was
 * stays in the folder FOLDER_DAMAGED_NAME, with a note for each damaged block: what was done, and
 * how many records it had, of which table. A file is never changed in place, because backups share
 * files by links.
 *
 * Threads    Any; the database is closed and opened again meanwhile.
 */
#include "store/rocksdb_store.h"

#include "store/tablefile.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BLOCK_NOTE_BYTES_MAX = 4096,
};

/* Ends the note of a table that lost its properties: what it belongs to cannot be compared. */
#define ANONYMOUS_TEXT "without its properties"

/* ---- which table ---- */

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

/* "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in /data/000012.sst
 * offset 3 size 4": the file's path may hold any of these words, so they are looked for from the
 * end. Some texts have a file only, and some its number: "on file 12". A file that was cut short
 * is not mended: what it held is not known. */
static bool rocksdb_block_parse(const char *text, struct store_block *ret_block)
{
    const bool is_cut = strstr(text, "size mismatch") || strstr(text, "too short");
    struct store_block block = {.is_met = !is_cut && strstr(text, "Corruption")};
    const char *name = NULL;

    for (const char *end = text; (end = strstr(end, ".sst")); end++)
        name = end;
    const char *begin = name;
    while (begin && begin > text && begin[-1] >= '0' && begin[-1] <= '9')
        begin--;
    const uint64_t number = rocksdb_block_number_after(text, " on file ");
    if (begin && begin < name)
        snprintf(block.name, sizeof(block.name), "%.*s.sst", (int)(name - begin), begin);
    else if (number != UINT64_MAX)
        snprintf(block.name, sizeof(block.name), "%06llu.sst", (unsigned long long)number);
    const uint64_t offset = rocksdb_block_number_after(text, ".sst offset ");
    const uint64_t size = rocksdb_block_number_after(text, " size ");
    if (offset != UINT64_MAX && size != UINT64_MAX)
        block.block = (struct tablefile_block){offset, size};
    *ret_block = block;
    return block.is_met;
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

/* ---- mending ---- */

struct block_paths {
    char file[PATH_MAX], folder[PATH_MAX], kept[PATH_MAX], note[PATH_MAX];
};

static bool rocksdb_block_paths_of(const struct rocksdb_store *store, const char *name,
                                   uint64_t offset, struct block_paths *ret_paths)
{
    struct block_paths *paths = ret_paths;
    const char *const folder = store->folder;
    int size = snprintf(paths->note, sizeof(paths->note), "%s/" FOLDER_DAMAGED_NAME "/%s-at-%llu",
                        folder, name, (unsigned long long)offset);

    snprintf(paths->file, sizeof(paths->file), "%s/%s", folder, name);
    snprintf(paths->folder, sizeof(paths->folder), "%s/" FOLDER_DAMAGED_NAME, folder);
    snprintf(paths->kept, sizeof(paths->kept), "%s/" FOLDER_DAMAGED_NAME "/%s", folder, name);
    return size > 0 && (size_t)size < sizeof(paths->note); /* the longest of them */
}

static void rocksdb_block_describe(const char *name, const struct tablefile_repair *repair,
                                   char ret_text[STORAGE_FOUND_SIZE])
{
    const unsigned long long offset = repair->damaged.offset, size = repair->damaged.size;
    const char *const end = repair->has_properties ? "" : ", " ANONYMOUS_TEXT;

    if (repair->blocks_lost)
        snprintf(ret_text, STORAGE_FOUND_SIZE,
                 "about %llu records of the table \"%s\" were set aside: %s, byte %llu, %llu "
                 "bytes%s",
                 (unsigned long long)repair->records_lost, repair->table, name, offset, size, end);
    else
        snprintf(ret_text, STORAGE_FOUND_SIZE,
                 "%s was damaged at byte %llu, and nothing is lost: %s%s", name, offset,
                 repair->has_new_end ? "its index was made anew" : "a bit was turned back", end);
}

static void rocksdb_block_count(struct rocksdb_store *store, uint64_t records, const char *text)
{
    pthread_mutex_lock(&store->block_lock);
    store->blocks_aside++;
    store->block_records += records;
    store->has_anonymous |= strstr(text, ANONYMOUS_TEXT) != NULL;
    snprintf(store->block_found, sizeof(store->block_found), "%s", text);
    pthread_mutex_unlock(&store->block_lock);
}

/* Without records of `default` ids could repeat. */
static bool rocksdb_block_may_lose(const struct tablefile_repair *repair)
{
    enum store_table table;

    return !repair->blocks_lost || (store_find_table(repair->table, &table) &&
                                    table != STORE_META && table != STORE_QUARANTINE);
}

/* The note is on disk before the table is replaced; it is what the next start counts. A call that
 * meets the damage after a crash in between repeats all of it. */
static enum error_code rocksdb_block_replace(struct rocksdb_store *store, const char *name,
                                             const struct tablefile_repair *repair,
                                             struct bytes mended)
{
    struct block_paths paths;
    char text[STORAGE_FOUND_SIZE];

    if (!rocksdb_block_paths_of(store, name, repair->damaged.offset, &paths))
        return ERROR_IO;
    rocksdb_block_describe(name, repair, text);
    const bool is_known = files_exists(paths.note);
    enum error_code code = files_make_folder(paths.folder, NULL);
    if (!code)
        code = files_write(paths.note, bytes_of(text), NULL);
    if (!code)
        code = files_link(paths.file, paths.kept, NULL);
    if (!code)
        code = files_write(paths.file, mended, NULL);
    if (!code && !is_known)
        rocksdb_block_count(store, repair->records_lost, text);
    store->has_mended |= !code;
    return code;
}

/* False: nothing was mended. */
static bool rocksdb_block_mend(struct rocksdb_store *store, const char *name,
                               const struct tablefile_block *block, enum tablefile_remedy remedy)
{
    char path[PATH_MAX];
    struct buffer table;
    struct tablefile_repair repair;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", store->folder, name) >= sizeof(path))
        return false;
    buffer_init(&table);
    const bool is_mended = !files_read(path, TABLEFILE_BYTES_MAX, &table, NULL) &&
                           !buffer_failed(&table) &&
                           tablefile_mend(table.data, table.size, remedy, block, &repair) &&
                           !tablefile_was_sound(&repair) && rocksdb_block_may_lose(&repair) &&
                           !rocksdb_block_replace(store, name, &repair, buffer_bytes(&table));
    buffer_deinit(&table);
    return is_mended;
}

struct block_search {
    struct rocksdb_store *store;
    bool is_mended;
};

/* A compaction that was killed leaves the beginning of a table: no single bit mends that. */
static bool rocksdb_block_search_one(void *context, const struct files_entry *entry)
{
    static const struct tablefile_block none = {0};
    struct block_search *search = context;
    const char *end = strstr(entry->name, ".sst");

    search->is_mended = !entry->is_folder && end && !end[4] &&
                        rocksdb_block_mend(search->store, entry->name, &none, TABLEFILE_BIT);
    return !search->is_mended;
}

static bool rocksdb_block_mend_met(struct rocksdb_store *store, const struct store_block *met)
{
    struct block_search search = {.store = store};

    if (met->name[0])
        return rocksdb_block_mend(store, met->name, &met->block, TABLEFILE_ANY);
    return !files_list(store->folder, rocksdb_block_search_one, &search, NULL) && search.is_mended;
}

enum error_code rocksdb_block_begin_shadow(struct rocksdb_store *store, struct error *ret_error)
{
    char *shadow;

    if (!store->is_reader || store->has_shadow)
        return ERROR_NONE;
    const enum error_code code = files_make_shadow(store->folder, &shadow, ret_error);
    if (code)
        return code;
    free(store->folder);
    store->folder = shadow;
    store->has_shadow = true;
    return ERROR_NONE;
}

/* It knows blocks by their table and offset, also those that lay where others are now. */
static void rocksdb_block_empty_cache(struct rocksdb_store *store)
{
    const size_t capacity = rocksdb_cache_get_capacity(store->cache);

    rocksdb_cache_set_capacity(store->cache, 0);
    rocksdb_cache_set_capacity(store->cache, capacity);
}

bool rocksdb_block_set_aside(struct rocksdb_store *store)
{
    pthread_mutex_lock(&store->block_lock);
    const struct store_block met = store->block;
    store->block.is_met = false;
    pthread_mutex_unlock(&store->block_lock);
    if (!met.is_met)
        return false;
    pthread_rwlock_wrlock(&store->open_lock);
    const bool was_open = store->db != NULL;
    bool is_aside = !rocksdb_block_begin_shadow(store, NULL) && rocksdb_block_mend_met(store, &met);
    if (is_aside && was_open) {
        store_close_database(store);
        rocksdb_block_empty_cache(store);
        is_aside = !store_open_again(store, NULL);
    }
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

        rocksdb_block_count(store, records == UINT64_MAX ? 0 : records, text.data);
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
