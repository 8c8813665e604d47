/* diskwheel_check.c - looks through the whole folder of a store on a wheel. */
#include "store/wheel/diskwheel_check.h"

#include "store/wheel/diskwheel_store.h"

#include <inttypes.h>
#include <stdlib.h>

static const enum rowop_table check_tables[DISKWHEEL_TABLES] = {
    [DISKWHEEL_TIMERS] = ROWOP_TIMERS,
    [DISKWHEEL_MOVED] = ROWOP_MOVED,
    [DISKWHEEL_NAMES] = ROWOP_NAMES,
};

struct diskwheel_checker {
    struct storage_checker checker;
    struct diskwheel_store *store;
    enum error_code code; /* ERROR_NO_MEMORY, or ERROR_NONE */
    struct error error;
};

/* ---- records as they are ---- */

/* Begins a walk over a table, with the newest of each record. If `one` is not NULL, the walk begins
 * there and reads only runs that may have this key. Returns false if out of memory. */
static bool diskwheel_check_merge(const struct diskwheel_store *store, enum diskwheel_table table,
                                  const struct record_key *one, struct diskwheel_merge *merge)
{
    const struct record_key from = one ? *one : (struct record_key){0, 0};

    diskwheel_merge_init(merge, table);
    if (!diskwheel_merge_add_stage(merge, store->active, NULL, from))
        return false;
    for (size_t i = store->view->count; i-- > 0;) {
        struct diskwheel_run *run = store->view->runs[i];

        if ((!one || diskwheel_run_may_have(run, table, *one)) &&
            !diskwheel_merge_add_run(merge, run, run->cuts, from))
            return false;
    }
    return true;
}

/* True for a block that is damaged or cannot be read. The look at the files reports it, and a walk
 * goes on after it. */
static bool diskwheel_check_is_told(enum error_code code)
{
    return code == ERROR_CORRUPT || code == ERROR_IO;
}

static enum error_code diskwheel_check_get(void *context, enum rowop_table table, struct bytes key,
                                           struct buffer *to)
{
    struct diskwheel_checker *checker = context;
    struct diskwheel_record record;
    struct diskwheel_merge merge;
    struct record_key at = {0};
    bool is_damaged = false;
    enum error_code code;

    if (table == ROWOP_MOVED)
        store_pointer_key_parse(key, &at);
    else
        store_row_key_parse(key, &at);
    const bool is_ready = diskwheel_check_merge(checker->store,
                                                table == ROWOP_TIMERS  ? DISKWHEEL_TIMERS
                                                : table == ROWOP_MOVED ? DISKWHEEL_MOVED
                                                                       : DISKWHEEL_NAMES,
                                                &at, &merge);
    while (diskwheel_check_is_told(code = is_ready ? diskwheel_merge_next(&merge, &record, NULL)
                                                   : ERROR_NO_MEMORY))
        is_damaged = true;
    if (code && code != ERROR_NOT_FOUND)
        checker->code = error_set(&checker->error, code, "check");
    if (!code && !record_key_equal(record.key, at))
        code = ERROR_NOT_FOUND;
    if (code == ERROR_NOT_FOUND && is_damaged)
        code = ERROR_CORRUPT; /* it may be in the damaged block */
    buffer_clear(to);
    if (!code)
        buffer_append_bytes(to, record.value);
    diskwheel_merge_deinit(&merge);
    return code;
}

static void diskwheel_check_table(struct diskwheel_checker *checker, enum diskwheel_table table)
{
    struct diskwheel_record record;
    struct diskwheel_merge merge;
    enum error_code code = diskwheel_check_merge(checker->store, table, NULL, &merge)
                               ? ERROR_NONE
                               : error_set(&checker->error, ERROR_NO_MEMORY, "check");

    while (!code) {
        code = diskwheel_merge_next(&merge, &record, &checker->error);
        if (diskwheel_check_is_told(code)) {
            code = ERROR_NONE;
        } else if (!code) {
            const struct store_key key = table == DISKWHEEL_MOVED ? store_pointer_key(record.key)
                                                                  : store_row_key(record.key);

            storage_checker_look(&checker->checker, check_tables[table],
                                 (struct bytes){key.data, key.size}, record.value);
        }
    }
    diskwheel_merge_deinit(&merge);
    if (code != ERROR_NOT_FOUND)
        checker->code = code;
}

/* ---- what a partition has once ---- */

static void diskwheel_check_tenants(struct diskwheel_checker *checker,
                                    const struct diskwheel_part *part, uint16_t partition)
{
    const struct tenant_counts_tenant *tenant;
    struct buffer value;
    size_t cursor = 0;

    buffer_init(&value);
    while ((tenant = tenant_counts_next(&part->counts.tenant_counts, &cursor))) {
        const struct store_tenant_key key =
            store_tenant_key(partition, (struct bytes){tenant->name, tenant->name_size});
        const struct bytes at = {key.data, key.size};

        buffer_clear(&value);
        record_number_encode(&value, at, atomic_load(&tenant->count));
        storage_checker_look(&checker->checker, ROWOP_META, at, buffer_bytes(&value));
    }
    buffer_deinit(&value);
}

