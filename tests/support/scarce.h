/*
 * scarce.h - memory that runs out at the N-th allocation, for N = 1, 2, ... until what is tested
 * needs fewer allocations. For tests only.
 *
 *     for (struct scarce scarce = scarce_sweep("schedule"); scarce_next(&scarce);) {
 *         struct tw_wheel *wheel = tw_wheel_create(NULL);      there is memory
 *         scarce_begin(&scarce);
 *         timer = tw_wheel_schedule(wheel, 5, 7);
 *         assert_int_equal(timer == TW_NONE, scarce_end(&scarce));
 *         tw_wheel_check(wheel);
 *         tw_wheel_destroy(wheel);
 *     }
 *
 * Each N comes twice: once that allocation alone is refused, once it and every later one. After
 * each round every block allocated in it must have been freed; otherwise scarce_next aborts.
 *
 * It works by the linker's --wrap, so it sees what our own code allocates, in every thread, and
 * nothing that shared libraries allocate for themselves. In a program that never calls it, and has
 * SCARCE_AT=N in its environment, the N-th allocation since its start is refused; with
 * SCARCE_FROM=N all from there on.
 *
 * Threads    One sweep at a time in a program; allocations are counted in all threads.
 */
#ifndef TICKWHEEL_SUPPORT_SCARCE_H
#define TICKWHEEL_SUPPORT_SCARCE_H

#include <stdbool.h>
#include <stdint.h>

struct scarce {
    const char *name;
    uint64_t n, n_max;
    bool from_then_on, was_refused;
    int64_t live; /* blocks, before each round */
};

struct scarce scarce_sweep(const char *name);

/* The next round. False, after a line that says how far N went, when all have been. */
bool scarce_next(struct scarce *scarce);

/* From here on allocations are counted and one is refused. */
void scarce_begin(struct scarce *scarce);

/* Until here. Whether one was refused since the last scarce_begin. */
bool scarce_end(struct scarce *scarce);

#endif
