/*
 * storage.h - the timers of partitions: change them, scan a window in due order, find one.
 *
 * A backend keeps one ordered table of timers by position (partition, at, serial). It knows nothing
 * of clocks, wheels and targets. Backends: wheel/diskwheel.h, in a folder, and
 * testing/memory.h, for the simulation and tests.
 *
 * Each partition follows a log. The storage makes a body of batches, the caller makes the body
 * durable in the log, and then the storage applies it:
 *
 *     storage_prepare(owner, batches, count, &body, &error);
 *     ... append the body to the log; and on this and every other storage that follows it ...
 *     storage_apply(storage, partition, body, &place, &error);
 *
 * All bodies of a partition are applied in the order of the log. A crash leaves the state after one
 * of them, from whose place the log is applied again.
 *
 * What a batch writes follows from each timer alone:
 *   alive, was_at 0       a new row at (partition, at, serial)
 *   alive, was_at == at   the row is replaced
 *   alive, was_at != at   the row moves there; a timer away from id.first has a second row, which
 *                         says where it is
 *   over, was_at not 0    the row stays where it is (was_at) as a short final record without
 *                         payload, headers, content type, watch, schedule and trace (a dead letter
 *                         keeps them), until trim passes it
 *   final, was_at 0       a final record at id.first: it ended before it was ever written
 *   dead, was_at not 0    the row moves to `at`, whole, with a second row as for a live timer
 *   is_forgotten          the row at was_at goes, with the second row and the entries of its names
 *   alive, was_final      a final record lives again: as above, and it counts as live from now on
 * Beside that it keeps the entries of the timer's names (name.h): all are written with a new row,
 * with a revived timer, with a row that moves to an earlier position, and when the timer is final,
 * when its watched keys are removed.
 * Positions are from 1 up to, not including, 2^48 - 1 milliseconds.
 *
 * Errors     ERROR_IO (storage failed), ERROR_NO_MEMORY, ERROR_DISK_FULL. The call may be
 *            repeated, and succeeds when the cause is gone.
 *            A damaged record is no error: it is set aside, counted, and passed over.
 * Ownership  Timers in a batch are borrowed until the call returns; found and scanned timers are
 *            the caller's to free.
 * Threads    storage_prepare, storage_apply, storage_load_place and storage_partition_clear of a
 *            partition from one thread at a time. All others from any thread at any time; they see
 *            every body whose storage_apply has returned.
 */
#ifndef TICKWHEEL_STORE_STORAGE_H
#define TICKWHEEL_STORE_STORAGE_H

#include "timer/tenant_counts.h"
#include "timer/timer.h"
#include "timer/timer_filter.h"

/* A position in due order. Scans begin with the row at it, or the next one. */
struct storage_position {
    struct wall at;
    uint64_t serial;
};

static inline bool storage_position_before(struct storage_position a, struct storage_position b)
{
    return a.at.ms < b.at.ms || (a.at.ms == b.at.ms && a.serial < b.serial);
}

/* Metadata of a partition, written with each of its batches. All zero at first. */
struct storage_meta {
    uint64_t epoch;        /* number of times that the partition was opened */
    struct wall watermark; /* position before which no live timer is: recovery scans from here */
    struct wall trim;      /* position before which final records are dropped, as one range */
    uint64_t pending;      /* live timers; counted by the storage, not taken from a batch */
    /* highest wall time at which a row was re-placed. If the clock is lower, rows may be too far
     * in the future */
    struct wall placed;
    struct wall over_to; /* upper bound of the positions of final records */
};

/* First position of dead letters, which follow all other rows in the order of their deaths. So
 * they neither delay a trim nor are dropped by it; they stay until a write deletes them. No
 * clock shows such a time before the year 10332. */
#define STORAGE_DEAD_FROM ((struct wall){(UINT64_C(1) << 48) - (UINT64_C(1) << 44)})

/* Position of a timer that is paused until a client resumes it: after every time, and never
 * trimmed. One that is paused until a time is at that time. */
#define STORAGE_PAUSED_AT ((struct wall){STORAGE_DEAD_FROM.ms - 1})

/* Returns the position of a timer that died then. */
static inline struct wall storage_dead_at(struct wall ended)
{
    const uint64_t offset = ended.ms >> 4, max = (UINT64_C(1) << 44) - 3;

    return wall_add(STORAGE_DEAD_FROM, offset < max ? offset : max);
}

/* True if this is the row of a dead letter, which only a write deletes. */
static inline bool storage_is_dead_letter(const struct timer *timer)
{
    return timer->state == TIMER_DEAD && timer->at.ms >= STORAGE_DEAD_FROM.ms;
}

