/* cluster.c - events of a simulated cluster in the order of their time; see cluster.h. */
#include "cluster.h"

#include "base/check.h"
#include "store/testing/memory.h"

#include <inttypes.h>
#include <stdlib.h>

static const char FOLLOWS[] = "a replica follows its log";
static const char OWNER[] = "one node serves, and no other";

/* Names of the kinds of records, for the trace. */
static const char *const record_words[] = {[FRAME_CLAIM] = "claim",
                                           [FRAME_COMMIT] = "commit",
                                           [FRAME_KEEP] = "keep",
                                           [FRAME_RELEASE] = "release",
                                           [FRAME_NOTE] = "note"};
static const char *const state_words[] = {
    [OWNERSHIP_RESTORING] = "restoring", [OWNERSHIP_STANDBY] = "standby",
    [OWNERSHIP_CLAIMING] = "claiming",   [OWNERSHIP_RECOVERING] = "recovering",
    [OWNERSHIP_ACTIVE] = "active",       [OWNERSHIP_DRAINING] = "draining",
    [OWNERSHIP_LEAVING] = "leaving",     [OWNERSHIP_BROKEN] = "broken",
};
static const char *const event_words[] = {
    [EVENT_LAND] = "lands",       [EVENT_SETTLE] = "deal is full", [EVENT_END] = "deal ends",
    [EVENT_MARK] = "deal marked", [EVENT_EXPIRE] = "deal expires", [EVENT_GONE] = "deal given up",
    [EVENT_ANSWER] = "landed",    [EVENT_FAIL] = "in doubt",       [EVENT_FOLLOW] = "reads",
    [EVENT_WAKE] = "wakes",       [EVENT_WORK] = "works",          [EVENT_HEAR] = "hears the plan",
    [EVENT_RETURN] = "returns",   [EVENT_ASK] = "client",          [EVENT_PLAN] = "plan",
    [EVENT_STOP] = "stop",        [EVENT_DUEL] = "duel",           [EVENT_KILL] = "crash",
    [EVENT_PAUSE] = "log pauses", [EVENT_STEP] = "clock set",      [EVENT_SPOIL] = "storage fails",
    [EVENT_TRIM] = "trim",        [EVENT_GIVE] = "page asked",     [EVENT_PAGE] = "page",
    [EVENT_MISS] = "no page",     [EVENT_RUN] = "question",        [EVENT_SYNC] = "commit ends",
    [EVENT_REPLY] = "answer",     [EVENT_BREAK] = "broken",        [EVENT_ROWS] = "rows",
    [EVENT_SWITCH] = "switch",    [EVENT_LEAVE] = "standby away",
};

bool cluster_fails(struct sim_cluster *cluster, uint32_t permille)
{
    return !cluster->world->is_quiet && world_chance(cluster->world, permille);
}

/* ---- events ---- */

void cluster_post(struct sim_cluster *cluster, uint64_t delay_us, struct event event)
{
    event.time_us = cluster->world->time_us + delay_us;
    events_post(&cluster->world->events, event);
}

void cluster_post_to(struct sim_cluster *cluster, const struct peer *peer, uint64_t delay_us,
                     enum event_kind kind)
{
    cluster_post(cluster, delay_us,
                 (struct event){.kind = kind, .node = peer->number, .life = peer->life});
}

/* ---- a node's clock ---- */

struct instant cluster_clock(const struct sim_cluster *cluster, const struct peer *peer)
{
    uint64_t passed = cluster->world->time_us * 1000;

    return (struct instant){peer->clock_start_ns + passed +
                            (uint64_t)((int64_t)(passed / 1000000) * peer->drift_ppm)};
}

static uint64_t delay_until(const struct sim_cluster *cluster, const struct peer *peer,
                            struct instant at)
{
    uint64_t ns = instant_since_ns(cluster_clock(cluster, peer), at);

    return (uint64_t)((double)ns / (1000.0 + (double)peer->drift_ppm / 1000.0)) + 1;
}

/* Returns the time at the node. Its wall clock may be set wrong, and does not drift. */
struct tenure_time cluster_time(const struct sim_cluster *cluster, const struct peer *peer)
{
    const uint64_t ms = START_MS + cluster->world->time_us / 1000;

    return (struct tenure_time){
        .us = cluster->world->time_us,
        .wall = {(uint64_t)((int64_t)ms + peer->skew_ms)},
        .may_act = replica_may_act(peer->replica, cluster_clock(cluster, peer)),
    };
}

/* ---- the owner's commits ---- */

struct frame cluster_frame(const struct sim_cluster *cluster, uint32_t append)
{
    struct frame frame;

    CHECK(frame_decode(buffer_bytes(&cluster->shipments[append].bytes), CLUSTER, &frame, NULL) ==
          ERROR_NONE);
    return frame;
}

