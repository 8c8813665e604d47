/*
 * process.h - what the kernel knows of this process, of its threads and of its children.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_SYS_PROCESS_H
#define TICKWHEEL_SYS_PROCESS_H

#include "base/bytes.h"
#include "base/error.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Returns the resident memory; 0 if /proc cannot be read. */
uint64_t process_memory_bytes(void);

/* Returns the process's processor time in user and kernel mode. */
uint64_t process_cpu_us(void);

/* Returns the number of open files and sockets; 0 if /proc cannot be read. process_file_limit: the
 * limit of that number. */
uint64_t process_file_count(void);
uint64_t process_file_limit(void);

/* Returns the number of cores that this process may use; at least 1. */
unsigned process_cores(void);

/* Raises the limit of open files and sockets to `wanted`, or as far as the machine allows. Returns
 * the limit. Never lowers it. */
uint64_t process_raise_file_limit(uint64_t wanted);

/* Returns the highest limit that process_raise_file_limit can set. */
uint64_t process_file_limit_max(void);

/* Opens each closed descriptor of 0 to 2 on /dev/null, for reading. Otherwise a file of the storage
 * might get that number, and output would be written into it. Printing then fails as on a closed
 * descriptor. Returns false if one stays closed. */
bool process_hold_standard_files(void);

/* Makes free() return large blocks to the system. By default glibc's allocator stops doing so after
 * the first such block was freed. It then takes further ones from its arenas, where a small block
 * after a large one keeps its memory in use. Call this before threads start. */
void process_return_memory(void);

/* Makes new files and folders of the process accessible only to its user. A write beyond the
 * maximum file size (RLIMIT_FSIZE) fails with EFBIG afterwards, instead of ending the process by a
 * signal. */
void process_settle_files(void);

/* Checks that the process can start `threads` more threads and map `bytes` more memory, by doing so
 * and undoing it. ERROR_NO_MEMORY names the limits that may be the cause. */
enum error_code process_try(size_t threads, uint64_t bytes, struct error *ret_error);

/* Until process_let_abort: if a library aborts after an uncaught C++ exception, the process prints
 * a message and ends with exit code 1. */
void process_catch_abort(void);
void process_let_abort(void);

/* True if the descriptor is a terminal. */
bool process_is_terminal(int fd);

#define THREAD_NAME_SIZE 16 /* maximum size of a thread's name in Linux, including the NUL */

/* Calls pthread_create with a name for system tools (ps -L, top -H, /proc), formatted as by
 * printf and cut to the system's maximum. Returns 0 or an errno. */
int thread_start(pthread_t *ret_thread, void *(*run)(void *argument), void *argument,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Returns the processor time of the calling thread. */
uint64_t thread_used_ns(void);

/* A program that was started. It shares standard output and error with this process. */
struct process_child {
    pid_t pid;
    int ended_fd; /* readable when the program has ended */
    int input_fd; /* standard input of the program, written without waiting; -1 if it is closed */
};

/* What the kernel does with a child when this process ends, also by SIGKILL. */
enum process_bond {
    PROCESS_IS_FREE, /* the child keeps running */
    /* the child gets SIGTERM; process_start must be called on the first thread, whose end counts */
    PROCESS_IS_BOUND,
};

/* Starts a program, which is searched in PATH, in a new process group, so that Ctrl-C at the
 * terminal does not reach it. Its signals have their default effects. ERROR_IO has the cause. */
enum error_code process_start(char *const *arguments, char *const *environment,
                              enum process_bond bond, struct process_child *ret_child,
                              struct error *ret_error);

/* Returns true if the child has ended. `ret_code` is then its exit code, or 128 plus the number of
 * the signal that ended it, as in a shell. Releases the child. */
bool process_ended(struct process_child *child, int *ret_code);

/* Writes as much input as the child takes now, and returns how much. Closes the input after the
 * last byte. If the child has stopped reading, closes it too, and counts everything as written. */
size_t process_write(struct process_child *child, struct bytes input);

/* Asks the child and its own children to end, by a signal. */
void process_stop(const struct process_child *child);

/* A copy of this process that runs a function. */
struct process_branch {
    struct process_child child; /* in a process group of its own; its standard input is empty */
    int output_fd, error_fd;    /* its standard output and error, read without waiting */
};

/* Starts a copy of this process, which runs `run`, flushes standard output and ends with the exit
 * code that `run` returns. It gets SIGTERM when this process ends, and its signals have their
 * default effects. The process must have one thread, and nothing buffered for standard output. */
enum error_code process_branch(int (*run)(void *context), void *context,
                               struct process_branch *ret_branch, struct error *ret_error);

/* Reads what is there, at most `size` bytes. Returns 0 if the branch has closed the descriptor, and
 * -1 if nothing is there. */
ssize_t process_read(int fd, char *to, size_t size);

/* Waits until one of the descriptors is ready, or `ms` have passed; UINT64_MAX means no limit. */
void process_await(struct pollfd *ready, unsigned count, uint64_t ms);

/* Closes what process_branch opened, but for what process_ended closes. */
void process_branch_close(struct process_branch *branch);

#endif
