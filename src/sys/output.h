/*
 * output.h - an output whose reader may stop reading: a pipe, a socket or a terminal, as standard
 * output and standard error are. Writing to it never waits for the reader.
 *
 *     output_open(&output, STDERR_FILENO);
 *     if (output_write(&output, line, size) < 0 && errno == EAGAIN)
 *         output_wait(&output, 100, -1);
 *
 * The descriptor stays as it is, because other processes may share it: a pipe or a terminal is
 * opened a second time for this. If the system refuses that, a write is tried only while poll
 * reports room. A regular file is written as any file is.
 *
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_SYS_OUTPUT_H
#define TICKWHEEL_SYS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define OUTPUT_ATOMIC_MAX 4096 /* bytes that a pipe takes whole or not at all: PIPE_BUF of Linux */

struct output {
    int fd_;         /* that is written to */
    bool is_own_;    /* opened here */
    bool is_socket_; /* each write says that it does not wait */
    bool may_wait_;  /* the system may let a write wait, so poll is asked first */
};

/* Prepares to write to the descriptor, which is borrowed until output_close. */
void output_open(struct output *ret_output, int fd);
void output_close(struct output *output);

/* Writes at most `size` bytes, at most OUTPUT_ATOMIC_MAX, and returns how many were taken. Returns
 * -1 with errno otherwise: EAGAIN if the reader leaves no room. */
ssize_t output_write(struct output *output, const void *data, size_t size);

/* Waits until the output has room or is broken, or `other_fd` is readable, for `timeout_ms` at
 * most; -1 waits for ever. -1 as `other_fd` is none. Returns whether a write can be tried. */
bool output_wait(const struct output *output, int timeout_ms, int other_fd);

#endif
