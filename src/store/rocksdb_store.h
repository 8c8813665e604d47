/*
 * rocksdb_store.h - the inside of the embedded storage, shared by its files.
 *
 * Each file calls only those below it:
 *
 *   rocksdb_check.c     looking through all of a folder that is at rest
 *   rocksdb.c           the operations of a storage, metas and statistics
 *   rocksdb_backup.c    copies while it runs
 *   rocksdb_open.c      a folder is opened and closed
 *   rocksdb_export.c    copies of a partition, and an empty one
 *   rocksdb_read.c      scans, finding one, and setting damaged records aside
 *   rocksdb_follow.c    changes are made, and taken with the place in their log
 *   rocksdb_enter.c     how reads and changes begin, and end failures
 *   rocksdb_block.c     mending damaged tables
 *   rocksdb_database.c  options, tables and their format
 *   rocksdb_apply.c     changes on their way into the tables
 *   rocksdb_call.c      RocksDB's calls, in our terms
 *   rocksdb_filter.c    which records a compaction drops, and touches
 *   rocksdb_folder.c    the files, before the database is opened
 *   ballast.c           disk space that is held back
 */
#ifndef TICKWHEEL_STORE_ROCKSDB_STORE_H
#define TICKWHEEL_STORE_ROCKSDB_STORE_H

#include "store/ballast.h"
#include "store/prepare.h"
#include "store/rocksdb.h"
#include "store/rocksdb_folder.h"
#include "store/rowop.h"
#include "store/store_key.h"
#include "store/tablefile.h"

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>

/* X(id, name of the column family): the name "default" is RocksDB's, and must exist. */
#define STORE_TABLE_LIST(X)                                                                       \
    X(META, "default")          /* everything but timers: format, counters, partition metadata */ \
    X(TIMERS, "timers")         /* rows by position */                                            \
    X(MOVED, "moved")           /* pointers by serial */                                          \
    X(NAMES, "names")           /* entries of names */                                            \
    X(QUARANTINE, "quarantine") /* damaged records: a letter for their table, then their key */

enum store_table {
#define X(id, name) STORE_##id,
    STORE_TABLE_LIST(X)
#undef X
        STORE_TABLE_COUNT
};

/* Names of the column families, by enum store_table. */
extern const char *const store_table_names[];

/* Returns false if no table has this name. */
bool store_find_table(const char *name, enum store_table *ret_table);

/* Keys of the meta table that belong to no partition. */
#define STORE_KEY_FORMAT     BYTES("format")
#define STORE_KEY_PARTITIONS BYTES("partitions")
#define STORE_KEY_CORRUPT    BYTES("corrupt")

/* Reasons for refusing changes, and with STORE_BEHIND reads too; 0 for none. Bits. */
enum store_fault {
    STORE_REFUSING = 1, /* the database takes no writes, and must be opened again */
    STORE_FULL = 2,     /* opening the database again needs room on the disk */
    STORE_BEHIND = 4,   /* the tables lack changes that were taken, or the database is closed */
};

struct rocksdb_store;

/* Changes on their way into the tables: row operations, with the place of the partition. Each is
 * preceded by its size (4 bytes). */
struct store_queue {
    pthread_mutex_t lock;
    pthread_cond_t wakes;  /* for the apply thread */
    struct buffer waiting; /* guarded by lock */
    size_t wake_bytes; /* size of `waiting` at which the apply thread is woken; guarded by lock */
    _Atomic uint64_t pushed;  /* number of changes that the queue has taken */
    _Atomic uint64_t written; /* number of those in the tables, or dropped */
    bool is_ending;           /* guarded by lock */
    bool has_apply_thread;
    pthread_t apply_thread;
    /* ends the failures that can be ended; called by the apply thread, with commit_lock */
    void (*recover)(struct rocksdb_store *store);
    atomic_size_t bytes; /* size of both buffers, without what the tables have */

    /* Guarded by apply_lock. */
    struct buffer taken; /* from `waiting` */
    size_t taken_done;   /* bytes of it that are in the tables */
};

/* How far a partition follows its log. */
struct store_follow {
    struct storage_place place; /* guarded by write_lock */
    struct rowop gathered;      /* place in the write being gathered; guarded by apply_lock */
    atomic_bool is_rewound;     /* whether the database was opened again with an older place */
};

