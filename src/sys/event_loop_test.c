/*
 * Goal: a loop gives its tasks their turns in order, sleeps as long as all of them may, misses no
 * wake-up, and takes tasks in and lets them go while it runs; a source is ready for what is wanted
 * of it and for nothing else. Method: turns on the test's own thread, recorded, and what the kernel
 * watches as /proc shows it; then several threads that post to one that sleeps without a time-out,
 * so that one lost wake-up hangs the test.
 */
#include "sys/clock.h"
#include "sys/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Writes what it is called for into a text that tasks and sources share. */
struct recorder {
    struct event_task task;
    struct event_source source;
    char *record;
    char name;
    uint64_t wait_ns;
    unsigned turns_left; /* after which it leaves; 0: it stays */
    struct event_loop *loop;
};

static void record(const struct recorder *recorder, char what)
{
    const size_t size = strlen(recorder->record);

    snprintf(recorder->record + size, 64 - size, "%c%c ", recorder->name, what);
}

static void recorder_begin(struct event_task *task)
{
    record(list_item(task, struct recorder, task), 'b');
}

static void recorder_end(struct event_task *task)
{
    struct recorder *recorder = list_item(task, struct recorder, task);

    record(recorder, 'e');
    if (recorder->turns_left > 0 && --recorder->turns_left == 0)
        event_loop_leave(recorder->loop, task);
}

static uint64_t recorder_wait_ns(struct event_task *task)
{
    return list_item(task, struct recorder, task)->wait_ns;
}

static void recorder_ready(struct event_source *source, uint32_t events)
{
    const struct recorder *recorder = list_item(source, struct recorder, source);

    record(recorder, events & EPOLLIN ? 'i' : '?');
}

static void recorder_join(struct recorder *recorder, struct event_loop *loop, char *text, char name)
{
    *recorder = (struct recorder){
        .task = {.begin = recorder_begin, .end = recorder_end, .wait_ns = recorder_wait_ns},
        .source.ready = recorder_ready,
        .record = text,
        .name = name,
        .loop = loop};
    event_loop_join(loop, &recorder->task);
}

static void gives_each_task_its_turn(void **state)
{
    struct event_loop loop;
    struct recorder first, second;
    char text[64] = "";
    int ends[2];

    (void)state;
    assert_int_equal(event_loop_init(&loop), ERROR_NONE);
    assert_int_equal(pipe(ends), 0);
    recorder_join(&first, &loop, text, '1');
    first.task.begin = NULL;
    recorder_join(&second, &loop, text, '2');
    assert_true(event_loop_watch(&loop, ends[0], &second.source, EPOLLIN | EPOLLET));
    event_loop_turn(&loop);
    assert_string_equal(text, "2b 1e 2e ");
    text[0] = '\0';
    assert_int_equal(write(ends[1], "x", 1), 1);
    second.turns_left = 1;
    event_loop_turn(&loop);
    assert_string_equal(text, "2i 2b 1e 2e ");
    text[0] = '\0';
    event_loop_ignore(&loop, &second.source);
    assert_int_equal(write(ends[1], "x", 1), 1);
    event_loop_turn(&loop);
    assert_string_equal(text, "1e ");
    close(ends[0]);
    close(ends[1]);
    event_loop_deinit(&loop);
}

/* Method: the least of two waits, and a wake-up that came before the wait. */
static void waits_as_long_as_all_may(void **state)
{
    struct event_loop loop;
    struct recorder first, second;
    char text[64] = "";

    (void)state;
    assert_int_equal(event_loop_init(&loop), ERROR_NONE);
    recorder_join(&first, &loop, text, '1');
    recorder_join(&second, &loop, text, '2');
    event_loop_turn(&loop); /* does not wait: the tasks have just joined */
    first.wait_ns = UINT64_MAX;
    second.wait_ns = 1500000;
    const struct instant begun = instant_now();
    event_loop_turn(&loop);
    assert_true(instant_since_ns(begun, instant_now()) >= second.wait_ns);
    assert_true(instant_since_ns(begun, event_loop_now(&loop)) >= second.wait_ns);
    event_loop_deinit(&loop);
}