/* Passes the records that are decided to the judge, in the order of the log. */
void cluster_see(struct sim_cluster *cluster)
{
    struct truth *truth = &cluster->truth;

    while (truth->size + cluster->table.is_hidden < cluster->deals.size) {
        const uint64_t offset = truth->size;
        const enum deal_state fate = deals_fate(&cluster->deals, offset);
        const bool was_released = truth->has_acted;

        if (fate == DEAL_OPEN)
            return;
        if (fate == DEAL_ABORTED) {
            truth_skip(truth);
            continue;
        }
        const struct frame frame = cluster_frame(cluster, cluster->deals.log[offset].append);
        truth_land(truth, &frame);
        const bool is_valid = truth->records[offset].is_valid;
        cluster->world->totals->claims += is_valid && frame.kind == FRAME_CLAIM;
        cluster->world->totals->releases += is_valid && frame.kind == FRAME_CLAIM && was_released;
        world_note(cluster->world, is_valid ? record_words[frame.kind] : "record refused",
                   (uint16_t)frame.node, 0, frame.epoch, frame.seq);
    }
}

uint32_t cluster_load(struct sim_cluster *cluster, struct bytes bytes, uint64_t ticket,
                      uint32_t deal)
{
    CHECK(cluster->shipment_count < APPENDS_MAX);
    const uint32_t number = cluster->shipment_count++;
    struct shipment *shipment = &cluster->shipments[number];

    buffer_init(&shipment->bytes);
    buffer_append_bytes(&shipment->bytes, bytes);
    shipment->ticket = ticket;
    shipment->deal = deal;
    return number;
}

/* Sends an append: it comes late, gets lost, or lands twice. */
static void ship(struct sim_cluster *cluster, struct peer *peer, uint64_t ticket,
                 struct bytes bytes)
{
    const uint32_t number = cluster_load(cluster, bytes, ticket, 0);
    struct event event = {.node = peer->number, .life = peer->life, .append = number};
    uint64_t answer_us = 1000 + world_below(cluster->world, 20000);
    if (cluster_fails(cluster, cluster->plan.lost_permille)) {
        cluster->world->totals->lost++;
    } else {
        event.kind = EVENT_LAND;
        uint64_t land_us = world_below(cluster->world, 10000);
        if (cluster_fails(cluster, cluster->plan.late_permille))
            land_us = 1000 * world_below(cluster->world, 8 * LEASE_MS);
        event.offset = answer_us;
        if (cluster_fails(cluster, cluster->plan.unanswered_permille)) /* or late */
            event.offset = world_chance(cluster->world, 500)
                               ? UINT64_MAX
                               : 1000 * world_below(cluster->world, LEASE_MS);
        cluster_post(cluster, land_us, event);
        if (cluster_fails(cluster, cluster->plan.doubled_permille)) {
            cluster->world->totals->doubled++;
            event.offset = world_chance(cluster->world, 500) ? UINT64_MAX : answer_us;
            cluster_post(cluster, land_us + world_below(cluster->world, 1000000), event);
        }
    }
    event.kind = EVENT_FAIL;
    cluster_post(cluster, 1000 * (LEASE_MS + world_below(cluster->world, LEASE_MS)), event);
}

/* ---- what a replica has others do ---- */

/* Notes a frame of the commit in flight. */
void cluster_note_frame(struct peer *peer, const struct frame *frame)
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
    struct sim_cluster *cluster = peer->cluster;
    const uint32_t number = cluster->shipment_count;

    if (cluster->plan.has_table)
        table_append(cluster, peer, ticket, bytes);
    else
        ship(cluster, peer, ticket, bytes);
    const struct frame frame = cluster_frame(cluster, number);
    if (frame.kind == FRAME_CLAIM && cluster->plan.is_fencing && !cluster->plan.has_table)
        cluster_fence(cluster, peer);
    if (frame.kind == FRAME_COMMIT && !frame.is_sweep)
        cluster_note_frame(peer, &frame);
}

static void peer_begin(void *context, const struct storage_meta *meta)
{
    struct peer *peer = context;

    peer->is_committed = true;
    tenure_begin(&peer->tenure, peer->replica, meta, random_next(&peer->cluster->world->random),
                 cluster_time(peer->cluster, peer));
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

    if (!batch->result && !peer->is_committed && !peer->is_misled) {
        truth_durable(&peer->cluster->truth, peer->frames, peer->frame_count,
                      replica_applied(peer->replica));
        truth_storage(&peer->cluster->truth, replica_applied(peer->replica), peer->storage);
        peer->cluster->world->totals->commits++;
    }
    peer->is_committed = true;
    tenure_committed(&peer->tenure, batch, cluster_time(peer->cluster, peer));
}

static void peer_settled(void *context, enum ownership_result result)
{
    struct peer *peer = context;

    if (result == OWNERSHIP_FAILED && !peer->is_misled) {
        truth_failed(&peer->cluster->truth, &peer->frames[peer->frame_count - 1]);
        peer->cluster->world->totals->commits_failed++;
    }
    peer->cluster->world->totals->commits_in_doubt += result == OWNERSHIP_IN_DOUBT;
}

