/*
 * Goal: random bytes fill all that was asked for, and no more.
 * Method: every byte of a large block must differ between two fillings somewhere in 16 tries;
 * guards stay.
 */
#include "sys/entropy.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

static void fills_every_byte_and_none_beyond(void **state)
{
    enum { SIZE = 1000, TRIES = 16 };

    (void)state;
    unsigned char block[SIZE + 2];
    block[0] = block[SIZE + 1] = 0xa5;
    unsigned char seen[SIZE] = {0};
    for (int try = 0; try < TRIES; try++) {
        memset(block + 1, 0, SIZE);
        assert_int_equal(entropy_fill(block + 1, SIZE), ERROR_NONE);
        for (size_t i = 0; i < SIZE; i++)
            seen[i] |= block[i + 1];
    }
    /* A byte that stays 0 in all tries by chance: 1000 / 256^16. */
    for (size_t i = 0; i < SIZE; i++)
        assert_true(seen[i]);
    assert_int_equal(block[0], 0xa5);
    assert_int_equal(block[SIZE + 1], 0xa5);
    assert_int_equal(entropy_fill(block, 0), ERROR_NONE);
}

static void ignore(int signal)
{
    (void)signal;
}

/* A signal makes the kernel hand out a part: here one comes every millisecond of a longer filling.
 */
static void goes_on_when_the_kernel_gives_a_part(void **state)
{
    enum { SIZE = 32 << 20 };
    struct sigaction action = {.sa_handler = ignore};
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    unsigned char *block = calloc(1, SIZE);

    (void)state;
    assert_non_null(block);
    struct sigaction action_before;
    assert_int_equal(sigaction(SIGALRM, &action, &action_before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    assert_int_equal(entropy_fill(block, SIZE), ERROR_NONE);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &action_before, NULL), 0);
    unsigned char seen = 0;
    for (size_t i = SIZE - 32; i < SIZE; i++)
        seen |= block[i];
    assert_true(seen);
    free(block);
}

static void gives_other_numbers_each_time(void **state)
{
    (void)state;
    uint64_t a;
    assert_int_equal(entropy_u64(&a), ERROR_NONE);
    uint64_t b;
    assert_int_equal(entropy_u64(&b), ERROR_NONE);
    assert_true(a != b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_every_byte_and_none_beyond),
        cmocka_unit_test(goes_on_when_the_kernel_gives_a_part),
        cmocka_unit_test(gives_other_numbers_each_time),
    };

    return cmocka_run_group_tests_name("entropy", tests, NULL, NULL);
}
