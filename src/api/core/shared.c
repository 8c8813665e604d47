/* shared.c - sets up and tears down the state that all requests share, and counts batches. */
#include "api/core/shared.h"

#include <stdlib.h>

/* Maximum of list scans at once, which keep the engines and the read thread busy. Each scan may
 * take some megabytes, and requests for single timers wait behind it. */
enum { LIST_SCANS_AT_ONCE = 4 };

/* Maximum of surveys at once. A survey examines all due timers of each partition, so repeated
 * surveys of a client must not fill the shards' time. */
enum { TALLIES_AT_ONCE = 2 };

/* Divisor of all connections for those without a token. */
#define STRANGERS_PART 8

struct shared_listener {
    void (*tell)(void *to, struct bytes tenant, uint64_t refused);
    void *to;
};

static void shared_tell_refused(void *context, const struct access_tenant *tenant)
{
    const struct shared_listener *listener = context;

    if (tenant->refused)
        listener->tell(listener->to, tenant->name, tenant->refused);
}

static void shared_each_refused(void *context,
                                void (*tell)(void *to, struct bytes tenant, uint64_t refused),
                                void *to)
{
    struct shared_listener listener = {tell, to};

    access_tell_tenants(context, shared_tell_refused, &listener);
}

uint32_t shared_strangers_max(const struct api *api, const struct config *config)
{
    return access_is_open(api->access) ? 0 : config->connections_max / STRANGERS_PART;
}

enum error_code shared_init(struct api *api, const struct api_options *options)
{
    const struct config *config = options->config;
    const unsigned thread_count = node_shard_count(options->node);

    api->access = access_create(options->tokens);
    if (!api->access) {
        tokens_free(options->tokens);
        return ERROR_NO_MEMORY;
    }
    api->outboxes = calloc(thread_count, sizeof(*api->outboxes));
    if (!api->outboxes) {
        access_destroy(api->access);
        return ERROR_NO_MEMORY;
    }
    for (unsigned i = 0; i < thread_count; i++)
        list_init(&api->outboxes[i]);
    pthread_mutex_init(&api->lock, NULL);
    list_init(&api->held);
    pthread_cond_init(&api->batch_ended, NULL);
    const size_t left = access_is_open(api->access) ? 0 : 1; /* places for other tenants */
    concurrency_init(&api->lists, LIST_SCANS_AT_ONCE, LIST_SCANS_AT_ONCE - left);
    concurrency_init(&api->tallies, TALLIES_AT_ONCE, TALLIES_AT_ONCE - left);
    concurrency_init(&api->forecasts, FORECASTS_MAX, FORECASTS_MAX - left);
    const enum tenant_pot_division division =
        access_is_open(api->access) ? TENANT_POT_WHOLE : TENANT_POT_DIVIDED;
    tenant_pot_init(&api->bodies, config->bodies_bytes_max, division);
    tenant_pot_init(&api->answers, config->answers_bytes_max, division);
    tenant_pot_init(&api->batches, config->batches_max, division);
    tenant_pot_init(&api->connections, config->connections_max - shared_strangers_max(api, config),
                    division);
    api->options = *options;
    api->limits = (struct timer_json_limits){
        .payload_bytes_max = config->payload_bytes_max,
        .target_bytes_max = config->target_bytes_max,
        .labels_max = config->labels_max,
        .headers_bytes_max = config->headers_bytes_max,
        .sensitive_headers = bytes_of(config->sensitive_headers),
        .target_check = options->target_check,
        .target_context = options->target_context,
        .zones = node_zones(options->node),
    };
    node_set_refusals(options->node, &(struct node_refusals){api->access, shared_each_refused});
    return ERROR_NONE;
}

/* Waits for batches, which live until the node has answered all of them, even if the client hung
 * up. */
static void shared_await_batches(struct api *api)
{
    pthread_mutex_lock(&api->lock);
    while (atomic_load(&api->batches.held) > 0)
        pthread_cond_wait(&api->batch_ended, &api->lock);
    pthread_mutex_unlock(&api->lock);
}

void shared_deinit(struct api *api)
{
    shared_await_batches(api);
    node_set_refusals(api->options.node, NULL);
    concurrency_deinit(&api->lists);
    concurrency_deinit(&api->tallies);
    concurrency_deinit(&api->forecasts);
    tenant_pot_deinit(&api->bodies);
    tenant_pot_deinit(&api->answers);
    tenant_pot_deinit(&api->batches);
    tenant_pot_deinit(&api->connections);
    pthread_cond_destroy(&api->batch_ended);
    pthread_mutex_destroy(&api->lock);
    access_destroy(api->access);
    free(api->outboxes);
}

void shared_leave_batch(struct api *api, struct tenant_pot_share *share)
{
    pthread_mutex_lock(&api->lock);
    tenant_pot_give(&api->batches, share, 1);
    pthread_cond_signal(&api->batch_ended);
    pthread_mutex_unlock(&api->lock);
}
