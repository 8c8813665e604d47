/* diskwheel_run_mend.c - makes the index of a run anew from its blocks. */
#include "store/wheel/diskwheel_run_private.h"

#include <stdlib.h>

struct run_mend_block {
    struct record_key first;
    struct diskwheel_index_block block;
};

/* What is known of the tables and partitions so far. */
struct run_mend {
    struct diskwheel_run *run;
    struct buffer blocks[DISKWHEEL_TABLES]; /* struct run_mend_block */
    struct buffer slices;                   /* struct diskwheel_run_slice */
    struct buffer stored, raw;
    uint64_t offset; /* of the next block */
    enum diskwheel_table table;
};

static struct diskwheel_run_slice *run_mend_slice(struct run_mend *mend, uint64_t partition)
{
    const struct diskwheel_run_slice slice = {
        .partition = (uint16_t)partition, .at_min = RECORD_AT_MAX, .serial_max = UINT64_MAX};
    struct diskwheel_run_slice *slices = (void *)mend->slices.data;
    const size_t count = mend->slices.size / sizeof(slice);

    if (count && slices[count - 1].partition == partition)
        return &slices[count - 1];
    buffer_append(&mend->slices, &slice, sizeof(slice));
    slices = (void *)mend->slices.data;
    return buffer_failed(&mend->slices) ? NULL : &slices[count];
}

/* Adds the records of a block to the table and the partitions. Returns false if one is damaged. */
static bool run_mend_add(struct run_mend *mend, struct diskwheel_block *records, uint32_t size)
{
    struct diskwheel_run_table *table = &mend->run->tables[mend->table];
    struct run_mend_block added = {.block = {.offset = mend->offset,
                                             .size = size,
                                             .ordinal = table->record_count,
                                             .count = (uint16_t)records->left}};
    struct record_key key;
    struct bytes value;
    enum error_code code;

    while (!(code = diskwheel_block_next(records, &key, &value))) {
        const uint64_t partition = key.high >> 48;

        if (added.block.ordinal == table->record_count)
            added.first = key;
        table->last = key;
        table->record_count++;
        if (mend->table != DISKWHEEL_TIMERS)
            continue;
        struct diskwheel_run_slice *slice =
            partition < mend->run->partition_count ? run_mend_slice(mend, partition) : NULL;
        if (!slice)
            return false;
        slice->rows++;
        if ((key.high & RECORD_AT_MAX) < slice->at_min)
            slice->at_min = key.high & RECORD_AT_MAX;
        slice->at_max = key.high & RECORD_AT_MAX; /* keys rise */
    }
    buffer_append(&mend->blocks[mend->table], &added, sizeof(added));
    return code == ERROR_NOT_FOUND;
}

/* Reads the next block. Returns false if there is no whole one. */
static bool run_mend_next(struct run_mend *mend, uint64_t end)
{
    const struct diskwheel_run *run = mend->run;
    struct diskwheel_block records;
    char head[DISKWHEEL_BLOCK_HEAD];
    size_t got = 0;

    if (end - mend->offset < sizeof(head) ||
        run->disk->read(run->disk, run->file, mend->offset, head, sizeof(head), &got) ||
        got != sizeof(head))
        return false;
    const uint64_t size = sizeof(head) + get_le(head + 4, 4);
    const enum diskwheel_table table = (enum diskwheel_table)(uint8_t)head[10];
    if (size > end - mend->offset || size > DISKWHEEL_BLOCK_MAX || table >= DISKWHEEL_TABLES ||
        table < mend->table)
        return false;
    buffer_clear(&mend->stored);
    char *stored = buffer_reserve(&mend->stored, size);
    if (!stored || run->disk->read(run->disk, run->file, mend->offset, stored, size, &got) ||
        got != size ||
        diskwheel_block_open(stored, size, table,
                             (struct diskwheel_block_place){run->id, mend->offset}, &mend->raw,
                             &records))
        return false;
    mend->table = table;
    if (!run_mend_add(mend, &records, (uint32_t)size))
        return false;
    mend->offset += size;
    return true;
}

/* Gives the tables and partitions to the run. Returns false if out of memory. */
static bool run_mend_end(struct run_mend *mend)
{
    struct diskwheel_run *run = mend->run;
    bool is_whole = !buffer_failed(&mend->slices);

    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++) {
        struct diskwheel_run_table *table = &run->tables[i];
        const struct run_mend_block *blocks = (const void *)mend->blocks[i].data;
        const uint32_t count = (uint32_t)(mend->blocks[i].size / sizeof(*blocks));

        is_whole = diskwheel_index_init(&table->index, count) && is_whole &&
                   !buffer_failed(&mend->blocks[i]);
        table->marks = calloc(table->record_count / 64 + 1, sizeof(*table->marks));
        table->damaged = calloc(count / 32 + 1, sizeof(*table->damaged));
        is_whole = is_whole && table->marks && table->damaged;
        for (uint32_t k = 0; is_whole && k < count; k++)
            diskwheel_index_add(&table->index, blocks[k].first, &blocks[k].block);
        if (is_whole)
            diskwheel_index_end(&table->index);
    }
    run->slices = malloc(mend->slices.size + sizeof(*run->slices));
    if (!is_whole || !run->slices)
        return false;
    run->slice_count = mend->slices.size / sizeof(*run->slices);
    if (mend->slices.size)
        memcpy(run->slices, mend->slices.data, mend->slices.size);
    return true;
}

bool diskwheel_run_mend(struct diskwheel_run *run, uint64_t end, uint64_t *ret_index_at)
{
    struct run_mend mend = {.run = run};

    while (run_mend_next(&mend, end))
        continue;
    const bool is_mended = run_mend_end(&mend);
    *ret_index_at = mend.offset;
    run->is_mended = true;
    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++)
        buffer_deinit(&mend.blocks[i]);
    buffer_deinit(&mend.slices);
    buffer_deinit(&mend.stored);
    buffer_deinit(&mend.raw);
    return is_mended;
}
