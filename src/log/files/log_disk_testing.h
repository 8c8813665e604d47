/*
 * log_disk_testing.h - a disk in memory that loses power and fails, for the tests of the log.
 *
 * Contents are kept by sector (512 bytes): what is on the medium, what programs see, and whether
 * a write-back is due. A power cut keeps each sector that is due or not, at random, and a prefix of
 * the changes of names. After a failed sync the sectors are no longer due although the medium may
 * not have them, as with the page cache of Linux. Each call that changes something counts, and the
 * N-th can fail. On it lies, for tests that want one, a log of five segments.
 */
#ifndef TICKWHEEL_LOG_FILES_LOG_DISK_TESTING_H
#define TICKWHEEL_LOG_FILES_LOG_DISK_TESTING_H

#include "base/random.h"
#include "log/files/log_files.h"
#include "sys/disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { DISK_SECTOR = 512, DISK_FILES = 64, DISK_CHANGES = 256 };

#ifndef DISK_SECTORS
#define DISK_SECTORS 128 /* of a file at most */
#endif

struct disk_sector {
    char live[DISK_SECTOR], safe[DISK_SECTOR];
    bool is_due;
};

struct disk_file {
    bool is_used;
    uint64_t live_bytes, safe_bytes;
    struct disk_sector sectors[DISK_SECTORS];
};

struct disk_name {
    char name[48];
    int file;     /* -1: removed */
    bool is_half; /* of a rename: the next change is the other half */
};

struct disk_memory {
    struct disk_calls disk;
    struct random random;
    bool is_folder;
    struct disk_file files[DISK_FILES];
    struct disk_name live[DISK_FILES], safe[DISK_FILES];
    size_t live_count, safe_count;
    struct disk_name changes[DISK_CHANGES]; /* of names, since the folder was synced */
    size_t change_count;
    int open_count;
    bool has_ended;   /* the process: its calls change nothing any more */
    uint64_t calls;   /* that change something */
    uint64_t fail_at; /* the one that fails; 0: none */
    uint64_t fail_count;
    int fail_with; /* an errno */
    uint64_t room; /* bytes that files may grow by; UINT64_MAX: any */
};

static inline struct disk_memory *disk_memory_of(const struct disk_calls *disk)
{
    return disk->state;
}

/* The errno of the next call that changes something; 0: it works. */
static inline int disk_memory_step(struct disk_memory *memory)
{
    uint64_t call = ++memory->calls;

    if (memory->has_ended)
        return EIO;
    return memory->fail_at && call >= memory->fail_at && call < memory->fail_at + memory->fail_count
               ? memory->fail_with
               : 0;
}

static inline const char *disk_memory_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* ---- names ---- */

static inline struct disk_name *disk_memory_find(struct disk_name *names, size_t count,
                                                 const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i].name, name) == 0)
            return &names[i];
    return NULL;
}

static inline void disk_memory_change(struct disk_name *names, size_t *count,
                                      const struct disk_name *change)
{
    struct disk_name *known = disk_memory_find(names, *count, change->name);

    if (change->file < 0) {
        if (known)
            *known = names[--*count];
        return;
    }
    if (!known) {
        assert(*count < DISK_FILES);
        known = &names[(*count)++];
    }
    *known = *change;
}

static inline void disk_memory_set(struct disk_memory *memory, const char *path, int file)
{
    struct disk_name change = {.file = file};

    snprintf(change.name, sizeof(change.name), "%s", disk_memory_name(path));
    disk_memory_change(memory->live, &memory->live_count, &change);
    assert(memory->change_count < DISK_CHANGES);
    memory->changes[memory->change_count++] = change;
}

static inline bool disk_memory_is_named(struct disk_memory *memory, int file)
{
    for (size_t i = 0; i < memory->live_count; i++)
        if (memory->live[i].file == file)
            return true;
    for (size_t i = 0; i < memory->safe_count; i++)
        if (memory->safe[i].file == file)
            return true;
    for (size_t i = 0; i < memory->change_count; i++)
        if (memory->changes[i].file == file)
            return true;
    return false;
}