struct storage_write {
    struct timer *timer;
    struct wall was_at;      /* position of its row before this write; 0 if it has none */
    const struct timer *old; /* timer that it replaces, if that may watch other keys; or NULL */
    /* the timer lives, was_at == at, and only version and due, which is later than `at`, differ
     * from the row: a backend may write only these */
    bool is_touch;
    /* its row is a final record, and this write makes the timer live again, or deletes it */
    bool was_final;
    bool is_forgotten; /* final: its row, pointer and names are deleted; may be repeated */
};

/* Changes of one partition that become durable together, or not at all. First its writes, in
 * order, then the trim of its meta: rows before it are dropped, of which none may be live. A
 * trim that goes down drops nothing; the next rising trim drops from there on. */
struct storage_batch {
    struct list link; /* the holder's */
    uint16_t partition;
    struct storage_meta meta;
    struct storage_write *writes;
    size_t write_count;
    /* messages in a transaction that is committed with these writes (delivery.h) */
    size_t messages;
    /* If not empty, the batch has no writes, keeps the meta, and replaces this record of the
     * partition, whose bytes mean nothing to the storage: the holds of the node. */
    struct bytes holds;
    /* If not empty, replaces this record of the partition together with the writes; its bytes mean
     * nothing to the storage: the ledger of sources (engine/ledger.h). */
    struct bytes ledger;
    enum error_code result; /* set by the committing thread */
};

/* Which rows a scan returns. */
enum storage_scan_kind {
    STORAGE_SCAN_LIVE, /* no final records */
    STORAGE_SCAN_ALL,  /* final records too, while they are kept */
};

struct storage_scan {
    uint16_t partition;
    enum storage_scan_kind kind;
    struct storage_position from; /* first position wanted */
    struct storage_position to;   /* first position not wanted */
    size_t rows_max;              /* maximum of rows of the page, from 1 */
    size_t bytes_max;             /* the page ends with the row whose footprint reaches this sum */
    size_t row_bytes;             /* added to each row's footprint: overhead of its reader */
    /* If not 0, the scan returns only timers of `tenant` with all `labels`, which stay valid
     * until it returns. The page ends after this many rows of the kind, of all tenants; the
     * sizes of skipped rows count for bytes_max. 0: timers of all tenants. */
    size_t looks_max;
    struct bytes tenant, labels;
    /* with looks_max: the scan returns only timers that fit, by what their rows say. It stays
     * valid until the scan returns. NULL for all, and in the answer of a node that knows none */
    const struct timer_filter *filter;
};

struct storage_page {
    struct timer **timers; /* in order of position; the caller frees array and timers */
    size_t count;
    size_t looked;                /* number of rows of the kind that were read, of all tenants */
    size_t own;                   /* number of those of the scan's tenant */
    struct storage_position next; /* where to continue; scan.to if the range is finished */
};

/* A request for the timers with a name (name.h), newest first. */
struct storage_lookup {
    uint16_t partition;
    uint64_t name;         /* its hash */
    uint64_t serial_below; /* only timers with a lower serial; UINT64_MAX for all */
    size_t count_max;
};

/* Timers that have the name, or another name with an equal hash. Those with a key or a request
 * may have ended. */
struct storage_names {
    struct timer_id *ids; /* freed by the caller with free(); NULL if there is none */
    size_t count;         /* if it is below count_max there are no more */
};

#define STORAGE_FOUND_SIZE 256

struct storage_stats {
    uint64_t corrupt_records; /* number of records set aside since the data folder was made */
    /* number of damaged blocks of tables; corrupt_records includes an estimate of their records */
    uint64_t corrupt_blocks;
    char found[STORAGE_FOUND_SIZE]; /* text about the last damage; empty if none */
    bool is_lost;                   /* its files are gone: every change fails */
    /* set by the node, from its log: logs that ended within a write at the last start, and writes
     * that a damaged log lost */
    uint64_t torn_logs, lost_writes;
    uint64_t disk_bytes;       /* estimated size of the backend's files */
    uint64_t disk_free_bytes;  /* free bytes of its file system; UINT64_MAX if it has none */
    uint64_t disk_floor_bytes; /* free bytes that the backend needs for what it has */
    uint64_t memory_bytes;     /* estimated size of caches and write buffers */
};

/* A finished copy. */
struct storage_backup {
    uint64_t timers; /* number of live timers in it */
    uint64_t bytes;
};

/* `next` of a place whose rows are being copied from another storage, and are useless until the
 * end. */
#define STORAGE_COPYING UINT64_MAX

