/*
 * broker_backend.h - what a kind of broker must be able to do: one file each, in backend/.
 *
 * A backend wraps the client library of one kind of broker. Everything that all kinds have in
 * common is not its business: the thread, the limits, time-outs, when to connect again, what
 * becomes of a delivery (broker_connection.h). It publishes, and says what became of it:
 *
 *     publish(client, ticket, message)
 *     ... wait(client, ...) ... broker_outcome(sink, ticket, DELIVERY_DONE, "")
 *
 * A ticket stands for the message until its outcome. When its time is over, the connection forgets
 * the ticket and ignores an outcome that still comes for it, so a backend never has to take
 * anything back. Messages under way when a connection is lost need no outcome.
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
#include "timer/target.h"

#define BROKER_VERSION_SIZE 64

/* Ends in a NUL that is not counted, the name and the value alike. */
struct broker_field {
    const char *name;
    struct bytes value;
};

struct broker_message {
    /* Of the target, decoded, each with a NUL that is not counted. */
    struct bytes names[TARGET_PATHS_MAX];
    struct bytes key; /* data NULL: there is none */
    const char *id;   /* equal on every attempt; it is among the fields too */
    struct bytes payload;
    const struct broker_field *fields; /* the headers */
    size_t field_count;
};

struct broker_sink; /* takes outcomes */

struct broker_settings {
    const struct broker_url *url;
    const char *client_name;     /* how we introduce ourselves */
    uint64_t connect_timeout_ms; /* connect takes about this time at most */
    uint32_t inflight_max;       /* tickets without an outcome at a time */
    struct broker_sink *sink;
};

/* What became of a message: DONE when the broker has said that it keeps it; FAILED when a later
 * attempt may do; ENDED when none will. */
void broker_outcome(struct broker_sink *sink, uint64_t ticket, enum delivery_result result,
                    const char *error);

struct broker_backend {
    const char *scheme; /* of targets */

    /* The client library and its version: "hiredis 0.14.1". */
    void (*version)(char ret_text[BROKER_VERSION_SIZE]);

    /* Why no message can go there, as part of a sentence that begins with "it"; NULL: it can. */
    const char *(*refusal)(const struct bytes names[], struct bytes key);

    /* Looks at the settings and connects to nothing. */
    enum error_code (*create)(const struct broker_settings *settings, void **ret_client,
                              struct error *ret_error);

    /* Tries once, for about connect_timeout_ms at most. ERROR_IO says why not. */
    enum error_code (*connect)(void *client, struct error *ret_error);

    /* Hands the message over. False when there is no room for it now: then nothing was taken, and
     * `wait` returns when there may be some. What goes wrong with the connection shows in the next
     * `wait`. */
    bool (*publish)(void *client, uint64_t ticket, const struct broker_message *message);

    /* Sends and receives until something has happened, `wake_fd` is readable or `timeout_ms` have
     * passed (-1: for ever). ERROR_IO when the connection is lost. */
    enum error_code (*wait)(void *client, int wake_fd, int timeout_ms, struct error *ret_error);

    /* Ends the connection at once, if there is one. */
    void (*disconnect)(void *client);

    void (*destroy)(void *client);
};

/* The kinds that this program was built with, up to NULL. */
extern const struct broker_backend *const broker_backends[];

/* Each kind by name, whether the program was built with it or not. */
extern const struct broker_backend broker_redis;    /* redis.c: streams, by hiredis */
extern const struct broker_backend broker_nats;     /* nats.c: JetStream, by nats.c */
extern const struct broker_backend broker_kafka;    /* kafka.c: topics, by librdkafka */
extern const struct broker_backend broker_rabbitmq; /* rabbitmq.c: exchanges, by librabbitmq */

#endif
