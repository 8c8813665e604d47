/*
 * powerloss.c - a disk that can lose power, fill up and fail, for LD_PRELOAD.
 *
 * Every call that changes something below FAULTS_FOLDER is done and then written into a journal, in
 * one order for all threads. A sync is only recorded: after a power cut faults.py derives from the
 * journal a folder as a disk may have kept it. The entry of a call is written after the call and
 * before it returns, so what a process knows to be synced is in the journal, however it ends.
 *
 * Covered is what src/sys does, as strace shows it: open, write, pwrite,
 * ftruncate, fallocate that keeps the size, sync_file_range (which promises nothing), fsync,
 * fdatasync, rename, unlink, mkdir, rmdir, close, statvfs. Any other call that would change
 * something there ends the process with a sentence: a test must not pass because a way to the disk
 * was overlooked (refused.c).
 */
#include "powerloss.h"

#include "control.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS_MAX    65536
#define JOURNAL_FD 60000
#define BLOCK      4096

enum entry_kind {
    ENTRY_START = 1, /* a new process: it has no file open */
    ENTRY_OPEN,      /* fd, flags in offset: 1 was made, 2 was emptied; path */
    ENTRY_CLOSE,
    ENTRY_WRITE, /* fd, offset, bytes */
    ENTRY_TRUNCATE,
    ENTRY_SYNC,
    ENTRY_SYNC_FAILED,
    ENTRY_RENAME, /* old path, a zero byte, new path */
    ENTRY_UNLINK,
    ENTRY_MKDIR,
    ENTRY_RMDIR,
};

struct powerloss_entry {
    uint32_t kind, fd;
    uint64_t offset, size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_watched[FDS_MAX];
static const char *folder;
static int journal = -1;

/* ---- the journal ---- */

void powerloss_refuse(const char *call, const char *path)
{
    dprintf(STDERR_FILENO, "powerloss: %s below %s is not covered: %s\n", call, folder, path);
    abort();
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS_JOURNAL");
    struct powerloss_entry entry = {.kind = ENTRY_START};

    folder = getenv("FAULTS_FOLDER");
    if (!path || !folder)
        return;
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    journal = fd < 0 ? -1 : (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, JOURNAL_FD);
    if (journal < 0)
        journal = fd; /* the limit of descriptors is low: any will do */
    else
        syscall(SYS_close, fd);
    if (journal < 0 || syscall(SYS_write, journal, &entry, sizeof(entry)) != sizeof(entry)) {
        dprintf(STDERR_FILENO, "powerloss: no journal at %s: %s\n", path, strerror(errno));
        abort();
    }
    atomic_store(&control_get()->steps, 0);
}

bool powerloss_has_path(const char *path)
{
    if (journal < 0 || !path)
        return false;
    size_t size = strlen(folder);
    return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

bool powerloss_has_fd(int fd)
{
    return journal >= 0 && fd >= 0 && fd < FDS_MAX && is_watched[fd];
}

/* With the lock held, like all functions below. The process may end here, before the step. */
static void step(void)
{
    struct control *control = control_get();
    uint64_t number = atomic_fetch_add(&control->steps, 1) + 1;

    if (number == atomic_load(&control->cut_at)) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;)
            pause();
    }
}

static void note(enum entry_kind kind, int fd, uint64_t offset, const void *data, size_t size)
{
    struct powerloss_entry entry = {(uint32_t)kind, (uint32_t)fd, offset, size};
    struct iovec parts[2] = {{&entry, sizeof(entry)}, {(void *)data, size}};
    int error = errno;

    if (syscall(SYS_writev, journal, parts, size ? 2 : 1) != (ssize_t)(sizeof(entry) + size)) {
        dprintf(STDERR_FILENO, "powerloss: the journal: %s\n", strerror(errno));
        abort();
    }
    errno = error;
}

static void note_path(enum entry_kind kind, const char *path)
{
    note(kind, 0, 0, path, strlen(path));
}

/* Counts one down, unless it is at zero already. */
static bool take_one(_Atomic uint64_t *count)
{
    uint64_t value = atomic_load(count);

    while (value)
        if (atomic_compare_exchange_weak(count, &value, value - 1))
            return true;
    return false;
}

/* ---- opening and closing ---- */

