/* files.c - files and folders, written so that they survive a crash. */
#include "sys/files.h"

#include "sys/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    READ_CHUNK = 16 * 1024,
    PROBE_BYTES = 256 * 1024,
    SYNC_BYTES = 4096,
    STAT_BLOCK_BYTES = 512
};

static enum error_code files_failed(struct error *ret_error, const char *verb, const char *path)
{
    return error_set(ret_error, ERROR_IO, "%s %s: %s", verb, path, strerror(errno));
}

/* Syncs the folder of a new name. Only then is the name durable. */
static bool files_sync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];

    if (!slash)
        snprintf(folder, sizeof(folder), ".");
    else
        snprintf(folder, sizeof(folder), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_synced = fsync(fd) == 0;
    close(fd);
    return is_synced;
}

/* True if the error means that this user cannot sync a parent folder, which is then left to its
 * owner. */
static bool files_is_not_ours_to_sync(int error)
{
    return error == EACCES || error == EINVAL || error == EROFS;
}

/* A folder that exists may have been made by a process that was killed before it synced the parent.
 * So the parent is synced in any case. */
static enum error_code files_make_one(const char *path, struct error *ret_error)
{
    bool is_new = mkdir(path, 0700) == 0;

    if (!is_new && errno != EEXIST)
        return files_failed(ret_error, "make folder", path);
    struct stat info;
    if (stat(path, &info) != 0)
        return files_failed(ret_error, "make folder", path);
    if (!S_ISDIR(info.st_mode))
        return error_set(ret_error, ERROR_IO, "make folder %s: there is a file of that name", path);
    if (!files_sync_parent(path) && (is_new || !files_is_not_ours_to_sync(errno)))
        return files_failed(ret_error, "sync the folder of", path);
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
        if (part[i] != '/' || part[i - 1] == '/')
            continue;
        part[i] = '\0';
        enum error_code code = files_make_one(part, ret_error);
        part[i] = '/';
        if (code)
            return code;
    }
    return files_make_one(part, ret_error);
}

static enum error_code files_read_all(int fd, const char *path, size_t size_max,
                                      struct buffer *buffer, struct error *ret_error)
{
    size_t size = 0;

    for (;;) {
        char *to = buffer_reserve(buffer, READ_CHUNK);

        if (!to)
            return error_set(ret_error, ERROR_NO_MEMORY, "read %s: out of memory", path);
        ssize_t got = read(fd, to, READ_CHUNK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return files_failed(ret_error, "read", path);
        if (got == 0)
            return ERROR_NONE;
        size += (size_t)got;
        if (size > size_max)
            return error_set(ret_error, ERROR_TOO_LARGE, "read %s: more than %zu bytes", path,
                             size_max);
        buffer->size += (size_t)got;
    }
}

/* Reads from the descriptor and closes it; -1 means that it could not be opened. */
static enum error_code files_read_from(int fd, const char *path, size_t size_max,
                                       struct buffer *buffer, struct error *ret_error)
{
    size_t size_before = buffer->size;

    if (fd < 0)
        return files_failed(ret_error, "read", path);
    enum error_code code = files_read_all(fd, path, size_max, buffer, ret_error);
    close(fd);
    if (code)
        buffer->size = size_before;
    return code;
}

enum error_code files_read(const char *path, size_t size_max, struct buffer *buffer,
                           struct error *ret_error)
{
    return files_read_from(open(path, O_RDONLY | O_CLOEXEC), path, size_max, buffer, ret_error);
}

enum error_code files_read_regular(const char *path, size_t size_max, struct buffer *buffer,
                                   struct error *ret_error)
{
    /* O_NONBLOCK: opening a pipe must not wait for its writer */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;

    if (fd >= 0 && fstat(fd, &info) == 0 && !S_ISREG(info.st_mode)) {
        close(fd);
        return error_set(ret_error, ERROR_IO, "read %s: it is not a regular file", path);
    }
    return files_read_from(fd, path, size_max, buffer, ret_error);
}

static bool files_write_all(int fd, struct bytes contents)
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

enum error_code files_snapshot(const char *path, size_t size_max, int *ret_fd,
                               struct error *ret_error)
{
    struct buffer contents;

