/*
 * disk.h - files that are written in place and synced, through a table of functions, so that tests
 * put a disk in memory below that tears writes and fails.
 *
 * Errors     Functions return 0 or an errno; write and read go on after EINTR and short calls.
 * Threads    Any.
 */
#ifndef TICKWHEEL_SYS_DISK_H
#define TICKWHEEL_SYS_DISK_H

#include "base/bytes.h"
#include "sys/files.h"

enum disk_access {
    DISK_READ,
    DISK_WRITE, /* opens an existing file for writing and reading */
    DISK_MAKE,  /* makes a file that only its owner can access, and empties an existing one */
};

struct disk_calls {
    void *state; /* for implementations other than the system's */

    int (*open)(const struct disk_calls *disk, const char *path, enum disk_access access,
                int *ret_file);
    void (*close)(const struct disk_calls *disk, int file);
    int (*size)(const struct disk_calls *disk, int file, uint64_t *ret_bytes);

    /* Reads `size` bytes at `at`; fewer only if the file ends there. */
    int (*read)(const struct disk_calls *disk, int file, uint64_t at, void *to, size_t size,
                size_t *ret_size);

    /* Writes bytes at `at`. After a failure a part may have been written. */
    int (*write)(const struct disk_calls *disk, int file, uint64_t at, struct bytes bytes);

    /* Begins to make written bytes durable, without waiting. Only sync says that they are. */
    int (*start_sync)(const struct disk_calls *disk, int file, uint64_t at, uint64_t size);

    /* Makes contents and size durable. After a failure it is unknown which writes since the last
     * success are durable. */
    int (*sync)(const struct disk_calls *disk, int file);

    int (*rename)(const struct disk_calls *disk, const char *from, const char *to);
    int (*remove)(const struct disk_calls *disk, const char *path);

    /* Makes changes of names in the folder durable. */
    int (*sync_folder)(const struct disk_calls *disk, const char *path);

    /* See files_make_folder and files_list. */
    enum error_code (*make_folder)(const struct disk_calls *disk, const char *path,
                                   struct error *ret_error);
    enum error_code (*list)(const struct disk_calls *disk, const char *path,
                            bool (*each)(void *context, const struct files_entry *entry),
                            void *context, struct error *ret_error);
};

/* Returns the disk of the operating system, which has no state. */
const struct disk_calls *disk_system(void);

/* Sets an error for `errno_value` and returns its code: ERROR_DISK_FULL, ERROR_NO_MEMORY or
 * ERROR_IO. */
enum error_code disk_failed(int errno_value, const char *verb, const char *path,
                            struct error *ret_error);

#endif
