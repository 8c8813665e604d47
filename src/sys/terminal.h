/*
 * terminal.h - a terminal that hands out each key at once, for a program that shows a live view.
 *
 *     terminal_open(&terminal, STDIN_FILENO);
 *     while (terminal_key(&terminal) != 'q')
 *         signals_wait(&signals, terminal_fd(&terminal), 1000);
 *     terminal_close(&terminal);
 *
 * Errors     None: what is no terminal has no keys.
 * Ownership  The descriptor is borrowed; its settings are restored at the close.
 * Threads    One.
 */
#ifndef TICKWHEEL_SYS_TERMINAL_H
#define TICKWHEEL_SYS_TERMINAL_H

#include <termios.h>

struct terminal {
    int fd_; /* -1 if the descriptor is no terminal */
    struct termios before_;
};

/* Disables the echo of keys and the wait for a whole line. Keys for signals, such as Ctrl-C, keep
 * working. */
void terminal_open(struct terminal *terminal, int fd);

/* Restores the settings that terminal_open found. */
void terminal_close(struct terminal *terminal);

/* Returns the next key that was pressed; 0 if there is none, or no terminal. */
int terminal_key(const struct terminal *terminal);

/* Returns a descriptor that is readable while there is a key; -1 if there is no terminal. */
static inline int terminal_fd(const struct terminal *terminal)
{
    return terminal->fd_;
}

#endif
