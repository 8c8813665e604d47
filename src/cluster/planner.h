/*
 * planner.h - which node is to own each partition, and which nodes stand by: from the notes of the
 * members and the plan before.
 *
 * The owner of the control partition is the planner. It makes a plan after each note that it
 * reads, and appends it as a commit when it differs from the last one:
 *
 *     if (plan_make(&plan, roster, &options, &next)) append it; plan = next;
 *
 * Each partition has one owner among the living nodes whose clocks are right. Owners change only
 * when they must: because a node died, or to give each node its share by weight, which is reached
 * within one partition. A partition moves only to a node that has read nearly all of it: until
 * then the node is its `next`, which follows the log while the owner goes on. Standbys lie in
 * another zone than the owner if there is one, and in as many zones as there are. They are shared
 * by weight, too, as far as zones and owners let them: the first standby of a partition moves, and
 * while it does the partition has one more. A node that stops or dies stays a standby, with its
 * copy, for PLAN_AWAY_NOTES notes of the planner.
 *
 * Equal members and an equal plan give an equal plan: nothing moves by itself.
 *
 * The bytes of a plan: form 1 (1); version (8); count of partitions (2); for each the owner, the
 * next and three standbys (4 each; 0: none).
 *
 * Time       O(partitions × nodes). No clock.
 * Errors     None in making; ERROR_CORRUPT: the bytes of a plan are damaged.
 * Threads    No state: any.
 */
#ifndef TICKWHEEL_CLUSTER_PLANNER_H
#define TICKWHEEL_CLUSTER_PLANNER_H

#include "cluster/roster.h"

enum {
    PLAN_STANDBYS_MAX = 3,
    /* notes of the planner, a minute, for which a restarting node's copies are kept */
    PLAN_AWAY_NOTES = 120,
};

struct plan_entry {
    uint32_t owner; /* 0 if no node was ever there */
    uint32_t next;  /* follows the log to become the owner; 0 if none */
    /* unused elements are 0. One more than wanted: the last replaces the first */
    uint32_t standbys[PLAN_STANDBYS_MAX];
};

struct plan {
    uint64_t version; /* incremented with each plan that differs */
    uint16_t partition_count;
    struct plan_entry entries[ROSTER_PARTITIONS_MAX];
};

struct plan_options {
    uint8_t standby_count;      /* standbys of each partition; 0 to PLAN_STANDBYS_MAX */
    uint32_t clock_skew_ms_max; /* largest clock difference of a node that owns partitions */
};

enum plan_result { PLAN_KEPT, PLAN_CHANGED };

/* Makes the plan that follows `before`, whose entries are all 0 the first time. */
enum plan_result plan_make(const struct plan *before, const struct roster *roster,
                           const struct plan_options *options, struct plan *ret_plan);

/* True if the node may own partitions. */
bool plan_is_eligible(const struct roster *roster, const struct roster_member *member,
                      const struct plan_options *options);

/* True if the node follows the partition, and has read at least up to the position in the
 * owner's last note but one. */
bool plan_is_near(const struct roster *roster, const struct roster_member *member,
                  uint16_t partition, uint32_t owner);

/* Appends the body of a plan. */
void plan_encode(const struct plan *plan, struct buffer *to);

/* Decodes all of the body. Each plan has one encoding; any other is damage. */
enum error_code plan_decode(struct bytes body, struct plan *ret_plan, struct error *ret_error);

#endif
