/*
 * bench.h - interface between the wheel's benchmark and its subjects.
 *
 * A subject is one implementation of timers. Each is a program, wheel_NAME, that runs the workloads
 * (workloads.h) once on a deterministic input and prints its figures (program.c); run.py runs the
 * programs alternately and compares them.
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
    AHEAD = 16,          /* steps by which memory is prefetched early */
    CHURN_OPS = 1 << 25, /* churn, warm-up and measured each: more than one time-out */
    COARSE = 16,         /* ticks a step of the coarse expire */
    CROWD = 1000,        /* timers in a call of a verb for many */
    SLOW_STEP_US = 200,  /* a call of expire that takes longer is counted */
    CHECKED = 16         /* ticks of churn and of periodic between reads of the clock */
};

/* Limit of the warm-up and of the measured time, for subjects that would take minutes for churn or
 * periodic; the work done until then counts. */
#define PATIENCE_NS 1500000000u

/* The columns of the table. */
enum figure {
    FIGURE_FILL,
    FIGURE_CANCEL,
    FIGURE_EXPIRE,
    FIGURE_COARSE,
    FIGURE_CHURN,
    FIGURE_PERIODIC,
    FIGURE_BURST,
    FIGURE_BYTES,
    FIGURE_SLOW_STEPS,
    FIGURE_COUNT
};

/* The input, computed once: deadlines, timers, order. Times are in ticks from the start. */
struct input {
    uint32_t count;
    uint32_t *delays;  /* uniform in 1..HOUR */
    uint32_t *order;   /* a permutation of 0..count-1 */
    uint32_t *periods; /* uniform in 1..PERIOD_MAX */
    uint32_t *picks;   /* PICKS random numbers of 0..count-1, used cyclically */
    uint64_t start;    /* the first tick */
    int asks_ahead;    /* cancel and churn name their timer AHEAD steps early */
    int by_many;       /* fill, cancel and churn use the verbs for many */
    int only_fill;     /* nothing else is run, */
    int only_expire;   /* or fill, bytes and expire */
};

enum { PICKS = 1 << 22 };

/* The figures of a run. A figure that was not measured stays NAN. */
struct found {
    double figures[FIGURE_COUNT];
    double late_ticks;        /* largest lateness of a timer in expire */
    uint32_t churn_count;     /* moves measured */
    uint64_t fired_count;     /* timers fired by periodic, measured */
    int is_cut[FIGURE_COUNT]; /* whether PATIENCE_NS ended it */
};

/* Defined once in each program. */
struct wheel_subject {
    const char *name; /* the name in the tables */
    const char *kind; /* "ours", "yardstick" (simple, written for this benchmark), or "peer" */
    const char *note; /* a remark on the figures; may be NULL */
    const char *(*version)(void);
    void (*run)(const struct input *input, struct found *ret_found);
};

extern const struct wheel_subject bench_subject;

/* CPU time of this thread in nanoseconds: it excludes other programs, but not their use of the
 * cache. */
uint64_t bench_now(void);

/* Resident bytes of this process. */
uint64_t bench_resident(void);

/* Memory for the input and for the peers: zeroed, touched, in huge pages, freed by the end of the
 * process. */
void *bench_allocate(size_t size);

/* The memory floor, nanoseconds per access. */
struct bench_floor {
    double dependent; /* a random read of a 32-byte record, with its address from the read before */
    double independent; /* the same read with all addresses known */
    double ahead;       /* a random read and write of a 16-byte record, prefetched */
};

/* Measures the floor of `count` records. */
struct bench_floor bench_floor_measure(uint32_t count);

/* The version of this tree. */
const char *bench_version_here(void);

#ifdef __cplusplus
}
#endif

#endif