/* How far a partition follows a log: its last record, stored with the rows. The storage uses
 * `next` and STORAGE_COPYING; the rest belongs to the caller. All 0 if nothing was applied. */
struct storage_place {
    uint64_t next; /* offset after the record */
    uint64_t epoch, seq, incarnation;
    uint32_t node;
    uint64_t log_bytes;  /* approximate size of the log from its first record up to there */
    uint64_t live_bytes; /* size of the copies of the last sweep (cluster/sweep.h) */
    /* if not 0, rows are missing until the end of the sweep that began before this offset */
    uint64_t sweep_end;
    /* if not 0, the rows were copied while the log went on, and are consistent after the records
     * before this offset are applied */
    uint64_t copy_end;
};

enum { STORAGE_EXPORT_TABLES = 3, STORAGE_LOG_ID_SIZE = 16 };

/* A request for copies of a partition's records, part by part. All zero at first, except for the
 * partition and the limits of a part. */
struct storage_export {
    uint16_t partition;
    size_t rows_max, bytes_max; /* a part may exceed them by a row */
    uint64_t rows;              /* rows of all parts so far */
    bool is_done;               /* whether that was the last part */
    struct storage_place place; /* the rows of this part are what the log says before this place */
    /* Private to the storage: a table, and the last key examined in it. */
    uint8_t step_, key_size_;
    char key_[UINT8_MAX];
};

/* A backend fills this in. Callers use the functions below. */
struct storage {
    const struct storage_ops *ops;
};

/* Whether a body is to be checked. */
enum storage_body {
    STORAGE_BODY_READ,     /* read from a log or another node: it is checked */
    STORAGE_BODY_PREPARED, /* made by storage_prepare, and in memory since: it needs no check */
};

/* Records that a partition has once, and whose bytes mean nothing to the storage. */
enum storage_note {
    STORAGE_HOLDS,  /* storage_batch.holds */
    STORAGE_LEDGER, /* storage_batch.ledger */
    STORAGE_NOTE_COUNT,
};

struct storage_ops {
    enum error_code (*scan)(struct storage *, const struct storage_scan *, struct storage_page *,
                            struct error *ret_error);
    enum error_code (*find)(struct storage *, const struct timer_id *, struct timer **,
                            struct error *ret_error);
    enum error_code (*lookup)(struct storage *, const struct storage_lookup *,
                              struct storage_names *, struct error *ret_error);
    enum error_code (*load_meta)(struct storage *, uint16_t partition, struct storage_meta *,
                                 struct error *ret_error);
    enum error_code (*load_tenant_counts)(struct storage *, uint16_t partition,
                                          struct tenant_counts *, struct error *ret_error);
    enum error_code (*load_note)(struct storage *, enum storage_note, uint16_t partition,
                                 struct buffer *to, struct error *ret_error);
    void (*stats)(struct storage *, struct storage_stats *);
    void (*tend)(struct storage *); /* NULL if there is nothing to do, like the next three */
    bool (*relieve)(struct storage *);
    enum error_code (*flush)(struct storage *, struct error *ret_error);
    enum error_code (*load_kept)(struct storage *, uint16_t partition, uint64_t *ret_next,
                                 struct error *ret_error);
    /* NULL, like the next, if the storage belongs to no log */
    bool (*get_log)(const struct storage *, uint8_t ret_id[STORAGE_LOG_ID_SIZE]);
    enum error_code (*set_log)(struct storage *, const uint8_t id[STORAGE_LOG_ID_SIZE],
                               struct error *ret_error);
    enum error_code (*backup)(struct storage *, const char *folder, struct storage_backup *,
                              struct error *ret_error); /* NULL if it has none */
    enum error_code (*prepare)(struct storage *, struct storage_batch *const *batches, size_t count,
                               /* NULL, like apply, if it follows no log */
                               struct buffer *to, struct error *ret_error);
    enum error_code (*apply)(struct storage *, uint16_t partition, struct bytes body,
                             enum storage_body, const struct storage_place *,
                             struct error *ret_error);
    enum error_code (*load_place)(struct storage *, uint16_t partition, struct storage_place *,
                                  struct error *ret_error);
    enum error_code (*export)(struct storage *, struct storage_export *, struct buffer *to,
                              struct error *ret_error);
    enum error_code (*clear)(struct storage *, uint16_t partition, const struct storage_place *,
                             /* NULL, like the three above, if it follows no log */
                             struct error *ret_error);
    void (*close)(struct storage *);
};

/* Reads the next page of [from, to). Page by page from `next`, each row is seen once. A page may
 * be short or empty without being the last. Sets `at` as storage_find does. */
