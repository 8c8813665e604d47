/*
 * wheel_memory.c - the slab of slots and the pool of chunks.
 *
 * Both grow in pieces that never move, so that growing copies no timer. Neither shrinks before
 * destroy: their size follows the most timers ever held at once. All memory of a slot is allocated
 * together, so that moving a timer cannot fail; but the pages of `extras` become resident only when
 * a timer needs them.
 */
#include "wheel_runner.h"

#include "wheel_private.h"

#include <string.h>

enum {
    SLOTS_MIN = 16,
    PAGE = 4096,
    /* one huge page on 64-bit machines */
    BIG_SIZE = sizeof(void *) >= 8 ? 2 << 20 : 512 << 10,
    BLOCK_CHUNKS_MAX = BIG_SIZE / CHUNK_SIZE,
    /* bytes before the first piece. They put a record at another offset in its page than what a
     * caller's own array has for the same slot; with equal offsets a read of one would wait for
     * stores to the other */
    ARENA_HEADER = 512,
    /* number of chunks, never used, between one that is taken and one that is prefetched */
    CHUNKS_AHEAD = 2
};

static size_t wheel_alignment_for(size_t size)
{
    return size > BIG_SIZE / 2 ? BIG_SIZE : CHUNK_SIZE;
}

uint64_t tw__wheel_chunks_needed(uint64_t slots)
{
    /* Number of chunks that are not full: at most one in each bucket. More are needed for those
     * that are being fired, opened or swept. */
    uint64_t partial = slots < LEVELS * BUCKETS ? slots : LEVELS * BUCKETS;
    return slots / CHUNK_ENTRIES + partial + 8;
}

bool tw__wheel_add_chunks(struct tw_wheel *wheel, uint64_t chunks)
{
    if (chunks >= BLOCK_CHUNKS_MAX)
        chunks = BLOCK_CHUNKS_MAX - 1;
    size_t size = ((size_t)chunks + 1) * CHUNK_SIZE; /* the header takes the place of one chunk */
    struct wheel_block *block =
        memory_take_aligned(&wheel->memory, wheel_alignment_for(size), size);
    if (!block)
        return false;
    block->next = NULL;
    block->size = size;
    block->fresh = (struct wheel_chunk *)((char *)block + CHUNK_SIZE);
    block->end = (struct wheel_chunk *)((char *)block + size);
    struct wheel_block **last = wheel->block_fresh ? &wheel->block_fresh->next : &wheel->blocks;
    while (*last)
        last = &(*last)->next;
    *last = block;
    if (!wheel->block_fresh)
        wheel->block_fresh = block;
    wheel->chunk_capacity += (uint32_t)chunks;
    return true;
}

/* Prefetches the first lines of a chunk that will be taken soon. tw__wheel_chain_push prefetches
 * each of the other lines while the line before it is written. */
static void wheel_prefetch_fresh(const struct wheel_chunk *chunk)
{
    tw__prefetch_to_write(chunk);
    tw__prefetch_to_write((const char *)chunk + LINE_SIZE);
}

struct wheel_chunk *tw__wheel_chunk_pop(struct tw_wheel *wheel)
{
    wheel->chunk_used++;
    struct wheel_chunk *chunk = wheel->chunk_free;
    if (chunk) {
        wheel->chunk_free = chunk->next;
        return chunk;
    }
    struct wheel_block *block = wheel->block_fresh;
    while (block->fresh == block->end)
        wheel->block_fresh = block = block->next;
    wheel_prefetch_fresh(block->fresh + CHUNKS_AHEAD);
    return block->fresh++;
}

static bool wheel_grow_directory(struct tw_wheel *wheel, struct wheel_directory *directory,
                                 uint32_t count)
{
    uint32_t old = directory->capacity;
    if (count <= old)
        return true;
    uint32_t capacity = old ? old * 2 : 8;
    while (capacity < count)
        capacity *= 2;
    uintptr_t *grown = memory_take_aligned(&wheel->memory, LINE_SIZE, capacity * sizeof(*grown));
    if (!grown)
        return false;
    if (old)
        memcpy(grown, directory->origins, old * sizeof(*grown));
    memory_give(&wheel->memory, directory->origins, old, sizeof(*grown));
    directory->origins = grown;
    directory->capacity = capacity;
    return true;
}

/* Sizes of one of the arrays of the slab. */
struct wheel_array {
    struct wheel_directory *directory;
    size_t element;
    size_t piece;
    size_t arena_max; /* maximum of bytes allocated together */
};

/* Adds pieces, up to the number that `count` slots need: one at first, then as many as exist
 * already, but no more than fit into an arena. */
