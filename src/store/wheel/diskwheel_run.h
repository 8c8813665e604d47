/*
 * diskwheel_run.h - a run: records in order of their keys, written once and never changed, with a
 * sparse index. What ends a record is a mark beside the run, in memory and in the state
 * (diskwheel_state.c).
 *
 * Name       `run-`, the number of the run in 16 hex digits
 * File       blocks (diskwheel_block.h) of the tables TIMERS, MOVED and NAMES in this order,
 *            without gaps from position 0; index; foot
 * Index      for each table: number of blocks and records; for each block its first key, upper half
 *            as the difference to the block before (the first one's as it is), then lower half as
 *            it is; size with its head, number of records; then the last key of the table, upper
 *            half and lower half, 0 and 0 if it is empty
 *            number of partitions that have rows; for each its number, which rises, the number of
 *            its rows, their least and greatest position, least and greatest serial of its new
 *            rows, 0 and 0 if it has none
 *            for each table: size of its filter in bytes, and the filter
 *            The numbers are groups of seven bits (varint.h)
 * Foot 48    the last bytes of the file: `tickwrun` 8; version 4 (it is 1); zero 4; number of the
 *            run 8; its id, which is random, 8; position of the index 8; checksum of the index 4;
 *            checksum of the 44 bytes before 4
 *
 * A filter is a Bloom filter (Bloom 1970) of 16 bits a record in lines of 64 bytes. The 7 probes of
 * a record are in one line, so a look costs one miss of the processor's cache (Putze, Sanders and
 * Singler 2007). In that of TIMERS are only the rows that were not new when they were written: a
 * new one is found by its serial, for serials of new rows grow. Hash, line and probes are in
 * diskwheel_run_private.h: bit b of a line is bit b % 8 of its byte b / 8. A reader may pass over
 * filters: they only save reads.
 *
 * Errors     ERROR_CORRUPT: a block or the index is damaged; ERROR_IO; ERROR_NO_MEMORY.
 * Threads    A writer has one owner. A run is read by any; marks are set by one thread at a time
 *            while others read.
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_RUN_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_RUN_H

#include "store/wheel/diskwheel_block.h"
#include "store/wheel/diskwheel_index.h"
#include "sys/disk.h"

#include <stdatomic.h>

#define DISKWHEEL_RUN_NAME_SIZE 32
#define DISKWHEEL_CUT_ALL       UINT64_MAX

enum { DISKWHEEL_RUN_DENSE = 8 }; /* at least one serial of so many is in a dense run */

/* ---- writing ---- */

struct diskwheel_writer;

/* Makes the file FOLDER/run-NUMBER. */
enum error_code diskwheel_writer_open(const struct disk_calls *disk, const char *folder,
                                      uint64_t number, struct diskwheel_writer **ret_writer,
                                      struct error *ret_error);

/* Adds the next record, in order of tables and keys. `is_new`: of TIMERS, no older row can have the
 * key. A failure is reported by diskwheel_writer_end. */
void diskwheel_writer_add(struct diskwheel_writer *writer, enum diskwheel_table table,
                          struct record_key key, bool is_new, struct bytes value);

/* Returns the number of bytes written so far. */
uint64_t diskwheel_writer_bytes(const struct diskwheel_writer *writer);

/* Writes the rest, syncs the file and frees the writer. After a failure the file is removed. The
 * caller syncs the folder. */
enum error_code diskwheel_writer_end(struct diskwheel_writer *writer, struct error *ret_error);

/* Removes the file and frees the writer. NULL has no effect. */
void diskwheel_writer_drop(struct diskwheel_writer *writer);

/* ---- reading ---- */

struct diskwheel_run_table {
    struct diskwheel_index index;
    uint32_t record_count;
    struct record_key last;
    uint8_t *filter;
    size_t filter_bytes;
    _Atomic uint64_t *marks;       /* a bit for each record that is over */
    _Atomic uint32_t marked_count; /* number of set bits */
    _Atomic uint64_t *damaged;     /* 2 bits for each block: of enum diskwheel_damage */
};

/* What reads found of a block. */
enum diskwheel_damage {
    DISKWHEEL_DAMAGE_TURNED = 1, /* a flipped bit, which each read turns back */
    DISKWHEEL_DAMAGE_LOST = 2,   /* more: its records, or some of them, are lost */
};

/* Rows of a partition. */
struct diskwheel_run_slice {
    uint16_t partition;
    uint32_t rows;
    uint64_t at_min, at_max;         /* least and greatest position */
    uint64_t serial_min, serial_max; /* of the new rows; 0 and 0 if there is none */
};

