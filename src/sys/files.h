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

/* Makes the folder and those above it; one that exists is fine. New ones are open to their owner
 * only. */
enum error_code files_make_folder(const char *path, struct error *ret_error);

/* Appends the whole file to `buffer`; at most `size_max` bytes. Reads pipes and /proc too. On
 * failure the buffer is as it was. */
enum error_code files_read(const char *path, size_t size_max, struct buffer *buffer,
                           struct error *ret_error);

/* Replaces the file in one step: a reader, and a crash, sees the old contents or the new, never a
 * part. The new contents are on disk when this returns. Only the owner may read them. */
enum error_code files_write(const char *path, struct bytes contents, struct error *ret_error);

/* How many bytes may still be written where `path` lies, by whoever is not root. */
enum error_code files_free_bytes(const char *path, uint64_t *ret_bytes, struct error *ret_error);

#endif
