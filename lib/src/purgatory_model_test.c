/*
 * Goal: each operation that was accepted is completed once, for the right reason, when and only
 * when it can be. Method: random calls beside a table that is walked for everything, invariants
 * checked throughout.
 */
#include "oracles.h"
#include "seed.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void behaves_as_the_model_does(void **state)
{
    struct conformance_source source = {.state = testing_seed()};
    struct purgatory_tally all = {0};
    (void)state;

    for (unsigned i = 0; i < 60; i++) {
        struct purgatory_tally tally = purgatory_model_run(&source, 5000);
        all.steps += tally.steps;
        all.at_once += tally.at_once;
        all.by_event += tally.by_event;
        all.by_timeout += tally.by_timeout;
        all.by_destroy += tally.by_destroy;
        all.refused += tally.refused;
        all.purged += tally.purged;
    }
    print_message("%" PRIu64 " steps: %" PRIu64 " at once, %" PRIu64 " by event, %" PRIu64
                  " by time-out, %" PRIu64 " by destroy, %" PRIu64 " refused, %" PRIu64
                  " watches purged\n",
                  all.steps, all.at_once, all.by_event, all.by_timeout, all.by_destroy, all.refused,
                  all.purged);
    /* The run has seen what it is about. */
    assert_true(all.at_once && all.by_event && all.by_timeout && all.by_destroy && all.refused);
    assert_true(all.purged > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behaves_as_the_model_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
