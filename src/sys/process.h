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

/* Returns the resident memory; 0 if /proc cannot be read. */
uint64_t process_memory_bytes(void);

/* Returns the process's processor time in user and kernel mode. */
uint64_t process_cpu_us(void);

/* Returns the number of open files and sockets; 0 if /proc cannot be read. process_file_limit:
 * their limit. */
uint64_t process_file_count(void);
uint64_t process_file_limit(void);

/* Returns the number of cores that this process may use; at least 1. */
unsigned process_cores(void);

/* Raises the limit of open files and sockets towards `wanted`, as far as the machine allows, and
 * returns the present limit. Never lowers it. */
uint64_t process_raise_file_limit(uint64_t wanted);

/* Returns the highest limit that process_raise_file_limit can set. */
uint64_t process_file_limit_max(void);

/* Opens each closed descriptor of 0 to 2 on /dev/null for reading. Otherwise a file of the
 * storage might get its number, and output would be written into it. Printing then fails as on a
 * closed descriptor. Returns false if one stays closed. */
bool process_hold_standard_files(void);

/* Makes free() return large blocks to the system. By default glibc's allocator stops that after
 * the first such block was freed: it takes further ones from its arenas, where a small block
 * after it keeps the memory. Call before threads start. */
void process_return_memory(void);

/* Makes new files and folders of the process accessible only to its user, and a write beyond the
 * maximum file size (RLIMIT_FSIZE) fail with EFBIG instead of ending the process by a signal. */
void process_settle_files(void);

/* Checks that the process can start this many more threads, and map this much more memory: does
 * so, and gives all of it back. ERROR_NO_MEMORY with the limits that may be the cause. */
enum error_code process_try(size_t threads, uint64_t bytes, struct error *ret_error);

/* Until process_let_abort, makes a library's abort, after an uncaught C++ exception, end the
 * process with exit code 1 and a message. */
void process_catch_abort(void);
void process_let_abort(void);

/* True if the descriptor is a terminal. */
bool process_is_terminal(int fd);

#define THREAD_NAME_SIZE 16 /* includes the NUL; the maximum of the system */

/* Calls pthread_create with a name for system tools (ps -L, top -H, /proc), formatted as by
 * printf and cut to the system's maximum. Returns 0 or an errno. */
int thread_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Returns the processor time of the calling thread. */
uint64_t thread_used_ns(void);

/* A started program; its standard output and error are those of this process. */
struct process_child {
    pid_t pid;
    int ended_fd; /* readable after its end */
    int input_fd; /* its standard input, written without waiting; -1 after it is closed */
};

/* What the kernel does with a child when this process ends, also by SIGKILL. */
enum process_bond {
    PROCESS_IS_FREE,  /* it goes on */
    PROCESS_IS_BOUND, /* it gets SIGTERM when the thread ends that called process_start */
};

/* Starts a program, found in PATH, in a process group of its own, so that a Ctrl-C at the
 * terminal does not reach it. Signals have their default effects. ERROR_IO with the cause. */
enum error_code process_start(char *const *arguments, char *const *environment,
                              enum process_bond bond, struct process_child *ret_child,
                              struct error *ret_error);

/* Returns whether the child has ended, with its exit code, or 128 and the signal that ended it,
 * as in a shell. Releases the child. */
bool process_ended(struct process_child *child, int *ret_code);

/* Writes as much input as the child takes now, and returns how much. Closes the input after the
 * last byte, and if the child reads no more: then all of it counts as written. */
size_t process_write(struct process_child *child, struct bytes input);

/* Asks the child and its own children to end. */
void process_stop(const struct process_child *child);

#endif
