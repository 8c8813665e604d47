/* diskwheel_aside.c - keeps what is damaged for the operator, in the folder FOLDER_DAMAGED_NAME.
 *
 * A damaged block is in NAME-at-OFFSET.bytes as the run NAME has it, also if each read turns its
 * flipped bit back; a damaged record's value is in TABLE-HIGH-LOW.bytes, by the halves of its key.
 * Beside it is a note without `.bytes` that says what it is. The next start counts the blocks that
 * have notes. A store on a disk for tests, and one that is only read, keep nothing. */
#include "base/number.h"
#include "store/wheel/diskwheel_store.h"
#include "sys/files.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define ASIDE_END       ".bytes"
#define ASIDE_BYTES_MAX (UINT64_C(256) << 20) /* maximum of all files; what is beyond is counted */

enum {
    ASIDE_FILES_MAX = 4096,
    ASIDE_NAME_SIZE = 64,
    ASIDE_NOTE_MAX = 4096,
};

/* In the text of a note: all records are there. */
#define ASIDE_NOTHING_LOST "nothing is lost"

static const char *const aside_tables[DISKWHEEL_TABLES] = {"timers", "moved", "names"};

static bool diskwheel_aside_count_one(void *context, const struct files_entry *entry)
{
    struct diskwheel_aside *aside = context;

    aside->files++;
    aside->bytes += entry->bytes;
    return true;
}

/* Makes room for a file of the size. The caller holds aside->lock. */
static bool diskwheel_aside_has_room(struct diskwheel_aside *aside, const char *folder, size_t size)
{
    if (!aside->is_counted) {
        aside->files = aside->bytes = 0;
        if (files_make_folder(folder, NULL) ||
            files_list(folder, diskwheel_aside_count_one, aside, NULL))
            return false;
        aside->is_counted = true;
    }
    return aside->files + 2 <= ASIDE_FILES_MAX && aside->bytes + size <= ASIDE_BYTES_MAX;
}

/* Writes the bytes and then the note. Returns false if there is such a note, or no room. */
static bool diskwheel_aside_put(struct diskwheel_store *store, const char *name, const char *note,
                                struct bytes bytes)
{
    char folder[PATH_MAX], path[PATH_MAX], path_of_bytes[PATH_MAX];

    if (store->is_reader || store->options.disk ||
        (size_t)snprintf(path_of_bytes, sizeof(path_of_bytes),
                         "%s/" FOLDER_DAMAGED_NAME "/%s" ASIDE_END, store->folder,
                         name) >= sizeof(path_of_bytes))
        return false;
    snprintf(folder, sizeof(folder), "%s/" FOLDER_DAMAGED_NAME, store->folder);
    snprintf(path, sizeof(path), "%s/" FOLDER_DAMAGED_NAME "/%s", store->folder, name);
    pthread_mutex_lock(&store->quarantine.lock);
    const bool is_put =
        !files_exists(path) &&
        diskwheel_aside_has_room(&store->quarantine, folder, bytes.size + strlen(note)) &&
        !files_write(path_of_bytes, bytes, NULL) && !files_write(path, bytes_of(note), NULL);
    if (is_put) {
        store->quarantine.files += 2;
        store->quarantine.bytes += bytes.size + strlen(note);
    }
    pthread_mutex_unlock(&store->quarantine.lock);
    return is_put;
}

void diskwheel_aside_record(struct diskwheel_store *store, enum diskwheel_table table,
                            struct record_key key, struct bytes value)
{
    char name[ASIDE_NAME_SIZE], note[STORAGE_FOUND_SIZE];

    snprintf(name, sizeof(name), "%s-%016" PRIx64 "-%016" PRIx64, aside_tables[table], key.high,
             key.low);
    snprintf(note, sizeof(note),
             "a record of the table \"%s\" was set aside: key %016" PRIx64 " %016" PRIx64
             ", %zu bytes\n",
             aside_tables[table], key.high, key.low, value.size);
    diskwheel_aside_put(store, name, note, value);
}

static void diskwheel_aside_block(struct diskwheel_store *store, struct diskwheel_run *run,
                                  enum diskwheel_table table, uint32_t at)
{
    const struct diskwheel_index_block block = diskwheel_index_block(&run->tables[table].index, at);
    char run_name[DISKWHEEL_RUN_NAME_SIZE], name[ASIDE_NAME_SIZE], note[STORAGE_FOUND_SIZE];
    char *bytes = malloc(block.size);
    size_t got = 0;

