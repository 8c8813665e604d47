/*
 * log_files.h - a log in files of its own: segments of fixed size that are written in place.
 *
 * A segment is filled with zeros, or recycled, before it is used, so a sync of an append writes no
 * metadata of the file system. Each segment's header says where the one before ended: this chain
 * shows at a start whether one is missing, shortened, exchanged or of another log. docs/storage.md
 * has the format.
 *
 *     struct log_files_options options = {.folder = "data/log", .begin = applied + 1};
 *     if (log_files_open(&options, &log, &error)) ...
 */
#ifndef TICKWHEEL_LOG_LOG_FILES_H
#define TICKWHEEL_LOG_LOG_FILES_H

#include "log/log.h"

struct disk_calls;

enum log_files_mode {
    LOG_FILES_MAKE, /* made when missing; its folder too */
    LOG_FILES_OPEN, /* ERROR_CORRUPT when missing */
    LOG_FILES_READ, /* as LOG_FILES_OPEN; nothing in the folder changes, and appends are refused */
};

enum log_files_sync {
    LOG_FILES_SYNC_ALWAYS, /* an append returns when it is on the disk */
    LOG_FILES_SYNC_NEVER,  /* left to the operating system: a power cut may lose seconds */
};

enum log_files_damage {
    LOG_FILES_DAMAGE_REFUSE, /* damage of durable records: ERROR_CORRUPT, nothing changes */
    LOG_FILES_DAMAGE_SKIP,   /* the intact records are used; the lost ones are counted */
};

struct log_files_options {
    const char *folder;
    uint64_t segment_bytes; /* 0: 16 MiB */
    size_t
        segments_kept; /* of those that a trim drops: each becomes the spare when there is none */
    uint64_t begin;    /* the caller needs all records from here on: a log that begins later or ends
                       before it has lost some. A log that is made begins here. 0: the caller needs
                       none; a log that is made begins with 1 */
    const uint8_t *id; /* LOG_ID_SIZE bytes: another log is ERROR_CORRUPT, whatever `damage` is.
                          NULL: any log will do, and one that is made */
    uint64_t reached;  /* lower bound of log_end: the log of an older copy ends before it. 0: none.
                          A log that is not synced may have lost its end with the power */
    enum log_files_mode mode;
    enum log_files_sync sync;
    enum log_files_damage damage;
    const struct disk_calls *disk; /* NULL: that of the operating system */
};

/* Opens or makes the log. ERROR_IO, ERROR_NO_MEMORY, ERROR_DISK_FULL; ERROR_CORRUPT when files are
 * missing or damaged: the text says which. One process at a time: the caller has a lock. */
enum error_code log_files_open(const struct log_files_options *options, struct log **ret_log,
                               struct error *ret_error);

/* For tests: aborts unless the state in memory holds together, and fits to the files. */
void log_files_check(struct log *log);

#endif
