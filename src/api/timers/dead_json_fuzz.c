/*
 * Goal: no body of a redrive makes the parser crash, read past its input or let through what is out
 * of bounds. Method: any body; what is accepted must hold its own rules.
 */
#include "api/timers/timers.h"

#include <stdlib.h>

static const struct timer_json_limits dead_json_fuzz_limits = {.target_bytes_max = 64};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void dead_json_fuzz_check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + !size); /* so that a look past it is seen */

    dead_json_fuzz_check(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    struct dead_ask ask;
    struct problem problem;
    if (dead_json_parse((struct bytes){copy, size}, &dead_json_fuzz_limits, &ask, &problem)) {
        dead_json_fuzz_check(problem.code == ERROR_INVALID || problem.code == ERROR_NOT_JSON);
    } else {
        dead_json_fuzz_check((ask.ids != NULL) == (ask.id_count > 0) &&
                             ask.id_count <= DEAD_IDS_MAX);
        dead_json_fuzz_check(ask.query.limit >= 1 && ask.query.limit <= LIST_LIMIT_MAX);
        dead_json_fuzz_check(ask.query.states == 1u << TIMER_DEAD &&
                             ask.query.filter.label_count <= LIST_LABELS_MAX);
        for (size_t i = 0; i < ask.query.filter.label_count; i++)
            dead_json_fuzz_check(ask.query.filter.labels[i].key.data +
                                     ask.query.filter.labels[i].key.size <=
                                 ask.query.filter.labels[i].value.data);
        dead_json_fuzz_check(ask.rate <= DEAD_RATE_MAX && ask.paced.ms <= WALL_MS_MAX);
        dead_json_fuzz_check(
            !ask.patch || (ask.patch->target.kind != TARGET_UNKNOWN &&
                           ask.patch->texts.target.size <= dead_json_fuzz_limits.target_bytes_max));
        dead_ask_free(&ask);
    }
    free(copy);
    return 0;
}
