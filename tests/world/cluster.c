/* cluster.c - events of a simulated cluster in the order of their time; see cluster_totals.h. */
#include "cluster.h"

#include "base/check.h"
#include "store/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t below(struct cluster_world *world, uint64_t bound)
{
    return random_below(&world->random, bound);
}

bool happens(struct cluster_world *world, uint32_t permille)
{
    return below(world, 1000) < permille;
}

bool happens_now(struct cluster_world *world, uint32_t permille)
{
    return !world->is_calm && happens(world, permille);
}

/* ---- incidents: a heap by time and order ---- */

static bool is_before(const struct incident *a, const struct incident *b)
{
    return a->at_us < b->at_us || (a->at_us == b->at_us && a->order < b->order);
}

void post(struct cluster_world *world, uint64_t delay_us, struct incident incident)
{
    size_t at = world->heap_count++;

    CHECK(at < INCIDENTS_MAX);
    incident.at_us = world->now_us + delay_us;
    incident.order = world->order++;
    for (; at > 0 && is_before(&incident, &world->heap[(at - 1) / 2]); at = (at - 1) / 2)
        world->heap[at] = world->heap[(at - 1) / 2];
    world->heap[at] = incident;
}

static struct incident take(struct cluster_world *world)
{
    struct incident first = world->heap[0], last = world->heap[--world->heap_count];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < world->heap_count; at = child) {
        if (child + 1 < world->heap_count &&
            is_before(&world->heap[child + 1], &world->heap[child]))
            child++;
        if (!is_before(&world->heap[child], &last))
            break;
        world->heap[at] = world->heap[child];
    }
    world->heap[at] = last;
    return first;
}

void post_to(struct cluster_world *world, const struct peer *peer, uint64_t delay_us,
             enum incident_kind kind)
{
    post(world, delay_us,
         (struct incident){.kind = kind, .node = peer->number, .life = peer->life});
}

/* ---- a node's clock ---- */

struct instant clock_of(const struct cluster_world *world, const struct peer *peer)
{
    uint64_t passed = world->now_us * 1000;

    return (struct instant){peer->clock_start_ns + passed +
                            (uint64_t)((int64_t)(passed / 1000000) * peer->drift_ppm)};
}

static uint64_t delay_until(const struct cluster_world *world, const struct peer *peer,
                            struct instant at)
{
    uint64_t ns = instant_since_ns(clock_of(world, peer), at);

    return (uint64_t)((double)ns / (1000.0 + (double)peer->drift_ppm / 1000.0)) + 1;
}

/* Of the node's engine: its wall clock is set by people, and has no drift. */
struct tenure_time time_of(const struct cluster_world *world, const struct peer *peer)
{
    const uint64_t ms = START_MS + world->now_us / 1000;

    return (struct tenure_time){
        .us = world->now_us,
        .wall = {(uint64_t)((int64_t)ms + peer->skew_ms)},
        .may_act = replica_may_act(peer->replica, clock_of(world, peer)),
    };
}

/* ---- the owner's commits ---- */

struct frame frame_of(const struct cluster_world *world, uint32_t append)
{
    struct frame frame;

    CHECK(frame_decode(buffer_bytes(&world->shipments[append].bytes), CLUSTER, &frame, NULL) ==
          ERROR_NONE);
    return frame;
}

/* The judge sees what is decided, in the order of the log. */
void see(struct cluster_world *world)
{
    struct truth *truth = &world->truth;

    while (truth->size < world->deals.size) {
        const uint64_t offset = truth->size;
        const enum deal_state fate = deals_fate(&world->deals, offset);
        const bool was_released = truth->is_released;

        if (fate == DEAL_OPEN)
            return;
        if (fate == DEAL_ABORTED) {
            truth_skip(truth);
            continue;
        }
        const struct frame frame = frame_of(world, world->deals.log[offset].append);
        truth_land(truth, &frame);
        const bool is_valid = truth->records[offset].is_valid;
        world->totals->owners += is_valid && frame.kind == FRAME_CLAIM;
        world->totals->releases += is_valid && frame.kind == FRAME_CLAIM && was_released;
        if (world->is_verbose)
            printf("%10.3f ms  %" PRIu64 ": kind %d node %" PRIu32 " epoch %" PRIu64 " seq %" PRIu64
                   " %s%s\n",
                   (double)world->now_us / 1000.0, offset, frame.kind, frame.node, frame.epoch,
                   frame.seq, is_valid ? "valid" : "refused",
                   world->deals.log[offset].deal ? ", in a deal" : "");
    }
}

