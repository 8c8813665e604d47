/*
 * log.h - the log of a partition: records in order, which one or several nodes append and follow.
 *
 * The log is the truth: every acknowledged record is in it, and the storage follows it.
 * The bytes of a record are opaque. Implementations: files/log_local.h, in files of a data folder;
 * kafka/log_kafka.h, on a partition of a topic; postgres/log_postgres.h, in rows of a table.
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
    LOG_NOTHING, /* no event within the time */
    LOG_RECORD,  /* the next record: `offset` and `bytes`; see LOG_FROM_OFFSET */
    LOG_END,     /* all records before `offset` were read, and the log ends there */
    LOG_LANDED,  /* append `ticket` is durable: `offset` and `appended` */
    /* append `ticket` was not written and never will be: `code` and `reason`. In a log that is not
     * private another record has its place */
    LOG_REFUSED,
    LOG_FAILED, /* append `ticket` is in doubt */
    /* the log does not have the record to read next: it was trimmed, is damaged, or the log is
     * another one. Nothing more is read until log_follow */
    LOG_LOST,
    LOG_TRIMMED,     /* the log begins at `offset` or later now */
    LOG_TRIM_FAILED, /* the trim may have failed */
};

struct log_event {
    enum log_kind kind;
    uint64_t ticket, offset;
    struct wall appended; /* LANDED: time of the append by the clock of the log; {0} if unknown */
    struct bytes bytes;
    enum error_code code; /* REFUSED; FAILED and LOST of a private log: the cause */
    /* REFUSED, FAILED, LOST and TRIM_FAILED: the cause in words; valid as long as `bytes` */
    const char *reason;
};

enum log_trouble {
    LOG_FINE,
    LOG_SLOW,  /* no append was confirmed for some time */
    LOG_ALONE, /* as LOG_SLOW, and the servers of the log cannot be reached */
};

/* Where reading begins. `number` is the argument of follow. */
enum log_from {
    /* at the record with the offset `number`. A log whose last records can be replaced by others
     * returns the record before it first, if it still has that */
    LOG_FROM_OFFSET,
    LOG_FROM_BEGIN, /* at the first record that the log still has */
    /* `number` records before the end, or at the first record if there are fewer */
    LOG_FROM_END,
};

struct log;

struct log_ops {
    enum error_code (*follow)(struct log *, enum log_from, uint64_t number, struct error *);
    enum error_code (*append)(struct log *, uint64_t ticket, struct bytes, struct error *);
    enum error_code (*trim)(struct log *, uint64_t before, struct error *);
    enum log_kind (*wait)(struct log *, uint64_t timeout_ms, struct log_event *);
    void (*wake)(struct log *);
    enum log_trouble (*trouble)(const struct log *, char *ret_text, size_t size);
    int (*fd)(const struct log *); /* NULL if there is none */
    void (*close)(struct log *);
};

/* A log. Each implementation has a struct that begins with this one. */
struct log {
    const struct log_ops *ops;
    /* True if only this process appends. Then a claim of the partition is valid at once, without a
     * lease, keeps and sweeps. */
    bool is_private;
};

/* Begins to read at this offset. */
static inline enum error_code log_follow(struct log *log, uint64_t offset, struct error *ret_error)
{
    return log->ops->follow(log, LOG_FROM_OFFSET, offset, ret_error);
}

/* Begins to read at the first record. */
static inline enum error_code log_follow_begin(struct log *log, struct error *ret_error)
{
    return log->ops->follow(log, LOG_FROM_BEGIN, 0, ret_error);
}

/* Begins to read `count` records before the end, or at the first record if there are fewer. */
static inline enum error_code log_follow_end(struct log *log, uint64_t count,
                                             struct error *ret_error)
{
    return log->ops->follow(log, LOG_FROM_END, count, ret_error);
}

/* Sends the bytes. LANDED, REFUSED or FAILED reports the result; until then another append fails
 * with ERROR_OVERLOADED. If this call fails, nothing was sent. */
static inline enum error_code log_append(struct log *log, uint64_t ticket, struct bytes bytes,
                                         struct error *ret_error)
{
    return log->ops->append(log, ticket, bytes, ret_error);
}

/* Trims the records before this offset. TRIMMED or TRIM_FAILED reports the result; until then
 * another trim fails with ERROR_OVERLOADED. */
static inline enum error_code log_trim(struct log *log, uint64_t before, struct error *ret_error)
{
    return log->ops->trim(log, before, ret_error);
}

/* Returns the next event; LOG_NOTHING if there is none within `timeout_ms`. */
static inline enum log_kind log_wait(struct log *log, uint64_t timeout_ms,
                                     struct log_event *ret_event)
{
    return log->ops->wait(log, timeout_ms, ret_event);
}

/* Ends the current or next log_wait. May be called from any thread. */
static inline void log_wake(struct log *log)
{
    log->ops->wake(log);
}

/* Returns whether appends are confirmed; if not, `ret_text` says why. */
static inline enum log_trouble log_get_trouble(const struct log *log, char *ret_text, size_t size)
{
    return log->ops->trouble(log, ret_text, size);
}

/* Returns a descriptor for a thread that serves several logs, to be watched by its edges: when it
 * is written, the thread calls log_wait with a time of 0 until there is nothing. -1 if the log
 * tells its owner in another way. */
static inline int log_fd(const struct log *log)
{
    return log->ops->fd ? log->ops->fd(log) : -1;
}

/* Closes the log. An append without a result stays in doubt. NULL has no effect. A log of
 * log_local.h can be followed again. */
static inline void log_close(struct log *log)
{
    if (log)
        log->ops->close(log);
}

#endif
