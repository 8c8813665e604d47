/*
 * Goal: the history has what was counted, in order of time, also after the end of the process, a
 * torn write, damage, a full disk and steps of the clock. Method: samples with known numbers, a
 * file in a folder of its own, and a disk that fails on demand.
 */
#include "ops/figures.h"

#include "base/random.h"
#include "sys/files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define HOUR_MS UINT64_C(3600000)
/* A multiple of 30 minutes. */
static const struct wall noon = {UINT64_C(1795219200000)};

struct figures_test {
    char folder[64], path[96];
    struct disk_calls disk;
    int write_fails; /* errno of each write; 0: they work */
    struct figures *figures;
    struct figures_point points[FIGURES_POINTS];
};

static int figures_test_write(const struct disk_calls *disk, int file, uint64_t at,
                              struct bytes bytes)
{
    const struct figures_test *test = disk->state;

    if (test->write_fails) {
        bytes.size /= 2;
        disk_system()->write(disk_system(), file, at, bytes);
        return test->write_fails;
    }
    return disk_system()->write(disk_system(), file, at, bytes);
}

static void figures_test_reopen(struct figures_test *test)
{
    struct error error = {.text = ""};

    figures_close(test->figures);
    assert_int_equal(figures_open(&test->disk, test->path, &test->figures, &error), ERROR_NONE);
}

static int figures_test_set_up(void **state)
{
    struct figures_test *test = calloc(1, sizeof(*test));

    assert_non_null(test);
    snprintf(test->folder, sizeof(test->folder), "/tmp/tickwheel-history-XXXXXX");
    assert_non_null(mkdtemp(test->folder));
    snprintf(test->path, sizeof(test->path), "%s/" FIGURES_FILE, test->folder);
    test->disk = *disk_system();
    test->disk.state = test;
    test->disk.write = figures_test_write;
    figures_test_reopen(test);
    *state = test;
    return 0;
}

static int figures_test_tear_down(void **state)
{
    struct figures_test *test = *state;

    figures_close(test->figures);
    files_remove_folder(test->folder);
    free(test);
    return 0;
}

/* Adds a sample of 10 s that ends at `now`. */
static void figures_test_add(struct figures_test *test, struct wall now, uint32_t fired)
{
    struct figures_point sample = {.span_ms = 10000};

    sample.counts[FIGURES_FIRED] = fired;
    sample.counts[FIGURES_CREATED] = 1;
    sample.waiting[2] = fired;
    sample.late[5] = fired;
    figures_add(test->figures, now, &sample);
}

/* Returns the number of points, which are in order of time and within the window. */
static size_t figures_test_read(struct figures_test *test, enum figures_window window,
                                struct wall now)
{
    const size_t count = figures_read(test->figures, window, now, test->points);
    const uint64_t step_ms = figures_step_s(window) * 1000;

    for (size_t i = 0; i < count; i++) {
        assert_true(test->points[i].at.ms <= now.ms);
        assert_int_equal(test->points[i].at.ms % step_ms, 0);
        assert_true(i == 0 || test->points[i].at.ms > test->points[i - 1].at.ms);
    }
    return count;
}

static struct error figures_test_trouble(struct figures_test *test)
{
    struct error trouble;

    figures_trouble(test->figures, &trouble);
    return trouble;
}

/* Goal: each window joins the samples of its step. Method: two hours of samples of 1, and one of 7
 * among them. */
