#include "sys/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { READ_CHUNK = 16 * 1024 };

static enum error_code failed(struct error *ret_error, const char *verb, const char *path)
{
    return error_set(ret_error, ERROR_IO, "%s %s: %s", verb, path, strerror(errno));
}

static enum error_code make_one(const char *path, struct error *ret_error)
{
    struct stat info;

    if (mkdir(path, 0700) == 0)
        return ERROR_NONE;
    if (errno != EEXIST)
        return failed(ret_error, "make folder", path);
    if (stat(path, &info) != 0)
        return failed(ret_error, "make folder", path);
    if (!S_ISDIR(info.st_mode))
        return error_set(ret_error, ERROR_IO, "make folder %s: there is a file of that name", path);
    return ERROR_NONE;
}

enum error_code files_make_folder(const char *path, struct error *ret_error)
{
    char part[PATH_MAX];
    size_t size = strlen(path);

    if (size == 0 || size >= sizeof(part))
        return error_set(ret_error, ERROR_IO, "make folder: a path of %zu bytes", size);
    memcpy(part, path, size + 1);
    for (size_t i = 1; i < size; i++) {
        enum error_code code;

        if (part[i] != '/' || part[i - 1] == '/')
            continue;
        part[i] = '\0';
        code = make_one(part, ret_error);
        part[i] = '/';
        if (code)
            return code;
    }
    return make_one(part, ret_error);
}

static enum error_code read_all(int fd, const char *path, size_t size_max, struct buffer *buffer,
                                struct error *ret_error)
{
    size_t size = 0;

    for (;;) {
        char *to = buffer_reserve(buffer, READ_CHUNK);
        ssize_t got;

        if (!to)
            return error_set(ret_error, ERROR_NO_MEMORY, "read %s: out of memory", path);
        got = read(fd, to, READ_CHUNK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return failed(ret_error, "read", path);
        if (got == 0)
            return ERROR_NONE;
        size += (size_t)got;
        if (size > size_max)
            return error_set(ret_error, ERROR_TOO_LARGE, "read %s: more than %zu bytes", path,
                             size_max);
        buffer->size += (size_t)got;
    }
}

enum error_code files_read(const char *path, size_t size_max, struct buffer *buffer,
                           struct error *ret_error)
{
    size_t size_before = buffer->size;
    enum error_code code;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return failed(ret_error, "read", path);
    code = read_all(fd, path, size_max, buffer, ret_error);
    close(fd);
    if (code)
        buffer->size = size_before;
    return code;
}

static bool write_all(int fd, struct bytes contents)
{
    while (contents.size) {
        ssize_t done = write(fd, contents.data, contents.size);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        contents.data += done;
        contents.size -= (size_t)done;
    }
    return true;
}

/* A rename is on disk only once its folder is synced. */
static bool sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    bool is_synced;
    int fd;

    if (!slash)
        snprintf(folder, sizeof(folder), ".");
    else
        snprintf(folder, sizeof(folder), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    is_synced = fsync(fd) == 0;
    close(fd);
    return is_synced;
}

enum error_code files_write(const char *path, struct bytes contents, struct error *ret_error)
{
    char fresh[PATH_MAX];
    bool is_written;
    int fd;

    if ((size_t)snprintf(fresh, sizeof(fresh), "%s.new", path) >= sizeof(fresh))
        return error_set(ret_error, ERROR_IO, "write: a path of %zu bytes", strlen(path));
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(ret_error, "write", fresh);
    is_written = write_all(fd, contents) && fsync(fd) == 0;
    if (close(fd) != 0)
        is_written = false;
    if (!is_written || rename(fresh, path) != 0) {
        enum error_code code = failed(ret_error, "write", path);

        unlink(fresh);
        return code;
    }
    return sync_folder_of(path) ? ERROR_NONE : failed(ret_error, "sync the folder of", path);
}

enum error_code files_free_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error)
{
    struct statvfs info;

    if (statvfs(path, &info) != 0)
        return failed(ret_error, "ask for the free disk of", path);
    *ret_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return ERROR_NONE;
}
