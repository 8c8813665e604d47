/*
 * log_files.c - appending to a log in files, and the life of its segments.
 *
 * An append that failed may be on the disk. So nothing is written behind it: the next append begins
 * a new segment, whose header says where the one before ended; once that is durable, the failed
 * append is no part of the log. A new segment becomes durable in this order: its header, its name,
 * the chain.
 */
#include "log/files/log_files_private.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOG_ZEROS = 256 * 1024, LOG_ZEROS_UNSYNCED = 2 << 20, LOG_FRAME_KEEP = 4 << 20 };

/* ---- paths and errors ---- */

struct log_path log_path_of(const struct log_files *files, const char *name)
{
    struct log_path path;

    snprintf(path.text, sizeof(path.text), "%s/%s", files->folder, name);
    return path;
}

struct log_path log_path_of_segment(const struct log_files *files, uint64_t number)
{
    char name[48];

    snprintf(name, sizeof(name), "%012" PRIu64 ".segment", number);
    return log_path_of(files, name);
}

uint64_t log_path_number(const char *name)
{
    char again[48];
    uint64_t number = strtoull(name, NULL, 10);

    snprintf(again, sizeof(again), "%012" PRIu64 ".segment", number);
    return strcmp(name, again) == 0 ? number : 0;
}

/* ---- the chain ---- */

/* False if the folder was replaced, and its chain is that of another log. */
static bool log_files_is_own_chain(const struct log_files *files, int file)
{
    char contents[2 * SEGMENT_CHAIN_SLOT];
    struct segment_chain found;
    size_t size = 0;

    return files->disk->read(files->disk, file, 0, contents, sizeof(contents), &size) ||
           !segment_chain_decode((struct bytes){contents, size}, &found) ||
           memcmp(found.id, files->chain.id, sizeof(found.id)) == 0;
}

static enum error_code log_files_write_slot(const struct log_files *files,
                                            const struct segment_chain *chain,
                                            struct error *ret_error)
{
    struct log_path path = log_path_of(files, LOG_FILES_CHAIN);
    char slot[SEGMENT_CHAIN_SIZE];
    int file;

    segment_chain_encode(chain, slot);
    int error = files->disk->open(files->disk, path.text, DISK_WRITE, &file);
    if (error)
        return disk_failed(error, "write", path.text, ret_error);
    error =
        log_files_is_own_chain(files, file)
            ? files->disk->write(files->disk, file, (chain->generation & 1) * SEGMENT_CHAIN_SLOT,
                                 (struct bytes){slot, sizeof(slot)})
            : ESTALE;
    if (!error)
        error = files->disk->sync(files->disk, file);
    files->disk->close(files->disk, file);
    return error ? disk_failed(error, "write", path.text, ret_error) : ERROR_NONE;
}

enum error_code log_files_put_chain(struct log_files *files, const struct segment_chain *chain,
                                    struct error *ret_error)
{
    const enum error_code code = log_files_write_slot(files, chain, ret_error);

    if (!code)
        files->chain = *chain;
    return code;
}

enum error_code log_files_write_chain(struct log_files *files, const struct segment_chain *chain,
                                      struct error *ret_error)
{
    struct segment_chain fresh = *chain;

    fresh.generation = files->chain.generation + 1;
    return log_files_put_chain(files, &fresh, ret_error);
}

/* Waits until no trim is writing the chain. The caller holds the lock, which that trim has
 * released. */
static void log_files_wait_for_chain(struct log_files *files)
{
    while (files->is_writing_chain)
        pthread_cond_wait(&files->changed, &files->lock);
}

/* Removes the mark of a clean stop from the chain, before anything else is written. */
static enum error_code log_files_mark(struct log_files *files, struct error *ret_error)
{
    if (!files->chain.is_closed)
        return ERROR_NONE;
    log_files_wait_for_chain(files);
    struct segment_chain chain = files->chain;
    chain.is_closed = false;
    return log_files_write_chain(files, &chain, ret_error);
}

/* ---- spares ---- */

