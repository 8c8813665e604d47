/*
 * diskwheel_index.h - the sparse index of a table in memory: where its blocks are, by first key.
 *
 * A search of one key among a hundred thousand blocks costs what it takes to fetch memory that the
 * processor has not in its cache. So the upper halves of sixteen first keys are side by side, with
 * all that a read needs of their blocks: a search fetches one such group. The nodes above, with the
 * first halves of sixteen groups or nodes, are few enough to stay in the cache.
 *
 *     diskwheel_index_init(&index, count);
 *     diskwheel_index_add(&index, first, &block), `count` times
 *     diskwheel_index_end(&index);
 *     block = diskwheel_index_block(&index, diskwheel_index_find(&index, key));
 *
 * Errors     Out of memory.
 * Threads    An index that is complete does not change: any.
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_INDEX_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_INDEX_H

#include "store/record.h"

enum {
    DISKWHEEL_INDEX_WIDTH = 64, /* keys of a node: a power of 2 */
    DISKWHEEL_INDEX_LEVELS = 6, /* more than an index of 2^32 blocks has */
};

struct diskwheel_index_block {
    uint64_t offset;
    uint32_t size, ordinal; /* number of the first record in the table */
    uint16_t count;         /* number of records */
};

/* Blocks that follow each other in the file. Behind the last block the keys are UINT64_MAX. */
struct diskwheel_index_group {
    _Alignas(64) uint64_t highs[DISKWHEEL_INDEX_WIDTH]; /* upper halves of the first keys */
    uint32_t sizes[DISKWHEEL_INDEX_WIDTH];
    uint16_t counts[DISKWHEEL_INDEX_WIDTH];
    uint64_t offset;  /* of the first block */
    uint32_t ordinal; /* of its first record */
};

struct diskwheel_index_node {
    _Alignas(64) uint64_t highs[DISKWHEEL_INDEX_WIDTH]; /* the first one of each node below */
};

struct diskwheel_index {
    struct diskwheel_index_group *groups;
    uint64_t *lows; /* lower halves of the first keys of all blocks */
    struct diskwheel_index_node *nodes;
    size_t node_count;
    size_t starts[DISKWHEEL_INDEX_LEVELS]; /* numbers of the first nodes of the levels */
    unsigned level_count;                  /* the lowest is first */
    uint32_t count, capacity;              /* of blocks */
};

/* Makes an index with room for so many blocks. If it returns false, diskwheel_index_deinit frees
 * what it took. */
bool diskwheel_index_init(struct diskwheel_index *index, uint32_t capacity);
void diskwheel_index_deinit(struct diskwheel_index *index);

/* Adds the next block, whose first key is `first`. It begins where the one before ends. */
void diskwheel_index_add(struct diskwheel_index *index, struct record_key first,
                         const struct diskwheel_index_block *block);

/* Makes the nodes, when all blocks were added. */
void diskwheel_index_end(struct diskwheel_index *index);

uint64_t diskwheel_index_memory(const struct diskwheel_index *index);

/* Returns a block by its number. */
struct diskwheel_index_block diskwheel_index_block(const struct diskwheel_index *index,
                                                   uint32_t at);

/* Returns the upper half of the first key of a block. */
static inline uint64_t diskwheel_index_high(const struct diskwheel_index *index, uint32_t at)
{
    return index->groups[at / DISKWHEEL_INDEX_WIDTH].highs[at % DISKWHEEL_INDEX_WIDTH];
}

/* Returns the first key of a block. */
static inline struct record_key diskwheel_index_first(const struct diskwheel_index *index,
                                                      uint32_t at)
{
    return (struct record_key){diskwheel_index_high(index, at), index->lows[at]};
}

/* Returns the greater one of the first key of a block and `key`. */
static inline struct record_key diskwheel_index_first_from(const struct diskwheel_index *index,
                                                           uint32_t at, struct record_key key)
{
    if (diskwheel_index_high(index, at) < key.high)
        return key; /* the lower half is not in the group, and mostly not in the cache */
    const struct record_key first = diskwheel_index_first(index, at);
    return record_key_before(first, key) ? key : first;
}

/* Returns the number of the last block whose first key is not behind `key`; 0 if there is none. */
uint32_t diskwheel_index_find(const struct diskwheel_index *index, struct record_key key);

#endif
