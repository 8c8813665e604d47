/*
 * rocksdb_block.c - mends tables with damaged blocks, so that everything else goes on.
 *
 * RocksDB ends each scan, look-up and compaction at a block whose checksum is wrong; after a failed
 * compaction it accepts no writes, and a table whose end is damaged keeps it from starting. So
 * after an error of corruption all tables are verified, one by one, and those with damage are
 * mended (tablefile.h): a flipped bit is turned back, a new index is made from the blocks
 * of records, and of these only those that are damaged themselves are set aside. The file as it was
 * stays in the folder FOLDER_DAMAGED_NAME, with a note for each damaged block: what was done, and
 * how many records it had, of which table. A file is never changed in place, because backups share
 * files by links.
 *
 * Threads    Any; the database is closed and opened again meanwhile.
 */
#include "store/rocksdb_store.h"

#include "store/tablefile.h"
#include "sys/clock.h"
#include "sys/files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    BLOCK_NOTE_BYTES_MAX = 4096,
    /* Pause after a verification without a repair, as a multiple of its duration: it reads all
     * tables and delays every other call. */
    VERIFY_PAUSES = 10,
};

#define NOTE_BEGIN "about "

/* End of the note of a table that lost its properties, so that its owner cannot be checked. */
#define ANONYMOUS_TEXT "without its properties"

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
                 NOTE_BEGIN "%llu records of the table \"%s\" were set aside: %s, byte %llu, %llu "
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

/* True if records may be lost. Without those of `default` ids could repeat. */
static bool rocksdb_block_may_lose(const struct tablefile_repair *repair)
{
    enum store_table table;

    return !repair->blocks_lost || (store_find_table(repair->table, &table) &&
                                    table != STORE_META && table != STORE_QUARANTINE);
}

/* Writes the note before it replaces the table; the next start counts the note. After a crash in
 * between, the next call that finds the damage repeats everything. */
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

/* Returns false if nothing was mended. A table that was cut short is not, because what it held is
 * unknown. */
static bool rocksdb_block_mend(struct rocksdb_store *store, const char *name, uint64_t size)
{
    char path[PATH_MAX];
    struct buffer table;
    struct tablefile_repair repair;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", store->folder, name) >= sizeof(path))
        return false;
    buffer_init(&table);
    const bool is_mended = !files_read_regular(path, TABLEFILE_BYTES_MAX, &table, NULL) &&
                           !buffer_failed(&table) && table.size == size &&
                           tablefile_mend(table.data, table.size, &repair) &&
                           !tablefile_was_sound(&repair) && rocksdb_block_may_lose(&repair) &&
                           !rocksdb_block_replace(store, name, &repair, buffer_bytes(&table));
    buffer_deinit(&table);
    return is_mended;
}

/* Verifies all tables, one by one, and mends those that are damaged. */
static bool rocksdb_block_mend_all(struct rocksdb_store *store)
{
    const bool was_open = store->db != NULL;
    bool is_mended = false;

    if (!was_open && store_open_to_list(store))
        return false;
    const rocksdb_livefiles_t *files = rocksdb_livefiles(store->db);
    for (int i = 0; i < rocksdb_livefiles_count(files); i++) {
        const char *name = rocksdb_livefiles_name(files, i);

        is_mended |=
            rocksdb_block_mend(store, name + (*name == '/'), rocksdb_livefiles_size(files, i));
    }
    rocksdb_livefiles_destroy(files);
    if (!was_open)
        store_close_database(store);
    return is_mended;
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

/* The block cache keys blocks by (file, offset). After a file is rewritten, its cached blocks
 * are stale: drop them. */
static void rocksdb_block_empty_cache(struct rocksdb_store *store)
{
    const size_t capacity = rocksdb_cache_get_capacity(store->cache);

    rocksdb_cache_set_capacity(store->cache, 0);
    rocksdb_cache_set_capacity(store->cache, capacity);
}

bool rocksdb_block_set_aside(struct rocksdb_store *store)
{
    const struct instant begin = instant_now();

    if (begin.ns < store->verify_at.ns || !atomic_exchange(&store->is_damage_met, false))
        return false;
    pthread_rwlock_wrlock(&store->open_lock);
    const bool was_open = store->db != NULL;
    bool is_aside = !rocksdb_block_begin_shadow(store, NULL) && rocksdb_block_mend_all(store);
    if (!is_aside)
        store->verify_at.ns = begin.ns + VERIFY_PAUSES * instant_since_ns(begin, instant_now());
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

/* Returns the number of records set aside in the text of a note. */
static const char *rocksdb_block_records_of(const char *note)
{
    return strncmp(note, NOTE_BEGIN, strlen(NOTE_BEGIN)) == 0 ? note + strlen(NOTE_BEGIN) : "";
}

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
    notes->code = files_read_regular(path, BLOCK_NOTE_BYTES_MAX, &text, NULL);
    buffer_append(&text, "", 1);
    if (!notes->code && !buffer_failed(&text)) {
        rocksdb_block_count(store, strtoull(rocksdb_block_records_of(text.data), NULL, 10),
                            text.data);
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
