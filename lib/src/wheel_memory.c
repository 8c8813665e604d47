/*
 * wheel_memory.c - the slab of records and the pool of chunks.
 *
 * Both grow in pieces that never move once they are 2 MiB, so that growing to millions has no long
 * step and no copy; up to 65,536 timers the one segment there is doubles. Neither shrinks before
 * destroy: their size follows the most timers ever held at once.
 */
#include "wheel_private.h"

#include <string.h>

enum {
    SLOTS_MIN = 16,
    BLOCK_CHUNKS_MAX = (2 << 20) / CHUNK_SIZE,
    PAGE = 4096,
    /* One huge page where addresses are plentiful. */
    BIG_ALIGNMENT = sizeof(void *) >= 8 ? 2 << 20 : PAGE
};

static void *take_memory(struct tw_wheel *wheel, size_t alignment, size_t size)
{
    void *memory = wheel->allocate(wheel->context, alignment, size);
    if (memory)
        wheel->memory += size;
    return memory;
}

static void give_memory(struct tw_wheel *wheel, void *memory, size_t size)
{
    if (!memory)
        return;
    wheel->memory -= size;
    wheel->release(wheel->context, memory, size);
}

static size_t alignment_for(size_t size)
{
    return size >= BIG_ALIGNMENT ? BIG_ALIGNMENT : CHUNK_SIZE;
}

uint64_t tw__wheel_chunks_needed(uint64_t slots)
{
    /* Full chunks, one not full in each bucket, and those in flight: fired, opened, swept. */
    uint64_t partial = slots < LEVELS * BUCKETS ? slots : LEVELS * BUCKETS;
    return slots / CHUNK_ENTRIES + partial + 8;
}

static bool add_block(struct tw_wheel *wheel, uint64_t chunks)
{
    if (chunks >= BLOCK_CHUNKS_MAX)
        chunks = BLOCK_CHUNKS_MAX - 1;
    size_t size = ((size_t)chunks + 1) * CHUNK_SIZE; /* the header takes the place of one */
    struct block *block = take_memory(wheel, alignment_for(size), size);
    if (!block)
        return false;
    block->next = NULL;
    block->size = size;
    block->fresh = (struct chunk *)((char *)block + CHUNK_SIZE);
    block->end = (struct chunk *)((char *)block + size);
    struct block **last = wheel->block_fresh ? &wheel->block_fresh->next : &wheel->blocks;
    while (*last)
        last = &(*last)->next;
    *last = block;
    if (!wheel->block_fresh)
        wheel->block_fresh = block;
    wheel->chunk_capacity += (uint32_t)chunks;
    return true;
}

struct chunk *tw__wheel_chunk_pop(struct tw_wheel *wheel)
{
    wheel->chunk_used++;
    struct chunk *chunk = wheel->chunk_free;
    if (chunk) {
        wheel->chunk_free = chunk->next;
        return chunk;
    }
    struct block *block = wheel->block_fresh;
    while (block->fresh == block->end)
        wheel->block_fresh = block = block->next;
    return block->fresh++;
}

struct chunk *tw__wheel_chunk_take(struct tw_wheel *wheel)
{
    if (UNLIKELY(wheel->chunk_used + CHUNKS_SPARE >= wheel->chunk_capacity)) {
        /* Beyond the chunks that slots brought along: stale entries are waiting for their sweep. */
        if (!add_block(wheel, wheel->chunk_capacity / 8 + 16))
            tw__wheel_sweep_all(wheel);
        assert(wheel->chunk_used + CHUNKS_SPARE < wheel->chunk_capacity);
    }
    return tw__wheel_chunk_pop(wheel);
}

static bool grow_directories(struct tw_wheel *wheel)
{
    uint32_t capacity = wheel->segment_capacity ? wheel->segment_capacity * 2 : 4;
    size_t old_size = wheel->segment_capacity * sizeof(void *);
    size_t size = capacity * sizeof(void *);
    struct record **segments = take_memory(wheel, 64, size);
    uint32_t **free_segments = take_memory(wheel, 64, size);
    if (!segments || !free_segments) {
        give_memory(wheel, segments, size);
        give_memory(wheel, free_segments, size);
        return false;
    }
    memset(segments, 0, size);
    memset(free_segments, 0, size);
    if (old_size) {
        memcpy(segments, wheel->segments, old_size);
        memcpy(free_segments, wheel->free_segments, old_size);
    }
    give_memory(wheel, wheel->segments, old_size);
    give_memory(wheel, wheel->free_segments, old_size);
    wheel->segments = segments;
    wheel->free_segments = free_segments;
    wheel->segment_capacity = capacity;
    return true;
}