static int open_below(const char *path, int flags, mode_t mode)
{
    if (flags & (O_DIRECT | O_SYNC | O_DSYNC))
        powerloss_refuse("open with O_DIRECT, O_SYNC or O_DSYNC", path);
    pthread_mutex_lock(&lock);
    bool was_there = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
    if ((flags & O_TRUNC) || ((flags & O_CREAT) && !was_there))
        step();
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= FDS_MAX)
        powerloss_refuse("open of so many files", path);
    if (fd >= 0) {
        is_watched[fd] = true;
        note(ENTRY_OPEN, fd, (was_there ? 0 : 1) | ((flags & O_TRUNC) ? 2 : 0), path, strlen(path));
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

static int open_any(const char *path, int flags, mode_t mode)
{
    if (powerloss_has_path(path))
        return open_below(path, flags, mode);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define MODE_OF(flags, mode)                   \
    do {                                       \
        va_list more;                          \
        va_start(more, flags);                 \
        if ((flags) & (O_CREAT | __O_TMPFILE)) \
            (mode) = va_arg(more, mode_t);     \
        va_end(more);                          \
    } while (0)

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;

    MODE_OF(flags, mode);
    return open_any(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    mode_t mode = 0;

    MODE_OF(flags, mode);
    return open_any(path, flags | O_LARGEFILE, mode);
}

static void forget(int fd)
{
    if (!powerloss_has_fd(fd))
        return;
    is_watched[fd] = false;
    note(ENTRY_CLOSE, fd, 0, NULL, 0);
}

int close(int fd)
{
    if (fd == journal && journal >= 0)
        return 0;
    if (!powerloss_has_fd(fd))
        return (int)syscall(SYS_close, fd);
    pthread_mutex_lock(&lock);
    forget(fd);
    int result = (int)syscall(SYS_close, fd);
    pthread_mutex_unlock(&lock);
    return result;
}

/* Closes a descriptor that is hidden in a FILE. */
int fclose(FILE *file)
{
    static int (*real)(FILE *);

    pthread_mutex_lock(&lock);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fclose");
    forget(fileno(file));
    int result = real(file);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- contents ---- */

static uint64_t size_of(int fd)
{
    struct stat info;

    return fstat(fd, &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* How much of a write the disk takes; -1 with errno. Bytes behind the end of the file need room;
 * those before it have their blocks already. */
static ssize_t admit(int fd, uint64_t at, size_t size)
{
    struct control *control = control_get();
    uint64_t every = atomic_load(&control->short_every);
    uint64_t space = atomic_load(&control->space_bytes), end = size_of(fd);

    if (take_one(&control->writes_to_fail)) {
        atomic_fetch_add(&control->writes_failed, 1);
        errno = EIO;
        return -1;
    }
    if (every && size > 1 && atomic_load(&control->steps) % every == 0) {
        atomic_fetch_add(&control->shorts, 1);
        size /= 2;
    }
    uint64_t there = at < end ? end - at : 0;
    if (space == UINT64_MAX || size <= there)
        return (ssize_t)size;
    if (space == 0 && there == 0) {
        atomic_fetch_add(&control->refused_full, 1);
        errno = ENOSPC;
        return -1;
    }
    if (size - there > space)
        size = there + space;
    atomic_fetch_sub(&control->space_bytes, size - there);
    return (ssize_t)size;
}

static void give_back(uint64_t bytes)
{
    struct control *control = control_get();

    if (atomic_load(&control->space_bytes) != UINT64_MAX)
        atomic_fetch_add(&control->space_bytes, bytes);
}

ssize_t write(int fd, const void *data, size_t size)
{
    if (!powerloss_has_fd(fd))
        return syscall(SYS_write, fd, data, size);
    pthread_mutex_lock(&lock);
    step();
    bool appends = (syscall(SYS_fcntl, fd, F_GETFL) & O_APPEND) != 0;
    uint64_t at = appends ? size_of(fd) : (uint64_t)lseek(fd, 0, SEEK_CUR);
    ssize_t done = admit(fd, at, size);
    if (done >= 0)
        done = syscall(SYS_write, fd, data, (size_t)done);
    if (done > 0)
        note(ENTRY_WRITE, fd, at, data, (size_t)done);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    if (!powerloss_has_fd(fd))
        return syscall(SYS_pwrite64, fd, data, size, at);
    pthread_mutex_lock(&lock);
    step();
    ssize_t done = admit(fd, (uint64_t)at, size);
    if (done >= 0)
        done = syscall(SYS_pwrite64, fd, data, (size_t)done, at);
    if (done > 0)
        note(ENTRY_WRITE, fd, (uint64_t)at, data, (size_t)done);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t at)
{
    return pwrite(fd, data, size, at);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    if (powerloss_has_fd(fd) && take_one(&control_get()->reads_to_fail)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, to, size, at);
}

ssize_t pread64(int fd, void *to, size_t size, off_t at)
{
    return pread(fd, to, size, at);
}

int ftruncate(int fd, off_t size)
{
    if (!powerloss_has_fd(fd))
        return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&lock);
    step();
    uint64_t was = size_of(fd);
    int result = (int)syscall(SYS_ftruncate, fd, size);
    if (result == 0) {
        note(ENTRY_TRUNCATE, fd, (uint64_t)size, NULL, 0);
        if (was > (uint64_t)size)
            give_back(was - (uint64_t)size);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate64(int fd, off_t size)
{
    return ftruncate(fd, size);
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
    if (powerloss_has_fd(fd) && mode != FALLOC_FL_KEEP_SIZE)
        powerloss_refuse("fallocate that changes a file", "");
    if (powerloss_has_fd(fd))
        return 0; /* no byte of the file is another */
    return (int)syscall(SYS_fallocate, fd, mode, at, size);
}

int fallocate64(int fd, int mode, off_t at, off_t size)
{
    return fallocate(fd, mode, at, size);
}

/* ---- syncing ---- */

static int sync_below(int fd)
{
    struct control *control = control_get();

    pthread_mutex_lock(&lock);
    step();
    bool fails = take_one(&control->syncs_to_fail);
    note(fails ? ENTRY_SYNC_FAILED : ENTRY_SYNC, fd, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    if (!fails)
        return 0;
    atomic_fetch_add(&control->syncs_failed, 1);
    errno = EIO;
    return -1;
}

int fsync(int fd)
{
    return powerloss_has_fd(fd) ? sync_below(fd) : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return powerloss_has_fd(fd) ? sync_below(fd) : (int)syscall(SYS_fdatasync, fd);
}

int sync_file_range(int fd, off64_t at, off64_t size, unsigned flags)
{
    return powerloss_has_fd(fd) ? 0 : (int)syscall(SYS_sync_file_range, fd, at, size, flags);
}

/* ---- names ---- */

int rename(const char *old, const char *new)
{
    if (powerloss_has_path(old) != powerloss_has_path(new))
        powerloss_refuse("rename across its border", old);
    if (!powerloss_has_path(old))
        return (int)syscall(SYS_rename, old, new);
    pthread_mutex_lock(&lock);
    step();
    int result = (int)syscall(SYS_rename, old, new);
    char both[2 * PATH_MAX];
    int size = snprintf(both, sizeof(both), "%s%c%s", old, 0, new);
    if (result == 0)
        note(ENTRY_RENAME, 0, 0, both, (size_t)size);
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *path)
{
    if (!powerloss_has_path(path))
        return (int)syscall(SYS_unlink, path);
    pthread_mutex_lock(&lock);
    step();
    struct stat info = {0};
    if (stat(path, &info) != 0)
        info.st_size = 0;
    int result = (int)syscall(SYS_unlink, path);
    if (result == 0) {
        note_path(ENTRY_UNLINK, path);
        give_back((uint64_t)info.st_size);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    if (!powerloss_has_path(path))
        return (int)syscall(SYS_mkdir, path, mode);
    pthread_mutex_lock(&lock);
    step();
    int result = (int)syscall(SYS_mkdir, path, mode);
    if (result == 0)
        note_path(ENTRY_MKDIR, path);
    pthread_mutex_unlock(&lock);
    return result;
}

int rmdir(const char *path)
{
    if (!powerloss_has_path(path))
        return (int)syscall(SYS_rmdir, path);
    pthread_mutex_lock(&lock);
    step();
    int result = (int)syscall(SYS_rmdir, path);
    if (result == 0)
        note_path(ENTRY_RMDIR, path);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- how much room there is ---- */

int statvfs(const char *restrict path, struct statvfs *restrict ret_info)
{
    static int (*real)(const char *, struct statvfs *);
    uint64_t space = atomic_load(&control_get()->space_bytes);

    pthread_mutex_lock(&lock);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "statvfs");
    pthread_mutex_unlock(&lock);
    int result = real(path, ret_info);
    if (result == 0 && powerloss_has_path(path) && space != UINT64_MAX) {
        ret_info->f_frsize = ret_info->f_bsize = BLOCK;
        ret_info->f_bavail = ret_info->f_bfree = space / BLOCK;
    }
    return result;
}

int statvfs64(const char *restrict path, struct statvfs64 *restrict ret_info)
{
    return statvfs(path, (struct statvfs *)ret_info); /* equal structs on 64 bits */
}