/* Writes and syncs zeros in pieces, so that the sync of an append waits for one piece at most. */
static int log_files_fill(const struct disk_calls *disk, int file, uint64_t bytes)
{
    char *zeros = calloc(1, LOG_ZEROS);
    int error = zeros ? 0 : ENOMEM;

    for (uint64_t at = 0; !error && at < bytes; at += LOG_ZEROS) {
        uint64_t left = bytes - at;

        error =
            disk->write(disk, file, at, (struct bytes){zeros, left < LOG_ZEROS ? left : LOG_ZEROS});
        if (!error && (at + LOG_ZEROS) % LOG_ZEROS_UNSYNCED == 0)
            error = disk->sync(disk, file);
    }
    free(zeros);
    return error ? error : disk->sync(disk, file);
}

/* Makes a spare. It gets its name when its contents are durable. */
static enum error_code log_files_write_spare(struct log_files *files, uint64_t bytes,
                                             struct error *ret_error)
{
    struct log_path fresh = log_path_of(files, LOG_FILES_SPARE ".new"),
                    path = log_path_of(files, LOG_FILES_SPARE);
    int file, error = files->disk->open(files->disk, fresh.text, DISK_MAKE, &file);

    if (error)
        return disk_failed(error, "make", fresh.text, ret_error);
    error = log_files_fill(files->disk, file, bytes);
    files->disk->close(files->disk, file);
    if (!error)
        error = files->disk->rename(files->disk, fresh.text, path.text);
    if (!error)
        return ERROR_NONE;
    files->disk->remove(files->disk, fresh.text);
    return disk_failed(error, "make", fresh.text, ret_error);
}

enum error_code log_files_make_spare(struct log_files *files, uint64_t bytes,
                                     struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    pthread_mutex_lock(&files->lock);
    while (files->is_making_spare)
        pthread_cond_wait(&files->changed, &files->lock);
    if (files->spare_bytes < bytes) {
        files->is_making_spare = true;
        pthread_mutex_unlock(&files->lock);
        code = log_files_write_spare(files, bytes, ret_error);
        pthread_mutex_lock(&files->lock);
        files->is_making_spare = false;
        if (!code)
            files->spare_bytes = bytes;
        pthread_cond_broadcast(&files->changed);
    }
    pthread_mutex_unlock(&files->lock);
    return code;
}

/* ---- a new segment ---- */

bool log_files_reserve_part(struct log_files *files)
{
    if (files->part_count < files->part_capacity)
        return true;
    size_t capacity = files->part_capacity ? 2 * files->part_capacity : 8;
    struct log_part *parts = realloc(files->parts, capacity * sizeof(*parts));
    if (!parts)
        return false;
    files->parts = parts;
    files->part_capacity = capacity;
    return true;
}

void log_files_add_part(struct log_files *files, const struct log_part *part)
{
    assert(files->part_count < files->part_capacity);
    files->parts[files->part_count++] = *part;
}

static struct log_part log_files_plan(const struct log_files *files,
                                      struct segment_header *ret_header)
{
    const struct log_part *last = files->part_count ? &files->parts[files->part_count - 1] : NULL;
    uint64_t number = files->chain.last;

    if (last && last->number > number)
        number = last->number;
    struct segment_header header = {
        .number = number + 1,
        .bytes = files->spare_bytes,
        .first = files->next,
        .previous_end = last ? last->end : 0,
        .previous_sum = last ? last->sum : 0,
        .is_unsynced = files->options.sync == LOG_FILES_SYNC_NEVER,
    };
    memcpy(header.id, files->chain.id, SEGMENT_ID_SIZE);
    *ret_header = header;
    return (struct log_part){.number = header.number,
                             .seed = segment_seed(header.id, header.number),
                             .bytes = header.bytes,
                             .end = SEGMENT_HEADER_SIZE,
                             .first = header.first,
                             .next = header.first,
                             .is_unsynced = header.is_unsynced};
}

/* Writes the header into the spare and renames it to the segment's name. */
static enum error_code log_files_name_next(struct log_files *files, struct error *ret_error)
{
    struct segment_header header;
    struct log_part part = log_files_plan(files, &header);
    struct log_path spare = log_path_of(files, LOG_FILES_SPARE),
                    path = log_path_of_segment(files, part.number);

