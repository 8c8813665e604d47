/*
 * purgatory_private.h - the data structures of a purgatory, for purgatory*.c only.
 *
 * An operation's home is the shard of its first key: its slot and its time-out are there, under
 * that shard's lock. Its watches are in the lists of its keys, each under the lock of the key's
 * shard. A watch refers to its operation by address and generation; slots are not freed before
 * destroy, so a dead watch may always read the slot, and finds another generation.
 *
 * The state of an operation is one atomic word: its generation and four flags. The thread that
 * moves it from no flags to TRYING has claimed it, and alone may run its callbacks, end it, or
 * release it. Other threads leave a flag for the claimant: try again (AGAIN), complete because of
 * an event (FORCED), complete because of the time-out (LATE). A time-out may also end an unclaimed
 * operation in one step. Raising the generation ends an operation; the thread that raises it calls
 * complete(), so it is called once.
 *
 * In TW_UNLINK_AT_ONCE the claimant removes the watches of an operation before it ends it: a watch
 * that is alive is removed by no other thread, and so the chain of an operation's watches belongs
 * to its claimant.
 *
 * Locks: purge_lock is taken before a shard's lock; never two shard locks at once; none is held
 * while a callback runs.
 */
#ifndef TICKWHEEL_PURGATORY_PRIVATE_H
#define TICKWHEEL_PURGATORY_PRIVATE_H

#include "link.h"
#include "memory.h"
#include "slab.h"

#include <tickwheel/purgatory.h>

#include <pthread.h>
#include <stdatomic.h>

enum { STATE_TRYING = 1, STATE_AGAIN = 2, STATE_FORCED = 4, STATE_LATE = 8, STATE_FLAGS = 15 };

/* The generation of a slot whose generations are used up and which is not used again: that costs a
 * hundred bytes for each quarter of a billion operations. No watch ever has it. */
#define OPERATION_GENERATION_LAST (UINT32_MAX >> 4)

enum { SEGMENT_FIRST = 64, SEGMENTS_MAX = 26 };

struct purgatory_operation {
    struct slab_slot slot;
    struct purgatory_shard *home;
    void *operation;               /* the caller's */
    struct tw_task timer;          /* in the home's wheel while it waits */
    size_t key_count;              /* number of its watches when all are made */
    struct purgatory_watch *first; /* the watch at home, removed with the operation */
    atomic_uint_least32_t state;
};

/* Linked into the list of its key. */
struct purgatory_watch {
    struct slab_slot slot;
    struct purgatory_operation *operation;
    struct purgatory_watch_list *list;
    uint32_t generation;
    struct purgatory_watch *sibling; /* next watch of the operation; the slot has this field only in
                                        TW_UNLINK_AT_ONCE */
};

/* A position in a list that stays valid while the lock is not held: removing a watch moves the
 * cursors at it to the next watch. */
struct purgatory_cursor {
    struct purgatory_cursor *next;
    struct tw_link *at; /* the root at the end */
};

/* The watches of one key, oldest first. Linked into the shard's ring of all lists. Freed when it
 * has neither watches nor cursors. */
struct purgatory_watch_list {
    struct slab_slot slot;
    struct purgatory_watch_list *next; /* next list in this bucket of the table */
    uint64_t key;
    struct link_bucket watches;
    struct purgatory_cursor *cursors;
    size_t count;
};

/* Lists by key: a table that grows by one bucket at a time (W. Litwin's linear hashing), so that no
 * call moves all lists. Segments double in size and never move. */
struct purgatory_key_table {
    struct purgatory_watch_list **segments[SEGMENTS_MAX];
    uint32_t bucket_count;
};

struct purgatory_shard {
    pthread_mutex_t lock; /* guards all below */
    struct memory memory;
    struct tw_hierarchy *wheel;
    uint64_t wake_told; /* a deadline from here on needs no report, as far as this shard knows */
    struct slab operations;
    struct slab watches;
    struct slab lists;
    struct purgatory_key_table table;
    struct link_bucket ring; /* all lists; the purge takes the first and appends it again */
    uint64_t by_event_count;
    uint64_t by_timeout_count;
    uint64_t purged_count;
    size_t retired_count;
};

/* The position of the purge. Guarded by purge_lock, and the contents of `list` also by its shard's
 * lock. */