/* The near end of a socket pair, with what was last ready; closes `closes` when it is. */
struct near_end {
    struct event_source source;
    struct event_loop *loop;
    struct near_end *closes;
    uint32_t events;
    int fd, far;
};

static void near_ready(struct event_source *source, uint32_t events)
{
    struct near_end *end = list_item(source, struct near_end, source);

    end->events = events;
    if (end->closes)
        event_loop_close(end->loop, end->closes->fd, &end->closes->source);
    if (end->closes)
        memset(end->closes, 0xff, sizeof(*end->closes)); /* as if it was freed */
}

static void near_open(struct near_end *end, struct event_loop *loop)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    *end = (struct near_end){.source.ready = near_ready, .loop = loop, .fd = fds[0], .far = fds[1]};
}

static void assert_ready(struct near_end *end, uint32_t events)
{
    end->events = 0;
    event_loop_turn(end->loop);
    assert_int_equal(end->events, events);
}

/* The kernel watches the descriptor for these events, besides EPOLLERR and EPOLLHUP; 0: it does not
 * watch it. */
static void assert_watched(const struct near_end *end, uint32_t events)
{
    char path[64], line[256];
    unsigned watched = 0;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", end->loop->epoll_);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        const char *events_at = strstr(line, "events:");

        if (strncmp(line, "tfd:", 4) == 0 && strtol(line + 4, NULL, 10) == end->fd && events_at)
            watched = (unsigned)strtoul(events_at + 7, NULL, 16) & ~(EPOLLERR | EPOLLHUP);
    }
    fclose(file);
    assert_int_equal(watched, events);
}

/* Method: the kernel is told of more at once, of less when an event comes that is not wanted. */
static void keeps_an_interest_in_the_kernel(void **state)
{
    struct event_loop loop;
    struct recorder task; /* so that no turn waits */
    char text[64] = "", byte;
    struct near_end end;

    (void)state;
    assert_int_equal(event_loop_init(&loop), ERROR_NONE);
    recorder_join(&task, &loop, text, '1');
    near_open(&end, &loop);
    assert_true(event_loop_watch(&loop, end.fd, &end.source, EPOLLOUT));
    assert_ready(&end, EPOLLOUT);
    assert_true(event_loop_watch(&loop, end.fd, &end.source, EPOLLIN | EPOLLOUT));
    assert_watched(&end, EPOLLIN | EPOLLOUT);
    assert_true(event_loop_watch(&loop, end.fd, &end.source, EPOLLIN));
    assert_watched(&end, EPOLLIN | EPOLLOUT);
    assert_ready(&end, 0);
    assert_watched(&end, EPOLLIN);
    assert_int_equal(write(end.far, "x", 1), 1);
    assert_ready(&end, EPOLLIN);
    assert_true(event_loop_watch(&loop, end.fd, &end.source, 0));
    assert_watched(&end, EPOLLIN);
    assert_true(event_loop_watch(&loop, end.fd, &end.source, EPOLLIN));
    assert_ready(&end, EPOLLIN); /* back before anyone waited */
    assert_true(event_loop_watch(&loop, end.fd, &end.source, 0));
    assert_ready(&end, 0);
    assert_watched(&end, 0);
    assert_int_equal(read(end.fd, &byte, 1), 1);
    assert_true(event_loop_watch(&loop, end.fd, &end.source, EPOLLIN));
    assert_true(event_loop_watch(&loop, end.fd, &end.source, 0));
    close(end.far);
    assert_ready(&end, 0); /* a hang-up that nobody wants to hear of */
    assert_watched(&end, 0);
    assert_true(event_loop_watch(&loop, end.fd, &end.source, EPOLLIN));
    assert_ready(&end, EPOLLIN | EPOLLHUP);
    event_loop_close(&loop, end.fd, &end.source);
    event_loop_deinit(&loop);
}

