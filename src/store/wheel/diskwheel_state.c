/*
 * diskwheel_state.c - the file STATE, which says what the folder has. It is written anew after each
 * flush, and replaces the one before in one step.
 *
 * A folder has the file STATE, the runs that it names (diskwheel_run.h), and the files FOLDER and
 * CLOSED (folder.h). Other runs are left over from a flush that did not end.
 *
 * State      `tickwsta` 8; version 4 (it is 1); number of partitions 2; zero 2; number of the next
 *            run 8; number of damaged records 8, of blocks 8; size of the partitions 8; number of
 *            runs 4; partitions, all of them in order; runs, the oldest first; number of keys of
 *            records set aside 4; for each its table 1, upper and lower half 8, 8; checksum 4 of
 *            all bytes before
 * Partition  size of its place 1, place, 0 bytes if nothing was applied; greatest serial 8; number
 *            of records 4; for each the size of its key 1, key, size of its value 4, value: meta,
 *            notes and tenants' counts, as record.h has them
 * Run        number 8; id 8; number of cuts 2; for each its partition 2 and position 8; for each
 *            table size of its marks as stored 4, size 4, marks. They are one block of LZ4's block
 *            format if the sizes differ. Both sizes are 0 if no record is marked
 *
 * Records of a table have numbers from 0 on, in the order of the file. Record n is over if bit n %
 * 64 of the n / 64-th number of 8 bytes of the marks is set. A cut ends the rows of its partition
 * before its position; the cut 2^64 - 1 ends all records of the partition, with its pointers and
 * its names, whose values have the partition. Of what is left the newest run's record of a key
 * counts.
 */
#include "base/checksum.h"
#include "store/wheel/diskwheel_store.h"

#include <errno.h>
#include <inttypes.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>

enum { STATE_VERSION = 1, STATE_HEAD = 52 };

#define STATE_MAGIC    "tickwsta"
#define STATE_SIZE_MAX ((size_t)1 << 31)

/* ---- partitions ---- */

static void diskwheel_state_put_record(struct buffer *to, struct bytes key, struct bytes value)
{
    buffer_append_le(to, key.size, 1);
    buffer_append_bytes(to, key);
    buffer_append_le(to, value.size, 4);
    buffer_append_bytes(to, value);
}

/* Appends the counts of tenants. Returns their number. */
static uint64_t diskwheel_state_put_tenants(const struct diskwheel_part *part, uint16_t partition,
                                            struct buffer *to)
{
    const struct tenant_counts_tenant *tenant;
    struct buffer value;
    uint64_t count = 0;
    size_t cursor = 0;

    buffer_init(&value);
    while ((tenant = tenant_counts_next(&part->counts.tenant_counts, &cursor))) {
        const uint64_t timers = atomic_load(&tenant->count);
        const struct store_tenant_key key =
            store_tenant_key(partition, (struct bytes){tenant->name, tenant->name_size});
        const struct bytes at = {key.data, key.size};

        if (!timers)
            continue;
        buffer_clear(&value);
        record_number_encode(&value, at, timers);
        if (buffer_failed(&value))
            to->failed = true;
        diskwheel_state_put_record(to, at, buffer_bytes(&value));
        count++;
    }
    buffer_deinit(&value);
    return count;
}

static void diskwheel_state_put_part(const struct diskwheel_part *part, uint16_t partition,
                                     struct buffer *to)
{
    const struct store_key place = store_place_key(partition), meta = store_meta_key(partition);
    const size_t size_at = to->size;
    uint64_t count = 0;

    buffer_append_le(to, 0, 1);
    if (part->place.next)
        record_place_encode(to, (struct bytes){place.data, place.size}, &part->place);
    if (!buffer_failed(to))
        put_le(to->data + size_at, to->size - size_at - 1, 1);
    buffer_append_le(to, part->serial_max, 8);
    const size_t count_at = to->size;
    buffer_append_le(to, 0, 4);
    if (part->meta.size) {
        diskwheel_state_put_record(to, (struct bytes){meta.data, meta.size},
                                   buffer_bytes(&part->meta));
        count++;
    }
    for (size_t i = 0; i < STORAGE_NOTE_COUNT; i++) {
        const struct store_key note = store_note_key((enum storage_note)i, partition);

        if (part->notes[i].size) {
            diskwheel_state_put_record(to, (struct bytes){note.data, note.size},
                                       buffer_bytes(&part->notes[i]));
            count++;
        }
    }
    count += diskwheel_state_put_tenants(part, partition, to);
    if (!buffer_failed(to))
        put_le(to->data + count_at, count, 4);
}

