/*
 * cluster_copies.c - nodes of a simulated cluster that begin with a copy of another node. Asks and
 * pages come late or get lost; givers stop, crash and change in the middle.
 */
#include "cluster.h"

#include "base/check.h"

enum { COPY_TRIES = 4 };

/* True if the node can give a copy. A node that is being restored can, too, if its place says that
 * it has all rows. */
static bool gives(const struct peer *peer)
{
    return peer->is_up && peer->state < OWNERSHIP_BROKEN;
}

/* Returns a node that has read enough to give a copy; NULL if there is none. */
static struct peer *find_giver(struct sim_cluster *cluster, const struct peer *peer)
{
    const uint32_t first = (uint32_t)world_below(cluster->world, cluster->plan.node_count);

    for (uint32_t i = 0; i < cluster->plan.node_count; i++) {
        struct peer *giver = &cluster->peers[(first + i) % cluster->plan.node_count];

        if (giver != peer && gives(giver) &&
            replica_wants_copy(peer->replica, replica_next(giver->replica)))
            return giver;
    }
    return NULL;
}

static void ask_for_page(struct sim_cluster *cluster, struct peer *peer, const struct peer *giver)
{
    peer->copy_ask++;
    peer->copy_giver = giver->number;
    if (!cluster_fails(cluster, cluster->plan.lost_permille))
        cluster_post(cluster, world_below(cluster->world, 5000),
                     (struct event){.kind = EVENT_GIVE,
                                    .node = giver->number,
                                    .append = peer->number,
                                    .offset = peer->copy_ask});
    cluster_post(cluster, 1000 * (1000 + world_below(cluster->world, 3000)),
                 (struct event){.kind = EVENT_MISS,
                                .node = peer->number,
                                .life = peer->life,
                                .offset = peer->copy_ask});
}

bool cluster_copies_log(struct sim_cluster *cluster, struct peer *peer)
{
    if (peer->copy_ask)
        return true;
    if (!cluster->plan.copies_permille ||
        !world_chance(cluster->world, cluster->plan.copies_permille))
        return false;
    const struct peer *giver = find_giver(cluster, peer);
    if (!giver)
        return false;
    peer->copy_at = (struct storage_export){.partition = 0};
    peer->copy_tries = COPY_TRIES;
    peer->copy_ask = (uint64_t)cluster->world->events.order
                     << 8; /* unlike the numbers of earlier copies */
    ask_for_page(cluster, peer, giver);
    return true;
}

/* Ends the requests for a copy: the node follows the log from now on. */
static void stop_asking(struct peer *peer)
{
    peer->copy_ask = 0;
}

/* The giver, which no longer stands still, reads its storage and answers. */
void cluster_give(struct sim_cluster *cluster, struct peer *giver, const struct event *event)
{
    struct peer *peer = &cluster->peers[event->append];

    if (!gives(giver) || peer->copy_ask != event->offset)
        return; /* no answer is sent, or it is of no use */
    struct copy_page page = {.at = peer->copy_at};
    page.at.rows_max = 1 + world_below(cluster->world, cluster->plan.copy_rows_max);
    page.at.bytes_max = SIZE_MAX;
    const uint64_t rows = page.at.rows;
    buffer_clear(&peer->page);
    if (storage_export(giver->storage, &page.at, &peer->page, NULL) ||
        !copy_is_whole(&page.at.place) || cluster_fails(cluster, cluster->plan.lost_permille))
        return;
    page.row_count = (uint32_t)(page.at.rows - rows);
    page.rows = buffer_bytes(&peer->page);
    peer->copy_page = page;
    cluster_post(cluster, world_below(cluster->world, cluster_fails(cluster, 200) ? 1500000 : 5000),
                 (struct event){.kind = EVENT_PAGE,
                                .node = peer->number,
                                .life = peer->life,
                                .offset = peer->copy_ask});
}

void cluster_take_page(struct sim_cluster *cluster, struct peer *peer, const struct event *event)
{
    if (peer->copy_ask != event->offset)
        return;
    if (peer->copy_page.at.place.next < peer->copy_at.place.next) {
        cluster_miss_page(cluster, peer, event);
        return;
    }
    peer->copy_at = peer->copy_page.at;
    const bool is_taken =
        replica_take_page(peer->replica, &peer->copy_page, cluster_clock(cluster, peer));
    if (!is_taken || !replica_is_copying(peer->replica)) {
        stop_asking(peer);
        return;
    }
    const struct peer *giver = &cluster->peers[peer->copy_giver];
    if (world_chance(cluster->world, 200))
        giver = &cluster->peers[world_below(cluster->world, cluster->plan.node_count)];
    ask_for_page(cluster, peer, giver);
}

/* No page has come in time: asks another node, or gives up the copy. */
void cluster_miss_page(struct sim_cluster *cluster, struct peer *peer, const struct event *event)
{
    if (peer->copy_ask != event->offset)
        return;
    if (--peer->copy_tries > 0) {
        ask_for_page(cluster, peer,
                     &cluster->peers[world_below(cluster->world, cluster->plan.node_count)]);
        return;
    }
    stop_asking(peer);
    replica_end_copy(peer->replica);
}
