/*
 * Goal: every socket that is ready for what is wanted of it is reported, no other is, and none of
 * the shortcuts of poller.c makes a wait return for nothing or sleep through an event. Method:
 * socket pairs, put on chosen descriptors where the number matters.
 */
#include "delivery/poller.h"

#include "sys/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define FD       200 /* used again and again */
#define PAUSE_MS 30
#define LIMIT_MS 30000 /* only a failing test waits so long */

/* A connection whose near end is `fd`; returns the far end. */
static int make_pair(int fd)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(dup2(fds[0], fd), fd);
    close(fds[0]);
    return fds[1];
}

static void assert_ready(struct poller *poller, int fd, unsigned ready)
{
    static struct poller_event events[POLLER_EVENTS_MAX];

    assert_int_equal(poller_wait(poller, LIMIT_MS, events), 1);
    assert_int_equal(events[0].fd, fd);
    assert_int_equal(events[0].ready, ready);
}

/* Nothing is reported; after the first such wait the kernel knows it, and the next lasts its time.
 */
static void assert_quiet(struct poller *poller)
{
    static struct poller_event events[POLLER_EVENTS_MAX];

    assert_int_equal(poller_wait(poller, 0, events), 0);
    struct instant start = instant_now();
    assert_int_equal(poller_wait(poller, PAUSE_MS, events), 0);
    assert_true(instant_since_ns(start, instant_now()) >= PAUSE_MS * 1000000ull);
}

/* The same questions to a socket whose closing is announced and to one that is not. */
static void check_interest(bool is_adopted)
{
    struct poller poller;
    int far = make_pair(FD);

    assert_int_equal(poller_open(&poller), ERROR_NONE);
    if (is_adopted)
        assert_true(poller_adopt(&poller, FD));
    poller_want(&poller, FD, POLLER_OUT);
    assert_ready(&poller, FD, POLLER_OUT);
    poller_want(&poller, FD, POLLER_IN);
    assert_quiet(&poller);
    assert_int_equal(write(far, "x", 1), 1);
    assert_ready(&poller, FD, POLLER_IN);
    poller_want(&poller, FD, 0);
    assert_quiet(&poller);
    poller_want(&poller, FD, POLLER_IN | POLLER_OUT);
    assert_ready(&poller, FD, POLLER_IN | POLLER_OUT);
    char byte;
    assert_int_equal(read(FD, &byte, 1), 1);
    assert_ready(&poller, FD, POLLER_OUT);
    poller_want(&poller, FD, 0);
    poller_want(&poller, FD, POLLER_IN); /* back before anyone waited */
    assert_quiet(&poller);
    assert_int_equal(write(far, "x", 1), 1);
    assert_ready(&poller, FD, POLLER_IN);
    poller_want(&poller, FD, 0);
    close(far);
    assert_quiet(&poller); /* a hang-up that nobody wants to hear of */
    poller_want(&poller, FD, POLLER_IN);
    assert_ready(&poller, FD, POLLER_IN | POLLER_FAILED);
    poller_forget(&poller, FD);
    close(FD);
    poller_close(&poller);
}

static void test_interest(void **state)
{
    (void)state;
    check_interest(true);
    check_interest(false);
}

/* A number that comes to stand for another socket, announced or not, is watched anew. */
static void test_same_number(void **state)
{
    (void)state;
    struct poller poller;
    assert_int_equal(poller_open(&poller), ERROR_NONE);
    for (int before = 0; before < 2; before++) {
        for (int after = 0; after < 2; after++) {
            int far = make_pair(FD);
            if (before)
                assert_true(poller_adopt(&poller, FD));
            poller_want(&poller, FD, POLLER_IN);
            assert_quiet(&poller);
            poller_want(&poller, FD, 0);
            if (before)
                poller_forget(&poller, FD);
            close(FD);
            close(far);
            far = make_pair(FD);
            if (after)
                assert_true(poller_adopt(&poller, FD));
            poller_want(&poller, FD, POLLER_IN);
            assert_int_equal(write(far, "x", 1), 1);
            assert_ready(&poller, FD, POLLER_IN);
            poller_want(&poller, FD, 0);
            poller_forget(&poller, FD);
            close(FD);
            close(far);
        }
    }
    poller_close(&poller);
}

/* More descriptors than one wait reports: the others come with the next. */
static void test_poller_many(void **state)
{
    static struct poller_event events[POLLER_EVENTS_MAX];
    enum { MANY = POLLER_EVENTS_MAX + 100 };
    static int fds[MANY];
    static bool seen[4096];
    int far = make_pair(FD);

    (void)state;
    struct poller poller;
    assert_int_equal(poller_open(&poller), ERROR_NONE);
    for (int i = 0; i < MANY; i++) {
        fds[i] = dup(FD);
        assert_in_range(fds[i], 0, sizeof(seen) - 1);
        assert_true(poller_adopt(&poller, fds[i]));
        poller_want(&poller, fds[i], POLLER_OUT);
    }
    size_t seen_count = 0;
    while (seen_count < MANY) {
        size_t count = poller_wait(&poller, LIMIT_MS, events);

        assert_in_range(count, 1, POLLER_EVENTS_MAX);
        for (size_t i = 0; i < count; i++) {
            seen_count += !seen[events[i].fd];
            seen[events[i].fd] = true;
        }
    }
    for (int i = 0; i < MANY; i++) {
        poller_forget(&poller, fds[i]);
        close(fds[i]);
    }
    poller_forget(&poller, 1 << 20); /* never heard of */
    close(FD);
    close(far);
    poller_close(&poller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interest),
        cmocka_unit_test(test_same_number),
        cmocka_unit_test(test_poller_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
