/*
 * diskwheel_merge.h - the records of a table as they are now: those of stages in memory and of
 * runs, in order of their keys, of each key the newest.
 *
 *     diskwheel_merge_init(&merge, table);
 *     diskwheel_merge_add_seen, _add_stage, _add_run: each source, the newest first
 *     while (!(code = diskwheel_merge_next(&merge, &record, &error))) ...
 *     diskwheel_merge_deinit(&merge);
 *
 * Errors     ERROR_CORRUPT: a block is damaged; the next call goes on behind it. ERROR_NO_MEMORY.
 * Threads    One owner.
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_MERGE_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_MERGE_H

#include "store/wheel/diskwheel_run.h"

/* Changes in memory, with what they have cut. The last reference frees it. */
struct diskwheel_stage {
    struct diskwheel_layer layer;
    _Atomic uint64_t *cuts; /* as of a run; guarded by the store */
    atomic_uint references;
};

struct diskwheel_stage *diskwheel_stage_create(uint16_t partition_count);

/* Ends a row of what is older than the stage, unless the stage has a change of it. Returns false if
 * out of memory. */
bool diskwheel_stage_end_row(struct diskwheel_stage *stage, struct record_key key);

static inline struct diskwheel_stage *diskwheel_stage_hold(struct diskwheel_stage *stage)
{
    atomic_fetch_add(&stage->references, 1);
    return stage;
}

/* NULL has no effect. */
void diskwheel_stage_release(struct diskwheel_stage *stage);

/* A change as it was at some moment. */
struct diskwheel_seen {
    struct record_key key;
    const struct diskwheel_entry *entry;
    enum diskwheel_change change;
};

struct diskwheel_source {
    /* one of three */
    const struct diskwheel_seen *seen;
    struct diskwheel_walk walk;
    struct diskwheel_cursor cursor;

    size_t seen_count, seen_at;
    struct diskwheel_stage *stage; /* of a walk */
    size_t age;                    /* 0: the newest */
    const _Atomic uint64_t *cuts;  /* NULL for none */
    struct record_key bound;       /* of its next record, or that record's key */
    bool is_read;                  /* `change` and `value` are the record at `bound` */
    enum diskwheel_change change;
    bool is_new;
    struct bytes value;
};

struct diskwheel_merge {
    enum diskwheel_table table;
    struct diskwheel_source *sources;
    size_t count, capacity;
    struct diskwheel_source **heap; /* the least bound first, of equal ones the newest */
    size_t heap_count;
    struct record_key last;
    bool is_begun, is_ready;
    struct buffer touched;
};

struct diskwheel_record {
    struct record_key key;
    struct bytes value; /* valid until the next call */
    bool is_new;
    const struct diskwheel_run *run; /* that has it; NULL for a record from memory */
};

void diskwheel_merge_init(struct diskwheel_merge *merge, enum diskwheel_table table);

/* Each adds a source that is older than those before; it is borrowed until diskwheel_merge_deinit.
 * Returns false if out of memory. */
bool diskwheel_merge_add_seen(struct diskwheel_merge *merge, const struct diskwheel_seen *seen,
                              size_t count);
bool diskwheel_merge_add_stage(struct diskwheel_merge *merge, struct diskwheel_stage *stage,
                               const _Atomic uint64_t *cuts, struct record_key from);
bool diskwheel_merge_add_run(struct diskwheel_merge *merge, struct diskwheel_run *run,
                             const _Atomic uint64_t *cuts, struct record_key from);

/* Returns the next record; ERROR_NOT_FOUND at the end. */
enum error_code diskwheel_merge_next(struct diskwheel_merge *merge,
                                     struct diskwheel_record *ret_record, struct error *ret_error);

void diskwheel_merge_deinit(struct diskwheel_merge *merge);

/* True if cuts ended the record. */
bool diskwheel_is_cut(enum diskwheel_table table, const _Atomic uint64_t *cuts,
                      struct record_key key, struct bytes value);

#endif
