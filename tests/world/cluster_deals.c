/*
 * cluster_deals.c - nodes of a simulated cluster that commit messages together with the ends of their
 * timers, in transactions of the brokers (deals.h): staged, decided, marked, fenced and forgotten.
 */
#include "cluster.h"

#include "base/check.h"

#include <string.h>

/* What producers before have open has no effect. */
void fence(struct cluster_world *world, struct peer *peer)
{
    peer->producer = deals_init(&world->deals);
    see(world);
}

/* The frames go one after the other; those of others may come between them. */
void peer_transact(void *context, const struct replica_transaction *transaction)
{
    struct peer *peer = context;
    struct cluster_world *world = peer->world;
    struct deal *deal = &world->deals.deals[peer->deal - 1];
    struct incident incident = {.kind = INCIDENT_LAND,
                                .node = peer->number,
                                .life = peer->life,
                                .append = world->shipment_count};

    CHECK(peer->deal > 0 && deal->frames == 0);
    deal->from = transaction->from;
    deal->to = transaction->to;
    deal->frames = transaction->frame_count;
    for (size_t i = 0; i < transaction->frame_count; i++) {
        const uint32_t number =
            load(world, transaction->frames[i], transaction->ticket, peer->deal);
        const struct frame frame = frame_of(world, number);

        note_frame(peer, &frame);
    }
    if (happens_now(world, world->lost_permille))
        world->totals->lost++;
    else
        post(world, below(world, happens_now(world, world->late_permille) ? 3000000 : 10000),
             incident);
    incident.kind = INCIDENT_FAIL;
    post(world, 1000 * (LEASE_MS + below(world, LEASE_MS)), incident);
}

/* Messages that are ready go into a deal, and their outcomes to the engine. */
void stage(struct cluster_world *world, struct peer *peer)
{
    struct deals *deals = &world->deals;
    uint64_t serials[DEAL_MESSAGES_MAX];
    const struct tenure_time time = time_of(world, peer);

    if (peer->deal || !peer->tenure.engine || peer->tenure.is_leaving ||
        deals->count + 1 >= DEALS_MAX)
        return;
    if (peer->producer == deals->producer && !deals_may_begin(deals, peer->producer))
        return; /* the marker of the last one is on its way */
    const size_t count = tenure_gather(&peer->tenure, time, serials, DEAL_MESSAGES_MAX);
    if (count == 0)
        return;
    if (peer->producer != deals->producer)
        fence(world, peer);
    struct deal *deal = deals_begin(deals, peer->producer);
    deal->count = count;
    memcpy(deal->serials, serials, sizeof(serials));
    if (happens_now(world, 100)) { /* a message is refused */
        deals_end(deals, deal, DEAL_ABORTED);
        deals_mark(deals, deal);
        tenure_staged(&peer->tenure, time, DELIVERY_FAILED);
        return;
    }
    struct incident incident = {.kind = INCIDENT_GONE, .node = peer->number, .life = peer->life};
    incident.deal = peer->deal = deals->count;
    replica_stage(peer->replica, count);
    tenure_staged(&peer->tenure, time, DELIVERY_DONE);
    post(world, UINT64_C(2000) * LEASE_MS, incident);
    incident.kind = INCIDENT_EXPIRE;
    post(world, 1000 * EXPIRE_MS, incident);
    world->totals->staged += count;
}

/* The next one follows, or the node is told of all. */
void land_frame(struct cluster_world *world, const struct incident *incident)
{
    struct incident next = *incident;
    const uint32_t number = world->shipments[incident->append].deal;
    struct deal *deal = &world->deals.deals[number - 1];

    if (!deals_append_frame(&world->deals, deal, incident->append))
        return;
    next.append += deal->landed < deal->frames;
    next.deal = number;
    next.kind = deal->landed < deal->frames ? INCIDENT_LAND : INCIDENT_SETTLE;
    if (next.kind == INCIDENT_LAND || !happens_now(world, world->unanswered_permille))
        post(world, below(world, 10000), next);
}

/* The node asks the brokers to commit the deal, if it may; or to abort it. */
void settle(struct cluster_world *world, struct peer *peer, const struct incident *incident)
{
    const struct shipment *shipment = &world->shipments[incident->append];
    const bool fits = deals_fits(&world->deals.deals[incident->deal - 1]);
    struct incident end = *incident;

    end.kind = INCIDENT_END;
    end.offset = fits ? DEAL_COMMITTED : DEAL_ABORTED;
    if (peer->deal != incident->deal)
        return; /* it has left meanwhile */
    if (!happens_now(world, world->lost_permille))
        post(world, below(world, happens_now(world, world->late_permille) ? 3000000 : 20000), end);
    if (!fits)
        replica_failed(peer->replica, shipment->ticket, clock_of(world, peer));
}

/* The brokers decide, answer, and then mark. */
void end_deal(struct cluster_world *world, const struct incident *incident)
{
    struct deal *deal = &world->deals.deals[incident->deal - 1];
    const bool was_open = deal->state == DEAL_OPEN;
    struct incident answer = *incident;

    answer.kind = deals_end(&world->deals, deal, (enum deal_state)incident->offset)
                      ? INCIDENT_ANSWER
                      : INCIDENT_FAIL;
    answer.offset = deal->next - 1;
    if (was_open && deal->state == DEAL_COMMITTED) {
        for (size_t i = 0; i < deal->count; i++)
            truth_message(&world->truth, deal->serials[i]);
        world->totals->deals++;
        see(world);
    }
    if (incident->offset == DEAL_COMMITTED && !happens_now(world, world->unanswered_permille))
        post(world, below(world, 10000), answer);
    answer.kind = INCIDENT_MARK;
    if (deal->state != DEAL_OPEN)
        post(world, below(world, 30000), answer);
}

void mark(struct cluster_world *world, uint32_t deal)
{
    if (world->deals.size + 2 < RECORDS_MAX)
        deals_mark(&world->deals, &world->deals.deals[deal - 1]);
    see(world);
    for (uint32_t i = 0; i < world->peer_count; i++)
        post_to(world, &world->peers[i], 1, INCIDENT_WORK);
}

void expire(struct cluster_world *world, uint32_t deal)
{
    if (world->deals.deals[deal - 1].state != DEAL_OPEN)
        return;
    world->deals.deals[deal - 1].state = DEAL_ABORTED;
    world->totals->expired++;
    mark(world, deal);
}
