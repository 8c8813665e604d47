/*
 * webhook_direct.h - webhooks to plain http targets, over HTTP/1.1 connections of our own that are
 * kept alive. What it does not take goes by libcurl (webhook_transfer.h), which costs several times
 * as much for each webhook.
 *
 *     if (!webhook_direct_begin(direct, delivery, &ticket, others)) by libcurl;
 *     ...
 *     webhook_direct_turn(direct, now), by webhook_direct_wake_at() at the latest
 *
 * Outcome    As libcurl's, to the word: both fill in a struct webhook_attempt.
 * Repeats    None: an attempt is one request on the wire. If a kept-alive connection was closed and
 *            took no byte of the request, the request goes over a new connection.
 * Names      It resolves none: libcurl does, for one webhook, which teaches the address
 *            (webhook_origin.h). New connections go there. When it is too old, or takes no
 *            connection, the webhook goes by libcurl after all.
 * Addresses  Each connection goes to an address that the guard allows at that moment.
 * Threads    None: the webhook thread's own.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_DIRECT_H
#define TICKWHEEL_DELIVERY_WEBHOOK_DIRECT_H

#include "delivery/webhook_transfer.h"

struct webhook_direct_options {
    const struct webhook_settings *settings; /* borrowed */
    struct event_loop *loop;                 /* borrowed */
    uint32_t connections_max;                /* maximum of open connections, `others` included */
    /* Reports the end of a delivery that webhook_direct_begin took. */
    void (*ended)(void *context, struct delivery *delivery, const struct target_ticket *ticket,
                  struct target_verdict verdict);
    /* Gives back a delivery that it cannot deliver for want of an address: use libcurl, with
     * `left_ms`. */
    void (*passed)(void *context, struct delivery *delivery, const struct target_ticket *ticket,
                   uint64_t left_ms);
    void *context;
};

struct webhook_direct;

/* Returns NULL if out of memory, or without entropy. */
struct webhook_direct *webhook_direct_create(const struct webhook_direct_options *options);

/* Requires that no delivery is in flight: all have ended, or webhook_direct_abort ended them. */
void webhook_direct_destroy(struct webhook_direct *direct);

/* Takes the delivery, which may end within the call. Returns false without effect if its target
 * is none for it, or its connections and `others` reach the limit. */
bool webhook_direct_begin(struct webhook_direct *direct, struct delivery *delivery,
                          const struct target_ticket *ticket, size_t others);

/* Notes that the timer's target (webhook_target_is_named) answered at this address, to which
 * libcurl had just connected. */
void webhook_direct_learn(struct webhook_direct *direct, const struct timer *timer,
                          const char *address);

/* Ends what has timed out. */
void webhook_direct_turn(struct webhook_direct *direct, struct instant now);

/* Returns when to call webhook_direct_turn; UINT64_MAX ns if no time-out is set. */
struct instant webhook_direct_wake_at(const struct webhook_direct *direct);

/* Closes idle connections until there is room for `others`, or none is idle. */
void webhook_direct_make_room(struct webhook_direct *direct, size_t others);

/* Ends all deliveries as FAILED for this reason, which says nothing about their targets. */
void webhook_direct_abort(struct webhook_direct *direct, const char *error);

/* Returns the number of deliveries in flight; webhook_direct_open: of open connections. */
size_t webhook_direct_flying(const struct webhook_direct *direct);
size_t webhook_direct_open(const struct webhook_direct *direct);

#endif
