/*
 * fan.h - a call that asks the node many things at once, and answers when all of them are answered.
 *
 * Ownership  The call's `state` holds the fan, and scatter_closed frees it: use it as the route's
 *            `closed`.
 * Threads    `done` of a part is called on the node's thread; `finish` on the thread of the last
 *            answer.
 */
#ifndef TICKWHEEL_API_CORE_SCATTER_H
#define TICKWHEEL_API_CORE_SCATTER_H

#include "api/core/call.h"

struct scatter;

struct scatter_part {
    struct node_request node; /* fill in `command` before scatter_submit */
    struct scatter *fan;
    enum error_code error; /* of the command, or the refusal of the node */
};

struct scatter {
    struct call *call;
    void (*done)(
        struct scatter_part *part);      /* an answer is there, and valid only now; may be NULL */
    void (*finish)(struct scatter *fan); /* all are there: answers the call */
    void *room;                          /* the caller's own, freed with the fan; may be NULL */
    size_t count;
    _Atomic size_t missing; /* answers, and one more until all are submitted */
    struct scatter_part parts[];
};

/* A fan of `count` parts, all zero, as the call's state. NULL: answered, out of memory. */
struct scatter *scatter_create(struct call *call, size_t count);

/* Submits every part, and ends with `finish` in any case. */
void scatter_submit(struct scatter *fan);

/* The first error of a part that means that the service, not the timer, is the reason. */
enum error_code scatter_failure(const struct scatter *fan);

void scatter_closed(struct call *call);

#endif
