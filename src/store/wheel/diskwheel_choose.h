/*
 * diskwheel_choose.h - which runs are rewritten together, so that their number is bounded.
 *
 * A record belongs to a class by the time until it is probably over: up to an hour, four days, a
 * hundred days, more. A run belongs to the class of its last row, and to a tier by its size: the
 * top begins at twice the memory of changes, and each tier at a sixteenth of the one above. At
 * most 64 runs and eight times the memory of changes are rewritten at once:
 *
 *   runs of which less than a quarter is needed. Less is copied than a third of what ended;
 *   runs whose records are probably forgotten by now. Entries of names have no trim;
 *   16 runs of one class and tier below the top, 64 of the nearest class, which is soon over.
 *   Together they are a run of the next tier;
 *   the smallest, if there are more than `runs_max`.
 *
 * So each class has less than 16 runs (64) of each tier below the top, and a run of the top has at
 * least twice the memory of changes. By the second rule a record is copied at most once for each
 * tier of each class, if nothing of its run ends meanwhile.
 *
 * Threads    The caller holds the lock of the store.
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_CHOOSE_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_CHOOSE_H

#include "store/wheel/diskwheel_view.h"

enum { DISKWHEEL_CLASSES = 4, DISKWHEEL_TIERS = 6 }; /* tier 0 is the top */

struct diskwheel_choice {
    struct wall now;
    uint64_t retain_ms; /* time for which final records are kept */
    uint64_t memory;    /* memory of changes, in bytes */
    unsigned runs_max;
};

/* Returns the class of what is over at this time. */
unsigned diskwheel_choose_class(struct wall now, uint64_t ends_ms);

/* Returns the tier of a run of this size. */
unsigned diskwheel_choose_tier(const struct diskwheel_choice *choice, uint64_t bytes);

/* Returns the number of records that are needed, at most: a row may be counted as cut and as
 * marked. */
uint64_t diskwheel_choose_live(const struct diskwheel_run *run);

/* Returns the runs to rewrite together. NULL if there are none, or out of memory. */
struct diskwheel_view *diskwheel_choose(const struct diskwheel_choice *choice,
                                        const struct diskwheel_view *view);

#endif
