/* mailbox.c - queues of messages between threads. */
#include "sys/mailbox.h"

#include <assert.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum error_code mailbox_init(struct mailbox *mailbox)
{
    list_init(&mailbox->messages_);
    mailbox->is_woken_ = false;
    mailbox->fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mailbox->fd_ < 0)
        return ERROR_IO;
    pthread_mutex_init(&mailbox->lock_, NULL);
    return ERROR_NONE;
}

void mailbox_deinit(struct mailbox *mailbox)
{
    pthread_mutex_destroy(&mailbox->lock_);
    close(mailbox->fd_);
}

void mailbox_post(struct mailbox *mailbox, struct list *message)
{
    struct list messages;

    list_init(&messages);
    list_push(&messages, message);
    mailbox_post_all(mailbox, &messages);
}

void mailbox_post_all(struct mailbox *mailbox, struct list *messages)
{
    if (list_is_empty(messages))
        return;
    pthread_mutex_lock(&mailbox->lock_);
    bool was_empty = list_is_empty(&mailbox->messages_);
    list_join(&mailbox->messages_, messages);
    /* Within the lock, here and in mailbox_take: the descriptor is readable exactly while there is
     * something to take. */
    if (was_empty && !mailbox->is_woken_)
        eventfd_write(mailbox->fd_, 1);
    pthread_mutex_unlock(&mailbox->lock_);
}

void mailbox_wake(struct mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock_);
    if (list_is_empty(&mailbox->messages_) && !mailbox->is_woken_)
        eventfd_write(mailbox->fd_, 1);
    mailbox->is_woken_ = true;
    pthread_mutex_unlock(&mailbox->lock_);
}

void mailbox_take(struct mailbox *mailbox, struct list *ret_messages)
{
    pthread_mutex_lock(&mailbox->lock_);
    if (!list_is_empty(&mailbox->messages_) || mailbox->is_woken_) {
        list_join(ret_messages, &mailbox->messages_);
        mailbox->is_woken_ = false;
        eventfd_t count;
        eventfd_read(mailbox->fd_, &count);
    }
    pthread_mutex_unlock(&mailbox->lock_);
}

void mailbox_wait(struct mailbox *mailbox, uint64_t timeout_ns)
{
    mailbox_wait_any(&mailbox, 1, -1, timeout_ns);
}

void mailbox_wait_any(struct mailbox *const mailboxes[], size_t count, int other_fd,
                      uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                               .tv_nsec = (long)(timeout_ns % 1000000000)};

    assert(count <= MAILBOX_WAIT_MAX);
    struct pollfd wanted[MAILBOX_WAIT_MAX + 1];
    for (size_t i = 0; i < count; i++)
        wanted[i] = (struct pollfd){.fd = mailboxes[i]->fd_, .events = POLLIN};
    wanted[count] = (struct pollfd){.fd = other_fd, .events = POLLIN}; /* poll skips -1 */
    ppoll(wanted, count + 1, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL);
}
