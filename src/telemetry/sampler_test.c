/* Goal: each sampler of OpenTelemetry decides as its specification says. Method: a table over the
 * samplers and callers; a count over many random traces. */
#include "telemetry/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static bool sampler_test_decide(const char *name, const char *ratio, uint64_t low,
                                const struct trace_parent *parent)
{
    static struct config config;
    struct sampler sampler;
    struct error error;

    config_init(&config);
    assert_int_equal(config_set(&config, "otlp_sampler", name, &error), ERROR_NONE);
    assert_int_equal(config_set(&config, "otlp_sample_ratio", ratio, &error), ERROR_NONE);
    assert_int_equal(sampler_init(&config, &sampler, &error), ERROR_NONE);
    return sampler_decide(&sampler, &(struct trace_parent){1, low, 2, false}, parent);
}

/* proves: otlp-sampling */
static void test_samplers(void **state)
{
    static const struct trace_parent on = {1, 2, 3, true}, off = {1, 2, 3, false};
    static const struct {
        const char *name, *ratio;
        bool alone, with_on, with_off;
    } cases[] = {
        {"parentbased_always_on", "0", true, true, false},
        {"parentbased_always_off", "1", false, true, false},
        {"parentbased_traceidratio", "1", true, true, false},
        {"parentbased_traceidratio", "0", false, true, false},
        {"always_on", "0", true, true, true},
        {"always_off", "1", false, false, false},
        {"traceidratio", "1.0", true, true, true},
        {"traceidratio", "0.0", false, false, false},
    };
    static const uint64_t lows[] = {0, 1, UINT64_MAX / 2, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t j = 0; j < sizeof(lows) / sizeof(lows[0]); j++) {
            const char *name = cases[i].name, *ratio = cases[i].ratio;

            assert_int_equal(sampler_test_decide(name, ratio, lows[j], NULL), cases[i].alone);
            assert_int_equal(sampler_test_decide(name, ratio, lows[j], &on), cases[i].with_on);
            assert_int_equal(sampler_test_decide(name, ratio, lows[j], &off), cases[i].with_off);
        }
    /* the boundary of other SDKs: half of the low 63 bits of the id after a shift */
    assert_true(sampler_test_decide("traceidratio", "0.5", UINT64_C(0x7fffffffffffffff), NULL));
    assert_false(sampler_test_decide("traceidratio", "0.5", UINT64_C(0x8000000000000000), NULL));
}

/* proves: otlp-sampling */
static void test_ratios(void **state)
{
    static const char *const wrong[] = {"1.01", "-0.1", "nan", "inf",   "0x1", "",
                                        "one",  "1 ",   "0,5", "1e999", ".",   "1e"};
    static const char *const right[] = {"0", "1", "1.0", "0.25", "1e-3", ".5"};
    static struct config config;
    struct sampler sampler;
    struct error error;

    (void)state;
    config_init(&config);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(config.otlp_sample_ratio, sizeof(config.otlp_sample_ratio), "%s", wrong[i]);
        assert_int_equal(sampler_init(&config, &sampler, &error), ERROR_INVALID);
        assert_non_null(strstr(error.text, "otlp_sample_ratio"));
    }
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        snprintf(config.otlp_sample_ratio, sizeof(config.otlp_sample_ratio), "%s", right[i]);
        assert_int_equal(sampler_init(&config, &sampler, &error), ERROR_NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samplers),
        cmocka_unit_test(test_ratios),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
