/*
 * log.h - the log of a partition: records in order, which several nodes may append and all follow.
 *
 * The log is the truth: every acknowledged record is in it, and the storage follows it.
 * The bytes of a record are opaque. Implementation: kafka/log_kafka.h, on a partition of a topic.
 *
 *     log_follow(log, place.next, &error);
 *     log_append(log, ticket, bytes, &error);
 *     while (log_wait(log, 1000, &event) != LOG_NOTHING)
 *         switch (event.kind) ...
 *
 * A record that was appended here may be read before it is told that it landed, or after.
 * An append without an answer in time is in doubt: it may land later, and nothing fences it but the
 * order of the log.
 *
 * Errors     ERROR_IO: the log refuses; ERROR_OVERLOADED: an append, or a trim, is in flight.
 * Ownership  The bytes of an event are valid until the next call.
 * Threads    One owner; log_wake from any thread.
 */
#ifndef TICKWHEEL_LOG_LOG_H
#define TICKWHEEL_LOG_LOG_H

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"

enum log_kind {
    LOG_NOTHING,     /* within the time */
    LOG_RECORD,      /* the next record is read: offset, bytes */
    LOG_END,         /* all records before `offset` are read, and there is none behind them */
    LOG_LANDED,      /* the append `ticket` is durable: offset, appended */
    LOG_FAILED,      /* the append `ticket` is in doubt */
    LOG_LOST,        /* the log has no record at the offset that is to be read: it was cut, or is
                        another one. Nothing more is read until log_follow */
    LOG_TRIMMED,     /* the log begins at `offset` now, or later */
    LOG_TRIM_FAILED, /* perhaps it does */
};

struct log_event {
    enum log_kind kind;
    uint64_t ticket, offset;
    struct wall appended; /* of LANDED: when, by the clock of the log; {0}: it did not say */
    struct bytes bytes;
    const char *reason; /* of FAILED, LOST and TRIM_FAILED; static */
};

enum log_trouble {
    LOG_FINE,
    LOG_SLOW,  /* no append has landed for a while */
    LOG_ALONE, /* and the servers of the log cannot be reached */
};

/* Where reading begins. */
enum log_from {
    LOG_FROM_OFFSET, /* at the record of this offset */
    LOG_FROM_BEGIN,  /* at the first record that is there */
    LOG_FROM_END,    /* that number of records before the end, or at the first one */
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

/* The head of every implementation. */
struct log {
    const struct log_ops *ops;
};

/* Reads from this offset on. */
static inline enum error_code log_follow(struct log *log, uint64_t offset, struct error *ret_error)
{
    return log->ops->follow(log, LOG_FROM_OFFSET, offset, ret_error);
}

/* Reads from the first record on that is there. */
static inline enum error_code log_follow_begin(struct log *log, struct error *ret_error)
{
    return log->ops->follow(log, LOG_FROM_BEGIN, 0, ret_error);
}

/* Reads the last `count` records of those that are there, and on; or all, if they are fewer. */
static inline enum error_code log_follow_end(struct log *log, uint64_t count,
                                             struct error *ret_error)
{
    return log->ops->follow(log, LOG_FROM_END, count, ret_error);
}

/* Sends the bytes; a LANDED or FAILED tells of it, and until then ERROR_OVERLOADED refuses the
 * next. On failure nothing was sent. */
static inline enum error_code log_append(struct log *log, uint64_t ticket, struct bytes bytes,
                                         struct error *ret_error)
{
    return log->ops->append(log, ticket, bytes, ret_error);
}

/* Records before this offset are not needed any more; a TRIMMED or TRIM_FAILED tells whether they
 * are dropped, and until then ERROR_OVERLOADED refuses the next. */
static inline enum error_code log_trim(struct log *log, uint64_t before, struct error *ret_error)
{
    return log->ops->trim(log, before, ret_error);
}

/* The next event; waits for `timeout_ms` at most, and perhaps for less. */
static inline enum log_kind log_wait(struct log *log, uint64_t timeout_ms,
                                     struct log_event *ret_event)
{
    return log->ops->wait(log, timeout_ms, ret_event);
}

/* Ends the wait of log_wait, or the next one. */
static inline void log_wake(struct log *log)
{
    log->ops->wake(log);
}

/* Whether appends land, and if not, why, in words. */
static inline enum log_trouble log_get_trouble(const struct log *log, char *ret_text, size_t size)
{
    return log->ops->trouble(log, ret_text, size);
}

/* An append that has not landed is in doubt. NULL is fine. */
static inline void log_close(struct log *log)
{
    if (log)
        log->ops->close(log);
}

#endif
