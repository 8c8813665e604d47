/*
 * planner.c - see planner.h.
 *
 * A plan is made in four steps: owners that are lost are replaced by the standby that has read
 * most; shares by weight are counted, and the partitions that nodes own beyond them get a `next`,
 * the one they have if it still fits; a `next` that is near the end becomes the owner; standbys are
 * kept where they fit, filled up, and evened out. Each step prefers what is to what could be, so
 * that equal input changes nothing.
 *
 * A standby moves like an owner: the new one comes as one more, last in the entry, and takes the
 * place of the first when it is near the end. So the partition has as many copies meanwhile.
 */
#include "cluster/planner.h"

#include <assert.h>
#include <stdlib.h>

/* Numbers of a node's partitions as owner, or as standby. */
struct plan_load {
    uint32_t count, share;
    bool has_extra; /* whether the share is rounded up */
};

enum plan_duty { PLAN_OWNS, PLAN_STANDS, PLAN_DUTY_COUNT };

/* A node that may own partitions, or is away and keeps those of which it has a copy. */
struct plan_node {
    const struct roster_member *member;
    uint32_t zone; /* index of the first node in its zone */
    struct plan_load loads[PLAN_DUTY_COUNT];
    bool is_away;
};

struct planning {
    const struct plan *before;
    const struct roster *roster;
    const struct plan_options *options;
    struct plan *plan;
    /* zone_count: zones of the nodes that may own partitions */
    size_t node_count, away_count, zone_count;
    /* nodes that may own partitions, then those away; each sorted by id */
    struct plan_node nodes[ROSTER_MAX];
};

/* ---- what members tell ---- */

bool plan_is_eligible(const struct roster *roster, const struct roster_member *member,
                      const struct plan_options *options)
{
    return roster_is_alive(roster, member) && member->weight > 0 &&
           (uint64_t)llabs((long long)member->clock_offset_ms) <= options->clock_skew_ms_max;
}

bool plan_is_near(const struct roster *roster, const struct roster_member *member,
                  uint16_t partition, uint32_t owner)
{
    const struct roster_standing *standing = &member->standings[partition];
    const struct roster_member *other = roster_find(roster, owner);

    return standing->role == ROSTER_STANDBY && other &&
           other->standings[partition].role == ROSTER_OWNER &&
           other->standings[partition].before != UINT64_MAX &&
           standing->next >= other->standings[partition].before;
}

/* True if the node is dead or stopping, but may soon be back with its copies. */
static bool planner_is_away(const struct roster *roster, const struct roster_member *member)
{
    return (member->weight == 0 || !roster_is_alive(roster, member)) &&
           roster_missed(roster, member) < PLAN_AWAY_NOTES;
}

/* Returns a node that may own partitions, or is away. */
static struct plan_node *planner_find_any(struct planning *planning, uint32_t node)
{
    for (size_t i = 0; node && i < planning->node_count + planning->away_count; i++)
        if (planning->nodes[i].member->node == node)
            return &planning->nodes[i];
    return NULL;
}

static struct plan_node *planner_find(struct planning *planning, uint32_t node)
{
    struct plan_node *found = planner_find_any(planning, node);

    return found && !found->is_away ? found : NULL;
}

/* Returns the node if it may have this partition, otherwise NULL. */
static struct plan_node *planner_fit(struct planning *planning, uint32_t node, uint16_t partition)
{
    struct plan_node *found = planner_find(planning, node);

    return found && found->member->standings[partition].role != ROSTER_BROKEN ? found : NULL;
}

static void planner_add(struct planning *planning, const struct roster_member *member, bool is_away)
{
    const size_t at = planning->node_count + planning->away_count;
    struct plan_node *node = &planning->nodes[at];

    *node = (struct plan_node){.member = member, .zone = (uint32_t)at, .is_away = is_away};
    for (size_t k = 0; k < at; k++)
        if (strcmp(planning->nodes[k].member->zone, member->zone) == 0) {
            node->zone = planning->nodes[k].zone;
            break;
        }
    planning->zone_count += !is_away && node->zone == at;
    planning->node_count += !is_away;
    planning->away_count += is_away;
}

static void planner_begin(struct planning *planning)
{
    const struct roster *roster = planning->roster;

    for (size_t i = 0; i < roster_count(roster); i++)
        if (plan_is_eligible(roster, roster_at(roster, i), planning->options))
            planner_add(planning, roster_at(roster, i), false);
    for (size_t i = 0; i < roster_count(roster); i++)
        if (planner_is_away(roster, roster_at(roster, i)))
            planner_add(planning, roster_at(roster, i), true);
}

