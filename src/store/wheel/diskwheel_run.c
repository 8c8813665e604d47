/* diskwheel_run.c - opens a run, finds and walks its records; see diskwheel_run.h. */
#include "store/wheel/diskwheel_run.h"

#include "base/checksum.h"
#include "store/varint.h"
#include "store/wheel/diskwheel_run_private.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the index ---- */

static bool diskwheel_run_read_table(struct bytes *index, struct diskwheel_run_table *table,
                                     uint64_t *offset, uint64_t index_at)
{
    struct diskwheel_index_block block = {.offset = *offset};
    struct record_key first = {0, 0};
    uint64_t blocks, records, high, size, count, ordinal = 0;

    if (!varint_next(index, &blocks) || !varint_next(index, &records) || blocks > index->size / 4 ||
        blocks > UINT32_MAX || records > UINT32_MAX)
        return false;
    const bool has_index = diskwheel_index_init(&table->index, (uint32_t)blocks);
    table->marks = calloc(records / 64 + 1, sizeof(*table->marks));
    table->damaged = calloc(blocks / 32 + 1, sizeof(*table->damaged));
    if (!has_index || !table->marks || !table->damaged)
        return false;
    for (uint64_t i = 0; i < blocks; i++) {
        if (!varint_next(index, &high) || !varint_next(index, &first.low) ||
            !varint_next(index, &size) || !varint_next(index, &count) || !count ||
            count > DISKWHEEL_BLOCK_RECORDS_MAX || size <= DISKWHEEL_BLOCK_HEAD ||
            size > index_at - block.offset)
            return false;
        first.high += high;
        block.size = (uint32_t)size;
        block.ordinal = (uint32_t)ordinal;
        block.count = (uint16_t)count;
        diskwheel_index_add(&table->index, first, &block);
        block.offset += size;
        ordinal += count;
        if (ordinal > records)
            return false;
    }
    diskwheel_index_end(&table->index);
    table->record_count = (uint32_t)records;
    *offset = block.offset;
    return varint_next(index, &table->last.high) && varint_next(index, &table->last.low) &&
           ordinal == records;
}

static bool diskwheel_run_read_slices(struct bytes *index, struct diskwheel_run *run)
{
    uint64_t count, partition, rows;

    if (!varint_next(index, &count) || count > UINT16_MAX + 1)
        return false;
    run->slices = calloc(count + 1, sizeof(*run->slices));
    if (!run->slices)
        return false;
    for (; run->slice_count < count; run->slice_count++) {
        struct diskwheel_run_slice *slice = &run->slices[run->slice_count];

        if (!varint_next(index, &partition) || partition >= run->partition_count ||
            !varint_next(index, &rows) || rows > UINT32_MAX ||
            !varint_next(index, &slice->at_min) || !varint_next(index, &slice->at_max) ||
            !varint_next(index, &slice->serial_min) || !varint_next(index, &slice->serial_max) ||
            (run->slice_count && partition <= slice[-1].partition))
            return false;
        slice->partition = (uint16_t)partition;
        slice->rows = (uint32_t)rows;
    }
    return true;
}

static bool diskwheel_run_read_filter(struct bytes *index, struct diskwheel_run_table *table)
{
    uint64_t size;

    if (!varint_next(index, &size) || size > index->size || size % DISKWHEEL_FILTER_LINE)
        return false;
    if (!size)
        return true;
    table->filter = aligned_alloc(DISKWHEEL_FILTER_LINE, size);
    if (!table->filter)
        return false;
    memcpy(table->filter, index->data, size);
    table->filter_bytes = size;
    *index = (struct bytes){index->data + size, index->size - size};
    return true;
}

static bool diskwheel_run_read_index(struct diskwheel_run *run, struct bytes index,
                                     uint64_t index_at)
{
    uint64_t offset = 0;

    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++)
        if (!diskwheel_run_read_table(&index, &run->tables[i], &offset, index_at))
            return false;
    if (offset != index_at || !diskwheel_run_read_slices(&index, run))
        return false;
    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++)
        if (!diskwheel_run_read_filter(&index, &run->tables[i]))
            return false;
    return !index.size;
}

