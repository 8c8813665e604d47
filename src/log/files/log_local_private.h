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
    struct log log; /* the first member */
    struct log_local *local;
    uint16_t partition;
    bool is_woken;
    _Atomic bool must_tell; /* whether the host is to be told of events */
    _Atomic bool must_look; /* whether there may be an event; cleared with the lock */

    enum log_local_reading reading;
    uint64_t next;        /* offset from which records are reported next */
    size_t window_at;     /* index of its next record in the window; LOG_WINDOW_NONE if none */
    bool is_late;         /* the window has moved on without this follower */
    bool has_end_due;     /* LOG_END is to be reported again */
    struct error lost;    /* of LOG_LOCAL_LOST */
    struct buffer record; /* bytes of the record that was reported last */

    _Atomic(enum log_local_step) step; /* changed with the lock */
    struct list link;                  /* in local->waiting or local->writing */
    uint64_t ticket;
    struct buffer bytes;  /* bytes of the append; written without the lock in LOG_LOCAL_WRITING */
    struct instant since; /* time of log_append */
    bool is_dropped;      /* the log was closed: the result is not reported */
    bool has_failed;      /* the last append did not land */
    enum log_kind result; /* of LOG_LOCAL_DONE */
    uint64_t landed;      /* offset, if it landed */
    struct error failure; /* cause, if it did not */

    uint64_t trim_before; /* records before it are not needed; 0 before the first log_trim */
    bool is_trimming;     /* a trim has no answer yet */
    bool is_trim_taken;   /* the trim of the files that is under way includes it */
    bool has_trim_result;
    struct error trim_failure; /* code ERROR_NONE if the trim succeeded */
};

#define LOG_WINDOW_NONE SIZE_MAX

struct log_window_record {
    uint64_t offset;
    size_t at, size;  /* place in log_window.bytes */
    size_t following; /* index of the next record of the partition */
    uint16_t partition;
};

/* Records of the offsets from `from` to before `end`. */
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
    struct log_home home; /* of the writer; its files may be read by others */

    pthread_mutex_t lock;
    pthread_cond_t news;  /* signalled when a partition has an event, or is woken */
    pthread_cond_t work;  /* wakes the writing thread */
    pthread_cond_t trims; /* wakes the trimming thread, and those who wait for its trim */
    uint64_t first, end;  /* offsets kept: copies for use without waiting for the files */
    bool is_in_doubt;

    _Atomic bool must_tell; /* whether a partition's flag is set */

    struct list waiting, writing;                  /* appends, oldest first */
    _Atomic uint64_t pending_count, pending_bytes; /* of `waiting` */
    struct log_record *records; /* one for each partition; used by the writing thread */
    bool is_writing, is_kicked;

    struct log_window window;
    bool is_loading;
    bool is_skipping;            /* damage was found, and is skipped */
    struct instant exhausted_at; /* time at which a follower passed the window; {0} if none did */

    bool is_trimming, wants_trim;
    uint64_t untrimmed_bytes;   /* bytes appended since trims_due was raised */
    _Atomic uint64_t trims_due; /* see log_local_trims_due */

    bool is_ending, has_write_thread, has_trim_thread;
    pthread_t write_thread, trim_thread;

    struct log_local_part parts[]; /* one for each partition */
};

/* ---- log_local_write.c ---- */

/* Notes that a partition has an event, of which log_local_tell tells the host. */
void log_local_mark(struct log_local_part *part);

/* Tells the host of the partitions that have events. Called without the lock. */
void log_local_tell(struct log_local *local);

/* Takes an append that waits out of the list. The caller holds the lock. */
void log_local_withdraw(struct log_local_part *part);

/* ---- log_local_read.c ---- */

void log_window_deinit(struct log_window *window);

enum error_code log_local_follow(struct log *log, enum log_from from, uint64_t number,
                                 struct error *ret_error);

/* Ends the following. The caller holds the lock. */
void log_local_unfollow(struct log_local_part *part);

/* Makes an event of what there is to read. The caller holds the lock, which is released while a
 * window is loaded. */
enum log_kind log_local_take_reading(struct log_local_part *part, struct log_event *ret_event);

#endif