struct diskwheel_run {
    const struct disk_calls *disk;
    uint64_t number, id, bytes; /* the id differs from that of any other run of any folder */
    int file;
    struct diskwheel_run_table tables[DISKWHEEL_TABLES];
    struct diskwheel_run_slice *slices;
    size_t slice_count;
    /* by partition: position before which rows are over; DISKWHEEL_CUT_ALL: all records of the
     * partition are. Guarded by the store */
    _Atomic uint64_t *cuts;
    _Atomic uint64_t *kept_cuts; /* those of the state on disk; changed by the worker alone */
    uint16_t partition_count;
    _Atomic uint64_t damaged_blocks, damaged_records; /* as far as they were read */
    _Atomic uint64_t aside_blocks; /* number of damaged blocks that were kept for the operator */
    bool is_copied;                /* it is being rewritten; guarded by the store */
    /* time from which all of its records are probably forgotten, in ms since 1970; 0 if unknown.
     * Set before others see the run */
    uint64_t stale_at;
    atomic_uint references;
    bool is_mended; /* its index or its end is damaged: the index was made anew, without filters */
    atomic_bool is_over; /* its file goes with the last reference */
    char path[];
};

/* Writes the name of a run's file. */
void diskwheel_run_name(uint64_t number, char ret_name[DISKWHEEL_RUN_NAME_SIZE]);

enum error_code diskwheel_run_open(const struct disk_calls *disk, const char *folder,
                                   uint64_t number, uint16_t partition_count,
                                   struct diskwheel_run **ret_run, struct error *ret_error);

/* Opens one whose id is known; 0 if it is not. If only the end of the file is damaged, its blocks
 * are read with this id. The caller compares it. */
enum error_code diskwheel_run_open_known(const struct disk_calls *disk, const char *folder,
                                         uint64_t number, uint64_t id, uint16_t partition_count,
                                         struct diskwheel_run **ret_run, struct error *ret_error);

static inline struct diskwheel_run *diskwheel_run_hold(struct diskwheel_run *run)
{
    atomic_fetch_add(&run->references, 1);
    return run;
}

/* Returns the memory of the run's index, filters and marks. */
uint64_t diskwheel_run_memory(const struct diskwheel_run *run);

/* Gives a reference back. NULL has no effect. */
void diskwheel_run_release(struct diskwheel_run *run);

static inline bool diskwheel_run_is_marked(const struct diskwheel_run *run,
                                           enum diskwheel_table table, uint32_t ordinal)
{
    return atomic_load_explicit(&run->tables[table].marks[ordinal / 64], memory_order_relaxed) >>
               ordinal % 64 &
           1;
}

/* Returns what the run has of the partition's rows; NULL if nothing. */
const struct diskwheel_run_slice *diskwheel_run_find_slice(const struct diskwheel_run *run,
                                                           uint64_t partition);

/* Returns the number of records before the key, but for those of the key's block. */
uint32_t diskwheel_run_rows_before(const struct diskwheel_run_table *table, struct record_key key);

/* True if the row is found by its serial, and the run has many of the serials in its range. */
bool diskwheel_run_is_dense_at(const struct diskwheel_run *run, struct record_key key);

void diskwheel_run_mark(struct diskwheel_run *run, enum diskwheel_table table, uint32_t ordinal);

/* Counts a block of the table as damaged, with all of its records. The second call for a block has
 * no effect. */
void diskwheel_run_note_damage(struct diskwheel_run *run, enum diskwheel_table table,
                               uint32_t block);

/* Counts a block of which a flipped bit was turned back. None of its records is lost, and a run
 * without other damage is written anew soon. */
void diskwheel_run_note_turned(struct diskwheel_run *run, enum diskwheel_table table,
                               uint32_t block);

static inline enum diskwheel_damage diskwheel_run_damage(const struct diskwheel_run *run,
                                                         enum diskwheel_table table, uint32_t block)
{
    return (enum diskwheel_damage)(atomic_load(&run->tables[table].damaged[block / 32]) >>
                                       block % 32 * 2 &
                                   (DISKWHEEL_DAMAGE_TURNED | DISKWHEEL_DAMAGE_LOST));
}

/* True if the record may be in the run. */
bool diskwheel_run_may_have(const struct diskwheel_run *run, enum diskwheel_table table,
                            struct record_key key);

/* Walks the records of a table that are not marked, from a key on. */
struct diskwheel_cursor {
    struct diskwheel_run *run;
    enum diskwheel_table table;
    uint32_t next_block;
    uint32_t ordinal; /* of the last record */
    struct diskwheel_block block;
    struct buffer stored, raw;
    struct record_key from;
};

/* Places the cursor; nothing is read. A cursor that is all zero but for its buffers may be placed
 * again. */
void diskwheel_cursor_seek(struct diskwheel_cursor *cursor, struct diskwheel_run *run,
                           enum diskwheel_table table, struct record_key from);

/* Returns the next record; ERROR_NOT_FOUND at the end; ERROR_CORRUPT for a damaged block, which the
 * next call passes over. The value is valid until the next call. */
enum error_code diskwheel_cursor_next(struct diskwheel_cursor *cursor, struct record_key *ret_key,
                                      struct bytes *ret_value, struct error *ret_error);

void diskwheel_cursor_deinit(struct diskwheel_cursor *cursor);

/* Returns the first possible key of the cursor's next record without reading; false if it is at its
 * end. */
bool diskwheel_cursor_bound(const struct diskwheel_cursor *cursor, struct record_key *ret_key);

#endif
