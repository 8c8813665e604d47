/* diskwheel_run_write.c - writes the file of a run; see diskwheel_run.h. */
#include "base/checksum.h"
#include "base/random.h"
#include "store/varint.h"
#include "store/wheel/diskwheel_run_private.h"
#include "sys/entropy.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    RUN_WRITE_SIZE = 1 << 20,
    RUN_SYNC_SIZE = 64 << 20, /* maximum of bytes of a run that are not synced */
};

/* What the index will say of a table. */
struct diskwheel_writer_table {
    struct buffer blocks; /* encoded */
    struct buffer hashes; /* of the records in the filter, 8 bytes each */
    uint64_t block_count, record_count;
    struct record_key last, last_first;
};

struct diskwheel_writer {
    const struct disk_calls *disk;
    uint64_t number, id;
    uint64_t written, synced; /* bytes in the file */
    int file;
    enum diskwheel_table table;
    struct diskwheel_block_builder builder;
    struct diskwheel_writer_table tables[DISKWHEEL_TABLES];
    struct buffer slices; /* struct diskwheel_run_slice of all partitions so far */
    struct buffer out;    /* what follows in the file */
    enum error_code code;
    struct error error;
    char path[];
};

void diskwheel_run_name(uint64_t number, char ret_name[DISKWHEEL_RUN_NAME_SIZE])
{
    snprintf(ret_name, DISKWHEEL_RUN_NAME_SIZE, "run-%016" PRIx64, number);
}

enum error_code diskwheel_writer_open(const struct disk_calls *disk, const char *folder,
                                      uint64_t number, struct diskwheel_writer **ret_writer,
                                      struct error *ret_error)
{
    const size_t size = strlen(folder) + 1 + DISKWHEEL_RUN_NAME_SIZE;
    struct diskwheel_writer *writer = calloc(1, sizeof(*writer) + size);
    char name[DISKWHEEL_RUN_NAME_SIZE];

    if (!writer)
        return error_set(ret_error, ERROR_NO_MEMORY, "run");
    diskwheel_run_name(number, name);
    snprintf(writer->path, size, "%s/%s", folder, name);
    writer->disk = disk;
    writer->number = number;
    enum error_code code = entropy_u64(&writer->id);
    if (code) {
        free(writer);
        return error_set(ret_error, code, "an id of a run");
    }
    const int failed = disk->open(disk, writer->path, DISK_MAKE, &writer->file);
    if (failed) {
        code = disk_failed(failed, "make", writer->path, ret_error);
        free(writer);
        return code;
    }
    *ret_writer = writer;
    return ERROR_NONE;
}

static void diskwheel_writer_fail(struct diskwheel_writer *writer, enum error_code code)
{
    if (!writer->code)
        writer->code = error_set(&writer->error, code, "%s", writer->path);
}

static void diskwheel_writer_sync(struct diskwheel_writer *writer)
{
    const int failed = writer->code ? 0 : writer->disk->sync(writer->disk, writer->file);

    if (failed)
        writer->code = disk_failed(failed, "sync", writer->path, &writer->error);
}

static void diskwheel_writer_flush(struct diskwheel_writer *writer)
{
    if (buffer_failed(&writer->out))
        diskwheel_writer_fail(writer, ERROR_NO_MEMORY);
    if (!writer->code) {
        const int failed = writer->disk->write(writer->disk, writer->file, writer->written,
                                               buffer_bytes(&writer->out));

        if (failed)
            writer->code = disk_failed(failed, "write", writer->path, &writer->error);
    }
    writer->written += writer->out.size;
    buffer_clear(&writer->out);
}

/* The bytes become durable while the next blocks are made, so the sync at the end is short. */
static void diskwheel_writer_flush_early(struct diskwheel_writer *writer)
{
    const uint64_t at = writer->written, size = writer->out.size;

    diskwheel_writer_flush(writer);
    if (!writer->code) {
        const int failed = writer->disk->start_sync(writer->disk, writer->file, at, size);

        if (failed)
            writer->code = disk_failed(failed, "sync", writer->path, &writer->error);
    }
    if (writer->written - writer->synced < RUN_SYNC_SIZE)
        return;
    writer->synced = writer->written;
    diskwheel_writer_sync(writer);
}

