/*
 * diskwheel_store.h - the inside of the store on a timing wheel, shared by its files.
 *
 * Each file calls only those below it:
 *
 *   diskwheel_check.c     looks through a whole folder that is at rest
 *   diskwheel.c           the operations of a storage
 *   diskwheel_backup.c    copies while it runs
 *   diskwheel_open.c      open and free
 *   diskwheel_folder.c    whose the folder is, and what it had at the last stop
 *   diskwheel_worker.c    writes what is in memory as runs, and rewrites runs
 *   diskwheel_choose.c    which runs are rewritten
 *   diskwheel_change.c    bodies are applied
 *   diskwheel_read.c      scans, finds, lookups and exports
 *   diskwheel_disk.c      room on the disk, and the place of the folder
 *   diskwheel_aside.c     what is damaged is kept for the operator
 *   diskwheel_state.c     the file that says which runs there are
 *   diskwheel_part.c      what a partition has once
 *   diskwheel_merge.c     stages and runs as one ordered table
 *   diskwheel_view.c      the runs at a moment, and which of them may have a record
 *   diskwheel_run.c       runs
 *   diskwheel_run_mend.c  an index is made anew
 *   diskwheel_index.c     where a run has its blocks
 *   diskwheel_block.c     their blocks
 *   diskwheel_layer.c     changes in memory
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_STORE_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_STORE_H

#include "store/ballast.h"
#include "store/prepare.h"
#include "store/folder.h"
#include "store/rowop.h"
#include "store/store_key.h"
#include "store/wheel/diskwheel.h"
#include "store/wheel/diskwheel_merge.h"
#include "store/wheel/diskwheel_view.h"

#include <pthread.h>

/* What a partition has beside its records. */
struct diskwheel_part {
    struct storage_place place;
    struct buffer meta, notes[STORAGE_NOTE_COUNT]; /* records; empty if there is none */
    /* guards `counts`, also from those who hold the store's lock, which is taken before it */
    pthread_mutex_t counts_lock;
    struct prepare_counts counts;
    struct prepare_rows rows; /* memory of the thread that prepares */
    uint64_t serial_max;      /* greatest serial of a record ever applied: a greater one is new */
    uint64_t kept;            /* offset that the state on disk is at */
    bool is_torn; /* a body is applied in part: nothing is read or written until it is whole */
};

/* What is kept of damaged blocks and records. */
struct diskwheel_aside {
    pthread_mutex_t lock;
    bool is_counted;       /* the next two are known */
    uint64_t files, bytes; /* of the folder */
};

/* What the state has of the partitions, taken at one moment. */
struct diskwheel_kept {
    struct buffer parts, aside; /* as the file has them */
    uint64_t corrupt_records, corrupt_blocks;
    uint64_t *places; /* [partition_count] */
};

struct diskwheel_store {
    struct storage storage; /* first field: the caller's view */
    struct diskwheel_options options;
    const struct disk_calls *disk;
    char *folder;
    int folder_lock; /* from files_lock_folder; -1 for none */
    uint16_t partition_count;
    bool is_reader;                   /* changes nothing in the folder */
    struct folder_state folder_state; /* as found */
    struct folder_identity identity;  /* as FOLDER says; guarded by lock once it is open */

    struct diskwheel_aside quarantine;
    pthread_mutex_t ballast_lock;
    struct ballast ballast; /* guarded by ballast_lock */
    _Atomic uint64_t
        looked_ns; /* time at which the folder was last at its place; 0 if it was not */

    pthread_mutex_t lock; /* guards the fields below */
    struct diskwheel_stage *active;
    struct diskwheel_stage *frozen; /* being written, or to be written again; NULL if none is */
    struct diskwheel_view *view;
    struct diskwheel_part *parts;
    uint64_t unsaved; /* size of the changes that are in runs, but in no state on disk */
    uint64_t marked;  /* number of times that runs got marks */
    bool has_changed; /* since the last freeze */
    /* records set aside; blocks and their records of runs that are gone */
    uint64_t corrupt_records, corrupt_blocks;
    struct buffer aside; /* struct diskwheel_key of records that were set aside */
    char found[STORAGE_FOUND_SIZE];