/* ---- 1: owners that are lost ---- */

/* True if `a` uses less of its weight than `b`, by the partitions that it owns. */
static bool planner_is_idler(const struct plan_node *a, const struct plan_node *b)
{
    return (uint64_t)a->loads[PLAN_OWNS].count * b->member->weight <
           (uint64_t)b->loads[PLAN_OWNS].count * a->member->weight;
}

/* Returns the node that gets a partition without an owner: one that owns it already, by its
 * notes; then one that has read furthest; then the idlest. */
static struct plan_node *planner_heir(struct planning *planning, uint16_t partition)
{
    struct plan_node *best = NULL;

    for (size_t i = 0; i < planning->node_count; i++) {
        struct plan_node *node = planner_fit(planning, planning->nodes[i].member->node, partition);
        if (!node)
            continue;
        if (!best) {
            best = node;
            continue;
        }
        const struct roster_standing *a = &node->member->standings[partition];
        const struct roster_standing *b = &best->member->standings[partition];
        if ((a->role == ROSTER_OWNER) != (b->role == ROSTER_OWNER))
            best = a->role == ROSTER_OWNER ? node : best;
        else if (a->next != b->next)
            best = a->next > b->next ? node : best;
        else if (planner_is_idler(node, best))
            best = node;
    }
    return best;
}

static void planner_keep_owners(struct planning *planning)
{
    for (uint16_t p = 0; p < planning->plan->partition_count; p++) {
        struct plan_node *owner = planner_fit(planning, planning->plan->entries[p].owner, p);
        if (owner)
            owner->loads[PLAN_OWNS].count++;
    }
    for (uint16_t p = 0; p < planning->plan->partition_count; p++) {
        struct plan_entry *entry = &planning->plan->entries[p];
        if (planner_fit(planning, entry->owner, p))
            continue;
        struct plan_node *heir = planner_heir(planning, p);
        if (!heir)
            continue; /* it waits for its owner, or for a node */
        entry->owner = heir->member->node;
        heir->loads[PLAN_OWNS].count++;
    }
}

/* ---- 2: shares ---- */

/* Divides `count` partitions by weight, rounded down. Nodes that have more than their rounded
 * share keep one more; then the largest remainders get one more. */
static void planner_share(struct planning *planning, enum plan_duty duty, uint64_t count)
{
    uint64_t weight = 0, left = count;

    for (size_t i = 0; i < planning->node_count; i++)
        weight += planning->nodes[i].member->weight;
    for (size_t i = 0; i < planning->node_count; i++) {
        struct plan_node *node = &planning->nodes[i];
        node->loads[duty].share = (uint32_t)(count * node->member->weight / weight);
        left -= node->loads[duty].share;
    }
    for (; left > 0; left--) {
        struct plan_load *best = NULL;
        uint64_t best_rest = 0;
        for (size_t i = 0; i < planning->node_count; i++) {
            struct plan_load *load = &planning->nodes[i].loads[duty];
            const uint64_t rest = count * planning->nodes[i].member->weight % weight;
            if (load->has_extra || rest == 0)
                continue;
            const bool has_more = load->count > load->share;
            const bool best_has_more = best && best->count > best->share;
            if (best && !(has_more != best_has_more ? has_more : rest > best_rest))
                continue;
            best = load;
            best_rest = rest;
        }
        assert(best); /* at least as many nodes have a remainder as partitions are left */
        best->has_extra = true;
    }
    for (size_t i = 0; i < planning->node_count; i++)
        planning->nodes[i].loads[duty].share += planning->nodes[i].loads[duty].has_extra;
}

static bool planner_has_surplus(const struct plan_node *node, enum plan_duty duty)
{
    return node->loads[duty].count > node->loads[duty].share;
}

static bool planner_has_room(const struct plan_node *node, enum plan_duty duty)
{
    return node->loads[duty].count < node->loads[duty].share;
}

/* ---- 3: moves ---- */

/* True if the node is a standby of the partition. */
static bool planner_stands_by(const struct plan_entry *entry, uint32_t node)
{
    for (size_t i = 0; i < PLAN_STANDBYS_MAX; i++)
        if (entry->standbys[i] == node)
            return true;
    return false;
}