/* The request to trim comes late, or gets lost. */
static void peer_trim(void *context, uint64_t before)
{
    struct peer *peer = context;
    struct sim_cluster *cluster = peer->cluster;

    if (cluster_fails(cluster, 200))
        return;
    const uint64_t delay_us =
        world_below(cluster->world, world_chance(cluster->world, 100) ? 20000000 : 20000);
    if (cluster->plan.has_table)
        table_ask_trim(cluster, peer, delay_us, before);
    else
        cluster_post(cluster, delay_us, (struct event){.kind = EVENT_TRIM, .offset = before});
}

/* ---- a node ---- */

static void note_state(struct sim_cluster *cluster, struct peer *peer)
{
    enum ownership_state state = replica_state(peer->replica);

    if (state == OWNERSHIP_BROKEN && !peer->was_misled)
        world_fail(cluster->world, 0, FOLLOWS,
                   "node %" PRIu32 " says that the log has lost records: %s", peer->number,
                   replica_error(peer->replica)->text);
    if (state == peer->state)
        return;
    world_note(cluster->world, state_words[state], (uint16_t)peer->number, 0,
               replica_epoch(peer->replica), replica_next(peer->replica));
    peer->state = state;
    cluster->world->totals->broken += state == OWNERSHIP_BROKEN;
    if (state == OWNERSHIP_RECOVERING)
        cluster_check_claim(cluster, peer);
}

/* Gives the engine a turn, and tells the replica how far the engine is. */
static void work(struct sim_cluster *cluster, struct peer *peer)
{
    const bool had_engine = peer->tenure.engine != NULL;

    tenure_turn(&peer->tenure, cluster_time(cluster, peer));
    cluster_stage(cluster, peer);
    if (peer->state == OWNERSHIP_RECOVERING && tenure_is_ready(&peer->tenure))
        replica_recovered(peer->replica);
    if (peer->state == OWNERSHIP_DRAINING && tenure_is_idle(&peer->tenure))
        replica_drained(peer->replica);
    if (had_engine && !peer->tenure.engine)
        replica_left(peer->replica);
}

/* After a failure the storage is at an older place when it is read again. */
static void rewind_storage(struct sim_cluster *cluster, struct peer *peer)
{
    if (!replica_is_failing(peer->replica) || !memory_storage_held(peer->storage))
        return;
    memory_storage_crash(peer->storage, (size_t)world_below(cluster->world, KEPT_MAX));
    cluster->world->totals->storage_failures++;
}

/* Posts a wake-up at `at_us`, unless an earlier one is posted already. */
static void wake_at(struct sim_cluster *cluster, const struct peer *peer, uint64_t at_us,
                    uint64_t *posted_us, enum event_kind kind)
{
    if (at_us == UINT64_MAX || (*posted_us > cluster->world->time_us && *posted_us <= at_us))
        return;
    *posted_us = at_us;
    cluster_post_to(cluster, peer, at_us - cluster->world->time_us, kind);
}

/* Runs the replica and the engine. Called after each input of the node. */
static void turn(struct sim_cluster *cluster, struct peer *peer)
{
    const struct instant now = cluster_clock(cluster, peer);
    const struct wall wall = cluster_time(cluster, peer).wall;

    rewind_storage(cluster, peer);
    if (cluster->plan.has_table)
        table_begin_turn(cluster, peer);
    replica_turn(peer->replica, now, wall);
    replica_check(peer->replica);
    note_state(cluster, peer);
    work(cluster, peer);
    replica_turn(peer->replica, now, wall);
    note_state(cluster, peer);
    if (cluster->plan.has_table)
        table_end_turn(cluster, peer);
    cluster_note_misled(cluster, peer);
    if (memory_storage_held(peer->storage) >= SYNC_EVERY)
        memory_storage_sync(peer->storage);
    wake_at(cluster, peer, tenure_wake_us(&peer->tenure, cluster_time(cluster, peer)),
            &peer->work_at_us, EVENT_WORK);
    const struct instant at = replica_wake_at(peer->replica, now);
    if (at.ns == UINT64_MAX)
        return;
    if (at.ns <= now.ns)
        world_fail(cluster->world, 0, "a wake-up has a reason",
                   "node %" PRIu32 " asks to be woken in the past", peer->number);
    wake_at(cluster, peer, cluster->world->time_us + delay_until(cluster, peer, at),
            &peer->wake_at_us, EVENT_WAKE);
}

/* Returns the offset of the record that the node reads next. */
static uint64_t next_of(const struct sim_cluster *cluster, const struct peer *peer)
{
    return deals_visible(&cluster->deals, replica_seeks(peer->replica)
                                              ? cluster->begin
                                              : replica_next(peer->replica));
}

void cluster_note_read(struct sim_cluster *cluster, struct peer *peer, uint64_t offset)
{
    cluster_note_misled(cluster, peer);
    note_state(cluster, peer);
    if (!replica_is_failing(peer->replica) && !peer->is_misled && replica_is_whole(peer->replica) &&
        replica_next(peer->replica) == offset + 1 &&
        replica_next(peer->replica) == replica_applied(peer->replica))
        truth_storage(&cluster->truth, offset + 1, peer->storage);
    if (world_chance(cluster->world, 100))
        memory_storage_sync(peer->storage);
}

