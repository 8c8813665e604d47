/*
 * log_files.h - a log in files of its own: segments of fixed size that are written in place. All
 * partitions of a node share it.
 *
 * A segment is filled with zeros, or recycled, before it is used, so a sync of an append writes no
 * metadata of the file system. Each segment's header says where the one before ended: this chain
 * shows at a start whether one is missing, shortened, exchanged or of another log. docs/storage.md
 * has the format.
 *
 *     struct log_files_options options = {.folder = "data/log", .begin = applied + 1};
 *     struct log_record record = {.partition = 3, .epoch = 7, .body = BYTES("put")};
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
    uint64_t epoch;    /* Epoch of its owner. */
    struct bytes body; /* not empty */
    uint64_t offset;   /* set by log_files_append and log_files_read */
};

enum { LOG_ID_SIZE = 16 };

struct log_files_stats {
    uint64_t first, end;     /* as log_files_first and log_files_end */
    uint8_t id[LOG_ID_SIZE]; /* random, drawn when the log was made */
    uint64_t bytes;          /* that the records to be kept take */
    uint64_t reserved;       /* bytes that the log takes on the disk */
    uint64_t torn;           /* appends that a crash cut: dropped when the log was opened */
    uint64_t lost;           /* records that were found missing or damaged, and passed over */
    bool is_in_doubt;        /* an append failed, and none has succeeded since */
};

/* Reads a record; its body is valid during the call. Another code than ERROR_NONE ends the reading,
 * which returns it. It may not call the log. */
typedef enum error_code log_visit(void *context, const struct log_record *record,
                                  struct error *ret_error);

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
enum error_code log_files_open(const struct log_files_options *options, struct log_files **ret_log,
                               struct error *ret_error);

/* Makes all records durable together, or none, and sets their offsets. Waits for the disk. At least
 * one record; ERROR_TOO_LARGE beyond 1 GiB. */
enum error_code log_files_append(struct log_files *files, struct log_record *records, size_t count,
                                 struct error *ret_error);

/* Makes sure that an append that failed is absent; does nothing when none is in doubt. */
enum error_code log_files_repair(struct log_files *files, struct error *ret_error);

/* Visits every record at or after `from`, in order, up to those that are durable when it begins.
 * ERROR_CORRUPT when `from` lies before log_files_first or behind log_files_end, or a record is
 * damaged. */
enum error_code log_files_read(struct log_files *files, uint64_t from, log_visit *visit,
                               void *context, struct error *ret_error);

/* Records before `before` are not needed any more: the log may drop them, at once or later. It also
 * does work ahead that a later append would wait for, so call it now and then in any case. */
enum error_code log_files_trim(struct log_files *files, uint64_t before, struct error *ret_error);

void log_files_get_stats(struct log_files *files, struct log_files_stats *ret_stats);

/* The oldest offset that can be read; log_files_end when there is none. */
uint64_t log_files_first(struct log_files *files);

/* The offset that the next append takes. */
uint64_t log_files_end(struct log_files *files);

/* NULL is fine. */
void log_files_close(struct log_files *files);

/* For tests: aborts unless the state in memory holds together, and fits to the files. */
void log_files_check(struct log_files *files);

#endif
