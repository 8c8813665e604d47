/*
 * rocksdb_store.h - the inside of the embedded storage, shared by its files.
 *
 *   rocksdb.c          commits, metas, statistics, closing
 *   rocksdb_change.c   what a batch changes
 *   rocksdb_log.c      the log, and the tables that follow it
 *   rocksdb_open.c     options, the data folder and its format
 *   rocksdb_read.c     scans, finding one, and setting damaged records aside
 *   rocksdb_block.c    mending damaged tables
 *   rocksdb_filter.c   which records a compaction drops
 *   rocksdb_folder.c   the files, before the database is opened
 *   rocksdb_backup.c   copies while it runs
 *   rocksdb_check.c    looking through all of a folder that is at rest
 */
#ifndef TICKWHEEL_STORAGE_ROCKSDB_STORE_H
#define TICKWHEEL_STORAGE_ROCKSDB_STORE_H

#include "log/log.h"
#include "storage/record.h"
#include "storage/rocksdb.h"
#include "storage/rocksdb_folder.h"
#include "storage/tablefile.h"

#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>

/* X(id, name of the column family): the name "default" is RocksDB's, and must be there. */
#define STORE_TABLE_LIST(X)                                                                   \
    X(META, "default")          /* beside the timers: format, counters, partition metadata */ \
    X(TIMERS, "timers")         /* rows by position */                                        \
    X(MOVED, "moved")           /* pointers by serial */                                      \
    X(NAMES, "names")           /* entries of names */                                        \
    X(QUARANTINE, "quarantine") /* damaged records: a letter for their table, then their key */

enum store_table {
#define X(id, name) STORE_##id,
    STORE_TABLE_LIST(X)
#undef X
        STORE_TABLE_COUNT
};

/* The names of the column families, by enum store_table. */
extern const char *const store_table_names[];

/* False: no table has this name. */
bool store_find_table(const char *name, enum store_table *ret_table);

/* Keys of the meta table that are not of a partition. */
#define STORE_KEY_FORMAT     BYTES("format")
#define STORE_KEY_PARTITIONS BYTES("partitions")
#define STORE_KEY_CORRUPT    BYTES("corrupt")
#define STORE_KEY_APPLIED    BYTES("applied")

/* "t" and the partition, before the tenant's name. */
#define STORE_TENANT_PREFIX "t"
#define STORE_TENANT_SIZE   3

/* Whether the tables take writes. */
enum store_state {
    STORE_WRITABLE,
    STORE_FAILED, /* no: the database must be opened again before */
    STORE_FULL,   /* as FAILED, and it can be opened only when the disk has room */
};

/* How long final records are kept: the only fact that a compaction needs. */
struct store_retention {
    uint64_t retain_ms;
};

/* Damage in a table, as RocksDB tells of it. */
struct store_block {
    bool is_met;                  /* false: there is none */
    char name[FOLDER_NAME_SIZE];  /* of its file; empty: not known */
    struct tablefile_block block; /* size 0: not known */
};

struct rocksdb_store {
    struct storage storage; /* first: the caller's view of it */
    struct rocksdb_options options;
    rocksdb_cache_t *cache;
    rocksdb_compactionfilter_t *row_filter, *pointer_filter, *name_filter;
    struct store_retention retention; /* the filters point to it */
    rocksdb_writeoptions_t *write_options;
    rocksdb_readoptions_t *point_options; /* for single records, without a snapshot */
    char *home;                           /* the data folder */
    char *folder;   /* of the files of RocksDB: the data folder, or a reader's links to its files */
    bool is_reader; /* it changes nothing in the folder */
    bool is_looking;                  /* at tables whose log is not made yet */
    bool has_shadow;                  /* and `folder` is one of links */
    bool has_mended;                  /* a damaged table */
    int folder_lock;                  /* from files_lock_folder; -1: none */
    struct folder_state folder_state; /* as it was found */
    uint16_t partition_count;
    uint64_t format; /* of the folder; 0: it is new */
    _Atomic uint64_t corrupt_count;

