/*
 * log.h - the log of a partition: records in order, which one or several nodes append and follow.
 *
 * The log is the truth: every acknowledged record is in it, and the storage follows it.
 * The bytes of a record are opaque. Implementations: files/log_local.h, in files of a data folder;
 * kafka/log_kafka.h, on a partition of a topic.
 *
 *     log_follow(log, place.next, &error);
 *     log_append(log, ticket, bytes, &error);
 *     while (log_wait(log, 1000, &event) != LOG_NOTHING)
 *         switch (event.kind) ...
 *
 * A record that was appended here may be read before LANDED reports it, or after. A private log
 * does not return it again after END: LANDED stands for the record.
 * An append without an answer in time is in doubt: it may land later, and nothing fences it but the
 * order of the log. In a private log the next END ends the doubt: an append that was not read
 * before it is absent for good.
 *
 * Errors     ERROR_IO: the log refuses; ERROR_OVERLOADED: an append, or a trim, is in flight;
 *            ERROR_INVALID: this log cannot be followed from there.
 * Ownership  The bytes of an event are valid until the next call.
 * Threads    One owner; log_wake from any thread.
 */
#ifndef TICKWHEEL_LOG_LOG_H
#define TICKWHEEL_LOG_LOG_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"

enum log_kind {
    LOG_NOTHING, /* nothing within the time */
    LOG_RECORD,  /* the next record: offset, bytes */
    LOG_END,     /* all records before `offset` were read, and it is the end */
    LOG_LANDED,  /* append `ticket` is durable: offset, appended */
    LOG_REFUSED, /* append `ticket` was not written and never will be: code, reason */
    LOG_FAILED,  /* append `ticket` is in doubt */
    /* the log has no record at the offset to read: it was trimmed, is damaged, or is another one.
     * Nothing more is read until log_follow */
    LOG_LOST,
    LOG_TRIMMED,     /* the log begins at `offset` now, or later */
    LOG_TRIM_FAILED, /* the trim may have failed */
};

struct log_event {
    enum log_kind kind;
    uint64_t ticket, offset;
    struct wall appended; /* of LANDED: time of the append by the log's clock; {0} if unknown */
    struct bytes bytes;
    enum error_code code; /* of REFUSED; also of FAILED and LOST of a private log */
    const char *reason;   /* of REFUSED, FAILED, LOST and TRIM_FAILED; valid like `bytes` */
};

enum log_trouble {
    LOG_FINE,
    LOG_SLOW,  /* no append was confirmed for a while */
    LOG_ALONE, /* nor can the servers of the log be reached */
};

/* Where reading begins. */
enum log_from {
    LOG_FROM_OFFSET, /* at the first record that the log still has */
    LOG_FROM_BEGIN,  /* at the first record */
    LOG_FROM_END,    /* this number of records before the end, or at the first record */
};

struct log;

struct log_ops {
    enum error_code (*follow)(struct log *, enum log_from, uint64_t number, struct error *);
    enum error_code (*append)(struct log *, uint64_t ticket, struct bytes, struct error *);
    enum error_code (*trim)(struct log *, uint64_t before, struct error *);
    enum log_kind (*wait)(struct log *, uint64_t timeout_ms, struct log_event *);
    void (*wake)(struct log *);
    enum log_trouble (*trouble)(const struct log *, char *ret_text, size_t size);
    void (*close)(struct log *);
};

/* Head of every implementation. */
struct log {
    const struct log_ops *ops;
    /* Whether this process alone appends. Then a claim of the partition is valid at once: it needs
     * no lease, no keeps and no sweeps. */
    bool is_private;
};

/* Reads from this offset on. */
static inline enum error_code log_follow(struct log *log, uint64_t offset, struct error *ret_error)
{
    return log->ops->follow(log, LOG_FROM_OFFSET, offset, ret_error);
}

/* Reads from the first record on. */
static inline enum error_code log_follow_begin(struct log *log, struct error *ret_error)
{
    return log->ops->follow(log, LOG_FROM_BEGIN, 0, ret_error);
}

/* Reads from the last `count` records on, or from the first if there are fewer. */
static inline enum error_code log_follow_end(struct log *log, uint64_t count,
                                             struct error *ret_error)
{
    return log->ops->follow(log, LOG_FROM_END, count, ret_error);
}

/* Sends the bytes. LANDED, REFUSED or FAILED reports the result; until then the next append fails
 * with ERROR_OVERLOADED. On failure nothing was sent. */
static inline enum error_code log_append(struct log *log, uint64_t ticket, struct bytes bytes,
                                         struct error *ret_error)
{
    return log->ops->append(log, ticket, bytes, ret_error);
}

/* Trims the records before this offset. TRIMMED or TRIM_FAILED reports the result; until then
 * the next trim fails with ERROR_OVERLOADED. */
static inline enum error_code log_trim(struct log *log, uint64_t before, struct error *ret_error)
{
    return log->ops->trim(log, before, ret_error);
}

/* Returns the next event, after `timeout_ms` at most. */
static inline enum log_kind log_wait(struct log *log, uint64_t timeout_ms,
                                     struct log_event *ret_event)
{
    return log->ops->wait(log, timeout_ms, ret_event);
}

/* Ends the present or next wait of log_wait. */
static inline void log_wake(struct log *log)
{
    log->ops->wake(log);
}

/* Returns whether appends are confirmed, and if not, why. */
static inline enum log_trouble log_get_trouble(const struct log *log, char *ret_text, size_t size)
{
    return log->ops->trouble(log, ret_text, size);
}

/* Closes the log. An append without a result is in doubt. NULL is allowed. A log of log_local.h
 * stays, and can be followed again. */
static inline void log_close(struct log *log)
{
    if (log)
        log->ops->close(log);
}

#endif
