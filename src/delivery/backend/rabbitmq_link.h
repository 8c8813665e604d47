/*
 * rabbitmq_link.h - a connection to a RabbitMQ server: its URL, TLS, login and channels. For the
 * broker of deliveries (rabbitmq.c) and for queues that timers come from (source/amqp.c).
 *
 *     rabbitmq_link_init(&link, &url, NULL, &error);
 *     if (!rabbitmq_link_open(&link, timeout_ms, "tickwheeld", 1))
 *         ... link.cause ...
 *     rabbitmq_link_close(&link);
 *
 * Errors     A link that fails is lost, and `cause` says why, until it is opened again.
 * Ownership  The URL is borrowed, and outlives the link.
 * Threads    One.
 */
#ifndef TICKWHEEL_DELIVERY_BACKEND_RABBITMQ_LINK_H
#define TICKWHEEL_DELIVERY_BACKEND_RABBITMQ_LINK_H

#include "delivery/broker_url.h"

/* From librabbitmq 0.12 on, the old names of its headers cause warnings. */
#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#endif

enum {
    RABBITMQ_HEARTBEAT_S = 10,
    RABBITMQ_CAUSE_SIZE = 160,
};

struct rabbitmq_link {
    const struct broker_url *url;
    char host[256];
    uint16_t port;
    const char *ca_file; /* NULL without TLS */
    amqp_connection_state_t connection;
    bool is_lost;
    char cause[RABBITMQ_CAUSE_SIZE]; /* why is_lost is set, in words; empty before */
};

/* Checks the URL without connecting. `own` names the parameters that the caller reads itself, and
 * ends with NULL; NULL if there are none. */
enum error_code rabbitmq_link_init(struct rabbitmq_link *link, const struct broker_url *url,
                                   const char *const own[], struct error *ret_error);

/* Connects, logs in with the name of this client, and opens the channels 1 to `channels`. Returns
 * false if the link is lost. */
bool rabbitmq_link_open(struct rabbitmq_link *link, uint64_t timeout_ms, const char *client_name,
                        amqp_channel_t channels);

/* Closes the connection, if there is one, without waiting. */
void rabbitmq_link_close(struct rabbitmq_link *link);

bool rabbitmq_link_open_channel(struct rabbitmq_link *link, amqp_channel_t channel);

/* Marks the link as lost. The first cause is kept. */
void rabbitmq_link_lose(struct rabbitmq_link *link, const char *cause);

/* Returns true if the last call succeeded. Otherwise the link is lost. */
bool rabbitmq_link_check(struct rabbitmq_link *link, amqp_rpc_reply_t reply);

/* Returns true if something was received that amqp_simple_wait_frame returns at once. */
bool rabbitmq_link_has_input(struct rabbitmq_link *link);

/* Writes the text with which the server closes a channel or the connection. */
void rabbitmq_link_format_close(const amqp_method_t *method, char ret_text[RABBITMQ_CAUSE_SIZE]);

#endif