/* How long final records are kept: all that a compaction needs to know. */
struct store_retention {
    uint64_t retain_ms;
};

enum { STORE_MERGES = 3 }; /* so that young tables do not wait for a deep merge */

struct rocksdb_store {
    struct storage storage; /* first field: the caller's view */
    struct rocksdb_options options;
    rocksdb_cache_t *cache;
    rocksdb_compactionfilter_t *row_filter, *pointer_filter, *name_filter;
    struct store_retention retention; /* used by the filters */
    rocksdb_writeoptions_t *write_options;
    rocksdb_readoptions_t *point_options; /* for single records, without a snapshot */
    char *home;                           /* the data folder */
    /* folder of RocksDB's files: the data folder, or a reader's links to its files */
    char *folder;
    bool is_reader;  /* changes nothing in the folder */
    bool is_listing; /* lists files, some of which may be damaged */
    bool has_shadow; /* `folder` has links */
    bool has_mended; /* has mended a damaged table */
    int folder_lock; /* from files_lock_folder; -1 for none */
    /* time at which the folder was last at its place; 0 if it was not */
    _Atomic uint64_t seen_ns;
    struct folder_state folder_state; /* as found */
    struct folder_identity identity;  /* identity of the folder, as the file FOLDER says */
    bool merges_wait; /* opened while the disk was full: merges wait, to leave room for flushes */
    struct ballast ballast; /* changed with commit_lock, or before the threads start */
    uint16_t partition_count;
    uint64_t format; /* format of the folder; 0 if it is new */
    _Atomic uint64_t corrupt_count;

    /* Held for reading by every call, and for writing only while the database is closed and
     * opened again. Always taken before write_lock. */
    pthread_rwlock_t open_lock;
    rocksdb_t *db; /* NULL if it could not be opened again */
    rocksdb_column_family_handle_t *tables[STORE_TABLE_COUNT];
    uint64_t errors_seen;      /* errors that RocksDB had counted when it last took a write */
    _Atomic unsigned faults;   /* bits of enum store_fault */
    atomic_bool is_damage_met; /* RocksDB reported corruption: the tables must be verified */

    /* Held by a change, and by every thread that opens the database again. Taken before
     * open_lock. */
    pthread_mutex_t commit_lock;
    struct instant merged_at; /* last time at which merges ran or waited; guarded by commit_lock */
    struct instant recovered_at; /* last attempt of a reader; guarded by commit_lock */
    /* earliest next verification of all tables; guarded by commit_lock */
    struct instant verify_at;

    pthread_mutex_t block_lock; /* guards the fields below */
    /* blocks mended, and records lost with them, since the folder was made */
    uint64_t blocks_aside, block_records;
    bool has_anonymous;                   /* whether a table lost its properties */
    char block_found[STORAGE_FOUND_SIZE]; /* text about the last of them */

    pthread_mutex_t write_lock;    /* guards the fields below */
    struct prepare_counts *counts; /* [partition_count]: counts after the changes taken */
    struct store_follow *follows;  /* [partition_count] */
    struct prepare_rows rows;
    struct buffer scratch;

    /* For the writer of the tables; guards the fields below. Taken after write_lock and before
     * the queue's lock. Its holder has commit_lock, or open_lock for reading. */
    pthread_mutex_t apply_lock;
    rocksdb_writebatch_t *batch;
    struct store_queue queue;
};

static inline struct rocksdb_store *store_of(struct storage *storage)
{
    return (struct rocksdb_store *)storage;
}

/* ---- rocksdb_call.c ---- */

/* Notes that RocksDB reports corruption, if the text of its error does. */
void store_note_damage(struct rocksdb_store *store, const char *text);

/* Makes an error of RocksDB's text, and frees the text. */
enum error_code store_failed(struct error *ret_error, const char *what, char *text);

/* Like store_failed, and notes the damaged block that the text names. */
enum error_code store_access_failed(struct rocksdb_store *store, struct error *ret_error,
                                    const char *what, char *text);

/* Reads one record into `to`. ERROR_NOT_FOUND if there is none; NULL `options` are the usual
 * ones. */
enum error_code store_get(struct rocksdb_store *store, enum store_table table,
                          const rocksdb_readoptions_t *options, struct bytes key, struct buffer *to,
                          struct error *ret_error);