static void read_log(struct sim_cluster *cluster, struct peer *peer)
{
    uint64_t most = 1 + world_below(cluster->world, 20);

    if (cluster_copies_log(cluster, peer)) {
        cluster_post_to(cluster, peer,
                        1000 + 1000 * world_below(cluster->world, cluster->plan.poll_ms),
                        EVENT_FOLLOW);
        return;
    }
    replica_take_rewind(peer->replica);
    while (next_of(cluster, peer) < cluster->deals.stable && most-- > 0) {
        const uint64_t next = next_of(cluster, peer);

        if (replica_next(peer->replica) < cluster->begin && !replica_seeks(peer->replica)) {
            replica_lost(peer->replica);
            break;
        }
        const struct shipment *shipment = &cluster->shipments[cluster->deals.log[next].append];

        replica_read(peer->replica, next, buffer_bytes(&shipment->bytes),
                     cluster_clock(cluster, peer));
        note_state(cluster, peer);
        if (replica_is_failing(peer->replica))
            break;
        if (replica_is_whole(peer->replica) &&
            replica_next(peer->replica) == replica_applied(peer->replica))
            truth_storage(&cluster->truth, next + 1, peer->storage);
        if (world_chance(cluster->world, 100))
            memory_storage_sync(peer->storage);
    }
    if (next_of(cluster, peer) == cluster->deals.stable)
        replica_restored(peer->replica);
    uint64_t lag_ms =
        cluster_fails(cluster, cluster->plan.lag_permille) ? 3 * LEASE_MS : cluster->plan.poll_ms;
    cluster_post_to(cluster, peer, 1000 + 1000 * world_below(cluster->world, lag_ms), EVENT_FOLLOW);
}

