/* Goal: keys arrive at once and without an echo, and the terminal is afterwards as it was.
 * Method: a pseudo-terminal whose other end types; a pipe, which is no terminal. */
#include "sys/terminal.h"

#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The child has the terminal as its own. Returns 0 when all was as it should be. */
static int terminal_test_child(void)
{
    struct termios before, after;
    struct terminal terminal;

    tcgetattr(STDIN_FILENO, &before);
    terminal_open(&terminal, STDIN_FILENO);
    if (terminal_fd(&terminal) != STDIN_FILENO || terminal_key(&terminal) != 0)
        return 1;
    if (write(STDOUT_FILENO, ">", 1) != 1)
        return 2;
    int key;
    while ((key = terminal_key(&terminal)) == 0)
        ;
    terminal_close(&terminal);
    tcgetattr(STDIN_FILENO, &after);
    if (after.c_lflag != before.c_lflag || terminal_key(&terminal) != 0)
        return 3;
    return key == 'q' ? 0 : 4;
}

static void a_key_arrives_at_once_and_without_echo(void **state)
{
    (void)state;
    char shown[16];
    int other, status;
    pid_t pid = forkpty(&other, NULL, NULL, NULL);

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(terminal_test_child());
    assert_int_equal(read(other, shown, 1), 1);
    assert_int_equal(shown[0], '>');
    assert_int_equal(write(other, "q", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    /* No echo of the key: the end of the terminal follows. */
    assert_true(read(other, shown, sizeof(shown)) <= 0);
    close(other);
}

static void a_pipe_has_no_keys(void **state)
{
    (void)state;
    struct terminal terminal;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "q", 1), 1);
    terminal_open(&terminal, ends[0]);
    assert_int_equal(terminal_fd(&terminal), -1);
    assert_int_equal(terminal_key(&terminal), 0);
    terminal_close(&terminal);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_arrives_at_once_and_without_echo),
        cmocka_unit_test(a_pipe_has_no_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
