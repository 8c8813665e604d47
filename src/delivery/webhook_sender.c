/* webhook_sender.c - the sender of http, https and named targets: a webhook thread with the node's
 * settings. */
#include "delivery/sender.h"

#include "delivery/webhook.h"
#include "sys/clock.h"

#include <stdlib.h>

struct webhook_sender {
    struct guard guard;
    struct named *named;
    struct targets *targets;
    struct webhook *webhook;
};

static struct token_issuer_options webhook_sender_tokens(const struct config *config,
                                                         struct named *named)
{
    return (struct token_issuer_options){
        .vault = named_vault(named),
        .issuer = *config->webhook_token_issuer ? config->webhook_token_issuer : NULL,
        .keys_file = config->webhook_token_keys_file,
        .life_s = (uint32_t)(config->webhook_token_life_ms / 1000),
    };
}

static enum error_code webhook_sender_start(const struct sender_options *options, void **ret_self,
                                            struct error *ret_error)
{
    const struct config *config = options->config;
    const bool sends_events = config->webhook_cloudevents == CONFIG_WEBHOOK_CLOUDEVENTS_BINARY;
    struct webhook_sender *self = calloc(1, sizeof(*self));

    if (!self)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    self->targets = options->targets;
    enum error_code code = guard_init(&self->guard, config->webhook_allow, ret_error);
    if (!code)
        code = named_create(&(struct named_options){.board = options->definitions,
                                                    .keys = config->secrets_keys,
                                                    .secrets_folder = config->secrets_folder,
                                                    .sensitive_headers = config->sensitive_headers,
                                                    .guard = &self->guard,
                                                    .issues_tokens = *config->webhook_token_issuer},
                            &self->named, ret_error);
    if (!code) {
        const struct webhook_options webhook_options = {
            .targets = options->targets,
            .named = self->named,
            .event_source = sends_events ? config->webhook_cloudevents_source : NULL,
            .ack_url = *config->public_url ? config->public_url : NULL,
            .secrets = config->webhook_secret,
            .guard = &self->guard,
            .ca_file = *config->webhook_ca_file ? config->webhook_ca_file : NULL,
            .tokens = webhook_sender_tokens(config, self->named),
            .user_agent = options->user_agent,
            .connections_max = config->webhook_connections_max,
            .connect_timeout_ms = config->webhook_connect_timeout_ms,
            .response_bytes_max = config->webhook_response_bytes_max,
            .answer_bytes = config->delivery_log_bytes ? config->delivery_log_answer_bytes : 0,
            .connection_age_ms_max = config->webhook_connection_age_max_ms,
            .connection_requests_max = config->webhook_connection_requests_max,
            .done = options->done,
            .context = options->context,
        };

        code = webhook_start(&webhook_options, &self->webhook, ret_error);
    }
    if (code) {
        named_destroy(self->named);
        free(self);
        return code;
    }
    *ret_self = self;
    return ERROR_NONE;
}

static enum error_code webhook_sender_begin(void *context, struct error *ret_error)
{
    struct webhook_sender *self = context;

    return webhook_begin(self->webhook, ret_error);
}

/* Checks the URL and its host. If the host is a name, its addresses are checked at connect. */
static enum error_code webhook_sender_check(void *context, struct bytes tenant, struct bytes text,
                                            const struct target *target, struct error *ret_error)
{
    const struct webhook_sender *self = context;

    if (target->kind == TARGET_NAMED)
        return named_check(self->named, tenant, text, target, ret_error);
    if (guard_allows_host(&self->guard, target_slice(text, target->name)))
        return ERROR_NONE;
    return error_set(ret_error, ERROR_INVALID,
                     "this host is at an address that is not public; webhook_allow can allow it");
}

static void webhook_sender_post(void *context, struct list *deliveries)
{
    struct webhook_sender *self = context;

    webhook_post(self->webhook, deliveries);
}

static void webhook_sender_status(void *context, const struct timer *timer,
                                  struct target_status *ret_status)
{
    struct webhook_sender *self = context;

    targets_status(self->targets, timer, instant_timers_now(), ret_status);
}

static enum error_code webhook_sender_reload(void *context, const struct config *config,
                                             struct error *ret_error)
{
    struct webhook_sender *self = context;
    const enum error_code code = named_reload(self->named, config->secrets_keys, ret_error);

    if (code)
        return code;
    const struct token_issuer_options tokens = webhook_sender_tokens(config, self->named);
    return webhook_reload(self->webhook, config->webhook_secret,
                          *config->webhook_ca_file ? config->webhook_ca_file : NULL, &tokens,
                          ret_error);
}

static void webhook_sender_stop(void *context)
{
    struct webhook_sender *self = context;

    webhook_stop(self->webhook);
    named_destroy(self->named);
    free(self);
}

void sender_webhook_append_key_set(void *context, struct buffer *out)
{
    struct webhook_sender *self = context;

    webhook_append_key_set(self->webhook, out);
}

struct named *webhook_sender_named(void *context)
{
    struct webhook_sender *self = context;

    return self->named;
}

const struct sender sender_webhook = {
    .start = webhook_sender_start,
    .begin = webhook_sender_begin,
    .check = webhook_sender_check,
    .post = webhook_sender_post,
    .status = webhook_sender_status,
    .reloads = "webhooks",
    .reload = webhook_sender_reload,
    .stop = webhook_sender_stop,
};
