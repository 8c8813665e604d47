/*
 * thread.h - threads with a name that tools of the system show (ps -L, top -H, /proc).
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_SYS_THREAD_H
#define TICKWHEEL_SYS_THREAD_H

#include <pthread.h>

#define THREAD_NAME_SIZE 16 /* with the NUL; the system takes no longer one */

/* pthread_create with a name, which is printf's and is cut to what the system takes. Returns 0 or
 * an errno. */
int thread_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
