/*
 * log_files.h - a log in files of its own: segments of fixed size that are written in place. All
 * partitions of a node share it.
 *
 * A segment is filled with zeros, or recycled, before it is used, so a sync of an append writes no
 * metadata of the file system. Each segment's header says where the one before ended: this chain
 * shows at a start whether one is missing, shortened, exchanged or of another log. log_segment.h
 * has the format.
 *
 *     struct log_files_options options = {.folder = "data/log", .begin = applied + 1};
 *     struct log_record record = {.partition = 3, .body = BYTES("put")};
 *     if (log_files_open(&options, &log, &error)) ...
 *     if (log_files_append(log, &record, 1, &error) == ERROR_NONE)
 *         ...                       durable, at record.offset
 *     log_files_read(log, applied + 1, apply, storage, &error);
 *     log_files_trim(log, applied + 1, &error);
 *
 * Offsets    Rise by one from record to record, except after a loss. 0 is no offset.
 * Errors     ERROR_DISK_FULL and ERROR_NO_MEMORY of an append: none of it was written. ERROR_IO: it
 *            may be in doubt (log_files_get_stats tells): a crash leaves it or not, until a later
 *            append or repair succeeds; from then on it is absent for good. ERROR_CORRUPT:
 *            records are missing or damaged. Every call may be
 *            repeated.
 * Threads    Appends and repairs from one thread at a time; the others from any
 *            thread, beside them.
 */
#ifndef TICKWHEEL_LOG_FILES_LOG_FILES_H
#define TICKWHEEL_LOG_FILES_LOG_FILES_H

#include "base/bytes.h"
#include "base/error.h"

struct disk_calls;
struct log_files;

struct log_record {
    uint16_t partition;
    struct bytes body; /* not empty */
    uint64_t offset;   /* set by log_files_append and log_files_read */
};

enum { LOG_ID_SIZE = 16 };

struct log_files_stats {
    uint64_t first, end;     /* results of log_files_first and log_files_end */
    uint8_t id[LOG_ID_SIZE]; /* random id, made together with the log */
    uint64_t bytes;          /* size of the records that were not trimmed */
    uint64_t reserved;       /* size of the log on the disk */
    /* incomplete appends that a crash left; dropped when the log was opened */
    uint64_t torn;
    uint64_t lost;    /* records found missing or damaged, and skipped */
    bool is_in_doubt; /* the last append failed */
};

/* Called for each record; its body is valid during the call. A code other than ERROR_NONE ends the
 * reading, which returns that code. It must not call the log. */
typedef enum error_code log_visit(void *context, const struct log_record *record,
                                  struct error *ret_error);

enum log_files_mode {
    LOG_FILES_MAKE, /* makes the log and its folder if missing */
    LOG_FILES_OPEN, /* opens the log; ERROR_CORRUPT if it is missing */
    LOG_FILES_READ, /* like LOG_FILES_OPEN; changes nothing in the folder, and refuses appends */
};

enum log_files_sync {
    LOG_FILES_SYNC_ALWAYS, /* an append returns when it is on the disk */
    LOG_FILES_SYNC_NEVER,  /* the operating system syncs: a power cut may lose seconds */
};

enum log_files_damage {
    /* damage of durable records is ERROR_CORRUPT, and nothing is changed */
    LOG_FILES_DAMAGE_REFUSE,
    LOG_FILES_DAMAGE_SKIP, /* intact records are used, and lost ones are counted */
};

struct log_files_options {
    const char *folder;
    uint64_t segment_bytes; /* 0 means 16 MiB */
    size_t segments_kept;   /* maximum of dropped segments that are kept to become spares */
    /* First offset that the caller needs. If the log begins later or ends earlier, it has lost
     * records. A new log begins at this offset. 0 means that the caller needs none, and a new log
     * begins at 1 */
    uint64_t begin;
    /* id of LOG_ID_SIZE bytes that the log must have; another id is ERROR_CORRUPT, whatever
     * `damage` is. NULL accepts any log */
    const uint8_t *id;
    /* Lower bound of the log's end, which detects an older copy of the log; 0 if unknown. A log
     * that is not synced may have lost its end in a power cut */
    uint64_t reached;
    enum log_files_mode mode;
    enum log_files_sync sync;
    enum log_files_damage damage;
    const struct disk_calls *disk; /* NULL means the disk of the operating system */
};

/* Opens or makes the log. Returns ERROR_IO, ERROR_NO_MEMORY, ERROR_DISK_FULL, or ERROR_CORRUPT if
 * files are missing or damaged; the text says which. Only one process may have the log open at a
 * time: the caller holds a lock. */
enum error_code log_files_open(const struct log_files_options *options, struct log_files **ret_log,
                               struct error *ret_error);

/* Makes all records durable together, or none of them, and sets their offsets. Waits for the disk.
 * There must be at least one record. ERROR_TOO_LARGE if they exceed 1 GiB. */
enum error_code log_files_append(struct log_files *files, struct log_record *records, size_t count,
                                 struct error *ret_error);

/* Makes certain that a failed append is absent. Has no effect if none is in doubt. */
enum error_code log_files_repair(struct log_files *files, struct error *ret_error);

/* Calls `visit` for every record from the offset `from` on, in order, up to those that are durable
 * when the call begins. ERROR_CORRUPT if `from` is outside of log_files_first and log_files_end, or
 * if a record is damaged. */
enum error_code log_files_read(struct log_files *files, uint64_t from, log_visit *visit,
                               void *context, struct error *ret_error);

/* Like log_files_read, but ends after the records of one segment. Sets `*ret_next` to the offset
 * after them, also on failure, so that the next call can continue there. */
enum error_code log_files_read_segment(struct log_files *files, uint64_t from, log_visit *visit,
                                       void *context, uint64_t *ret_next, struct error *ret_error);

/* From now on damage is skipped as with LOG_FILES_DAMAGE_SKIP. No reading may be running. */
void log_files_skip_damage(struct log_files *files);

/* Allows the log to drop the records before `before`, now or later. The call also prepares files
 * for which an append would have to wait, so it must be made now and then in any case. */
enum error_code log_files_trim(struct log_files *files, uint64_t before, struct error *ret_error);

void log_files_get_stats(struct log_files *files, struct log_files_stats *ret_stats);

/* Returns the oldest offset that can be read; log_files_end if there is none. */
uint64_t log_files_first(struct log_files *files);

/* Returns the offset of the next append. */
uint64_t log_files_end(struct log_files *files);

/* Closes the log. NULL has no effect. */
void log_files_close(struct log_files *files);

/* For tests: aborts unless the state in memory is consistent and matches the files. */
void log_files_check(struct log_files *files);

#endif