uint32_t load(struct cluster_world *world, struct bytes bytes, uint64_t ticket, uint32_t deal)
{
    CHECK(world->shipment_count < APPENDS_MAX);
    const uint32_t number = world->shipment_count++;
    struct shipment *shipment = &world->shipments[number];

    buffer_init(&shipment->bytes);
    buffer_append_bytes(&shipment->bytes, bytes);
    shipment->ticket = ticket;
    shipment->deal = deal;
    return number;
}

/* Takes the append on its way, which comes late, gets lost, or lands twice. */
static void ship(struct cluster_world *world, struct peer *peer, uint64_t ticket,
                 struct bytes bytes)
{
    const uint32_t number = load(world, bytes, ticket, 0);
    struct incident incident = {.node = peer->number, .life = peer->life, .append = number};
    uint64_t answer_us = 1000 + below(world, 20000);
    if (happens_now(world, world->lost_permille)) {
        world->totals->lost++;
    } else {
        incident.kind = INCIDENT_LAND;
        uint64_t land_us = below(world, 10000);
        if (happens_now(world, world->late_permille))
            land_us = 1000 * below(world, 8 * LEASE_MS);
        incident.offset = answer_us;
        if (happens_now(world, world->unanswered_permille)) /* or late */
            incident.offset = happens(world, 500) ? UINT64_MAX : 1000 * below(world, LEASE_MS);
        post(world, land_us, incident);
        if (happens_now(world, world->doubled_permille)) {
            world->totals->doubled++;
            incident.offset = happens(world, 500) ? UINT64_MAX : answer_us;
            post(world, land_us + below(world, 1000000), incident);
        }
    }
    incident.kind = INCIDENT_FAIL;
    post(world, 1000 * (LEASE_MS + below(world, LEASE_MS)), incident);
}

/* ---- what a replica has others do ---- */

/* Of the commit in flight. */
void note_frame(struct peer *peer, const struct frame *frame)
{
    if (peer->is_committed)
        peer->frame_count = 0;
    CHECK(peer->frame_count < COMMIT_FRAMES_MAX);
    peer->frames[peer->frame_count] = *frame;
    peer->frames[peer->frame_count++].body = (struct bytes){0};
    peer->is_committed = false;
}

static void peer_append(void *context, uint64_t ticket, struct bytes bytes)
{
    struct peer *peer = context;
    struct cluster_world *world = peer->world;
    const uint32_t number = world->shipment_count;

    ship(world, peer, ticket, bytes);
    const struct frame frame = frame_of(world, number);
    if (frame.kind == FRAME_CLAIM && world->is_fencing)
        fence(world, peer);
    if (frame.kind == FRAME_COMMIT && !frame.is_sweep)
        note_frame(peer, &frame);
}

static void peer_begin(void *context, const struct storage_meta *meta)
{
    struct peer *peer = context;

    peer->is_committed = true;
    tenure_begin(&peer->tenure, peer->replica, meta, random_next(&peer->world->random),
                 time_of(peer->world, peer));
}

static void peer_drain(void *context)
{
    tenure_drain(&((struct peer *)context)->tenure);
}

static void peer_leave(void *context)
{
    struct peer *peer = context;

    peer->deal = 0;
    tenure_leave(&peer->tenure);
}

static void peer_committed(void *context, struct storage_batch *batch)
{
    struct peer *peer = context;

    if (!batch->result && !peer->is_committed) {
        truth_durable(&peer->world->truth, peer->frames, peer->frame_count,
                      replica_applied(peer->replica));
        truth_storage(&peer->world->truth, replica_applied(peer->replica), peer->storage);
        peer->world->totals->durable++;
    }
    peer->is_committed = true;
    tenure_committed(&peer->tenure, batch, time_of(peer->world, peer));
}

