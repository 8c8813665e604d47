/*
 * allocator_oracle.h - an allocator that counts and that runs out when told to. For tests only.
 *
 *     struct allocator allocator = {.calls_left = 3};
 *     struct tw_ring_options options = {.allocate = allocator_take, .release = allocator_give,
 *                                       .context = &allocator};
 */
#ifndef TICKWHEEL_ALLOCATOR_ORACLE_H
#define TICKWHEEL_ALLOCATOR_ORACLE_H

#include <stddef.h>

struct allocator {
    size_t calls_left; /* the call after so many fails, and all later ones */
    size_t calls;      /* that succeeded */
    size_t bytes;      /* held now */
};

void *allocator_take(void *context, size_t alignment, size_t size);
void allocator_give(void *context, void *memory, size_t size);

#endif
