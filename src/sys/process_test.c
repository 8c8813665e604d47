/*
 * Goal: the process knows its own memory and its limit of files, names its threads, and starts and
 * ends children.
 * Method: memory that was touched must show; limits are compared with getrlimit; children report
 * what they find by their exit codes.
 */
#include "sys/process.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void sees_memory_that_was_touched(void **state)
{
    enum { SIZE = 64 << 20 };
    uint64_t before = process_memory_bytes();
    char *block = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(block != MAP_FAILED);
    memset(block, 1, SIZE);
    uint64_t after = process_memory_bytes();
    munmap(block, SIZE);
    assert_true(before > 0);
    assert_true(after >= before + SIZE / 2);
}

/* Large blocks are freed, and small ones between them live on, as answers that clients read slowly
 * leave them: the memory of the large ones returns, although such a block was freed before. */
static void returns_the_memory_of_large_blocks(void **state)
{
    enum { COUNT = 64, SIZE = 2 << 20 };
    char *large[COUNT], *small[COUNT];

    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* another allocator */
#endif
    process_return_memory();
    free(memset(malloc(2 * SIZE), 1, 2 * SIZE));
    const uint64_t before = process_memory_bytes();
    for (size_t i = 0; i < COUNT; i++) {
        large[i] = malloc(SIZE);
        small[i] = malloc(64);
        assert_non_null(large[i]);
        assert_non_null(small[i]);
        memset(large[i], 1, SIZE);
    }
    assert_true(process_memory_bytes() >= before + COUNT / 2 * (uint64_t)SIZE);
    for (size_t i = 0; i < COUNT; i++)
        free(large[i]);
    assert_true(process_memory_bytes() <= before + COUNT / 16 * (uint64_t)SIZE);
    for (size_t i = 0; i < COUNT; i++)
        free(small[i]);
}

static void counts_its_files_and_its_processor_time(void **state)
{
    (void)state;
    const uint64_t files = process_file_count();
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && files > 0);
    assert_int_equal(process_file_count(), files + 1);
    close(fd);
    assert_int_equal(process_file_count(), files);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(process_file_limit(), limit.rlim_cur);
    const uint64_t before_us = process_cpu_us();
    while (process_cpu_us() < before_us + 1000)
        continue; /* it goes on while this thread works */
}

static void raises_the_limit_of_files_and_never_lowers_it(void **state)
{
    (void)state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(process_raise_file_limit(10) == 64);
    assert_true(process_raise_file_limit(100) == 100);
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_true(now.rlim_cur == 100);
    assert_true(process_raise_file_limit(UINT64_MAX - 1) == limit.rlim_max);
    assert_true(process_file_limit_max() == limit.rlim_max);
}

