/*
 * refused.c - calls to the disk that powerloss.c does not follow. A process that makes one below
 * FAULTS_FOLDER is ended with a sentence; elsewhere they work as usual.
 */
#include "powerloss.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void check_path(const char *call, const char *path)
{
    if (powerloss_has_path(path))
        powerloss_refuse(call, path);
}

static void check_fd(const char *call, int fd)
{
    if (powerloss_has_fd(fd))
        powerloss_refuse(call, "a file of it");
}

/* ---- by path ---- */

int openat(int at, const char *path, int flags, ...)
{
    va_list more;

    va_start(more, flags);
    mode_t mode = 0;
    if (flags & (O_CREAT | __O_TMPFILE))
        mode = va_arg(more, mode_t);
    va_end(more);
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT))
        check_path("openat", path);
    return (int)syscall(SYS_openat, at, path, flags, mode);
}

int creat(const char *path, mode_t mode)
{
    check_path("creat", path);
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

FILE *fopen(const char *restrict path, const char *restrict mode)
{
    static FILE *(*real)(const char *, const char *);

    if (strpbrk(mode, "wa+"))
        check_path("fopen", path);
    pthread_mutex_lock(&lock);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    pthread_mutex_unlock(&lock);
    return real(path, mode);
}

int remove(const char *path)
{
    static int (*real)(const char *);

    check_path("remove", path);
    pthread_mutex_lock(&lock);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "remove");
    pthread_mutex_unlock(&lock);
    return real(path);
}

int truncate(const char *path, off_t size)
{
    check_path("truncate", path);
    return (int)syscall(SYS_truncate, path, size);
}

int link(const char *old, const char *new)
{
    check_path("link", old);
    check_path("link", new);
    return (int)syscall(SYS_link, old, new);
}

int linkat(int old_at, const char *old, int new_at, const char *new, int flags)
{
    check_path("linkat", new);
    return (int)syscall(SYS_linkat, old_at, old, new_at, new, flags);
}

int symlink(const char *target, const char *path)
{
    check_path("symlink", path);
    return (int)syscall(SYS_symlink, target, path);
}

int unlinkat(int at, const char *path, int flags)
{
    check_path("unlinkat", path);
    return (int)syscall(SYS_unlinkat, at, path, flags);
}

int renameat(int old_at, const char *old, int new_at, const char *new)
{
    check_path("renameat", old);
    check_path("renameat", new);
    return (int)syscall(SYS_renameat, old_at, old, new_at, new);
}

int renameat2(int old_at, const char *old, int new_at, const char *new, unsigned flags)
{
    check_path("renameat2", old);
    check_path("renameat2", new);
    return (int)syscall(SYS_renameat2, old_at, old, new_at, new, flags);
}

/* ---- by descriptor ---- */

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    check_fd("writev", fd);
    return syscall(SYS_writev, fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    check_fd("pwritev", fd);
    return syscall(SYS_pwritev, fd, parts, count, at, 0);
}

ssize_t sendfile(int out, int in, off_t *at, size_t size)
{
    check_fd("sendfile", out);
    return syscall(SYS_sendfile, out, in, at, size);
}

ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t size,
                        unsigned flags)
{
    check_fd("copy_file_range", out);
    return syscall(SYS_copy_file_range, in, in_at, out, out_at, size, flags);
}

int posix_fallocate(int fd, off_t at, off_t size)
{
    check_fd("posix_fallocate", fd);
    return syscall(SYS_fallocate, fd, 0, at, size) == 0 ? 0 : errno;
}

int dup(int fd)
{
    check_fd("dup", fd);
    return (int)syscall(SYS_dup, fd);
}

int dup2(int old, int new)
{
    check_fd("dup2", old);
    check_fd("dup2", new);
    return (int)syscall(SYS_dup2, old, new);
}

int dup3(int old, int new, int flags)
{
    check_fd("dup3", old);
    check_fd("dup3", new);
    return (int)syscall(SYS_dup3, old, new, flags);
}

int syncfs(int fd)
{
    check_fd("syncfs", fd);
    return (int)syscall(SYS_syncfs, fd);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if ((flags & MAP_SHARED) && (protection & PROT_WRITE))
        check_fd("mmap for writing", fd);
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

static int control_fd(int fd, int command, void *argument)
{
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        check_fd("fcntl F_DUPFD", fd);
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

int fcntl(int fd, int command, ...)
{
    va_list more;

    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return control_fd(fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
    va_list more;

    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return control_fd(fd, command, argument);
}

/* ---- the names for large files, which are equal calls on 64 bits ---- */

int openat64(int at, const char *path, int flags, ...) __attribute__((alias("openat")));
int creat64(const char *path, mode_t mode) __attribute__((alias("creat")));
FILE *fopen64(const char *restrict path, const char *restrict mode) __attribute__((alias("fopen")));
int truncate64(const char *path, off64_t size) __attribute__((alias("truncate")));
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at)
    __attribute__((alias("pwritev")));
ssize_t sendfile64(int out, int in, off64_t *at, size_t size) __attribute__((alias("sendfile")));
int posix_fallocate64(int fd, off64_t at, off64_t size) __attribute__((alias("posix_fallocate")));
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
    __attribute__((alias("mmap")));
