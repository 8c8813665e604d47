/* event_loop.c - epoll, a wake-up for other threads, and the turns of the tasks. */
#include "sys/event_loop.h"

#include "sys/clock.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { EVENTS_MAX = 256 };

enum error_code event_loop_init(struct event_loop *loop)
{
    /* With EPOLLET each write is reported, so the eventfd need not be read. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.ptr = NULL}};

    loop->epoll_ = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll_ < 0 || loop->wake_ < 0 ||
        epoll_ctl(loop->epoll_, EPOLL_CTL_ADD, loop->wake_, &event) != 0) {
        if (loop->epoll_ >= 0)
            close(loop->epoll_);
        if (loop->wake_ >= 0)
            close(loop->wake_);
        return ERROR_IO;
    }
    atomic_init(&loop->is_asleep_, false);
    atomic_init(&loop->has_joining_, false);
    pthread_mutex_init(&loop->lock_, NULL);
    list_init(&loop->joining_);
    list_init(&loop->tasks_);
    loop->now_ = instant_now();
    loop->event_count_ = 0;
    loop->has_thread_ = false;
    return ERROR_NONE;
}

void event_loop_deinit(struct event_loop *loop)
{
    close(loop->epoll_);
    close(loop->wake_);
    pthread_mutex_destroy(&loop->lock_);
}

void event_loop_wake(struct event_loop *loop)
{
    if (atomic_exchange(&loop->is_asleep_, false))
        eventfd_write(loop->wake_, 1);
}

/* True if called on the thread that runs the loop's turns. */
static bool event_loop_is_here(const struct event_loop *loop)
{
    return loop->has_thread_ && pthread_equal(loop->thread_, pthread_self());
}

/* ---- tasks and sources ---- */

void event_loop_join(struct event_loop *loop, struct event_task *task)
{
    assert(task->end && task->wait_ns);
    pthread_mutex_lock(&loop->lock_);
    list_push(&loop->joining_, &task->link_);
    atomic_store(&loop->has_joining_, true);
    pthread_mutex_unlock(&loop->lock_);
    event_loop_wake(loop);
}

void event_loop_leave(struct event_loop *loop, struct event_task *task)
{
    assert(event_loop_is_here(loop));
    list_remove(&task->link_);
}

static void event_loop_take_joining(struct event_loop *loop)
{
    if (!atomic_load(&loop->has_joining_))
        return;
    pthread_mutex_lock(&loop->lock_);
    list_join(&loop->tasks_, &loop->joining_);
    atomic_store(&loop->has_joining_, false);
    pthread_mutex_unlock(&loop->lock_);
}

/* Tells the kernel which events to watch for. `watched_` is set first, because the source may
 * become ready on the loop's thread during the call. */
static bool event_loop_set(struct event_loop *loop, struct event_source *source)
{
    struct epoll_event event = {.events = source->wanted_, .data = {.ptr = source}};
    const uint32_t before = source->watched_;
    const int operation = !source->wanted_ ? EPOLL_CTL_DEL : before ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    source->watched_ = source->wanted_;
    atomic_fetch_add_explicit(&loop->set_count_, 1, memory_order_release);
    if (epoll_ctl(loop->epoll_, operation, source->fd_, &event) == 0)
        return true;
    source->watched_ = before; /* the next call tries again */
    return false;
}

bool event_loop_watch(struct event_loop *loop, int fd, struct event_source *source, uint32_t events)
{
    source->fd_ = fd;
    source->wanted_ = events;
    return !(events & ~source->watched_) || event_loop_set(loop, source);
}

static void event_loop_drop(struct event_loop *loop, struct event_source *source)
{
    source->wanted_ = source->watched_ = 0;
    for (int i = 0; i < loop->event_count_; i++)
        if (loop->events_[i].data.ptr == source)
            loop->events_[i].data.ptr = NULL;
}

void event_loop_ignore(struct event_loop *loop, struct event_source *source)
{
    if (source->watched_)
        epoll_ctl(loop->epoll_, EPOLL_CTL_DEL, source->fd_, NULL);
    event_loop_drop(loop, source);
}

int event_loop_close(struct event_loop *loop, int fd, struct event_source *source)
{
    event_loop_drop(loop, source);
    return close(fd);
}

/* ---- turns ---- */

/* Returns for how many nanoseconds no task will have anything to do. */
static uint64_t event_loop_wait_ns(struct event_loop *loop)
{
    uint64_t wait_ns = atomic_load(&loop->has_joining_) ? 0 : UINT64_MAX;

    LIST_FOR_EACH (&loop->tasks_, link) {
        struct event_task *task = list_item(link, struct event_task, link_);
        const uint64_t task_ns = task->wait_ns(task);

        if (task_ns < wait_ns)
            wait_ns = task_ns;
    }
    return wait_ns;
}

/* Calls epoll_wait, with a time-out in nanoseconds if the kernel supports it (Linux 5.11). */
static int event_loop_poll(struct event_loop *loop, struct epoll_event events[EVENTS_MAX],
                           uint64_t wait_ns)
{
    const struct timespec timeout = {.tv_sec = (time_t)(wait_ns / 1000000000),
                                     .tv_nsec = (long)(wait_ns % 1000000000)};

    if (wait_ns == 0)
        return epoll_wait(loop->epoll_, events, EVENTS_MAX, 0);
    if (wait_ns == UINT64_MAX)
        return epoll_wait(loop->epoll_, events, EVENTS_MAX, -1);
    const int count = epoll_pwait2(loop->epoll_, events, EVENTS_MAX, &timeout, NULL);
    if (count >= 0 || errno == EINTR)
        return count;
    const uint64_t wait_ms = wait_ns / 1000000 + 1;
    return epoll_wait(loop->epoll_, events, EVENTS_MAX, wait_ms < INT32_MAX ? (int)wait_ms : -1);
}

/* Calls `ready`, which may free the source. */
static void event_loop_handle(struct event_loop *loop, struct event_source *source, uint32_t events)
{
    const uint32_t heard = source->wanted_ ? source->wanted_ | EPOLLERR | EPOLLHUP : 0;

    if (events & ~heard)
        event_loop_set(loop, source);
    if (events & heard)
        source->ready(source, events & heard);
}

void event_loop_turn(struct event_loop *loop)
{
    struct epoll_event events[EVENTS_MAX];

    if (!loop->has_thread_)
        loop->thread_ = pthread_self();
    loop->has_thread_ = true;
    assert(event_loop_is_here(loop));
    atomic_store(&loop->is_asleep_, true);
    const uint64_t wait_ns = event_loop_wait_ns(loop);
    if (wait_ns == 0)
        atomic_store(&loop->is_asleep_, false);
    const int count = event_loop_poll(loop, events, wait_ns);
    atomic_store(&loop->is_asleep_, false);
    atomic_load_explicit(&loop->set_count_, memory_order_acquire);
    loop->now_ = instant_now();
    event_loop_take_joining(loop);
    loop->events_ = events;
    loop->event_count_ = count;
    while (loop->event_count_ > 0) {
        const struct epoll_event event = *loop->events_++;

        loop->event_count_--;
        if (event.data.ptr)
            event_loop_handle(loop, event.data.ptr, event.events);
    }
    LIST_FOR_EACH (&loop->tasks_, link) {
        struct event_task *task = list_item(link, struct event_task, link_);

        if (task->begin)
            task->begin(task);
    }
    LIST_FOR_EACH (&loop->tasks_, link) {
        struct event_task *task = list_item(link, struct event_task, link_);

        task->end(task);
    }
}