/* Makes segment `number` one of `slots` slots, in place of the smaller one that it may have. */
static bool put_segment(struct tw_wheel *wheel, uint32_t number, uint32_t old_slots, uint32_t slots)
{
    size_t size = slots * sizeof(struct record);
    size_t free_size = slots * sizeof(uint32_t);
    struct record *records = take_memory(wheel, alignment_for(size), size);
    uint32_t *free_slots = take_memory(wheel, 64, free_size);
    if (!records || !free_slots) {
        give_memory(wheel, records, size);
        give_memory(wheel, free_slots, free_size);
        return false;
    }
    if (old_slots) {
        memcpy(records, wheel->segments[number], old_slots * sizeof(struct record));
        memcpy(free_slots, wheel->free_segments[number], old_slots * sizeof(uint32_t));
    }
    give_memory(wheel, wheel->segments[number], old_slots * sizeof(struct record));
    give_memory(wheel, wheel->free_segments[number], old_slots * sizeof(uint32_t));
    wheel->segments[number] = records;
    wheel->free_segments[number] = free_slots;
    return true;
}

/* The next step of the slab: doubling up to one whole segment, then a segment at a time. */
static bool grow_once(struct tw_wheel *wheel, uint64_t count)
{
    uint32_t old = wheel->slot_capacity;
    if (old >= SLOTS_MAX)
        return false;
    uint32_t number = old >> SEGMENT_BITS;
    uint32_t old_slots = old & (SEGMENT_SLOTS - 1); /* of a first segment that is not whole */
    uint32_t slots = old_slots ? old_slots * 2 : old ? SEGMENT_SLOTS : SLOTS_MIN;
    while (slots < SEGMENT_SLOTS && slots < count)
        slots *= 2;
    uint32_t capacity = old - old_slots + slots;
    for (uint64_t needed = tw__wheel_chunks_needed(capacity); wheel->chunk_capacity < needed;)
        if (!add_block(wheel, needed - wheel->chunk_capacity))
            return false;
    if (number >= wheel->segment_capacity && !grow_directories(wheel))
        return false;
    if (!put_segment(wheel, number, old_slots, slots))
        return false;
    wheel->slot_capacity = capacity;
    return true;
}

bool tw__wheel_grow(struct tw_wheel *wheel, uint64_t count)
{
    while (wheel->slot_capacity < count)
        if (!grow_once(wheel, count))
            return false;
    return true;
}

static void touch(void *memory, size_t size)
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
        touch(tw__wheel_record(wheel, (uint32_t)i), slots * sizeof(struct record));
        touch(&wheel->free_segments[i >> SEGMENT_BITS][i & (SEGMENT_SLOTS - 1)],
              slots * sizeof(uint32_t));
        i += slots;
    }
    uint64_t chunks = tw__wheel_chunks_needed(count);
    for (struct block *block = wheel->blocks; block && chunks; block = block->next) {
        uint64_t has = (uint64_t)(block->end - (struct chunk *)block) - 1;
        if (block->fresh < block->end) {
            uint64_t fresh = (uint64_t)(block->end - block->fresh);
            touch(block->fresh, (fresh < chunks ? fresh : chunks) * CHUNK_SIZE);
        }
        chunks -= has < chunks ? has : chunks;
    }
}

void tw_wheel_destroy(struct tw_wheel *wheel)
{
    if (!wheel)
        return;
    for (uint32_t left = wheel->slot_capacity, number = 0; left; number++) {
        uint32_t slots = left < SEGMENT_SLOTS ? left : SEGMENT_SLOTS;
        give_memory(wheel, wheel->segments[number], slots * sizeof(struct record));
        give_memory(wheel, wheel->free_segments[number], slots * sizeof(uint32_t));
        left -= slots;
    }
    give_memory(wheel, wheel->segments, wheel->segment_capacity * sizeof(void *));
    give_memory(wheel, wheel->free_segments, wheel->segment_capacity * sizeof(void *));
    for (struct block *block = wheel->blocks, *next; block; block = next) {
        next = block->next;
        give_memory(wheel, block, block->size);
    }
    assert(wheel->memory == sizeof(*wheel));
    wheel->release(wheel->context, wheel, sizeof(*wheel));
}