void store_batch_put(rocksdb_writebatch_t *batch, struct rocksdb_store *store,
                     enum store_table table, struct bytes key, struct bytes value);

/* Writes the batch to the tables, without RocksDB's log. */
enum error_code store_write(struct rocksdb_store *store, rocksdb_writebatch_t *batch,
                            struct error *ret_error);

/* Writes the memtables to files. Call between store_enter and store_leave, or with equal locks. */
enum error_code store_flush(struct rocksdb_store *store, struct error *ret_error);

/* Reads a number of the meta table; ERROR_NOT_FOUND if there is none. */
enum error_code store_load_number(struct rocksdb_store *store, struct bytes name,
                                  uint64_t *ret_number, struct error *ret_error);
enum error_code store_load_meta(struct rocksdb_store *store, uint16_t partition,
                                struct storage_meta *ret_meta, struct error *ret_error);

/* Reads a place with these read options; NULL reads its present value. All zero if there is
 * none. */
enum error_code store_read_place(struct rocksdb_store *store, uint16_t partition,
                                 const rocksdb_readoptions_t *options,
                                 struct storage_place *ret_place, struct error *ret_error);

/* ---- rocksdb_apply.c ---- */

enum { STORE_QUEUE_HEAD = 4 }; /* bytes before a change */

void store_queue_init(struct store_queue *queue);
void store_queue_deinit(struct store_queue *queue);

/* Starts the apply thread. store_queue_stop may be called without it. */
enum error_code store_queue_start(struct rocksdb_store *store,
                                  void (*recover)(struct rocksdb_store *store),
                                  struct error *ret_error);
void store_queue_stop(struct rocksdb_store *store);

/* Takes the change in store->scratch. The caller holds write_lock. */
void store_queue_push(struct rocksdb_store *store);

/* Drops the waiting changes, which their logs have. The caller holds apply_lock, or open_lock for
 * writing. */
void store_queue_drop(struct rocksdb_store *store);

/* Writes waiting changes until the queue may grow. Call between store_enter and store_leave, or
 * with equal locks. */
enum error_code store_queue_make_room(struct rocksdb_store *store, struct error *ret_error);

/* Writes waiting changes until the tables have `count` of those that the queue has taken;
 * queue.pushed for all that were acknowledged before the call. Locks as for
 * store_queue_make_room. */
enum error_code store_apply_to(struct rocksdb_store *store, uint64_t count,
                               struct error *ret_error);

/* ---- rocksdb_database.c ---- */

/* Makes room for the counts and places of this many partitions. Returns false if out of memory. */
bool store_make_counts(struct rocksdb_store *store, uint16_t count);

/* Opens the database, and reads its format, counts and places. */
enum error_code store_open_database(struct rocksdb_store *store, struct error *ret_error);
void store_close_database(struct rocksdb_store *store);

/* Opens the database only to list its files, even if some cannot be read. */
enum error_code store_open_to_list(struct rocksdb_store *store);

/* Closes the database, empties the queue, and opens the database again. Partitions that lost
 * changes are rewound: their log is to be applied again. The caller holds commit_lock, and
 * open_lock for writing. */
enum error_code store_open_again(struct rocksdb_store *store, struct error *ret_error);

/* ---- rocksdb_enter.c ---- */

/* Begins a read of the tables as they are; store_leave ends it. */
enum error_code store_try_enter(struct rocksdb_store *store, struct error *ret_error);

/* Begins a read; store_leave ends it. The tables have every change that was taken before.
 * ERROR_IO if they cannot. */
enum error_code store_enter(struct rocksdb_store *store, struct error *ret_error);
enum error_code store_enter_partition(struct rocksdb_store *store, uint16_t partition,
                                      struct error *ret_error);
void store_leave(struct rocksdb_store *store);

/* Begins a change: ends faults that can be ended, and enters with room in the queue. If RocksDB
 * refuses writes it fails, and tries to end that for the next call; on a full disk it releases the
 * ballast for that. The caller holds commit_lock. */
enum error_code store_begin_write(struct rocksdb_store *store, struct error *ret_error);

/* Like store_begin_write, for a change that a log has: it waits in the queue if RocksDB refuses it
 * now. */
enum error_code store_begin_apply(struct rocksdb_store *store, struct error *ret_error);

/* Tries at once to end the faults, such as a damaged block that a compaction found, or a disk
 * that failed once. The caller holds commit_lock. */
