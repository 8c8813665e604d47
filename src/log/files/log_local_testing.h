/*
 * log_local_testing.h - the log of a data folder on a disk in memory, for its tests. The folder
 * itself, with REACHED, is a real one.
 */
#ifndef TICKWHEEL_LOG_FILES_LOG_LOCAL_TESTING_H
#define TICKWHEEL_LOG_FILES_LOG_LOCAL_TESTING_H

#include "log/files/log_disk_testing.h"
#include "log/files/log_local_private.h"
#include "sys/files.h"

#include <unistd.h>

enum { LOCALS_PARTITIONS = 8, LOCALS_SEGMENT = 8192 };

struct locals {
    char folder[200], log_folder[220];
    struct disk_memory *memory;
    struct log_local_options options;
    struct log_local *local;
    unsigned told[LOCALS_PARTITIONS];
    uint64_t held_back; /* room that locals_relieve gives to the disk */
    unsigned relieved;
};

static inline void locals_told(void *context, uint16_t partition)
{
    struct locals *locals = context;

    locals->told[partition]++;
}

static inline bool locals_relieve(void *context)
{
    struct locals *locals = context;

    if (!locals->held_back)
        return false;
    locals->memory->room += locals->held_back;
    locals->held_back = 0;
    locals->relieved++;
    return true;
}

static inline void locals_open(struct locals *locals)
{
    struct error error = {.text = ""};
    struct log_local_stats stats;

    if (log_local_open(&locals->options, &locals->local, &error))
        fail_msg("%s", error.text);
    log_local_get_stats(locals->local, &stats);
    memcpy(locals->options.id, stats.id, sizeof(stats.id));
    locals->options.has_id = true;
    if (locals->options.mode == LOG_FILES_MAKE)
        locals->options.mode = LOG_FILES_OPEN;
}

static inline void locals_init(struct locals *locals, uint64_t seed)
{
    const char *parent = getenv("TMPDIR");

    memset(locals, 0, sizeof(*locals));
    locals->memory = disk_memory_create(seed);
    snprintf(locals->folder, sizeof(locals->folder), "%.150s/tickwheel-local-XXXXXX",
             parent ? parent : "/tmp");
    assert_non_null(mkdtemp(locals->folder));
    locals->options = (struct log_local_options){.home = locals->folder,
                                                 .partition_count = LOCALS_PARTITIONS,
                                                 .segment_bytes = LOCALS_SEGMENT,
                                                 .begin = 1,
                                                 .mode = LOG_FILES_MAKE,
                                                 .disk = &locals->memory->disk,
                                                 .relieve = locals_relieve,
                                                 .told = locals_told,
                                                 .context = locals};
    locals_open(locals);
    snprintf(locals->log_folder, sizeof(locals->log_folder), "%s/" LOG_HOME_FOLDER, locals->folder);
    assert_int_equal(files_make_folder(locals->log_folder, NULL), ERROR_NONE);
}

static inline void locals_deinit(struct locals *locals)
{
    log_local_close(locals->local);
    assert_int_equal(locals->memory->open_count, 0);
    free(locals->memory);
    files_remove_folder(locals->folder);
}

static inline void locals_reopen(struct locals *locals)
{
    log_local_close(locals->local);
    locals_open(locals);
}

/* Ends the process without a clean stop, and with `is_cut` the power. */
static inline void locals_crash(struct locals *locals, bool is_cut)
{
    locals->memory->has_ended = true;
    log_local_close(locals->local);
    locals->memory->has_ended = false;
    locals->memory->fail_at = 0;
    locals->memory->room = UINT64_MAX;
    if (is_cut)
        disk_memory_cut(locals->memory);
    locals_open(locals);
}

static inline struct log *locals_log(struct locals *locals, uint16_t partition)
{
    return log_local_partition(locals->local, partition);
}

static inline enum log_kind locals_next(struct locals *locals, uint16_t partition,
                                        struct log_event *ret_event)
{
    return log_wait(locals_log(locals, partition), 0, ret_event);
}

#endif