    char text[SEGMENT_HEADER_SIZE + SEGMENT_FRAME_HEADER_SIZE] = {0};
    if (!log_files_reserve_part(files))
        return error_set(ret_error, ERROR_NO_MEMORY, "begin %s: out of memory", path.text);
    segment_header_encode(&header, text);
    int file, error = files->disk->open(files->disk, spare.text, DISK_WRITE, &file);
    if (error) {
        files->spare_bytes = 0; /* the spare is used up, so another one is made */
        return disk_failed(error, "write", spare.text, ret_error);
    }
    error = files->disk->write(files->disk, file, 0, (struct bytes){text, sizeof(text)});
    if (!error)
        error = files->disk->sync(files->disk, file);
    if (!error) {
        /* A crash from here on may leave the new segment, so nothing may be appended to the
         * previous one. */
        files->must_begin = true;
        error = files->disk->rename(files->disk, spare.text, path.text);
    }
    if (error) {
        files->disk->close(files->disk, file);
        return disk_failed(error, "begin", path.text, ret_error);
    }
    files->spare_bytes = 0;
    files->next_part = part;
    files->next_file = file;
    files->has_next = true;
    return ERROR_NONE;
}

/* Begins the next segment. If a step failed earlier, it is repeated. The caller holds the lock. */
static enum error_code log_files_begin_next(struct log_files *files, struct error *ret_error)
{
    log_files_wait_for_chain(files);
    if (!files->has_next) {
        enum error_code code = log_files_mark(files, ret_error);

        if (!code)
            code = log_files_name_next(files, ret_error);
        if (code)
            return code;
    }
    int error = files->disk->sync_folder(files->disk, files->folder);
    if (error)
        return disk_failed(error, "sync folder", files->folder, ret_error);
    struct segment_chain chain = files->chain;
    chain.last = files->next_part.number;
    chain.is_closed = false;
    if (files->part_count == 0)
        chain.first = chain.last;
    enum error_code code = log_files_write_chain(files, &chain, ret_error);
    if (code)
        return code;
    if (files->file >= 0)
        files->disk->close(files->disk, files->file);
    files->file = files->next_file;
    log_files_add_part(files, &files->next_part);
    files->has_next = files->must_begin = files->is_in_doubt = false;
    return ERROR_NONE;
}

/* Syncs the last segment. Only then may the header of the next one name its end. */
static enum error_code log_files_sync_last(struct log_files *files, struct error *ret_error)
{
    if (files->options.sync == LOG_FILES_SYNC_ALWAYS || files->file < 0)
        return ERROR_NONE;
    int error = files->disk->sync(files->disk, files->file);
    return error ? disk_failed(error, "sync", files->folder, ret_error) : ERROR_NONE;
}

enum error_code log_files_begin(struct log_files *files, uint64_t frame_bytes,
                                struct error *ret_error)
{
    uint64_t bytes = SEGMENT_HEADER_SIZE + frame_bytes;

    if (bytes < files->options.segment_bytes)
        bytes = files->options.segment_bytes;
    enum error_code code = log_files_sync_last(files, ret_error);
    if (!code && !files->has_next)
        code = log_files_make_spare(files, bytes, ret_error);
    if (code)
        return code;
    pthread_mutex_lock(&files->lock);
    code = log_files_begin_next(files, ret_error);
    pthread_mutex_unlock(&files->lock);
    return code;
}

/* ---- appending ---- */

/* Finds room for a frame in the last segment, or begins another segment. */
static enum error_code log_files_find_room(struct log_files *files, uint64_t size,
                                           struct log_part *ret_last, struct error *ret_error)
{
    for (;;) {
        enum error_code code = ERROR_NONE;
        bool has_room = false;

        pthread_mutex_lock(&files->lock);
        const struct log_part *last = log_files_last(files);
        if (last && !files->must_begin && size <= last->bytes - last->end) {
            has_room = true;
            *ret_last = *last;
            code = log_files_mark(files, ret_error);
        }
        pthread_mutex_unlock(&files->lock);
        if (has_room || code)
            return code;
        code = log_files_begin(files, size, ret_error);
        if (code)
            return code;
    }
}

/* Writes the frame in files->frame. If that fails, the frame is in doubt. */
static enum error_code log_files_write(struct log_files *files, uint64_t at,
                                       struct error *ret_error)
{
    int error = files->disk->write(files->disk, files->file, at, buffer_bytes(&files->frame));

