/* Goal: a thread carries the name that it was given. Method: the system is asked for it. */
#include "sys/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void *thread_wait_for_end(void *argument)
{
    pthread_barrier_wait(argument);
    return argument;
}

static void assert_thread_name(const char *given, const char *expected)
{
    pthread_barrier_t barrier;

    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    pthread_t thread;
    assert_int_equal(thread_start(&thread, thread_wait_for_end, &barrier, "%s", given), 0);
    char name[THREAD_NAME_SIZE];
    assert_int_equal(pthread_getname_np(thread, name, sizeof(name)), 0);
    assert_string_equal(name, expected);
    pthread_barrier_wait(&barrier);
    void *result;
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &barrier);
    pthread_barrier_destroy(&barrier);
}

static void test_thread_names(void **state)
{
    (void)state;
    assert_thread_name("shard-0", "shard-0");
    assert_thread_name("broker-a-long-name", "broker-a-long-n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_thread_names)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
