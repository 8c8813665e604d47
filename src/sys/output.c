/* output.c - writes to an output without waiting for its reader. */
#include "sys/output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(OUTPUT_ATOMIC_MAX <= PIPE_BUF, "a pipe takes so much whole or not at all");

void output_open(struct output *ret_output, int fd)
{
    struct stat status;
    const bool is_known = fstat(fd, &status) == 0;
    const bool is_pipe = is_known && S_ISFIFO(status.st_mode);

    *ret_output = (struct output){.fd_ = fd};
    ret_output->is_socket_ = is_known && S_ISSOCK(status.st_mode);
    if (!is_pipe && !isatty(fd))
        return;
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const int own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    ret_output->is_own_ = own >= 0;
    ret_output->may_wait_ = own < 0;
    if (own >= 0)
        ret_output->fd_ = own;
}

void output_close(struct output *output)
{
    if (output->is_own_)
        close(output->fd_);
    output->fd_ = -1;
}

ssize_t output_write(struct output *output, const void *data, size_t size)
{
    assert(size <= OUTPUT_ATOMIC_MAX);
    if (output->is_socket_)
        return send(output->fd_, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (output->may_wait_ && !output_wait(output, 0, -1)) {
        errno = EAGAIN;
        return -1;
    }
    return write(output->fd_, data, size);
}

bool output_wait(const struct output *output, int timeout_ms, int other_fd)
{
    struct pollfd fds[] = {{.fd = output->fd_, .events = POLLOUT},
                           {.fd = other_fd, .events = POLLIN}};

    return poll(fds, other_fd < 0 ? 1 : 2, timeout_ms) > 0 && fds[0].revents != 0;
}