    if (!error && files->options.sync == LOG_FILES_SYNC_ALWAYS)
        error = files->disk->sync(files->disk, files->file);
    if (!error)
        return ERROR_NONE;
    pthread_mutex_lock(&files->lock);
    files->must_begin = files->is_in_doubt = true;
    pthread_mutex_unlock(&files->lock);
    return error_set(ret_error, ERROR_IO, "write the log in %s: %s", files->folder,
                     strerror(error));
}

static enum error_code log_files_append_frame(struct log_files *files, struct log_record *records,
                                              size_t count, struct error *ret_error)
{
    uint64_t size = segment_frame_size(records, count);
    struct log_part last;

    if (files->options.mode == LOG_FILES_READ)
        return error_set(ret_error, ERROR_IO, "%s is open for reading", files->folder);
    if (!size)
        return error_set(ret_error, ERROR_TOO_LARGE, "an append of more than a gigabyte");
    if (files->frame.capacity > LOG_FRAME_KEEP && size < LOG_FRAME_KEEP)
        buffer_deinit(&files->frame), buffer_init(&files->frame);
    buffer_clear(&files->frame);
    char *frame = buffer_reserve(&files->frame, size + SEGMENT_FRAME_HEADER_SIZE);
    if (!frame)
        return error_set(ret_error, ERROR_NO_MEMORY, "append to the log: out of memory");
    enum error_code code = log_files_find_room(files, size, &last, ret_error);
    if (code)
        return code;
    uint32_t sum = segment_frame_encode(last.seed, last.end, files->next, records, count, frame);
    uint64_t room = last.bytes - last.end - size;
    size_t mark = room < SEGMENT_FRAME_HEADER_SIZE ? room : SEGMENT_FRAME_HEADER_SIZE;
    memset(frame + size, 0, mark);
    files->frame.size = size + mark;
    code = log_files_write(files, last.end, ret_error);
    if (code)
        return code;
    for (size_t i = 0; i < count; i++)
        records[i].offset = files->next + i;
    pthread_mutex_lock(&files->lock);
    struct log_part *part = log_files_last(files);
    part->end += size;
    part->next = files->next += count;
    part->sum = sum;
    pthread_mutex_unlock(&files->lock);
    return ERROR_NONE;
}

enum error_code log_files_append(struct log_files *files, struct log_record *records, size_t count,
                                 struct error *ret_error)
{
    assert(count > 0);
    for (size_t i = 0; i < count; i++)
        assert(records[i].body.size > 0);
    return log_files_append_frame(files, records, count, ret_error);
}

enum error_code log_files_repair(struct log_files *files, struct error *ret_error)
{
    return files->is_in_doubt ? log_files_begin(files, 0, ret_error) : ERROR_NONE;
}

/* ---- trimming ---- */

/* Drops the first segment. The caller holds the lock, which is released during work on files. If
 * the file cannot be removed, the next start removes it. */
static void log_files_drop_first(struct log_files *files)
{
    const struct log_part part = files->parts[0];
    const struct log_path path = log_path_of_segment(files, part.number),
                          spare = log_path_of(files, LOG_FILES_SPARE);
    const bool becomes_spare = files->spare_bytes == 0 && !files->is_making_spare &&
                               part.bytes == files->options.segment_bytes;

    files->part_count--;
    memmove(files->parts, files->parts + 1, files->part_count * sizeof(*files->parts));
    files->is_making_spare |= becomes_spare;
    pthread_mutex_unlock(&files->lock);
    const bool is_spare =
        becomes_spare && files->disk->rename(files->disk, path.text, spare.text) == 0;
    if (!is_spare)
        files->disk->remove(files->disk, path.text);
    pthread_mutex_lock(&files->lock);
    if (!becomes_spare)
        return;
    files->is_making_spare = false;
    if (is_spare)
        files->spare_bytes = part.bytes;
    pthread_cond_broadcast(&files->changed);
}

/* Makes a later segment the first of the chain. Releases the caller's lock while it writes, so
 * appends continue. */
static enum error_code log_files_move_first(struct log_files *files, uint64_t number,
                                            struct error *ret_error)
{
    struct segment_chain chain = files->chain;

