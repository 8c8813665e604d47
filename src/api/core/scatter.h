/*
 * scatter.h - a call that sends requests to several partitions, and answers when all replies are
 * gathered.
 *
 * Ownership  The call's `state` holds the scatter, and scatter_closed frees it: use it as the
 *            route's `closed`. That of scatter_alloc is the caller's to free().
 * Threads    `done` of a part is called on a shard's thread; `finish` on the HTTP worker's that
 *            owns the connection.
 */
#ifndef TICKWHEEL_API_CORE_SCATTER_H
#define TICKWHEEL_API_CORE_SCATTER_H

#include "api/core/call.h"

struct scatter;

struct scatter_part {
    struct node_request node; /* the caller fills in `command` before scatter_submit */
    struct scatter *scatter;
    enum error_code error; /* of the command; or why the node refused it */
};

struct scatter {
    struct call *call;
    void (*resume)(struct call *call); /* all replies are there; calls `finish` by default */
    void (*done)(
        struct scatter_part *part); /* the reply is there, and valid only now; may be NULL */
    void (*finish)(struct scatter *scatter); /* all replies are there: answers the call */
    void *room; /* the caller's own, freed with the scatter; may be NULL */
    size_t count;
    _Atomic size_t missing; /* replies still to come, and one until all parts are submitted */
    struct scatter_part parts[];
};

/* Makes a scatter of `count` parts, all zero, the call's state. NULL: answered, out of memory. */
struct scatter *scatter_create(struct call *call, size_t count);

/* Makes a scatter that another state of the call holds and frees, and whose `resume` the caller
 * sets. NULL: out of memory. */
struct scatter *scatter_alloc(struct call *call, size_t count);

/* Gives each part a copy of a patch of these fields (of enum timer_patch_field). False: out of
 * memory, and no part has one. */
bool scatter_give_patch(struct scatter *scatter, const struct timer *patch, uint32_t fields);

/* Submits every part; calls `finish` in any case. */
void scatter_submit(struct scatter *scatter);

/* The first error of a part that is the service's (500 and above), not the timer's. */
enum error_code scatter_failure(const struct scatter *scatter);

void scatter_closed(struct call *call);

#endif
