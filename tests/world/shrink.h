/*
 * shrink.h - makes a failing run small: less and less goes on in it, as long as it fails.
 *
 * A run without one of its features, or with fewer steps, is another run, which need not fail; and
 * it may break another promise than the first one did. Whatever is left fails, and is short.
 */
#ifndef TICKWHEEL_WORLD_SHRINK_H
#define TICKWHEEL_WORLD_SHRINK_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if the run fails. `context` is the caller's. */
typedef bool shrink_fails(void *context, uint64_t steps, uint64_t without);

/* Makes `*steps` and `*without` (bits of enum feature) such that the run is small and fails, as it
 * does already; returns after how many runs. */
uint64_t shrink(shrink_fails *fails, void *context, uint64_t *steps, uint64_t *without);

#endif