/* Returns how well a partition suits to move to the node; 0 if not at all. */
static uint32_t planner_suits(struct planning *planning, uint16_t partition,
                              const struct plan_node *to)
{
    const struct plan_entry *entry = &planning->plan->entries[partition];
    const struct plan_node *owner = planner_find(planning, entry->owner);
    const uint32_t node = to->member->node;

    if (!owner || !planner_has_surplus(owner, PLAN_OWNS) || entry->next ||
        !planner_fit(planning, node, partition))
        return 0;
    if (plan_is_near(planning->roster, to->member, partition, entry->owner))
        return 4;
    if (planner_stands_by(entry, node))
        return 3;
    return to->member->standings[partition].role != ROSTER_ABSENT ? 2 : 1;
}

/* Finds the partition that suits the node best by `suits`. Returns false if none does. */
static bool planner_best(struct planning *planning,
                         uint32_t (*suits)(struct planning *, uint16_t, const struct plan_node *),
                         const struct plan_node *to, uint16_t *ret_partition)
{
    uint32_t best = 0;

    for (uint16_t p = 0; p < planning->plan->partition_count; p++) {
        const uint32_t suited = suits(planning, p, to);

        if (suited > best) {
            best = suited;
            *ret_partition = p;
        }
    }
    return best > 0;
}

/* Plans a move. The owner counts as the node that gets it, because it gives the partition away. */
static void planner_move(struct planning *planning, uint16_t partition, struct plan_node *to)
{
    struct plan_entry *entry = &planning->plan->entries[partition];

    planner_find(planning, entry->owner)->loads[PLAN_OWNS].count--;
    to->loads[PLAN_OWNS].count++;
    entry->next = to->member->node;
}

static void planner_move_surplus(struct planning *planning)
{
    for (uint16_t p = 0; p < planning->plan->partition_count; p++) {
        struct plan_entry *entry = &planning->plan->entries[p];
        struct plan_node *next = planner_fit(planning, entry->next, p);

        entry->next = 0;
        if (next && planner_has_room(next, PLAN_OWNS) && planner_suits(planning, p, next) > 0)
            planner_move(planning, p, next);
    }
    for (size_t i = 0; i < planning->node_count; i++) {
        struct plan_node *to = &planning->nodes[i];
        while (planner_has_room(to, PLAN_OWNS)) {
            uint16_t partition;
            if (!planner_best(planning, planner_suits, to, &partition))
                break; /* the rest have no owner, or are broken there */
            planner_move(planning, partition, to);
        }
    }
}

/* ---- 4: standbys ---- */

static size_t planner_count_standbys(const struct plan_entry *entry)
{
    size_t count = 0;

    while (count < PLAN_STANDBYS_MAX && entry->standbys[count])
        count++;
    return count;
}

static bool planner_is_in(const struct plan_entry *entry, size_t count, uint32_t node)
{
    for (size_t i = 0; i < count; i++)
        if (entry->standbys[i] == node)
            return true;
    return entry->owner == node;
}

/* Counts the nodes in the zone among the owner and the first standbys. */
static size_t planner_count_in_zone(struct planning *planning, const struct plan_entry *entry,
                                    size_t count, uint32_t zone)
{
    const struct plan_node *owner = planner_find(planning, entry->owner);
    size_t found = owner && owner->zone == zone;

    for (size_t i = 0; i < count; i++)
        found += planner_find_any(planning, entry->standbys[i])->zone == zone;
    return found;
}

/* True if the node may be the next standby of the entry: in a zone of its own, while some zones
 * are free. A node that is away must have a copy. */
static bool planner_may_stand(struct planning *planning, uint16_t partition,
                              const struct plan_entry *entry, size_t count,
                              const struct plan_node *node)
{
    const enum roster_role role = node->member->standings[partition].role;

    if (role == ROSTER_BROKEN || (node->is_away && role == ROSTER_ABSENT) ||
        planner_is_in(entry, count, node->member->node))
        return false;
    return count + 1 >= planning->zone_count ||
           planner_count_in_zone(planning, entry, count, node->zone) == 0;
}

/* Ranks a standby: best with a copy, then with a copy while it is away, then without. */
static uint32_t planner_stands_well(const struct plan_node *node, uint16_t partition)
{
    return node->is_away ? 1 : node->member->standings[partition].role != ROSTER_ABSENT ? 2 : 0;
}