static void peer_settled(void *context, enum ownership_result result)
{
    struct peer *peer = context;

    if (result == OWNERSHIP_FAILED) {
        truth_failed(&peer->world->truth, &peer->frames[peer->frame_count - 1]);
        peer->world->totals->failed++;
    }
    peer->world->totals->in_doubt += result == OWNERSHIP_IN_DOUBT;
}

/* It comes late, or gets lost. */
static void peer_trim(void *context, uint64_t before)
{
    struct peer *peer = context;
    struct cluster_world *world = peer->world;

    if (!happens_now(world, 200))
        post(world, below(world, happens(world, 100) ? 20000000 : 20000),
             (struct incident){.kind = INCIDENT_TRIM, .offset = before});
}

/* ---- a node ---- */

static void note_state(struct cluster_world *world, struct peer *peer)
{
    enum ownership_state state = replica_state(peer->replica);

    if (state == OWNERSHIP_BROKEN)
        truth_broken("node %" PRIu32 " says that the log has lost records: %s", peer->number,
                     replica_error(peer->replica)->text);
    if (state == peer->state)
        return;
    if (world->is_verbose)
        printf("%10.3f ms  node %" PRIu32 " life %" PRIu32 ": state %d -> %d, epoch %" PRIu64 "\n",
               (double)world->now_us / 1000.0, peer->number, peer->life, peer->state, state,
               replica_epoch(peer->replica));
    peer->state = state;
}

/* The engine has its turn, and tells the replica how far it is. */
static void work(struct cluster_world *world, struct peer *peer)
{
    const bool had_engine = peer->tenure.engine != NULL;

    peer->tenure.is_calm = world->is_calm;
    tenure_turn(&peer->tenure, time_of(world, peer));
    stage(world, peer);
    if (peer->state == OWNERSHIP_RECOVERING && tenure_is_ready(&peer->tenure))
        replica_recovered(peer->replica);
    if (peer->state == OWNERSHIP_DRAINING && tenure_is_idle(&peer->tenure))
        replica_drained(peer->replica);
    if (had_engine && !peer->tenure.engine)
        replica_left(peer->replica);
}

/* A storage that failed is at an older place when it is looked at again. */
static void rewind_storage(struct cluster_world *world, struct peer *peer)
{
    if (!replica_is_failing(peer->replica) || !memory_storage_held(peer->storage))
        return;
    memory_storage_crash(peer->storage, (size_t)below(world, KEPT_MAX));
    world->totals->failures++;
}

/* Posts the next wake-up at `at_us`, unless one is posted that comes before. */
static void wake_at(struct cluster_world *world, const struct peer *peer, uint64_t at_us,
                    uint64_t *posted_us, enum incident_kind kind)
{
    if (at_us == UINT64_MAX || (*posted_us > world->now_us && *posted_us <= at_us))
        return;
    *posted_us = at_us;
    post_to(world, peer, at_us - world->now_us, kind);
}

/* After each input of a node. */
static void turn(struct cluster_world *world, struct peer *peer)
{
    const struct instant now = clock_of(world, peer);
    const struct wall wall = time_of(world, peer).wall;

    rewind_storage(world, peer);
    replica_turn(peer->replica, now, wall);
    replica_check(peer->replica);
    note_state(world, peer);
    work(world, peer);
    replica_turn(peer->replica, now, wall);
    note_state(world, peer);
    if (memory_storage_held(peer->storage) >= SYNC_EVERY)
        memory_storage_sync(peer->storage);
    wake_at(world, peer, tenure_wake_us(&peer->tenure, time_of(world, peer)), &peer->work_at_us,
            INCIDENT_WORK);
    const struct instant at = replica_wake_at(peer->replica, now);
    if (at.ns == UINT64_MAX)
        return;
    if (at.ns <= now.ns)
        truth_broken("node %" PRIu32 " asks to be woken in the past", peer->number);
    wake_at(world, peer, world->now_us + delay_until(world, peer, at), &peer->wake_at_us,
            INCIDENT_WAKE);
}

/* The record that it reads next. */
static uint64_t next_of(const struct cluster_world *world, const struct peer *peer)
{
    return deals_visible(&world->deals,
                         replica_seeks(peer->replica) ? world->begin : replica_next(peer->replica));
}

