/*
 * diskwheel_view.h - the runs at a moment, and in which of them a record may be.
 *
 * Each partition has a list of the runs with rows of it: range of their positions, range of serials
 * of new rows, filter of the others. Two more lists are for the tables MOVED and NAMES. A list is
 * one piece of memory, so a record among hundreds of runs costs less than reading a block.
 *
 *     diskwheel_probe_begin(&probe, view, table, key);
 *     while (diskwheel_probe_next(&probe, &number)) ... view->runs[number], the newest first
 *
 * Errors     Out of memory.
 * Threads    A view that is complete does not change: any.
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_VIEW_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_VIEW_H

#include "store/wheel/diskwheel_run.h"

/* What a run has for a list. */
struct diskwheel_view_entry {
    uint64_t at_min, at_max, serial_min, serial_max;
    const uint8_t *filter;
    size_t filter_bytes;
    size_t number; /* of the run */
};

struct diskwheel_view {
    atomic_uint references;
    struct diskwheel_view_entry *entries;
    size_t capacity;
    size_t *starts; /* of the lists, one for each partition and two more; then the end */
    uint16_t partition_count;
    size_t count;
    struct diskwheel_run *runs[]; /* oldest first */
};

/* Makes a view with room for runs. */
struct diskwheel_view *diskwheel_view_create(size_t count);

/* Takes memory for the lists of a view that is to have these runs, and perhaps others of `also`.
 * Returns false if out of memory. */
bool diskwheel_view_reserve(struct diskwheel_view *view, uint16_t partition_count,
                            struct diskwheel_run *const *runs, size_t count,
                            struct diskwheel_run *const *also, size_t also_count);

/* Fills the lists. The view has all its runs, and memory for them. */
void diskwheel_view_index(struct diskwheel_view *view);

static inline struct diskwheel_view *diskwheel_view_hold(struct diskwheel_view *view)
{
    atomic_fetch_add(&view->references, 1);
    return view;
}

/* Gives a reference back. NULL has no effect. */
void diskwheel_view_release(struct diskwheel_view *view);

/* Rows of the view's runs that are copied together, in order of their keys. */
struct diskwheel_density {
    const struct diskwheel_view *view;
    uint64_t partition; /* partition of the last row; UINT64_MAX before any */
    bool is_dense;      /* the runs together have many of the partition's serials in their range */
};

/* True if the copy of a row of `run` is to be found by its serial, as the row is. It is not if the
 * runs are far from each other: then all rows between them would be looked for in the copy. */
bool diskwheel_density_keeps(struct diskwheel_density *density, const struct diskwheel_run *run,
                             struct record_key key);

struct diskwheel_probe {
    enum diskwheel_table table;
    uint64_t at, serial, hash;
    const struct diskwheel_view_entry *next, *end;
};

void diskwheel_probe_begin(struct diskwheel_probe *probe, const struct diskwheel_view *view,
                           enum diskwheel_table table, struct record_key key);

/* Returns the number of the next run in which the record may be; false if there is none. */
bool diskwheel_probe_next(struct diskwheel_probe *probe, size_t *ret_number);

#endif
