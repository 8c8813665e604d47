/* clock_private.h - what the runner needs of the clock besides its public face. */
#ifndef TICKWHEEL_CLOCK_PRIVATE_H
#define TICKWHEEL_CLOCK_PRIVATE_H

#include <tickwheel/clock.h>

#include <time.h>

/* The instant as the system's calls take it. */
struct timespec tw__clock_timespec(struct tw_instant instant);

/* Asks the system to end the calling thread's waits on time: where it can, it else groups them with
 * others that end up to 50 us later. */
void tw__clock_sharpen(void);

#endif
