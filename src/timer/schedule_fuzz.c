/*
 * schedule_fuzz - whatever bytes are stored as a schedule: what is read is written as what reads as
 * the same, and what can be made of it goes on in time and ends.
 */
#include "timer/schedule.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) ((condition) ? (void)0 : abort())

static void schedule_fuzz_check_written(const struct schedule_spec *spec)
{
    struct buffer first;

    buffer_init(&first);
    struct buffer second;
    buffer_init(&second);
    schedule_write(spec, &first);
    struct schedule_spec back = SCHEDULE_SPEC_DEFAULT;
    if (first.size > 0)
        REQUIRE(schedule_read(buffer_bytes(&first), &back, NULL) == ERROR_NONE);
    schedule_write(&back, &second);
    REQUIRE(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
    buffer_deinit(&first);
    buffer_deinit(&second);
}

static void check_goes_on(const struct schedule *schedule, struct wall created)
{
    struct wall due = schedule_first(schedule, created);

    /* What a spread pushes behind the end of time is all due at that end. */
    for (int i = 0; i < 20 && due.ms < WALL_MS_MAX; i++) {
        /* At once, in time, and after a long outage. */
        const uint64_t late_ms[] = {0, 1, UINT64_C(100) * 86400000};

        for (int j = 0; j < 3; j++) {
            struct wall now = {due.ms + late_ms[j]};

            REQUIRE(schedule_next(schedule, due, now).ms > due.ms);
        }
        due = schedule_next(schedule, due, due);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {(const char *)data, size};
    const struct zone_source only_utc = {0};
    const struct wall created = {UINT64_C(1795132800000)};
    struct schedule_spec spec;

    if (schedule_read(text, &spec, NULL))
        return 0;
    schedule_fuzz_check_written(&spec);
    struct schedule schedule;
    if (schedule_make(&spec, created, (struct bytes){0}, &only_utc, &schedule, NULL) ==
            ERROR_NONE &&
        schedule.recurs)
        check_goes_on(&schedule, created);
    return 0;
}