struct purgatory_purge {
    unsigned shard;
    struct purgatory_watch_list *list; /* pinned by the cursor; NULL between lists */
    struct purgatory_cursor cursor;
    size_t watches_left; /* watches of the list still to examine, counted at its start */
    size_t lists_left;   /* lists of the shard still to examine, counted at its start */
    bool is_begun;       /* the shard is being purged */
    uint64_t look_count; /* watches and lists examined since creation */
};

struct tw_purgatory {
    bool (*try_complete)(void *context, void *operation);
    void (*complete)(void *context, void *operation, enum tw_completion why);
    void (*on_sooner)(void *context, uint64_t wake_at);
    void *context;
    struct memory memory;
    size_t operation_count_max;
    size_t watch_count_max;
    unsigned dead_percent_max;
    unsigned shard_count;
    uint64_t tick;
    enum tw_purgatory_unlink unlink;
    bool is_closing;
    struct purgatory_shard *shards;

    pthread_mutex_t wake_lock;
    uint64_t wake_told; /* guarded by wake_lock: the last answer of wake_at or on_sooner */

    pthread_mutex_t purge_lock;
    struct purgatory_purge purge; /* guarded by purge_lock */
    atomic_bool is_purging;

    atomic_uint expire_turn;
    atomic_size_t operation_count; /* waiting operations */
    atomic_size_t alive_count;     /* watches that those have or are about to get */
    /* Watches in lists; minus `alive_count` it is the estimate of the dead watches. */
    atomic_size_t watch_count;
};

/* purgatory_watch.c: all called with the shard's lock held. */

/* Adds a watch at the end of the list of `key`; NULL when out of memory. */
struct purgatory_watch *tw__watch_add(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                                      uint64_t key, struct purgatory_operation *operation,
                                      uint32_t generation);

/* Removes a watch from its list; the list stays, even if it is now empty. */
void tw__watch_drop(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                    struct purgatory_watch *watch);

/* The list of `key`; NULL if there is none. */
struct purgatory_watch_list *tw__watch_list_find(const struct purgatory_shard *shard, uint64_t key);

/* Frees the list unless it has watches or cursors. */
void tw__watch_list_settle(struct purgatory_shard *shard, struct purgatory_watch_list *list);

void tw__cursor_open(struct purgatory_watch_list *list, struct purgatory_cursor *cursor);
void tw__cursor_close(struct purgatory_watch_list *list, struct purgatory_cursor *cursor);

void tw__key_table_deinit(struct purgatory_shard *shard);

/* purgatory_purge.c: does the share of a purge that `watch_count` added or dead watches owe; called
 * without a lock. */
void tw__purge_pay(struct tw_purgatory *purgatory, size_t watch_count);

/* Whether the watch's operation is completed. */
static inline bool watch_is_dead(const struct purgatory_watch *watch)
{
    return atomic_load(&watch->operation->state) >> 4 != watch->generation;
}

static inline struct purgatory_watch *watch_of(struct tw_link *link)
{
    return (struct purgatory_watch *)link; /* the first member of its first member */
}

/* Each bit of a key changes about half of all bits: the finalizer of SplitMix64. */
static inline uint64_t key_mix(uint64_t key)
{
    key = (key ^ key >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ key >> 27) * UINT64_C(0x94d049bb133111eb);
    return key ^ key >> 31;
}

static inline struct purgatory_shard *shard_of(const struct tw_purgatory *purgatory, uint64_t key)
{
    return &purgatory->shards[key_mix(key) >> 32 & (purgatory->shard_count - 1)];
}

/* The bucket of mixed key `mixed` in a table of `bucket_count` buckets. */
static inline uint32_t table_index(uint32_t bucket_count, uint64_t mixed)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(bucket_count); /* next power of two, minus one */
    uint32_t index = (uint32_t)mixed & mask;

    return index < bucket_count ? index : index & mask >> 1;
}

static inline struct purgatory_watch_list **table_bucket(const struct purgatory_key_table *table,
                                                         uint32_t index)
{
    if (index < SEGMENT_FIRST)
        return &table->segments[0][index];
    unsigned segment = 32 - (unsigned)__builtin_clz(index / SEGMENT_FIRST);
    return &table->segments[segment][index - ((uint32_t)SEGMENT_FIRST << (segment - 1))];
}

#endif
