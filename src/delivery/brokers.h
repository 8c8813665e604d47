/*
 * brokers.h - the message brokers that timers can go to: the connections of the configuration, by
 * name.
 *
 *     brokers_start(&options, &brokers, &error);     "orders=redis://10.0.0.5 bus=nats://10.0.0.6"
 *     brokers_check(brokers, text, &target, &error); at creation: may a timer have this target?
 *     brokers_post(brokers, &deliveries);            they come back through options.done
 *     brokers_reload(brokers, connections, &error);  SIGHUP: other connections, or credentials
 *     brokers_stop(brokers);
 *
 * Which kinds of broker there are was decided when the program was built (broker_backend.h). Each
 * connection has its own thread and limits, so a broker that is down or slow holds up its own
 * deliveries only. docs/brokers.md tells the user's side.
 *
 * Outcome    As broker_connection.h says. A target without a connection is FAILED: it was there
 *            when the timer was created, and may be there again.
 * Threads    Any, but for start, reload and stop, which are one thread's. `done` is called from the
 *            connections' threads and from within brokers_post.
 */
#ifndef TICKWHEEL_DELIVERY_BROKERS_H
#define TICKWHEEL_DELIVERY_BROKERS_H

#include "delivery/broker_backend.h"
#include "delivery/broker_connection.h"

#define BROKERS_MAX 64 /* maximum of connections */

struct brokers_options {
    const char *connections; /* "NAME=URL NAME=URL ..."; may be empty */
    /* terminated by NULL; broker_backends except in tests */
    const struct broker_backend *const *backends;
    /* brokers or database, and name, of the cluster's log; NULL or empty without */
    const char *cluster_brokers, *cluster_log, *cluster_name;
    const char *client_name; /* borrowed until stop, as are the backends */
    uint32_t inflight_max;   /* for each connection; see broker_connection_options */
    uint64_t inflight_bytes_max;
    uint64_t connect_timeout_ms;
    uint64_t seed;
    void (*done)(void *context, struct list *deliveries);
    void *context;
};

struct brokers;

/* Starts the connections and returns before they are made. ERROR_INVALID names the connection whose
 * settings are wrong, without its URL. */
enum error_code brokers_start(const struct brokers_options *options, struct brokers **ret_brokers,
                              struct error *ret_error);

/* Applies a changed setting. A connection with an equal URL stays. A connection that is missing, or
 * has another URL, ends when its deliveries have come back; later deliveries use the new one. On an
 * error nothing changes. Connections with exactly_once cannot be changed. */
enum error_code brokers_reload(struct brokers *brokers, const char *connections,
                               struct error *ret_error);

/* Checks the settings of brokers_start without starting anything. */
enum error_code brokers_check_settings(const struct brokers_options *options,
                                       struct error *ret_error);

/* Checks whether a timer may have this broker target. ERROR_INVALID has the reason. */
enum error_code brokers_check(struct brokers *brokers, struct bytes text,
                              const struct target *target, struct error *ret_error);

/* True if messages to this target are sent in a transaction with the log of the cluster. The caller
 * sends them; brokers_post must not get them. */
bool brokers_is_exactly_once(struct brokers *brokers, struct bytes text,
                             const struct target *target);

/* Puts the message of such a delivery into the transaction as number `index`. */
void brokers_stage(const struct brokers *brokers, const struct target *target,
                   struct log_once *once, size_t index, const struct broker_message *message);

/* True if any connection has exactly_once. */
bool brokers_has_exactly_once(const struct brokers *brokers);

/* Takes the deliveries and empties the list. Does not wait. */
void brokers_post(struct brokers *brokers, struct list *deliveries);

/* Makes deliveries without a connection come back at once. Called once, before brokers_stop. */
void brokers_drain(struct brokers *brokers);

/* Ends all connections. Each delivery has come back when this returns. */
void brokers_stop(struct brokers *brokers);

/* Returns the state of connection `index`, in the order of the configuration. False if there are
 * no more. */
bool brokers_status(struct brokers *brokers, size_t index, struct broker_status *ret_status);

/* Appends the kinds of broker in this build, such as "redis (hiredis 0.14.1), nats (...)", or
 * "none". */
void brokers_format_backends(const struct broker_backend *const *backends, struct buffer *out);

#endif
