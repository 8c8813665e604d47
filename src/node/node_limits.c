/* node_limits.c - live timers over all nodes; see node_limits.h. */
#include "node/node_limits.h"

#include "node/node_state.h"
#include "sys/clock.h"

#include <assert.h>

/* ---- what this node counts ---- */

/* Counts the partition's timers in the counts of the node. The partition remembers them, because
 * the storage may already have records of the next owner when the engine is destroyed. */
void node_limits_count(struct node_replica *replica, uint64_t pending)
{
    struct node *node = replica->node;
    const struct tenant_counts_tenant *tenant;
    size_t cursor = 0;

    storage_load_tenant_counts(node->disk.storage, replica->partition->index, &replica->tenants,
                               NULL);
    while ((tenant = tenant_counts_next(&replica->tenants, &cursor)))
        tenant_counts_add(&node->counts.tenants, (struct bytes){tenant->name, tenant->name_size},
                          (int64_t)atomic_load(&tenant->count));
    atomic_fetch_add(&node->counts.pending_all, pending);
    atomic_store(&replica->pending, pending);
    atomic_store(&replica->is_counted, true);
    if (node->cluster.control)
        node_control_ask(node->cluster.control, NODE_CONTROL_COUNT);
}

void node_limits_uncount(struct node_replica *replica, uint64_t pending)
{
    struct node *node = replica->node;
    const struct tenant_counts_tenant *tenant;
    size_t cursor = 0;

    atomic_fetch_sub(&node->counts.pending_all, pending);
    while ((tenant = tenant_counts_next(&replica->tenants, &cursor)))
        tenant_counts_dismiss(&node->counts.tenants,
                              (struct bytes){tenant->name, tenant->name_size},
                              atomic_load(&tenant->count));
    tenant_counts_clear(&replica->tenants);
    atomic_store(&replica->is_counted, false);
    if (node->cluster.control)
        node_control_ask(node->cluster.control, NODE_CONTROL_COUNT);
}

/* ---- counts for other nodes ---- */

/* Reports the live timers of a partition. One whose engine has not started has those of its
 * previous owner. */
static void node_limits_tell_pending(struct node_control *control, struct roster_place *place)
{
    const struct node_replica *replica = &control->node->cluster.replicas[place->partition];

    if (place->role != ROSTER_OWNER)
        return;
    place->pending =
        atomic_load(&replica->is_counted)
            ? atomic_load(&replica->pending)
            : roster_owned(control_roster(control->control), place->partition)->pending;
}

void node_limits_tell(struct node_control *control, struct roster_note *note)
{
    const struct tenant_counts_tenant *told[TENANT_COUNTS_TOLD_MAX];

    static_assert((int)TENANT_COUNTS_TOLD_MAX == (int)ROSTER_COUNTS_MAX, "a note has room for all");
    for (size_t i = 0; i < note->place_count; i++)
        node_limits_tell_pending(control, &note->places[i]);
    note->tenant_count = tenant_counts_tell(&control->node->counts.tenants, told);
    for (size_t i = 0; i < note->tenant_count; i++)
        note->tenants[i] = (struct roster_tally){.name = {told[i]->name, told[i]->name_size},
                                                 .count = atomic_load(&told[i]->count)};
}

/* ---- notes of other nodes ---- */

/* Returns the live timers of partitions that are not counted here and whose last owner was this
 * member; NULL for any member. */
static uint64_t node_limits_left(struct node_control *control, const struct roster_member *member)
{
    const struct roster *roster = control_roster(control->control);
    const struct node *node = control->node;
    uint64_t left = 0;

    for (uint16_t p = 0; p < node->partition_count; p++) {
        const struct roster_owned *owned = roster_owned(roster, p);

        if ((!member || owned->node == member->node) &&
            !atomic_load(&node->cluster.replicas[p].is_counted))
            left += owned->pending;
    }
    return left;
}

/* Takes a member's counts of tenants, which are assumed to be spread evenly over its partitions.
 * If other nodes own and count some of them, only the rest counts. Returns true if the member
 * has more tenants than it reported. */
static bool node_limits_hear_member(struct node_control *control,
                                    const struct roster_member *member, uint64_t left)
{
    const bool is_full = member->tenant_count == ROSTER_COUNTS_MAX;

    for (size_t i = 0; i < member->tenant_count; i++) {
        const struct roster_count *told = &member->tenants[i];
        const struct bytes name = {told->name, told->name_size};
        const uint64_t count =
            left < member->pending
                ? (uint64_t)((double)told->count * (double)left / (double)member->pending)
                : told->count;

        if (tenant_is_valid(name))
            tenant_counts_hear(&control->node->counts.tenants, name, count, is_full);
    }
    return is_full;
}

void node_limits_hear(struct node_control *control)
{
    const struct roster *roster = control_roster(control->control);
    const bool is_asked =
        atomic_fetch_and(&control->asks, ~(unsigned)NODE_CONTROL_COUNT) & NODE_CONTROL_COUNT;
    const struct instant now = instant_now();
    uint32_t nodes = 0, full = 0;

    if (!is_asked &&
        instant_since_ns(control->counted_at, now) < NODE_LIMITS_MS * UINT64_C(1000000))
        return;
    control->counted_at = now;
    for (size_t i = 0; i < roster_count(roster); i++) {
        const struct roster_member *member = roster_at(roster, i);
        const uint64_t left = node_limits_left(control, member);

        nodes += roster_is_alive(roster, member);
        full += left > 0 && node_limits_hear_member(control, member, left);
    }
    tenant_counts_heard(&control->node->counts.tenants, nodes, full);
    atomic_store(&control->node->counts.pending_others, node_limits_left(control, NULL));
}
