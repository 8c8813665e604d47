/*
 * virtual.h - virtual time for libraries that read the clock and poll the kernel themselves.
 *
 * The program's own clock_gettime and epoll_wait replace the C library's, so that an unchanged
 * event loop runs in the time that the workload sets, and a turn that would poll the kernel costs
 * no system call. Only the library's own work is measured.
 */
#ifndef BENCH_WHEEL_VIRTUAL_H
#define BENCH_WHEEL_VIRTUAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the monotonic and the wall clock to this time in milliseconds. */
void virtual_set(uint64_t now_ms);

/* Fired timers that the workload has not taken yet, because a loop fires all timers of a turn. */
struct fired {
    uint32_t *ids;
    uint64_t begin, end;
    uint64_t now; /* time of the last turn */
};

void fired_init(struct fired *fired, uint32_t count, uint64_t start);

static inline void fired_add(struct fired *fired, uint32_t id)
{
    fired->ids[fired->end++] = id;
}

/* Moves up to `limit` into `ret_ids`. */
uint64_t fired_take(struct fired *fired, uint32_t *ret_ids, uint64_t limit);

#ifdef __cplusplus
}
#endif

#endif
