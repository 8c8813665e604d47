/* disk.c - the disk of the operating system. */
#include "sys/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returned for what is neither a regular file nor a folder, such as a pipe. */
#define NOT_REGULAR ESPIPE

static int disk_open(const struct disk_calls *disk, const char *path, enum disk_access access,
                     int *ret_file)
{
    static const int flags[] = {
        [DISK_READ] = O_RDONLY, [DISK_WRITE] = O_RDWR, [DISK_MAKE] = O_RDWR | O_CREAT | O_TRUNC};
    struct stat info;
    int file;

    (void)disk;
    do /* O_NONBLOCK: opening a pipe must not wait for its writer */
        file = open(path, flags[access] | O_CLOEXEC | O_NONBLOCK, 0600);
    while (file < 0 && errno == EINTR);
    if (file < 0)
        return errno;
    if (fstat(file, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
        close(file);
        return NOT_REGULAR;
    }
    *ret_file = file;
    return 0;
}

static void disk_close(const struct disk_calls *disk, int file)
{
    (void)disk;
    close(file);
}

static int disk_size(const struct disk_calls *disk, int file, uint64_t *ret_bytes)
{
    struct stat info;

    (void)disk;
    if (fstat(file, &info) != 0)
        return errno;
    *ret_bytes = (uint64_t)info.st_size;
    return 0;
}

static int disk_read(const struct disk_calls *disk, int file, uint64_t at, void *to, size_t size,
                     size_t *ret_size)
{
    size_t have = 0;

    (void)disk;
    while (have < size) {
        ssize_t got = pread(file, (char *)to + have, size - have, (off_t)(at + have));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    *ret_size = have;
    return 0;
}

static int disk_write(const struct disk_calls *disk, int file, uint64_t at, struct bytes bytes)
{
    (void)disk;
    while (bytes.size) {
        ssize_t done = pwrite(file, bytes.data, bytes.size, (off_t)at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return errno;
        at += (uint64_t)done;
        bytes.data += done;
        bytes.size -= (size_t)done;
    }
    return 0;
}

/* Systems other than Linux begin when they like. */
static int disk_start_sync(const struct disk_calls *disk, int file, uint64_t at, uint64_t size)
{
    (void)disk;
#ifdef __linux__
    while (sync_file_range(file, (off_t)at, (off_t)size, SYNC_FILE_RANGE_WRITE) != 0)
        if (errno != EINTR)
            return errno;
#else
    (void)file, (void)at, (void)size;
#endif
    return 0;
}

/* A sync that a signal interrupts is repeated: it has not failed, so no write was lost. */
static int disk_sync(const struct disk_calls *disk, int file)
{
    (void)disk;
    while (fdatasync(file) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

static int disk_rename(const struct disk_calls *disk, const char *from, const char *to)
{
    (void)disk;
    return rename(from, to) == 0 ? 0 : errno;
}

static int disk_remove(const struct disk_calls *disk, const char *path)
{
    (void)disk;
    return unlink(path) == 0 ? 0 : errno;
}

static int disk_sync_folder(const struct disk_calls *disk, const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)disk;
    if (folder < 0)
        return errno;
    int error = 0;
    while (fsync(folder) != 0 && (error = errno) == EINTR)
        error = 0;
    close(folder);
    return error;
}

static enum error_code disk_make_folder(const struct disk_calls *disk, const char *path,
                                        struct error *ret_error)
{
    (void)disk;
    return files_make_folder(path, ret_error);
}

static enum error_code disk_list(const struct disk_calls *disk, const char *path,
                                 bool (*each)(void *context, const struct files_entry *entry),
                                 void *context, struct error *ret_error)
{
    (void)disk;
    return files_list(path, each, context, ret_error);
}

const struct disk_calls *disk_system(void)
{
    static const struct disk_calls system = {
        .open = disk_open,
        .close = disk_close,
        .size = disk_size,
        .read = disk_read,
        .write = disk_write,
        .start_sync = disk_start_sync,
        .sync = disk_sync,
        .rename = disk_rename,
        .remove = disk_remove,
        .sync_folder = disk_sync_folder,
        .make_folder = disk_make_folder,
        .list = disk_list,
    };

    return &system;
}

enum error_code disk_failed(int errno_value, const char *verb, const char *path,
                            struct error *ret_error)
{
    enum error_code code = errno_value == ENOSPC || errno_value == EDQUOT ? ERROR_DISK_FULL
                           : errno_value == ENOMEM                        ? ERROR_NO_MEMORY
                                                                          : ERROR_IO;

    return error_set(ret_error, code, "%s %s: %s", verb, path,
                     errno_value == NOT_REGULAR ? "it is not a regular file"
                                                : strerror(errno_value));
}