/* In a process of its own, for the test needs its output. */
static void holds_the_standard_files(void **state)
{
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        if (!process_hold_standard_files() || fcntl(STDIN_FILENO, F_GETFD) < 0 ||
            fcntl(STDOUT_FILENO, F_GETFD) < 0)
            _exit(1);
        _exit(write(STDOUT_FILENO, "x", 1) < 0 && process_hold_standard_files() ? 0 : 2);
    }
    assert_true(child > 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_file_is_no_terminal(void **state)
{
    int fd = open("/dev/null", O_RDONLY);

    (void)state;
    assert_false(process_is_terminal(fd));
    close(fd);
    assert_false(process_is_terminal(-1));
}

static void knows_its_cores(void **state)
{
    (void)state;
    assert_true(process_cores() >= 1);
    assert_true(process_cores() <= (unsigned)sysconf(_SC_NPROCESSORS_CONF));
}

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

/* Method: the system is asked for the name. */
static void threads_carry_their_names(void **state)
{
    (void)state;
    assert_thread_name("shard-0", "shard-0");
    assert_thread_name("broker-a-long-name", "broker-a-long-n");
}

static void a_thread_knows_the_time_that_it_used(void **state)
{
    const uint64_t before_ns = thread_used_ns();

    (void)state;
    while (thread_used_ns() < before_ns + 1000000)
        continue;
    assert_true(thread_used_ns() >= before_ns + 1000000);
}

/* Waits for the end of a child and returns its code. */
static int process_test_wait(struct process_child *child)
{
    struct pollfd ended = {.fd = child->ended_fd, .events = POLLIN};
    int code = -1;

    assert_int_equal(poll(&ended, 1, 60000), 1);
    assert_true(process_ended(child, &code));
    assert_int_equal(child->input_fd, -1);
    return code;
}

static void starts_a_program_with_its_input_and_environment(void **state)
{
    char *arguments[] = {(char[]){"sh"}, (char[]){"-c"},
                         (char[]){"read line && test \"$line\" = \"$WANTED\" || exit 9; exit 7"},
                         NULL};
    char *environment[] = {(char[]){"WANTED=a text"}, NULL};
    struct process_child child;
    struct error error;

    (void)state;
    assert_int_equal(process_start(arguments, environment, PROCESS_IS_FREE, &child, &error),
                     ERROR_NONE);
    int code;
    assert_false(process_ended(&child, &code)); /* it waits for its input */
    assert_int_equal(process_write(&child, BYTES("a text\n")), 7);
    assert_int_equal(process_test_wait(&child), 7);
}

static void input_is_written_as_far_as_it_is_taken(void **state)
{
    enum { SIZE = 1 << 20 };
    char *arguments[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"test $(wc -c) = 1048576"}, NULL};
    char *environment[] = {(char[]){"PATH=/bin:/usr/bin"}, NULL};
    char *text = calloc(SIZE, 1);
    struct process_child child;
    size_t written = 0;

    (void)state;
    assert_int_equal(process_start(arguments, environment, PROCESS_IS_FREE, &child, NULL),
                     ERROR_NONE);
    while (child.input_fd >= 0) {
        struct pollfd wait = {.fd = child.input_fd, .events = POLLOUT};

        written += process_write(&child, (struct bytes){text + written, SIZE - written});
        if (child.input_fd >= 0)
            assert_int_equal(poll(&wait, 1, 60000), 1);
    }
    assert_int_equal(written, SIZE);
    assert_int_equal(process_test_wait(&child), 0);
    free(text);
}

static void a_child_is_asked_to_end_although_signals_are_blocked_here(void **state)
{
    char *arguments[] = {(char[]){"cat"}, NULL}, *environment[] = {NULL};
    struct process_child child;
    sigset_t mask, before;

    (void)state;
    sigfillset(&mask);
    sigprocmask(SIG_BLOCK, &mask, &before);
    assert_int_equal(process_start(arguments, environment, PROCESS_IS_FREE, &child, NULL),
                     ERROR_NONE);
    sigprocmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(getpgid(child.pid), child.pid);
    process_stop(&child);
    assert_int_equal(process_test_wait(&child), 128 + SIGTERM);
}

static void a_bound_child_ends_with_a_parent_that_is_killed(void **state)
{
    char *arguments[] = {(char[]){"sleep"}, (char[]){"1000"}, NULL}, *environment[] = {NULL};
    int report[2];
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(report), 0);
    const pid_t parent = fork();
    if (parent == 0) {
        struct process_child child;

        if (process_start(arguments, environment, PROCESS_IS_BOUND, &child, NULL) ||
            write(report[1], &child.pid, sizeof(child.pid)) != sizeof(child.pid))
            _exit(1);
        for (;;)
            pause();
    }
    assert_true(parent > 0);
    assert_int_equal(read(report[0], &pid, sizeof(pid)), sizeof(pid));
    struct pollfd ends = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    assert_true(ends.fd >= 0);
    assert_int_equal(poll(&ends, 1, 0), 0);
    kill(parent, SIGKILL);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_int_equal(poll(&ends, 1, 60000), 1);
    close(ends.fd);
    close(report[0]);
    close(report[1]);
}

static void a_program_that_is_not_there_is_an_error(void **state)
{
    char *arguments[] = {(char[]){"/nonexistent/program"}, NULL}, *environment[] = {NULL};
    struct process_child child;
    struct error error;

    (void)state;
    assert_int_equal(process_start(arguments, environment, PROCESS_IS_FREE, &child, &error),
                     ERROR_IO);
    assert_non_null(strstr(error.text, "/nonexistent/program"));
}