static void diskwheel_state_put_aside(const struct buffer *aside, struct buffer *to)
{
    const struct diskwheel_key *keys = (const void *)aside->data;
    const size_t count = aside->size / sizeof(*keys);

    buffer_append_le(to, count, 4);
    for (size_t i = 0; i < count; i++) {
        buffer_append_le(to, keys[i].table, 1);
        buffer_append_le(to, keys[i].key.high, 8);
        buffer_append_le(to, keys[i].key.low, 8);
    }
}

bool diskwheel_state_keep(struct diskwheel_store *store, struct diskwheel_kept *ret_kept)
{
    *ret_kept = (struct diskwheel_kept){.places = calloc(store->partition_count, sizeof(uint64_t))};
    if (!ret_kept->places)
        return false;
    for (uint16_t i = 0; i < store->partition_count; i++) {
        pthread_mutex_lock(&store->parts[i].counts_lock);
        diskwheel_state_put_part(&store->parts[i], i, &ret_kept->parts);
        pthread_mutex_unlock(&store->parts[i].counts_lock);
        ret_kept->places[i] = store->parts[i].place.next;
    }
    diskwheel_state_put_aside(&store->aside, &ret_kept->aside);
    ret_kept->corrupt_records = store->corrupt_records;
    ret_kept->corrupt_blocks = store->corrupt_blocks;
    if (!buffer_failed(&ret_kept->parts) && !buffer_failed(&ret_kept->aside))
        return true;
    diskwheel_state_drop(ret_kept);
    return false;
}

void diskwheel_state_drop(struct diskwheel_kept *kept)
{
    buffer_deinit(&kept->parts);
    buffer_deinit(&kept->aside);
    free(kept->places);
    *kept = (struct diskwheel_kept){.places = NULL};
}

/* ---- runs ---- */

static void diskwheel_state_put_marks(const struct diskwheel_run_table *table, struct buffer *to)
{
    const size_t size = ((size_t)table->record_count + 63) / 64 * 8;

    if (!atomic_load(&table->marked_count)) {
        buffer_append_le(to, 0, 8);
        return;
    }
    const size_t at = to->size;
    const int room = LZ4_compressBound((int)size);
    char *marks = malloc(size);
    char *stored = buffer_reserve(to, 8 + (size_t)room);
    if (!marks || !stored) {
        to->failed = true;
        free(marks);
        return;
    }
    for (size_t i = 0; i < size / 8; i++)
        put_le(marks + 8 * i, atomic_load_explicit(&table->marks[i], memory_order_relaxed), 8);
    int packed = LZ4_compress_default(marks, stored + 8, (int)size, room);
    if (packed <= 0 || (size_t)packed >= size) {
        memcpy(stored + 8, marks, size);
        packed = (int)size;
    }
    put_le(to->data + at, (uint64_t)packed, 4);
    put_le(to->data + at + 4, size, 4);
    to->size += 8 + (size_t)packed;
    free(marks);
}

static void diskwheel_state_put_run(const struct diskwheel_run *run, struct buffer *to)
{
    uint64_t cuts = 0;

    buffer_append_le(to, run->number, 8);
    buffer_append_le(to, run->id, 8);
    const size_t count_at = to->size;
    buffer_append_le(to, 0, 2);
    for (uint16_t i = 0; i < run->partition_count; i++) {
        const uint64_t cut = atomic_load(&run->kept_cuts[i]);

        if (!cut)
            continue;
        buffer_append_le(to, i, 2);
        buffer_append_le(to, cut, 8);
        cuts++;
    }
    if (!buffer_failed(to))
        put_le(to->data + count_at, cuts, 2);
    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++)
        diskwheel_state_put_marks(&run->tables[i], to);
}

/* ---- writing ---- */

static char *diskwheel_state_path(const struct diskwheel_store *store, const char *name)
{
    const size_t size = strlen(store->folder) + 1 + strlen(name) + 1;
    char *path = malloc(size);

    if (path)
        snprintf(path, size, "%s/%s", store->folder, name);
    return path;
}

