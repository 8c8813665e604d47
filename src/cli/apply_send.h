/*
 * apply_send.h - many requests, some at a time.
 *
 * A busy daemon (503, or 429 with a Retry-After) is asked again after its Retry-After.
 *
 * Errors     An exit code, complained about: no answer, or stopped by a signal.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLI_APPLY_SEND_H
#define TICKWHEEL_CLI_APPLY_SEND_H

#include "cli/client.h"

struct apply_request {
    const char *method;
    struct buffer path;       /* empty: this index needs no request */
    struct bytes body;        /* `data` is NULL if there is no body */
    const char *content_type; /* NULL means JSON */
    char header[64];          /* "" for none */
};

/* Writes the request of an index; its path is empty at first. */
typedef void (*apply_prepare)(void *context, size_t index, struct apply_request *request);

/* Takes an answer of a daemon that is not busy. */
typedef void (*apply_answered)(void *context, size_t index, const struct cli_answer *answer);

/* Sends the requests of the indexes below `count`, in any order of their ends. */
enum cli_exit apply_send_all(struct cli *cli, size_t count, apply_prepare prepare,
                             apply_answered answered, void *context);

/* Sends one request, whose path is deinited. Any status is an answer, unless the daemon is busy. */
enum cli_exit apply_send(struct cli *cli, struct apply_request *request,
                         struct cli_answer *ret_answer);

#endif
