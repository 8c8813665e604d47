/*
 * Goal: a write to an output that nobody reads returns at once, and the descriptor stays as it was.
 * Method: pipes, sockets and a file; a pipe is filled, read, and filled by a second writer.
 */
#include "sys/output.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static char line[OUTPUT_ATOMIC_MAX];

static void output_check(const int ends[2])
{
    struct output output;
    const int flags = fcntl(ends[1], F_GETFL);

    output_open(&output, ends[1]);
    size_t count = 0;
    while (output_write(&output, line, sizeof(line)) > 0)
        count++;
    assert_int_equal(errno, EAGAIN);
    assert_true(count > 0);
    assert_false(output_wait(&output, 0, -1));
    assert_int_equal(fcntl(ends[1], F_GETFL), flags);
    char room[sizeof(line)];
    while (!output_wait(&output, 0, -1))
        assert_true(read(ends[0], room, sizeof(room)) > 0);
    assert_true(output_write(&output, line, sizeof(line)) > 0);
    close(ends[0]);
    assert_true(output_wait(&output, 0, -1)); /* broken */
    assert_int_equal(output_write(&output, line, 1), -1);
    assert_int_not_equal(errno, EAGAIN);
    output_close(&output);
    close(ends[1]);
}

static void never_waits_for_a_reader(void **state)
{
    int ends[2];

    (void)state;
    signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    assert_int_equal(pipe(ends), 0);
    output_check(ends);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    output_check(ends);
}

static void writes_a_file(void **state)
{
    char path[] = "/tmp/output_test.XXXXXX", room[8] = "";
    const int fd = mkstemp(path);
    struct output output;

    (void)state;
    assert_true(fd >= 0);
    unlink(path);
    output_open(&output, fd);
    assert_true(output_wait(&output, 0, -1));
    assert_int_equal(output_write(&output, "abc", 3), 3);
    output_close(&output);
    assert_int_equal(pread(fd, room, sizeof(room), 0), 3);
    close(fd);
    output_open(&output, fd); /* closed: writes fail */
    assert_int_equal(output_write(&output, "abc", 3), -1);
    output_close(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_waits_for_a_reader),
        cmocka_unit_test(writes_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
