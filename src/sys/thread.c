/* Starts a thread and names it. */
#include "sys/thread.h"

#include <stdarg.h>
#include <stdio.h>

int thread_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument,
                 const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    char name[THREAD_NAME_SIZE];
    vsnprintf(name, sizeof(name), format, arguments);
    va_end(arguments);

    int error = pthread_create(ret_thread, NULL, run, argument);

    if (!error) /* the name serves people alone: without it the thread works as well */
        (void)pthread_setname_np(*ret_thread, name);
    return error;
}