    buffer_init(&contents);
    enum error_code code = files_read_regular(path, size_max, &contents, ret_error);
    int fd = code ? -1 : memfd_create("snapshot", MFD_CLOEXEC);
    if (!code && (fd < 0 || !files_write_all(fd, buffer_bytes(&contents)))) {
        code = files_failed(ret_error, "copy", path);
        if (fd >= 0)
            close(fd);
    }
    buffer_deinit(&contents);
    if (!code)
        *ret_fd = fd;
    return code;
}

enum error_code files_write(const char *path, struct bytes contents, struct error *ret_error)
{
    char fresh[PATH_MAX];

    if ((size_t)snprintf(fresh, sizeof(fresh), "%s.new", path) >= sizeof(fresh))
        return error_set(ret_error, ERROR_IO, "write: a path of %zu bytes", strlen(path));
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return files_failed(ret_error, "write", fresh);
    bool is_written = files_write_all(fd, contents) && fsync(fd) == 0;
    if (close(fd) != 0)
        is_written = false;
    if (!is_written || rename(fresh, path) != 0) {
        enum error_code code = files_failed(ret_error, "write", path);

        unlink(fresh);
        return code;
    }
    return files_sync_parent(path) ? ERROR_NONE
                                   : files_failed(ret_error, "sync the folder of", path);
}

enum error_code files_list(const char *path,
                           bool (*each)(void *context, const struct files_entry *entry),
                           void *context, struct error *ret_error)
{
    DIR *folder = opendir(path);

    if (!folder)
        return files_failed(ret_error, "read folder", path);
    struct dirent *found;
    bool goes_on = true;
    for (errno = 0; goes_on && (found = readdir(folder)); errno = 0) {
        struct files_entry entry = {.name = found->d_name};
        struct stat info;

        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0 ||
            fstatat(dirfd(folder), found->d_name, &info, 0) != 0)
            continue;
        entry.bytes = (uint64_t)info.st_size;
        entry.is_folder = S_ISDIR(info.st_mode);
        entry.is_file = S_ISREG(info.st_mode);
        goes_on = each(context, &entry);
    }
    if (goes_on && errno) {
        enum error_code code = files_failed(ret_error, "read folder", path);

        closedir(folder);
        return code;
    }
    closedir(folder);
    return ERROR_NONE;
}

/* Reads until `size` bytes were read or the file ends. Returns the number of bytes; -1 on an
 * error. */