void diskwheel_state_encode(const struct diskwheel_store *store, const struct diskwheel_kept *kept,
                            const struct diskwheel_view *view, struct buffer *to)
{
    char head[STATE_HEAD] = STATE_MAGIC;

    put_le(head + 8, STATE_VERSION, 4);
    put_le(head + 12, store->partition_count, 2);
    put_le(head + 16, store->next_run, 8);
    put_le(head + 24, kept->corrupt_records, 8);
    put_le(head + 32, kept->corrupt_blocks, 8);
    put_le(head + 40, kept->parts.size, 8);
    put_le(head + 48, view->count, 4);
    buffer_append(to, head, sizeof(head));
    buffer_append_bytes(to, buffer_bytes(&kept->parts));
    for (size_t i = 0; i < view->count; i++)
        diskwheel_state_put_run(view->runs[i], to);
    buffer_append_bytes(to, buffer_bytes(&kept->aside));
    if (buffer_failed(to))
        return;
    buffer_append_le(to, checksum_crc32c(0, to->data, to->size), 4);
}

static enum error_code diskwheel_state_put_file(struct diskwheel_store *store, const char *path,
                                                struct bytes bytes, struct error *ret_error)
{
    const struct disk_calls *disk = store->disk;
    int file;
    int failed = disk->open(disk, path, DISK_MAKE, &file);

    if (failed)
        return disk_failed(failed, "make", path, ret_error);
    failed = disk->write(disk, file, 0, bytes);
    if (!failed)
        failed = disk->sync(disk, file);
    disk->close(disk, file);
    return failed ? disk_failed(failed, "write", path, ret_error) : ERROR_NONE;
}

enum error_code diskwheel_state_write(struct diskwheel_store *store,
                                      const struct diskwheel_view *view, struct error *ret_error)
{
    const struct disk_calls *disk = store->disk;
    char *path = diskwheel_state_path(store, FOLDER_STATE_NAME),
         *next = diskwheel_state_path(store, FOLDER_STATE_NAME ".new");
    struct buffer state;

    buffer_init(&state);
    diskwheel_state_encode(store, &store->kept, view, &state);
    enum error_code code = !path || !next || buffer_failed(&state)
                               ? error_set(ret_error, ERROR_NO_MEMORY, "state")
                               : ERROR_NONE;
    if (!code)
        code = diskwheel_state_put_file(store, next, buffer_bytes(&state), ret_error);
    int failed = code ? 0 : disk->rename(disk, next, path);
    if (!code && !failed)
        failed = disk->sync_folder(disk, store->folder);
    if (failed)
        code = disk_failed(failed, "rename", next, ret_error);
    buffer_deinit(&state);
    free(next);
    free(path);
    return code;
}

/* ---- reading ---- */

static enum error_code diskwheel_state_damaged(const struct diskwheel_store *store,
                                               struct error *ret_error)
{
    return error_set(ret_error, ERROR_CORRUPT,
                     "%s/" FOLDER_STATE_NAME " is damaged; restore a backup", store->folder);
}

/* Removes `size` bytes from the begin of the text. */
static bool diskwheel_state_take(struct bytes *text, size_t size, struct bytes *ret_bytes)
{
    if (text->size < size)
        return false;
    *ret_bytes = (struct bytes){text->data, size};
    *text = (struct bytes){text->data + size, text->size - size};
    return true;
}

static bool diskwheel_state_take_number(struct bytes *text, size_t size, uint64_t *ret_number)
{
    struct bytes bytes;

    if (!diskwheel_state_take(text, size, &bytes))
        return false;
    *ret_number = get_le(bytes.data, size);
    return true;
}

static bool diskwheel_state_read_part(struct diskwheel_store *store, uint16_t partition,
                                      struct bytes *text)
{
    struct diskwheel_part *part = &store->parts[partition];
    const struct store_key place = store_place_key(partition);
    struct bytes key, value;
    uint64_t size, count;

