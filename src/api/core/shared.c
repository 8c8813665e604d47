/* shared.c - sets up and tears down the state that all requests share, and counts batches. */
#include "api/core/shared.h"

#include <stdlib.h>

/* Scans for pages of lists that run at once: enough to keep the engine's and the read thread busy.
 * Each scan may hold some megabytes, and requests for single timers queue behind it. */
enum { LIST_SCANS_AT_ONCE = 4 };

/* A survey looks at all timers that are due, in each partition: a client that asks again and again
 * keeps no shard busy for longer. */
enum { TALLIES_AT_ONCE = 2 };

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
    concurrency_init(&api->lists, LIST_SCANS_AT_ONCE);
    concurrency_init(&api->tallies, TALLIES_AT_ONCE);
    api->budget = (struct api_budget){config->bodies_bytes_max, config->answers_bytes_max,
                                      config->batches_max};
    api->options = *options;
    api->limits = (struct timer_json_limits){
        .payload_bytes_max = config->payload_bytes_max,
        .target_bytes_max = config->target_bytes_max,
        .labels_max = config->labels_max,
        .headers_bytes_max = config->headers_bytes_max,
        .target_check = options->target_check,
        .target_context = options->target_context,
        .zones = node_zones(options->node),
    };
    node_set_refusals(options->node, &(struct node_refusals){api->access, shared_each_refused});
    return ERROR_NONE;
}

/* A batch whose client hung up lives until the node has answered all of it. */
static void shared_await_batches(struct api *api)
{
    pthread_mutex_lock(&api->lock);
    while (api->batches > 0)
        pthread_cond_wait(&api->batch_ended, &api->lock);
    pthread_mutex_unlock(&api->lock);
}

void shared_deinit(struct api *api)
{
    shared_await_batches(api);
    node_set_refusals(api->options.node, NULL);
    concurrency_deinit(&api->lists);
    concurrency_deinit(&api->tallies);
    pthread_cond_destroy(&api->batch_ended);
    pthread_mutex_destroy(&api->lock);
    access_destroy(api->access);
    free(api->outboxes);
}

bool shared_enter_batch(struct api *api)
{
    pthread_mutex_lock(&api->lock);
    bool has_room = api->batches < api->budget.batches_max;
    api->batches += has_room;
    pthread_mutex_unlock(&api->lock);
    return has_room;
}

void shared_leave_batch(struct api *api)
{
    pthread_mutex_lock(&api->lock);
    api->batches--;
    pthread_cond_signal(&api->batch_ended);
    pthread_mutex_unlock(&api->lock);
}