static void start(struct sim_cluster *cluster, struct peer *peer)
{
    const struct replica_options options = {
        .node = peer->number,
        .cluster = CLUSTER,
        .lease_ms = LEASE_MS,
        .handover_ms = 500,
        .seed = random_next(&cluster->world->random),
        .body_bytes_max = cluster->plan.body_bytes_max,
        .sweep = cluster->plan.sweep,
        .trim_delay_ms = cluster->plan.trim_delay_ms,
        .copy_records_min = cluster->plan.copy_records_min,
        .address = BYTES("node.example:1"),
        .storage = peer->storage,
    };
    const struct replica_events events = {
        .context = peer,
        .append = peer_append,
        .transact = cluster->plan.has_table ? NULL : peer_transact,
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
    CHECK(replica_create(&options, &events, cluster_clock(cluster, peer), &peer->replica, NULL) ==
          ERROR_NONE);
    peer->state = replica_state(peer->replica);
    world_note(cluster->world, "starts", (uint16_t)peer->number, 0, peer->life,
               replica_next(peer->replica));
    peer->is_misled = peer->was_misled = peer->tenure.is_misled = false;
    if (cluster->plan.has_table)
        table_open(peer);
    cluster_note_misled(cluster, peer);
    replica_plan(peer->replica, peer->planned, cluster_clock(cluster, peer));
    cluster_post_to(cluster, peer, world_below(cluster->world, 10000), EVENT_FOLLOW);
}

/* Gives back what the engine has in flight, and frees the engine and the replica. */
static void end_peer(struct sim_cluster *cluster, struct peer *peer)
{
    struct replica_stats stats;

    replica_get_stats(peer->replica, &stats);
    cluster->world->totals->sweeps += stats.sweeps;
    cluster->world->totals->sweep_rows += stats.rows;
    cluster->world->totals->restarts += stats.restarts;
    cluster->world->totals->copies_taken += stats.copies;
    cluster->world->totals->copy_rows += stats.copy_rows;
    cluster->world->totals->copies_failed += stats.copy_failures;
    replica_stop(peer->replica);
    tenure_end(&peer->tenure, cluster_time(cluster, peer));
    replica_destroy(peer->replica);
    peer->replica = NULL;
    if (cluster->plan.has_table)
        table_close(peer);
}

/* ---- clients, plans and faults ---- */

static void ask(struct sim_cluster *cluster)
{
    struct peer *peer = &cluster->peers[world_below(cluster->world, cluster->plan.node_count)];

    cluster_post(cluster, 1000 * (1 + world_below(cluster->world, 2 * cluster->plan.client_gap_ms)),
                 (struct event){.kind = EVENT_ASK});
    if (!peer->is_up || peer->stopped_until_us > cluster->world->time_us ||
        peer->state != OWNERSHIP_ACTIVE || cluster->truth.tracked_count + 1000 > TRACKED_MAX)
        return;
    cluster->world->clock_offset_ms = START_MS + (uint64_t)peer->skew_ms; /* what the client sees */
    tenure_ask(&peer->tenure, cluster_time(cluster, peer));
    cluster->world->clock_offset_ms = START_MS;
    turn(cluster, peer);
}

/* Sets a wall clock, as people do or a service that corrects it. */
static void step_clock(struct sim_cluster *cluster)
{
    struct peer *peer = &cluster->peers[world_below(cluster->world, cluster->plan.node_count)];

    cluster_post(cluster, 1000 * (1 + world_below(cluster->world, 2 * cluster->plan.step_gap_ms)),
                 (struct event){.kind = EVENT_STEP});
    peer->skew_ms = (int64_t)world_below(cluster->world, 2 * SKEW_MS_MAX + 1) - SKEW_MS_MAX;
    cluster->world->totals->clock_sets++;
}

/* Chooses a node, if there is one whose partition is not broken. */
static void plan(struct sim_cluster *cluster)
{
    if (!cluster->world->is_quiet)
        cluster->planned = (uint32_t)world_below(cluster->world, cluster->plan.node_count);
    for (uint32_t i = 0; i < cluster->plan.node_count; i++)
        if (cluster->peers[cluster->planned].is_up &&
            cluster->peers[cluster->planned].state == OWNERSHIP_BROKEN)
            cluster->planned = (cluster->planned + 1) % cluster->plan.node_count;
    for (uint32_t i = 0; i < cluster->plan.node_count; i++)
        cluster_post(cluster, 1000 * world_below(cluster->world, 1000),
                     (struct event){.kind = EVENT_HEAR, .node = i});
    uint64_t gap_ms = world_chance(cluster->world, 300) ? 1500 : 2 * cluster->plan.plan_gap_ms;
    cluster_post(cluster, 1000 * (100 + world_below(cluster->world, gap_ms)),
                 (struct event){.kind = EVENT_PLAN});
}

static void stop_peer(struct sim_cluster *cluster, struct peer *peer, uint64_t ms)
{
    if (peer->stopped_until_us > cluster->world->time_us)
        return;
    peer->stopped_until_us = cluster->world->time_us + 1000 * ms;
    cluster->world->totals->stops++;
}

static void stop(struct sim_cluster *cluster)
{
    struct peer *peer = &cluster->peers[world_below(cluster->world, cluster->plan.node_count)];

    cluster_post(cluster, 1000 * (1 + world_below(cluster->world, 2 * cluster->plan.stop_gap_ms)),
                 (struct event){.kind = EVENT_STOP});
    if (cluster->world->is_quiet)
        return;
    stop_peer(cluster, peer, world_below(cluster->world, 200u << world_below(cluster->world, 7)));
    if (world_chance(cluster->world, 300))
        cluster_post(cluster,
                     peer->stopped_until_us - cluster->world->time_us +
                         world_below(cluster->world, 60000),
                     (struct event){.kind = EVENT_DUEL});
}

static void duel(struct sim_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->plan.node_count && !cluster->world->is_quiet; i++)
        if (cluster->peers[i].is_up && cluster->peers[i].state == OWNERSHIP_ACTIVE)
            stop_peer(cluster, &cluster->peers[i],
                      LEASE_MS + world_below(cluster->world, 2 * LEASE_MS));
}

static uint64_t place_of(const struct peer *peer)
{
    struct storage_place place;

    CHECK(storage_load_place(peer->storage, 0, &place, NULL) == ERROR_NONE);
    return place.next;
}

/* One of the next calls of a storage fails. */
static void spoil(struct sim_cluster *cluster)
{
    struct peer *peer = &cluster->peers[world_below(cluster->world, cluster->plan.node_count)];

    cluster_post(cluster, 1000 * (1 + world_below(cluster->world, 2 * cluster->plan.spoil_gap_ms)),
                 (struct event){.kind = EVENT_SPOIL});
    if (!cluster->world->is_quiet && peer->is_up)
        memory_storage_fail_commit(peer->storage, 1 + world_below(cluster->world, 10), ERROR_IO);
}

/* Drops a replica and its rows. Its node had no part in the partition, and would read the whole log
 * again. */
static void drop(struct sim_cluster *cluster, struct peer *peer)
{
    const struct storage_place nothing = {0};

    memory_storage_fail_commit(peer->storage, 0, ERROR_NONE);
    CHECK(storage_partition_clear(peer->storage, 0, &nothing, NULL) == ERROR_NONE);
    memory_storage_sync(peer->storage);
    cluster->world->totals->copies_dropped++;
}

