/*
 * log_local_private.h - the state of a data folder's log, for log_local.c, log_local_read.c and
 * log_local_write.c.
 *
 * Threads    `lock` guards everything, except while one of the flags is_writing, is_loading and
 *            is_trimming lends what it names to the thread that set it.
 */
#ifndef TICKWHEEL_LOG_FILES_LOG_LOCAL_PRIVATE_H
#define TICKWHEEL_LOG_FILES_LOG_LOCAL_PRIVATE_H

#include "base/list.h"
#include "log/files/log_home.h"
#include "log/files/log_local.h"

#include <pthread.h>
#include <stdatomic.h>

enum log_local_reading {
    LOG_LOCAL_IDLE,
    LOG_LOCAL_FOLLOWS,
    LOG_LOCAL_ENDED, /* LOG_END was reported */
    LOG_LOCAL_LOST,  /* LOG_LOST is to be reported */
};

/* Life of an append. */
enum log_local_step {
    LOG_LOCAL_NONE,
    LOG_LOCAL_WAITS,
    LOG_LOCAL_WRITING,
    LOG_LOCAL_DONE, /* its result is to be reported */
};

struct log_local_part {
    struct log log; /* must be the first member */
    struct log_local *local;
    uint16_t partition;
    bool is_woken;
    _Atomic bool must_tell; /* the host is to be told of events */
    _Atomic bool must_look; /* there may be an event; cleared under the lock */

    enum log_local_reading reading;
    uint64_t next; /* offset from which records are reported next */
    /* index in the window of its next record; LOG_WINDOW_NONE if there is none */
    size_t window_at;
    bool is_late;         /* the window has moved on without this follower */
    bool has_end_due;     /* LOG_END is to be reported again */
    struct error lost;    /* cause, in LOG_LOCAL_LOST */
    struct buffer record; /* bytes of the record that was reported last */

    _Atomic(enum log_local_step) step; /* changed under the lock */
    struct list link;                  /* in local->waiting or local->writing */
    uint64_t ticket;
    struct buffer bytes;  /* bytes of the append; written without the lock in LOG_LOCAL_WRITING */
    struct instant since; /* time at which log_append was called */
    bool is_dropped;      /* the log was closed, so the result is not reported */
    bool has_failed;      /* the last append did not land */
    enum log_kind result; /* result, in LOG_LOCAL_DONE */
    uint64_t landed;      /* offset of the append, if it landed */
    struct error failure; /* cause, if the append did not land */

    /* records before this offset are not needed; 0 before the first log_trim */
    uint64_t trim_before;
    bool is_trimming;   /* a trim was requested and has no result yet */
    bool is_trim_taken; /* the running trim of the files includes it */
    bool has_trim_result;
    struct error trim_failure; /* result of the trim; its code is ERROR_NONE on success */
};

#define LOG_WINDOW_NONE SIZE_MAX

struct log_window_record {
    uint64_t offset;
    size_t at, size;  /* position in log_window.bytes */
    size_t following; /* index of the next record of the partition */
    uint16_t partition;
};

/* Records with offsets from `from` to before `end`. */
struct log_window {
    uint64_t from, end; /* both 0 if there is none */
    struct buffer bytes;
    struct log_window_record *records;
    size_t count, capacity;
    size_t *heads; /* for each partition, index of its first record */
};

struct log_local {
    struct log_local_options options;
    char *home_path;
    struct log_home home; /* used by the writing thread; other threads may read its files */

    pthread_mutex_t lock;
    pthread_cond_t news; /* signalled when a partition has an event or is woken */
    pthread_cond_t work; /* signalled to wake the writing thread */
    /* signalled to wake the trimming thread, and threads that wait for its trim */
    pthread_cond_t trims;
    /* offsets that are kept: copies, so that no thread has to wait for the files */
    uint64_t first, end;
    bool is_in_doubt;

    _Atomic bool must_tell; /* must_tell is set for some partition */

    /* parts with an append that waits or is being written, oldest first */
    struct list waiting, writing;
    _Atomic uint64_t pending_count, pending_bytes; /* number and size of the appends in `waiting` */
    struct log_record *records; /* one for each partition; used by the writing thread */
    bool is_writing, is_kicked;

    struct log_window window;
    bool is_loading;
    bool is_skipping; /* damage was found and is being skipped */
    /* time at which a follower first passed the window; {0} if none did */
    struct instant exhausted_at;

    bool is_trimming, wants_trim;
    uint64_t untrimmed_bytes;   /* bytes appended after trims_due was last raised */
    _Atomic uint64_t trims_due; /* see log_local_trims_due */

    bool is_ending, has_write_thread, has_trim_thread;
    pthread_t write_thread, trim_thread;

    struct log_local_part parts[]; /* one for each partition */
};

/* ---- log_local_write.c ---- */

/* Marks a partition as having an event, so that log_local_tell tells the host. */
void log_local_mark(struct log_local_part *part);

/* Calls `told` for the partitions that have events. Called without the lock. */
void log_local_tell(struct log_local *local);

/* Removes an append that waits from the list. The caller holds the lock. */
void log_local_withdraw(struct log_local_part *part);

/* ---- log_local_read.c ---- */

void log_window_deinit(struct log_window *window);

enum error_code log_local_follow(struct log *log, enum log_from from, uint64_t number,
                                 struct error *ret_error);

/* Ends the reading of a partition. The caller holds the lock. */
void log_local_unfollow(struct log_local_part *part);

/* Returns what there is to read as an event. The caller holds the lock, which is released while a
 * window is loaded. */
enum log_kind log_local_take_reading(struct log_local_part *part, struct log_event *ret_event);

#endif