static bool wheel_add_pieces(struct tw_wheel *wheel, const struct wheel_array *array,
                             uint64_t count)
{
    struct wheel_directory *directory = array->directory;
    uint32_t have = directory->count;
    uint64_t wanted = (count + SEGMENT_SLOTS - 1) >> SEGMENT_BITS;
    uint64_t most = (array->arena_max - ARENA_HEADER) / array->piece;
    uint64_t more = wanted > 2 * have ? wanted - have : have;
    if (more > most)
        more = most;
    if (!wheel_grow_directory(wheel, directory, have + (uint32_t)more))
        return false;
    size_t size = ARENA_HEADER + (size_t)more * array->piece;
    struct wheel_arena *arena =
        memory_take_aligned(&wheel->memory, wheel_alignment_for(size), size);
    if (!arena)
        return false;
    *arena = (struct wheel_arena){wheel->arenas, size};
    wheel->arenas = arena;
    uintptr_t start = (uintptr_t)arena + ARENA_HEADER;
    for (uint32_t i = have; i < have + more; i++, start += array->piece)
        directory->origins[i] = start - (uintptr_t)(i << SEGMENT_BITS) * array->element;
    directory->count = have + (uint32_t)more;
    return true;
}

/* Grows all arrays. Segments are read at random, so they are in huge pages; extras are rare. */
static bool wheel_grow_slab(struct tw_wheel *wheel, uint64_t count)
{
    const struct wheel_array arrays[] = {
        {&wheel->segments, sizeof(struct wheel_record), sizeof(struct wheel_segment), BIG_SIZE},
        {&wheel->extras, sizeof(union wheel_extra), sizeof(struct wheel_extras), BIG_SIZE / 2},
    };
    for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
        while ((uint64_t)arrays[i].directory->count << SEGMENT_BITS < count)
            if (!wheel_add_pieces(wheel, &arrays[i], count))
                return false;
    return true;
}

bool tw__wheel_grow(struct tw_wheel *wheel, uint64_t count)
{
    /* Doubles while it is small, then adds one segment at a time. */
    uint64_t capacity = wheel->slot_capacity ? wheel->slot_capacity : SLOTS_MIN;
    while (capacity < count)
        capacity = capacity < SEGMENT_SLOTS ? capacity * 2 : capacity + SEGMENT_SLOTS;
    uint64_t most = (uint64_t)wheel->timer_count_max + wheel->retired_count;
    most = most < SLOTS_MAX ? most : SLOTS_MAX;
    capacity = capacity < most ? capacity : most;
    for (uint64_t needed = tw__wheel_chunks_needed(capacity); wheel->chunk_capacity < needed;)
        if (!tw__wheel_add_chunks(wheel, needed - wheel->chunk_capacity))
            return false;
    if (!wheel_grow_slab(wheel, capacity))
        return false;
    wheel->slot_capacity = (uint32_t)capacity;
    return true;
}

static void wheel_touch_pages(void *memory, size_t size)
{
    for (size_t i = 0; i < size; i += PAGE)
        ((volatile char *)memory)[i] = 0;
}

void tw__wheel_touch(struct tw_wheel *wheel, uint64_t count)
{
    for (uint64_t i = wheel->slot_count; i < count;) {
        uint64_t left = count - i;
        uint64_t room = SEGMENT_SLOTS - (i & (SEGMENT_SLOTS - 1));
        uint64_t slots = left < room ? left : room;
        wheel_touch_pages(tw__wheel_record(wheel, (uint32_t)i),
                          slots * sizeof(struct wheel_record));
        i += slots;
    }
    uint64_t chunks = tw__wheel_chunks_needed(count);
    for (struct wheel_block *block = wheel->blocks; block && chunks; block = block->next) {
        uint64_t has = (uint64_t)(block->end - (struct wheel_chunk *)block) - 1;
        if (block->fresh < block->end) {
            uint64_t fresh = (uint64_t)(block->end - block->fresh);
            wheel_touch_pages(block->fresh, (fresh < chunks ? fresh : chunks) * CHUNK_SIZE);
        }
        chunks -= has < chunks ? has : chunks;
    }
}

void tw_wheel_destroy(struct tw_wheel *wheel)
{
    if (!wheel)
        return;
    struct wheel_directory *directories[] = {&wheel->segments, &wheel->extras};
    for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++)
        memory_give(&wheel->memory, directories[i]->origins, directories[i]->capacity,
                    sizeof(*directories[i]->origins));
    for (struct wheel_arena *arena = wheel->arenas, *next; arena; arena = next) {
        next = arena->next;
        memory_give(&wheel->memory, arena, 1, arena->size);
    }
    for (struct wheel_block *block = wheel->blocks, *next; block; block = next) {
        next = block->next;
        memory_give(&wheel->memory, block, 1, block->size);
    }
    assert(wheel->memory.bytes == sizeof(*wheel));
    struct memory memory = wheel->memory;
    memory_give(&memory, wheel, 1, sizeof(*wheel));
}

_Static_assert(sizeof(struct wheel_record) == WHEEL_RECORD_SIZE &&
                   sizeof(union wheel_extra) == WHEEL_EXTRA_SIZE && SEGMENT_SLOTS % WHEEL_RUN == 0,
               "wheel_runner.h tells where the memory of a slot is");

const char *tw__wheel_record_memory(const struct tw_wheel *wheel, uint32_t index)
{
    return (const char *)tw__wheel_record(wheel, index);
}

const char *tw__wheel_extra_memory(const struct tw_wheel *wheel, uint32_t index)
{
    return (const char *)tw__wheel_extra(wheel, index);
}
