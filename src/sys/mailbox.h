/*
 * mailbox.h - messages from many threads to one, taken many at a time. The reader waits on a file
 * descriptor of the mailbox, or in the loop that it runs.
 *
 * A message is any struct with a `struct list` in it. Posting allocates nothing, so it cannot fail;
 * the senders bound the number of messages.
 *
 * Ownership  A posted message is the reader's.
 * Threads    post and wake from any thread; the rest from the one reader.
 */
#ifndef TICKWHEEL_SYS_MAILBOX_H
#define TICKWHEEL_SYS_MAILBOX_H

#include "base/error.h"
#include "base/list.h"
#include "base/time.h"
#include "sys/event_loop.h"

#include <pthread.h>

struct mailbox {
    pthread_mutex_t lock_;
    struct list messages_; /* guarded by lock_ */
    bool is_woken_;        /* mailbox_wake was called after the last take; guarded by lock_ */
    int fd_; /* eventfd, readable while there are messages or is_woken_ is set; -1 with a loop */
    /* loop that is woken instead of the descriptor; NULL if there is none */
    struct event_loop *loop_;
};

/* Returns ERROR_IO if the process has no file descriptor left. */
enum error_code mailbox_init(struct mailbox *mailbox);

/* Makes a mailbox for a task of this loop. The task's wait_ns must call mailbox_has_news. */
void mailbox_init_in(struct mailbox *mailbox, struct event_loop *loop);
void mailbox_deinit(struct mailbox *mailbox);

/* Posts a message. Wakes the reader only if the mailbox was empty. */
void mailbox_post(struct mailbox *mailbox, struct list *message);

/* Posts every message of a list, and empties the list. */
void mailbox_post_all(struct mailbox *mailbox, struct list *messages);

/* Ends the current or next wait of the reader, without a message. */
void mailbox_wake(struct mailbox *mailbox);

/* Moves all messages posted so far to the end of `ret_messages`, oldest first. Does not wait. */
void mailbox_take(struct mailbox *mailbox, struct list *ret_messages);

/* True if there is something to take. */
bool mailbox_has_news(struct mailbox *mailbox);

/* Waits until there is something to take, for at most `timeout_ns`; UINT64_MAX means no limit. */
void mailbox_wait(struct mailbox *mailbox, uint64_t timeout_ns);

/* Returns a descriptor for epoll that is readable while there is something to take. */
static inline int mailbox_fd(const struct mailbox *mailbox)
{
    return mailbox->fd_;
}

#endif