/* Reads exactly this part of the file. */
static enum error_code diskwheel_run_read(const struct diskwheel_run *run, uint64_t at, size_t size,
                                          struct buffer *to, struct error *ret_error)
{
    size_t got = 0;

    buffer_clear(to);
    char *data = buffer_reserve(to, size);
    if (!data)
        return error_set(ret_error, ERROR_NO_MEMORY, "%s", run->path);
    const int failed = run->disk->read(run->disk, run->file, at, data, size, &got);
    if (failed)
        return disk_failed(failed, "read", run->path, ret_error);
    if (got != size)
        return error_set(ret_error, ERROR_CORRUPT,
                         "%s is cut short: it ends at %" PRIu64 "; restore a backup", run->path,
                         at + got);
    to->size = size;
    return ERROR_NONE;
}

static void diskwheel_run_free_index(struct diskwheel_run *run)
{
    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++) {
        diskwheel_index_deinit(&run->tables[i].index);
        free(run->tables[i].filter);
        free((void *)(uintptr_t)run->tables[i].marks);
        free((void *)(uintptr_t)run->tables[i].damaged);
        run->tables[i] = (struct diskwheel_run_table){0};
    }
    free(run->slices);
    run->slices = NULL;
    run->slice_count = 0;
}

/* True if the bytes are an index of the run with these blocks, although its sum is unknown. */
static bool diskwheel_run_is_index(const struct diskwheel_run *run, struct bytes index,
                                   uint64_t index_at)
{
    struct diskwheel_run read = {.partition_count = run->partition_count};
    bool is_index = diskwheel_run_read_index(&read, index, index_at);

    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES && is_index; i++)
        is_index = read.tables[i].index.count == run->tables[i].index.count &&
                   read.tables[i].record_count == run->tables[i].record_count;
    diskwheel_run_free_index(&read);
    return is_index;
}

/* Makes the index anew if all blocks are whole: the foot says where they end, or if that is what is
 * damaged, the index that follows them. Then no record is lost. */
static bool diskwheel_run_mend_index(struct diskwheel_run *run, bool has_foot, uint64_t index_at)
{
    const uint64_t foot_at = run->bytes - DISKWHEEL_RUN_FOOT;
    struct buffer index;
    uint64_t found_at;

    diskwheel_run_free_index(run);
    if (!diskwheel_run_mend(run, foot_at, &found_at))
        return false;
    if (has_foot)
        return found_at == index_at;
    buffer_init(&index);
    const bool is_mended = !diskwheel_run_read(run, found_at, foot_at - found_at, &index, NULL) &&
                           diskwheel_run_is_index(run, buffer_bytes(&index), found_at);
    buffer_deinit(&index);
    return is_mended;
}

static enum error_code diskwheel_run_load(struct diskwheel_run *run, struct error *ret_error)
{
    struct buffer foot, index;
    uint64_t index_at = 0;
    enum error_code code;

    if (run->bytes < DISKWHEEL_RUN_FOOT)
        return error_set(ret_error, ERROR_CORRUPT,
                         "%s is cut short: it has %" PRIu64 " bytes; restore a backup", run->path,
                         run->bytes);
    buffer_init(&foot);
    buffer_init(&index);
    const uint64_t foot_at = run->bytes - DISKWHEEL_RUN_FOOT;
    code = diskwheel_run_read(run, foot_at, DISKWHEEL_RUN_FOOT, &foot, ret_error);
    const bool has_foot = !code && memcmp(foot.data, DISKWHEEL_RUN_MAGIC, 8) == 0 &&
                          get_le(foot.data + 8, 4) == DISKWHEEL_RUN_VERSION &&
                          get_le(foot.data + 16, 8) == run->number &&
                          get_le(foot.data + 32, 8) <= foot_at &&
                          get_le(foot.data + 44, 4) == checksum_crc32c(0, foot.data, 44);
    if (!code && !has_foot)
        code = error_set(ret_error, ERROR_CORRUPT, "the end of %s is damaged; restore a backup",
                         run->path);
    if (!code) {
        run->id = get_le(foot.data + 24, 8);
        index_at = get_le(foot.data + 32, 8);
        code = diskwheel_run_read(run, index_at, foot_at - index_at, &index, ret_error);
        if (!code && (get_le(foot.data + 40, 4) != checksum_crc32c(0, index.data, index.size) ||
                      !diskwheel_run_read_index(run, buffer_bytes(&index), index_at)))
            code = error_set(ret_error, ERROR_CORRUPT,
                             "the index of %s is damaged; restore a backup", run->path);
    }
    if (code == ERROR_CORRUPT && diskwheel_run_mend_index(run, has_foot, index_at))
        code = ERROR_NONE;
    buffer_deinit(&index);
    buffer_deinit(&foot);
    return code;
}

