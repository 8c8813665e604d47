/* allocator_oracle.c - an allocator for tests, which fills blocks with garbage. */
#include "allocator_oracle.h"

#include "link.h"

#include <stdlib.h>
#include <string.h>

void *allocator_take(void *context, size_t alignment, size_t size)
{
    struct allocator *allocator = context;

    REQUIRE(alignment && (alignment & (alignment - 1)) == 0);
    if (allocator->calls_left == 0)
        return NULL;
    allocator->calls_left--;
    void *taken = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    REQUIRE(taken);
    memset(taken, 0xa5, size); /* nobody may count on zeros */
    allocator->calls++;
    allocator->bytes += size;
    return taken;
}

void allocator_give(void *context, void *memory, size_t size)
{
    struct allocator *allocator = context;

    REQUIRE(allocator->bytes >= size);
    allocator->bytes -= size;
    free(memory);
}
