/*
 * cluster_deals.c - nodes of a simulated cluster that commit messages together with the ends of
 * their timers, in transactions of the brokers (deals.h): staged, decided, marked, fenced and
 * forgotten.
 */
#include "cluster.h"

#include "base/check.h"

#include <string.h>

/* Fences earlier producers: what they have open has no effect. */
void cluster_fence(struct sim_cluster *cluster, struct peer *peer)
{
    peer->producer = deals_init(&cluster->deals);
    cluster_see(cluster);
}

/* Sends the frames of a transaction one after the other. Records of others may come between
 * them. */
void peer_transact(void *context, const struct replica_transaction *transaction)
{
    struct peer *peer = context;
    struct sim_cluster *cluster = peer->cluster;
    struct deal *deal = &cluster->deals.deals[peer->deal - 1];
    struct event event = {.kind = EVENT_LAND,
                          .node = peer->number,
                          .life = peer->life,
                          .append = cluster->shipment_count};

    CHECK(peer->deal > 0 && deal->frames == 0);
    deal->from = transaction->from;
    deal->to = transaction->to;
    deal->frames = transaction->frame_count;
    for (size_t i = 0; i < transaction->frame_count; i++) {
        const uint32_t number =
            cluster_load(cluster, transaction->frames[i], transaction->ticket, peer->deal);
        const struct frame frame = cluster_frame(cluster, number);

        cluster_note_frame(peer, &frame);
    }
    if (cluster_fails(cluster, cluster->plan.lost_permille))
        cluster->world->totals->lost++;
    else
        cluster_post(cluster,
                     world_below(cluster->world, cluster_fails(cluster, cluster->plan.late_permille)
                                                     ? 3000000
                                                     : 10000),
                     event);
    event.kind = EVENT_FAIL;
    cluster_post(cluster, 1000 * (LEASE_MS + world_below(cluster->world, LEASE_MS)), event);
}

/* Puts messages that are ready into a deal, and returns their outcomes to the engine. */
void cluster_stage(struct sim_cluster *cluster, struct peer *peer)
{
    struct deals *deals = &cluster->deals;
    uint64_t serials[DEAL_MESSAGES_MAX];
    const struct tenure_time time = cluster_time(cluster, peer);

    if (cluster->plan.has_table || peer->deal || !peer->tenure.engine || peer->tenure.is_leaving ||
        deals->count + 1 >= DEALS_MAX)
        return;
    if (peer->producer == deals->producer && !deals_may_begin(deals, peer->producer))
        return; /* the marker of the last deal has not landed yet */
    const size_t count = tenure_gather(&peer->tenure, time, serials, DEAL_MESSAGES_MAX);
    if (count == 0)
        return;
    if (peer->producer != deals->producer)
        cluster_fence(cluster, peer);
    struct deal *deal = deals_begin(deals, peer->producer);
    deal->count = count;
    memcpy(deal->serials, serials, sizeof(serials));
    if (cluster_fails(cluster, 100)) { /* a message is refused */
        deals_end(deals, deal, DEAL_ABORTED);
        deals_mark(deals, deal);
        tenure_staged(&peer->tenure, time, DELIVERY_FAILED);
        return;
    }
    struct event event = {.kind = EVENT_GONE, .node = peer->number, .life = peer->life};
    event.deal = peer->deal = deals->count;
    replica_stage(peer->replica, count);
    tenure_staged(&peer->tenure, time, DELIVERY_DONE);
    cluster_post(cluster, UINT64_C(2000) * LEASE_MS, event);
    event.kind = EVENT_EXPIRE;
    cluster_post(cluster, 1000 * EXPIRE_MS, event);
    cluster->world->totals->staged += count;
}

/* A frame has landed: sends the next one, or tells the node where all are. */
void cluster_land_frame(struct sim_cluster *cluster, const struct event *event)
{
    struct event next = *event;
    const uint32_t number = cluster->shipments[event->append].deal;
    struct deal *deal = &cluster->deals.deals[number - 1];

    if (!deals_append_frame(&cluster->deals, deal, event->append))
        return;
    next.append += deal->landed < deal->frames;
    next.deal = number;
    next.kind = deal->landed < deal->frames ? EVENT_LAND : EVENT_SETTLE;
    if (next.kind == EVENT_LAND || !cluster_fails(cluster, cluster->plan.unanswered_permille))
        cluster_post(cluster, world_below(cluster->world, 10000), next);
}

/* The node asks the brokers to commit the deal if it may, and to abort it otherwise. */
void cluster_settle(struct sim_cluster *cluster, struct peer *peer, const struct event *event)
{
    const struct shipment *shipment = &cluster->shipments[event->append];
    const bool fits = deals_fits(&cluster->deals.deals[event->deal - 1]);
    struct event end = *event;

    end.kind = EVENT_END;
    end.offset = fits ? DEAL_COMMITTED : DEAL_ABORTED;
    if (peer->deal != event->deal)
        return; /* the node has left the partition meanwhile */
    if (!cluster_fails(cluster, cluster->plan.lost_permille))
        cluster_post(cluster,
                     world_below(cluster->world, cluster_fails(cluster, cluster->plan.late_permille)
                                                     ? 3000000
                                                     : 20000),
                     end);
    if (!fits)
        replica_failed(peer->replica, shipment->ticket, cluster_clock(cluster, peer));
}

/* The brokers decide the deal, answer, and then write the marker. */
void cluster_end_deal(struct sim_cluster *cluster, const struct event *event)
{
    struct deal *deal = &cluster->deals.deals[event->deal - 1];
    const bool was_open = deal->state == DEAL_OPEN;
    struct event answer = *event;

    answer.kind = deals_end(&cluster->deals, deal, (enum deal_state)event->offset) ? EVENT_ANSWER
                                                                                   : EVENT_FAIL;
    answer.offset = deal->next - 1;
    if (was_open && deal->state == DEAL_COMMITTED) {
        for (size_t i = 0; i < deal->count; i++)
            truth_message(&cluster->truth, deal->serials[i]);
        cluster->world->totals->deals++;
        cluster_see(cluster);
    }
    if (event->offset == DEAL_COMMITTED &&
        !cluster_fails(cluster, cluster->plan.unanswered_permille))
        cluster_post(cluster, world_below(cluster->world, 10000), answer);
    answer.kind = EVENT_MARK;
    if (deal->state != DEAL_OPEN)
        cluster_post(cluster, world_below(cluster->world, 30000), answer);
}

void cluster_mark(struct sim_cluster *cluster, uint32_t deal)
{
    if (cluster->deals.size + 2 < RECORDS_MAX)
        deals_mark(&cluster->deals, &cluster->deals.deals[deal - 1]);
    cluster_see(cluster);
    for (uint32_t i = 0; i < cluster->plan.node_count; i++)
        cluster_post_to(cluster, &cluster->peers[i], 1, EVENT_WORK);
}

void cluster_expire(struct sim_cluster *cluster, uint32_t deal)
{
    if (cluster->deals.deals[deal - 1].state != DEAL_OPEN)
        return;
    cluster->deals.deals[deal - 1].state = DEAL_ABORTED;
    cluster->world->totals->expired++;
    cluster_mark(cluster, deal);
}
