/* clock_private.h - functions of the clock for the runner. */
#ifndef TICKWHEEL_CLOCK_PRIVATE_H
#define TICKWHEEL_CLOCK_PRIVATE_H

#include <tickwheel/clock.h>

#include <time.h>

/* Converts an instant for system calls; one beyond the range of time_t becomes an earlier one. */
struct timespec tw__clock_timespec(struct tw_instant instant);

/* Asks the system to end waits of the calling thread without delay. By default Linux may delay a
 * wake-up by 50 us to combine it with others. */
void tw__clock_sharpen(void);

/* Suspends the calling thread for `ns` nanoseconds, or until a signal arrives. */
void tw__clock_pause(uint64_t ns);

#endif
