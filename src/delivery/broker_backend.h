/*
 * broker_backend.h - functions of a kind of broker. Each kind has one file, in backend/.
 *
 * A backend wraps the client library of one kind of broker. It publishes messages and reports their
 * outcomes. What all kinds have in common is in broker_connection.h: the thread, limits, time-outs,
 * when to connect again, and what an outcome means for the delivery.
 *
 *     publish(client, ticket, message)
 *     ... wait(client, ...) ... broker_outcome(sink, ticket, DELIVERY_DONE, "")
 *
 * A ticket identifies the message until its outcome. After the message's time-out the connection
 * ignores an outcome for that ticket, so a backend need not revoke a message. Messages in flight
 * when a connection is lost need no outcome.
 *
 * Errors     Only create refuses settings. What goes wrong later is an outcome, or the loss of the
 *            connection, reported by connect and wait.
 * Ownership  A message is valid during publish only. The settings, their URL and the sink outlive
 *            the client.
 * Threads    A client has one thread, the connection's; broker_outcome is for that thread only.
 *            `refusal` and `version` may be called from any.
 */
#ifndef TICKWHEEL_DELIVERY_BROKER_BACKEND_H
#define TICKWHEEL_DELIVERY_BROKER_BACKEND_H

#include "delivery/broker_url.h"
#include "engine/delivery.h"
#include "log/log_once.h"
#include "timer/target.h"

#define BROKER_VERSION_SIZE 64

struct broker_message {
    /* Decoded parts of the target, each with a NUL that is not counted. `data` is NULL if the
     * target has fewer parts. */
    struct bytes names[TARGET_PATHS_MAX];
    struct bytes key; /* `data` is NULL if the target has no key */
    const char *id;   /* equal for every attempt; also one of `fields` */
    struct bytes payload;
    bool is_json;           /* whether the payload is JSON, or bytes */
    struct bytes timer_key; /* the client's own name for the timer; empty if it has none */
    /* headers of the message; name and value end with a NUL that their size does not count */
    const struct named_bytes *fields;
    size_t field_count;
};

struct broker_sink; /* receives outcomes */

struct broker_settings {
    const struct broker_url *url;
    const char *client_name;     /* name by which the broker shows this client */
    uint64_t connect_timeout_ms; /* approximate time limit of connect */
    uint32_t inflight_max;       /* maximum of messages without an outcome */
    struct broker_sink *sink;
};

/* Reports the result of a message: DONE if the broker confirmed it; FAILED if a later attempt
 * may succeed; ENDED if none will. */
void broker_outcome(struct broker_sink *sink, uint64_t ticket, enum delivery_result result,
                    const char *error);

struct broker_backend {
    const char *scheme; /* scheme of the targets */

    /* Returns the client library and its version: "hiredis 0.14.1". */
    void (*version)(char ret_text[BROKER_VERSION_SIZE]);

    /* Returns why messages cannot be sent to these names, as the rest of a sentence that begins
     * with "it"; NULL if they can. */
    const char *(*refusal)(const struct bytes names[], struct bytes key);

    /* Checks the settings without connecting. */
    enum error_code (*create)(const struct broker_settings *settings, void **ret_client,
                              struct error *ret_error);

    /* Tries once to connect, for about connect_timeout_ms. Returns ERROR_IO with the reason on
     * failure. */
    enum error_code (*connect)(void *client, struct error *ret_error);

    /* Sends the message. Returns false if there is no room for it now; then `wait` returns when
     * there may be. Errors of the connection are reported by the next `wait`. */
    bool (*publish)(void *client, uint64_t ticket, const struct broker_message *message);

    /* Puts the message into a transaction of the cluster's log, whose servers are of this kind, as
     * number `index`. NULL if the kind cannot carry a log. For any thread. */
    void (*stage)(struct log_once *once, size_t index, const struct broker_message *message);

    /* Sends and receives until something has happened, `wake_fd` is readable, or `timeout_ms` have
     * passed; -1 disables the limit. Returns ERROR_IO if the connection is lost. */
    enum error_code (*wait)(void *client, int wake_fd, int timeout_ms, struct error *ret_error);

    /* Closes the connection, if there is one, without waiting. */
    void (*disconnect)(void *client);

    void (*destroy)(void *client);
};

/* Kinds of broker in this build; the last element is NULL. */
extern const struct broker_backend *const broker_backends[];

/* Each kind by name, whether this build has it or not. */
extern const struct broker_backend broker_redis;    /* redis.c: streams, by hiredis */
extern const struct broker_backend broker_nats;     /* nats.c: JetStream, by nats.c */
extern const struct broker_backend broker_kafka;    /* kafka.c: topics, by librdkafka */
extern const struct broker_backend broker_rabbitmq; /* rabbitmq.c: exchanges, by librabbitmq */
extern const struct broker_backend broker_postgres; /* postgres.c: tables, functions, by libpq */

#endif