/* ---- the calls ---- */

static inline int disk_memory_open(const struct disk_calls *disk, const char *path,
                                   enum disk_access access, int *ret_file)
{
    struct disk_memory *memory = disk_memory_of(disk);
    struct disk_name *known =
        disk_memory_find(memory->live, memory->live_count, disk_memory_name(path));

    if (access != DISK_MAKE && !known)
        return ENOENT;
    if (access == DISK_MAKE) {
        int error = disk_memory_step(memory), file = 0;

        if (error)
            return error;
        /* One that is emptied is a new file: no test depends on its old contents. */
        while (file < DISK_FILES && disk_memory_is_named(memory, file))
            file++;
        assert(file < DISK_FILES);
        memset(&memory->files[file], 0, sizeof(memory->files[file]));
        disk_memory_set(memory, path, file);
        known = disk_memory_find(memory->live, memory->live_count, disk_memory_name(path));
    }
    memory->open_count++;
    *ret_file = known->file;
    return 0;
}

static inline void disk_memory_close(const struct disk_calls *disk, int file)
{
    (void)file;
    assert(disk_memory_of(disk)->open_count > 0);
    disk_memory_of(disk)->open_count--;
}

static inline int disk_memory_size(const struct disk_calls *disk, int file, uint64_t *ret_bytes)
{
    *ret_bytes = disk_memory_of(disk)->files[file].live_bytes;
    return 0;
}

static inline int disk_memory_read(const struct disk_calls *disk, int file, uint64_t at, void *to,
                                   size_t size, size_t *ret_size)
{
    const struct disk_file *from = &disk_memory_of(disk)->files[file];
    size_t done = 0;

    while (done < size && at + done < from->live_bytes) {
        size_t sector = (at + done) / DISK_SECTOR, within = (at + done) % DISK_SECTOR;
        size_t part = DISK_SECTOR - within;

        if (part > size - done)
            part = size - done;
        if (part > from->live_bytes - at - done)
            part = from->live_bytes - at - done;
        memcpy((char *)to + done, from->sectors[sector].live + within, part);
        done += part;
    }
    *ret_size = done;
    return 0;
}

static inline int disk_memory_write(const struct disk_calls *disk, int file, uint64_t at,
                                    struct bytes bytes)
{
    struct disk_memory *memory = disk_memory_of(disk);
    struct disk_file *to = &memory->files[file];
    int error = disk_memory_step(memory);
    uint64_t growth = at + bytes.size > to->live_bytes ? at + bytes.size - to->live_bytes : 0;

    if (error) /* a part of it */
        bytes.size = memory->has_ended ? 0 : random_below(&memory->random, bytes.size + 1);
    if (!error && growth > memory->room)
        return ENOSPC;
    assert(at + bytes.size <= (uint64_t)DISK_SECTOR * DISK_SECTORS);
    for (size_t i = 0; i < bytes.size; i++) {
        struct disk_sector *sector = &to->sectors[(at + i) / DISK_SECTOR];

        sector->live[(at + i) % DISK_SECTOR] = bytes.data[i];
        sector->is_due = true;
    }
    if (at + bytes.size > to->live_bytes)
        to->live_bytes = at + bytes.size;
    if (!error && memory->room != UINT64_MAX)
        memory->room -= growth;
    return error;
}

/* Some sectors that are due reach the medium: all, or each by chance. */
static inline void disk_memory_write_back(struct disk_memory *memory, struct disk_file *file,
                                          bool is_whole)
{
    for (size_t i = 0; i < DISK_SECTORS; i++) {
        struct disk_sector *sector = &file->sectors[i];

        if (sector->is_due && (is_whole || random_below(&memory->random, 2)))
            memcpy(sector->safe, sector->live, DISK_SECTOR);
        sector->is_due = false;
    }
    if (is_whole || random_below(&memory->random, 2))
        file->safe_bytes = file->live_bytes;
}

static inline int disk_memory_sync(const struct disk_calls *disk, int file)
{
    struct disk_memory *memory = disk_memory_of(disk);
    int error = disk_memory_step(memory);

    if (!memory->has_ended)
        disk_memory_write_back(memory, &memory->files[file], error == 0);
    return error;
}

