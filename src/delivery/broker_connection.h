/*
 * broker_connection.h - delivers timers to one broker: a thread, a client of its kind of broker
 * (broker_backend.h), and a bounded number of messages that the broker has not confirmed yet.
 *
 *     broker_connection_start(&options, &connection, &error);
 *     broker_connection_post(connection, &deliveries);      they come back through options.done
 *     broker_connection_stop(connection);
 *
 * Outcome    DONE once the broker has confirmed. FAILED when it refused for now, when the attempt's
 *            time-out passed after the message was sent, and for messages under way when the
 *            connection was lost: whether they arrived is unknown. ENDED when the broker will never
 *            take it. POSTPONED when it could not be sent in the time of one attempt, because there
 *            is no connection or no room: that spends no attempt.
 * Limits     inflight_max messages, or inflight_bytes_max of payload, without an outcome; the
 *            others wait. How many wait is the caller's to bound.
 * Loss       A connection that is lost, or on which nothing was answered for silence_ms although
 *            something was sent, is made again: at once if it had been of use, otherwise after a
 *            pause that grows (exponential back-off with full jitter, up to 5 s).
 * Errors     Every delivery comes back with an outcome; nothing is dropped, not at stop either.
 * Threads    Post, drain and status from any thread. `done` is called from the connection's thread;
 *            once more from within stop, when something was posted too late for the thread to see.
 */
#ifndef TICKWHEEL_DELIVERY_BROKER_CONNECTION_H
#define TICKWHEEL_DELIVERY_BROKER_CONNECTION_H

#include "delivery/broker_backend.h"

struct broker_connection_options {
    const char *name;
    const struct broker_backend *backend;
    const struct broker_url *url; /* borrowed until stop, as are the next two */
    const char *client_name;
    uint32_t inflight_max;
    /* maximum of payload in flight; one message may always be, however large */
    uint64_t inflight_bytes_max;
    uint64_t connect_timeout_ms;
    uint64_t silence_ms;
    uint64_t seed;                                        /* seed of the jitter */
    void (*done)(void *context, struct list *deliveries); /* becomes the owner of the deliveries */
    void *context;
};

struct broker_connection;

/* Starts the thread, which then connects. Returns ERROR_INVALID if the backend refuses the
 * settings. */
enum error_code broker_connection_start(const struct broker_connection_options *options,
                                        struct broker_connection **ret_connection,
                                        struct error *ret_error);

/* Takes the deliveries and empties the list. Does not wait. */
void broker_connection_post(struct broker_connection *connection, struct list *deliveries);

/* Makes deliveries come back as POSTPONED if they cannot be sent at once because there is no
 * connection. For a clean stop, which would otherwise wait for an unreachable broker. */
void broker_connection_drain(struct broker_connection *connection);

/* Ends the thread when all posted deliveries have come back: those that cannot be sent at once as
 * POSTPONED, the others with their outcome. Nothing may be posted afterwards. Used once, instead of
 * broker_connection_drain, when another connection replaces this one. */
void broker_connection_retire(struct broker_connection *connection);

/* Ends the thread. Deliveries in flight come back as FAILED and waiting ones as POSTPONED,
 * before this returns. Takes at most as long as the backend's connect. */
void broker_connection_stop(struct broker_connection *connection);

/* Begins a stop without waiting, so that several connections can stop at the same time. */
void broker_connection_stop_soon(struct broker_connection *connection);

struct broker_status {
    const char *name;
    const char *scheme;
    bool is_up;
    uint64_t connects; /* number of successful connects */
    char cause[160];   /* why it is not connected; "" until the first attempt has failed */
    char lost[160];    /* why the last connection ended; "" if none has ended */
};

void broker_connection_status(struct broker_connection *connection,
                              struct broker_status *ret_status);

#endif
