/*
 * broker_url.h - the URL of a broker in the configuration, with its secrets:
 *
 *     amqp://user:secret@host:5672/vhost?heartbeat=10
 *
 * Errors     ERROR_INVALID with the fault, never with a part of the URL.
 * Ownership  A URL holds its texts itself.
 * Threads    Any.
 */
#ifndef TICKWHEEL_DELIVERY_BROKER_URL_H
#define TICKWHEEL_DELIVERY_BROKER_URL_H

#include "base/bytes.h"
#include "base/error.h"

#define BROKER_NAME_SIZE_MAX      64 /* maximum size of a connection's name */
#define BROKER_URL_SIZE_MAX       2000
#define BROKER_URL_PARAMETERS_MAX 24

/* ---- where a broker is ---- */

struct broker_parameter {
    const char *name, *value;
};

/* A parsed URL. All texts are decoded; a part that is missing is "". */
struct broker_url {
    char text_[2 * BROKER_URL_SIZE_MAX];
    char text[BROKER_URL_SIZE_MAX + 1]; /* all of it as it was written */
    const char *scheme, *user, *password;
    const char *hosts; /* "host", "host:port", "host:port,host:port" */
    const char *path;  /* without the leading '/' */
    bool has_path;
    struct broker_parameter parameters[BROKER_URL_PARAMETERS_MAX];
    size_t parameter_count;
};

/* Reads "scheme://[user[:password]@]hosts[/path][?name=value&...]". */
enum error_code broker_url_parse(struct bytes text, struct broker_url *ret_url,
                                 struct error *ret_error);

/* Takes the first parameter of this name out of the URL and its text, and returns its value, cut to
 * 15 bytes. False if there is none. */
bool broker_url_take(struct broker_url *url, const char *name, char ret_value[16]);

/* True if both lead to the same place, by the same user, with the same parameters. */
bool broker_url_is_equal(const struct broker_url *one, const struct broker_url *other);

/* Reads `hosts` as a single host, with an optional port. An IPv6 address is returned without
 * brackets. */
enum error_code broker_url_host(const struct broker_url *url, uint16_t port_default,
                                char ret_host[256], uint16_t *ret_port, struct error *ret_error);

/* Appends `text` with each %XX decoded, and a NUL. */
void broker_url_decode(struct bytes text, struct buffer *out);

#endif