uint64_t diskwheel_writer_bytes(const struct diskwheel_writer *writer)
{
    return writer->written + writer->out.size;
}

static void diskwheel_writer_end_block(struct diskwheel_writer *writer)
{
    struct diskwheel_writer_table *table = &writer->tables[writer->table];
    const struct diskwheel_block_place place = {writer->id, diskwheel_writer_bytes(writer)};
    const struct record_key first = writer->builder.first;
    const unsigned count = writer->builder.count;

    if (!count)
        return;
    table->last = writer->builder.last;
    const size_t size = diskwheel_block_end(&writer->builder, writer->table, place, &writer->out);
    if (!size) { /* what follows is not written, but is in order again */
        diskwheel_writer_fail(writer, ERROR_NO_MEMORY);
        buffer_clear(&writer->builder.raw);
        writer->builder.count = 0;
        return;
    }
    varint_append(&table->blocks, first.high - table->last_first.high);
    varint_append(&table->blocks, first.low);
    varint_append(&table->blocks, size);
    varint_append(&table->blocks, count);
    table->last_first = first;
    table->block_count++;
    table->record_count += count;
    if (writer->out.size >= RUN_WRITE_SIZE)
        diskwheel_writer_flush_early(writer);
}

/* Counts a row of TIMERS in its partition. */
static void diskwheel_writer_count(struct diskwheel_writer *writer, struct record_key key,
                                   bool is_new)
{
    const uint16_t partition = (uint16_t)(key.high >> 48);
    struct diskwheel_run_slice *slices = (void *)writer->slices.data;
    size_t count = writer->slices.size / sizeof(*slices);

    if (!count || slices[count - 1].partition != partition) {
        const struct diskwheel_run_slice slice = {.partition = partition,
                                                  .at_min = key.high & RECORD_AT_MAX};

        buffer_append(&writer->slices, &slice, sizeof(slice));
        if (buffer_failed(&writer->slices))
            return;
        slices = (void *)writer->slices.data;
        count++;
    }
    struct diskwheel_run_slice *slice = &slices[count - 1];
    slice->rows++;
    slice->at_max = key.high & RECORD_AT_MAX;
    if (!is_new)
        return;
    if (!slice->serial_max || key.low < slice->serial_min)
        slice->serial_min = key.low;
    if (key.low > slice->serial_max)
        slice->serial_max = key.low;
}

void diskwheel_writer_add(struct diskwheel_writer *writer, enum diskwheel_table table,
                          struct record_key key, bool is_new, struct bytes value)
{
    assert(table >= writer->table);
    if (table != writer->table || diskwheel_block_is_full(&writer->builder))
        diskwheel_writer_end_block(writer);
    writer->table = table;
    if (table == DISKWHEEL_TIMERS)
        diskwheel_writer_count(writer, key, is_new);
    if (table != DISKWHEEL_TIMERS || !is_new) {
        const uint64_t hash = diskwheel_run_hash(table, key);

        buffer_append(&writer->tables[table].hashes, &hash, sizeof(hash));
    }
    diskwheel_block_add(&writer->builder, key, value);
}

static void diskwheel_writer_put_filter(struct buffer *to, const struct buffer *hashes)
{
    const size_t count = hashes->size / sizeof(uint64_t);
    const size_t bytes = (count * DISKWHEEL_FILTER_BITS + 8 * DISKWHEEL_FILTER_LINE - 1) /
                         (8 * DISKWHEEL_FILTER_LINE) * DISKWHEEL_FILTER_LINE;
    const uint64_t *all = (const void *)hashes->data;

    varint_append(to, bytes);
    char *filter = bytes ? buffer_reserve(to, bytes) : NULL;
    if (!filter)
        return;
    memset(filter, 0, bytes);
    for (size_t i = 0; i < count; i++) {
        char *line = filter + diskwheel_run_filter_line(all[i], bytes);
        const uint64_t bits = random_mix(all[i]);

        for (unsigned probe = 0; probe < DISKWHEEL_FILTER_PROBES; probe++) {
            const unsigned bit = diskwheel_run_filter_bit(bits, probe);

            line[bit / 8] |= (char)(1 << bit % 8);
        }
    }
    to->size += bytes;
}

