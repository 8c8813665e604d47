/*
 * thread.h - the threads of runners and executors: how they start, and whether fork left them
 * behind.
 */
#ifndef TICKWHEEL_THREAD_H
#define TICKWHEEL_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

/* Creates a thread with all signals blocked: signals are handled by the program's own threads. */
static inline bool thread_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_made = pthread_create(ret_thread, NULL, run, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_made;
}

/* Whether this process was forked from the one with number `owner`, whose threads do not run here.
 * Their locks may be locked for ever, and waiting for them would never end. */
static inline bool thread_is_forked(pid_t owner)
{
    return getpid() != owner;
}

#endif
