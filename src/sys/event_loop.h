/*
 * event_loop.h - the loop of one thread that serves several tasks: sockets, messages, time.
 *
 *     static void reader_ready(struct event_source *source, uint32_t events) { ... }
 *     struct event_task task = {.begin = ..., .end = ..., .wait_ns = ...};
 *
 *     event_loop_join(&loop, &task);
 *     event_loop_watch(&loop, socket, &source, EPOLLIN | EPOLLET);
 *     while (!is_over)
 *         event_loop_turn(&loop);
 *
 * A turn waits until a descriptor is ready, another thread has called event_loop_wake or a task has
 * something to do; calls `ready` of each source that is; then `begin` of every task, and then `end`
 * of every task, both in the order in which they joined. So a task takes input in `begin`, tasks
 * that joined before it work in `end`, and it sends in `end` what came of that.
 *
 * A wake-up costs a system call only while the thread sleeps: messages between the tasks of one
 * loop cost none.
 *
 * A kept-alive connection loses its interest at the end of a request and gains it back at the start
 * of the next. So an interest that shrinks is only noted. If an event arrives that is no longer
 * wanted, it is dropped, and only then the kernel is told.
 *
 * Time       wait_ns is asked after the loop has said that it sleeps: a task that looks for its
 *            messages there misses none.
 * Ownership  Sources and tasks are the caller's. A source may be freed after event_loop_close or
 *            event_loop_ignore, also within a call of `ready`.
 * Threads    event_loop_init, _deinit, _join and _wake on any thread, and the first
 *            event_loop_watch of a source; the rest on the loop's thread.
 */
#ifndef TICKWHEEL_SYS_EVENT_LOOP_H
#define TICKWHEEL_SYS_EVENT_LOOP_H

#include "base/error.h"
#include "base/list.h"
#include "base/time.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>

/* A descriptor that the loop watches. Embed it, all zero except for `ready`. */
struct event_source {
    /* `events` are bits such as EPOLLIN */
    void (*ready)(struct event_source *source, uint32_t events);
    int fd_;
    /* events that the caller wants; events that the kernel watches for, 0 if none */
    uint32_t wanted_, watched_;
};

/* A task of the loop. Embed it, and set the functions. */
struct event_task {
    struct list link_;
    void (*begin)(struct event_task *task); /* may be NULL */
    void (*end)(struct event_task *task);
    /* Returns for how many nanoseconds the task has nothing to do if no event comes. 0 asks for a
     * turn at once, UINT64_MAX means no limit. */
    uint64_t (*wait_ns)(struct event_task *task);
};

struct event_loop {
    int epoll_, wake_; /* descriptors of epoll and of an eventfd */
    atomic_bool is_asleep_;
    atomic_bool has_joining_;
    atomic_uint set_count_; /* orders writes of other threads before their event_loop_watch */
    pthread_mutex_t lock_;
    struct list joining_; /* tasks that have joined and had no turn yet; guarded by lock_ */
    struct list tasks_;
    struct instant now_;
    struct epoll_event *events_; /* events of this turn that were not handled yet */
    int event_count_;
    bool has_thread_;
    pthread_t thread_; /* thread that runs the turns; valid after the first turn */
};

/* Returns ERROR_IO if the process has no descriptor left. */
enum error_code event_loop_init(struct event_loop *loop);
void event_loop_deinit(struct event_loop *loop);

/* Adds a task. Its first turn comes soon, and before that of any source that is watched later. */
void event_loop_join(struct event_loop *loop, struct event_task *task);

/* Removes a task. Called within its `end`; it gets no more calls. */
void event_loop_leave(struct event_loop *loop, struct event_task *task);

/* Calls `ready` when the descriptor has one of these events, EPOLLERR or EPOLLHUP, until the source
 * is closed or ignored. A later call replaces the events; 0 means none. Returns false, with errno,
 * if the kernel does not watch for all of them. */
bool event_loop_watch(struct event_loop *loop, int fd, struct event_source *source,
                      uint32_t events);

/* Drops the source's pending events, and stops watching it. */
void event_loop_ignore(struct event_loop *loop, struct event_source *source);

/* Like event_loop_ignore, and closes the descriptor. Returns the result of close(). */
int event_loop_close(struct event_loop *loop, int fd, struct event_source *source);

/* Waits until there is something to do, and runs a turn. */
void event_loop_turn(struct event_loop *loop);

/* Ends the current or next wait. */
void event_loop_wake(struct event_loop *loop);

/* Returns when the turn began. On the loop's thread only. */
static inline struct instant event_loop_now(const struct event_loop *loop)
{
    return loop->now_;
}

#endif