static void crash(struct sim_cluster *cluster)
{
    struct peer *peer = &cluster->peers[world_below(cluster->world, cluster->plan.node_count)];

    cluster_post(cluster, 1000 * (1 + world_below(cluster->world, 2 * cluster->plan.crash_gap_ms)),
                 (struct event){.kind = EVENT_KILL});
    if (cluster->world->is_quiet || !peer->is_up)
        return;
    peer->is_up = false;
    peer->life++;
    peer->stopped_until_us = 0;
    cluster->world->totals->crashes++;
    const uint64_t next = place_of(peer);
    const bool is_idle = (replica_is_idle(peer->replica) && peer->planned != peer->number) ||
                         peer->state == OWNERSHIP_BROKEN;
    end_peer(cluster, peer);
    memory_storage_crash(peer->storage, (size_t)world_below(cluster->world, KEPT_MAX));
    cluster->world->totals->rewound += next - place_of(peer);
    if (is_idle && world_chance(cluster->world, cluster->plan.copies_permille ? 700 : 300))
        drop(cluster, peer);
    cluster_post_to(cluster, peer, 1000 * world_below(cluster->world, 3 * LEASE_MS), EVENT_RETURN);
}

static void trim_log(struct sim_cluster *cluster, uint64_t before)
{
    if (before <= cluster->begin || cluster->is_last)
        return;
    truth_trim(&cluster->truth, before);
    cluster->world->totals->trims++;
    cluster->world->totals->trimmed += before - cluster->begin;
    cluster->begin = before;
    if (cluster->plan.has_table)
        table_trimmed(cluster);
}

static void trim(struct sim_cluster *cluster, const struct event *event)
{
    uint64_t before = event->offset;

    if (!cluster->plan.has_table || table_trims(cluster, event, &before))
        trim_log(cluster, before);
}

static void pause_log(struct sim_cluster *cluster)
{
    cluster_post(cluster, 1000 * (1 + world_below(cluster->world, 2 * cluster->plan.pause_gap_ms)),
                 (struct event){.kind = EVENT_PAUSE});
    if (cluster->world->is_quiet)
        return;
    cluster->log_paused_us =
        cluster->world->time_us + 1000 * world_below(cluster->world, 4 * LEASE_MS);
    cluster->world->totals->log_pauses++;
}

static void land(struct sim_cluster *cluster, const struct event *event)
{
    const struct shipment *shipment = &cluster->shipments[event->append];

    if (cluster->world->time_us < cluster->log_paused_us) {
        cluster_post(cluster, cluster->log_paused_us - cluster->world->time_us, *event);
        return;
    }
    if (cluster->deals.size + 2 >= RECORDS_MAX)
        return;
    cluster->world->totals->late += shipment->is_given_up;
    if (shipment->deal) {
        cluster_land_frame(cluster, event);
        return;
    }
    const uint64_t offset = deals_append(&cluster->deals, event->append);
    cluster_see(cluster);
    if (event->offset == UINT64_MAX)
        return;
    struct event answer = *event;
    answer.kind = EVENT_ANSWER;
    answer.offset = offset;
    cluster_post(cluster, event->offset, answer);
}

/* ---- a run ---- */

/* Checks that no two nodes may act at the same time, whatever is under way. */
static void check_owners(const struct sim_cluster *cluster)
{
    const struct peer *first = NULL;

    for (uint32_t i = 0; i < cluster->plan.node_count; i++) {
        const struct peer *peer = &cluster->peers[i];

        if (!peer->is_up || !replica_may_act(peer->replica, cluster_clock(cluster, peer)))
            continue;
        if (cluster_is_misled_long(cluster, peer))
            world_fail(cluster->world, 0, OWNER,
                       "node %" PRIu32 " may deliver, and the log has lost what it knows",
                       peer->number);
        if (peer->is_misled)
            continue;
        if (first)
            world_fail(cluster->world, 0, OWNER,
                       "nodes %" PRIu32 " and %" PRIu32 " both may deliver, in epochs %" PRIu64
                       " and %" PRIu64,
                       first->number, peer->number, replica_epoch(first->replica),
                       replica_epoch(peer->replica));
        first = peer;
    }
}

static void happen_to(struct sim_cluster *cluster, struct peer *peer, const struct event *event)
{
    struct instant now = cluster_clock(cluster, peer);

    switch (event->kind) {
    case EVENT_ANSWER:
        if (cluster->shipments[event->append].deal == peer->deal)
            peer->deal = 0;
        replica_landed(peer->replica, cluster->shipments[event->append].ticket, event->offset, now);
        break;
    case EVENT_FAIL:
        if (cluster->plan.has_table)
            table_expire(peer, cluster->shipments[event->append].ticket);
        else
            replica_failed(peer->replica, cluster->shipments[event->append].ticket, now);
        break;
    case EVENT_REPLY:
        table_reply(cluster, peer, event);
        break;
    case EVENT_BREAK:
        table_break(cluster, peer, event);
        break;
    case EVENT_ROWS:
        table_take_rows(cluster, peer, event);
        break;
    case EVENT_SETTLE:
        cluster_settle(cluster, peer, event);
        break;
    case EVENT_GONE:
        if (event->deal == peer->deal && cluster->deals.deals[peer->deal - 1].frames == 0)
            replica_give_up(peer->replica, now);
        break;
    case EVENT_FOLLOW:
        if (cluster->plan.has_table)
            table_follow(cluster, peer);
        else
            read_log(cluster, peer);
        break;
    case EVENT_PAGE:
        cluster_take_page(cluster, peer, event);
        break;
    case EVENT_MISS:
        cluster_miss_page(cluster, peer, event);
        break;
    default:
        break; /* EVENT_WAKE, EVENT_WORK */
    }
    turn(cluster, peer);
}

