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

/* Maximum size of a name that is compared, in bytes. Longer names are never near. */
#define NEAREST_ROOM 63

struct nearest {
    const char *name; /* Nearest name so far; NULL if none is near. */
    struct bytes wanted_;
    size_t distance_; /* Number of edits that a nearer name must be below. */
};

struct nearest nearest_to(struct bytes wanted);

/* Keeps the name if fewer edits turn it into the wanted one than those before. At most half of the
 * wanted characters may differ. An edit inserts, drops, changes or swaps characters. */
void nearest_try(struct nearest *nearest, const char *name);

#endif
