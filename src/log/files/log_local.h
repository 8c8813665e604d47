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
    const char *home; /* the data folder */
    uint16_t partition_count;
    uint64_t segment_bytes; /* 0 means the default of log_files.h */
    enum log_files_sync sync;
    bool skips_damage; /* opens and reads what is intact; otherwise damage is ERROR_CORRUPT */
    bool has_id;
    uint8_t id[LOG_ID_SIZE]; /* id of the folder's log, if has_id */
    uint64_t begin;          /* lowest offset that a partition needs; a new log begins here */
    uint64_t reached;        /* lower bound of the log's end, by the tables; 0 if unknown */
    /* LOG_FILES_MAKE refuses a log that holds records, and replaces any other. It and
     * LOG_FILES_OPEN may end with another id than before: the caller stores log_local_stats.id. */
    enum log_files_mode mode;
    bool replaces;                 /* LOG_FILES_MAKE replaces a log that holds records too */
    const struct disk_calls *disk; /* NULL for the operating system's */

    /* Called when an append finds no room. Frees space that is held back for that, and returns
     * true to try again. NULL if none is held back. */
    bool (*relieve)(void *context);
    /* Called from any thread when a partition has events to wait for. NULL is allowed. It may not
     * call the log. */
    void (*told)(void *context, uint16_t partition);
    /* Called on the writing thread. Returns how long it waits for more appends to write together,
     * with so many bytes of them; it asks again when some come. NULL if it never waits. */
    uint64_t (*linger_ns)(void *context, uint64_t bytes);
    /* Called after each write, which took `ns`, on the thread that wrote, without locks. May be
     * NULL. */
    void (*written)(void *context, uint64_t bytes, uint64_t ns);
    void *context;
};

struct log_local_stats {
    uint64_t first, end; /* first kept offset; offset of the next append */
    uint8_t id[LOG_ID_SIZE];
    uint64_t bytes, reserved; /* see log_files_stats */
    uint64_t torn;            /* incomplete appends that a crash left */
    uint64_t lost;            /* records that are missing or damaged */
    bool has_loss;            /* damage was skipped; `loss` says which */
    struct error loss;
    bool is_in_doubt; /* the last append failed, and is not removed yet */
};

/* Opens or makes the log; see log_home.h for what is refused. */
enum error_code log_local_open(const struct log_local_options *options,
                               struct log_local **ret_local, struct error *ret_error);

/* Stops the threads and closes the log. NULL is allowed. */
void log_local_close(struct log_local *local);

/* Starts a thread that writes after log_local_kick, and one that trims. Without them the host calls
 * log_local_flush and log_local_trim. */
enum error_code log_local_start(struct log_local *local, struct error *ret_error);

/* Stops the threads, after they have finished their work. */
void log_local_stop(struct log_local *local);

/* Returns the log of a partition. */
struct log *log_local_partition(struct log_local *local, uint16_t partition);

/* Writes the appends of all partitions that wait, with one write and one sync. Returns false if
 * another thread is writing: then it does nothing but log_local_kick. */
bool log_local_flush(struct log_local *local);

/* Wakes the writing thread, which does what log_local_flush does. Appends that come meanwhile wait
 * for its next write. */
void log_local_kick(struct log_local *local);

/* Returns the number of appends that wait, and their size. */
void log_local_pending(const struct log_local *local, uint64_t *ret_count, uint64_t *ret_bytes);

/* Reports LOG_END, with the present end, once to each partition that has reached its end. A
 * partition with an append gets it after the result. */
void log_local_note_end(struct log_local *local);

/* Returns the number of times that enough was appended for the partitions to trim again. */
uint64_t log_local_trims_due(const struct log_local *local);

/* Trims the files before the lowest offset of all partitions' log_trim. A partition without any
 * keeps everything. Prepares files for later appends in any case. Waits for the disk. */
void log_local_trim(struct log_local *local);

/* True while an append that failed may be on the disk or not. */
bool log_local_is_in_doubt(struct log_local *local);

void log_local_get_stats(struct log_local *local, struct log_local_stats *ret_stats);

#endif