    /* Held to read by every call, to write only while the database is closed and opened again.
     * Always taken before write_lock. */
    pthread_rwlock_t open_lock;
    rocksdb_t *db; /* NULL: it could not be opened again */
    rocksdb_column_family_handle_t *tables[STORE_TABLE_COUNT];
    _Atomic enum store_state state;
    _Atomic bool
        is_in_doubt;        /* an append failed: whether its records are in the log is not known */
    _Atomic bool is_behind; /* the tables lack records of the log */

    /* Held by a commit, and by a reader that tries to end a failure. Taken before open_lock. */
    pthread_mutex_t commit_lock;
    struct instant recovered_at; /* when a reader tried last; guarded by commit_lock */

    pthread_mutex_t block_lock;           /* guards what follows */
    struct store_block block;             /* met last */
    uint64_t blocks_aside, block_records; /* mended, and lost so, since the folder was made */
    bool has_anonymous;                   /* a table lost its properties */
    char block_found[STORAGE_FOUND_SIZE]; /* the last of them, in words */

    /* The writer's; guarded by write_lock, which a commit shares only with setting aside. */
    pthread_mutex_t write_lock;
    struct wall *trims;                     /* [partition_count]: as the metas on disk have it */
    uint64_t *pendings;                     /* [partition_count]: live timers, as on disk */
    struct tenant_counts *tenant_counts_of; /* [partition_count]: as the disk has them */
    struct log *log;
    uint64_t applied;         /* the last offset that the tables hold */
    uint64_t untrimmed_bytes; /* appended since the log was trimmed */
    struct log_record *records;
    size_t record_capacity;
    struct store_row *rows;
    size_t row_capacity;
    rocksdb_writebatch_t *batch;
    struct buffer scratch;
};

static inline struct rocksdb_store *store_of(struct storage *storage)
{
    return (struct rocksdb_store *)storage;
}

/* ---- keys as bytes ---- */

struct store_key {
    char data[RECORD_ROW_SIZE];
    size_t size;
};

/* Of the count of a tenant's live timers in a partition, a number of the meta table. */
struct store_tenant_key {
    char data[STORE_TENANT_SIZE + TENANT_SIZE_MAX];
    size_t size;
};

struct store_key store_row_key(struct record_key key); /* of a name's entry too */
struct store_key store_pointer_key(struct record_key key);
struct store_key store_meta_key(uint16_t partition);
struct store_tenant_key store_tenant_key(uint16_t partition, struct bytes tenant);

/* False when it is no such key. */
bool store_row_key_parse(struct bytes key, struct record_key *ret_key);
bool store_pointer_key_parse(struct bytes key, struct record_key *ret_key);

/* ---- rocksdb.c ---- */

/* Turns RocksDB's text into an error, and frees it. */
enum error_code store_failed(struct error *ret_error, const char *what, char *text);

/* As store_failed, and notes the damaged block that the text names. */
enum error_code store_access_failed(struct rocksdb_store *store, struct error *ret_error,
                                    const char *what, char *text);

/* Reads one record into `to`. ERROR_NOT_FOUND when there is none; `options` NULL: the usual. */
enum error_code store_get(struct rocksdb_store *store, enum store_table table,
                          const rocksdb_readoptions_t *options, struct bytes key, struct buffer *to,
                          struct error *ret_error);

void store_batch_put(rocksdb_writebatch_t *batch, struct rocksdb_store *store,
                     enum store_table table, struct bytes key, struct bytes value);

/* Writes the batch, without a log. */
enum error_code store_write(struct rocksdb_store *store, rocksdb_writebatch_t *batch,
                            struct error *ret_error);

enum error_code store_load_meta(struct rocksdb_store *store, uint16_t partition,
                                struct storage_meta *ret_meta, struct error *ret_error);

/* Begins and ends every read. ERROR_IO when the database could not be opened again, or does not
 * hold what it must. */
