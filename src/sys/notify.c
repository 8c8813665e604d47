/* notify.c - tells systemd that the service is ready, alive or stopping. */
#include "sys/notify.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *notify_find(char *const environment[], const char *name)
{
    size_t size = strlen(name);

    for (; *environment; environment++)
        if (strncmp(*environment, name, size) == 0 && (*environment)[size] == '=')
            return *environment + size + 1;
    return NULL;
}

/* Returns the number; 0 unless the text is a plain decimal number. */
static uint64_t notify_number(const char *text)
{
    if (!text || *text < '0' || *text > '9')
        return 0;
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    return *end ? 0 : value;
}

void notify_init(struct notify *notify, char *const environment[])
{
    const char *socket_path = notify_find(environment, "NOTIFY_SOCKET");
    const char *pid = notify_find(environment, "WATCHDOG_PID");

    *notify = (struct notify){.socket_ = ""};
    /* An address of the protocol begins with / or @. One that is too long for the system is
     * ignored. */
    if (socket_path && (socket_path[0] == '/' || socket_path[0] == '@') &&
        strlen(socket_path) < sizeof(notify->socket_))
        memcpy(notify->socket_, socket_path, strlen(socket_path) + 1);
    if (!pid || notify_number(pid) == (uint64_t)getpid())
        notify->watchdog_ms_ = notify_number(notify_find(environment, "WATCHDOG_USEC")) / 1000;
}

size_t notify_send(const struct notify *notify, const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(notify->socket_);

    _Static_assert(sizeof(address.sun_path) == sizeof(notify->socket_), "an address fits");
    if (size == 0)
        return 0;
    memcpy(address.sun_path, notify->socket_, size);
    if (address.sun_path[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    ssize_t sent =
        sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
    close(fd);
    return sent < 0 ? 0 : (size_t)sent;
}

uint64_t notify_watchdog_interval_ms(const struct notify *notify)
{
    if (notify->watchdog_ms_ == 0)
        return UINT64_MAX;
    return notify->watchdog_ms_ < 2 ? 1 : notify->watchdog_ms_ / 2;
}
