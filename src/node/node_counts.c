/* node_counts.c - live timers and requests in flight; see node_counts.h. */
#include "node/node_counts.h"

void node_counts_init(struct node_counts *counts, const struct config *config)
{
    tenant_counts_init(&counts->tenants);
    pthread_mutex_init(&counts->refusals_lock, NULL);
    tenant_pot_init(&counts->inflight, config->inflight_max,
                    *config->tokens_file ? TENANT_POT_DIVIDED : TENANT_POT_WHOLE);
}

void node_counts_deinit(struct node_counts *counts)
{
    tenant_counts_deinit(&counts->tenants);
    census_destroy(counts->waiting_queues);
    census_destroy(counts->waiting_tenants);
    pthread_mutex_destroy(&counts->refusals_lock);
    tenant_pot_deinit(&counts->inflight);
}

uint64_t node_counts_tenant(const struct command *command)
{
    return tenant_key(command->timer_count > 0 ? command->timers[0]->texts.tenant
                                               : command->tenant);
}

bool node_counts_enter(struct node_counts *counts, struct node_request *request)
{
    request->share_ = tenant_pot_take(&counts->inflight, node_counts_tenant(&request->command),
                                      command_weight(&request->command));
    return request->share_;
}

void node_counts_leave(struct node_counts *counts, struct node_request *request)
{
    tenant_pot_give(&counts->inflight, request->share_, command_weight(&request->command));
}
