/* Goal: every plan keeps the promises of planner.h: one owner among the nodes that may own, no node
 * twice, zones, standbys that stay while they may be back soon, a hand-over only to a node that is
 * near the end, as few moves as there must be, the shares by weight in the end, and no move without
 * a cause. Method: random clusters whose nodes
 * join, die, come back, change clocks and weights, and read the log at random paces; each plan is
 * compared with counts and searches that are too simple to be wrong. TEST_SEED, TEST_SEEDS. */
#include "base/check.h"
#include "base/random.h"
#include "cluster/planner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 6, PARTITIONS = 16, SKEW_MS = 500, PLANNER = 1000 };

struct contender {
    bool is_up, is_slow; /* a slow one never comes near the end */
    uint64_t incarnation;
    uint32_t zone;
    struct roster_note note;
    uint64_t next[PARTITIONS];
    bool has[PARTITIONS];
    uint32_t silent; /* notes of the planner behind its last one */
};

struct planned_cluster {
    struct random random;
    uint16_t partition_count;
    uint32_t zone_max;
    struct plan_options options;
    struct roster *roster;
    struct plan plan, before;
    struct contender hosts[NODES]; /* of the nodes 1 to NODES */
    uint64_t end[PARTITIONS], end_told[PARTITIONS], end_told_before[PARTITIONS];
    uint32_t claimed[PARTITIONS]; /* the node that owns it in truth */
    uint64_t moves, deaths, handovers, kept;
};

static bool is_once_in(struct planned_cluster *cluster, uint32_t bound)
{
    return random_below(&cluster->random, bound) == 0;
}

static const char *zone_names[] = {"", "a", "b", "c"};

/* ---- the nodes ---- */

static void cluster_append_note(struct planned_cluster *cluster, uint32_t node)
{
    struct frame frame = {.kind = FRAME_NOTE, .node = node, .incarnation = 1};
    static struct roster_note planner_note = {.weight = 1, .clock_offset_ms = 3600000};
    const struct roster_note *note = &planner_note;
    struct buffer buffer;

    if (node != PLANNER) {
        note = &cluster->hosts[node - 1].note;
        frame.incarnation = cluster->hosts[node - 1].incarnation;
    }
    buffer_init(&buffer);
    roster_note_encode(note, &buffer);
    frame.body = buffer_bytes(&buffer);
    CHECK(roster_read(cluster->roster, &frame, PLANNER, NULL) == ERROR_NONE);
    buffer_deinit(&buffer);
}

static bool is_named(const struct plan_entry *entry, uint32_t node)
{
    return entry->owner == node || entry->next == node || entry->standbys[0] == node ||
           entry->standbys[1] == node || entry->standbys[2] == node;
}

/* A node that is up does what the plan says: follows, claims, drops. */
static void contender_obey(struct planned_cluster *cluster, uint32_t node)
{
    struct contender *host = &cluster->hosts[node - 1];

    host->note.place_count = 0;
    for (uint16_t p = 0; p < cluster->partition_count; p++) {
        const struct plan_entry *entry = &cluster->plan.entries[p];
        enum roster_role role = ROSTER_STANDBY;

        if (!is_named(entry, node)) {
            host->has[p] = false;
            if (cluster->claimed[p] == node)
                cluster->claimed[p] = 0;
            continue;
        }
        if (!host->has[p])
            host->next[p] = 0;
        host->has[p] = true;
        if (entry->owner == node)
            cluster->claimed[p] = node;
        if (cluster->claimed[p] == node) {
            role = ROSTER_OWNER;
            host->next[p] = cluster->end[p];
        } else if (!host->is_slow) {
            host->next[p] += random_below(&cluster->random, cluster->end[p] - host->next[p] + 1);
        }
        host->note.places[host->note.place_count++] =
            (struct roster_place){p, role, host->next[p], 0};
    }
}

/* Half a second: the log grows, each node that is up reads, and appends its note. */
static void cluster_tick(struct planned_cluster *cluster)
{
    for (uint16_t p = 0; p < cluster->partition_count; p++)
        cluster->end[p] += random_below(&cluster->random, 20);
    for (uint32_t node = 1; node <= NODES; node++) {
        struct contender *host = &cluster->hosts[node - 1];

        host->silent = host->is_up ? 1 : host->silent + 1;
        if (!host->is_up)
            continue;
        contender_obey(cluster, node);
        cluster_append_note(cluster, node);
    }
    cluster_append_note(cluster, PLANNER);
}

