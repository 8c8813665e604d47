/*
 * Goal: a loop gives its tasks their turns in order, sleeps as long as all of them may, misses no
 * wake-up, and takes tasks in and lets them go while it runs. Method: turns on the test's own
 * thread, recorded; then several threads that post to one that sleeps without a time-out, so that
 * one lost wake-up hangs the test.
 */
#include "sys/clock.h"
#include "sys/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    event_loop_ignore(&loop, ends[0]);
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
        cmocka_unit_test(misses_no_message),
    };

    return cmocka_run_group_tests_name("event_loop", tests, NULL, NULL);
}