    diskwheel_run_name(run->number, run_name);
    snprintf(name, sizeof(name), "%s-at-%" PRIu64, run_name, block.offset);
    if (diskwheel_run_damage(run, table, at) & DISKWHEEL_DAMAGE_LOST)
        snprintf(note, sizeof(note),
                 "about %" PRIu32 " records of the table \"%s\" were set aside: %s, byte %" PRIu64
                 ", %" PRIu32 " bytes\n",
                 (uint32_t)block.count, aside_tables[table], run_name, block.offset, block.size);
    else
        snprintf(note, sizeof(note),
                 "%s was damaged at byte %" PRIu64 ", and " ASIDE_NOTHING_LOST
                 ": a flipped bit of %" PRIu32 " bytes was turned back\n",
                 run_name, block.offset, block.size);
    if (bytes && !run->disk->read(run->disk, run->file, block.offset, bytes, block.size, &got) &&
        diskwheel_aside_put(store, name, note, (struct bytes){bytes, got})) {
        pthread_mutex_lock(&store->lock);
        snprintf(store->found, sizeof(store->found), "%.*s", (int)strcspn(note, "\n"), note);
        pthread_mutex_unlock(&store->lock);
    }
    free(bytes);
}

static void diskwheel_aside_run(struct diskwheel_store *store, struct diskwheel_run *run)
{
    const uint64_t damaged = atomic_load(&run->damaged_blocks);

    if (atomic_load(&run->aside_blocks) == damaged)
        return;
    for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES; table++)
        for (uint32_t i = 0; i < run->tables[table].index.count; i++)
            if (diskwheel_run_damage(run, table, i))
                diskwheel_aside_block(store, run, table, i);
    atomic_store(&run->aside_blocks, damaged);
}

void diskwheel_aside_blocks(struct diskwheel_store *store)
{
    pthread_mutex_lock(&store->lock);
    struct diskwheel_view *view = diskwheel_view_hold(store->view);
    pthread_mutex_unlock(&store->lock);
    for (size_t i = 0; i < view->count; i++)
        diskwheel_aside_run(store, view->runs[i]);
    diskwheel_view_release(view);
}

/* ---- earlier starts ---- */

struct diskwheel_aside_notes {
    struct diskwheel_store *store;
    const char *folder;
};

/* Reads the name of a block's note. */
static bool diskwheel_aside_parse(const char *name, uint64_t *ret_run, uint64_t *ret_offset)
{
    const size_t size = strlen(name), begin = sizeof("run-0123456789abcdef-at-") - 1;

    return size > begin && strncmp(name, "run-", 4) == 0 &&
           strncmp(name + begin - 4, "-at-", 4) == 0 &&
           number_parse((struct bytes){name + 4, 16}, 16, ret_run) &&
           number_parse((struct bytes){name + begin, size - begin}, 10, ret_offset);
}

static void diskwheel_aside_note_block(struct diskwheel_run *run, uint64_t offset, const char *note)
{
    const bool is_turned = strstr(note, ASIDE_NOTHING_LOST);

    for (enum diskwheel_table table = 0; table < DISKWHEEL_TABLES; table++)
        for (uint32_t i = 0; i < run->tables[table].index.count; i++)
            if (diskwheel_index_block(&run->tables[table].index, i).offset == offset)
                is_turned ? diskwheel_run_note_turned(run, table, i)
                          : diskwheel_run_note_damage(run, table, i);
}

static bool diskwheel_aside_load_note(void *context, const struct files_entry *entry)
{
    struct diskwheel_aside_notes *notes = context;
    struct diskwheel_store *store = notes->store;
    uint64_t number, offset;
    char path[PATH_MAX];
    struct buffer text;

    if (!diskwheel_aside_parse(entry->name, &number, &offset))
        return true;
    snprintf(path, sizeof(path), "%s/%s", notes->folder, entry->name);
    buffer_init(&text);
    if (!files_read_regular(path, ASIDE_NOTE_MAX, &text, NULL))
        snprintf(store->found, sizeof(store->found), "%.*s", (int)text.size, text.data);
    store->found[strcspn(store->found, "\n")] = '\0';
    buffer_deinit(&text);
    for (size_t i = 0; i < store->view->count; i++)
        if (store->view->runs[i]->number == number)
            diskwheel_aside_note_block(store->view->runs[i], offset, store->found);
    return true;
}

static void diskwheel_aside_note_mended(struct diskwheel_store *store)
{
    char name[DISKWHEEL_RUN_NAME_SIZE];

    for (size_t i = 0; i < store->view->count; i++)
        if (store->view->runs[i]->is_mended) {
            diskwheel_run_name(store->view->runs[i]->number, name);
            snprintf(store->found, sizeof(store->found),
                     "%s was damaged behind its records, and " ASIDE_NOTHING_LOST
                     ": its index was made anew",
                     name);
        }
}

enum error_code diskwheel_aside_load(struct diskwheel_store *store, struct error *ret_error)
{
    char folder[PATH_MAX];
    struct diskwheel_aside_notes notes = {.store = store, .folder = folder};

    diskwheel_aside_note_mended(store);
    if (store->options.disk ||
        (size_t)snprintf(folder, sizeof(folder), "%s/" FOLDER_DAMAGED_NAME, store->folder) >=
            sizeof(folder) ||
        !files_exists(folder))
        return ERROR_NONE;
    return files_list(folder, diskwheel_aside_load_note, &notes, ret_error);
}