static ssize_t files_read_block(int fd, char *to, size_t size)
{
    size_t have = 0;

    while (have < size) {
        ssize_t got = read(fd, to + have, size - have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

enum error_code files_each_block(const char *path, size_t block_size,
                                 void (*each)(void *context, struct bytes block), void *context,
                                 struct error *ret_error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return files_failed(ret_error, "read", path);
    char *block = malloc(block_size);
    if (!block) {
        close(fd);
        return error_set(ret_error, ERROR_NO_MEMORY, "read %s: out of memory", path);
    }
    ssize_t got;
    while ((got = files_read_block(fd, block, block_size)) > 0) {
        each(context, (struct bytes){block, (size_t)got});
        if ((size_t)got < block_size)
            break;
    }
    enum error_code code = ERROR_NONE;
    if (got < 0)
        code = files_failed(ret_error, "read", path);
    free(block);
    close(fd);
    return code;
}

enum error_code files_make_private(const char *folder, struct error *ret_error)
{
    struct stat info;

    if (stat(folder, &info) != 0)
        return files_failed(ret_error, "ask for the mode of", folder);
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) && info.st_uid == geteuid() &&
        chmod(folder, info.st_mode & S_IRWXU) != 0)
        return files_failed(ret_error, "set the mode of", folder);
    return ERROR_NONE;
}

enum error_code files_copy(const char *from, const char *to, struct error *ret_error)
{
    int source = open(from, O_RDONLY | O_CLOEXEC);

    if (source < 0)
        return files_failed(ret_error, "read", from);
    int copy = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    enum error_code code = ERROR_NONE;
    if (copy < 0)
        code = files_failed(ret_error, "write", to);
    char chunk[READ_CHUNK];
    ssize_t got = 0;
    while (!code && (got = files_read_block(source, chunk, sizeof(chunk))) > 0)
        if (!files_write_all(copy, (struct bytes){chunk, (size_t)got}))
            code = files_failed(ret_error, "write", to);
    if (!code && got < 0)
        code = files_failed(ret_error, "read", from);
    if (!code && fsync(copy) != 0)
        code = files_failed(ret_error, "write", to);
    close(source);
    if (copy >= 0)
        close(copy);
    return code;
}

enum error_code files_link(const char *path, const char *second, struct error *ret_error)
{
    if (link(path, second) != 0 && errno != EEXIST)
        return files_failed(ret_error, "link", second);
    return files_sync_parent(second) ? ERROR_NONE
                                     : files_failed(ret_error, "sync the folder of", second);
}

/* Returns the owner to whom files_give_folder gives the files. */
static bool files_find_owner(int folder, struct stat *ret_info)
{
    return fstat(folder, ret_info) == 0 &&
           (ret_info->st_uid != 0 || fstatat(folder, "..", ret_info, 0) == 0);
}

static bool files_give_one(int folder, const char *name, mode_t mode, const struct stat *owner)
{
    return fchmodat(folder, name, mode, 0) == 0 &&
           (geteuid() != 0 || fchownat(folder, name, owner->st_uid, owner->st_gid, 0) == 0);
}

enum error_code files_give_folder(const char *path, struct error *ret_error)
{
    DIR *folder = opendir(path);

    if (!folder)
        return files_failed(ret_error, "read folder", path);
    struct stat owner;
    bool is_given = files_find_owner(dirfd(folder), &owner);
    struct dirent *found;
    for (errno = 0; is_given && (found = readdir(folder)); errno = 0)
        if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0)
            is_given = files_give_one(dirfd(folder), found->d_name, 0600, &owner);
    is_given = is_given && errno == 0 && files_give_one(dirfd(folder), ".", 0700, &owner) &&
               fsync(dirfd(folder)) == 0;
    int error = errno;
    closedir(folder);
    errno = error;
    return is_given ? ERROR_NONE : files_failed(ret_error, "set the owner and modes of", path);
}

static bool files_remove_one(void *context, const struct files_entry *entry)
{
    const char *folder = context;
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, entry->name) >= sizeof(path))
        return true;
    /* a link to a folder is removed, not what is in the folder */
    if (unlink(path) != 0 && entry->is_folder) {
        files_list(path, files_remove_one, path, NULL);
        rmdir(path);
    }
    return true;
}

void files_remove_folder(const char *path)
{
    files_list(path, files_remove_one, (char *)(uintptr_t)path, NULL);
    rmdir(path);
}

enum error_code files_move_folder(const char *from, const char *to, struct error *ret_error)
{
    struct stat info;

    if (lstat(from, &info) == 0 && !S_ISDIR(info.st_mode))
        return error_set(ret_error, ERROR_IO, "%s is no folder", from);
    if (rename(from, to) != 0)
        return files_failed(ret_error, "rename", from);
    return files_sync_folder_of(to, ret_error);
}

bool files_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

enum files_presence files_look_for(const char *path)
{
    struct stat info;

    if (stat(path, &info) == 0)
        return FILES_THERE;
    return errno == ENOENT || errno == ENOTDIR ? FILES_ABSENT : FILES_HIDDEN;
}

bool files_is_private(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

enum error_code files_owner(const char *path, uint32_t *ret_user, struct error *ret_error)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return files_failed(ret_error, "look at", path);
    *ret_user = info.st_uid;
    return ERROR_NONE;
}

enum error_code files_remove(const char *path, struct error *ret_error)
{
    if (unlink(path) != 0)
        return errno == ENOENT ? ERROR_NONE : files_failed(ret_error, "remove", path);
    return files_sync_parent(path) ? ERROR_NONE
                                   : files_failed(ret_error, "sync the folder of", path);
}

enum error_code files_sync_folder_of(const char *path, struct error *ret_error)
{
    return files_sync_parent(path) ? ERROR_NONE
                                   : files_failed(ret_error, "sync the folder of", path);
}