    /* The worker. Guarded by lock, but for what follows flush_error, which is its own. */
    pthread_t worker;
    pthread_cond_t work, done;
    bool has_worker, is_ending;
    bool is_working;  /* the worker writes */
    unsigned takers;  /* backups that take the state: no flush begins meanwhile */
    uint64_t wanted;  /* number of the last asked flush */
    uint64_t flushed; /* number of the last flush whose state is on disk, or that failed */
    enum error_code flush_code;
    struct error flush_error; /* of the last flush */
    _Atomic uint64_t next_run;
    struct diskwheel_kept kept;        /* what the partitions had when what is in runs was frozen */
    struct diskwheel_kept frozen_kept; /* and when `frozen` was */
    struct buffer gone; /* struct diskwheel_run *: not in the view, perhaps in the state on disk */
    struct buffer late; /* struct diskwheel_key of records that ended after they were copied */
    const struct diskwheel_view *rewritten; /* runs that are being copied; NULL if none are */
    size_t frozen_count, frozen_done; /* changes of the frozen stage; of those, written ones */
    /* records to rewrite before the next stage is frozen, since there are many runs; of those,
     * rewritten ones */
    size_t owed_count, owed_done;
    /* the copies of a rewriting are synced and take the place of their runs, which are removed */
    bool is_installing;
};

/* A record of a table. */
struct diskwheel_key {
    enum diskwheel_table table;
    struct record_key key;
};

enum { DISKWHEEL_ASIDE_MAX = 65536 }; /* keys that are remembered; what is beyond is counted */

static inline struct diskwheel_store *diskwheel_store_of(const struct storage *storage)
{
    return (struct diskwheel_store *)(uintptr_t)storage; /* its first field */
}

/* ---- diskwheel_part.c ---- */

/* Sets a record of the partition beside its tables: its meta, a note, or a tenant's count. Returns
 * false if out of memory. */
bool diskwheel_part_set(struct diskwheel_part *part, uint16_t partition, enum rowop_kind kind,
                        struct bytes key, struct bytes value);

/* Returns ERROR_IO if a body is applied in part. */
enum error_code diskwheel_part_check(const struct diskwheel_part *part, struct error *ret_error);

/* Forgets all of them. */
void diskwheel_part_reset(struct diskwheel_part *part);

/* ---- diskwheel_state.c ---- */

/* The caller holds the lock. Returns false if out of memory. */
bool diskwheel_state_keep(struct diskwheel_store *store, struct diskwheel_kept *ret_kept);
void diskwheel_state_drop(struct diskwheel_kept *kept);

/* Writes the state: store->kept, and these runs with marks and kept cuts. */
enum error_code diskwheel_state_write(struct diskwheel_store *store,
                                      const struct diskwheel_view *view, struct error *ret_error);

/* Appends what diskwheel_state_write would write. Fails as a buffer does. */
void diskwheel_state_encode(const struct diskwheel_store *store, const struct diskwheel_kept *kept,
                            const struct diskwheel_view *view, struct buffer *to);

/* Reads the state and opens its runs. A folder without one and without runs is new, and gets one.
 * Removes other runs, unless the store is a reader. */
enum error_code diskwheel_state_read(struct diskwheel_store *store, struct error *ret_error);

/* Reads the number of partitions. ERROR_NOT_FOUND if there is no state. */
enum error_code diskwheel_state_read_count(const char *folder, uint16_t *ret_partition_count,
                                           struct error *ret_error);

/* ---- diskwheel_disk.c ---- */

/* Fits the sizes to the disk, and frees the ballast if the disk is full. */
enum error_code diskwheel_disk_open(struct diskwheel_store *store, struct error *ret_error);

void diskwheel_tend(struct storage *storage);
bool diskwheel_relieve(struct storage *storage);
void diskwheel_disk_stats(struct diskwheel_store *store, struct storage_stats *ret_stats);

/* Fails with ERROR_IO if the folder is not at its place any more: another may be. */
enum error_code diskwheel_disk_check(struct diskwheel_store *store, struct error *ret_error);

/* Does so if the last look was some time ago. */
enum error_code diskwheel_disk_check_now_and_then(struct diskwheel_store *store,
                                                  struct error *ret_error);

/* True if the disk has so many bytes free. */
bool diskwheel_disk_has_room(const struct diskwheel_store *store, uint64_t bytes);

/* ---- diskwheel_aside.c ---- */

/* Keeps the value of a damaged record. */
void diskwheel_aside_record(struct diskwheel_store *store, enum diskwheel_table table,
                            struct record_key key, struct bytes value);