/* Method: two are ready in one turn, and whichever comes first closes the other or itself, whose
 * memory is then void. */
static void closes_what_is_ready(void **state)
{
    struct event_loop loop;
    struct recorder task;
    char text[64] = "";

    (void)state;
    assert_int_equal(event_loop_init(&loop), ERROR_NONE);
    recorder_join(&task, &loop, text, '1');
    for (int others = 0; others < 2; others++) {
        struct near_end ends[2];

        for (int i = 0; i < 2; i++) {
            near_open(&ends[i], &loop);
            ends[i].closes = &ends[others ? 1 - i : i];
            assert_true(event_loop_watch(&loop, ends[i].fd, &ends[i].source, EPOLLOUT));
        }
        const int fds[] = {ends[0].fd, ends[1].fd}, fars[] = {ends[0].far, ends[1].far};
        event_loop_turn(&loop);
        for (int i = 0; i < 2; i++) {
            assert_true(others || ends[i].fd == -1);
            if (ends[i].fd != -1)
                assert_int_equal(event_loop_close(&loop, fds[i], &ends[i].source), 0);
            close(fars[i]);
        }
        assert_int_equal(ends[0].events & ends[1].events, others ? EPOLLOUT : UINT32_MAX);
    }
    event_loop_deinit(&loop);
}

enum { POSTERS = 3, POSTS = 20000 };

/* Counts the messages of its mailbox, and posts to the mailbox of the next task. */
struct post_counter {
    struct event_task task;
    struct mailbox mailbox, *next;
    size_t count;
};

static void counter_end(struct event_task *task)
{
    struct post_counter *counter = list_item(task, struct post_counter, task);
    struct list messages;

    list_init(&messages);
    mailbox_take(&counter->mailbox, &messages);
    for (struct list *link; (link = list_pop(&messages));) {
        counter->count++;
        if (counter->next)
            mailbox_post(counter->next, link);
    }
}

static uint64_t counter_wait_ns(struct event_task *task)
{
    return mailbox_has_news(&list_item(task, struct post_counter, task)->mailbox) ? 0 : UINT64_MAX;
}

static void *post_all(void *mailbox)
{
    static _Thread_local struct list messages[POSTS];

    for (size_t i = 0; i < POSTS; i++)
        mailbox_post(mailbox, &messages[i]);
    mailbox_wake(mailbox);
    return NULL;
}

/* Method: the second task gets its messages from the first one, in the turn before, and joins when
 * the loop may sleep already. */
static void misses_no_message(void **state)
{
    struct event_loop loop;
    struct post_counter counters[2] = {
        {.task = {.end = counter_end, .wait_ns = counter_wait_ns}},
        {.task = {.end = counter_end, .wait_ns = counter_wait_ns}},
    };
    pthread_t threads[POSTERS];

    (void)state;
    assert_int_equal(event_loop_init(&loop), ERROR_NONE);
    for (int i = 0; i < 2; i++) {
        mailbox_init_in(&counters[i].mailbox, &loop);
        event_loop_join(&loop, &counters[1 - i].task);
    }
    counters[0].next = &counters[1].mailbox;
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, &counters[0].mailbox), 0);
    while (counters[1].count < POSTERS * POSTS)
        event_loop_turn(&loop);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(counters[0].count, POSTERS * POSTS);
    for (int i = 0; i < 2; i++)
        mailbox_deinit(&counters[i].mailbox);
    event_loop_deinit(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_each_task_its_turn),
        cmocka_unit_test(waits_as_long_as_all_may),
        cmocka_unit_test(keeps_an_interest_in_the_kernel),
        cmocka_unit_test(closes_what_is_ready),
        cmocka_unit_test(misses_no_message),
    };

    return cmocka_run_group_tests_name("event_loop", tests, NULL, NULL);
}
