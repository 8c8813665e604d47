/* Goal: a filter fits a timer exactly when each of its conditions holds, whether the timer's target
 * is parsed or not. Method: random filters and timers from few texts, compared with conditions that
 * are written out byte by byte; then the cases that chance seldom meets. */
#include "timer/timer_filter.h"

#include "base/random.h"

#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const filter_keys[] = {"", "order-1", "order-12", "border-1", "-1"};
static const char *const filter_parts[] = {"o", "order-", "order-1", "1", "-12", "x", "order-123"};
static const char *const filter_targets[] = {"http://a.example/x", "http://a.example:80/y",
                                             "http://a.example",   "queue:mail?priority=3",
                                             "queue:mail",         "log:mail"};
static const char *const filter_origins[] = {"http://a.example", "http://a.example:80", "http://a",
                                             "queue:mail", "queue:ma"};

/* The origin of each target, in the same order. */
static const char *const filter_target_origins[] = {"http://a.example", "http://a.example:80",
                                                    "http://a.example", "queue:mail",
                                                    "queue:mail",       "log:mail"};

static bool filter_test_begins(const char *text, const char *part)
{
    return strncmp(text, part, strlen(part)) == 0;
}

#define PICK(random, texts) random_below(random, sizeof(texts) / sizeof((texts)[0]))

/* proves: list-search, list-target */
static void test_fits_as_written_out(void **state)
{
    struct random random = random_seeded(testing_seed());

    (void)state;
    for (int i = 0; i < 20000; i++) {
        const char *key = filter_keys[PICK(&random, filter_keys)];
        const size_t target = PICK(&random, filter_targets);
        const unsigned flow = random_below(&random, 3);
        const bool has_label = random_below(&random, 2), is_failed = random_below(&random, 2);
        const struct timer_texts texts = {
            .target = bytes_of(filter_targets[target]),
            .key = bytes_of(key),
            .labels = has_label ? BYTES("{\"a\":\"1\",\"b\":\"2\"}") : BYTES("{\"a\":\"2\"}"),
            .flow = flow ? bytes_of(flow == 1 ? "a\n1 0 0" : "ab\n1 0 0") : BYTES(""),
            .last_error = is_failed ? BYTES("HTTP 500") : (struct bytes){0}};
        struct timer *timer = timer_alloc(&texts);
        struct timer view = {.texts = texts};
        struct timer_filter filter = {0};
        bool fits = true;

        assert_non_null(timer);
        timer->state = view.state = (enum timer_state)random_below(&random, TIMER_PAUSED + 1);
        if (random_below(&random, 3) == 0) {
            filter.states = 1 + (uint32_t)random_below(&random, (1u << (TIMER_PAUSED + 1)) - 1);
            fits &= filter.states >> timer->state & 1;
        }
        if (random_below(&random, 3) == 0) {
            const char *part = filter_parts[PICK(&random, filter_parts)];
            filter.key_prefix = bytes_of(part);
            fits &= filter_test_begins(key, part);
        }
        if (random_below(&random, 3) == 0) {
            const char *part = filter_parts[PICK(&random, filter_parts)];
            filter.key_contains = bytes_of(part);
            fits &= strstr(key, part) != NULL;
        }
        if (random_below(&random, 3) == 0) {
            filter.flow = BYTES("a");
            fits &= flow == 1;
        }
        if (random_below(&random, 4) == 0) {
            const size_t wanted = PICK(&random, filter_targets);
            filter.target = bytes_of(filter_targets[wanted]);
            fits &= wanted == target;
        }
        if (random_below(&random, 3) == 0) {
            const char *origin = filter_origins[PICK(&random, filter_origins)];
            filter.origin = bytes_of(origin);
            fits &= strcmp(origin, filter_target_origins[target]) == 0;
        }
        if (random_below(&random, 4) == 0) {
            filter.error = random_below(&random, 2) ? BYTES("HTTP 500") : BYTES("");
            fits &= (filter.error.size > 0) == is_failed;
        }
        if (random_below(&random, 3) == 0) {
            filter.labels[filter.label_count].key = BYTES("a");
            filter.labels[filter.label_count++].value = BYTES("1");
            fits &= has_label;
        }
        if (random_below(&random, 4) == 0) {
            filter.labels[filter.label_count].key = BYTES("b");
            filter.labels[filter.label_count++].value = BYTES("2");
            fits &= has_label;
        }
        assert_int_equal(timer_filter_fits(&filter, timer), fits);
        assert_int_equal(timer_filter_fits(&filter, &view), fits); /* its target is not parsed */
        timer_free(timer);
    }
}

static void test_knows_schedules_and_broken_targets(void **state)
{
    struct timer view = {.texts.target = BYTES("nowhere:x"), .texts.schedule = BYTES("")};
    const struct timer_filter repeats = {.repeats = true}, none = {0};
    const struct timer_filter origin = {.origin = BYTES("nowhere:x")};

    (void)state;
    assert_true(timer_filter_fits(&none, &view));
    assert_false(timer_filter_fits(&repeats, &view));
    assert_true(timer_filter_fits(&origin, &view)); /* its whole text */
    assert_false(timer_filter_has_text(&none) || timer_filter_has_text(&repeats));
    assert_true(timer_filter_has_text(&origin));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fits_as_written_out),
        cmocka_unit_test(test_knows_schedules_and_broken_targets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