static inline enum error_code storage_scan(struct storage *storage, const struct storage_scan *scan,
                                           struct storage_page *ret_page, struct error *ret_error)
{
    return storage->ops->scan(storage, scan, ret_page, ret_error);
}

/* Reads the timer with this id, live or ended. ERROR_NOT_FOUND if it never existed or was
 * dropped, ERROR_CORRUPT if its record is damaged or was set aside. Sets `at` to the position of
 * its row. */
static inline enum error_code storage_find(struct storage *storage, const struct timer_id *id,
                                           struct timer **ret_timer, struct error *ret_error)
{
    return storage->ops->find(storage, id, ret_timer, ret_error);
}

/* Returns the timers that have a name; none is no error. */
static inline enum error_code storage_lookup(struct storage *storage,
                                             const struct storage_lookup *lookup,
                                             struct storage_names *ret_names,
                                             struct error *ret_error)
{
    return storage->ops->lookup(storage, lookup, ret_names, ret_error);
}

static inline enum error_code storage_load_meta(struct storage *storage, uint16_t partition,
                                                struct storage_meta *ret_meta,
                                                struct error *ret_error)
{
    return storage->ops->load_meta(storage, partition, ret_meta, ret_error);
}

/* Adds to `tenant_counts` the live timers of each tenant in the partition. Like `pending` of the
 * meta the storage counts them with each body, so this is quick. On failure some may have been
 * added. */
static inline enum error_code storage_load_tenant_counts(struct storage *storage,
                                                         uint16_t partition,
                                                         struct tenant_counts *tenant_counts,
                                                         struct error *ret_error)
{
    return storage->ops->load_tenant_counts(storage, partition, tenant_counts, ret_error);
}

/* Appends the note that a batch wrote last; nothing if none did. ERROR_CORRUPT if it is damaged. */
static inline enum error_code storage_load_note(struct storage *storage, enum storage_note note,
                                                uint16_t partition, struct buffer *to,
                                                struct error *ret_error)
{
    return storage->ops->load_note(storage, note, partition, to, ret_error);
}

static inline enum error_code storage_load_holds(struct storage *storage, uint16_t partition,
                                                 struct buffer *to, struct error *ret_error)
{
    return storage_load_note(storage, STORAGE_HOLDS, partition, to, ret_error);
}

static inline enum error_code storage_load_ledger(struct storage *storage, uint16_t partition,
                                                  struct buffer *to, struct error *ret_error)
{
    return storage_load_note(storage, STORAGE_LEDGER, partition, to, ret_error);
}

static inline void storage_stats(struct storage *storage, struct storage_stats *ret_stats)
{
    storage->ops->stats(storage, ret_stats);
}

/* Does what a full disk has delayed, when there is room: takes the reserved space, and resumes
 * background work. Call it about once a second. */
static inline void storage_tend(struct storage *storage)
{
    if (storage->ops->tend)
        storage->ops->tend(storage);
}

/* Frees disk space that is held back for a full disk. Returns false if none was. */
static inline bool storage_relieve(struct storage *storage)
{
    return storage->ops->relieve && storage->ops->relieve(storage);
}

/* Brings all that was applied into files, where a crash leaves it. */
static inline enum error_code storage_flush(struct storage *storage, struct error *ret_error)
{
    return storage->ops->flush ? storage->ops->flush(storage, ret_error) : ERROR_NONE;
}

/* Returns the id of the log that the storage of a single node belongs to. False if there is none
 * yet, as in a backup: its log begins after its places. */
static inline bool storage_get_log(const struct storage *storage,
                                   uint8_t ret_id[STORAGE_LOG_ID_SIZE])
{
    return storage->ops->get_log && storage->ops->get_log(storage, ret_id);
}

static inline enum error_code storage_set_log(struct storage *storage,
                                              const uint8_t id[STORAGE_LOG_ID_SIZE],
                                              struct error *ret_error)
{
    return storage->ops->set_log ? storage->ops->set_log(storage, id, ret_error) : ERROR_NONE;
}

/* Makes a consistent copy with every body that was applied before, while others continue. `folder`
 * must not exist; its parents must. A failure leaves nothing. ERROR_BACKUP_EXISTS if it exists. */
static inline enum error_code storage_backup(struct storage *storage, const char *folder,
                                             struct storage_backup *ret_backup,
                                             struct error *ret_error)
{
    if (!storage->ops->backup)
        return error_set(ret_error, ERROR_INVALID, "this storage makes no backups");
    return storage->ops->backup(storage, folder, ret_backup, ret_error);
}

/* ---- changes, and the place in the log ---- */

