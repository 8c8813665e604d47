/*
 * thread.h - the threads of runners and executors: how they start, how they wait for one another,
 * and whether fork left them behind.
 */
#ifndef TICKWHEEL_THREAD_H
#define TICKWHEEL_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

/* Creates a thread with all signals blocked, because the program's own threads handle signals. */
static inline bool thread_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_made = pthread_create(ret_thread, NULL, run, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_made;
}

/* Initializes a mutex. Where the system can, its holder inherits the priority of threads that wait
 * for it. Returns false if the system cannot create a mutex. */
static inline bool thread_mutex_init(pthread_mutex_t *mutex)
{
    bool is_made = false;
#ifdef _POSIX_THREAD_PRIO_INHERIT
    pthread_mutexattr_t attributes;

    if (pthread_mutexattr_init(&attributes) == 0) {
        is_made = pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0 &&
                  pthread_mutex_init(mutex, &attributes) == 0;
        pthread_mutexattr_destroy(&attributes);
    }
#endif
    return is_made || pthread_mutex_init(mutex, NULL) == 0;
}

/* True if the calling thread has a realtime policy. While it runs, threads of a lower priority do
 * not. */
static inline bool thread_is_realtime(void)
{
    struct sched_param parameters;
    int policy;

    return pthread_getschedparam(pthread_self(), &policy, &parameters) == 0 &&
           (policy == SCHED_FIFO || policy == SCHED_RR);
}

/* True if this process was forked from the process `owner`, whose threads do not run here. Their
 * locks may be locked for ever, so waiting for them would never end. */
static inline bool thread_is_forked(pid_t owner)
{
    return getpid() != owner;
}

#endif