enum error_code diskwheel_run_open(const struct disk_calls *disk, const char *folder,
                                   uint64_t number, uint16_t partition_count,
                                   struct diskwheel_run **ret_run, struct error *ret_error)
{
    return diskwheel_run_open_known(disk, folder, number, 0, partition_count, ret_run, ret_error);
}

enum error_code diskwheel_run_open_known(const struct disk_calls *disk, const char *folder,
                                         uint64_t number, uint64_t id, uint16_t partition_count,
                                         struct diskwheel_run **ret_run, struct error *ret_error)
{
    const size_t size = strlen(folder) + 1 + DISKWHEEL_RUN_NAME_SIZE;
    struct diskwheel_run *run = calloc(1, sizeof(*run) + size);
    char name[DISKWHEEL_RUN_NAME_SIZE];

    if (!run)
        return error_set(ret_error, ERROR_NO_MEMORY, "run");
    diskwheel_run_name(number, name);
    snprintf(run->path, size, "%s/%s", folder, name);
    run->disk = disk;
    run->number = number;
    run->id = id;
    run->partition_count = partition_count;
    run->file = -1;
    atomic_init(&run->references, 1);
    run->cuts = calloc(partition_count, sizeof(*run->cuts));
    run->kept_cuts = calloc(partition_count, sizeof(*run->kept_cuts));
    enum error_code code = run->cuts && run->kept_cuts
                               ? ERROR_NONE
                               : error_set(ret_error, ERROR_NO_MEMORY, "%s", run->path);
    int failed = code ? 0 : disk->open(disk, run->path, DISK_READ, &run->file);
    if (failed)
        run->file = -1;
    else if (!code)
        failed = disk->size(disk, run->file, &run->bytes);
    if (failed == ENOENT)
        code = error_set(ret_error, ERROR_CORRUPT, "%s is missing; restore a backup", run->path);
    else if (failed)
        code = disk_failed(failed, "open", run->path, ret_error);
    if (!code)
        code = diskwheel_run_load(run, ret_error);
    if (code) {
        diskwheel_run_release(run);
        return code;
    }
    *ret_run = run;
    return ERROR_NONE;
}

uint64_t diskwheel_run_memory(const struct diskwheel_run *run)
{
    uint64_t bytes = sizeof(*run) + run->slice_count * sizeof(*run->slices) +
                     2 * run->partition_count * sizeof(*run->cuts);

    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++) {
        const struct diskwheel_run_table *table = &run->tables[i];

        bytes += diskwheel_index_memory(&table->index) + table->filter_bytes +
                 table->index.count / 4 + table->record_count / 8;
    }
    return bytes;
}

void diskwheel_run_release(struct diskwheel_run *run)
{
    if (!run || atomic_fetch_sub(&run->references, 1) != 1)
        return;
    if (run->file >= 0)
        run->disk->close(run->disk, run->file);
    if (atomic_load(&run->is_over))
        run->disk->remove(run->disk, run->path);
    diskwheel_run_free_index(run);
    free((void *)(uintptr_t)run->cuts);
    free((void *)(uintptr_t)run->kept_cuts);
    free(run);
}