    if (!diskwheel_state_take_number(text, 1, &size) || !diskwheel_state_take(text, size, &value) ||
        (size &&
         record_place_decode((struct bytes){place.data, place.size}, value, &part->place, NULL)) ||
        !diskwheel_state_take_number(text, 8, &part->serial_max) ||
        !diskwheel_state_take_number(text, 4, &count))
        return false;
    for (; count > 0; count--)
        if (!diskwheel_state_take_number(text, 1, &size) ||
            !diskwheel_state_take(text, size, &key) ||
            !diskwheel_state_take_number(text, 4, &size) ||
            !diskwheel_state_take(text, size, &value) ||
            !diskwheel_part_set(part, partition, ROWOP_PUT, key, value))
            return false;
    part->kept = part->place.next;
    return true;
}

static bool diskwheel_state_read_marks(struct diskwheel_run_table *table, struct bytes *text)
{
    struct bytes stored;
    uint64_t size, stored_size;

    if (!diskwheel_state_take_number(text, 4, &stored_size) ||
        !diskwheel_state_take_number(text, 4, &size) ||
        !diskwheel_state_take(text, stored_size, &stored))
        return false;
    if (!size)
        return !stored_size;
    if (size != ((uint64_t)table->record_count + 63) / 64 * 8 || stored_size > size)
        return false;
    char *marks = malloc(size);
    bool is_read = marks;
    if (is_read && stored_size == size)
        memcpy(marks, stored.data, size);
    else if (is_read)
        is_read = LZ4_decompress_safe(stored.data, marks, (int)stored_size, (int)size) == (int)size;
    uint32_t count = 0;
    for (size_t i = 0; is_read && i < size / 8; i++) {
        const uint64_t word = get_le(marks + 8 * i, 8);

        atomic_store_explicit(&table->marks[i], word, memory_order_relaxed);
        count += (uint32_t)__builtin_popcountll(word);
    }
    free(marks);
    atomic_store(&table->marked_count, count);
    return is_read && count <= table->record_count;
}

static enum error_code diskwheel_state_read_run(struct diskwheel_store *store, struct bytes *text,
                                                struct diskwheel_run **ret_run,
                                                struct error *ret_error)
{
    uint64_t number, id, cuts, partition, at;
    struct diskwheel_run *run;

    if (!diskwheel_state_take_number(text, 8, &number) ||
        !diskwheel_state_take_number(text, 8, &id) || !diskwheel_state_take_number(text, 2, &cuts))
        return diskwheel_state_damaged(store, ret_error);
    const enum error_code code = diskwheel_run_open_known(store->disk, store->folder, number, id,
                                                          store->partition_count, &run, ret_error);
    if (code)
        return code;
    if (run->id != id) {
        error_set(ret_error, ERROR_CORRUPT, "%s is not the file of this folder; restore a backup",
                  run->path);
        diskwheel_run_release(run);
        return ERROR_CORRUPT;
    }
    bool is_read = number < store->next_run;
    for (; is_read && cuts > 0; cuts--) {
        is_read = diskwheel_state_take_number(text, 2, &partition) &&
                  diskwheel_state_take_number(text, 8, &at) && partition < store->partition_count;
        if (is_read) {
            atomic_store(&run->kept_cuts[partition], at);
            atomic_store(&run->cuts[partition], at);
        }
    }
    for (enum diskwheel_table i = 0; is_read && i < DISKWHEEL_TABLES; i++)
        is_read = diskwheel_state_read_marks(&run->tables[i], text);
    if (!is_read) {
        diskwheel_run_release(run);
        return diskwheel_state_damaged(store, ret_error);
    }
    *ret_run = run;
    return ERROR_NONE;
}

static enum error_code diskwheel_state_read_head(struct diskwheel_store *store, struct bytes *text,
                                                 uint64_t *ret_parts, uint64_t *ret_runs,
                                                 struct error *ret_error)
{
    struct bytes head;

    if (text->size < STATE_HEAD + 4 || memcmp(text->data, STATE_MAGIC, 8) != 0)
        return diskwheel_state_damaged(store, ret_error);
    text->size -= 4;
    if (get_le(text->data + text->size, 4) != checksum_crc32c(0, text->data, text->size))
        return diskwheel_state_damaged(store, ret_error);
    if (get_le(text->data + 8, 4) != STATE_VERSION)
        return error_set(ret_error, ERROR_INVALID,
                         "%s/" FOLDER_STATE_NAME " has version %" PRIu64
                         ", and this program reads %d: start the newer version that wrote it",
                         store->folder, get_le(text->data + 8, 4), STATE_VERSION);
    diskwheel_state_take(text, STATE_HEAD, &head);
    if (get_le(head.data + 12, 2) != store->partition_count)
        return error_set(ret_error, ERROR_INVALID,
                         "%s was made with %" PRIu64 " partitions, and cannot be opened with %u",
                         store->folder, get_le(head.data + 12, 2), store->partition_count);
    store->next_run = get_le(head.data + 16, 8);
    store->corrupt_records = get_le(head.data + 24, 8);
    store->corrupt_blocks = get_le(head.data + 32, 8);
    *ret_parts = get_le(head.data + 40, 8);
    *ret_runs = get_le(head.data + 48, 4);
    return ERROR_NONE;
}

