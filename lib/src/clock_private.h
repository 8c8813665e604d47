/* clock_private.h - functions of the clock for the runner. */
#ifndef TICKWHEEL_CLOCK_PRIVATE_H
#define TICKWHEEL_CLOCK_PRIVATE_H

#include <tickwheel/clock.h>

#include <time.h>

/* The instant in the form of the system's calls, or an earlier one if it exceeds the range of
 * time_t. */
struct timespec tw__clock_timespec(struct tw_instant instant);

/* Asks the system to end the calling thread's waits on time. By default Linux may delay a wake-up
 * by 50 us to join it with others. */
void tw__clock_sharpen(void);

/* Takes the calling thread off its processor for `ns`, or less if a signal ends that. */
void tw__clock_pause(uint64_t ns);

#endif