void store_recover(struct rocksdb_store *store);

/* Mends damaged tables if one was found. Returns false if none was, or it cannot be mended. */
bool store_mend(struct rocksdb_store *store);

/* True if a failed read may be repeated, because the damaged block that it met is mended or set
 * aside. `repeats` counts those of one call. */
bool store_can_repeat(struct rocksdb_store *store, enum error_code code, unsigned *repeats);

/* True if the data folder is where it was. */
bool store_look(struct rocksdb_store *store);

/* ---- rocksdb_follow.c ---- */

/* Returns the offset from which the log of the partition is needed after a crash: the files of
 * the tables have what the records before it say. */
enum error_code store_load_kept(struct storage *storage, uint16_t partition, uint64_t *ret_next,
                                struct error *ret_error);

enum error_code store_prepare(struct storage *storage, struct storage_batch *const *batches,
                              size_t count, struct buffer *to, struct error *ret_error);
enum error_code store_apply(struct storage *storage, uint16_t partition, struct bytes body,
                            enum storage_body kind, const struct storage_place *place,
                            struct error *ret_error);
enum error_code store_load_place(struct storage *storage, uint16_t partition,
                                 struct storage_place *ret_place, struct error *ret_error);

/* ---- rocksdb_export.c ---- */

enum error_code store_export(struct storage *storage, struct storage_export *export,
                             struct buffer *to, struct error *ret_error);
enum error_code store_partition_clear(struct storage *storage, uint16_t partition,
                                      const struct storage_place *place, struct error *ret_error);

/* ---- rocksdb_open.c ---- */

/* Opens or makes a folder. */
enum error_code store_open(const struct rocksdb_options *options, struct rocksdb_store **ret_store,
                           struct error *ret_error);

/* Opens a folder that no process uses, to read it without changes. Its partition count is its
 * own. */
enum error_code store_open_to_read(const char *folder, struct rocksdb_store **ret_store,
                                   struct error *ret_error);

/* Frees whatever exists of it. */
void store_close(struct rocksdb_store *store);

bool store_get_log(const struct storage *storage, uint8_t ret_id[STORAGE_LOG_ID_SIZE]);
enum error_code store_set_log(struct storage *storage, const uint8_t id[STORAGE_LOG_ID_SIZE],
                              struct error *ret_error);

/* ---- rocksdb_read.c ---- */

enum error_code store_scan(struct storage *storage, const struct storage_scan *scan,
                           struct storage_page *ret_page, struct error *ret_error);
enum error_code store_find(struct storage *storage, const struct timer_id *id,
                           struct timer **ret_timer, struct error *ret_error);

enum error_code store_lookup(struct storage *storage, const struct storage_lookup *lookup,
                             struct storage_names *ret_names, struct error *ret_error);

/* ---- rocksdb_backup.c ---- */

enum error_code store_backup(struct storage *storage, const char *folder,
                             struct storage_backup *ret_backup, struct error *ret_error);

/* ---- rocksdb_filter.c ---- */

/* True if a final record is too old to be seen. */
bool store_is_forgotten(const struct store_retention *retention, struct wall ended);

/* Like store_is_forgotten, for a row. Dead letters stay until a write deletes them. */
bool store_is_row_forgotten(const struct store_retention *retention, const struct timer *view);

rocksdb_compactionfilter_t *store_row_filter_create(struct store_retention *retention);
rocksdb_compactionfilter_t *store_pointer_filter_create(struct store_retention *retention);
rocksdb_compactionfilter_t *store_name_filter_create(struct store_retention *retention);

/* Applies touches to their rows when those are read or rewritten. The options own it. */
rocksdb_mergeoperator_t *store_touch_operator_create(void);

/* ---- rocksdb_block.c ---- */

/* Mends the damaged tables after a note. Returns true if the failed call may be repeated. A
 * reader of a folder then uses links to its files. The caller holds commit_lock. */
bool rocksdb_block_set_aside(struct rocksdb_store *store);

/* Makes a reader of a folder use links to its files, some of which it may replace. */
enum error_code rocksdb_block_begin_shadow(struct rocksdb_store *store, struct error *ret_error);

/* Counts what was mended in earlier runs. */
enum error_code rocksdb_block_load(struct rocksdb_store *store, struct error *ret_error);

#endif
