/* diskwheel_index.c - builds and searches the index of a table; see diskwheel_index.h. */
#include "store/wheel/diskwheel_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_LINE = 64 }; /* bytes of a line of the processor's cache */

static size_t diskwheel_index_nodes_of(size_t entries)
{
    return (entries + DISKWHEEL_INDEX_WIDTH - 1) / DISKWHEEL_INDEX_WIDTH;
}

bool diskwheel_index_init(struct diskwheel_index *index, uint32_t capacity)
{
    const size_t groups = diskwheel_index_nodes_of(capacity);

    *index = (struct diskwheel_index){.capacity = capacity};
    for (size_t entries = groups; entries > 1; entries = diskwheel_index_nodes_of(entries)) {
        index->starts[index->level_count++] = index->node_count;
        index->node_count += diskwheel_index_nodes_of(entries);
    }
    index->groups = aligned_alloc(_Alignof(struct diskwheel_index_group),
                                  (groups + 1) * sizeof(*index->groups));
    index->nodes = aligned_alloc(_Alignof(struct diskwheel_index_node),
                                 (index->node_count + 1) * sizeof(*index->nodes));
    index->lows = malloc(((size_t)capacity + 1) * sizeof(*index->lows));
    return index->groups && index->nodes && index->lows;
}

void diskwheel_index_deinit(struct diskwheel_index *index)
{
    free(index->groups);
    free(index->nodes);
    free(index->lows);
    *index = (struct diskwheel_index){0};
}

void diskwheel_index_add(struct diskwheel_index *index, struct record_key first,
                         const struct diskwheel_index_block *block)
{
    struct diskwheel_index_group *group = &index->groups[index->count / DISKWHEEL_INDEX_WIDTH];
    const unsigned at = index->count % DISKWHEEL_INDEX_WIDTH;

    assert(index->count < index->capacity);
    if (at == 0) {
        *group = (struct diskwheel_index_group){.offset = block->offset, .ordinal = block->ordinal};
        memset(group->highs, 0xff, sizeof(group->highs));
    }
    group->highs[at] = first.high;
    group->sizes[at] = block->size;
    group->counts[at] = block->count;
    index->lows[index->count++] = first.low;
}

void diskwheel_index_end(struct diskwheel_index *index)
{
    size_t entries = diskwheel_index_nodes_of(index->count);

    assert(index->count == index->capacity);
    memset(index->nodes, 0xff, index->node_count * sizeof(*index->nodes));
    for (unsigned level = 0; level < index->level_count; level++) {
        struct diskwheel_index_node *nodes = index->nodes + index->starts[level];

        for (size_t i = 0; i < entries; i++)
            nodes[i / DISKWHEEL_INDEX_WIDTH].highs[i % DISKWHEEL_INDEX_WIDTH] =
                level ? index->nodes[index->starts[level - 1] + i].highs[0]
                      : index->groups[i].highs[0];
        entries = diskwheel_index_nodes_of(entries);
    }
}

uint64_t diskwheel_index_memory(const struct diskwheel_index *index)
{
    return diskwheel_index_nodes_of(index->count) * sizeof(*index->groups) +
           index->node_count * sizeof(*index->nodes) + index->count * sizeof(*index->lows);
}

struct diskwheel_index_block diskwheel_index_block(const struct diskwheel_index *index, uint32_t at)
{
    const struct diskwheel_index_group *group = &index->groups[at / DISKWHEEL_INDEX_WIDTH];
    const unsigned last = at % DISKWHEEL_INDEX_WIDTH;
    struct diskwheel_index_block block = {group->offset, group->sizes[last], group->ordinal,
                                          group->counts[last]};

    assert(at < index->count);
    for (unsigned i = 0; i < last; i++) {
        block.offset += group->sizes[i];
        block.ordinal += group->counts[i];
    }
    return block;
}

/* Returns how many of the keys are before `high`. There is no jump that the processor would have to
 * guess. */
static uint32_t diskwheel_index_count(const uint64_t highs[DISKWHEEL_INDEX_WIDTH], uint64_t high)
{
    uint32_t count = 0;

    for (uint32_t step = DISKWHEEL_INDEX_WIDTH / 2; step > 0; step /= 2)
        count += highs[count + step - 1] < high ? step : 0;
    return count + (highs[count] < high);
}

/* Fetches all lines of memory of a node or a group at once. */
static void diskwheel_index_fetch(const void *begin, size_t size)
{
    for (size_t i = 0; i < size; i += INDEX_LINE)
        __builtin_prefetch((const char *)begin + i);
}

/* Returns the number of blocks whose first key has an upper half before `high`. */
static uint32_t diskwheel_index_before(const struct diskwheel_index *index, uint64_t high)
{
    uint32_t node = 0; /* the last one that begins before `high`, or the first one */

    for (unsigned level = index->level_count; level-- > 0;) {
        const struct diskwheel_index_node *of = &index->nodes[index->starts[level] + node];

        diskwheel_index_fetch(of, sizeof(*of));
        node = node * DISKWHEEL_INDEX_WIDTH + diskwheel_index_count(of->highs, high);
        node -= node > 0;
    }
    const struct diskwheel_index_group *group = &index->groups[node];
    diskwheel_index_fetch(group, sizeof(*group));
    return node * DISKWHEEL_INDEX_WIDTH + diskwheel_index_count(group->highs, high);
}

/* Returns the number of the first block, from `at` on, whose first key has another upper half. */
static uint32_t diskwheel_index_equal_end(const struct diskwheel_index *index, uint32_t at,
                                          uint64_t high)
{
    if (at == index->count || diskwheel_index_high(index, at) != high)
        return at;
    return high < UINT64_MAX ? diskwheel_index_before(index, high + 1) : index->count;
}

uint32_t diskwheel_index_find(const struct diskwheel_index *index, struct record_key key)
{
    uint32_t low = index->count ? diskwheel_index_before(index, key.high) : 0;

    if (low < index->count && diskwheel_index_high(index, low) == key.high) {
        uint32_t high = diskwheel_index_equal_end(index, low + 1, key.high);

        while (low < high) { /* the first of equal upper halves that is behind the key */
            const uint32_t middle = low + (high - low) / 2;

            if (key.low < index->lows[middle])
                high = middle;
            else
                low = middle + 1;
        }
    }
    return low ? low - 1 : 0;
}
