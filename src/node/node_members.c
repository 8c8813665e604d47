/* node_members.c - what the control thread of a cluster tells and is asked; see node_members.h. */
#include "node/node_members.h"

#include "node/node_state.h"
#include "sys/clock.h"

#include <stdio.h>

void node_control_ask(struct node_control *control, unsigned asks)
{
    atomic_fetch_or(&control->asks, asks);
    if (control->log)
        log_wake(control->log);
}

/* A node without a cluster has such a listener in tests only. */
struct event_loop *node_peers_loop(struct node *node)
{
    return node->cluster.control ? &node->cluster.control->loop : node->shards.loops[0];
}

bool node_brokers_trouble(struct node *node, char *ret_reason, size_t size)
{
    struct node_control *control = node->cluster.control;

    if (!control)
        return false;
    pthread_mutex_lock(&control->lock);
    const bool has_trouble = control->trouble != LOG_FINE;
    if (has_trouble)
        snprintf(ret_reason, size, "%s", control->trouble_text);
    pthread_mutex_unlock(&control->lock);
    return has_trouble;
}

bool node_control_trouble(struct node *node, char *ret_reason, size_t size)
{
    struct node_control *control = node->cluster.control;
    const char *reason = NULL;

    if (!control)
        return false;
    switch (atomic_load(&control->state)) {
    case CONTROL_REFUSED:
        reason = control->is_foreign ? "the cluster was founded with another cluster_secret"
                                     : "another process of the cluster has the number of this node";
        break;
    case CONTROL_BROKEN:
        reason = "the control topic of the cluster cannot be read";
        break;
    default:
        break;
    }
    if (node_clock_is_wrong(&node->clock))
        reason =
            "the clock of this node differs from that of the log's servers by more than 500 ms";
    if (reason)
        snprintf(ret_reason, size, "%s", reason);
    if (reason || node_brokers_trouble(node, ret_reason, size))
        return true;
    const bool is_wrong = atomic_load(&control->topics_wrong);
    pthread_mutex_lock(&control->lock);
    if (is_wrong)
        snprintf(ret_reason, size, "%s", control->topics_text);
    pthread_mutex_unlock(&control->lock);
    return is_wrong;
}

uint64_t node_cluster_id(const struct node *node)
{
    return node->cluster.control ? node->cluster.control->cluster : 0;
}

bool node_peer_address(struct node *node, uint32_t member, char ret_address[NODE_ADDRESS_SIZE])
{
    struct node_control *control = node->cluster.control;
    bool is_found = false;

    if (!control)
        return false;
    pthread_mutex_lock(&control->lock);
    for (size_t i = 0; i < control->member_count && !is_found; i++) {
        const struct node_control_member *found = &control->members[i];

        if (found->node != member || !*found->peer_address)
            continue;
        memcpy(ret_address, found->peer_address, NODE_ADDRESS_SIZE);
        is_found = true;
    }
    pthread_mutex_unlock(&control->lock);
    return is_found;
}

enum error_code node_set_secret(struct node *node, struct bytes secret, bool *ret_is_founded)
{
    struct node_control *control = node->cluster.control;
    struct founding digest = {0};

    *ret_is_founded = control && atomic_load(&control->is_founded_so);
    if (!control)
        return ERROR_NONE;
    if (!founding_set_secret(&digest, secret))
        return ERROR_NO_MEMORY;
    pthread_mutex_lock(&control->lock);
    control->new_secret = digest;
    pthread_mutex_unlock(&control->lock);
    node_control_ask(control, NODE_CONTROL_SECRET);
    return ERROR_NONE;
}

void node_tell_address(struct node *node, const char *address)
{
    struct node_control *control = node->cluster.control;

    if (!control)
        return;
    pthread_mutex_lock(&control->lock);
    snprintf(control->peer_address, sizeof(control->peer_address), "%s", address);
    pthread_mutex_unlock(&control->lock);
}

void node_members(struct node *node,
                  void (*tell)(void *context, const struct node_member_view *member), void *context)
{
    struct node_control *control = node->cluster.control;
    const struct instant now = instant_boot_now();
    const struct wall wall = wall_now();

    if (!control)
        return;
    pthread_mutex_lock(&control->lock);
    for (size_t i = 0; i < control->member_count; i++) {
        const struct node_control_member *member = &control->members[i];
        const bool is_drained = node_holds_is_drained(&node->holds, member->node);
        const uint64_t silent_ms = instant_since_ns(member->heard_at, now) / 1000000;
        const struct node_member_view view = {
            .node = member->node,
            .is_alive = member->is_alive,
            .is_planner = member->node == control->planner,
            .is_stopping = member->weight == 0 && !is_drained,
            .is_drained = is_drained,
            .weight = member->weight,
            .load = member->load,
            .seen = {member->heard_at.ns && silent_ms < wall.ms ? wall.ms - silent_ms : 0},
            .address = bytes_of(member->address),
            .peer_address = bytes_of(member->peer_address),
            .zone = bytes_of(member->zone),
        };

        tell(context, &view);
    }
    pthread_mutex_unlock(&control->lock);
}

bool node_control_has_address(struct node *node)
{
    pthread_mutex_lock(&node->cluster.control->lock);
    const bool is_open = *node->cluster.control->peer_address;
    pthread_mutex_unlock(&node->cluster.control->lock);
    return is_open;
}