/* Posts the event again for the time at which the node continues. All such events then come at
 * once, in any order. */
static void put_off(struct sim_cluster *cluster, const struct peer *peer, const struct event *event)
{
    cluster_post(cluster,
                 peer->stopped_until_us - cluster->world->time_us +
                     world_below(cluster->world, 2000),
                 *event);
}

static void hear(struct sim_cluster *cluster, struct peer *peer, const struct event *event)
{
    if (cluster_fails(cluster, 200))
        return; /* the node learns of the next plan instead */
    if (peer->stopped_until_us > cluster->world->time_us) {
        put_off(cluster, peer, event);
        return;
    }
    peer->planned = cluster->planned;
    if (!peer->is_up)
        return;
    replica_plan(peer->replica, peer->planned, cluster_clock(cluster, peer));
    turn(cluster, peer);
}

/* Lets the event happen to the log. Returns false if it is one of the nodes. */
static bool happen_to_log(struct sim_cluster *cluster, const struct event *event)
{
    switch (event->kind) {
    case EVENT_LAND:
        land(cluster, event);
        return true;
    case EVENT_END:
        cluster_end_deal(cluster, event);
        return true;
    case EVENT_MARK:
        cluster_mark(cluster, event->deal);
        return true;
    case EVENT_EXPIRE:
        cluster_expire(cluster, event->deal);
        return true;
    case EVENT_PAUSE:
        pause_log(cluster);
        return true;
    case EVENT_TRIM:
        trim(cluster, event);
        return true;
    case EVENT_RUN:
        table_run(cluster, event);
        return true;
    case EVENT_SYNC:
        table_sync(cluster, event);
        return true;
    case EVENT_SWITCH:
        table_switch(cluster);
        return true;
    case EVENT_LEAVE:
        table_leave(cluster);
        return true;
    default:
        return false;
    }
}

static void happen(struct sim_cluster *cluster, const struct event *event)
{
    struct peer *peer = &cluster->peers[event->node];

    if (happen_to_log(cluster, event))
        return;
    switch (event->kind) {
    case EVENT_ASK:
        ask(cluster);
        return;
    case EVENT_PLAN:
        plan(cluster);
        return;
    case EVENT_STOP:
        stop(cluster);
        return;
    case EVENT_DUEL:
        duel(cluster);
        return;
    case EVENT_KILL:
        crash(cluster);
        return;
    case EVENT_STEP:
        step_clock(cluster);
        return;
    case EVENT_SPOIL:
        spoil(cluster);
        return;
    case EVENT_HEAR:
        hear(cluster, peer, event);
        return;
    case EVENT_RETURN:
        start(cluster, peer);
        return;
    case EVENT_GIVE:
        if (peer->stopped_until_us > cluster->world->time_us)
            put_off(cluster, peer, event);
        else
            cluster_give(cluster, peer, event);
        return;
    default:
        break;
    }
    if (event->kind == EVENT_FAIL)
        cluster->shipments[event->append].is_given_up = true;
    if (!peer->is_up || peer->life != event->life)
        return;
    if (peer->stopped_until_us > cluster->world->time_us)
        put_off(cluster, peer, event);
    else
        happen_to(cluster, peer, event);
}

/* Checks that, without faults, the planned node owns the partition in the end, and all replicas are
 * equal. */
static void check_end(struct sim_cluster *cluster)
{
    const struct peer *owner = &cluster->peers[cluster->planned];

    if (cluster->deals.size + 2 >= RECORDS_MAX)
        return;
    for (uint32_t i = 0; i < cluster->plan.node_count; i++)
        if (cluster->peers[i].is_misled && cluster->peers[i].state != OWNERSHIP_BROKEN)
            world_fail(cluster->world, 0, FOLLOWS,
                       "node %" PRIu32 " has not noticed that the log lost records", i);
    if (owner->state == OWNERSHIP_BROKEN)
        return; /* all nodes are */
    if (!replica_may_act(owner->replica, cluster_clock(cluster, owner)))
        world_fail(cluster->world, 0, OWNER,
                   "node %" PRIu32 " does not serve in the end: its state is %d", owner->number,
                   owner->state);
    for (uint32_t i = 0; i < cluster->plan.node_count; i++) {
        const struct peer *peer = &cluster->peers[i];

        if (peer->state == OWNERSHIP_BROKEN)
            continue;
        if (!peer->is_up || !replica_is_whole(peer->replica) ||
            replica_next(peer->replica) < cluster->last_size)
            world_fail(cluster->world, 0, FOLLOWS, "node %" PRIu32 " does not follow in the end",
                       i);
    }
    truth_trim(&cluster->truth, cluster->begin);
    truth_end(&cluster->truth, (struct wall){START_MS + cluster->world->time_us / 1000 - GRACE_MS});
}

