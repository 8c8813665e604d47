/*
 * uv_echo.c - an echo server on libuv's loop that closes idle connections.
 *
 *     uv_echo PORT IDLE_MS
 *
 * Ends with SIGTERM or Ctrl-C.
 */
#include <tickwheel/uv.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct uv_echo_server {
    uv_loop_t *loop;
    uv_tcp_t listener;
    uv_signal_t interrupt, terminate;
    struct tw_uv idle;
    uint64_t idle_ms;
};

struct uv_echo_client {
    uv_tcp_t tcp; /* its data is the server */
    tw_handle timer;
    char bytes[4096];
};

static void free_client(uv_handle_t *tcp)
{
    free(tcp);
}

/* [quote: idle] */
static void hang_up(struct tw_uv *idle, void *client)
{
    tw_uv_close(idle, ((struct uv_echo_client *)client)->timer);
    uv_close((uv_handle_t *)client, free_client);
}
/* [end] */

static void offer_room(uv_handle_t *tcp, size_t wanted, uv_buf_t *ret_room)
{
    struct uv_echo_client *client = (struct uv_echo_client *)tcp;
    (void)wanted;
    *ret_room = uv_buf_init(client->bytes, sizeof(client->bytes));
}

/* [quote: echo] */
/* Sends the bytes back. A client that does not read them is disconnected, too. */
static void echo(uv_stream_t *tcp, ssize_t count, const uv_buf_t *room)
{
    struct uv_echo_server *server = tcp->data;
    struct uv_echo_client *client = (struct uv_echo_client *)tcp;
    if (count == 0)
        return;
    uv_buf_t bytes = uv_buf_init(room->base, count > 0 ? (unsigned)count : 0);
    if (count < 0 || uv_try_write(tcp, &bytes, 1) != count)
        hang_up(&server->idle, client);
    else
        tw_uv_arm(&server->idle, client->timer, server->idle_ms);
}
/* [end] */

/* [quote: welcome] */
static void welcome(uv_stream_t *listener, int status)
{
    struct uv_echo_server *server = listener->data;
    struct uv_echo_client *client = calloc(1, sizeof(*client));
    if (status < 0 || !client || uv_tcp_init(server->loop, &client->tcp) != 0) {
        free(client);
        return;
    }
    client->tcp.data = server;
    client->timer = tw_uv_open(&server->idle, client);
    if (!tw_uv_arm(&server->idle, client->timer, server->idle_ms) ||
        uv_accept(listener, (uv_stream_t *)client) != 0 ||
        uv_read_start((uv_stream_t *)client, offer_room, echo) != 0)
        hang_up(&server->idle, client);
}
/* [end] */

static void stop(uv_signal_t *signal, int number)
{
    (void)number;
    uv_stop(signal->loop);
}

/* Returns the port, which the system chooses if `port` is 0; 0 when that fails. */
static unsigned listen_on(struct uv_echo_server *server, int port)
{
    struct sockaddr_in at;
    int size = sizeof(at);
    server->listener.data = server;
    if (uv_ip4_addr("127.0.0.1", port, &at) != 0 ||
        uv_tcp_init(server->loop, &server->listener) != 0 ||
        uv_tcp_bind(&server->listener, (struct sockaddr *)&at, 0) != 0 ||
        uv_listen((uv_stream_t *)&server->listener, 1024, welcome) != 0 ||
        uv_tcp_getsockname(&server->listener, (struct sockaddr *)&at, &size) != 0)
        return 0;
    return ntohs(at.sin_port);
}

/* Closes what is still open, except the wheel's alarm. */
static void close_all(uv_handle_t *handle, void *context)
{
    struct uv_echo_server *server = context;
    if (uv_is_closing(handle) || handle->type == UV_TIMER)
        return;
    if (handle->type == UV_TCP && handle != (uv_handle_t *)&server->listener)
        hang_up(&server->idle, handle);
    else
        uv_close(handle, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: uv_echo PORT IDLE_MS\n");
        return 2;
    }
    struct uv_echo_server server = {.loop = uv_default_loop(),
                                    .idle_ms = strtoul(argv[2], NULL, 10)};
    setvbuf(stdout, NULL, _IOLBF, 0);
    unsigned port = listen_on(&server, (int)strtol(argv[1], NULL, 10));
    if (port == 0 || tw_uv_init(&server.idle, server.loop, hang_up) != 0 ||
        uv_signal_init(server.loop, &server.interrupt) != 0 ||
        uv_signal_init(server.loop, &server.terminate) != 0 ||
        uv_signal_start(&server.interrupt, stop, SIGINT) != 0 ||
        uv_signal_start(&server.terminate, stop, SIGTERM) != 0) {
        fprintf(stderr, "uv_echo: cannot start\n");
        return 1;
    }
    printf("listening on 127.0.0.1:%u\n", port);
    uv_run(server.loop, UV_RUN_DEFAULT);

    uv_walk(server.loop, close_all, &server);
    tw_uv_deinit(&server.idle, NULL);
    uv_run(server.loop, UV_RUN_DEFAULT);
    return uv_loop_close(server.loop) == 0 ? 0 : 1;
}
