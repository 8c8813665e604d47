/*
 * cluster_copies.c - nodes of a simulated cluster that begin with a copy of another node. Asks and
 * pages come late or get lost; givers stop, crash and change in the middle.
 */
#include "cluster.h"

#include "base/check.h"

enum { COPY_TRIES = 4 };

/* One that is being restored does, too, if its place says that it has all rows. */
static bool gives(const struct peer *peer)
{
    return peer->is_up && peer->state < OWNERSHIP_BROKEN;
}

/* Any that has read enough. */
static struct peer *find_giver(struct cluster_world *world, const struct peer *peer)
{
    const uint32_t first = (uint32_t)below(world, world->peer_count);

    for (uint32_t i = 0; i < world->peer_count; i++) {
        struct peer *giver = &world->peers[(first + i) % world->peer_count];

        if (giver != peer && gives(giver) &&
            replica_wants_copy(peer->replica, replica_next(giver->replica)))
            return giver;
    }
    return NULL;
}

static void ask_for_page(struct cluster_world *world, struct peer *peer, const struct peer *giver)
{
    peer->copy_ask++;
    peer->copy_giver = giver->number;
    if (!happens_now(world, world->lost_permille))
        post(world, below(world, 5000),
             (struct incident){.kind = INCIDENT_GIVE,
                               .node = giver->number,
                               .append = peer->number,
                               .offset = peer->copy_ask});
    post(world, 1000 * (1000 + below(world, 3000)),
         (struct incident){.kind = INCIDENT_MISS,
                           .node = peer->number,
                           .life = peer->life,
                           .offset = peer->copy_ask});
}

bool copies_log(struct cluster_world *world, struct peer *peer)
{
    if (peer->copy_ask)
        return true;
    if (!world->copies_permille || !happens(world, world->copies_permille))
        return false;
    const struct peer *giver = find_giver(world, peer);
    if (!giver)
        return false;
    peer->copy_at = (struct storage_export){.partition = 0};
    peer->copy_tries = COPY_TRIES;
    peer->copy_ask = (uint64_t)world->order << 8; /* unlike those of copies before */
    ask_for_page(world, peer, giver);
    return true;
}

/* From here on the log is followed. */
static void stop_asking(struct peer *peer)
{
    peer->copy_ask = 0;
}

/* The giver reads its storage, and answers. It stands still no more. */
void give(struct cluster_world *world, struct peer *giver, const struct incident *incident)
{
    struct peer *peer = &world->peers[incident->append];

    if (!gives(giver) || peer->copy_ask != incident->offset)
        return; /* it is not answered, or the answer is of no use */
    struct copy_page page = {.at = peer->copy_at};
    page.at.rows_max = 1 + below(world, world->copy_rows_max);
    page.at.bytes_max = SIZE_MAX;
    const uint64_t rows = page.at.rows;
    buffer_clear(&peer->page);
    if (storage_export(giver->storage, &page.at, &peer->page, NULL) ||
        !copy_is_whole(&page.at.place) || happens_now(world, world->lost_permille))
        return;
    page.row_count = (uint32_t)(page.at.rows - rows);
    page.rows = buffer_bytes(&peer->page);
    peer->copy_page = page;
    post(world, below(world, happens_now(world, 200) ? 1500000 : 5000),
         (struct incident){.kind = INCIDENT_PAGE,
                           .node = peer->number,
                           .life = peer->life,
                           .offset = peer->copy_ask});
}

void take_page(struct cluster_world *world, struct peer *peer, const struct incident *incident)
{
    if (peer->copy_ask != incident->offset)
        return;
    if (peer->copy_page.at.place.next < peer->copy_at.place.next) {
        miss_page(world, peer, incident);
        return;
    }
    peer->copy_at = peer->copy_page.at;
    const bool is_taken = replica_take_page(peer->replica, &peer->copy_page, clock_of(world, peer));
    if (!is_taken || !replica_is_copying(peer->replica)) {
        stop_asking(peer);
        return;
    }
    const struct peer *giver = &world->peers[peer->copy_giver];
    if (happens(world, 200))
        giver = &world->peers[below(world, world->peer_count)];
    ask_for_page(world, peer, giver);
}

/* No page has come: from another node, or not at all. */
void miss_page(struct cluster_world *world, struct peer *peer, const struct incident *incident)
{
    if (peer->copy_ask != incident->offset)
        return;
    if (--peer->copy_tries > 0) {
        ask_for_page(world, peer, &world->peers[below(world, world->peer_count)]);
        return;
    }
    stop_asking(peer);
    replica_end_copy(peer->replica);
}