void diskwheel_run_mark(struct diskwheel_run *run, enum diskwheel_table table, uint32_t ordinal)
{
    struct diskwheel_run_table *of = &run->tables[table];
    const uint64_t bit = UINT64_C(1) << ordinal % 64;

    assert(ordinal < of->record_count);
    if (!(atomic_fetch_or(&of->marks[ordinal / 64], bit) & bit))
        atomic_fetch_add(&of->marked_count, 1);
}

/* Counts a block once, and its records once: a block with a flipped bit may lose them later. */
static void diskwheel_run_count_damage(struct diskwheel_run *run, enum diskwheel_table table,
                                       uint32_t block, uint32_t records)
{
    const unsigned shift = block % 32 * 2;
    const uint64_t damage = records ? DISKWHEEL_DAMAGE_LOST : DISKWHEEL_DAMAGE_TURNED;
    const uint64_t was =
        atomic_fetch_or(&run->tables[table].damaged[block / 32], damage << shift) >> shift;

    if (!(was & (DISKWHEEL_DAMAGE_TURNED | DISKWHEEL_DAMAGE_LOST)))
        atomic_fetch_add(&run->damaged_blocks, 1);
    if (!(was & DISKWHEEL_DAMAGE_LOST))
        atomic_fetch_add(&run->damaged_records, records);
}

void diskwheel_run_note_damage(struct diskwheel_run *run, enum diskwheel_table table,
                               uint32_t block)
{
    diskwheel_run_count_damage(run, table, block,
                               diskwheel_index_block(&run->tables[table].index, block).count);
}

void diskwheel_run_note_turned(struct diskwheel_run *run, enum diskwheel_table table,
                               uint32_t block)
{
    diskwheel_run_count_damage(run, table, block, 0);
}

const struct diskwheel_run_slice *diskwheel_run_find_slice(const struct diskwheel_run *run,
                                                           uint64_t partition)
{
    size_t low = 0, high = run->slice_count;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (run->slices[middle].partition < partition)
            low = middle + 1;
        else
            high = middle;
    }
    return low < run->slice_count && run->slices[low].partition == partition ? &run->slices[low]
                                                                             : NULL;
}

bool diskwheel_run_is_dense_at(const struct diskwheel_run *run, struct record_key key)
{
    const struct diskwheel_run_slice *slice = diskwheel_run_find_slice(run, key.high >> 48);

    return slice && slice->serial_min <= key.low && key.low <= slice->serial_max &&
           slice->rows >= (slice->serial_max - slice->serial_min) / DISKWHEEL_RUN_DENSE;
}

bool diskwheel_run_may_have(const struct diskwheel_run *run, enum diskwheel_table table,
                            struct record_key key)
{
    const struct diskwheel_run_table *of = &run->tables[table];
    const uint64_t at = key.high & RECORD_AT_MAX;

    if (table == DISKWHEEL_TIMERS) {
        const struct diskwheel_run_slice *slice = diskwheel_run_find_slice(run, key.high >> 48);

        if (!slice || at < slice->at_min || at > slice->at_max)
            return false;
        if (slice->serial_min <= key.low && key.low <= slice->serial_max)
            return true;
    }
    return run->is_mended ||
           diskwheel_run_filter_has(of->filter, of->filter_bytes, diskwheel_run_hash(table, key));
}

/* ---- walking ---- */

uint32_t diskwheel_run_rows_before(const struct diskwheel_run_table *table, struct record_key key)
{
    const struct diskwheel_index *index = &table->index;

    if (!index->count)
        return 0;
    return record_key_before(table->last, key)
               ? table->record_count
               : diskwheel_index_block(index, diskwheel_index_find(index, key)).ordinal;
}

/* If the open block is the one to read, and its last record is before the key, it is read on: a
 * search of keys in their order opens each block once. */
