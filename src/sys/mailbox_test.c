/*
 * Goal: no message is lost, doubled or reordered, and no reader sleeps while one is there.
 * Method: single-threaded rules first; then several writers against one reader that only ever waits
 * without a time-out, so that one lost wake-up hangs the test.
 */
#include "sys/mailbox.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct message {
    struct list link;
    unsigned writer, number;
};

static bool is_readable(const struct mailbox *mailbox)
{
    struct pollfd wanted = {.fd = mailbox_fd(mailbox), .events = POLLIN};

    return poll(&wanted, 1, 0) == 1;
}

static void hands_out_in_the_order_of_posting(void **state)
{
    struct message messages[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};

    (void)state;
    struct mailbox mailbox;
    assert_int_equal(mailbox_init(&mailbox), ERROR_NONE);
    struct list taken;
    list_init(&taken);
    struct list several;
    list_init(&several);
    mailbox_post(&mailbox, &messages[0].link);
    list_push(&several, &messages[1].link);
    list_push(&several, &messages[2].link);
    mailbox_post_all(&mailbox, &several);
    assert_true(list_is_empty(&several));
    mailbox_take(&mailbox, &taken);
    mailbox_post(&mailbox, &messages[3].link);
    mailbox_take(&mailbox, &taken); /* joins what was taken before */
    unsigned next = 0;
    LIST_FOR_EACH (&taken, link)
        assert_int_equal(list_item(link, struct message, link)->number, next++);
    assert_int_equal(next, 4);
    mailbox_deinit(&mailbox);
}

static void is_readable_exactly_while_there_are_messages(void **state)
{
    (void)state;
    struct mailbox mailbox;
    assert_int_equal(mailbox_init(&mailbox), ERROR_NONE);
    struct list taken;
    list_init(&taken);
    assert_false(is_readable(&mailbox));
    mailbox_post_all(&mailbox, &taken); /* an empty list wakes nobody */
    assert_false(is_readable(&mailbox));
    mailbox_take(&mailbox, &taken);
    assert_true(list_is_empty(&taken));
    struct message message;
    mailbox_post(&mailbox, &message.link);
    assert_true(is_readable(&mailbox));
    mailbox_wait(&mailbox, UINT64_MAX);
    mailbox_take(&mailbox, &taken);
    assert_false(is_readable(&mailbox));
    mailbox_wait(&mailbox, 1000); /* returns without one */
    mailbox_deinit(&mailbox);
}

/* Goal: a wake-up without a message ends one wait, together with messages or without. Method: the
 * descriptor, after each order of waking, posting and taking. */
static void wakes_without_a_message(void **state)
{
    (void)state;
    struct mailbox mailbox;
    assert_int_equal(mailbox_init(&mailbox), ERROR_NONE);
    struct list taken;
    list_init(&taken);
    mailbox_wake(&mailbox);
    mailbox_wake(&mailbox);
    mailbox_wait(&mailbox, UINT64_MAX);
    mailbox_take(&mailbox, &taken);
    assert_true(list_is_empty(&taken));
    assert_false(is_readable(&mailbox));
    mailbox_wake(&mailbox);
    struct message message;
    mailbox_post(&mailbox, &message.link);
    mailbox_wake(&mailbox);
    mailbox_take(&mailbox, &taken);
    assert_false(list_is_empty(&taken));
    assert_false(is_readable(&mailbox));
    mailbox_deinit(&mailbox);
}

enum { WRITERS = 3, EACH = 20000 };

struct writer {
    struct mailbox *mailbox;
    struct message *messages;
    unsigned number;
};

static void *write_all(void *context)
{
    struct writer *writer = context;

    for (unsigned i = 0; i < EACH; i++) {
        writer->messages[i] = (struct message){.writer = writer->number, .number = i};
        mailbox_post(writer->mailbox, &writer->messages[i].link);
    }
    return NULL;
}

static void loses_nothing_between_threads(void **state)
{
    (void)state;
    struct mailbox mailbox;
    assert_int_equal(mailbox_init(&mailbox), ERROR_NONE);
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){&mailbox, calloc(EACH, sizeof(struct message)), i};
        assert_non_null(writers[i].messages);
        assert_int_equal(pthread_create(&threads[i], NULL, write_all, &writers[i]), 0);
    }
    unsigned next[WRITERS] = {0}, count = 0;
    while (count < WRITERS * EACH) {
        struct list taken;

        list_init(&taken);
        mailbox_wait(&mailbox, UINT64_MAX);
        mailbox_take(&mailbox, &taken);
        LIST_FOR_EACH (&taken, link) {
            struct message *message = list_item(link, struct message, link);

            assert_int_equal(message->number, next[message->writer]++);
            count++;
        }
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
        free(writers[i].messages);
        assert_int_equal(next[i], EACH);
    }
    mailbox_deinit(&mailbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hands_out_in_the_order_of_posting),
        cmocka_unit_test(is_readable_exactly_while_there_are_messages),
        cmocka_unit_test(wakes_without_a_message),
        cmocka_unit_test(loses_nothing_between_threads),
    };

    return cmocka_run_group_tests_name("mailbox", tests, NULL, NULL);
}