static void joins_samples_to_points(void **state)
{
    struct figures_test *test = *state;

    for (uint64_t i = 1; i <= 720; i++) /* some of them late */
        figures_test_add(test, wall_add(noon, i * FIGURES_STEP_MS + i % 5), i == 400 ? 7 : 1);
    const struct wall end = {noon.ms + 2 * HOUR_MS - 1};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(figures_test_read(test, FIGURES_HOUR, end), 360);
        assert_int_equal(test->points[0].at.ms, noon.ms + HOUR_MS);
        assert_int_equal(test->points[39].counts[FIGURES_FIRED], 7);
        assert_int_equal(test->points[40].counts[FIGURES_FIRED], 1);
        assert_int_equal(test->points[40].span_ms, 10000);
        assert_int_equal(figures_test_read(test, FIGURES_DAY, end), 24);
        assert_int_equal(test->points[13].counts[FIGURES_FIRED], 36);
        assert_int_equal(test->points[13].waiting[2], 7);
        assert_int_equal(test->points[13].late[5], 36);
        assert_int_equal(test->points[14].counts[FIGURES_FIRED], 30);
        assert_int_equal(figures_test_read(test, FIGURES_WEEK, end), 4);
        assert_int_equal(test->points[2].counts[FIGURES_CREATED], 180);
        assert_int_equal(test->points[2].span_ms, 1800000);
        figures_write(test->figures);
        figures_test_reopen(test);
    }
    assert_string_equal(figures_test_trouble(test).text, "");
}

/* Goal: numbers saturate. Method: two samples that exceed 32 bits together. */
static void saturates(void **state)
{
    struct figures_test *test = *state;

    figures_test_add(test, wall_add(noon, 10000), UINT32_MAX - 1);
    figures_test_add(test, wall_add(noon, 10000), 5);
    assert_int_equal(figures_test_read(test, FIGURES_HOUR, noon), 1);
    assert_int_equal(test->points[0].counts[FIGURES_FIRED], UINT32_MAX);
}

/* Goal: a clock that steps changes no order. Method: samples at random times of two weeks, with
 * reads at random times after each; figures_test_read checks the order.
 * proves: history */
static void keeps_order_whatever_the_clock_does(void **state)
{
    struct figures_test *test = *state;
    uint64_t random = 7;

    for (int i = 0; i < 2000; i++) {
        random = random_mix(random);
        const struct wall now = {noon.ms + random % (14 * 24 * HOUR_MS)};

        figures_test_add(test, now, 1);
        for (enum figures_window window = 0; window < FIGURES_WINDOWS; window++) {
            figures_test_read(test, window, now);
            figures_test_read(test, window, (struct wall){noon.ms + random % HOUR_MS});
        }
    }
    figures_test_add(test, (struct wall){0}, 1);
    figures_test_add(test, (struct wall){UINT64_MAX}, 1);
    figures_test_read(test, FIGURES_WEEK, (struct wall){UINT64_MAX});
    assert_int_equal(figures_test_read(test, FIGURES_WEEK, (struct wall){0}), 0);
}

/* Changes a byte of the file. */
static void figures_test_spoil(struct figures_test *test, long at)
{
    FILE *file = fopen(test->path, "r+b");

    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(0x5a, file), 0x5a);
    assert_int_equal(fclose(file), 0);
}

static bool figures_test_was_set_aside(struct figures_test *test)
{
    char aside[128];

    snprintf(aside, sizeof(aside), "%s.damaged", test->path);
    return files_exists(aside);
}

/* Goal: a torn point is left out, the others are there, and its place is written anew. Method: a
 * byte of one is changed, again and again, until there were more than a file may have. */
static void leaves_out_a_torn_point(void **state)
{
    struct figures_test *test = *state;

    for (uint64_t i = 1; i <= 10; i++)
        figures_test_add(test, wall_add(noon, i * FIGURES_STEP_MS), 1);
    figures_write(test->figures);
    const long place = (long)(noon.ms / FIGURES_STEP_MS % 360);
    for (long i = 0; i < 9; i++) {
        figures_test_spoil(test, (1 + place + i) * FIGURES_PLACE_BYTES + 30);
        figures_test_reopen(test);
        assert_int_equal(figures_test_read(test, FIGURES_HOUR, wall_add(noon, 100000)), 9 - i);
        assert_int_equal(figures_test_read(test, FIGURES_DAY, wall_add(noon, 100000)), 1);
        figures_write(test->figures);
    }
    assert_string_equal(figures_test_trouble(test).text, "");
    assert_false(figures_test_was_set_aside(test));
}

