/* brokers_sender.c - the sender of targets at message brokers: the connections of the
 * configuration. */
#include "delivery/sender.h"

#include "delivery/brokers.h"
#include "sys/entropy.h"

static enum error_code brokers_sender_start(const struct sender_options *options, void **ret_self,
                                            struct error *ret_error)
{
    const struct config *config = options->config;
    struct brokers_options brokers_options = {
        .connections = config->broker_connections,
        .backends = broker_backends,
        .cluster_brokers = config->cluster_brokers,
        .cluster_log = config->cluster_log,
        .cluster_name = config->cluster_name,
        .client_name = options->user_agent,
        .inflight_max = config->broker_inflight_max,
        .inflight_bytes_max = config->broker_inflight_bytes_max,
        .connect_timeout_ms = config->broker_connect_timeout_ms,
        .done = options->done,
        .context = options->context,
    };

    if (entropy_u64(&brokers_options.seed) != ERROR_NONE)
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    struct brokers *brokers;
    enum error_code code = brokers_start(&brokers_options, &brokers, ret_error);
    if (!code)
        *ret_self = brokers;
    return code;
}

static enum error_code brokers_sender_check(void *self, struct bytes tenant, struct bytes text,
                                            const struct target *target, struct error *ret_error)
{
    (void)tenant;
    return brokers_check(self, text, target, ret_error);
}

static void brokers_sender_post(void *self, struct list *deliveries)
{
    brokers_post(self, deliveries);
}

static enum error_code brokers_sender_reload(void *self, const struct config *config,
                                             struct error *ret_error)
{
    return brokers_reload(self, config->broker_connections, ret_error);
}

/* Does not wait for brokers that cannot be reached. */
static void brokers_sender_drain(void *self)
{
    brokers_drain(self);
}

static void brokers_sender_stop(void *self)
{
    brokers_stop(self);
}

const struct sender sender_brokers = {
    .start = brokers_sender_start,
    .check = brokers_sender_check,
    .post = brokers_sender_post,
    .reloads = "broker_connections",
    .reload = brokers_sender_reload,
    .drain = brokers_sender_drain,
    .stop = brokers_sender_stop,
};
