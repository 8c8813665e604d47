/* terminal.c - keys of a terminal, by its settings of POSIX. */
#include "sys/terminal.h"

#include <poll.h>
#include <unistd.h>

void terminal_open(struct terminal *terminal, int fd)
{
    struct termios settings;

    terminal->fd_ = tcgetattr(fd, &terminal->before_) == 0 ? fd : -1;
    if (terminal->fd_ < 0)
        return;
    settings = terminal->before_;
    settings.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    /* If the program is in the background, changing the terminal would stop it. */
    if (tcgetpgrp(fd) != getpgrp() || tcsetattr(fd, TCSANOW, &settings) != 0)
        terminal->fd_ = -1;
}

void terminal_close(struct terminal *terminal)
{
    if (terminal->fd_ >= 0)
        tcsetattr(terminal->fd_, TCSANOW, &terminal->before_);
    terminal->fd_ = -1;
}

int terminal_key(const struct terminal *terminal)
{
    struct pollfd wanted = {.fd = terminal->fd_, .events = POLLIN};
    unsigned char key;

    if (terminal->fd_ < 0 || poll(&wanted, 1, 0) <= 0 || read(terminal->fd_, &key, 1) != 1)
        return 0;
    return key;
}