static void read_log(struct cluster_world *world, struct peer *peer)
{
    uint64_t most = 1 + below(world, 20);

    if (copies_log(world, peer)) {
        post_to(world, peer, 1000 + 1000 * below(world, world->poll_ms), INCIDENT_READ);
        return;
    }
    replica_take_rewind(peer->replica);
    while (next_of(world, peer) < world->deals.stable && most-- > 0) {
        const uint64_t next = next_of(world, peer);

        if (replica_next(peer->replica) < world->begin && !replica_seeks(peer->replica)) {
            replica_lost(peer->replica);
            break;
        }
        const struct shipment *shipment = &world->shipments[world->deals.log[next].append];

        replica_read(peer->replica, next, buffer_bytes(&shipment->bytes), clock_of(world, peer));
        note_state(world, peer);
        if (replica_is_failing(peer->replica))
            break;
        if (replica_is_whole(peer->replica) &&
            replica_next(peer->replica) == replica_applied(peer->replica))
            truth_storage(&world->truth, next + 1, peer->storage);
        if (happens(world, 100))
            memory_storage_sync(peer->storage);
    }
    if (next_of(world, peer) == world->deals.stable)
        replica_restored(peer->replica);
    uint64_t lag_ms = happens_now(world, world->lag_permille) ? 3 * LEASE_MS : world->poll_ms;
    post_to(world, peer, 1000 + 1000 * below(world, lag_ms), INCIDENT_READ);
}

static void start(struct cluster_world *world, struct peer *peer)
{
    const struct replica_options options = {
        .node = peer->number,
        .cluster = CLUSTER,
        .lease_ms = LEASE_MS,
        .handover_ms = 500,
        .seed = random_next(&world->random),
        .body_bytes_max = world->body_bytes_max,
        .sweep = world->sweep,
        .trim_delay_ms = world->trim_delay_ms,
        .copy_records_min = world->copy_records_min,
        .address = BYTES("node.example:1"),
        .storage = peer->storage,
    };
    const struct replica_events events = {
        .context = peer,
        .append = peer_append,
        .transact = peer_transact,
        .begin = peer_begin,
        .drain = peer_drain,
        .leave = peer_leave,
        .committed = peer_committed,
        .settled = peer_settled,
        .trim = peer_trim,
    };

    peer->is_up = true;
    peer->life++;
    peer->wake_at_us = peer->work_at_us = 0;
    peer->producer = peer->deal = 0;
    peer->copy_ask = 0;
    memory_storage_fail_commit(peer->storage, 0, ERROR_NONE);
    CHECK(replica_create(&options, &events, clock_of(world, peer), &peer->replica, NULL) ==
          ERROR_NONE);
    peer->state = replica_state(peer->replica);
    if (world->is_verbose)
        printf("%10.3f ms  node %" PRIu32 " life %" PRIu32 " starts at %" PRIu64 "\n",
               (double)world->now_us / 1000.0, peer->number, peer->life,
               replica_next(peer->replica));
    replica_plan(peer->replica, peer->planned, clock_of(world, peer));
    post_to(world, peer, below(world, 10000), INCIDENT_READ);
}

/* Gives back what the engine has out, and frees both. */
static void end_peer(struct cluster_world *world, struct peer *peer)
{
    struct replica_stats stats;

    replica_get_stats(peer->replica, &stats);
    world->totals->sweeps += stats.sweeps;
    world->totals->copies += stats.rows;
    world->totals->restarts += stats.restarts;
    world->totals->copied += stats.copies;
    world->totals->copied_rows += stats.copy_rows;
    world->totals->copies_failed += stats.copy_failures;
    replica_stop(peer->replica);
    tenure_end(&peer->tenure, time_of(world, peer));
    replica_destroy(peer->replica);
    peer->replica = NULL;
}

/* ---- clients, plans and faults ---- */

static void ask(struct cluster_world *world)
{
    struct peer *peer = &world->peers[below(world, world->peer_count)];

    post(world, 1000 * (1 + below(world, 2 * world->client_gap_ms)),
         (struct incident){.kind = INCIDENT_CLIENT});
    if (!peer->is_up || peer->stopped_until_us > world->now_us || peer->state != OWNERSHIP_ACTIVE ||
        world->truth.tracked_count + 1000 > TRACKED_MAX)
        return;
    tenure_ask(&peer->tenure, time_of(world, peer));
    turn(world, peer);
}

