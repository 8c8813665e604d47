/* seed.h - for tests: the seed of a run. */
#ifndef TICKWHEEL_TESTS_SEED_H
#define TICKWHEEL_TESTS_SEED_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* Prints a seed to stderr, which is not buffered. So a crash does not lose it, and of several seeds
 * the one that failed is the last before cmocka says so. */
static inline void testing_seed_print(uint64_t seed)
{
    fprintf(stderr, "TEST_SEED=%" PRIu64 "\n", seed);
}

/* Returns TEST_SEED if it is set, else a random number; prints it either way. */
static inline uint64_t testing_seed(void)
{
    const char *text = getenv("TEST_SEED");
    uint64_t seed = 0;

    if (text)
        seed = strtoull(text, NULL, 0);
    else if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        abort();
    testing_seed_print(seed);
    return seed;
}

#endif
