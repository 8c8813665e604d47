/* mailbox.c - queues of messages between threads. */
#include "sys/mailbox.h"

#include <assert.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static void mailbox_init_messages(struct mailbox *mailbox)
{
    list_init(&mailbox->messages_);
    mailbox->is_woken_ = false;
    mailbox->loop_ = NULL;
    pthread_mutex_init(&mailbox->lock_, NULL);
}

enum error_code mailbox_init(struct mailbox *mailbox)
{
    mailbox->fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mailbox->fd_ < 0)
        return ERROR_IO;
    mailbox_init_messages(mailbox);
    return ERROR_NONE;
}

void mailbox_init_in(struct mailbox *mailbox, struct event_loop *loop)
{
    assert(loop);
    mailbox->fd_ = -1;
    mailbox_init_messages(mailbox);
    mailbox->loop_ = loop;
}

void mailbox_deinit(struct mailbox *mailbox)
{
    pthread_mutex_destroy(&mailbox->lock_);
    if (!mailbox->loop_)
        close(mailbox->fd_);
}

/* Locks the mailbox. Returns true if the reader may be asleep. */
static bool mailbox_lock(struct mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock_);
    return list_is_empty(&mailbox->messages_) && !mailbox->is_woken_;
}

/* Unlocks the mailbox, and wakes the reader if `was_empty`. */
static void mailbox_unlock(struct mailbox *mailbox, bool was_empty)
{
    /* The reader may free the mailbox as soon as it can take the last message. */
    struct event_loop *const loop = was_empty ? mailbox->loop_ : NULL;

    /* Written under the lock, as in mailbox_take, so that the descriptor is readable exactly while
     * there is something to take. */
    if (was_empty && !mailbox->loop_)
        eventfd_write(mailbox->fd_, 1);
    pthread_mutex_unlock(&mailbox->lock_);
    /* After unlocking, because the reader that wakes up would wait for the lock. */
    if (loop)
        event_loop_wake(loop);
}

void mailbox_post(struct mailbox *mailbox, struct list *message)
{
    const bool was_empty = mailbox_lock(mailbox);

    list_push(&mailbox->messages_, message);
    mailbox_unlock(mailbox, was_empty);
}

void mailbox_post_all(struct mailbox *mailbox, struct list *messages)
{
    assert(messages != &mailbox->messages_);
    if (list_is_empty(messages))
        return;
    const bool was_empty = mailbox_lock(mailbox);
    list_join(&mailbox->messages_, messages);
    mailbox_unlock(mailbox, was_empty);
}

void mailbox_wake(struct mailbox *mailbox)
{
    const bool was_empty = mailbox_lock(mailbox);

    mailbox->is_woken_ = true;
    mailbox_unlock(mailbox, was_empty);
}

void mailbox_take(struct mailbox *mailbox, struct list *ret_messages)
{
    pthread_mutex_lock(&mailbox->lock_);
    if (!list_is_empty(&mailbox->messages_) || mailbox->is_woken_) {
        list_join(ret_messages, &mailbox->messages_);
        mailbox->is_woken_ = false;
        eventfd_t count;
        if (!mailbox->loop_)
            eventfd_read(mailbox->fd_, &count);
    }
    pthread_mutex_unlock(&mailbox->lock_);
}

bool mailbox_has_news(struct mailbox *mailbox)
{
    const bool is_empty = mailbox_lock(mailbox);

    pthread_mutex_unlock(&mailbox->lock_);
    return !is_empty;
}

void mailbox_wait(struct mailbox *mailbox, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                               .tv_nsec = (long)(timeout_ns % 1000000000)};
    struct pollfd wanted = {.fd = mailbox->fd_, .events = POLLIN};

    assert(!mailbox->loop_ && mailbox->fd_ >= 0); /* a mailbox of a loop has no descriptor */
    ppoll(&wanted, 1, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL);
}