/* What is durable before a sync is random already. */
static inline int disk_memory_start_sync(const struct disk_calls *disk, int file, uint64_t at,
                                         uint64_t size)
{
    (void)file, (void)at, (void)size;
    return disk_memory_step(disk_memory_of(disk));
}

static inline int disk_memory_rename(const struct disk_calls *disk, const char *from,
                                     const char *to)
{
    struct disk_memory *memory = disk_memory_of(disk);
    int error = disk_memory_step(memory);
    struct disk_name *known =
        disk_memory_find(memory->live, memory->live_count, disk_memory_name(from));

    if (error || !known)
        return error ? error : ENOENT;
    int file = known->file;
    disk_memory_set(memory, to, file);
    memory->changes[memory->change_count - 1].is_half = true;
    disk_memory_set(memory, from, -1);
    return 0;
}

static inline int disk_memory_remove(const struct disk_calls *disk, const char *path)
{
    struct disk_memory *memory = disk_memory_of(disk);

    if (!disk_memory_find(memory->live, memory->live_count, disk_memory_name(path)))
        return ENOENT;
    int error = disk_memory_step(memory);
    if (!error)
        disk_memory_set(memory, path, -1);
    return error;
}

static inline int disk_memory_sync_folder(const struct disk_calls *disk, const char *path)
{
    struct disk_memory *memory = disk_memory_of(disk);
    int error = disk_memory_step(memory);

    (void)path;
    if (error)
        return error;
    memcpy(memory->safe, memory->live, sizeof(memory->safe));
    memory->safe_count = memory->live_count;
    memory->change_count = 0;
    return 0;
}

static inline enum error_code disk_memory_make_folder(const struct disk_calls *disk,
                                                      const char *path, struct error *ret_error)
{
    (void)path, (void)ret_error;
    disk_memory_of(disk)->is_folder = true;
    return ERROR_NONE;
}

static inline enum error_code disk_memory_list(const struct disk_calls *disk, const char *path,
                                               bool (*each)(void *context,
                                                            const struct files_entry *entry),
                                               void *context, struct error *ret_error)
{
    struct disk_memory *memory = disk_memory_of(disk);

    if (!memory->is_folder)
        return disk_failed(ENOENT, "read folder", path, ret_error);
    for (size_t i = 0; i < memory->live_count; i++) {
        struct files_entry entry = {.name = memory->live[i].name,
                                    .is_file = true,
                                    .bytes = memory->files[memory->live[i].file].live_bytes};

        if (!each(context, &entry))
            break;
    }
    return ERROR_NONE;
}

/* ---- what a test does to it ---- */

static inline struct disk_memory *disk_memory_create(uint64_t seed)
{
    struct disk_memory *memory = calloc(1, sizeof(*memory));

    assert(memory);
    memory->disk = (struct disk_calls){.state = memory,
                                       .open = disk_memory_open,
                                       .close = disk_memory_close,
                                       .size = disk_memory_size,
                                       .read = disk_memory_read,
                                       .write = disk_memory_write,
                                       .start_sync = disk_memory_start_sync,
                                       .sync = disk_memory_sync,
                                       .rename = disk_memory_rename,
                                       .remove = disk_memory_remove,
                                       .sync_folder = disk_memory_sync_folder,
                                       .make_folder = disk_memory_make_folder,
                                       .list = disk_memory_list};
    memory->random = random_seeded(seed);
    memory->room = UINT64_MAX;
    return memory;
}

/* The `count` calls from the `after`-th from now on fail. */
static inline void disk_memory_fail(struct disk_memory *memory, uint64_t after, uint64_t count,
                                    int error)
{
    memory->fail_at = memory->calls + after;
    memory->fail_count = count;
    memory->fail_with = error;
}