enum error_code store_enter(struct rocksdb_store *store, struct error *ret_error);
void store_leave(struct rocksdb_store *store);

/* Frees whatever of it is there. */
void store_close(struct rocksdb_store *store);

extern const struct storage_ops store_ops;

/* ---- rocksdb_change.c ---- */

/* Appends the row operations of a batch (rowop.h), and counts its timers. False when out of memory:
 * nothing is counted. */
bool store_change_encode(struct rocksdb_store *store, const struct storage_batch *batch,
                         struct buffer *to);

/* Counts back a batch that is not in the log. */
void store_change_take_back(struct rocksdb_store *store, const struct storage_batch *batch);

/* ---- rocksdb_log.c ---- */

/* Begins a log for tables that have none. */
enum error_code store_log_make(struct rocksdb_store *store, uint64_t begin,
                               struct error *ret_error);

/* As store_log_make, but a log that holds records stays: ERROR_CORRUPT, for its tables are gone. */
enum error_code store_log_begin(struct rocksdb_store *store, uint64_t begin,
                                struct error *ret_error);

/* Opens the log, unless it is open, and applies what the tables lack. A reader without a shadow
 * only notes that they lack something. */
enum error_code store_log_follow(struct rocksdb_store *store, struct error *ret_error);

/* Begins a new log in place of a damaged one, if the files of the tables hold the rest of it. */
enum error_code store_log_renew(struct rocksdb_store *store, struct error *ret_error);

/* Makes the batches durable, as store->records. On failure nothing is counted. */
enum error_code store_log_append(struct rocksdb_store *store, struct storage_batch *const *batches,
                                 size_t count, struct error *ret_error);

/* Writes store->records into the tables. */
enum error_code store_log_apply(struct rocksdb_store *store, size_t count, struct error *ret_error);

/* Lets the log drop what is in files of tables, and do its work ahead; when it has grown. */
bool store_log_is_long(const struct rocksdb_store *store);
void store_log_trim(struct rocksdb_store *store);

/* ---- rocksdb_open.c ---- */

/* Opens the database, follows the log, and reads what must be known. */
enum error_code store_open_database(struct rocksdb_store *store, struct error *ret_error);
void store_close_database(struct rocksdb_store *store);

/* Opens a folder to look at it: nothing in it changes, and it must be at rest. Its partition count
 * is its own. */
enum error_code store_open_to_read(const char *folder, struct rocksdb_store **ret_store,
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

/* ---- rocksdb_touch.c ---- */

/* Puts touches into their rows, whenever those are read or rewritten. The options take it. */
rocksdb_mergeoperator_t *store_touch_operator_create(void);

/* ---- rocksdb_filter.c ---- */

/* Whether a final record is too old to be seen. */
bool store_is_forgotten(const struct store_retention *retention, struct wall ended);

/* Likewise of a row. Dead letters stay until a write forgets them. */
bool store_is_row_forgotten(const struct store_retention *retention, const struct timer *view);

rocksdb_compactionfilter_t *store_row_filter_create(struct store_retention *retention);
rocksdb_compactionfilter_t *store_pointer_filter_create(struct store_retention *retention);
rocksdb_compactionfilter_t *store_name_filter_create(struct store_retention *retention);

/* ---- rocksdb_block.c ---- */

/* Notes the table that a text of RocksDB names as damaged, if it tells of damage. */
void rocksdb_block_note(struct rocksdb_store *store, const char *text);

/* Mends the table that was noted last. True: the call that met it may be repeated. A reader of a
 * folder works on links to its files from then on. */
bool rocksdb_block_set_aside(struct rocksdb_store *store);

/* Makes a reader of a folder go on with links to its files, some of which it may replace. */
enum error_code rocksdb_block_begin_shadow(struct rocksdb_store *store, struct error *ret_error);

/* Counts what was mended in earlier runs. */
enum error_code rocksdb_block_load(struct rocksdb_store *store, struct error *ret_error);

#endif
