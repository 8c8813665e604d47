/*
 * process.h - what the kernel knows of this process, of its threads and of its children.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_SYS_PROCESS_H
#define TICKWHEEL_SYS_PROCESS_H

#include "base/bytes.h"
#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Resident memory; 0 when /proc cannot be read. */
uint64_t process_memory_bytes(void);

/* Processor time that it has used, in user and kernel mode. */
uint64_t process_cpu_us(void);

/* Open files and sockets; 0 when /proc cannot be read. And how many may be open. */
uint64_t process_file_count(void);
uint64_t process_file_limit(void);

/* Cores that this process may use; at least 1. */
unsigned process_cores(void);

/* Raises the limit of open files and sockets towards `wanted`, as far as the machine lets it, and
 * returns the limit that now holds. Never lowers it. */
uint64_t process_raise_file_limit(uint64_t wanted);

/* How far process_raise_file_limit can raise it. */
uint64_t process_file_limit_max(void);

/* Opens each of the descriptors 0 to 2 that is closed, on /dev/null for reading: otherwise a file
 * of the storage would get its number, and the output would be written into it. To print fails
 * then, as on a closed descriptor. False when one stays closed. */
bool process_hold_standard_files(void);

/* From now on memory of large blocks returns to the system when they are freed. By default the
 * allocator of glibc stops that as soon as one such block was freed: it takes further ones from its
 * arenas, where a small block that lives on keeps the memory in front of it. Before threads. */
void process_return_memory(void);

/* From now on files and folders that any part of the process makes are open to its user only; and
 * a write beyond the greatest size of files (RLIMIT_FSIZE) fails with EFBIG, where by default a
 * signal ends the process. */
void process_settle_files(void);

/* Whether the process can start that many more threads, and map that much more memory beside them:
 * it does so, and gives all of it back. ERROR_NO_MEMORY with the limits that may be the
 * cause. */
enum error_code process_try(size_t threads, uint64_t bytes, struct error *ret_error);

/* Until process_let_abort, a library that aborts, because its C++ exception was not caught, ends
 * the process with exit code 1 and a line that says so. */
void process_catch_abort(void);
void process_let_abort(void);

/* Whether the descriptor is a terminal. */
bool process_is_terminal(int fd);

#define THREAD_NAME_SIZE 16 /* with the NUL; the system takes no longer one */

/* pthread_create with a name that tools of the system show (ps -L, top -H, /proc); it is printf's
 * and is cut to what the system takes. Returns 0 or an errno. */
int thread_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The time of processors that the calling thread has used. */
uint64_t thread_used_ns(void);

/* A program that was started; standard output and error are those of this process. */
struct process_child {
    pid_t pid;
    int ended_fd; /* readable once it has ended */
    int input_fd; /* its standard input, to be written without waiting; -1 once it is closed */
};

/* Starts a program, looked for in PATH, in a process group of its own, so that a Ctrl-C at the
 * terminal does not reach it. Signals have their default effects. ERROR_IO with the cause. */
enum error_code process_start(char *const *arguments, char *const *environment,
                              struct process_child *ret_child, struct error *ret_error);

/* Whether it has ended; then its exit code, or 128 and the signal that ended it, as a shell tells
 * it. Releases the child. */
bool process_ended(struct process_child *child, int *ret_code);

/* Writes as much of its input as it takes now, and returns how much. Closes the input behind the
 * last byte, and when the child reads no more: then all of it counts as written. */
size_t process_write(struct process_child *child, struct bytes input);

/* Asks the child, and the children that it has started, to end. */
void process_stop(const struct process_child *child);

#endif