/* By people, or a service that corrects it. */
static void step_clock(struct cluster_world *world)
{
    struct peer *peer = &world->peers[below(world, world->peer_count)];

    post(world, 1000 * (1 + below(world, 2 * world->step_gap_ms)),
         (struct incident){.kind = INCIDENT_STEP});
    peer->skew_ms = (int64_t)below(world, 2 * SKEW_MS_MAX + 1) - SKEW_MS_MAX;
    world->totals->steps++;
}

static void plan(struct cluster_world *world)
{
    if (!world->is_calm)
        world->planned = (uint32_t)below(world, world->peer_count);
    for (uint32_t i = 0; i < world->peer_count; i++)
        post(world, 1000 * below(world, 1000), (struct incident){.kind = INCIDENT_HEAR, .node = i});
    uint64_t gap_ms = happens(world, 300) ? 1500 : 2 * world->plan_gap_ms;
    post(world, 1000 * (100 + below(world, gap_ms)), (struct incident){.kind = INCIDENT_PLAN});
}

static void stop_peer(struct cluster_world *world, struct peer *peer, uint64_t ms)
{
    if (peer->stopped_until_us > world->now_us)
        return;
    peer->stopped_until_us = world->now_us + 1000 * ms;
    world->totals->stops++;
}

static void stop(struct cluster_world *world)
{
    struct peer *peer = &world->peers[below(world, world->peer_count)];

    post(world, 1000 * (1 + below(world, 2 * world->stop_gap_ms)),
         (struct incident){.kind = INCIDENT_STOP});
    if (world->is_calm)
        return;
    stop_peer(world, peer, below(world, 200u << below(world, 7)));
    if (happens(world, 300))
        post(world, peer->stopped_until_us - world->now_us + below(world, 60000),
             (struct incident){.kind = INCIDENT_DUEL});
}

static void duel(struct cluster_world *world)
{
    for (uint32_t i = 0; i < world->peer_count && !world->is_calm; i++)
        if (world->peers[i].is_up && world->peers[i].state == OWNERSHIP_ACTIVE)
            stop_peer(world, &world->peers[i], LEASE_MS + below(world, 2 * LEASE_MS));
}

static uint64_t place_of(const struct peer *peer)
{
    struct storage_place place;

    CHECK(storage_load_place(peer->storage, 0, &place, NULL) == ERROR_NONE);
    return place.next;
}

/* One of the next calls of a storage fails. */
static void spoil(struct cluster_world *world)
{
    struct peer *peer = &world->peers[below(world, world->peer_count)];

    post(world, 1000 * (1 + below(world, 2 * world->spoil_gap_ms)),
         (struct incident){.kind = INCIDENT_SPOIL});
    if (!world->is_calm && peer->is_up)
        memory_storage_fail_commit(peer->storage, 1 + below(world, 10), ERROR_IO);
}

/* Its node has had no part in the partition: it begins with the whole log again. */
static void drop(struct cluster_world *world, struct peer *peer)
{
    const struct storage_place nothing = {0};

    memory_storage_fail_commit(peer->storage, 0, ERROR_NONE);
    CHECK(storage_partition_clear(peer->storage, 0, &nothing, NULL) == ERROR_NONE);
    memory_storage_sync(peer->storage);
    world->totals->drops++;
}

static void crash(struct cluster_world *world)
{
    struct peer *peer = &world->peers[below(world, world->peer_count)];

    post(world, 1000 * (1 + below(world, 2 * world->crash_gap_ms)),
         (struct incident){.kind = INCIDENT_CRASH});
    if (world->is_calm || !peer->is_up)
        return;
    peer->is_up = false;
    peer->life++;
    peer->stopped_until_us = 0;
    world->totals->crashes++;
    const uint64_t next = place_of(peer);
    const bool is_idle = replica_is_idle(peer->replica) && peer->planned != peer->number;
    end_peer(world, peer);
    memory_storage_crash(peer->storage, (size_t)below(world, KEPT_MAX));
    world->totals->rewound += next - place_of(peer);
    if (is_idle && happens(world, world->copies_permille ? 700 : 300))
        drop(world, peer);
    post_to(world, peer, 1000 * below(world, 3 * LEASE_MS), INCIDENT_START);
}

