/*
 * webhook_direct.h - webhooks to plain http targets, over kept-alive HTTP/1.1 connections without
 * libcurl. All other webhooks are sent by libcurl (webhook_transfer.h), at several times the cost.
 *
 *     if (!webhook_direct_begin(direct, delivery, &ticket, others)) by libcurl;
 *     ...
 *     webhook_direct_turn(direct, now), by webhook_direct_wake_at() at the latest
 *
 * Outcome    With the same texts as by libcurl: both fill in a struct webhook_attempt.
 * Repeats    None: an attempt is one request on the wire. If a kept-alive connection was closed and
 *            took no byte of the request, the request is sent over a new connection.
 * Names      libcurl resolves a name for one webhook, and the address that it reached is stored
 *            (webhook_origin.h). New connections are made to that address. If it is too old, or
 *            cannot be reached, the webhook is sent by libcurl.
 * Addresses  Each connection goes to an address that the guard allows at that moment.
 * Threads    None: the webhook thread's own.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_DIRECT_H
#define TICKWHEEL_DELIVERY_WEBHOOK_DIRECT_H

#include "delivery/webhook_transfer.h"

struct webhook_direct_options {
    const struct webhook_settings *settings; /* borrowed */
    struct event_loop *loop;                 /* borrowed */
    uint32_t connections_max;                /* maximum of open connections, including `others` */
    /* Called at the end of each delivery that webhook_direct_begin has taken. */
    void (*ended)(void *context, struct delivery *delivery, const struct target_ticket *ticket,
                  struct target_verdict verdict);
    /* Called for a delivery that has no address to go to. The caller delivers it by libcurl within
     * `left_ms`. */
    void (*passed)(void *context, struct delivery *delivery, const struct target_ticket *ticket,
                   uint64_t left_ms);
    void *context;
};

struct webhook_direct;

/* Returns NULL if memory is out or the system has no entropy. */
struct webhook_direct *webhook_direct_create(const struct webhook_direct_options *options);

/* Frees everything. No delivery may be in flight: webhook_direct_abort ends those that are. */
void webhook_direct_destroy(struct webhook_direct *direct);

/* Takes the delivery, which may end within the call. Returns false without effect if libcurl must
 * deliver it: its target is not plain http or has no known address, or the connections and `others`
 * have reached the limit. */
bool webhook_direct_begin(struct webhook_direct *direct, struct delivery *delivery,
                          const struct target_ticket *ticket, size_t others);

/* Stores that the timer's target (webhook_target_is_named) answered at `address`, to which libcurl
 * had connected. */
void webhook_direct_learn(struct webhook_direct *direct, const struct timer *timer,
                          const char *address);

/* Ends attempts that have timed out, and closes connections that were idle for too long. */
void webhook_direct_turn(struct webhook_direct *direct, struct instant now);

/* Returns when to call webhook_direct_turn next; UINT64_MAX ns if no time-out is set. */
struct instant webhook_direct_wake_at(const struct webhook_direct *direct);

/* Closes idle connections until `others` fit below the limit, or none is idle. */
void webhook_direct_make_room(struct webhook_direct *direct, size_t others);

/* Ends all deliveries as FAILED with this text, which says nothing about their targets. */
void webhook_direct_abort(struct webhook_direct *direct, const char *error);

/* Returns the number of deliveries in flight; webhook_direct_open: the number of open
 * connections. */
size_t webhook_direct_flying(const struct webhook_direct *direct);
size_t webhook_direct_open(const struct webhook_direct *direct);

#endif
