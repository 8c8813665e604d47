/*
 * node_limits.h - limits of live timers that hold over all nodes of a cluster: pending_max, and
 * that of each tenant.
 *
 * A node counts the timers of the partitions that it owns exactly, and takes those of the others
 * from the notes of their owners: NODE_LIMITS_MS and the age of a note is how old they are, a
 * second at most. So a limit may be overshot by the timers that all nodes create in about that
 * time. The timers of a partition are counted once: here while its engine is here, or else by the
 * last note of an owner, also when that owner has died.
 *
 * A note names TENANT_COUNTS_TOLD_MAX tenants; timer/tenant_counts.h has the rule for the others.
 *
 * Threads    count and uncount: a replica's, or the shard's; the others: that of the control topic.
 */
#ifndef TICKWHEEL_NODE_NODE_LIMITS_H
#define TICKWHEEL_NODE_NODE_LIMITS_H

#include "node/node_members.h"
#include "node/node_replica.h"

enum { NODE_LIMITS_MS = 200 };

/* Counts the `pending` timers of a partition when its engine starts, and stops counting them
 * when it ends. */
void node_limits_count(struct node_replica *replica, uint64_t pending);
void node_limits_uncount(struct node_replica *replica, uint64_t pending);

/* Adds the timers of this node to the note, after the places. */
void node_limits_tell(struct node_control *control, struct roster_note *note);

/* Updates the counts from the notes, if it is time. */
void node_limits_hear(struct node_control *control);

#endif
