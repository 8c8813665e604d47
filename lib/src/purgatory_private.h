/*
 * purgatory_private.h - how a purgatory is laid out. For purgatory*.c only.
 *
 * An operation's home is the shard of its first key: its slot and its time-out live there, under
 * that shard's lock. Its watches lie in the lists of its keys, each under the lock of the key's
 * shard. A watch names its operation by address and generation; slots are never freed before
 * destroy, so a dead watch may always look, and sees another generation.
 *
 * The state of an operation is one atomic word: its generation and four flags. Who moves it from
 * no flags to TRYING has claimed it, and alone may run its callbacks, end it, or put it back.
 * Others leave a flag for the claimant: once more (AGAIN), over by an event (FORCED), over by its
 * time-out (LATE). A time-out may also end an unclaimed operation in one step. Ending it is raising
 * the generation; whoever does that calls complete(), so it is called once.
 *
 * Locks: purge_lock before a shard's; never two shards' at once; none while a callback runs.
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

/* The generation of a slot whose generations are used up, and which is not let again: that costs a
 * hundred bytes for each quarter of a billion operations. No watch ever has it. */
#define OPERATION_GENERATION_LAST (UINT32_MAX >> 4)

enum { SEGMENT_FIRST = 64, SEGMENTS_MAX = 26 };

struct purgatory_operation {
    struct slab_slot slot;
    struct purgatory_shard *home;
    void *operation;               /* the caller's */
    tw_handle timer;               /* of the home's wheel, opened when the slot was first let */
    size_t key_count;              /* watches to be made of it, all in all */
    struct purgatory_watch *first; /* the one at home, which leaves its list with the operation */
    atomic_uint_least32_t state;
};

/* Linked into the list of its key. */
struct purgatory_watch {
    struct slab_slot slot;
    struct purgatory_operation *operation;
    struct purgatory_watch_list *list;
    uint32_t generation;
};

/* A place in a list that stays good while the lock is not held: who takes a watch out moves the
 * cursors that stand on it to the next. */
struct purgatory_cursor {
    struct purgatory_cursor *next;
    struct tw_link *at; /* the root when at the end */
};

/* The watches of one key, oldest first. Linked into the shard's ring of all lists. Freed when it
 * has neither watches nor cursors. */
struct purgatory_watch_list {
    struct slab_slot slot;
    struct purgatory_watch_list *next; /* in the same bucket of the table */
    uint64_t key;
    struct link_bucket watches;
    struct purgatory_cursor *cursors;
    size_t count;
};

/* Lists by key: a table that grows by one bucket at a time (W. Litwin's linear hashing), so that no
 * call pays for moving them all. Segments double and never move. */
struct purgatory_key_table {
    struct purgatory_watch_list **segments[SEGMENTS_MAX];
    uint32_t bucket_count;
};

struct purgatory_shard {
    pthread_mutex_t lock; /* guards all below */
    struct memory memory;
    struct tw_wheel *wheel;
    uint64_t wake_told; /* no deadline before it needs to be told, as far as this shard knows */
    struct slab operations;
    struct slab watches;
    struct slab lists;
    struct purgatory_key_table table;
    struct link_bucket
        ring; /* all lists; the purge takes them from the front and puts them back last */
    uint64_t by_event_count;
    uint64_t by_timeout_count;
    uint64_t purged_count;
    size_t retired_count;
};

/* Where the purge is. Under purge_lock; `list`'s insides under its shard's lock too. */
struct purgatory_purge {
    unsigned shard;
    struct purgatory_watch_list *list; /* pinned by the cursor; NULL between lists */
    struct purgatory_cursor cursor;
    size_t watches_left; /* of the list, when it was begun */
    size_t lists_left;   /* of the shard, when it was begun */
    bool is_begun;       /* the shard */
    uint64_t look_count; /* all in all */
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
    bool is_closing;
    struct purgatory_shard *shards;

    pthread_mutex_t wake_lock;
    uint64_t wake_told; /* under wake_lock: the last wake_at or on_sooner */

    pthread_mutex_t purge_lock;
    struct purgatory_purge purge; /* under purge_lock */
    atomic_bool is_purging;

    atomic_uint expire_turn;
    atomic_size_t operation_count; /* that wait */
    atomic_size_t alive_count;     /* watches that those have, or are about to get */
    atomic_size_t watch_count; /* watches in lists; less `alive_count`, the estimate of the dead */
};

/* purgatory_watch.c: all under the lock of the shard at hand. */

/* Adds a watch at the end of the list of `key`; NULL when out of memory. */
struct purgatory_watch *tw__watch_add(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                                      uint64_t key, struct purgatory_operation *operation,
                                      uint32_t generation);

/* Takes a watch out of its list; the list stays, even if it is now empty. */
void tw__watch_drop(struct tw_purgatory *purgatory, struct purgatory_shard *shard,
                    struct purgatory_watch *watch);

/* The list of `key`; NULL if it has none. */
struct purgatory_watch_list *tw__watch_list_find(const struct purgatory_shard *shard, uint64_t key);

/* Frees the list unless it has watches or cursors. */
void tw__watch_list_settle(struct purgatory_shard *shard, struct purgatory_watch_list *list);

void tw__cursor_open(struct purgatory_watch_list *list, struct purgatory_cursor *cursor);
void tw__cursor_close(struct purgatory_watch_list *list, struct purgatory_cursor *cursor);

void tw__key_table_deinit(struct purgatory_shard *shard);

/* purgatory_purge.c: pays for `watch_count` watches that were added or have died; no lock held. */
void tw__purge_pay(struct tw_purgatory *purgatory, size_t watch_count);

/* Whether the operation that the watch was made for is over. */
static inline bool watch_is_dead(const struct purgatory_watch *watch)
{
    return atomic_load(&watch->operation->state) >> 4 != watch->generation;
}

static inline struct purgatory_watch *watch_of(struct tw_link *link)
{
    return (struct purgatory_watch *)link; /* the first member of its first member */
}

/* Every bit of a key moves about half of all bits: the finish of SplitMix64. */
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

/* Where mixed key `mixed` lies in a table of so many buckets. */
static inline uint32_t table_index(uint32_t bucket_count, uint64_t mixed)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(bucket_count); /* the power above, less one */
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
