/*
 * Goal: the ballast takes space of the disk, gives it back, and is made again only when the disk
 * has room for it twice. Method: the free bytes of a file system of 16 MiB in memory.
 */
#include "store/ballast.h"

#include "sys/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static const struct ballast_sizes small = {.flush_bytes = MIB, .segment_bytes = 2 * MIB};

static uint64_t ballast_free_bytes(const char *folder)
{
    uint64_t bytes = 0;

    assert_int_equal(files_free_bytes(folder, &bytes, NULL), ERROR_NONE);
    return bytes;
}

static void test_sizes_fit_the_disk(void **state)
{
    const struct ballast_sizes wanted = {32 * MIB, 16 * MIB};
    struct ballast_sizes fit = ballast_fit(wanted, 4096 * MIB);

    (void)state;
    assert_true(fit.flush_bytes == 32 * MIB && fit.segment_bytes == 16 * MIB);
    fit = ballast_fit(wanted, 1024 * MIB);
    assert_true(fit.flush_bytes == 16 * MIB && fit.segment_bytes == 16 * MIB);
    fit = ballast_fit(wanted, 200 * MIB);
    assert_true(fit.flush_bytes == 3 * MIB && fit.segment_bytes == 3 * MIB);
    fit = ballast_fit(wanted, 10 * MIB);
    assert_true(fit.flush_bytes == MIB && fit.segment_bytes == MIB);
    fit = ballast_fit((struct ballast_sizes){1000, 2000}, 10 * MIB);
    assert_true(fit.flush_bytes == 1000 && fit.segment_bytes == 2000);
}

static void test_held_and_given_up(void **state)
{
    char folder[] = "/tmp/tickwheel-ballast-XXXXXX";
    struct ballast ballast = {0}, again = {0};

    assert_non_null(mkdtemp(folder));
    if (!*state || mount("none", folder, "tmpfs", 0, "size=16m") != 0) {
        rmdir(folder);
        skip();
    }
    const uint64_t before = ballast_free_bytes(folder);
    assert_true(ballast_init(&ballast, folder, small));
    assert_true(ballast.bytes == 4 * MIB && ballast_floor(&ballast) == 8 * MIB);
    ballast_fill(&ballast, 8 * MIB - 1); /* not twice */
    assert_true(ballast_held(&ballast) == 0 && ballast_free_bytes(folder) == before);
    ballast_fill(&ballast, before);
    assert_true(ballast_held(&ballast) == 4 * MIB);
    assert_true(ballast_free_bytes(folder) <= before - 4 * MIB);
    assert_true(ballast_init(&again, folder, small)); /* a later start finds it */
    assert_true(ballast_held(&again) >= 4 * MIB);
    assert_true(ballast_release(&again) == 4 * MIB);
    assert_true(ballast_release(&again) == 0); /* there is no more */
    assert_true(ballast_free_bytes(folder) == before);
    ballast_fill(&again, UINT64_MAX);
    assert_true(ballast_held(&again) >= 4 * MIB);
    ballast_deinit(&ballast);
    ballast_deinit(&again);
    assert_int_equal(umount(folder), 0);
    rmdir(folder);
}

int main(void)
{
    void *can_mount =
        unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
            ? (void *)1
            : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_fit_the_disk),
        cmocka_unit_test_prestate(test_held_and_given_up, can_mount),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