static void trim_log(struct cluster_world *world, uint64_t before)
{
    if (before <= world->begin || world->now_us > 1000 * (FAULTS_MS + CALM_MS - LAST_MS))
        return;
    truth_trim(&world->truth, before);
    world->totals->trims++;
    world->totals->dropped += before - world->begin;
    world->begin = before;
}

static void pause_log(struct cluster_world *world)
{
    post(world, 1000 * (1 + below(world, 2 * world->pause_gap_ms)),
         (struct incident){.kind = INCIDENT_PAUSE});
    if (world->is_calm)
        return;
    world->log_paused_us = world->now_us + 1000 * below(world, 4 * LEASE_MS);
    world->totals->pauses++;
}

static void land(struct cluster_world *world, const struct incident *incident)
{
    const struct shipment *shipment = &world->shipments[incident->append];

    if (world->now_us < world->log_paused_us) {
        post(world, world->log_paused_us - world->now_us, *incident);
        return;
    }
    if (world->deals.size + 2 >= RECORDS_MAX)
        return;
    world->totals->late += shipment->is_given_up;
    if (shipment->deal) {
        land_frame(world, incident);
        return;
    }
    const uint64_t offset = deals_append(&world->deals, incident->append);
    see(world);
    if (incident->offset == UINT64_MAX)
        return;
    struct incident answer = *incident;
    answer.kind = INCIDENT_ANSWER;
    answer.offset = offset;
    post(world, incident->offset, answer);
}

/* ---- a run ---- */

/* Never two nodes that may act, whatever runs at the moment. */
static void check_owners(const struct cluster_world *world)
{
    const struct peer *first = NULL;

    for (uint32_t i = 0; i < world->peer_count; i++) {
        const struct peer *peer = &world->peers[i];

        if (!peer->is_up || !replica_may_act(peer->replica, clock_of(world, peer)))
            continue;
        if (first)
            truth_broken("nodes %" PRIu32 " and %" PRIu32 " both may deliver, in epochs %" PRIu64
                         " and %" PRIu64,
                         first->number, peer->number, replica_epoch(first->replica),
                         replica_epoch(peer->replica));
        first = peer;
    }
}

static void happen_to(struct cluster_world *world, struct peer *peer,
                      const struct incident *incident)
{
    struct shipment *shipment = &world->shipments[incident->append];
    struct instant now = clock_of(world, peer);

    switch (incident->kind) {
    case INCIDENT_ANSWER:
        if (shipment->deal == peer->deal)
            peer->deal = 0;
        replica_landed(peer->replica, shipment->ticket, incident->offset, now);
        break;
    case INCIDENT_FAIL:
        replica_failed(peer->replica, shipment->ticket, now);
        break;
    case INCIDENT_SETTLE:
        settle(world, peer, incident);
        break;
    case INCIDENT_GONE:
        if (incident->deal == peer->deal && world->deals.deals[peer->deal - 1].frames == 0)
            replica_give_up(peer->replica, now);
        break;
    case INCIDENT_READ:
        read_log(world, peer);
        break;
    case INCIDENT_PAGE:
        take_page(world, peer, incident);
        break;
    case INCIDENT_MISS:
        miss_page(world, peer, incident);
        break;
    default:
        break; /* INCIDENT_WAKE, INCIDENT_WORK */
    }
    turn(world, peer);
}

/* Until the node goes on: then everything comes at once, in any order. */
static void put_off(struct cluster_world *world, const struct peer *peer,
                    const struct incident *incident)
{
    post(world, peer->stopped_until_us - world->now_us + below(world, 2000), *incident);
}

static void hear(struct cluster_world *world, struct peer *peer, const struct incident *incident)
{
    if (happens_now(world, 200))
        return; /* until the next plan */
    if (peer->stopped_until_us > world->now_us) {
        put_off(world, peer, incident);
        return;
    }
    peer->planned = world->planned;
    if (!peer->is_up)
        return;
    replica_plan(peer->replica, peer->planned, clock_of(world, peer));
    turn(world, peer);
}