/* Appends to `to` the changes of the batches, all of one partition, as one body (rowop.h). They
 * follow the last applied body. Nothing changes. ERROR_UNREADABLE if the storage has lost bodies
 * that were applied: load the place, and apply the log from there. */
static inline enum error_code storage_prepare(struct storage *storage,
                                              struct storage_batch *const *batches, size_t count,
                                              struct buffer *to, struct error *ret_error)
{
    return storage->ops->prepare(storage, batches, count, to, ret_error);
}

/* Makes the changes of a body, all or none, and `place` the place of the partition; readers see
 * them on return. A body that was applied before, by `next`, changes nothing, and an empty body
 * moves only the place. While the place is STORAGE_COPYING every body is applied. It is not
 * synced: a crash leaves the state of an earlier call, and the rest of the log is applied again.
 * ERROR_CORRUPT if the body is damaged or of another partition. Another failure may lose bodies
 * applied before, like a crash: then calls for the partition fail with ERROR_IO until its place
 * is loaded, from which the log is applied again. */
static inline enum error_code storage_apply_body(struct storage *storage, uint16_t partition,
                                                 struct bytes body, enum storage_body kind,
                                                 const struct storage_place *place,
                                                 struct error *ret_error)
{
    return storage->ops->apply(storage, partition, body, kind, place, ret_error);
}

/* Like storage_apply_body, for a body that was read from a log or another node. */
static inline enum error_code storage_apply(struct storage *storage, uint16_t partition,
                                            struct bytes body, const struct storage_place *place,
                                            struct error *ret_error)
{
    return storage_apply_body(storage, partition, body, STORAGE_BODY_READ, place, ret_error);
}

static inline enum error_code storage_load_place(struct storage *storage, uint16_t partition,
                                                 struct storage_place *ret_place,
                                                 struct error *ret_error)
{
    return storage->ops->load_place(storage, partition, ret_place, ret_error);
}

/* Returns the offset from which the log of the partition is needed if the process is killed now.
 * The records before it can be dropped. */
static inline enum error_code storage_load_kept(struct storage *storage, uint16_t partition,
                                                uint64_t *ret_next, struct error *ret_error)
{
    struct storage_place place = {0};
    enum error_code code;

    if (storage->ops->load_kept)
        return storage->ops->load_kept(storage, partition, ret_next, ret_error);
    code = storage->ops->load_place(storage, partition, &place, ret_error);
    *ret_next = place.next;
    return code;
}

/* Appends to `to` a body with copies of the next records of the partition; nothing if this part
 * has none. The parts may be put into the partition's log, each before the bodies that are
 * prepared after it. Then an empty partition to which the log is applied from the first part on
 * becomes equal to the partition. So does one that gets all parts first, whose places do not go
 * back, and then the log from the first part's place up to the last part's or later.
 * ERROR_CORRUPT if records are damaged or were set aside, because a copy would lack them. */
static inline enum error_code storage_export(struct storage *storage, struct storage_export *export,
                                             struct buffer *to, struct error *ret_error)
{
    return storage->ops->export(storage, export, to, ret_error);
}

/* Returns where the next part begins, for an export that continues elsewhere: in this table,
 * after this key, which borrows from the export. */
static inline struct bytes storage_export_cursor(const struct storage_export *export,
                                                 uint8_t *ret_table)
{
    *ret_table = export->step_;
    return (struct bytes){export->key_, export->key_size_};
}

/* Lets the export continue in this table after this key (storage_export_cursor). Returns false if
 * there is no such table, or the key is too long. */
static inline bool storage_export_seek(struct storage_export *export, uint8_t table,
                                       struct bytes key)
{
    if (table > STORAGE_EXPORT_TABLES || key.size > sizeof(export->key_) ||
        (table == STORAGE_EXPORT_TABLES && key.size))
        return false;
    export->is_done = table == STORAGE_EXPORT_TABLES;
    export->step_ = table;
    export->key_size_ = (uint8_t)key.size;
    if (key.size)
        memcpy(export->key_, key.data, key.size);
    return true;
}

/* Empties the partition, and makes `place` its place, which may be an earlier one or all 0.
 * After a failure or a crash the place is the old or the new one, and some records may be left:
 * call it again before anything else. */
static inline enum error_code storage_partition_clear(struct storage *storage, uint16_t partition,
                                                      const struct storage_place *place,
                                                      struct error *ret_error)
{
    return storage->ops->clear(storage, partition, place, ret_error);
}

static inline void storage_close(struct storage *storage)
{
    if (storage)
        storage->ops->close(storage);
}

/* Frees the timers of a page and its array. */
void storage_page_free(struct storage_page *page);

#endif
