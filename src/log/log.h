/*
 * log.h - the log: records that are durable in the order in which they were appended.
 *
 * An acknowledged write is in the log; the storage is state that follows it. A record belongs to a
 * partition and to the epoch of its owner; its body is opaque. Implementation: log_files.h.
 *
 *     struct log_record record = {.partition = 3, .epoch = 7, .body = BYTES("put")};
 *     if (log_append(log, &record, 1, &error) == ERROR_NONE)
 *         ...                       durable, at record.offset
 *     log_read(log, applied + 1, apply, storage, &error);
 *     log_trim(log, applied + 1, &error);
 *
 * Offsets    Rise by one from record to record, except behind a loss. A fence takes one, too. 0 is
 *            no offset.
 * Errors     ERROR_DISK_FULL and ERROR_NO_MEMORY of an append: none of it was written. ERROR_IO: it
 *            may be in doubt (log_stats tells): a crash leaves it or not, until a later log_append,
 *            log_fence or log_repair succeeds; from then on it is absent for good. ERROR_CORRUPT:
 *            records are missing or damaged. ERROR_STOPPING: the epoch is fenced. Every call may be
 *            repeated.
 * Threads    log_append, log_fence and log_repair from one thread at a time; the others from any
 *            thread, beside them.
 */
#ifndef TICKWHEEL_LOG_LOG_H
#define TICKWHEEL_LOG_LOG_H

#include "base/bytes.h"
#include "base/error.h"

#include <assert.h>

struct log_record {
    uint16_t partition;
    uint64_t epoch;    /* of its owner; lower than the fence of the partition: it is refused */
    struct bytes body; /* not empty */
    uint64_t offset;   /* set by log_append and log_read */
};

enum { LOG_ID_SIZE = 16 };

struct log_stats {
    uint64_t first, end;     /* as log_first and log_end */
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

struct log;

struct log_ops {
    enum error_code (*append)(struct log *log, struct log_record *records, size_t count,
                              struct error *ret_error);
    enum error_code (*fence)(struct log *log, uint16_t partition, uint64_t epoch,
                             struct error *ret_error);
    enum error_code (*repair)(struct log *log, struct error *ret_error);
    enum error_code (*read)(struct log *log, uint64_t from, log_visit *visit, void *context,
                            struct error *ret_error);
    enum error_code (*trim)(struct log *log, uint64_t before, struct error *ret_error);
    void (*stats)(struct log *log, struct log_stats *ret_stats);
    void (*close)(struct log *log);
};

/* The head of every implementation. */
struct log {
    const struct log_ops *ops;
};

/* Makes all records durable together, or none, and sets their offsets. Waits for the disk. At least
 * one record; ERROR_TOO_LARGE beyond 1 GiB. */
static inline enum error_code log_append(struct log *log, struct log_record *records, size_t count,
                                         struct error *ret_error)
{
    return log->ops->append(log, records, count, ret_error);
}

/* From its return on, records of the partition with a lower epoch are refused, after a restart too.
 * ERROR_STOPPING when a higher epoch has fenced it already. */
static inline enum error_code log_fence(struct log *log, uint16_t partition, uint64_t epoch,
                                        struct error *ret_error)
{
    return log->ops->fence(log, partition, epoch, ret_error);
}

/* Makes sure that an append that failed is absent; does nothing when none is in doubt. */
static inline enum error_code log_repair(struct log *log, struct error *ret_error)
{
    return log->ops->repair(log, ret_error);
}

/* Visits every record at or after `from`, in order, up to those that are durable when it begins.
 * ERROR_CORRUPT when `from` lies before log_first or behind log_end, or a record is damaged. */
static inline enum error_code log_read(struct log *log, uint64_t from, log_visit *visit,
                                       void *context, struct error *ret_error)
{
    return log->ops->read(log, from, visit, context, ret_error);
}

/* Records before `before` are not needed any more: the log may drop them, at once or later. It also
 * does work ahead that a later append would wait for, so call it now and then in any case. */
static inline enum error_code log_trim(struct log *log, uint64_t before, struct error *ret_error)
{
    return log->ops->trim(log, before, ret_error);
}

static inline void log_get_stats(struct log *log, struct log_stats *ret_stats)
{
    log->ops->stats(log, ret_stats);
}

/* The oldest offset that can be read; log_end when there is none. */
static inline uint64_t log_first(struct log *log)
{
    struct log_stats stats;

    log_get_stats(log, &stats);
    return stats.first;
}

/* The offset that the next append takes. */
static inline uint64_t log_end(struct log *log)
{
    struct log_stats stats;

    log_get_stats(log, &stats);
    return stats.end;
}

/* NULL is fine. */
static inline void log_close(struct log *log)
{
    if (log)
        log->ops->close(log);
}

#endif
