/*
 * random.h - a small deterministic generator: one seed is one run. SplitMix64, by Steele, Lea &
 * Flood, 2014.
 *
 * Not for secrets. The seed comes from sys/entropy.h in the daemon, and is printed by tests.
 */
#ifndef TICKWHEEL_BASE_RANDOM_H
#define TICKWHEEL_BASE_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state_;
};

/* Mixes the bits of `value`; also usable as a hash of a number. */
static inline uint64_t random_mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static inline struct random random_seeded(uint64_t seed)
{
    return (struct random){seed};
}

static inline uint64_t random_next(struct random *random)
{
    return random_mix(random->state_ += UINT64_C(0x9e3779b97f4a7c15));
}

/* Returns a uniform number of 0 .. bound - 1; 0 if bound is 0. The bias is below bound / 2^64. */
static inline uint64_t random_below(struct random *random, uint64_t bound)
{
    return (uint64_t)((unsigned __int128)random_next(random) * bound >> 64);
}

#endif
