/*
 * Goal: no body of a backfill makes the parser crash, read past its input or let through what is
 * out of bounds. Method: any body; what is accepted must hold its own rules.
 */
#include "api/timers/timers.h"
#include "timer/backfill.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void backfill_fuzz_check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct wall now = {UINT64_C(1800000000000)};
    char *copy = malloc(size + !size); /* so that a look past it is seen */

    backfill_fuzz_check(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    struct backfill_ask ask;
    struct problem problem;
    uint64_t pace_ms;
    if (backfill_parse((struct bytes){copy, size}, now, &ask, &problem)) {
        backfill_fuzz_check(problem.code == ERROR_INVALID || problem.code == ERROR_NOT_JSON);
    } else {
        backfill_fuzz_check(ask.from.ms < ask.to.ms && ask.to.ms <= now.ms);
        backfill_fuzz_check(backfill_rate_parse(bytes_of(ask.rate), &pace_ms) &&
                            pace_ms == ask.pace_ms && pace_ms >= 1);
    }
    free(copy);
    return 0;
}