/* The process is gone, and the power. */
static inline void disk_memory_cut(struct disk_memory *memory)
{
    size_t kept = random_below(&memory->random, memory->change_count + 1);

    if (kept && memory->changes[kept - 1].is_half)
        kept++;
    for (size_t i = 0; i < kept; i++)
        disk_memory_change(memory->safe, &memory->safe_count, &memory->changes[i]);
    memcpy(memory->live, memory->safe, sizeof(memory->live));
    memory->live_count = memory->safe_count;
    memory->change_count = 0;
    for (size_t i = 0; i < DISK_FILES; i++) {
        struct disk_file *file = &memory->files[i];

        disk_memory_write_back(memory, file, false);
        file->live_bytes = file->safe_bytes;
        for (size_t j = 0; j < DISK_SECTORS; j++)
            memcpy(file->sectors[j].live, file->sectors[j].safe, DISK_SECTOR);
    }
    memory->open_count = 0;
    memory->fail_at = 0;
}

/* For damage: the byte at `at` of a file; NULL: it has no such byte. */
static inline char *disk_memory_byte(struct disk_memory *memory, const char *name, uint64_t at)
{
    struct disk_name *known = disk_memory_find(memory->live, memory->live_count, name);

    if (!known || at >= memory->files[known->file].live_bytes)
        return NULL;
    return &memory->files[known->file].sectors[at / DISK_SECTOR].live[at % DISK_SECTOR];
}

/* ---- a log of five segments on it ---- */

enum { LOGS_SEGMENT = 8192, LOGS_RECORDS = 40, LOGS_BODY = 900, LOGS_FIRST_OF_LAST = 33 };

/* 8 records fill a segment: 1 to 8 in segment 1, 33 to 40 in segment 5. */
struct logs {
    struct disk_memory *memory;
    struct log_files_options options;
    struct log_files *log;
};

static inline void logs_body(uint64_t number, char *to)
{
    struct random random = random_seeded(number);

    for (size_t i = 0; i < LOGS_BODY; i++)
        to[i] = (char)random_next(&random);
}

static inline void logs_append(struct log_files *log, uint64_t number)
{
    char body[LOGS_BODY];
    struct log_record record = {.partition = 1, .body = {body, LOGS_BODY}};
    struct error error = {0};

    logs_body(number, body);
    if (log_files_append(log, &record, 1, &error))
        fail_msg("%s", error.text);
    assert_true(record.offset == number);
}

static inline void logs_open(struct logs *logs)
{
    struct error error = {0};

    if (log_files_open(&logs->options, &logs->log, &error))
        fail_msg("%s", error.text);
    log_files_check(logs->log);
}

/* As kill -9 leaves it. */
static inline void logs_kill(struct logs *logs)
{
    logs->memory->has_ended = true;
    log_files_close(logs->log);
    logs->log = NULL;
    logs->memory->has_ended = false;
}

static inline struct logs logs_make(void)
{
    struct disk_memory *memory = disk_memory_create(1);
    struct logs logs = {
        .memory = memory,
        .options = {
            .folder = "memory", .segment_bytes = LOGS_SEGMENT, .begin = 1, .disk = &memory->disk}};

    logs_open(&logs);
    for (uint64_t i = 1; i <= LOGS_RECORDS; i++)
        logs_append(logs.log, i);
    logs_kill(&logs);
    assert_true(disk_memory_byte(memory, "000000000005.segment", 0));
    return logs;
}

static inline void logs_free(struct logs *logs)
{
    log_files_close(logs->log);
    assert_int_equal(logs->memory->open_count, 0);
    free(logs->memory);
}

static inline enum error_code logs_count_one(void *context, const struct log_record *record,
                                             struct error *ret_error)
{
    char body[LOGS_BODY];

    (void)ret_error;
    logs_body(record->offset, body);
    assert_true(bytes_equal(record->body, (struct bytes){body, LOGS_BODY}));
    assert_int_equal(record->partition, 1);
    ++*(uint64_t *)context;
    return ERROR_NONE;
}

/* How many records come. */
static inline uint64_t logs_count(struct logs *logs, uint64_t from)
{
    uint64_t count = 0;
    struct error error = {0};

    if (log_files_read(logs->log, from, logs_count_one, &count, &error))
        fail_msg("%s", error.text);
    return count;
}

#endif
