/*
 * bench.h - what the wheel's benchmark and its subjects share.
 *
 * A subject is one way to keep timers; every subject runs the same workloads (workloads.h) on the
 * same deterministic input, each in a process of its own so that memory is its own too.
 */
#ifndef BENCH_WHEEL_BENCH_H
#define BENCH_WHEEL_BENCH_H

#include <stddef.h>
#include <stdint.h>

enum {
    HOUR = 3600000,      /* ticks of 1 ms: delays of fill, cancel, expire */
    TIMEOUT = 30000,     /* churn's delay */
    PERIOD_MAX = 10000,  /* periodic: 1 to so many */
    BATCH = 256,         /* timers asked for in one call of expire */
    OPS_PER_TICK = 1000, /* churn */
    AHEAD = 16,          /* steps by which memory is asked for before its turn */
    CHURN_OPS = 1 << 25  /* churn, warm-up and measured each: more than one time-out */
};

/* The columns of the table. */
enum figure {
    FIGURE_FILL,
    FIGURE_CANCEL,
    FIGURE_EXPIRE,
    FIGURE_CHURN,
    FIGURE_PERIODIC,
    FIGURE_BURST,
    FIGURE_BYTES,
    FIGURE_STEP_US,
    FIGURE_COUNT
};

/* The input, made once: which deadline, whom, in which order. Times are in ticks from the start. */
struct input {
    uint32_t count;
    uint32_t *delays;  /* uniform in 1..HOUR */
    uint32_t *order;   /* a permutation of 0..count-1 */
    uint32_t *periods; /* uniform in 1..PERIOD_MAX */
    uint32_t *picks;   /* random ones of 0..count-1, PICKS of them, used round and round */
    uint64_t start;    /* the first tick */
    int asks_ahead;    /* cancel and churn say AHEAD steps early whom they come to */
};

enum { PICKS = 1 << 22 };

struct subject {
    const char *name;
    void (*run)(const struct input *input, double *ret_figures);
};

extern const struct subject subject_opened;
extern const struct subject subject_scheduled;
extern const struct subject subject_heap;
extern const struct subject subject_lists;

/* Nanoseconds that this thread has run: other programs' turns do not count, their use of the cache
 * does. */
uint64_t bench_now(void);

/* Resident bytes of this process. */
uint64_t bench_resident(void);

/* Memory for the input and for the peers: zeroed, touched, in huge pages, never freed; a process
 * ends. */
void *bench_allocate(size_t size);

/* The memory floor: nanoseconds per random read of a 32-byte record among `count`, each address
 * from the last read, or all known beforehand. */
void bench_floor(uint32_t count, double *ret_dependent, double *ret_independent);

#endif
