/*
 * log_local.h - the log of a data folder (log_home.h) as one private log (log.h) per partition. The
 * partitions share the files: what they append together becomes durable by one sync.
 *
 *     struct log_local_options options = {.home = "data", .partition_count = 64, ...};
 *     log_local_open(&options, &local, &error);
 *     log_local_start(local, &error);
 *     struct log *log = log_local_partition(local, 3);
 *     log_follow(log, place.next, &error);
 *     log_append(log, ticket, bytes, &error);
 *     if (!log_local_flush(local))                 or log_local_kick(local)
 *         ...                                      another thread writes it
 *     log_wait(log, 0, &event);                    LOG_LANDED
 *
 * Reading    Followers share one pass over the files: a window holds the records of one segment,
 *            and moves on when all followers have passed it. So follow all partitions before
 *            reading any, and wait on each in turn. A follower that is not waited on for a second
 *            no longer holds the others back. A partition that has not reached LOG_END may read
 *            records that it appended in this process; LOG_LANDED reports them too.
 * Results    LOG_REFUSED also has ERROR_IO, if the disk failed before anything was written. An
 *            append that is in doubt is removed before the next one. LOG_END is withheld until
 *            then.
 * Errors     As log.h and log_files.h say.
 * Ownership  The logs are those of `local`. log_close ends the following: an append that waits is
 *            dropped, and the result of one that is being written is not reported.
 * Threads    Each log has one owner. The functions below, except open and close, may be called from
 *            any thread. No lock is held while a file is read, written or synced.
 */
#ifndef TICKWHEEL_LOG_FILES_LOG_LOCAL_H
#define TICKWHEEL_LOG_FILES_LOG_LOCAL_H

#include "log/files/log_files.h"
#include "log/log.h"

struct log_local;

struct log_local_options {
    const char *home; /* path of the data folder */
    uint16_t partition_count;
    uint64_t segment_bytes; /* 0 means the default of log_files.h */
    enum log_files_sync sync;
    /* true to use what is intact after damage; otherwise damage is ERROR_CORRUPT */
    bool skips_damage;
    bool has_id;
    uint8_t id[LOG_ID_SIZE]; /* id of the folder's log; valid if has_id */
    uint64_t begin;          /* lowest offset that a partition needs; a new log begins at it */
    uint64_t reached;        /* lower bound of the log's end, which the tables know; 0 if unknown */
    /* LOG_FILES_MAKE refuses to replace a log with records, and replaces any other. With it and
     * with LOG_FILES_OPEN the id may change: the caller stores log_local_stats.id. */
    enum log_files_mode mode;
    bool replaces;                 /* with LOG_FILES_MAKE: replaces even a log with records */
    const struct disk_calls *disk; /* NULL means the disk of the operating system */

    /* Called when the disk has no room for an append. Frees space that was reserved for this case,
     * and returns true to try again. NULL if no space is reserved. */
    bool (*relieve)(void *context);
    /* Called from any thread when a partition has an event for log_wait. It must not call the log.
     * May be NULL. */
    void (*told)(void *context, uint16_t partition);
    /* Called on the writing thread, and again when more appends arrive. Returns for how long to
     * wait for more of them; `bytes` is the size of those that wait. NULL if it never waits. */
    uint64_t (*linger_ns)(void *context, uint64_t bytes);
    /* Called on the writing thread after each write, which took `ns`. No lock is held. May be
     * NULL. */
    void (*written)(void *context, uint64_t bytes, uint64_t ns);
    void *context;
};

struct log_local_stats {
    uint64_t first, end; /* first offset that is kept; offset of the next append */
    uint8_t id[LOG_ID_SIZE];
    uint64_t bytes, reserved; /* as in log_files_stats */
    uint64_t torn;            /* incomplete appends that a crash left */
    uint64_t lost;            /* records that are missing or damaged */
    bool has_loss;            /* damage was skipped; `loss` describes it */
    struct error loss;
    bool is_in_doubt; /* the last append failed, and has not been removed yet */
};

/* Opens or makes the log; see log_home.h for what is refused. */
enum error_code log_local_open(const struct log_local_options *options,
                               struct log_local **ret_local, struct error *ret_error);

/* Stops the threads and closes the log. NULL has no effect. */
void log_local_close(struct log_local *local);

/* Starts two threads: one writes after log_local_kick, the other trims. Without them the host must
 * call log_local_flush and log_local_trim. */
enum error_code log_local_start(struct log_local *local, struct error *ret_error);

/* Stops the threads, after they have finished their work. */
void log_local_stop(struct log_local *local);

/* Returns the log of a partition. */
struct log *log_local_partition(struct log_local *local, uint16_t partition);

/* Writes the waiting appends of all partitions with one write and one sync. If another thread is
 * writing, only calls log_local_kick, and returns false. */
bool log_local_flush(struct log_local *local);

/* Wakes the writing thread, which then does what log_local_flush does. Appends that arrive during a
 * write are in the next one. */
void log_local_kick(struct log_local *local);

/* Returns the number of appends that wait, and their size. */
void log_local_pending(const struct log_local *local, uint64_t *ret_count, uint64_t *ret_bytes);

/* Reports LOG_END, with the current end, once more to each partition that has reached its end. A
 * partition with an append gets it after the result of the append. */
void log_local_note_end(struct log_local *local);

/* Returns how often enough was appended that partitions should trim again. */
uint64_t log_local_trims_due(const struct log_local *local);

/* Trims the files up to the lowest offset that all partitions have passed to log_trim. A partition
 * that has not called it keeps everything. Also prepares files for later appends. Waits for the
 * disk. */
void log_local_trim(struct log_local *local);

/* True while it is unknown whether a failed append is on the disk. */
bool log_local_is_in_doubt(struct log_local *local);

void log_local_get_stats(struct log_local *local, struct log_local_stats *ret_stats);

#endif
