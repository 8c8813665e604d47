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
    struct node_request node; /* the caller sets `command` before scatter_submit */
    struct scatter *scatter;
    enum error_code error; /* error of the command, or of the node that refused it */
};

struct scatter {
    struct call *call;
    void (*resume)(struct call *call); /* called after all replies; calls `finish` by default */
    void (*done)(
        /* called for each reply, which is valid only then; may be NULL */
        struct scatter_part *part);
    void (*finish)(struct scatter *scatter); /* called after all replies; answers the call */
    void *room; /* for the caller, freed with the scatter; may be NULL */
    size_t count;
    _Atomic size_t missing; /* missing replies, plus one until all parts are submitted */
    struct scatter_part parts[];
};

/* Makes a scatter of `count` parts, all zero, as the call's state. NULL if answered, out of
 * memory. */
struct scatter *scatter_create(struct call *call, size_t count);

/* Makes a scatter that belongs to another state of the call, which frees it and sets its
 * `resume`. NULL if out of memory. */
struct scatter *scatter_alloc(struct call *call, size_t count);

/* Gives each part a copy of a patch of these fields (enum timer_patch_field). Returns false if
 * out of memory; then no part has one. */
bool scatter_give_patch(struct scatter *scatter, const struct timer *patch, uint32_t fields);

/* Submits every part; calls `finish` in any case. */
void scatter_submit(struct scatter *scatter);

/* Returns the first error of a part that is the service's (500 and above), not the timer's. */
enum error_code scatter_failure(const struct scatter *scatter);

void scatter_closed(struct call *call);

#endif
