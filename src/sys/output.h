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

/* maximum of bytes that a pipe takes completely or not at all: PIPE_BUF of Linux */
#define OUTPUT_ATOMIC_MAX 4096

struct output {
    int fd_;      /* descriptor to write to */
    bool is_own_; /* the descriptor was opened by output_open */
    /* the descriptor is a socket, to which a write can say that it must not wait */
    bool is_socket_;
    bool may_wait_; /* a write could wait, so poll is called first */
};

/* Prepares to write to the descriptor, which is borrowed until output_close. */
void output_open(struct output *ret_output, int fd);
void output_close(struct output *output);

/* Writes at most `size` bytes and at most OUTPUT_ATOMIC_MAX. Returns how many were written; -1 with
 * errno on failure, which is EAGAIN if there is no room. */
ssize_t output_write(struct output *output, const void *data, size_t size);

/* Waits until the output has room or is broken, or `other_fd` is readable (-1 for none), for at
 * most `timeout_ms` (-1 for no limit). Returns true if a write can be tried. */
bool output_wait(const struct output *output, int timeout_ms, int other_fd);

#endif