static void diskwheel_check_part(struct diskwheel_checker *checker, uint16_t partition)
{
    const struct diskwheel_part *part = &checker->store->parts[partition];
    const struct store_key meta = store_meta_key(partition), at = store_place_key(partition);
    struct buffer place;

    if (part->meta.size)
        storage_checker_look(&checker->checker, ROWOP_META, (struct bytes){meta.data, meta.size},
                             buffer_bytes(&part->meta));
    for (size_t i = 0; i < STORAGE_NOTE_COUNT; i++) {
        const struct store_key note = store_note_key((enum storage_note)i, partition);

        if (part->notes[i].size)
            storage_checker_look(&checker->checker, ROWOP_META,
                                 (struct bytes){note.data, note.size},
                                 buffer_bytes(&part->notes[i]));
    }
    diskwheel_check_tenants(checker, part, partition);
    if (!part->place.next)
        return;
    buffer_init(&place);
    record_place_encode(&place, (struct bytes){at.data, at.size}, &part->place);
    storage_checker_look(&checker->checker, ROWOP_META, (struct bytes){at.data, at.size},
                         buffer_bytes(&place));
    buffer_deinit(&place);
}

/* ---- files ---- */

/* A block that is looked at, and what of it was found. */
struct diskwheel_check_block {
    struct diskwheel_run *run;
    enum diskwheel_table table;
    uint32_t at, records;
    bool is_turned; /* a flipped bit of it was turned back */
    uint32_t *rows; /* [partition_count]: rows of the run in each partition */
    struct buffer stored, raw;
};

static const char *diskwheel_check_name(const struct diskwheel_run *run)
{
    const char *const slash = strrchr(run->path, '/');

    return slash ? slash + 1 : run->path;
}

/* Compares a record with the index and the filters. Returns what is wrong; NULL if nothing is. */
static const char *diskwheel_check_record(struct diskwheel_check_block *block, bool is_first,
                                          struct record_key key)
{
    const struct diskwheel_run *run = block->run;
    const struct diskwheel_run_table *table = &run->tables[block->table];
    const uint64_t partition = key.high >> 48;

    if (is_first && !record_key_equal(diskwheel_index_first(&table->index, block->at), key))
        return "its first key is not the one of the index";
    if (record_key_before(table->last, key) ||
        (block->at + 1 < table->index.count &&
         !record_key_before(key, diskwheel_index_first(&table->index, block->at + 1))))
        return "a key belongs into another block";
    if (block->table == DISKWHEEL_TIMERS) {
        const struct diskwheel_run_slice *slice = diskwheel_run_find_slice(run, partition);

        if (!slice || (key.high & RECORD_AT_MAX) < slice->at_min)
            return "the index has no such row of a partition";
        block->rows[partition]++;
    }
    return diskwheel_run_may_have(run, block->table, key) ? NULL : "a record of it cannot be found";
}

/* Reads a block and its records. Returns what is wrong; NULL if nothing is. */
static const char *diskwheel_check_read(struct diskwheel_checker *checker,
                                        struct diskwheel_check_block *block)
{
    const struct diskwheel_run *run = block->run;
    const struct diskwheel_index_block at =
        diskwheel_index_block(&run->tables[block->table].index, block->at);
    struct diskwheel_block records;
    struct record_key key;
    struct bytes value;
    enum error_code code;
    size_t got = 0;

    block->is_turned = false;
    buffer_clear(&block->stored);
    char *stored = buffer_reserve(&block->stored, at.size);
    if (!stored) {
        checker->code = error_set(&checker->error, ERROR_NO_MEMORY, "check");
        return NULL;
    }
    const int failed = run->disk->read(run->disk, run->file, at.offset, stored, at.size, &got);
    if (failed)
        return "it cannot be read";
    if (got != at.size)
        return "the file ends within it";
    code = diskwheel_block_open(stored, got, block->table,
                                (struct diskwheel_block_place){run->id, at.offset}, &block->raw,
                                &records);
    if (code)
        return "its checksum or its head is wrong";
    block->is_turned = records.is_turned;
    if (records.left != block->records)
        return "its number of records is not the one of the index";
    for (bool is_first = true; !(code = diskwheel_block_next(&records, &key, &value));
         is_first = false) {
        const char *const wrong = diskwheel_check_record(block, is_first, key);

        if (wrong)
            return wrong;
    }
    return code == ERROR_NOT_FOUND ? NULL : "its records are not in order, or cut short";
}

/* Counts the records of a damaged block in each partition that may have some of them. */
static void diskwheel_check_count_damage(struct diskwheel_checker *checker,
                                         const struct diskwheel_check_block *block)
{
    const struct diskwheel_run_table *table = &block->run->tables[block->table];
    const uint64_t first = diskwheel_index_first(&table->index, block->at).high >> 48;
    const uint64_t last = block->at + 1 < table->index.count
                              ? diskwheel_index_first(&table->index, block->at + 1).high >> 48
                              : table->last.high >> 48;

    checker->checker.check->blocks_unread++;
    for (uint64_t i = first; block->table == DISKWHEEL_TIMERS && i <= last; i++)
        if (i < checker->store->partition_count)
            checker->checker.check->partitions[i].damaged += block->records;
}

