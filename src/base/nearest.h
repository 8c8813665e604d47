/*
 * nearest.h - finds the name that a misspelt one was meant to be.
 *
 *     struct nearest nearest = nearest_to(BYTES("lst"));
 *     nearest_try(&nearest, "list");
 *     nearest_try(&nearest, "cancel");
 *     nearest.name                             "list"
 *
 * Time       A try takes the product of both lengths.
 * Errors     None.
 * Ownership  Names are borrowed.
 * Threads    Any.
 */
#ifndef TICKWHEEL_BASE_NEAREST_H
#define TICKWHEEL_BASE_NEAREST_H

#include "base/bytes.h"

/* Longest name that is compared, in bytes. A longer one is near to none. */
#define NEAREST_ROOM 63

struct nearest {
    const char *name; /* Nearest name so far; NULL if none is near. */
    struct bytes wanted_;
    size_t distance_; /* A name must be nearer than this. */
};

struct nearest nearest_to(struct bytes wanted);

/* Takes the name if it is nearer than the names before: fewer characters to insert, drop, change or
 * swap. At most half of the characters that were wanted may differ. */
void nearest_try(struct nearest *nearest, const char *name);

#endif