static int process_test_speak(void *context)
{
    const char *words = context;
    char input[8];

    printf("said %s", words);
    fprintf(stderr, "read %zd", read(STDIN_FILENO, input, sizeof(input)));
    return 7;
}

static int process_test_hang(void *context)
{
    (void)context;
    while (pause())
        ;
    return 0;
}

/* Reads until the other side closes the descriptor. */
static size_t process_test_read(int fd, char *to, size_t size)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    size_t count = 0;
    ssize_t got;

    while ((got = process_read(fd, to + count, size - count)) != 0)
        if (got > 0)
            count += (size_t)got;
        else
            assert_int_equal(poll(&ready, 1, -1), 1);
    return count;
}

static int process_test_await(struct process_branch *branch)
{
    struct pollfd ended = {.fd = branch->child.ended_fd, .events = POLLIN};
    int code;

    assert_int_equal(poll(&ended, 1, -1), 1);
    assert_true(process_ended(&branch->child, &code));
    process_branch_close(branch);
    return code;
}

static void a_branch_runs_a_function_whose_output_is_read(void **state)
{
    struct process_branch branch;
    struct error error;
    char text[64];

    (void)state;
    fflush(stdout);
    assert_int_equal(process_branch(process_test_speak, (char[]){"this"}, &branch, &error),
                     ERROR_NONE);
    assert_int_equal(process_test_read(branch.output_fd, text, sizeof(text)), 9);
    assert_memory_equal(text, "said this", 9);
    assert_int_equal(process_test_read(branch.error_fd, text, sizeof(text)), 6);
    assert_memory_equal(text, "read 0", 6);
    assert_int_equal(process_test_await(&branch), 7);
}

static void a_branch_is_asked_to_end(void **state)
{
    struct process_branch branch;
    struct error error;

    (void)state;
    fflush(stdout);
    assert_int_equal(process_branch(process_test_hang, NULL, &branch, &error), ERROR_NONE);
    process_stop(&branch.child);
    assert_int_equal(process_test_await(&branch), 128 + SIGTERM);
}

static void tries_threads_and_memory(void **state)
{
    const rlim_t little = 64 << 20;
    struct rlimit before, few;
    struct error error = {.text = ""};

    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* its allocator ends the process instead of refusing */
#endif
    assert_int_equal(process_try(8, 1 << 20, &error), ERROR_NONE);
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    few = (struct rlimit){little, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_DATA, &few), 0);
    assert_int_equal(process_try(1, 2 * little, &error), ERROR_NO_MEMORY);
    assert_non_null(
        strstr(error.text, "128 MiB of memory that are needed, RLIMIT_DATA is 67108864"));
    assert_int_equal(process_try(100, 1, &error), ERROR_NO_MEMORY);
    assert_non_null(strstr(error.text, "of the 100 threads that are needed"));
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tries_threads_and_memory),
        cmocka_unit_test(sees_memory_that_was_touched),
        cmocka_unit_test(returns_the_memory_of_large_blocks),
        cmocka_unit_test(counts_its_files_and_its_processor_time),
        cmocka_unit_test(raises_the_limit_of_files_and_never_lowers_it),
        cmocka_unit_test(holds_the_standard_files),
        cmocka_unit_test(a_file_is_no_terminal),
        cmocka_unit_test(knows_its_cores),
        cmocka_unit_test(threads_carry_their_names),
        cmocka_unit_test(a_thread_knows_the_time_that_it_used),
        cmocka_unit_test(starts_a_program_with_its_input_and_environment),
        cmocka_unit_test(input_is_written_as_far_as_it_is_taken),
        cmocka_unit_test(a_child_is_asked_to_end_although_signals_are_blocked_here),
        cmocka_unit_test(a_bound_child_ends_with_a_parent_that_is_killed),
        cmocka_unit_test(a_program_that_is_not_there_is_an_error),
        cmocka_unit_test(a_branch_runs_a_function_whose_output_is_read),
        cmocka_unit_test(a_branch_is_asked_to_end),
    };

    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