/* Goal: a damaged file is set aside, is reported, and another one is made. Method: a changed head,
 * and more changed points than a crash tears. */
static void sets_a_damaged_file_aside(void **state)
{
    struct figures_test *test = *state;

    for (int spoiled = 0; spoiled < 2; spoiled++) {
        for (uint64_t i = 1; i <= 100; i++)
            figures_test_add(test, wall_add(noon, i * FIGURES_STEP_MS), 1);
        figures_write(test->figures);
        if (spoiled == 0)
            figures_test_spoil(test, 3);
        const long place = (long)(noon.ms / FIGURES_STEP_MS % 360);
        for (long i = 0; spoiled == 1 && i < 20; i++)
            figures_test_spoil(test, (1 + place + i) * FIGURES_PLACE_BYTES + 40);
        figures_test_reopen(test);
        assert_int_equal(figures_test_read(test, FIGURES_HOUR, wall_add(noon, HOUR_MS / 2)), 0);
        assert_non_null(strstr(figures_test_trouble(test).text, "renamed"));
        assert_true(figures_test_was_set_aside(test));
        figures_test_add(test, wall_add(noon, 10000), 1);
        figures_write(test->figures);
        figures_test_reopen(test);
        assert_int_equal(figures_test_read(test, FIGURES_HOUR, noon), 1);
    }
}

/* Goal: bytes of any kind are no crash, and never a point that was not written. Method: files of
 * random bytes and sizes, with and without a valid head. */
static void reads_any_file(void **state)
{
    struct figures_test *test = *state;
    uint64_t random = 11;

    figures_test_add(test, wall_add(noon, 10000), 1);
    figures_write(test->figures);
    for (int i = 0; i < 200; i++) {
        FILE *file = fopen(test->path, i % 2 ? "r+b" : "wb");

        assert_non_null(file);
        random = random_mix(random);
        assert_int_equal(fseek(file, i % 2 ? FIGURES_PLACE_BYTES : 0, SEEK_SET), 0);
        for (uint64_t left = random % 3000; left > 0; left--)
            fputc((int)((random = random_mix(random)) & 0xff), file);
        assert_int_equal(fclose(file), 0);
        figures_test_reopen(test);
        for (enum figures_window window = 0; window < FIGURES_WINDOWS; window++)
            assert_true(figures_test_read(test, window, wall_add(noon, 10000)) <= 1);
        figures_test_add(test, wall_add(noon, 10000), 1);
        figures_write(test->figures);
    }
}

/* Goal: what could not be written is written later. Method: a disk that writes halves and fails,
 * and a file that is removed meanwhile. */
static void writes_later_what_failed(void **state)
{
    struct figures_test *test = *state;

    figures_test_add(test, wall_add(noon, 10000), 1);
    figures_write(test->figures);
    test->write_fails = ENOSPC;
    for (uint64_t i = 2; i <= 10; i++) {
        figures_test_add(test, wall_add(noon, i * FIGURES_STEP_MS), 1);
        figures_write(test->figures);
    }
    assert_int_equal(figures_test_trouble(test).code, ERROR_DISK_FULL);
    unlink(test->path);
    figures_write(test->figures);
    assert_false(files_exists(test->path));
    test->write_fails = 0;
    figures_write(test->figures);
    figures_test_reopen(test);
    assert_int_equal(figures_test_read(test, FIGURES_HOUR, wall_add(noon, 100000)), 10);
}

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, figures_test_set_up, figures_test_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(joins_samples_to_points),
        TEST(saturates),
        TEST(keeps_order_whatever_the_clock_does),
        TEST(leaves_out_a_torn_point),
        TEST(sets_a_damaged_file_aside),
        TEST(reads_any_file),
        TEST(writes_later_what_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