static bool diskwheel_state_read_aside(struct diskwheel_store *store, struct bytes *text)
{
    uint64_t count, table, high, low;

    if (!diskwheel_state_take_number(text, 4, &count) || count > DISKWHEEL_ASIDE_MAX)
        return false;
    for (; count > 0; count--) {
        if (!diskwheel_state_take_number(text, 1, &table) || table >= DISKWHEEL_TABLES ||
            !diskwheel_state_take_number(text, 8, &high) ||
            !diskwheel_state_take_number(text, 8, &low))
            return false;
        const struct diskwheel_key key = {(enum diskwheel_table)table, {high, low}};
        buffer_append(&store->aside, &key, sizeof(key));
    }
    return !buffer_failed(&store->aside);
}

static enum error_code diskwheel_state_index(struct diskwheel_store *store, struct error *ret_error)
{
    struct diskwheel_view *view = store->view;

    if (!diskwheel_view_reserve(view, store->partition_count, view->runs, view->count, NULL, 0))
        return error_set(ret_error, ERROR_NO_MEMORY, "state");
    diskwheel_view_index(view);
    return ERROR_NONE;
}

static enum error_code diskwheel_state_decode(struct diskwheel_store *store, struct bytes text,
                                              struct error *ret_error)
{
    uint64_t parts_size = 0, runs = 0;
    struct bytes parts;
    enum error_code code = diskwheel_state_read_head(store, &text, &parts_size, &runs, ret_error);

    if (code)
        return code;
    bool is_read = diskwheel_state_take(&text, parts_size, &parts) && runs <= text.size / 42;
    for (uint16_t i = 0; is_read && i < store->partition_count; i++)
        is_read = diskwheel_state_read_part(store, i, &parts);
    if (!is_read || parts.size)
        return diskwheel_state_damaged(store, ret_error);
    store->view = diskwheel_view_create(runs);
    if (!store->view)
        return error_set(ret_error, ERROR_NO_MEMORY, "state");
    while (!code && store->view->count < runs) {
        struct diskwheel_run *run = NULL;

        if (!(code = diskwheel_state_read_run(store, &text, &run, ret_error)))
            store->view->runs[store->view->count++] = run;
    }
    if (!code && (!diskwheel_state_read_aside(store, &text) || text.size))
        code = diskwheel_state_damaged(store, ret_error);
    return code ? code : diskwheel_state_index(store, ret_error);
}

/* Runs that the state does not name are left over from a flush that did not end. Each folder gets
 * its state before its first run. */
struct diskwheel_leftovers {
    const struct diskwheel_store *store;
    bool has_runs;
    struct buffer names; /* each with its zero */
};

static bool diskwheel_state_look_at(void *context, const struct files_entry *entry)
{
    struct diskwheel_leftovers *leftovers = context;
    const struct diskwheel_view *view = leftovers->store->view;
    char name[DISKWHEEL_RUN_NAME_SIZE];
    bool is_known =
        strncmp(entry->name, "run-", 4) != 0 && strcmp(entry->name, FOLDER_STATE_NAME ".new") != 0;

    for (size_t i = 0; i < view->count && !is_known; i++) {
        diskwheel_run_name(view->runs[i]->number, name);
        is_known = strcmp(name, entry->name) == 0;
    }
    leftovers->has_runs = leftovers->has_runs || strncmp(entry->name, "run-", 4) == 0;
    if (!is_known)
        buffer_append(&leftovers->names, entry->name, strlen(entry->name) + 1);
    return true;
}

static enum error_code diskwheel_state_sweep(struct diskwheel_store *store, bool has_state,
                                             struct error *ret_error)
{
    struct diskwheel_leftovers leftovers = {.store = store};

