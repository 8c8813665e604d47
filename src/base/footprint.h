/* footprint.h - the memory that an allocation takes, for limits on bytes. */
#ifndef TICKWHEEL_BASE_FOOTPRINT_H
#define TICKWHEEL_BASE_FOOTPRINT_H

#include <stddef.h>

/* Returns the memory that malloc(size) takes in glibc, which adds a word and rounds up to two
 * words. */
static inline size_t footprint_of(size_t size)
{
    return (size + sizeof(size_t) + 15) & ~(size_t)15;
}

#endif
