/*
 * Goal: a request to stop becomes a return value, in the one thread that waits for it, and never
 * kills. Method: the test sends itself signals, while threads that inherited the mask stand by.
 */
#include "sys/signals.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void *stand_by(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

static void hands_over_each_signal_once(void **state)
{
    (void)state;
    struct signals signals;
    struct error error;
    assert_int_equal(signals_open(&signals, &error), ERROR_NONE);
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&gate);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stand_by, &gate), 0);
    assert_int_equal(signals_wait(&signals, -1, 0), 0);
    /* To the process: the kernel may choose any thread that does not block it. */
    kill(getpid(), SIGTERM);
    assert_int_equal(signals_wait(&signals, -1, UINT64_MAX), SIGTERM);
    assert_int_equal(signals_wait(&signals, -1, 0), 0);
    kill(getpid(), SIGINT);
    assert_int_equal(signals_wait(&signals, -1, UINT64_MAX), SIGINT);
    pthread_mutex_unlock(&gate);
    pthread_join(thread, NULL);
    signals_close(&signals);
}

static void returns_when_the_time_is_over(void **state)
{
    (void)state;
    struct signals signals;
    assert_int_equal(signals_open(&signals, NULL), ERROR_NONE);
    assert_int_equal(signals_wait(&signals, -1, 1), 0);
    signals_close(&signals);
}

static void returns_when_the_other_descriptor_is_readable(void **state)
{
    int ends[2];

    (void)state;
    struct signals signals;
    assert_int_equal(signals_open(&signals, NULL), ERROR_NONE);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(signals_wait(&signals, ends[0], UINT64_MAX), 0);
    close(ends[0]);
    close(ends[1]);
    signals_close(&signals);
}

static void a_peer_that_hung_up_does_not_kill(void **state)
{
    (void)state;
    struct signals signals;
    assert_int_equal(signals_open(&signals, NULL), ERROR_NONE);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(write(ends[1], "x", 1), -1);
    close(ends[1]);
    signals_close(&signals);
}

static void closing_gives_the_mask_back(void **state)
{
    (void)state;
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    struct signals signals;
    assert_int_equal(signals_open(&signals, NULL), ERROR_NONE);
    signals_close(&signals);
    sigset_t after;
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hands_over_each_signal_once),
        cmocka_unit_test(returns_when_the_time_is_over),
        cmocka_unit_test(returns_when_the_other_descriptor_is_readable),
        cmocka_unit_test(a_peer_that_hung_up_does_not_kill),
        cmocka_unit_test(closing_gives_the_mask_back),
    };

    return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