    enum error_code code = store->disk->list(store->disk, store->folder, diskwheel_state_look_at,
                                             &leftovers, ret_error);
    if (!code && !has_state && leftovers.has_runs)
        code = error_set(ret_error, ERROR_CORRUPT, "%s has runs, but no state; restore a backup",
                         store->folder);
    if (!code && buffer_failed(&leftovers.names))
        code = error_set(ret_error, ERROR_NO_MEMORY, "state");
    for (size_t at = 0; !code && at < leftovers.names.size;
         at += strlen(leftovers.names.data + at) + 1) {
        char *path = diskwheel_state_path(store, leftovers.names.data + at);
        const int failed = path ? store->disk->remove(store->disk, path) : 0;

        if (failed)
            code = disk_failed(failed, "remove", path, ret_error);
        free(path);
    }
    buffer_deinit(&leftovers.names);
    return code;
}

static enum error_code diskwheel_state_read_file(struct diskwheel_store *store, const char *path,
                                                 struct buffer *to, bool *ret_is_there,
                                                 struct error *ret_error)
{
    const struct disk_calls *disk = store->disk;
    uint64_t size = 0;
    size_t got = 0;
    int file;
    int failed = disk->open(disk, path, DISK_READ, &file);

    *ret_is_there = failed != ENOENT;
    if (failed)
        return *ret_is_there ? disk_failed(failed, "open", path, ret_error) : ERROR_NONE;
    failed = disk->size(disk, file, &size);
    char *data = !failed && size < STATE_SIZE_MAX ? buffer_reserve(to, size + 1) : NULL;
    if (data)
        failed = disk->read(disk, file, 0, data, size, &got);
    disk->close(disk, file);
    if (failed)
        return disk_failed(failed, "read", path, ret_error);
    if (!data)
        return error_set(ret_error, ERROR_NO_MEMORY, "%s has %" PRIu64 " bytes", path, size);
    to->size = got;
    return ERROR_NONE;
}

enum error_code diskwheel_state_read(struct diskwheel_store *store, struct error *ret_error)
{
    char *path = diskwheel_state_path(store, FOLDER_STATE_NAME);
    struct buffer state;
    bool is_there = false;

    if (!path)
        return error_set(ret_error, ERROR_NO_MEMORY, "state");
    buffer_init(&state);
    enum error_code code = diskwheel_state_read_file(store, path, &state, &is_there, ret_error);
    store->folder_state.is_new = !is_there;
    if (!code && is_there)
        code = diskwheel_state_decode(store, buffer_bytes(&state), ret_error);
    else if (!code && !(store->view = diskwheel_view_create(0)))
        code = error_set(ret_error, ERROR_NO_MEMORY, "state");
    else if (!code)
        code = diskwheel_state_index(store, ret_error);
    buffer_deinit(&state);
    free(path);
    if (!code && !store->is_reader)
        code = diskwheel_state_sweep(store, is_there, ret_error);
    if (!code && !diskwheel_state_keep(store, &store->kept))
        code = error_set(ret_error, ERROR_NO_MEMORY, "state");
    return code;
}

enum error_code diskwheel_state_read_count(const char *folder, uint16_t *ret_partition_count,
                                           struct error *ret_error)
{
    const struct disk_calls *disk = disk_system();
    char head[STATE_HEAD];
    char *path = NULL;
    size_t got = 0;
    int file;

    if (asprintf(&path, "%s/" FOLDER_STATE_NAME, folder) < 0)
        return error_set(ret_error, ERROR_NO_MEMORY, "state");
    int failed = disk->open(disk, path, DISK_READ, &file);
    if (!failed) {
        failed = disk->read(disk, file, 0, head, sizeof(head), &got);
        disk->close(disk, file);
    }
    enum error_code code = ERROR_NONE;
    if (failed == ENOENT)
        code = error_set(ret_error, ERROR_NOT_FOUND, "%s is missing", path);
    else if (failed)
        code = disk_failed(failed, "read", path, ret_error);
    const uint64_t count = got == sizeof(head) ? get_le(head + 12, 2) : 0;
    if (!code && !count)
        code = error_set(ret_error, ERROR_CORRUPT, "%s is damaged; restore a backup", path);
    if (!code)
        *ret_partition_count = (uint16_t)count;
    free(path);
    return code;
}
