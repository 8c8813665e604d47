/*
 * memory.h - where a wheel's memory comes from: the caller's functions or the C library, counted.
 *
 * Errors     take returns NULL when there is no memory, or when the size does not fit.
 */
#ifndef TICKWHEEL_MEMORY_H
#define TICKWHEEL_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct memory {
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;
    size_t bytes; /* held now */
};

/* From the C library; from 2 MiB on in huge pages where there are such. A page of 4 KiB costs a
 * fault for each 80 timers or so when it is first written to, which takes longer than to schedule
 * them, and with a million timers most accesses would miss the translation cache. Given back by
 * free(). */
void *tw__memory_default(size_t size);

static inline void *memory_take(struct memory *memory, uint64_t count, size_t size)
{
    void *taken;

    if (count > SIZE_MAX / size || count == 0)
        return NULL;
    if (memory->allocate)
        taken = memory->allocate(memory->context, _Alignof(max_align_t), (size_t)count * size);
    else
        taken = tw__memory_default((size_t)count * size);
    if (taken)
        memory->bytes += (size_t)count * size;
    return taken;
}

/* Takes back what memory_take(memory, count, size) gave; NULL is fine. */
static inline void memory_give(struct memory *memory, void *taken, uint64_t count, size_t size)
{
    if (!taken)
        return;
    memory->bytes -= (size_t)count * size;
    if (memory->release)
        memory->release(memory->context, taken, (size_t)count * size);
    else
        free(taken);
}

#endif
