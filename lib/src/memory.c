/* memory.c - memory from the C library, large blocks in huge pages. */
#include "memory.h"

#include <assert.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum { HUGE_PAGE = 2 << 20 };

static void *memory_allocate_default(void *context, size_t alignment, size_t size)
{
    (void)context;
    if (size > SIZE_MAX - HUGE_PAGE)
        return NULL;
    /* A block that the caller aligns to huge pages uses them for its whole length. Other blocks use
     * them only for the huge pages that they fill, so that no more becomes resident than was
     * requested. */
    size_t huge = alignment >= HUGE_PAGE ? (size + alignment - 1) / alignment * alignment
                                         : size / HUGE_PAGE * HUGE_PAGE;
    if (huge > 0 && alignment < HUGE_PAGE)
        alignment = HUGE_PAGE;
    void *memory = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (memory && huge > 0)
        /* only advice: if the system refuses it, accesses are slower */
        (void)madvise(memory, huge, MADV_HUGEPAGE);
#endif
    return memory;
}

static void memory_release_default(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free(memory);
}

struct memory_source
tw__memory_source(void *(*allocate)(void *context, size_t alignment, size_t size),
                  void (*release)(void *context, void *memory, size_t size), void *context)
{
    assert(!allocate == !release);
    if (!allocate)
        return (struct memory_source){memory_allocate_default, memory_release_default, NULL};
    return (struct memory_source){allocate, release, context};
}
