/*
 * Goal: no body of a pause makes the parser crash, read past its input or let through what is out
 * of bounds. Method: any body; what is accepted must hold its own rules.
 */
#include "api/timers/timers.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void pause_fuzz_check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct wall now = {UINT64_C(1800000000000)};
    char *copy = malloc(size + !size); /* so that a look past it is seen */

    pause_fuzz_check(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    struct timer *patch = NULL;
    struct problem problem;
    if (pause_parse((struct bytes){copy, size}, now, &patch, &problem)) {
        pause_fuzz_check(!patch);
        pause_fuzz_check(problem.code == ERROR_INVALID || problem.code == ERROR_NOT_JSON);
    } else {
        pause_fuzz_check(patch->texts.note.size <= TIMER_NOTE_SIZE_MAX);
        pause_fuzz_check(patch->at.ms == STORAGE_PAUSED_AT.ms ||
                         (patch->at.ms > now.ms && patch->at.ms <= WALL_MS_MAX));
        timer_free(patch);
    }
    free(copy);
    return 0;
}