static void diskwheel_writer_put_index(struct diskwheel_writer *writer, struct buffer *index)
{
    const struct diskwheel_run_slice *slices = (const void *)writer->slices.data;
    const size_t slice_count = writer->slices.size / sizeof(*slices);

    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++) {
        const struct diskwheel_writer_table *table = &writer->tables[i];

        varint_append(index, table->block_count);
        varint_append(index, table->record_count);
        buffer_append_bytes(index, buffer_bytes(&table->blocks));
        varint_append(index, table->last.high);
        varint_append(index, table->last.low);
        if (buffer_failed(&table->blocks) || buffer_failed(&table->hashes))
            diskwheel_writer_fail(writer, ERROR_NO_MEMORY);
    }
    varint_append(index, slice_count);
    for (size_t i = 0; i < slice_count; i++) {
        varint_append(index, slices[i].partition);
        varint_append(index, slices[i].rows);
        varint_append(index, slices[i].at_min);
        varint_append(index, slices[i].at_max);
        varint_append(index, slices[i].serial_min);
        varint_append(index, slices[i].serial_max);
    }
    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++)
        diskwheel_writer_put_filter(index, &writer->tables[i].hashes);
    if (buffer_failed(index) || buffer_failed(&writer->slices))
        diskwheel_writer_fail(writer, ERROR_NO_MEMORY);
}

static void diskwheel_writer_put_foot(struct diskwheel_writer *writer)
{
    const uint64_t index_at = diskwheel_writer_bytes(writer);
    struct buffer index;
    char foot[DISKWHEEL_RUN_FOOT] = DISKWHEEL_RUN_MAGIC;

    buffer_init(&index);
    diskwheel_writer_put_index(writer, &index);
    buffer_append_bytes(&writer->out, buffer_bytes(&index));
    put_le(foot + 8, DISKWHEEL_RUN_VERSION, 4);
    put_le(foot + 16, writer->number, 8);
    put_le(foot + 24, writer->id, 8);
    put_le(foot + 32, index_at, 8);
    put_le(foot + 40, checksum_crc32c(0, index.data, index.size), 4);
    put_le(foot + 44, checksum_crc32c(0, foot, 44), 4);
    buffer_append(&writer->out, foot, sizeof(foot));
    buffer_deinit(&index);
}

static void diskwheel_writer_free(struct diskwheel_writer *writer)
{
    writer->disk->close(writer->disk, writer->file);
    for (enum diskwheel_table i = 0; i < DISKWHEEL_TABLES; i++) {
        buffer_deinit(&writer->tables[i].blocks);
        buffer_deinit(&writer->tables[i].hashes);
    }
    buffer_deinit(&writer->builder.raw);
    buffer_deinit(&writer->slices);
    buffer_deinit(&writer->out);
    free(writer);
}

enum error_code diskwheel_writer_end(struct diskwheel_writer *writer, struct error *ret_error)
{
    diskwheel_writer_end_block(writer);
    diskwheel_writer_put_foot(writer);
    diskwheel_writer_flush(writer);
    diskwheel_writer_sync(writer);
    const enum error_code code = writer->code;
    if (code) {
        error_set(ret_error, code, "%s", writer->error.text);
        diskwheel_writer_drop(writer);
    } else {
        diskwheel_writer_free(writer);
    }
    return code;
}

void diskwheel_writer_drop(struct diskwheel_writer *writer)
{
    if (!writer)
        return;
    writer->disk->remove(writer->disk, writer->path);
    diskwheel_writer_free(writer);
}
