/*
 * notify.h - tells the service manager how it stands, by systemd's notify protocol; libsystemd is
 * not needed.
 *
 * Without NOTIFY_SOCKET in the environment every call does nothing. Nothing here can fail for the
 * caller: a service manager that does not listen is its own problem.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_SYS_NOTIFY_H
#define TICKWHEEL_SYS_NOTIFY_H

#include <stddef.h>
#include <stdint.h>

struct notify {
    char socket_[108]; /* path, or '@' and an abstract name; empty without a supervisor */
    /* time after which the supervisor restarts a silent service; 0 without a watchdog */
    uint64_t watchdog_ms_;
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from `environment`: texts "NAME=value",
 * terminated by NULL. */
void notify_init(struct notify *notify, char *const environment[]);

/* Sends state lines, such as "READY=1" or "STOPPING=1". Returns the number of bytes sent, for
 * tests. */
size_t notify_send(const struct notify *notify, const char *state);

/* Returns how often to send "WATCHDOG=1": half of the time that the supervisor allows; UINT64_MAX
 * without a watchdog. */
uint64_t notify_watchdog_interval_ms(const struct notify *notify);

#endif
