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

#define BROKERS_MAX 64 /* connections */

struct brokers_options {
    const char *connections; /* "NAME=URL NAME=URL ..."; may be empty */
    /* terminated by NULL; broker_backends except in tests */
    const struct broker_backend *const *backends;
    const char *cluster_brokers, *cluster_name; /* of the log; NULL or empty without a cluster */
    const char *client_name;                    /* borrowed until stop, as are the backends */
    uint32_t inflight_max; /* for each connection; see broker_connection_options */
    uint64_t inflight_bytes_max;
    uint64_t connect_timeout_ms;
    uint64_t seed;
    void (*done)(void *context, struct list *deliveries);
    void *context;
};

struct brokers;

/* Starts the connections without waiting for them. ERROR_INVALID names the wrong connection, and
 * never shows its URL. */
enum error_code brokers_start(const struct brokers_options *options, struct brokers **ret_brokers,
                              struct error *ret_error);

/* Applies a changed setting. A connection with an equal URL stays. One that is missing, or has
 * another URL, ends when its deliveries have come back; later deliveries use the new one. On an
 * error nothing changes. Connections with exactly_once cannot change. */
enum error_code brokers_reload(struct brokers *brokers, const char *connections,
                               struct error *ret_error);

/* Checks the settings of brokers_start without starting anything. */
enum error_code brokers_check_settings(const char *connections, const char *cluster_brokers,
                                       const struct broker_backend *const *backends,
                                       struct error *ret_error);

/* Checks whether a timer may have this broker target: INVALID has the reason. */
enum error_code brokers_check(struct brokers *brokers, struct bytes text,
                              const struct target *target, struct error *ret_error);

/* True if messages to this target are sent in a transaction with the log of the cluster, by the
 * caller: brokers_post does not take them. */
bool brokers_is_exactly_once(struct brokers *brokers, struct bytes text,
                             const struct target *target);

/* True if any connection is one for that. */
bool brokers_has_exactly_once(const struct brokers *brokers);

/* Takes the deliveries and empties the list. Does not wait. */
void brokers_post(struct brokers *brokers, struct list *deliveries);

/* Makes deliveries without a connection come back at once. Once, before brokers_stop. */
void brokers_drain(struct brokers *brokers);

/* Ends all connections. Each delivery has come back when this returns. */
void brokers_stop(struct brokers *brokers);

/* Returns the state of connection `index`, in the order of the configuration. False if there are
 * no more. */
bool brokers_status(struct brokers *brokers, size_t index, struct broker_status *ret_status);

/* Appends "redis (hiredis 0.14.1), nats (...)", or "none". */
void brokers_format_backends(const struct broker_backend *const *backends, struct buffer *out);

#endif