/* Returns the best node that may stand by; of equal ones, the one with the fewest partitions. */
static struct plan_node *planner_standby(struct planning *planning, uint16_t partition,
                                         const struct plan_entry *entry, size_t count)
{
    struct plan_node *best = NULL;

    for (size_t i = 0; i < planning->node_count + planning->away_count; i++) {
        struct plan_node *node = &planning->nodes[i];
        if (!planner_may_stand(planning, partition, entry, count, node))
            continue;
        if (!best) {
            best = node;
            continue;
        }
        const uint32_t suits = planner_stands_well(node, partition);
        const uint32_t best_suits = planner_stands_well(best, partition);
        const uint64_t used = (uint64_t)node->loads[PLAN_STANDS].count * best->member->weight;
        const uint64_t best_used = (uint64_t)best->loads[PLAN_STANDS].count * node->member->weight;
        if (suits != best_suits ? suits > best_suits : used < best_used)
            best = node;
    }
    return best;
}

static void planner_name(struct plan_entry *entry, size_t at, struct plan_node *node)
{
    entry->standbys[at] = node->member->node;
    node->loads[PLAN_STANDS].count++;
}

/* True if all standbys still fit when the node is the first of them. */
static bool planner_may_replace(struct planning *planning, uint16_t partition,
                                const struct plan_entry *entry, const struct plan_node *node)
{
    struct plan_entry after = *entry;

    if (node->is_away || planner_is_in(entry, planning->options->standby_count, node->member->node))
        return false;
    after.standbys[0] = node->member->node;
    for (size_t i = 0; i < planning->options->standby_count; i++)
        if (!planner_may_stand(planning, partition, &after, i,
                               planner_find_any(planning, after.standbys[i])))
            return false;
    return true;
}

/* Replaces the first standby by the node, which counts at once. */
static void planner_replace(struct planning *planning, uint16_t partition, struct plan_node *node)
{
    struct plan_entry *entry = &planning->plan->entries[partition];

    planner_find_any(planning, entry->standbys[0])->loads[PLAN_STANDS].count--;
    if (plan_is_near(planning->roster, node->member, partition, entry->owner))
        planner_name(entry, 0, node);
    else
        planner_name(entry, planning->options->standby_count, node);
}

static void planner_stand_by(struct planning *planning, uint16_t partition)
{
    struct plan_entry *entry = &planning->plan->entries[partition];
    const struct plan_entry *before = &planning->before->entries[partition];
    const size_t wanted = planning->options->standby_count;
    const size_t before_count = planner_count_standbys(before);
    size_t count = 0;

    memset(entry->standbys, 0, sizeof(entry->standbys));
    if (!planner_find(planning, entry->owner)) {
        *entry = *before;
        return;
    }
    for (size_t i = 0; i < before_count && i < wanted; i++) {
        struct plan_node *node = planner_find_any(planning, before->standbys[i]);
        if (node && planner_may_stand(planning, partition, entry, count, node))
            planner_name(entry, count++, node);
    }
    while (count < wanted) {
        struct plan_node *node = planner_standby(planning, partition, entry, count);
        if (!node)
            return;
        planner_name(entry, count++, node);
    }
    if (wanted == 0 || before_count <= wanted)
        return;
    struct plan_node *coming = planner_find(planning, before->standbys[before_count - 1]);
    if (coming && planner_may_replace(planning, partition, entry, coming))
        planner_replace(planning, partition, coming);
}

/* Returns how well the node can take the place of the first standby, whose node has too many; 0
 * if not at all; better with a copy. */
static uint32_t planner_evens(struct planning *planning, uint16_t partition,
                              const struct plan_node *to)
{
    const struct plan_entry *entry = &planning->plan->entries[partition];
    const struct plan_node *from = planner_find(planning, entry->standbys[0]);

    if (!from || !planner_has_surplus(from, PLAN_STANDS) ||
        planner_count_standbys(entry) != planning->options->standby_count ||
        !planner_may_replace(planning, partition, entry, to))
        return 0;
    return 1 + planner_stands_well(to, partition);
}

/* Moves standbys from nodes that have more than their share. */
static void planner_even_out(struct planning *planning)
{
    uint64_t count = 0;

    if (planning->options->standby_count == PLAN_STANDBYS_MAX)
        return; /* there is no room for another standby */
    for (size_t i = 0; i < planning->node_count; i++)
        count += planning->nodes[i].loads[PLAN_STANDS].count;
    planner_share(planning, PLAN_STANDS, count);
    for (size_t i = 0; i < planning->node_count; i++) {
        struct plan_node *to = &planning->nodes[i];
        while (planner_has_room(to, PLAN_STANDS)) {
            uint16_t partition;
            if (!planner_best(planning, planner_evens, to, &partition))
                break;
            planner_replace(planning, partition, to);
        }
    }
}

