/*
 * client.h - an HTTP client for tests: sends bytes exactly as told and reads answers one by one.
 *
 * Nothing waits longer than CLIENT_PATIENCE_MS; then the test fails.
 *
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_HTTP_TESTING_CLIENT_H
#define TICKWHEEL_HTTP_TESTING_CLIENT_H

#include "base/bytes.h"

#define CLIENT_PATIENCE_MS 120000

struct client {
    int socket;
    struct buffer in; /* received */
    size_t taken;     /* of it, by client_receive */
};

/* One answer; everything points into the client and holds until its next call. */
struct reply {
    int status;
    struct bytes head; /* with the status line */
    struct bytes body;
};

void client_open(struct client *client, uint16_t port);

/* One whose socket keeps so few bytes that were not read; 0: as many as is usual. */
void client_open_narrow(struct client *client, uint16_t port, int room);
void client_close(struct client *client);

/* Whether anyone listens there. */
bool client_can_connect(uint16_t port);

/* Closes in such a way that the server sees a reset. */
void client_reset(struct client *client);

/* False when the server has closed. */
bool client_send(struct client *client, struct bytes data);
bool client_printf(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sends until nothing goes any more for `ms`; returns what is left. */
struct bytes client_send_some(struct client *client, struct bytes data, int ms);

/* Says that nothing more will be sent. */
void client_finish(struct client *client);

/* The next answer; `method` is that of the request, since HEAD has no body. False when the
 * connection ended before it was whole. */
bool client_receive(struct client *client, const char *method, struct reply *ret_reply);

/* Sends a request with a body (may be empty) and reads its answer; the test fails without one.
 * `headers` are whole lines, each with its CRLF. */
void client_ask(struct client *client, const char *method, const char *target, const char *headers,
                struct bytes body, struct reply *ret_reply);

/* Waits for the end of the connection. False when data comes instead. */
bool client_is_at_end(struct client *client);

/* Waits for the end of the connection, whatever comes before it. */
bool client_await_end(struct client *client);

/* Whether anything can be read (data or the end) within `ms`. */
bool client_has_news(struct client *client, int ms);

/* The value of a header, or empty; names in any case. */
struct bytes reply_header(const struct reply *reply, const char *name);

bool reply_has_header(const struct reply *reply, const char *name, const char *value);
bool reply_body_contains(const struct reply *reply, const char *text);

#endif