/* With its disk, or without it. */
static void contender_start(struct planned_cluster *cluster, uint32_t node)
{
    struct contender *host = &cluster->hosts[node - 1];
    const struct contender last = *host;

    *host = (struct contender){.is_up = true, .is_slow = is_once_in(cluster, 6)};
    if (is_once_in(cluster, 2)) {
        memcpy(host->has, last.has, sizeof(host->has));
        memcpy(host->next, last.next, sizeof(host->next));
    }
    host->incarnation = random_next(&cluster->random) | 1;
    host->zone = (uint32_t)random_below(&cluster->random, cluster->zone_max + 1);
    host->note.zone = bytes_of(zone_names[host->zone]);
    host->note.weight = (uint16_t)(1 + random_below(&cluster->random, 3));
    host->note.clock_offset_ms = is_once_in(cluster, 8) ? SKEW_MS + 1 : -SKEW_MS;
}

/* ---- the judge ---- */

/* By what the test knows of its nodes, not by what the planner computes. */
static bool may_own(const struct planned_cluster *cluster, uint32_t node)
{
    if (node == 0 || node > NODES)
        return false;
    const struct contender *host = &cluster->hosts[node - 1];
    const struct roster_member *member = roster_find(cluster->roster, node);
    return member && roster_is_alive(cluster->roster, member) && host->note.weight > 0 &&
           llabs((long long)host->note.clock_offset_ms) <= SKEW_MS;
}

static uint32_t owned_by(const struct planned_cluster *cluster, const struct plan *plan,
                         uint32_t node)
{
    uint32_t count = 0;

    for (uint16_t p = 0; p < cluster->partition_count; p++)
        count += plan->entries[p].owner == node;
    return count;
}

/* The fewest moves to shares within one partition of the exact ones: all roundings are tried. */
static uint32_t fewest_moves(const struct planned_cluster *cluster, const uint32_t owned[NODES])
{
    uint32_t weight = 0, best = UINT32_MAX;

    for (uint32_t i = 0; i < NODES; i++)
        weight += may_own(cluster, i + 1) ? cluster->hosts[i].note.weight : 0;
    for (uint32_t up = 0; up < 1U << NODES; up++) {
        uint32_t sum = 0, moves = 0;
        bool is_possible = true;

        for (uint32_t i = 0; i < NODES; i++) {
            const uint32_t exact = may_own(cluster, i + 1) ? (uint32_t)cluster->partition_count *
                                                                 cluster->hosts[i].note.weight
                                                           : 0;
            const uint32_t share = exact / weight + (up >> i & 1);
            is_possible = is_possible && (!(up >> i & 1) || exact % weight > 0);
            sum += share;
            moves += owned[i] > share ? owned[i] - share : 0;
        }
        if (is_possible && sum == cluster->partition_count && moves < best)
            best = moves;
    }
    return best;
}

/* Dead, or it stops; and it told of a copy less than a minute ago. */
static bool may_keep(const struct planned_cluster *cluster, uint32_t node, uint16_t partition)
{
    const struct contender *host = &cluster->hosts[node - 1];
    bool has_told = false;

    for (size_t i = 0; i < host->note.place_count; i++)
        has_told = has_told || host->note.places[i].partition == partition;
    return !may_own(cluster, node) && roster_find(cluster->roster, node) && has_told &&
           (host->silent >= ROSTER_NOTES_MISSED_MAX || host->note.weight == 0) &&
           host->silent < PLAN_AWAY_NOTES;
}

static uint32_t zone_count(const struct planned_cluster *cluster)
{
    bool is_there[4] = {false};
    uint32_t count = 0;

    for (uint32_t node = 1; node <= NODES; node++)
        if (may_own(cluster, node))
            is_there[cluster->hosts[node - 1].zone] = true;
    for (size_t i = 0; i < 4; i++)
        count += is_there[i];
    return count;
}

/* Whether each copy has a zone of its own, while there are zones. */
static bool is_spread(const struct planned_cluster *cluster, const uint32_t *copies, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (copies[i] == copies[k] ||
                (cluster->hosts[copies[i] - 1].zone == cluster->hosts[copies[k] - 1].zone &&
                 i < zone_count(cluster)))
                return false;
    return true;
}

/* The owner and the standbys. Returns how many. */
static uint32_t copies_of(const struct plan_entry *entry, uint32_t ret_copies[5])
{
    uint32_t count = 1;

    ret_copies[0] = entry->owner;
    for (size_t i = 0; i < PLAN_STANDBYS_MAX && entry->standbys[i]; i++)
        ret_copies[count++] = entry->standbys[i];
    return count;
}

