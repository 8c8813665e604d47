/* control.c - maps the page that a test and the layer share, and waits for the test. */
#include "control.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct control nothing = {.space_bytes = UINT64_MAX};
static struct control *mapped = &nothing;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void map(void)
{
    const char *path = getenv("FAULTS_CONTROL");
    long fd = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;

    if (fd < 0)
        return;
    long at = syscall(SYS_mmap, NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (at != -1)
        mapped = (struct control *)at; /* NOLINT: the call gives a number */
}

struct control *control_get(void)
{
    pthread_once(&once, map);
    return mapped;
}