/* Starts all nodes, without rows. */
static void begin(struct sim_cluster *cluster)
{
    struct random *random = &cluster->world->random;
    const int64_t drift_ppm_max = 1000000 / OWNERSHIP_DRIFT / 2;

    for (uint32_t i = 0; i < cluster->plan.node_count; i++) {
        struct peer *peer = &cluster->peers[i];

        peer->number = i;
        peer->skew_ms = cluster->plan.is_skewed
                            ? (int64_t)random_below(random, 2 * SKEW_MS_MAX + 1) - SKEW_MS_MAX
                            : 0;
        peer->cluster = cluster;
        buffer_init(&peer->page);
        peer->storage = memory_storage_create(1);
        CHECK(peer->storage);
        memory_storage_hold(peer->storage);
        tenure_init(&peer->tenure, cluster->world, peer->storage, &cluster->truth);
        peer->tenure.has_deals = !cluster->plan.has_table;
        peer->clock_start_ns = random_below(random, UINT64_C(1) << 50);
        peer->drift_ppm = !cluster->plan.is_drifting          ? 0
                          : world_chance(cluster->world, 500) ? drift_ppm_max
                                                              : -drift_ppm_max;
        start(cluster, peer);
    }
}

static void post_faults(struct sim_cluster *cluster)
{
    const struct cluster_plan *plan = &cluster->plan;
    const struct {
        uint64_t gap_ms;
        enum event_kind kind;
    } each[] = {
        {plan->stop_gap_ms, EVENT_STOP},   {plan->crash_gap_ms, EVENT_KILL},
        {plan->pause_gap_ms, EVENT_PAUSE}, {plan->plan_gap_ms, EVENT_PLAN},
        {plan->client_gap_ms, EVENT_ASK},  {plan->step_gap_ms, EVENT_STEP},
        {plan->spoil_gap_ms, EVENT_SPOIL}, {plan->switch_gap_ms, EVENT_SWITCH},
        {plan->away_gap_ms, EVENT_LEAVE},
    };

    for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++)
        if (each[i].gap_ms > 0)
            cluster_post(cluster, 1000 * world_below(cluster->world, each[i].gap_ms),
                         (struct event){.kind = each[i].kind});
}

static void clear(struct sim_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->plan.node_count; i++) {
        if (cluster->peers[i].is_up)
            end_peer(cluster, &cluster->peers[i]);
        storage_close(cluster->peers[i].storage);
        buffer_deinit(&cluster->peers[i].page);
    }
    for (uint32_t i = 0; i < cluster->shipment_count; i++)
        buffer_deinit(&cluster->shipments[i].bytes);
    free(cluster->table.questions);
    mirror_deinit(&cluster->truth.mirror);
}

static void add_totals(const struct sim_cluster *cluster)
{
    struct totals *totals = cluster->world->totals;

    totals->clusters++;
    totals->tables += cluster->plan.has_table;
    totals->log_records += cluster->truth.size;
    totals->zombies += cluster->truth.zombies;
    totals->invalid += cluster->truth.repeats;
    totals->duplicates += cluster->truth.duplicates;
}

void cluster_run(struct world *world)
{
    const uint64_t asked_ms = STEP_MS * world->settings->steps;
    struct sim_cluster *cluster = calloc(1, sizeof(*cluster)); /* 2 MB */

    CHECK(cluster);
    cluster->world = cluster->truth.world = world;
    cluster->faults_ms = asked_ms < FAULTS_MS_MAX ? asked_ms : FAULTS_MS_MAX;
    world->clock_offset_ms = START_MS;
    mirror_init(&cluster->truth.mirror);
    cluster_plan_draw(&cluster->plan, &world->random);
    cluster_plan_draw_log(&cluster->plan, world->settings->seed, world->settings->log);
    cluster_plan_without(&cluster->plan, world->settings->without);
    cluster_plan_draw_clients(&world->plan, world->settings->seed, cluster->plan.client_gap_ms);
    plan_without(&world->plan, world->settings->without);
    model_init(&world->model);
    begin(cluster);
    post_faults(cluster);
    while (world->time_us < 1000 * (cluster->faults_ms + CALM_MS)) {
        const struct event event = events_take(&world->events);

        world->time_us = event.time_us;
        world->step++;
        world->is_quiet = world->time_us > 1000 * cluster->faults_ms;
        cluster->is_last = world->time_us > 1000 * (cluster->faults_ms + CALM_MS - LAST_MS);
        if (!cluster->is_last)
            cluster->last_size = cluster->truth.size;
        world_note(world, event_words[event.kind], (uint16_t)event.node, 0, event.append,
                   event.offset);
        happen(cluster, &event);
        check_owners(cluster);
    }
    check_end(cluster);
    world_note(world, "end", 0, 0, cluster->truth.size, mirror_hash(cluster->truth.mirror.storage));
    add_totals(cluster);
    clear(cluster);
    model_deinit(&world->model);
    free(cluster);
}
