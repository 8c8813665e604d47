/*
 * node_counts.h - what a node counts over all its partitions: live timers, and timers in requests
 * that are not answered yet.
 *
 * Threads    Any: members are atomic, or have their own lock.
 */
#ifndef TICKWHEEL_NODE_NODE_COUNTS_H
#define TICKWHEEL_NODE_NODE_COUNTS_H

#include "node/census.h"
#include "node/node.h"
#include "timer/tenant_counts.h"
#include "timer/tenant_pot.h"

#include <pthread.h>
#include <stdatomic.h>

struct node_counts {
    _Atomic uint64_t pending_all;    /* live timers */
    _Atomic uint64_t pending_others; /* live timers on other nodes, as last reported by them */
    struct tenant_counts tenants;    /* live timers by tenant */
    struct census *waiting_queues, *waiting_tenants; /* waiting timers by queue and by tenant */
    _Atomic uint64_t placed;    /* number of timers placed by node_partition_next */
    atomic_uint next_partition; /* next partition for timers that no shard keeps */
    atomic_uint gathers; /* number of leases sent to other nodes; rotates the first node to ask */
    pthread_mutex_t refusals_lock;                 /* guards `refusals` and `source_trouble` */
    struct node_refusals refusals;                 /* all 0 if refusals are not counted */
    char source_trouble[NODE_SOURCE_TROUBLE_SIZE]; /* node_set_source_trouble */
    struct tenant_pot inflight; /* timers in unanswered requests, shared among tenants */
};

void node_counts_init(struct node_counts *counts, const struct config *config);
void node_counts_deinit(struct node_counts *counts);

/* Counts the request as in flight until node_counts_leave. Returns false if too much is in
 * flight. */
bool node_counts_enter(struct node_counts *counts, struct node_request *request);

/* Ends that count, before `done` of the request. */
void node_counts_leave(struct node_counts *counts, struct node_request *request);

/* Returns the key of the tenant for which a command works. */
uint64_t node_counts_tenant(const struct command *command);

#endif
