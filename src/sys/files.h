/*
 * files.h - whole small files and folders.
 *
 * Errors     ERROR_IO with the path and the cause; ERROR_TOO_LARGE over a limit; ERROR_NO_MEMORY.
 * Threads    Any. All of it waits for the disk.
 */
#ifndef TICKWHEEL_SYS_FILES_H
#define TICKWHEEL_SYS_FILES_H

#include "base/bytes.h"
#include "base/error.h"

/* Makes the folder and its parents, durably. An existing folder is no error. Folders that are made
 * can be accessed only by their owner. */
enum error_code files_make_folder(const char *path, struct error *ret_error);

/* Appends the whole file to `buffer`, if it has at most `size_max` bytes. Also reads pipes and
 * /proc. On failure the buffer is unchanged. */
enum error_code files_read(const char *path, size_t size_max, struct buffer *buffer,
                           struct error *ret_error);

/* Like files_read, but refuses anything else than a regular file: reading a pipe would wait for its
 * writer. */
enum error_code files_read_regular(const char *path, size_t size_max, struct buffer *buffer,
                                   struct error *ret_error);

/* Copies the file into memory. `ret_fd` is a descriptor of the copy, which has the path
 * "/proc/self/fd/N". The caller closes it. */
enum error_code files_snapshot(const char *path, size_t size_max, int *ret_fd,
                               struct error *ret_error);

/* Replaces the file in one durable step: readers see the old or the new contents, never a part,
 * even after a crash. Only the owner can read the file. */
enum error_code files_write(const char *path, struct bytes contents, struct error *ret_error);

/* An entry of a folder. */
struct files_entry {
    const char *name;
    uint64_t bytes;
    bool is_folder;
    bool is_file; /* a regular file: not a folder, pipe, socket or device */
};

/* Calls `each` for every entry of the folder, in no order, until it returns false. */
enum error_code files_list(const char *path,
                           bool (*each)(void *context, const struct files_entry *entry),
                           void *context, struct error *ret_error);

/* Calls `each` with the file in blocks of `block_size` bytes; the last one may be shorter. */
enum error_code files_each_block(const char *path, size_t block_size,
                                 void (*each)(void *context, struct bytes block), void *context,
                                 struct error *ret_error);

/* Makes a folder accessible only to its owner. If another user owns it, it stays as it is. */
enum error_code files_make_private(const char *folder, struct error *ret_error);

/* Copies a file, and replaces an existing copy. Only the owner can read the copy. The contents are
 * durable; the name of a new copy is durable only after its folder is synced. */
enum error_code files_copy(const char *from, const char *to, struct error *ret_error);

/* Gives a file a second name. If that name exists, it stays as it is. */
enum error_code files_link(const char *path, const char *second, struct error *ret_error);

/* Makes a folder and its files accessible only to their owner, and syncs the folder. If root calls
 * it, the files are given to the owner of the folder, or of the folder's parent if root owns the
 * folder. */
enum error_code files_give_folder(const char *path, struct error *ret_error);

/* Removes a folder with its files, and those of its subfolders. Removes a link, and not what it
 * leads to. */
void files_remove_folder(const char *path);

/* Renames a folder durably. ERROR_IO if `from` is no folder but a link to one, or if `to` exists
 * and is not an empty folder. */
enum error_code files_move_folder(const char *from, const char *to, struct error *ret_error);

bool files_exists(const char *path);

enum files_presence {
    FILES_ABSENT,
    FILES_THERE,
    FILES_HIDDEN, /* this user cannot search a parent folder, or the disk does not answer */
};

/* Says whether a file exists, is absent, or cannot be seen by this user. */
enum files_presence files_look_for(const char *path);

/* True if only the owner can read the file. */
bool files_is_private(const char *path);

/* Returns the user id of the owner of a file or folder. */
enum error_code files_owner(const char *path, uint32_t *ret_user, struct error *ret_error);

/* Removes a file durably. A missing file is no error. */
enum error_code files_remove(const char *path, struct error *ret_error);

/* Syncs the folder of `path`, so that the name is durable after it was made or renamed. */
enum error_code files_sync_folder_of(const char *path, struct error *ret_error);

enum files_lock {
    FILES_LOCK_SHARED,    /* other processes may also have it as shared */
    FILES_LOCK_EXCLUSIVE, /* no other process may have it */
    FILES_LOCK_WHEN_FREE, /* exclusive; waits until no other process has it */
};

/* Locks a folder without changing it, until files_unlock or the end of the process. Returns
 * ERROR_IO if another process has locked it. */
enum error_code files_lock_folder(const char *path, enum files_lock kind, int *ret_lock,
                                  struct error *ret_error);
void files_unlock(int lock);

/* True if the locked folder is still at its path: neither removed, moved nor replaced. */
bool files_is_locked_folder(const char *path, int lock);

/* Checks that the disk accepts writes to the folder: writes, syncs and removes a file of `size`
 * bytes, at most 256 KiB. Returns ERROR_DISK_FULL if there is no room. */
enum error_code files_probe(const char *folder, size_t size, struct error *ret_error);

/* Writes a block of 4 KiB in place and syncs it, `count` times, as the log does. The durations, in
 * nanoseconds, are stored in `ret_ns`. Removes the file. */
enum error_code files_measure_syncs(const char *folder, uint64_t *ret_ns, size_t count,
                                    struct error *ret_error);

/* Returns the free bytes of the file system of `path` for a user other than root. */
enum error_code files_free_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error);

/* Returns the size of the file system of `path`, in bytes. */
enum error_code files_disk_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error);

/* Returns how many bytes of the disk a file takes, whatever its size. */
enum error_code files_taken_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error);

/* Makes a file of size 0 that takes at least `bytes` of the disk. Returns ERROR_DISK_FULL if there
 * is no room, ERROR_IO if the file system cannot reserve space. After a failure the file may exist
 * with a part of the space. */
enum error_code files_reserve(const char *path, uint64_t bytes, struct error *ret_error);

#endif