static void happen(struct cluster_world *world, const struct incident *incident)
{
    struct peer *peer = &world->peers[incident->node];

    switch (incident->kind) {
    case INCIDENT_LAND:
        land(world, incident);
        return;
    case INCIDENT_END:
        end_deal(world, incident);
        return;
    case INCIDENT_MARK:
        mark(world, incident->deal);
        return;
    case INCIDENT_EXPIRE:
        expire(world, incident->deal);
        return;
    case INCIDENT_CLIENT:
        ask(world);
        return;
    case INCIDENT_PLAN:
        plan(world);
        return;
    case INCIDENT_STOP:
        stop(world);
        return;
    case INCIDENT_DUEL:
        duel(world);
        return;
    case INCIDENT_CRASH:
        crash(world);
        return;
    case INCIDENT_PAUSE:
        pause_log(world);
        return;
    case INCIDENT_STEP:
        step_clock(world);
        return;
    case INCIDENT_SPOIL:
        spoil(world);
        return;
    case INCIDENT_TRIM:
        trim_log(world, incident->offset);
        return;
    case INCIDENT_HEAR:
        hear(world, peer, incident);
        return;
    case INCIDENT_START:
        start(world, peer);
        return;
    case INCIDENT_GIVE:
        if (peer->stopped_until_us > world->now_us)
            put_off(world, peer, incident);
        else
            give(world, peer, incident);
        return;
    default:
        break;
    }
    if (incident->kind == INCIDENT_FAIL)
        world->shipments[incident->append].is_given_up = true;
    if (!peer->is_up || peer->life != incident->life)
        return;
    if (peer->stopped_until_us > world->now_us)
        put_off(world, peer, incident);
    else
        happen_to(world, peer, incident);
}

/* Without faults the planned node serves in the end, and all replicas are alike. */
static void check_end(struct cluster_world *world)
{
    const struct peer *owner = &world->peers[world->planned];

    if (world->deals.size + 2 >= RECORDS_MAX)
        return;
    if (!replica_may_act(owner->replica, clock_of(world, owner)))
        truth_broken("node %" PRIu32 " does not serve in the end: its state is %d", owner->number,
                     owner->state);
    for (uint32_t i = 0; i < world->peer_count; i++) {
        const struct peer *peer = &world->peers[i];

        if (!peer->is_up || !replica_is_whole(peer->replica) ||
            replica_next(peer->replica) + 100 < world->truth.size)
            truth_broken("node %" PRIu32 " does not follow in the end", i);
    }
    truth_trim(&world->truth, world->begin);
    truth_end(&world->truth, (struct wall){START_MS + world->now_us / 1000 - GRACE_MS});
}

static uint64_t gap(struct cluster_world *world, uint32_t permille, uint64_t least, uint64_t spread)
{
    return happens(world, permille) ? least + below(world, spread) : 0;
}