enum error_code files_lock_folder(const char *path, enum files_lock kind, int *ret_lock,
                                  struct error *ret_error)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return files_failed(ret_error, "open folder", path);
    const int how = (kind == FILES_LOCK_SHARED ? LOCK_SH : LOCK_EX) |
                    (kind == FILES_LOCK_WHEN_FREE ? 0 : LOCK_NB);
    int failed;
    while ((failed = flock(fd, how)) != 0 && errno == EINTR)
        continue;
    if (!failed) {
        *ret_lock = fd;
        return ERROR_NONE;
    }
    enum error_code code = errno == EWOULDBLOCK ? error_set(ret_error, ERROR_IO,
                                                            "%s is in use by another process", path)
                                                : files_failed(ret_error, "lock folder", path);
    close(fd);
    return code;
}

bool files_is_locked_folder(const char *path, int lock)
{
    struct stat there, locked;

    return stat(path, &there) == 0 && fstat(lock, &locked) == 0 && there.st_ino == locked.st_ino &&
           there.st_dev == locked.st_dev;
}

void files_unlock(int lock)
{
    close(lock);
}

enum error_code files_probe(const char *folder, size_t size, struct error *ret_error)
{
    static const char zeros[PROBE_BYTES];
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s/probe", folder) >= sizeof(path))
        return error_set(ret_error, ERROR_IO, "probe: a path of %zu bytes", strlen(folder));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return files_failed(ret_error, "write", path);
    enum error_code code = ERROR_NONE;
    if (!files_write_all(fd, (struct bytes){zeros, size < PROBE_BYTES ? size : PROBE_BYTES}) ||
        fsync(fd) != 0)
        code = errno == ENOSPC || errno == EDQUOT
                   ? error_set(ret_error, ERROR_DISK_FULL, "write %s: the disk is full", path)
                   : files_failed(ret_error, "write", path);
    close(fd);
    unlink(path);
    return code;
}

enum error_code files_measure_syncs(const char *folder, uint64_t *ret_ns, size_t count,
                                    struct error *ret_error)
{
    static const char zeros[PROBE_BYTES];
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s/probe-%d", folder, (int)getpid()) >= sizeof(path))
        return error_set(ret_error, ERROR_IO, "probe: a path of %zu bytes", strlen(folder));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return files_failed(ret_error, "write", path);
    bool is_written = files_write_all(fd, (struct bytes){zeros, sizeof(zeros)}) && fsync(fd) == 0;
    for (size_t i = 0; i < count && is_written; i++) {
        off_t place = (off_t)(i * SYNC_BYTES % PROBE_BYTES);
        struct instant began = instant_now();

        is_written = pwrite(fd, zeros, SYNC_BYTES, place) == SYNC_BYTES && fdatasync(fd) == 0;
        ret_ns[i] = instant_since_ns(began, instant_now());
    }
    enum error_code code = is_written ? ERROR_NONE : files_failed(ret_error, "write", path);
    close(fd);
    unlink(path);
    return code;
}

static enum error_code files_ask_disk(const char *path, struct statvfs *ret_info,
                                      struct error *ret_error)
{
    return statvfs(path, ret_info) == 0 ? ERROR_NONE
                                        : files_failed(ret_error, "ask for the disk of", path);
}

enum error_code files_free_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error)
{
    struct statvfs info;
    const enum error_code code = files_ask_disk(path, &info, ret_error);

    if (!code)
        *ret_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return code;
}

enum error_code files_disk_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error)
{
    struct statvfs info;
    const enum error_code code = files_ask_disk(path, &info, ret_error);

    if (!code)
        *ret_bytes = (uint64_t)info.f_blocks * info.f_frsize;
    return code;
}

enum error_code files_taken_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return files_failed(ret_error, "look at", path);
    *ret_bytes = (uint64_t)info.st_blocks * STAT_BLOCK_BYTES;
    return ERROR_NONE;
}

enum error_code files_reserve(const char *path, uint64_t bytes, struct error *ret_error)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (file < 0)
        return files_failed(ret_error, "make", path);
    enum error_code code = ERROR_NONE;
    if (fallocate(file, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) != 0 || fsync(file) != 0)
        code = errno == ENOSPC || errno == EDQUOT
                   ? error_set(ret_error, ERROR_DISK_FULL, "reserve %s: the disk is full", path)
                   : files_failed(ret_error, "reserve", path);
    close(file);
    return code;
}
