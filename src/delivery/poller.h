/*
 * poller.h - which sockets are ready: epoll, with as few calls to it as can be.
 *
 * A kept-alive connection loses its interest at the end of one request and gains it back at the
 * start of the next. So for a socket whose closing is announced (poller_adopt, poller_forget), an
 * interest that shrinks is only noted; the kernel learns of it when the socket becomes ready for
 * an interest that is gone. Other sockets are dealt with at once, for their number may come to
 * stand for another one.
 *
 * Errors     A socket that the kernel will not watch, or for which there is no memory, is not
 *            watched: a caller that waits for it without a time-out must check.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_DELIVERY_POLLER_H
#define TICKWHEEL_DELIVERY_POLLER_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POLLER_IN     1u
#define POLLER_OUT    2u
#define POLLER_FAILED 4u /* only in events: an error or a hang-up */

struct poller {
    int epoll_fd_;
    struct poller_socket *sockets_; /* by descriptor */
    size_t sockets_size_;
};

struct poller_event {
    int fd;
    unsigned ready; /* POLLER_... */
};

#define POLLER_EVENTS_MAX 512

/* ERROR_IO when the process has no descriptor left. */
enum error_code poller_open(struct poller *poller);
void poller_close(struct poller *poller);

/* From here on until poller_forget, the caller says when the descriptor is closed. False when out
 * of memory. */
bool poller_adopt(struct poller *poller, int fd);

/* To be called before the descriptor is closed; harmless for an unknown descriptor. */
void poller_forget(struct poller *poller, int fd);

/* POLLER_IN and POLLER_OUT, or 0 for none. False when the socket is not watched. */
bool poller_want(struct poller *poller, int fd, unsigned interest);

/* Waits up to `timeout_ms` (-1: for ever) and returns how many events there are. */
size_t poller_wait(struct poller *poller, int timeout_ms,
                   struct poller_event ret_events[POLLER_EVENTS_MAX]);

#endif