static void draw(struct cluster_world *world, uint64_t seed)
{
    world->random = random_seeded(seed);
    world->peer_count = 2 + (uint32_t)below(world, NODES_MAX - 1);
    world->lost_permille = happens(world, 500) ? (uint32_t)below(world, 60) : 0;
    world->late_permille = happens(world, 500) ? (uint32_t)below(world, 150) : 0;
    world->unanswered_permille = happens(world, 500) ? (uint32_t)below(world, 100) : 0;
    world->doubled_permille = happens(world, 300) ? (uint32_t)below(world, 300) : 0;
    world->lag_permille = happens(world, 400) ? (uint32_t)below(world, 30) : 0;
    world->poll_ms = happens(world, 300) ? 10 : 150;
    world->stop_gap_ms = gap(world, 600, 1000, 10000);
    world->crash_gap_ms = gap(world, 500, 2000, 10000);
    world->pause_gap_ms = gap(world, 300, 5000, 20000);
    world->plan_gap_ms = 2000 + below(world, 10000);
    world->client_gap_ms = 20 + below(world, 300);
    world->step_gap_ms = gap(world, 300, 2000, 20000);
    world->spoil_gap_ms = gap(world, 400, 1000, 20000);
    world->body_bytes_max = happens(world, 500) ? 1000 + below(world, 3000) : 0;
    if (happens(world, 700))
        world->sweep = (struct sweep_limits){3000 + below(world, 60000), 1 + below(world, 3),
                                             1 + below(world, happens(world, 500) ? 20 : 200)};
    world->trim_delay_ms = happens(world, 500) ? below(world, 5000) : 0;
    world->is_fencing = happens(world, 700);
    world->copies_permille = happens(world, 700) ? 1000 - (uint32_t)below(world, 300) : 0;
    world->copy_rows_max = happens(world, 500) ? 4 : 60;
    world->copy_records_min = 1 + below(world, 100);
    bool is_skewed = happens(world, 600);
    bool is_drifting = happens(world, 600);
    for (uint32_t i = 0; i < world->peer_count; i++) {
        struct peer *peer = &world->peers[i];
        int64_t most = 1000000 / OWNERSHIP_DRIFT / 2;

        peer->number = i;
        peer->skew_ms = is_skewed ? (int64_t)below(world, 2 * SKEW_MS_MAX + 1) - SKEW_MS_MAX : 0;
        peer->world = world;
        buffer_init(&peer->page);
        peer->storage = memory_storage_create(1);
        CHECK(peer->storage);
        memory_storage_hold(peer->storage);
        tenure_init(&peer->tenure, peer->storage, &world->truth, world->totals);
        peer->clock_start_ns = below(world, UINT64_C(1) << 50);
        peer->drift_ppm = !is_drifting ? 0 : happens(world, 500) ? most : -most;
        start(world, peer);
    }
}

static void post_faults(struct cluster_world *world)
{
    const struct {
        uint64_t gap_ms;
        enum incident_kind kind;
    } each[] = {
        {world->stop_gap_ms, INCIDENT_STOP},     {world->crash_gap_ms, INCIDENT_CRASH},
        {world->pause_gap_ms, INCIDENT_PAUSE},   {world->plan_gap_ms, INCIDENT_PLAN},
        {world->client_gap_ms, INCIDENT_CLIENT}, {world->step_gap_ms, INCIDENT_STEP},
        {world->spoil_gap_ms, INCIDENT_SPOIL},
    };

    for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++)
        if (each[i].gap_ms > 0)
            post(world, 1000 * below(world, each[i].gap_ms),
                 (struct incident){.kind = each[i].kind});
}

static void clear(struct cluster_world *world)
{
    for (uint32_t i = 0; i < world->peer_count; i++) {
        if (world->peers[i].is_up)
            end_peer(world, &world->peers[i]);
        storage_close(world->peers[i].storage);
        buffer_deinit(&world->peers[i].page);
    }
    for (uint32_t i = 0; i < world->shipment_count; i++)
        buffer_deinit(&world->shipments[i].bytes);
    mirror_deinit(&world->truth.mirror);
}

void cluster_run(uint64_t seed, bool is_verbose, struct cluster_totals *totals, uint64_t *ret_hash)
{
    static struct cluster_world world; /* 2 MB */

    memset(&world, 0, sizeof(world));
    world.is_verbose = is_verbose;
    world.totals = totals;
    mirror_init(&world.truth.mirror);
    draw(&world, seed);
    post_faults(&world);
    while (world.now_us < 1000 * (FAULTS_MS + CALM_MS)) {
        struct incident incident = take(&world);

        world.now_us = incident.at_us;
        world.is_calm = world.now_us > 1000 * FAULTS_MS;
        world.hash = random_mix(world.hash ^ incident.at_us ^ (uint64_t)incident.kind << 56 ^
                                (uint64_t)incident.node << 48);
        happen(&world, &incident);
        check_owners(&world);
    }
    check_end(&world);
    totals->runs++;
    totals->simulated_ms += FAULTS_MS + CALM_MS;
    totals->records += world.truth.size;
    totals->zombies += world.truth.zombies;
    totals->refused += world.truth.repeats;
    totals->duplicates += world.truth.duplicates;
    *ret_hash = random_mix(world.hash ^ mirror_hash(world.truth.mirror.storage) ^ world.truth.size);
    clear(&world);
}
