/*
 * conformance_oracle.h - every wheel behind one interface, and the model that all are compared
 * with.
 *
 * A kind is a wheel with certain options. Its timers are named by small numbers, ids, so that the
 * same test runs over wheels with handles, with embedded tasks and with ring items. For tests only.
 */
#ifndef TICKWHEEL_CONFORMANCE_ORACLE_H
#define TICKWHEEL_CONFORMANCE_ORACLE_H

#include "link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONFORMANCE_IDS = 256 };

/* Time ends here: a later `now` counts as this. */
#define CONFORMANCE_TIME_LAST (TW_NEVER - 1)

struct conformance_kind;

/* A wheel under test; each adapter's struct begins with it. */
struct conformance_wheel {
    const struct conformance_kind *kind;
};

struct conformance_expired {
    uint32_t id;
    uint64_t deadline;
};

struct conformance_kind {
    const char *name;
    uint64_t tick;
    uint32_t size; /* buckets; its powers are where levels begin */

    /* NULL when out of memory. */
    struct conformance_wheel *(*create)(const struct conformance_kind *kind, uint64_t start);
    void (*destroy)(struct conformance_wheel *wheel);

    /* The deadlines that can be given just now; all there are, but for the ring. */
    uint64_t (*deadline_min)(const struct conformance_wheel *wheel);
    uint64_t (*deadline_max)(const struct conformance_wheel *wheel);

    /* `id` is below CONFORMANCE_IDS and not scheduled. */
    void (*schedule)(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline);
    bool (*reschedule)(struct conformance_wheel *wheel, uint32_t id, uint64_t deadline);
    bool (*cancel)(struct conformance_wheel *wheel, uint32_t id);
    size_t (*expire)(struct conformance_wheel *wheel, uint64_t now,
                     struct conformance_expired *ret_due, size_t limit);
    bool (*is_behind)(const struct conformance_wheel *wheel);
    uint64_t (*wake_at)(const struct conformance_wheel *wheel);
    uint64_t (*now)(const struct conformance_wheel *wheel);
    size_t (*count)(const struct conformance_wheel *wheel);
    size_t (*memory)(const struct conformance_wheel *wheel);
    void (*check)(const struct conformance_wheel *wheel);
};

extern const struct conformance_kind conformance_kinds[];
extern const size_t conformance_kind_count;

/* Where choices come from: a seed, or the bytes of a fuzzer until they are used up. */
struct conformance_source {
    uint64_t state;
    const uint8_t *bytes; /* NULL: the seed */
    size_t byte_count;
};

/* 64 random bits; 0 once a fuzzer's bytes are used up. */
uint64_t conformance_choose(struct conformance_source *source);

/* 0 .. bound - 1. */
uint64_t conformance_below(struct conformance_source *source, uint64_t bound);

/* Instants and spans at which wheels break: small, of any magnitude, near a power of the wheel's
 * size, near 2^32, 2^63 and the end of time. */
uint64_t conformance_span(struct conformance_source *source, const struct conformance_kind *kind);
uint64_t conformance_instant(struct conformance_source *source,
                             const struct conformance_kind *kind);

/* What a model run has done. */
struct conformance_tally {
    uint64_t steps;
    uint64_t fired;
    double time; /* units that passed, all in all */
};

/* Does `steps` random things to wheels of this kind and to an ordered list, compares them and
 * checks the wheel's invariants after each. Aborts where they differ. */
struct conformance_tally conformance_model_run(const struct conformance_kind *kind,
                                               struct conformance_source *source, uint64_t steps);

#endif
