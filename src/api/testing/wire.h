/*
 * wire.h - the API behind a socket that is no port, for whoever sends it any bytes: the real
 * server and the real routes on a node that delivers nothing, and answers read back by the letter.
 *
 *     struct wire *wire = wire_start(&config, NULL);
 *     wire_exchange(wire, pieces, 3, &answers);
 *     for (struct bytes rest = buffer_bytes(&answers); rest.size > 0;)
 *         wire_take_reply(&rest, WIRE_BODY, &reply);
 *
 * The program is linked with --wrap=loop_listen (CMakeLists.txt).
 *
 * Errors     Everything aborts.
 * Threads    The caller's; the server and the node have their own.
 */
#ifndef TICKWHEEL_API_TESTING_WIRE_H
#define TICKWHEEL_API_TESTING_WIRE_H

#include "api/api.h"
#include "api/testing/probe.h"

struct wire {
    struct node_probe probe;
    struct api *api;
};

/* Copies the config, whose listen_port tells it from other wires of the program. Takes the tokens;
 * NULL: everybody may do everything. No worker waits. */
struct wire *wire_start(const struct config *config, struct tokens *tokens);
void wire_stop(struct wire *wire);

/* One connection: sends the pieces, each when the one before was read, and an end. Appends all that
 * came until the server closed. */
void wire_exchange(struct wire *wire, const struct bytes *pieces, size_t count,
                   struct buffer *ret_answers);

struct wire_reply {
    int status;
    struct bytes head; /* lines behind the status line, each with its CRLF */
    struct bytes type; /* empty: no Content-Type */
    struct bytes body;
};

enum wire_body {
    WIRE_BODY,
    WIRE_BODY_OR_NOT, /* the request may have been a HEAD: see what follows */
};

/* Takes a final answer off the front, those with 1xx before it are passed over. It is HTTP/1.1, is
 * whole, and has no header but those that the service sends, once each. False: there was none. */
bool wire_take_reply(struct bytes *answers, enum wire_body body, struct wire_reply *ret_reply);

#endif
