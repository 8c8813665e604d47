/* process.c - the limits, the terminal and the threads of this process. */
#include "sys/process.h"

#include "sys/files.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t process_memory_bytes(void)
{
    struct buffer text;

    buffer_init(&text);
    unsigned long long pages = 0;
    if (files_read("/proc/self/statm", 4096, &text, NULL) == ERROR_NONE) {
        buffer_append(&text, "", 1);
        /* The second number counts resident pages. */
        if (!buffer_failed(&text) && sscanf(text.data, "%*u %llu", &pages) != 1)
            pages = 0;
    }
    buffer_deinit(&text);
    return pages * (unsigned long long)sysconf(_SC_PAGESIZE);
}

unsigned process_cores(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? (unsigned)CPU_COUNT(&cores) : 1;
}

uint64_t process_raise_file_limit(uint64_t wanted)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    rlim_t before = limit.rlim_cur;
    if (before >= wanted)
        return before;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

void process_keep_files_private(void)
{
    umask(S_IRWXG | S_IRWXO);
}

bool process_is_terminal(int fd)
{
    return isatty(fd) == 1;
}

bool process_hold_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd)
            return false;
    return true;
}

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
