/*
 * runs_fuzz - bytes are valid runs exactly if adding their rows again, the oldest first, writes the
 * bytes; each row of valid ones stays within its bounds.
 */
#include "timer/runs.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {(const char *)data, size};
    char rooms[2][RUNS_BYTES_MAX];
    struct run rows[RUNS_MAX];
    struct bytes rest = text, again = {0};
    size_t count = 0;

    if (!runs_is_valid(text))
        return 0;
    for (struct run row; runs_next(&rest, &row); rows[count++] = row) {
        REQUIRE(count < RUNS_MAX);
        REQUIRE(row.outcome < RUN_OUTCOME_COUNT && row.error.size <= RUNS_ERROR_MAX);
        REQUIRE(row.planned.ms < UINT64_C(1) << 48 && row.started.ms < UINT64_C(1) << 48);
    }
    for (size_t i = count; i-- > 0;)
        again = runs_add(again, &rows[i], rooms[i % 2]);
    REQUIRE(bytes_equal(again, text));
    return 0;
}
