/*
 * log_once.h - messages of users and records of a partition's log, in one transaction of the
 * servers that have the log: readers see all of them or none.
 *
 *     log_once_begin(once, false, &error);
 *     log_kafka_once_put(once, 0, &message); ...               or log_postgres_once_put
 *     log_once_settle(once, reports, count);                   the servers have them, or not
 *     log_once_commit(once, &commit, &offset, &error);         frames follow, and it is decided
 *
 * After a call that failed, or a message that was not taken, it can only be closed. That ends its
 * transaction: without effect, unless its commit was decided before.
 *
 * Errors     ERROR_IO with the cause. A commit is in doubt then.
 * Threads    One owner, which waits for the servers in each call.
 */
#ifndef TICKWHEEL_LOG_LOG_ONCE_H
#define TICKWHEEL_LOG_LOG_ONCE_H

#include "base/bytes.h"
#include "base/error.h"

enum log_once_fate {
    LOG_ONCE_UNKNOWN, /* no answer in time, or not sent because of others */
    LOG_ONCE_TAKEN,   /* there when the transaction is committed */
    LOG_ONCE_LATER,   /* another transaction is in its way */
    LOG_ONCE_REFUSED, /* refused now; perhaps not later */
    LOG_ONCE_SUSPECT, /* a destination of the transaction was refused, perhaps its own */
    LOG_ONCE_CROWDED, /* it was refused, or others that were sent with it */
    LOG_ONCE_NEVER,   /* refused whenever it is sent */
};

struct log_once_report {
    enum log_once_fate fate;
    const char *reason; /* valid until the next begin or close, unless TAKEN */
};

struct log_once_commit {
    const struct bytes *frames;
    size_t frame_count;
    /* the first frame must be between these offsets, and the frames contiguous */
    uint64_t from, to;
    uint64_t timeout_ms;
};

struct log_once;

struct log_once_ops {
    enum error_code (*begin)(struct log_once *, bool, struct error *);
    bool (*settle)(struct log_once *, struct log_once_report *, size_t);
    enum error_code (*commit)(struct log_once *, const struct log_once_commit *, uint64_t *,
                              struct error *);
    void (*close)(struct log_once *);
};

/* Each implementation has a struct that begins with this one. */
struct log_once {
    const struct log_once_ops *ops;
};

/* `is_apart`: its messages may take long, so it must not delay transactions of others. */
static inline enum error_code log_once_begin(struct log_once *once, bool is_apart,
                                             struct error *ret_error)
{
    return once->ops->begin(once, is_apart, ret_error);
}

/* Waits until all messages are accepted, or one is not. Returns true if all are. */
static inline bool log_once_settle(struct log_once *once, struct log_once_report *reports,
                                   size_t count)
{
    return once->ops->settle(once, reports, count);
}

/* Adds the frames and commits. `ret_offset` is the offset of the last one. */
static inline enum error_code log_once_commit(struct log_once *once,
                                              const struct log_once_commit *commit,
                                              uint64_t *ret_offset, struct error *ret_error)
{
    return once->ops->commit(once, commit, ret_offset, ret_error);
}

/* Closes it without waiting for servers. NULL has no effect. */
static inline void log_once_close(struct log_once *once)
{
    if (once)
        once->ops->close(once);
}

#endif