static void check_entry(const struct planned_cluster *cluster, uint16_t partition)
{
    const struct plan_entry *entry = &cluster->plan.entries[partition];
    const uint32_t wanted = 1U + cluster->options.standby_count;
    uint32_t able = 0, copies[5], count = copies_of(entry, copies);

    for (uint32_t node = 1; node <= NODES; node++)
        able += may_own(cluster, node);
    CHECK(may_own(cluster, entry->owner) && entry->next != entry->owner);
    CHECK(entry->next == 0 || may_own(cluster, entry->next));
    CHECK(count <= wanted + 1 && count >= (wanted < able ? wanted : able));
    for (uint32_t i = 1; i < count; i++)
        CHECK(may_own(cluster, copies[i]) ||
              (may_keep(cluster, copies[i], partition) && i < wanted));
    CHECK(is_spread(cluster, copies, count < wanted ? count : wanted));
    if (count <= wanted)
        return;
    copies[1] = copies[--count]; /* it comes for the first standby */
    CHECK(wanted > 1 && is_spread(cluster, copies, count));
}

/* A standby goes only when it may not stay, or when another one has read as far as the owner. */
static void check_standbys(struct planned_cluster *cluster, uint16_t partition)
{
    const struct plan_entry *before = &cluster->before.entries[partition];
    const struct plan_entry *after = &cluster->plan.entries[partition];
    const uint32_t wanted = cluster->options.standby_count;
    uint32_t copies[5], count = copies_of(before, copies);

    if (before->owner != after->owner || zone_count(cluster) > 1 || count != wanted + 1)
        return;
    for (uint32_t i = 1; i < count; i++) {
        const uint32_t node = copies[i];
        const bool is_kept =
            after->standbys[0] == node || after->standbys[1] == node || after->standbys[2] == node;

        CHECK(is_kept || !(may_own(cluster, node) || may_keep(cluster, node, partition)) ||
              (i == 1 && after->standbys[0] &&
               cluster->hosts[after->standbys[0] - 1].has[partition]));
    }
    cluster->kept += after->standbys[0] && may_keep(cluster, after->standbys[0], partition);
}

/* A living owner is followed only by a node that read as far as the owner's note before said. */
static void check_moves(struct planned_cluster *cluster)
{
    const struct plan *before = &cluster->before, *after = &cluster->plan;
    uint32_t owned[NODES] = {0}, lost = 0, moved = 0;

    for (uint16_t p = 0; p < cluster->partition_count; p++) {
        const uint32_t from = before->entries[p].owner, to = after->entries[p].owner;
        const uint32_t goal = after->entries[p].next ? after->entries[p].next : to;

        lost += !may_own(cluster, from);
        moved += may_own(cluster, from) && goal != from;
        if (may_own(cluster, from))
            owned[from - 1]++;
        else
            owned[to - 1]++;
        if (from == to)
            continue;
        cluster->moves++;
        if (!may_own(cluster, from))
            continue;
        const struct contender *host = &cluster->hosts[to - 1];
        const struct roster_member *owner = roster_find(cluster->roster, from);
        CHECK(host->has[p] && cluster->claimed[p] == from);
        CHECK(owner->standings[p].before <= host->next[p]);
        cluster->handovers++;
    }
    const uint32_t fewest = fewest_moves(cluster, owned);
    CHECK(moved <= fewest + lost && (lost > 0 || moved == fewest));
}

static void cluster_plan(struct planned_cluster *cluster)
{
    static struct plan again;
    uint32_t able = 0;

    cluster->before = cluster->plan;
    for (uint32_t node = 1; node <= NODES; node++)
        able += may_own(cluster, node);
    enum plan_result result =
        plan_make(&cluster->before, cluster->roster, &cluster->options, &cluster->plan);
    CHECK(cluster->plan.version == cluster->before.version + (result == PLAN_CHANGED));
    CHECK(plan_make(&cluster->plan, cluster->roster, &cluster->options, &again) == PLAN_KEPT);
    if (able == 0) {
        CHECK(result == PLAN_KEPT);
        return;
    }
    for (uint16_t p = 0; p < cluster->partition_count; p++)
        check_entry(cluster, p);
    for (uint16_t p = 0; cluster->options.standby_count && p < cluster->partition_count; p++)
        check_standbys(cluster, p);
    check_moves(cluster);
}

static uint32_t standbys_of(const struct planned_cluster *cluster, uint32_t node)
{
    uint32_t count = 0, copies[5];

    for (uint16_t p = 0; p < cluster->partition_count; p++)
        for (uint32_t i = copies_of(&cluster->plan.entries[p], copies); --i > 0;)
            count += copies[i] == node;
    return count;
}

/* No first standby could go from a node with too many to one with too few. */
static void check_evenness(const struct planned_cluster *cluster, uint32_t weight)
{
    uint32_t all = 0, copies[5];

    for (uint32_t node = 1; node <= NODES; node++)
        all += standbys_of(cluster, node);
    for (uint32_t to = 1; to <= NODES; to++) {
        if (!may_own(cluster, to) ||
            standbys_of(cluster, to) >= all * cluster->hosts[to - 1].note.weight / weight)
            continue;
        for (uint16_t p = 0; p < cluster->partition_count; p++) {
            const uint32_t count = copies_of(&cluster->plan.entries[p], copies);
            const uint32_t from = count > 1 ? copies[1] : 0;

            copies[1] = to;
            CHECK(!may_own(cluster, from) || !is_spread(cluster, copies, count) ||
                  standbys_of(cluster, from) * weight <=
                      all * cluster->hosts[from - 1].note.weight + weight);
        }
    }
}

