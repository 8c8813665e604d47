/*
 * memory.h - the source of a module's memory: the caller's functions or the C library.
 *
 * `struct memory_source` is the source alone; `struct memory` also counts the bytes that are held,
 * and belongs to one thread at a time.
 *
 * Errors     take returns NULL when there is no memory, or when the size does not fit.
 */
#ifndef TICKWHEEL_MEMORY_H
#define TICKWHEEL_MEMORY_H

#include <stddef.h>
#include <stdint.h>

struct memory_source {
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;
};

struct memory {
    struct memory_source source;
    size_t bytes; /* bytes held at present */
};

/* Returns the functions of the caller's options, which are both set or both NULL. If they are NULL,
 * returns those of the C library, with huge pages for blocks of 2 MiB and more where the system has
 * them. Without huge pages, the first write to a block costs a page fault for each 80 timers or so,
 * which takes longer than scheduling them. And with a million timers most accesses would miss the
 * translation cache. */
struct memory_source
tw__memory_source(void *(*allocate)(void *context, size_t alignment, size_t size),
                  void (*release)(void *context, void *memory, size_t size), void *context);

static inline void *memory_source_take(const struct memory_source *source, size_t alignment,
                                       size_t size)
{
    return source->allocate(source->context, alignment, size);
}

/* Gives back a block of `size` bytes. NULL has no effect. */
static inline void memory_source_give(const struct memory_source *source, void *taken, size_t size)
{
    if (taken)
        source->release(source->context, taken, size);
}

/* Makes a counting source that holds nothing yet. */
static inline struct memory memory_from(struct memory_source source)
{
    return (struct memory){.source = source};
}

static inline void *memory_take_aligned(struct memory *memory, size_t alignment, size_t size)
{
    void *taken = memory_source_take(&memory->source, alignment, size);
    memory->bytes += taken ? size : 0;
    return taken;
}

/* Allocates an array of `count` elements of `size` bytes. */
static inline void *memory_take(struct memory *memory, uint64_t count, size_t size)
{
    if (count > SIZE_MAX / size || count == 0)
        return NULL;
    return memory_take_aligned(memory, _Alignof(max_align_t), (size_t)count * size);
}

/* Gives back an array that memory_take(memory, count, size) returned. NULL has no effect. */
static inline void memory_give(struct memory *memory, void *taken, uint64_t count, size_t size)
{
    if (!taken)
        return;
    memory->bytes -= (size_t)count * size;
    memory_source_give(&memory->source, taken, (size_t)count * size);
}

#endif
