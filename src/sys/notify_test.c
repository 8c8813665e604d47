/*
 * Goal: a service manager hears READY and STOPPING, on both kinds of address, and nobody else is
 * bothered. Method: the test is the service manager: it listens on a datagram socket.
 */
#include "sys/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* An environment holds texts that may be written to. */
#define TEXT(literal) ((char[]){literal})

/* Listens at `name`, where '@' begins an abstract one. */
static int notify_test_listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));

    assert_true(fd >= 0);
    memcpy(address.sun_path, name, strlen(name));
    if (*name == '@')
        address.sun_path[0] = '\0';
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    return fd;
}

static void check_heard(const char *name)
{
    char variable[200], text[64] = "";
    char *const environment[] = {TEXT("PATH=/bin"), variable, NULL};
    int fd = notify_test_listen_at(name);

    snprintf(variable, sizeof(variable), "NOTIFY_SOCKET=%s", name);
    struct notify notify;
    notify_init(&notify, environment);
    assert_int_equal(notify_send(&notify, "READY=1"), 7);
    assert_int_equal(recv(fd, text, sizeof(text), 0), 7);
    assert_memory_equal(text, "READY=1", 7);
    close(fd);
    /* Nobody listens any more: nothing goes out, nothing breaks. */
    assert_int_equal(notify_send(&notify, "STOPPING=1"), 0);
}

static void is_heard_on_a_path(void **state)
{
    char folder[] = "/tmp/tickwheel-notify-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(folder));
    char path[64];
    snprintf(path, sizeof(path), "%s/socket", folder);
    check_heard(path);
    unlink(path);
    rmdir(folder);
}

static void is_heard_on_an_abstract_name(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof(name), "@tickwheel-notify-%ld", (long)getpid());
    check_heard(name);
}

static void is_silent_when_nobody_asked(void **state)
{
    char *const none[] = {TEXT("XNOTIFY_SOCKET=/x"), TEXT("NOTIFY_SOCKETS=/x"), NULL};
    char *const empty[] = {TEXT("NOTIFY_SOCKET="), NULL};
    char *const relative[] = {TEXT("NOTIFY_SOCKET=run/socket"), NULL};
    char too_long[256] = "NOTIFY_SOCKET=/";
    char *const long_one[] = {too_long, NULL};
    char *const *environments[] = {none, empty, relative, long_one};

    (void)state;
    memset(too_long + strlen(too_long), 'x', 120);
    for (size_t i = 0; i < 4; i++) {
        struct notify notify;

        notify_init(&notify, environments[i]);
        assert_int_equal(notify_send(&notify, "READY=1"), 0);
        assert_true(notify_watchdog_interval_ms(&notify) == UINT64_MAX);
    }
}

static uint64_t interval(char *usec, char *pid)
{
    char *environment[] = {usec, pid, NULL};
    struct notify notify;

    notify_init(&notify, environment);
    return notify_watchdog_interval_ms(&notify);
}

static void the_watchdog_is_fed_twice_in_its_time(void **state)
{
    (void)state;
    char mine[64];
    snprintf(mine, sizeof(mine), "WATCHDOG_PID=%ld", (long)getpid());
    assert_true(interval(TEXT("WATCHDOG_USEC=30000000"), NULL) == 15000);
    assert_true(interval(TEXT("WATCHDOG_USEC=30000000"), mine) == 15000);
    assert_true(interval(TEXT("WATCHDOG_USEC=30000000"), TEXT("WATCHDOG_PID=1")) == UINT64_MAX);
    assert_true(interval(TEXT("WATCHDOG_USEC=1000"), NULL) == 1);
    assert_true(interval(TEXT("WATCHDOG_USEC=3x"), NULL) == UINT64_MAX);
    assert_true(interval(TEXT("WATCHDOG_USEC="), NULL) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_heard_on_a_path),
        cmocka_unit_test(is_heard_on_an_abstract_name),
        cmocka_unit_test(is_silent_when_nobody_asked),
        cmocka_unit_test(the_watchdog_is_fed_twice_in_its_time),
    };

    return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