void diskwheel_cursor_seek(struct diskwheel_cursor *cursor, struct diskwheel_run *run,
                           enum diskwheel_table table, struct record_key from)
{
    const struct diskwheel_run_table *of = &run->tables[table];
    const bool is_behind = record_key_before(of->last, from);
    const uint32_t block = is_behind ? of->index.count : diskwheel_index_find(&of->index, from);
    const bool is_open = cursor->run == run && cursor->table == table && cursor->block.is_begun &&
                         cursor->next_block == block + 1 &&
                         record_key_before(cursor->block.key, from);

    cursor->run = run;
    cursor->table = table;
    cursor->from = from;
    if (is_open)
        return;
    cursor->next_block = block;
    cursor->block = (struct diskwheel_block){0};
}

bool diskwheel_cursor_bound(const struct diskwheel_cursor *cursor, struct record_key *ret_key)
{
    const struct diskwheel_run_table *table = &cursor->run->tables[cursor->table];

    if (cursor->block.left) {
        *ret_key = record_key_after(cursor->block.key);
        if (record_key_before(*ret_key, cursor->from))
            *ret_key = cursor->from;
        return true;
    }
    if (cursor->next_block == table->index.count)
        return false;
    *ret_key = diskwheel_index_first_from(&table->index, cursor->next_block, cursor->from);
    return true;
}

static enum error_code diskwheel_cursor_open_block(struct diskwheel_cursor *cursor,
                                                   struct error *ret_error)
{
    struct diskwheel_run *run = cursor->run;
    const struct diskwheel_run_table *table = &run->tables[cursor->table];
    const struct diskwheel_index_block block =
        diskwheel_index_block(&table->index, cursor->next_block++);

    cursor->block = (struct diskwheel_block){0};
    cursor->ordinal = block.ordinal - 1;
    __builtin_prefetch((const void *)(uintptr_t)&table->marks[block.ordinal / 64]);
    enum error_code code =
        diskwheel_run_read(run, block.offset, block.size, &cursor->stored, ret_error);
    if (code == ERROR_CORRUPT)
        diskwheel_run_note_damage(run, cursor->table, cursor->next_block - 1);
    if (code)
        return code;
    code = diskwheel_block_open(cursor->stored.data, cursor->stored.size, cursor->table,
                                (struct diskwheel_block_place){run->id, block.offset}, &cursor->raw,
                                &cursor->block);
    if (!code && cursor->block.left != block.count)
        code = ERROR_CORRUPT;
    if (!code && cursor->block.is_turned)
        diskwheel_run_note_turned(run, cursor->table, cursor->next_block - 1);
    if (!code)
        return ERROR_NONE;
    cursor->block = (struct diskwheel_block){0};
    if (code == ERROR_CORRUPT)
        diskwheel_run_note_damage(run, cursor->table, cursor->next_block - 1);
    return error_set(ret_error, code, "the block of %s at %" PRIu64 " is damaged", run->path,
                     block.offset);
}

enum error_code diskwheel_cursor_next(struct diskwheel_cursor *cursor, struct record_key *ret_key,
                                      struct bytes *ret_value, struct error *ret_error)
{
    const struct diskwheel_run_table *table = &cursor->run->tables[cursor->table];

    for (;;) {
        enum error_code code = diskwheel_block_next(&cursor->block, ret_key, ret_value);

        if (code == ERROR_NOT_FOUND) {
            if (cursor->next_block == table->index.count)
                return ERROR_NOT_FOUND;
            if ((code = diskwheel_cursor_open_block(cursor, ret_error)))
                return code;
            continue;
        }
        if (code) {
            cursor->block = (struct diskwheel_block){0};
            diskwheel_run_count_damage(cursor->run, cursor->table, cursor->next_block - 1, 1);
            return error_set(ret_error, code, "a block of %s is damaged", cursor->run->path);
        }
        cursor->ordinal++;
        if (!record_key_before(*ret_key, cursor->from) &&
            !diskwheel_run_is_marked(cursor->run, cursor->table, cursor->ordinal))
            return ERROR_NONE;
    }
}

void diskwheel_cursor_deinit(struct diskwheel_cursor *cursor)
{
    buffer_deinit(&cursor->stored);
    buffer_deinit(&cursor->raw);
}
