/*
 * webhook_sockets.h - libcurl's sockets in the loop of the webhook thread.
 *
 *     curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, webhook_sockets_watch);
 *     curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, &sockets);
 *
 * libcurl takes its interest in a connection back after each request. While the connection is open,
 * the loop keeps that interest in the kernel (event_loop.h).
 *
 * Errors     A socket that the kernel does not watch runs into the time-out of its transfer: an
 *            error to libcurl would end all other transfers too, for good.
 * Threads    None: the webhook thread's own.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_SOCKETS_H
#define TICKWHEEL_DELIVERY_WEBHOOK_SOCKETS_H

#include "base/map.h"
#include "sys/event_loop.h"

#include <curl/curl.h>

struct webhook_sockets {
    struct event_loop *loop; /* borrowed */
    CURLM *multi;            /* borrowed; handles the sockets that are ready */
    size_t open_count;       /* number of connections */
    struct map by_fd_;
};

/* Requires that all connections are closed, and that the loop still exists. */
void webhook_sockets_deinit(struct webhook_sockets *sockets);

/* Adds the socket of a new connection. Returns false if out of memory. */
bool webhook_sockets_add(struct webhook_sockets *sockets, int fd);

/* Closes a connection's socket. Returns the result of close(). */
int webhook_sockets_close(struct webhook_sockets *sockets, int fd);

/* CURLMOPT_SOCKETFUNCTION of libcurl; `context` is the struct webhook_sockets. */
int webhook_sockets_watch(CURL *easy, curl_socket_t fd, int what, void *context, void *unused);

#endif
