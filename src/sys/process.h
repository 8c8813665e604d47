/*
 * process.h - what the kernel knows of this process and of its threads.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_SYS_PROCESS_H
#define TICKWHEEL_SYS_PROCESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Resident memory; 0 when /proc cannot be read. */
uint64_t process_memory_bytes(void);

/* Cores that this process may use; at least 1. */
unsigned process_cores(void);

/* Raises the limit of open files and sockets towards `wanted`, as far as the machine lets it, and
 * returns the limit that now holds. Never lowers it. */
uint64_t process_raise_file_limit(uint64_t wanted);

/* Opens each of the descriptors 0 to 2 that is closed, on /dev/null for reading: otherwise a file
 * of the storage would get its number, and what is printed would be written into it. To print fails
 * then, as on a closed descriptor. False when one stays closed. */
bool process_hold_standard_files(void);

/* From now on files and folders that any part of the process makes are open to its user only. */
void process_keep_files_private(void);

/* Whether the descriptor is a terminal. */
bool process_is_terminal(int fd);

#define THREAD_NAME_SIZE 16 /* with the NUL; the system takes no longer one */

/* pthread_create with a name that tools of the system show (ps -L, top -H, /proc); it is printf's
 * and is cut to what the system takes. Returns 0 or an errno. */
int thread_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
