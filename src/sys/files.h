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

/* Makes the folder and those above it; a folder that exists is fine. New ones are open to their
 * owner only. All of them are on disk when this returns. */
enum error_code files_make_folder(const char *path, struct error *ret_error);

/* Appends the whole file to `buffer`; at most `size_max` bytes. Reads pipes and /proc too. On
 * failure the buffer is as it was. */
enum error_code files_read(const char *path, size_t size_max, struct buffer *buffer,
                           struct error *ret_error);

/* Copies the file into memory. `ret_fd` is a descriptor of the copy, which "/proc/self/fd/N" names;
 * the caller closes it. */
enum error_code files_snapshot(const char *path, size_t size_max, int *ret_fd,
                               struct error *ret_error);

/* Replaces the file in one step: a reader, and a crash, sees the old contents or the new, never a
 * part. The new contents are on disk when this returns. Only the owner may read them. */
enum error_code files_write(const char *path, struct bytes contents, struct error *ret_error);

/* One file or folder in a folder. */
struct files_entry {
    const char *name;
    uint64_t bytes;
    bool is_folder;
};

/* Calls `each` for whatever lies in the folder, in no order, until it answers false. */
enum error_code files_list(const char *path,
                           bool (*each)(void *context, const struct files_entry *entry),
                           void *context, struct error *ret_error);

/* Hands the file to `each` in blocks of `block_size`, the last one shorter. */
enum error_code files_each_block(const char *path, size_t block_size,
                                 void (*each)(void *context, struct bytes block), void *context,
                                 struct error *ret_error);

/* Closes a folder to all but its owner; one of another owner stays as it is. */
enum error_code files_make_private(const char *folder, struct error *ret_error);

/* Copies a file; a copy that exists is replaced. Only the owner may read the copy. Its contents are
 * on disk when this returns, a new name only once its folder is synced. */
enum error_code files_copy(const char *from, const char *to, struct error *ret_error);

/* Gives a file a second name; a file of that name stays as it is. */
enum error_code files_link(const char *path, const char *second, struct error *ret_error);

/* Opens a folder and the files in it to their owner only, and syncs the folder. Run by root, it
 * gives them to the owner of the folder, or of the folder above when that owner is root. */
enum error_code files_give_folder(const char *path, struct error *ret_error);

/* Makes a folder among the temporary ones, with a link to each file of `folder`; a link may be
 * replaced by a file. *ret_path is the caller's. */
enum error_code files_make_shadow(const char *folder, char **ret_path, struct error *ret_error);

/* Removes a folder, with the files in it and in its folders. */
void files_remove_folder(const char *path);

bool files_exists(const char *path);

enum files_presence {
    FILES_ABSENT,
    FILES_THERE,
    FILES_HIDDEN, /* this user may not search a folder above it, or the disk does not answer */
};

/* Tells an absent file from a file that this user cannot see. */
enum files_presence files_look_for(const char *path);

/* Whether only its owner may read the file. */
bool files_is_private(const char *path);

/* The id of the owner of a file or folder. */
enum error_code files_owner(const char *path, uint32_t *ret_user, struct error *ret_error);

/* Removes a file for good: after a crash too. A file that does not exist is fine. */
enum error_code files_remove(const char *path, struct error *ret_error);

/* Makes durable that `path` is there, once it was made or renamed. */
enum error_code files_sync_folder_of(const char *path, struct error *ret_error);

enum files_lock {
    FILES_LOCK_SHARED,    /* beside others that share it */
    FILES_LOCK_EXCLUSIVE, /* alone */
};

/* Locks a folder, without a change to it, until files_unlock or the end of the process. ERROR_IO
 * when another has it. */
enum error_code files_lock_folder(const char *path, enum files_lock kind, int *ret_lock,
                                  struct error *ret_error);
void files_unlock(int lock);

/* Whether the locked folder still is where it was: neither removed nor moved nor replaced. */
bool files_is_locked_folder(const char *path, int lock);

/* Whether the disk accepts writes into the folder: writes and syncs a file of `size` bytes there,
 * 256 KiB at most, and removes it. ERROR_DISK_FULL when there is no room. */
enum error_code files_probe(const char *folder, size_t size, struct error *ret_error);

/* Writes a block of 4 KiB in place and makes it durable, `count` times, as the log does: the times
 * go to `ret_ns`. The file is gone afterwards. */
enum error_code files_measure_syncs(const char *folder, uint64_t *ret_ns, size_t count,
                                    struct error *ret_error);

/* Free bytes on the file system of `path` for a user that is not root. */
enum error_code files_free_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error);

/* Size of the file system of `path`, in bytes. */
enum error_code files_disk_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error);

/* Bytes of the disk that a file takes, whatever its size. */
enum error_code files_taken_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error);

/* Makes a file of size 0 that takes at least `bytes` of the disk. ERROR_DISK_FULL if there is no
 * room; ERROR_IO if the file system cannot reserve space. A file that failed may be there with a
 * part of the space. */
enum error_code files_reserve(const char *path, uint64_t bytes, struct error *ret_error);

#endif