/* When nothing happens any more, the shares are reached, and then nothing moves. */
static void check_convergence(struct planned_cluster *cluster)
{
    uint32_t weight = 0;

    for (uint32_t i = 0; i < NODES; i++)
        cluster->hosts[i].is_slow = false;
    for (uint32_t i = 0; i < PLAN_AWAY_NOTES + 40; i++) {
        cluster_tick(cluster);
        cluster_plan(cluster);
    }
    const uint64_t version = cluster->plan.version;
    for (uint32_t i = 0; i < 5; i++) {
        cluster_tick(cluster);
        cluster_plan(cluster);
    }
    CHECK(cluster->plan.version == version);
    for (uint32_t i = 0; i < NODES; i++)
        weight += may_own(cluster, i + 1) ? cluster->hosts[i].note.weight : 0;
    for (uint32_t i = 0; weight > 0 && i < NODES; i++) {
        const int64_t exact = may_own(cluster, i + 1) ? (int64_t)cluster->partition_count *
                                                            cluster->hosts[i].note.weight
                                                      : 0;
        const int64_t owned = (int64_t)owned_by(cluster, &cluster->plan, i + 1) * weight;
        CHECK(owned - exact < weight && exact - owned < weight);
    }
    for (uint16_t p = 0; weight > 0 && p < cluster->partition_count; p++)
        CHECK(cluster->plan.entries[p].next == 0);
    if (weight > 0 && cluster->options.standby_count < PLAN_STANDBYS_MAX)
        check_evenness(cluster, weight);
}

static void cluster_step(struct planned_cluster *cluster)
{
    const uint32_t node = 1 + (uint32_t)random_below(&cluster->random, NODES);
    struct contender *host = &cluster->hosts[node - 1];

    if (is_once_in(cluster, 4)) {
        if (host->is_up)
            cluster->deaths++;
        if (host->is_up)
            host->is_up = false;
        else
            contender_start(cluster, node);
    } else if (host->is_up && is_once_in(cluster, 8)) {
        host->note.clock_offset_ms = is_once_in(cluster, 4) ? SKEW_MS + 1 : 0;
        host->note.weight = (uint16_t)random_below(&cluster->random, 4);
    }
    const uint64_t pause = is_once_in(cluster, 20) ? PLAN_AWAY_NOTES : 8;
    for (uint64_t i = 1 + random_below(&cluster->random, pause); i > 0; i--) {
        cluster_tick(cluster);
        if (is_once_in(cluster, 2))
            cluster_plan(cluster);
    }
    cluster_plan(cluster);
}

static void cluster_run(uint64_t seed, struct planned_cluster *sum)
{
    static struct planned_cluster cluster;

    cluster = (struct planned_cluster){.random = random_seeded(seed)};
    cluster.partition_count = (uint16_t)(1 + random_below(&cluster.random, PARTITIONS));
    cluster.zone_max = (uint32_t)random_below(&cluster.random, 4);
    cluster.options.standby_count = (uint8_t)random_below(&cluster.random, PLAN_STANDBYS_MAX + 1);
    cluster.options.clock_skew_ms_max = SKEW_MS;
    cluster.plan.partition_count = cluster.partition_count;
    cluster.roster = roster_create(cluster.partition_count);
    CHECK(cluster.roster);
    for (uint32_t i = 0; i < 30; i++)
        cluster_step(&cluster);
    check_convergence(&cluster);
    roster_destroy(cluster.roster);
    sum->moves += cluster.moves;
    sum->deaths += cluster.deaths;
    sum->handovers += cluster.handovers;
    sum->kept += cluster.kept;
}

int main(void)
{
    const char *first = getenv("TEST_SEED"), *count = getenv("TEST_SEEDS");
    uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
    uint64_t seeds = count ? strtoull(count, NULL, 10) : 300;
    static struct planned_cluster sum;

    for (uint64_t i = 0; i < seeds; i++) {
        if (seeds < 10)
            printf("seed %" PRIu64 "\n", seed + i);
        cluster_run(seed + i, &sum);
    }
    printf("%" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " moves, %" PRIu64
           " of them handed over, %" PRIu64 " nodes died, %" PRIu64 " times one kept its place\n",
           seeds, seed, sum.moves, sum.handovers, sum.deaths, sum.kept);
    CHECK(seeds < 100 || (sum.handovers > 100 && sum.deaths > 100 && sum.kept > 100));
    return 0;
}
