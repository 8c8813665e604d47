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

/* The generation of a slot whose generations are used up. Such a slot is not used again, which
 * costs a hundred bytes for each quarter of a billion operations. No watch ever has this
 * generation. */
#define OPERATION_GENERATION_LAST (UINT32_MAX >> 4)

enum { SEGMENT_FIRST = 64, SEGMENTS_MAX = 26 };

struct purgatory_operation {
    struct slab_slot slot;
    struct purgatory_shard *home;
    void *operation;      /* passed to the caller's functions */
    struct tw_task timer; /* in the wheel of the home while the operation waits */
    size_t key_count;     /* number of its watches, once all are made */
    /* watch in the home, which is removed together with the operation */
    struct purgatory_watch *first;
    atomic_uint_least32_t state;
};

/* An entry in the list of a key, which refers to an operation. */
struct purgatory_watch {
    struct slab_slot slot;
    struct purgatory_operation *operation;
    struct purgatory_watch_list *list;
    uint32_t generation;
    /* next watch of the operation; exists only in TW_UNLINK_AT_ONCE */
    struct purgatory_watch *sibling;
};

/* A position in a list that stays valid while the lock is not held. When a watch is removed, the
 * cursors at it are moved to the next one. */
struct purgatory_cursor {
    struct purgatory_cursor *next;
    struct tw_link *at; /* the root of the list if at its end */
};

/* The watches of one key, oldest first. It is in the shard's ring of all lists, and is freed when
 * it has neither watches nor cursors. */
struct purgatory_watch_list {
    struct slab_slot slot;
    struct purgatory_watch_list *next; /* next list in the same bucket of the table */
    uint64_t key;
    struct link_bucket watches;
    struct purgatory_cursor *cursors;
    size_t count;
};

/* Finds lists by key: a table that grows by one bucket at a time (W. Litwin's linear hashing), so
 * that no call has to move all lists. Its segments double in size and never move. */
struct purgatory_key_table {
    struct purgatory_watch_list **segments[SEGMENTS_MAX];
    uint32_t bucket_count;
};

struct purgatory_shard {
    pthread_mutex_t lock; /* guards the fields below */
    struct memory memory;
    struct tw_hierarchy *wheel;
    uint64_t wake_told; /* as far as this shard knows, deadlines from here on need no report */
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

/* Position of the purge. Guarded by purge_lock; the contents of `list` also by the lock of its
 * shard. */
struct purgatory_purge {
    unsigned shard;
    /* list that the cursor keeps from being freed; NULL between two lists */
    struct purgatory_watch_list *list;
    struct purgatory_cursor cursor;
    size_t watches_left; /* watches of the list to examine, counted when its examination began */
    size_t lists_left;   /* lists yet to examine, of those that the shard had at the begin */
    bool is_begun;       /* the purge of this shard has begun */
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
    /* last wake-up time returned by wake_at or passed to on_sooner; guarded by wake_lock */
    uint64_t wake_told;

    pthread_mutex_t purge_lock;
    struct purgatory_purge purge; /* guarded by purge_lock */
    atomic_bool is_purging;

    atomic_uint expire_turn;
    atomic_size_t operation_count; /* number of waiting operations */
    atomic_size_t alive_count;     /* watches that those operations have, or are about to get */
    /* Number of watches in lists. The estimate of dead watches is this minus `alive_count`. */
    atomic_size_t watch_count;
};

/* purgatory_watch.c: all functions are called with the lock of the shard held. */

/* Adds a watch at the end of the list of `key`. Returns NULL if out of memory. */
struct purgatory_watch *tw__watch_add(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                                      uint64_t key, struct purgatory_operation *operation,
                                      uint32_t generation);

/* Removes a watch from its list. The list stays, even if it is empty now. */
void tw__watch_drop(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                    struct purgatory_watch *watch);

/* Returns the list of `key`; NULL if there is none. */
struct purgatory_watch_list *tw__watch_list_find(const struct purgatory_shard *shard, uint64_t key);

/* Frees the list unless it has watches or cursors. */
void tw__watch_list_settle(struct purgatory_shard *shard, struct purgatory_watch_list *list);

void tw__cursor_open(struct purgatory_watch_list *list, struct purgatory_cursor *cursor);
void tw__cursor_close(struct purgatory_watch_list *list, struct purgatory_cursor *cursor);

void tw__key_table_deinit(struct purgatory_shard *shard);

/* purgatory_purge.c: does the part of a purge that is due for `watch_count` watches that were added
 * or have died. Called without a lock. */
void tw__purge_pay(struct tw_purgatory *purgatory, size_t watch_count);

/* True if the operation of the watch has ended. */
static inline bool watch_is_dead(const struct purgatory_watch *watch)
{
    return atomic_load(&watch->operation->state) >> 4 != watch->generation;
}

static inline struct purgatory_watch *watch_of(struct tw_link *link)
{
    return (struct purgatory_watch *)link; /* the link is the first member of the watch */
}

/* Mixes a key so that each of its bits changes about half of all bits: the finalizer of
 * SplitMix64. */
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

/* Returns the bucket of a mixed key in a table of `bucket_count` buckets. */
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
