/*
 * virtual.h - virtual time for libraries that read the clock and poll the kernel themselves.
 *
 * The program's own clock_gettime and epoll_wait stand before the C library's, so that an
 * unchanged event loop lives in the time that the workload sets, and a turn of it that would ask
 * the kernel for events costs no system call. What is left is the library's own work.
 */
#ifndef BENCH_WHEEL_VIRTUAL_H
#define BENCH_WHEEL_VIRTUAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the monotonic and the wall clock to this time in milliseconds. */
void virtual_set(uint64_t now_ms);

/* Timers that fired and have not been handed to the workload yet: a loop fires all of a turn. */
struct fired {
    uint32_t *ids;
    uint64_t begin, end;
    uint64_t now; /* of the last turn */
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