/* Keeps the damaged blocks that reads have found since the last call. */
void diskwheel_aside_blocks(struct diskwheel_store *store);

/* Counts what earlier starts have kept. The runs are open. */
enum error_code diskwheel_aside_load(struct diskwheel_store *store, struct error *ret_error);

/* ---- diskwheel_read.c ---- */

enum error_code diskwheel_scan(struct storage *storage, const struct storage_scan *scan,
                               struct storage_page *ret_page, struct error *ret_error);
enum error_code diskwheel_find(struct storage *storage, const struct timer_id *id,
                               struct timer **ret_timer, struct error *ret_error);
enum error_code diskwheel_lookup(struct storage *storage, const struct storage_lookup *lookup,
                                 struct storage_names *ret_names, struct error *ret_error);
enum error_code diskwheel_export(struct storage *storage, struct storage_export *export,
                                 struct buffer *to, struct error *ret_error);

/* ---- diskwheel_change.c ---- */

enum error_code diskwheel_prepare(struct storage *storage, struct storage_batch *const *batches,
                                  size_t count, struct buffer *to, struct error *ret_error);
enum error_code diskwheel_apply(struct storage *storage, uint16_t partition, struct bytes body,
                                enum storage_body kind, const struct storage_place *place,
                                struct error *ret_error);
enum error_code diskwheel_clear(struct storage *storage, uint16_t partition,
                                const struct storage_place *place, struct error *ret_error);

/* ---- diskwheel_worker.c ---- */

enum error_code diskwheel_worker_start(struct diskwheel_store *store, struct error *ret_error);

/* Asks for a flush that begins from now on. Returns its number. The caller holds the lock. */
uint64_t diskwheel_worker_ask(struct diskwheel_store *store);

/* Writes what is in memory, and waits for it. */
enum error_code diskwheel_flush(struct storage *storage, struct error *ret_error);

/* What room is made for, as a multiple of the memory. A body that is in the log must be applied
 * after a crash, too, when the disk is still full. So none is made without room to apply it. */
enum diskwheel_room { DISKWHEEL_ROOM_TO_PREPARE = 1, DISKWHEEL_ROOM_TO_APPLY = 2 };

/* Asks for a flush if half of the memory is used. Waits for what is being written if more than that
 * was added since its begin, in proportion: a short time in each call, not a long one in the last.
 * The caller holds the lock. Fails if the last flush did, and the changes that a start would take
 * from the log have `room` times the memory. */
enum error_code diskwheel_worker_make_room(struct diskwheel_store *store, enum diskwheel_room room,
                                           struct error *ret_error);

void diskwheel_worker_stop(struct diskwheel_store *store);

/* ---- diskwheel_folder.c ---- */

/* Makes, locks and examines the folder. Refuses a damaged one, or one of others, unchanged. */
enum error_code diskwheel_folder_open(struct diskwheel_store *store, struct error *ret_error);

/* Makes the folder this store's, after its state was read. */
enum error_code diskwheel_folder_take(struct diskwheel_store *store, struct error *ret_error);

/* Lists the files for the next start, after everything was written. */
void diskwheel_folder_close(struct diskwheel_store *store);

bool diskwheel_get_log(const struct storage *storage, uint8_t ret_id[STORAGE_LOG_ID_SIZE]);
enum error_code diskwheel_set_log(struct storage *storage, const uint8_t id[STORAGE_LOG_ID_SIZE],
                                  struct error *ret_error);

/* ---- diskwheel_open.c ---- */

/* Opens or makes a folder; the caller sets the operations. */
enum error_code diskwheel_open(const struct diskwheel_options *options,
                               struct diskwheel_store **ret_store, struct error *ret_error);

/* Opens a folder that no process uses, without changing it. */
enum error_code diskwheel_open_to_read(const char *folder, struct diskwheel_store **ret_store,
                                       struct error *ret_error);

/* Stops the worker and frees the store. What is only in memory is not written. */
void diskwheel_free(struct diskwheel_store *store);

/* ---- diskwheel_backup.c ---- */

enum error_code diskwheel_backup(struct storage *storage, const char *folder,
                                 struct storage_backup *ret_backup, struct error *ret_error);

/* ---- diskwheel.c ---- */

/* For tests: waits until the worker has nothing to do. */
void diskwheel_storage_rest(struct storage *storage);

/* For tests: closes the storage as a crash does, without writing what is in memory. */
void diskwheel_storage_crash(struct storage *storage);

#endif
