/*
 * bench.h - what the wheel's benchmark and its subjects share.
 *
 * A subject is one way to keep timers. Each becomes a program, wheel_NAME, that runs the workloads
 * (workloads.h) once on one deterministic input and prints its figures (program.c); run.py runs
 * all of them, alternately, and compares.
 */
#ifndef BENCH_WHEEL_BENCH_H
#define BENCH_WHEEL_BENCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HOUR = 3600000,      /* ticks of 1 ms: delays of fill, cancel, expire */
    TIMEOUT = 30000,     /* churn's delay */
    PERIOD_MAX = 10000,  /* periodic: 1 to this */
    BATCH = 256,         /* timers asked for in one call of expire */
    OPS_PER_TICK = 1000, /* churn */
    AHEAD = 16,          /* steps by which memory is asked for before its turn */
    CHURN_OPS = 1 << 25, /* churn, warm-up and measured each: more than one time-out */
    CHECKED = 16         /* ticks of churn and of periodic between looks at the clock */
};

/* Limit of warm-up and of measured time, for subjects that would take minutes for churn or
 * periodic; the work done until then counts. */
#define PATIENCE_NS 1500000000u

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

/* The input, made once: deadlines, timers, order. Times are in ticks from the start. */
struct input {
    uint32_t count;
    uint32_t *delays;  /* uniform in 1..HOUR */
    uint32_t *order;   /* a permutation of 0..count-1 */
    uint32_t *periods; /* uniform in 1..PERIOD_MAX */
    uint32_t *picks;   /* random ones of 0..count-1, PICKS of them, used round and round */
    uint64_t start;    /* the first tick */
    int asks_ahead;    /* cancel and churn name their timer AHEAD steps early */
};

enum { PICKS = 1 << 22 };

/* The figures of a run. A figure that the subject does not have stays NAN. */
struct found {
    double figures[FIGURE_COUNT];
    double late_ticks;        /* the most that any timer of expire came after its deadline */
    uint32_t churn_count;     /* moves measured */
    uint64_t fired_count;     /* by periodic, measured */
    int is_cut[FIGURE_COUNT]; /* whether PATIENCE_NS ended it */
};

/* Defined once in each program. */
struct wheel_subject {
    const char *name; /* as the tables call it */
    const char *kind; /* "ours", "yardstick" (a simple one written for this benchmark), "peer" */
    const char *note; /* a remark on the figures; may be NULL */
    const char *(*version)(void);
    void (*run)(const struct input *input, struct found *ret_found);
};

extern const struct wheel_subject bench_subject;

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

/* The version of this tree. */
const char *bench_version_here(void);

#ifdef __cplusplus
}
#endif

#endif
