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

struct broker_message {
    /* Decoded parts of the target, each with a NUL that is not counted. */
    struct bytes names[TARGET_PATHS_MAX];
    struct bytes key; /* data is NULL if there is none */
    const char *id;   /* equal on every attempt; also among the fields */
    struct bytes payload;
    /* the headers; name and value end with a NUL that is not counted */
    const struct named_bytes *fields;
    size_t field_count;
};

struct broker_sink; /* takes outcomes */

struct broker_settings {
    const struct broker_url *url;
    const char *client_name;     /* name of this client for the broker */
    uint64_t connect_timeout_ms; /* approximate limit of connect */
    uint32_t inflight_max;       /* maximum of tickets without an outcome */
    struct broker_sink *sink;
};

/* Reports the result of a message: DONE if the broker confirmed it; FAILED if a later attempt
 * may succeed; ENDED if none will. */
void broker_outcome(struct broker_sink *sink, uint64_t ticket, enum delivery_result result,
                    const char *error);

struct broker_backend {
    const char *scheme; /* of targets */

    /* Returns the client library and its version: "hiredis 0.14.1". */
    void (*version)(char ret_text[BROKER_VERSION_SIZE]);

    /* Returns why no message can go there, as the rest of a sentence that begins with "it"; NULL
     * if it can. */
    const char *(*refusal)(const struct bytes names[], struct bytes key);

    /* Checks the settings without connecting. */
    enum error_code (*create)(const struct broker_settings *settings, void **ret_client,
                              struct error *ret_error);

    /* Tries once to connect, for about connect_timeout_ms at most. ERROR_IO has the reason. */
    enum error_code (*connect)(void *client, struct error *ret_error);

    /* Sends the message. Returns false if there is no room now: nothing was taken, and `wait`
     * returns when there may be some. The next `wait` reports errors of the connection. */
    bool (*publish)(void *client, uint64_t ticket, const struct broker_message *message);

    /* Sends and receives until something has happened, `wake_fd` is readable or `timeout_ms`
     * have passed (-1 for no limit). ERROR_IO if the connection is lost. */
    enum error_code (*wait)(void *client, int wake_fd, int timeout_ms, struct error *ret_error);

    /* Ends the connection at once, if there is one. */
    void (*disconnect)(void *client);

    void (*destroy)(void *client);
};

/* Kinds in this build, terminated by NULL. */
extern const struct broker_backend *const broker_backends[];

/* Each kind by name, in the build or not. */
extern const struct broker_backend broker_redis;    /* redis.c: streams, by hiredis */
extern const struct broker_backend broker_nats;     /* nats.c: JetStream, by nats.c */
extern const struct broker_backend broker_kafka;    /* kafka.c: topics, by librdkafka */
extern const struct broker_backend broker_rabbitmq; /* rabbitmq.c: exchanges, by librabbitmq */

#endif