    chain.generation++;
    chain.first = number;
    chain.is_closed = false;
    files->is_writing_chain = true;
    pthread_mutex_unlock(&files->lock);
    const enum error_code code = log_files_write_slot(files, &chain, ret_error);
    pthread_mutex_lock(&files->lock);
    files->is_writing_chain = false;
    if (!code)
        files->chain = chain;
    pthread_cond_broadcast(&files->changed);
    return code;
}

/* Returns how many of the segments before `before` are dropped now. A kept segment can be dropped
 * later to become the spare that each new segment needs, which saves writing one. The caller holds
 * the lock. */
static size_t log_files_count_to_drop(const struct log_files *files, uint64_t before)
{
    const bool needs_spare = files->spare_bytes == 0 && !files->is_making_spare;
    size_t count = 0;

    while (count + 1 < files->part_count && files->parts[count + 1].first <= before)
        count++;
    const size_t kept = files->options.segments_kept;
    return count > kept ? count - kept : needs_spare && count > 0;
}

enum error_code log_files_trim(struct log_files *files, uint64_t before, struct error *ret_error)
{
    enum error_code code = ERROR_NONE;

    if (files->options.mode == LOG_FILES_READ)
        return error_set(ret_error, ERROR_IO, "%s is open for reading", files->folder);
    pthread_mutex_lock(&files->lock);
    log_files_wait_for_chain(files);
    const size_t count = log_files_count_to_drop(files, before);
    if (count && !files->reader_count) {
        const uint64_t first = files->parts[count].number;

        code = log_files_move_first(files, first, ret_error);
        /* Segments that a reader uses stay until the next trim. */
        while (!code && !files->reader_count && files->parts[0].number < first)
            log_files_drop_first(files);
    }
    pthread_mutex_unlock(&files->lock);
    /* A failure is not reported here: the append that needs the spare reports it. */
    if (!code)
        log_files_make_spare(files, files->options.segment_bytes, NULL);
    return code;
}

/* ---- the rest ---- */

void log_files_get_stats(struct log_files *files, struct log_files_stats *ret_stats)
{
    struct log_files_stats stats = {0};

    pthread_mutex_lock(&files->lock);
    stats.first = files->part_count ? files->parts[0].first : files->next;
    stats.end = files->next;
    memcpy(stats.id, files->chain.id, sizeof(stats.id));
    for (size_t i = 0; i < files->part_count; i++) {
        stats.bytes += files->parts[i].end;
        stats.reserved += files->parts[i].bytes;
    }
    stats.reserved += files->spare_bytes;
    stats.torn = files->torn;
    stats.lost = files->lost + files->lost_at_end;
    stats.is_in_doubt = files->is_in_doubt;
    pthread_mutex_unlock(&files->lock);
    *ret_stats = stats;
}

uint64_t log_files_first(struct log_files *files)
{
    struct log_files_stats stats;

    log_files_get_stats(files, &stats);
    return stats.first;
}

uint64_t log_files_end(struct log_files *files)
{
    struct log_files_stats stats;

    log_files_get_stats(files, &stats);
    return stats.end;
}

void log_files_free(struct log_files *files)
{
    if (files->file >= 0)
        files->disk->close(files->disk, files->file);
    if (files->has_next)
        files->disk->close(files->disk, files->next_file);
    pthread_mutex_destroy(&files->lock);
    pthread_cond_destroy(&files->changed);
    buffer_deinit(&files->frame);
    free(files->parts);
    free(files->folder);
    free(files);
}

/* Closes the log. If the mark of a clean stop cannot be written, the next start treats that as a
 * crash, which loses nothing. */
void log_files_close(struct log_files *files)
{
    const struct log_part *last = files ? log_files_last(files) : NULL;

    if (!files)
        return;
    if (files->options.mode != LOG_FILES_READ && last && !files->must_begin &&
        !files->chain.is_closed && log_files_sync_last(files, NULL) == ERROR_NONE) {
        struct segment_chain chain = files->chain;

        chain.is_closed = true;
        chain.end = last->end;
        chain.next = last->next;
        chain.sum = last->sum;
        log_files_write_chain(files, &chain, NULL);
    }
    log_files_free(files);
}