enum plan_result plan_make(const struct plan *before, const struct roster *roster,
                           const struct plan_options *options, struct plan *ret_plan)
{
    struct planning planning = {
        .before = before, .roster = roster, .options = options, .plan = ret_plan};

    assert(options->standby_count <= PLAN_STANDBYS_MAX && before != ret_plan);
    assert(before->partition_count == roster_partition_count(roster));
    *ret_plan = *before;
    planner_begin(&planning);
    if (planning.node_count == 0)
        return PLAN_KEPT;
    planner_keep_owners(&planning);
    planner_share(&planning, PLAN_OWNS, ret_plan->partition_count);
    planner_move_surplus(&planning);
    for (uint16_t p = 0; p < ret_plan->partition_count; p++) {
        struct plan_entry *entry = &ret_plan->entries[p];
        const struct plan_node *next = planner_find(&planning, entry->next);
        if (next && plan_is_near(roster, next->member, p, entry->owner)) {
            entry->owner = entry->next;
            entry->next = 0;
        }
        planner_stand_by(&planning, p);
    }
    planner_even_out(&planning);
    if (memcmp(ret_plan->entries, before->entries,
               before->partition_count * sizeof(before->entries[0])) == 0)
        return PLAN_KEPT;
    ret_plan->version++;
    return PLAN_CHANGED;
}

/* ---- the bytes ---- */

enum { PLAN_FORM = 1, PLAN_HEAD_SIZE = 11 };

void plan_encode(const struct plan *plan, struct buffer *to)
{
    char head[PLAN_HEAD_SIZE], entry[4 * (2 + PLAN_STANDBYS_MAX)];

    put_le(head, PLAN_FORM, 1);
    put_le(head + 1, plan->version, 8);
    put_le(head + 9, plan->partition_count, 2);
    buffer_append(to, head, sizeof(head));
    for (uint16_t p = 0; p < plan->partition_count; p++) {
        put_le(entry, plan->entries[p].owner, 4);
        put_le(entry + 4, plan->entries[p].next, 4);
        for (size_t i = 0; i < PLAN_STANDBYS_MAX; i++)
            put_le(entry + 8 + 4 * i, plan->entries[p].standbys[i], 4);
        buffer_append(to, entry, sizeof(entry));
    }
}

/* True if each node occurs once in the entry, and unused standbys come last. */
static bool planner_plan_entry_is_sound(const struct plan_entry *entry)
{
    const uint32_t *standbys = entry->standbys;

    if (entry->owner == 0)
        return entry->next == 0 && standbys[0] == 0 && standbys[1] == 0 && standbys[2] == 0;
    if (entry->next == entry->owner)
        return false;
    for (size_t i = 0; i < PLAN_STANDBYS_MAX; i++) {
        if (standbys[i] == 0)
            continue;
        if (standbys[i] == entry->owner || (i > 0 && standbys[i - 1] == 0))
            return false;
        for (size_t k = 0; k < i; k++)
            if (standbys[k] == standbys[i])
                return false;
    }
    return true;
}

enum error_code plan_decode(struct bytes body, struct plan *ret_plan, struct error *ret_error)
{
    if (body.size < PLAN_HEAD_SIZE || body.data[0] != PLAN_FORM)
        return error_set(ret_error, ERROR_CORRUPT,
                         "a plan of the cluster has a form that this version cannot read");
    const uint64_t count = get_le(body.data + 9, 2);
    const size_t entry_size = 4 * (2 + PLAN_STANDBYS_MAX);
    if (count == 0 || count > ROSTER_PARTITIONS_MAX ||
        body.size != PLAN_HEAD_SIZE + count * entry_size)
        return error_set(ret_error, ERROR_CORRUPT, "a plan of the cluster is damaged");
    for (size_t p = 0; p < count; p++) {
        const char *from = body.data + PLAN_HEAD_SIZE + p * entry_size;
        struct plan_entry *entry = &ret_plan->entries[p];

        entry->owner = (uint32_t)get_le(from, 4);
        entry->next = (uint32_t)get_le(from + 4, 4);
        for (size_t i = 0; i < PLAN_STANDBYS_MAX; i++)
            entry->standbys[i] = (uint32_t)get_le(from + 8 + 4 * i, 4);
        if (!planner_plan_entry_is_sound(entry))
            return error_set(ret_error, ERROR_CORRUPT, "a plan of the cluster contradicts itself");
    }
    ret_plan->version = get_le(body.data + 1, 8);
    ret_plan->partition_count = (uint16_t)count;
    return ERROR_NONE;
}
