/* check.h - CHECK aborts unless an invariant holds, in builds without assertions too: for the
 * functions x_check that tests call. */
#ifndef TICKWHEEL_BASE_CHECK_H
#define TICKWHEEL_BASE_CHECK_H

#include <stdlib.h>

#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

#endif