/* Returns the position after the last block. */
static uint64_t diskwheel_check_end(const struct diskwheel_run *run)
{
    uint64_t end = 0;

    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++) {
        const struct diskwheel_index *index = &run->tables[i].index;

        if (index->count) {
            const struct diskwheel_index_block last =
                diskwheel_index_block(index, index->count - 1);

            end = last.offset + last.size;
        }
    }
    return end;
}

static void diskwheel_check_run(struct diskwheel_checker *checker, struct diskwheel_run *run)
{
    static const char *const names[DISKWHEEL_TABLES] = {"timers", "moved", "names"};
    struct diskwheel_check_block block = {
        .run = run, .rows = calloc(run->partition_count, sizeof(*block.rows))};
    bool is_whole = true;

    if (run->is_mended)
        storage_checker_find(&checker->checker,
                             "%s: byte %" PRIu64 " or later: its index or its end is damaged; all "
                             "records are there, and the index is made anew from them",
                             diskwheel_check_name(run), diskwheel_check_end(run));
    if (!block.rows)
        checker->code = error_set(&checker->error, ERROR_NO_MEMORY, "check");
    for (; block.table < DISKWHEEL_TABLES && !checker->code; block.table++) {
        const struct diskwheel_index *index = &run->tables[block.table].index;

        for (block.at = 0; block.at < index->count && !checker->code; block.at++) {
            const struct diskwheel_index_block at = diskwheel_index_block(index, block.at);

            block.records = at.count;
            const char *const wrong = diskwheel_check_read(checker, &block);
            if (!wrong && block.is_turned)
                storage_checker_find(&checker->checker,
                                     "%s: byte %" PRIu64 ": a bit of the block of %" PRIu32
                                     " bytes is flipped; each read turns it back, and nothing is "
                                     "lost",
                                     diskwheel_check_name(run), at.offset, at.size);
            if (!wrong)
                continue;
            is_whole = false;
            storage_checker_find(
                &checker->checker,
                "%s: byte %" PRIu64 ": the block of %" PRIu32 " records of the table \"%s\": %s",
                diskwheel_check_name(run), at.offset, block.records, names[block.table], wrong);
            diskwheel_check_count_damage(checker, &block);
        }
    }
    for (size_t i = 0; i < run->slice_count && is_whole && !checker->code; i++)
        if (run->slices[i].rows != block.rows[run->slices[i].partition])
            storage_checker_find(&checker->checker,
                                 "%s: the index counts %" PRIu32
                                 " rows of partition %u, and there are %" PRIu32,
                                 diskwheel_check_name(run), run->slices[i].rows,
                                 run->slices[i].partition, block.rows[run->slices[i].partition]);
    free(block.rows);
    buffer_deinit(&block.stored);
    buffer_deinit(&block.raw);
}

/* ---- all of it ---- */

static void diskwheel_check_all(struct diskwheel_checker *checker)
{
    const struct diskwheel_store *store = checker->store;
    const struct diskwheel_key *aside = (const void *)store->aside.data;

    if (store->corrupt_blocks && store->corrupt_records) /* else all of their records were read */
        storage_checker_find(&checker->checker,
                             FOLDER_STATE_NAME
                             ": %" PRIu64 " damaged blocks were in runs that are gone; with "
                             "them and those set aside %" PRIu64 " records are lost",
                             store->corrupt_blocks, store->corrupt_records);
    storage_checker_load_metas(&checker->checker, &checker->store->storage);
    for (uint16_t i = 0; i < store->partition_count; i++)
        diskwheel_check_part(checker, i);
    for (size_t i = 0; i < store->aside.size / sizeof(*aside); i++) {
        const struct store_key key = aside[i].table == DISKWHEEL_MOVED
                                         ? store_pointer_key(aside[i].key)
                                         : store_row_key(aside[i].key);

        storage_checker_look_set_aside(&checker->checker, check_tables[aside[i].table],
                                       (struct bytes){key.data, key.size});
    }
    for (size_t i = 0; i < store->view->count && !checker->code; i++)
        diskwheel_check_run(checker, store->view->runs[i]);
    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES && !checker->code; i++)
        diskwheel_check_table(checker, i);
}

enum error_code diskwheel_check(struct storage *storage, struct storage_check *check,
                                struct error *ret_error)
{
    struct diskwheel_store *store = diskwheel_store_of(storage);
    struct diskwheel_checker checker = {.checker = {.check = check, .get = diskwheel_check_get},
                                        .store = store};

    checker.checker.context = &checker;
    check->format = FOLDER_FORMAT;
    check->disk_bytes = store->folder_state.bytes;
    check->was_closed = store->folder_state.was_closed;
    check->partition_count = store->partition_count;
    if (storage_checker_begin(&checker.checker))
        diskwheel_check_all(&checker);
    const enum error_code code = storage_checker_end(&checker.checker, ret_error);
    return code || !checker.code ? code
                                 : error_set(ret_error, checker.code, "%s", checker.error.text);
}
