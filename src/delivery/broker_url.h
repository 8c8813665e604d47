/*
 * broker_url.h - the two kinds of URL that brokers have: where a broker is, and where on it a timer
 * goes.
 *
 *     connection  amqp://user:secret@host:5672/vhost?heartbeat=10    the operator's, with secrets
 *     target      amqp://CONNECTION/EXCHANGE/ROUTING-KEY             a timer's, without any
 *
 * Errors     ERROR_INVALID with what is wrong, never with a part of a connection's URL.
 * Ownership  A connection holds its texts itself. The parts of a target point into the URL and are
 *            still percent-encoded: broker_url_decode.
 * Threads    Any.
 */
#ifndef TICKWHEEL_DELIVERY_BROKER_URL_H
#define TICKWHEEL_DELIVERY_BROKER_URL_H

#include "base/bytes.h"
#include "base/error.h"

#define BROKER_NAME_SIZE_MAX      64 /* of a connection's name */
#define BROKER_URL_SIZE_MAX       2000
#define BROKER_URL_PARAMETERS_MAX 24
#define BROKER_DECODED_SIZE_MAX   255 /* of a stream, subject, topic, exchange or routing key */
#define BROKER_TARGET_NAMES_MAX   2

/* ---- where a broker is ---- */

struct broker_parameter {
    const char *name, *value;
};

/* All texts are decoded; one that is missing is "". */
struct broker_url {
    char text_[2 * BROKER_URL_SIZE_MAX];
    const char *scheme, *user, *password;
    const char *hosts; /* as it is written: "host", "host:port", "host:port,host:port" */
    const char *path;  /* without the first '/' */
    bool has_path;
    struct broker_parameter parameters[BROKER_URL_PARAMETERS_MAX];
    size_t parameter_count;
};

/* Reads "scheme://[user[:password]@]hosts[/path][?name=value&...]". */
enum error_code broker_url_parse(struct bytes text, struct broker_url *ret_url,
                                 struct error *ret_error);

/* Takes `hosts` for a single host with a port perhaps; an IPv6 address comes without brackets. */
enum error_code broker_url_host(const struct broker_url *url, uint16_t port_default,
                                char ret_host[256], uint16_t *ret_port, struct error *ret_error);

/* ---- where a timer goes ---- */

struct broker_target {
    struct bytes scheme, connection;
    struct bytes names[BROKER_TARGET_NAMES_MAX]; /* the path; with two, parted at its first '/' */
    struct bytes key;                            /* of "?key="; data NULL: there is none */
};

/* Whether the URL has the scheme of a broker, "redis://" and so on, built in or not. */
bool broker_target_is_one(struct bytes target);

/* Splits the path into `name_count` names, and makes sure that they and the key can be decoded.
 * With 0 it looks at the scheme and the connection alone. */
enum error_code broker_target_parse(struct bytes text, size_t name_count,
                                    struct broker_target *ret_target, struct error *ret_error);

/* Appends `text` with its %XX decoded, and a NUL. */
void broker_url_decode(struct bytes text, struct buffer *out);

#endif
