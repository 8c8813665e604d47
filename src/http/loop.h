/*
 * loop.h - a thread that runs one libmicrohttpd daemon, and the socket that such threads listen on.
 *
 * The library could run threads by itself, but its own epoll loop (0.9.75) goes to sleep over ready
 * connections whenever exactly 128, 256, ... of them are ready at once: it asks epoll again, with
 * its whole timeout, before it looks at them. Driven from outside it never waits inside.
 *
 * Threads    start, quiesce and stop from one thread, loop_wake from any.
 */
#ifndef TICKWHEEL_HTTP_LOOP_H
#define TICKWHEEL_HTTP_LOOP_H

#include "base/error.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A socket that listens on a numeric address and port (0: any free one, told in `ret_port`). */
enum error_code loop_listen(const char *address, uint16_t port, int *ret_socket, uint16_t *ret_port,
                            struct error *ret_error);

struct loop_options {
    struct MHD_Daemon *daemon;     /* with epoll, without threads */
    int listener;                  /* it accepts from this */
    unsigned number;               /* shown in the name of the thread */
    void (*turned)(void *context); /* after each run of the daemon, on the loop's thread */
    void *context;
};

struct loop {
    struct MHD_Daemon *daemon_;
    void (*turned_)(void *context);
    void *context_;
    pthread_t thread_;
    int epoll_, wake_; /* file descriptors: the daemon's, and an eventfd to be heard */
    int listener_;     /* -1 from the moment that it is quiet */
    size_t accepted_;  /* connections so far; its own thread's */
    atomic_bool is_woken_;
    atomic_bool wants_quiet_, wants_stop_;
    pthread_mutex_t lock_;
    pthread_cond_t quiet_;
    bool is_quiet_; /* guarded by lock_ */
};

/* Runs the daemon until loop_stop; it and its listener stay the caller's. */
enum error_code loop_start(struct loop *loop, const struct loop_options *options,
                           struct error *ret_error);

/* To be called by the daemon's thread for each new connection. */
void loop_accepted(struct loop *loop);

/* After MHD_resume_connection: the library wakes only threads of its own. Any thread. */
void loop_wake(struct loop *loop);

/* Accepts no further connections. Returns when that is so. */
void loop_quiesce(struct loop *loop);

/* Ends the thread. Afterwards the daemon may be stopped. */
void loop_stop(struct loop *loop);

#endif
