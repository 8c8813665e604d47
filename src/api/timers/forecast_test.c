/*
 * Goal: four forecasts are made at a time, and the next one waits until one of them has ended.
 * Method: requests over sockets to the API on a real node that holds its answers back.
 */
#include "api/timers/timers.h"

#include "api/core/call.h"
#include "api/testing/fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int forecast_test_setup(void **state)
{
    *state = fixture_start(NULL);
    return 0;
}

static int forecast_test_teardown(void **state)
{
    fixture_stop(*state);
    return 0;
}

/* proves: forecasts */
static void as_many_at_a_time_as_may_be(void **state)
{
    struct api_fixture *fixture = *state;

    for (int round = 0; round < 2; round++) {
        struct client clients[FORECASTS_MAX + 1];
        const size_t before = (size_t)round * (FORECASTS_MAX + 1);

        probe_hold(&fixture->probe);
        for (int i = 0; i <= FORECASTS_MAX; i++) {
            client_open(&clients[i], api_port(fixture->api));
            client_printf(&clients[i], "GET /v1/forecast HTTP/1.1\r\nHost: t\r\n\r\n");
        }
        probe_await_submitted(&fixture->probe, (before + FORECASTS_MAX) * PROBE_PARTITIONS);
        probe_release(&fixture->probe);
        for (int i = 0; i <= FORECASTS_MAX; i++) {
            assert_true(client_receive(&clients[i], "GET", &fixture->reply));
            assert_int_equal(fixture->reply.status, 200);
            client_close(&clients[i]);
        }
        probe_await_submitted(&fixture->probe, (before + FORECASTS_MAX + 1) * PROBE_PARTITIONS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_many_at_a_time_as_may_be, forecast_test_setup,
                                        forecast_test_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
