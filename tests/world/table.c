/* table.c - a table of PostgreSQL as the log of several nodes; see table.h. */
#include "table.h"

#include "cluster.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>

static const char KEPT[] = "a fail-over to a synchronous standby loses nothing acknowledged";

uint64_t table_visible(const struct sim_cluster *cluster)
{
    return cluster->deals.size - cluster->table.is_hidden;
}

static bool table_has(const struct sim_cluster *cluster, uint64_t place)
{
    return place >= cluster->begin && place < table_visible(cluster);
}

/* ---- appends: the node ---- */

void table_open(struct peer *peer)
{
    const unsigned generation = peer->client.generation;

    peer->client = (struct table_client){.awaits_follow = true, .generation = generation + 1};
    log_postgres_state_init(&peer->client.log);
}

void table_close(struct peer *peer)
{
    log_postgres_state_deinit(&peer->client.log);
}

void table_append(struct sim_cluster *cluster, struct peer *peer, uint64_t ticket,
                  struct bytes bytes)
{
    struct table_client *client = &peer->client;
    const uint64_t patience_us = 1000 * (LEASE_MS + world_below(cluster->world, LEASE_MS));
    const struct event event = {.kind = EVENT_FAIL,
                                .node = peer->number,
                                .life = peer->life,
                                .append = cluster_load(cluster, bytes, ticket, 0)};

    if (log_postgres_state_append(&client->log, ticket, bytes, (struct instant){UINT64_MAX},
                                  NULL)) {
        client->failed_ticket = ticket;
        return;
    }
    client->append = event.append;
    cluster_post(cluster, patience_us, event);
}

void table_expire(struct peer *peer, uint64_t ticket)
{
    struct log_postgres_append *append = &peer->client.log.append;

    if (append->step == LOG_POSTGRES_IDLE || append->ticket != ticket)
        return;
    peer->client.question = 0;
    log_postgres_state_doubt(&peer->client.log, "no answer in time");
}

/* Returns when a connection that breaks now is there again. */
static uint64_t table_up_us(struct sim_cluster *cluster)
{
    return cluster->world->time_us + 1 + 1000 * world_below(cluster->world, 700);
}

/* The connection that reads breaks. */
static void table_disconnect(struct sim_cluster *cluster, struct peer *peer)
{
    peer->client.generation++;
    peer->client.up_us = table_up_us(cluster);
}

static uint32_t table_add_question(struct table *table, const struct table_question *question)
{
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 1024;
        table->questions = realloc(table->questions, table->capacity * sizeof(*table->questions));
        CHECK(table->questions);
    }
    table->questions[table->count] = *question;
    return (uint32_t)table->count++;
}

/* Asks the next question about the append. */
static void table_ask(struct sim_cluster *cluster, struct peer *peer)
{
    struct table_client *client = &peer->client;
    struct log_postgres_append *append = &client->log.append;
    struct world *world = cluster->world;

    if (append->step == LOG_POSTGRES_IDLE || append->is_sent || world->time_us < client->lane_up_us)
        return;
    const struct table_question question = {.step = append->step,
                                            .append = client->append,
                                            .server = cluster->table.server,
                                            .place = append->place,
                                            .before = append->before,
                                            .chain = append->chain};
    struct event event = {.kind = EVENT_RUN, .node = peer->number, .life = peer->life};
    event.append = table_add_question(&cluster->table, &question);
    client->question = event.append + 1;
    append->is_sent = true;
    const bool is_lost = cluster_fails(cluster, cluster->plan.lost_permille);
    const bool is_late = cluster_fails(cluster, cluster->plan.late_permille);
    const uint64_t run_us =
        is_late ? 1000 * world_below(world, 8 * LEASE_MS) : world_below(world, 5000);
    if (is_lost)
        world->totals->lost++;
    else
        cluster_post(cluster, run_us, event);
    event.kind = EVENT_BREAK;
    if (is_lost || (is_late && world_chance(world, 500)))
        cluster_post(cluster, world_below(world, 1000 * LEASE_MS), event);
}

/* ---- appends: the server ---- */

static void table_answer(struct sim_cluster *cluster, const struct event *event)
{
    struct event reply = *event;
    const bool is_broken = cluster_fails(cluster, cluster->plan.unanswered_permille);

    reply.kind = is_broken ? EVENT_BREAK : EVENT_REPLY;
    cluster_post(cluster, world_below(cluster->world, is_broken ? 1000 * LEASE_MS : 15000), reply);
}

/* Waits for the standby, if the run is synchronous. */
static void table_commit(struct sim_cluster *cluster, const struct event *event)
{
    struct event synced = *event;

    synced.kind = EVENT_SYNC;
    if (cluster->plan.is_synchronous)
        cluster_post(cluster, world_below(cluster->world, 4000), synced);
    else
        table_answer(cluster, event);
}

/* Puts the event off. */
static void table_wait(struct sim_cluster *cluster, const struct event *event, uint64_t until_us)
{
    const uint64_t now_us = cluster->world->time_us;

    cluster_post(cluster,
                 (until_us > now_us ? until_us - now_us : 0) + 1000 +
                     world_below(cluster->world, 3000),
                 *event);
}

static void table_insert(struct sim_cluster *cluster, struct table_question *question,
                         const struct event *event)
{
    struct table *table = &cluster->table;
    const uint64_t place = question->place;

    if (table->is_hidden && place + 1 == cluster->deals.size) {
        table_wait(cluster, event, 0); /* the place is locked */
        return;
    }
    const bool follows =
        place == 0 ? cluster->deals.size == 0
                   : table_has(cluster, place - 1) && table->chains[place - 1] == question->before;
    question->answer.is_there = follows && place == cluster->deals.size;
    if (!question->answer.is_there) {
        table_answer(cluster, event);
        return;
    }
    if (cluster->deals.size + 2 >= RECORDS_MAX)
        return;
    cluster->world->totals->late += cluster->shipments[question->append].is_given_up;
    table->chains[place] = question->chain;
    table->is_landed[place] = false;
    deals_append(&cluster->deals, question->append);
    table->is_hidden = cluster->plan.is_synchronous;
    cluster_see(cluster);
    table_commit(cluster, event);
}

void table_run(struct sim_cluster *cluster, const struct event *event)
{
    struct table *table = &cluster->table;
    struct table_question *question = &table->questions[event->append];
    const uint64_t place = question->place, size = table_visible(cluster);
    struct log_postgres_answer *answer = &question->answer;

    if (question->server != table->server)
        return;
    if (cluster->world->time_us < cluster->log_paused_us) {
        table_wait(cluster, event, cluster->log_paused_us);
        return;
    }
    *answer = (struct log_postgres_answer){0};
    switch (question->step) {
    case LOG_POSTGRES_WAITS:
        table_insert(cluster, question, event);
        return;
    case LOG_POSTGRES_REPEATS:
        answer->is_there = table_has(cluster, place) && table->chains[place] == question->chain;
        if (answer->is_there) {
            cluster->world->totals->rewritten++;
            table_commit(cluster, event);
            return;
        }
        break;
    case LOG_POSTGRES_LOOKS:
        answer->is_there = table_has(cluster, place);
        answer->chain = answer->is_there ? table->chains[place] : 0;
        answer->has_before = place > 0 && table_has(cluster, place - 1);
        answer->before = answer->has_before ? table->chains[place - 1] : 0;
        answer->end = size;
        break;
    case LOG_POSTGRES_SEEKS:
        answer->is_there = size > 0;
        answer->place = size > 0 ? size - 1 : 0;
        answer->chain = size > 0 ? table->chains[size - 1] : 0;
        break;
    case LOG_POSTGRES_IDLE:
    case LOG_POSTGRES_TRANSACTS:
        break;
    }
    table_answer(cluster, event);
}

/* The commit of a row ends: the standby has it, and all before; or the server gives up to wait. */
void table_sync(struct sim_cluster *cluster, const struct event *event)
{
    struct table *table = &cluster->table;
    struct table_question *question = &table->questions[event->append];
    const uint64_t place = question->place;

    if (question->server != table->server)
        return;
    if (cluster->world->time_us < table->standby_away_us) {
        if (!cluster_fails(cluster, 20)) {
            table_wait(cluster, event,
                       cluster->world->time_us + world_below(cluster->world, 60000));
            return;
        }
        question->answer.has_warning = true;
        cluster->world->totals->warnings++;
    } else if (table->replicated <= place) {
        table->replicated = place + 1;
    }
    if (place + 1 == cluster->deals.size)
        table->is_hidden = false;
    cluster_see(cluster);
    table_answer(cluster, event);
}

void table_reply(struct sim_cluster *cluster, struct peer *peer, const struct event *event)
{
    struct table *table = &cluster->table;
    const struct table_question *question = &table->questions[event->append];
    struct table_client *client = &peer->client;

    if (client->question != event->append + 1)
        return;
    client->question = 0;
    log_postgres_state_answer(&client->log, &question->answer);
    const enum log_kind kind = client->log.append.done.kind;
    cluster->world->totals->taken += kind == LOG_REFUSED;
    if (kind != LOG_LANDED)
        return;
    const uint64_t place = client->log.append.place;
    if (place < table_visible(cluster) && table->chains[place] == client->log.append.chain)
        table->is_landed[place] = true;
    else if (cluster->plan.is_synchronous)
        world_fail(cluster->world, 0, KEPT, "record %" PRIu64 " has landed, and is not there",
                   place);
    else
        cluster_mislead(cluster, peer); /* the answer came from a server that is no more */
}

void table_break(struct sim_cluster *cluster, struct peer *peer, const struct event *event)
{
    if (peer->client.question != event->append + 1)
        return;
    peer->client.question = 0;
    peer->client.log.append.is_sent = false;
    peer->client.lane_up_us = table_up_us(cluster);
    cluster_post_to(cluster, peer, peer->client.lane_up_us - cluster->world->time_us, EVENT_WORK);
}

/* ---- reading ---- */

static void table_follow_later(struct sim_cluster *cluster, struct peer *peer, uint64_t poll_ms)
{
    const uint64_t lag_ms =
        cluster_fails(cluster, cluster->plan.lag_permille) ? 3 * LEASE_MS : poll_ms;

    cluster_post_to(cluster, peer, 1000 + 1000 * world_below(cluster->world, lag_ms), EVENT_FOLLOW);
}

/* Answers the question of the reader: what the server has now. */
static void table_fill(struct sim_cluster *cluster, const struct log_postgres_state *log,
                       struct table_read *read)
{
    const struct table *table = &cluster->table;
    const uint64_t size = table_visible(cluster);
    const uint64_t most = 1 + world_below(cluster->world, TABLE_READ_MAX);

    read->follow_id = log->follow_id;
    read->chain = log->chain;
    read->count = 0;
    if (read->is_anchor) {
        read->asked = log->next;
        read->anchor.is_there = table_has(cluster, log->next - 1);
        read->anchor.chain = read->anchor.is_there ? table->chains[log->next - 1] : 0;
        read->anchor.has_records = size > cluster->begin;
        read->anchor.last = size > 0 ? size - 1 : 0;
        return;
    }
    read->asked = log_postgres_state_wanted(log);
    read->first = read->asked < cluster->begin ? cluster->begin : read->asked;
    while (read->count < most && read->first + read->count < size) {
        read->appends[read->count] = cluster->deals.log[read->first + read->count].append;
        read->chains[read->count] = table->chains[read->first + read->count];
        read->count++;
    }
    read->is_cut = read->count == most;
}

void table_follow(struct sim_cluster *cluster, struct peer *peer)
{
    struct table_client *client = &peer->client;
    struct table_read *read = &client->read;
    struct world *world = cluster->world;

    if (client->awaits_follow) {
        if (cluster_copies_log(cluster, peer)) {
            table_follow_later(cluster, peer, cluster->plan.poll_ms);
            return;
        }
        client->awaits_follow = false;
        replica_take_rewind(peer->replica);
        log_postgres_state_follow(&client->log,
                                  replica_seeks(peer->replica) ? LOG_FROM_BEGIN : LOG_FROM_OFFSET,
                                  replica_next(peer->replica));
    }
    if (world->time_us < client->up_us || cluster_fails(cluster, cluster->plan.lost_permille)) {
        if (world->time_us >= client->up_us)
            table_disconnect(cluster, peer);
        cluster_post_to(cluster, peer, client->up_us - world->time_us + 1, EVENT_FOLLOW);
        return;
    }
    read->is_anchor = log_postgres_compares(&client->compared, client->generation,
                                            cluster_clock(cluster, peer)) &&
                      log_postgres_state_has_anchor(&client->log);
    if (!read->is_anchor && !log_postgres_state_wants_records(&client->log)) {
        table_follow_later(cluster, peer, cluster->plan.poll_ms);
        return;
    }
    table_fill(cluster, &client->log, read);
    cluster_post(cluster, world_below(world, 5000),
                 (struct event){.kind = EVENT_ROWS,
                                .node = peer->number,
                                .life = peer->life,
                                .offset = ++read->number});
}

void table_take_rows(struct sim_cluster *cluster, struct peer *peer, const struct event *event)
{
    struct log_postgres_state *log = &peer->client.log;
    const struct table_read *read = &peer->client.read;

    if (event->offset != read->number)
        return;
    /* after an answer that is cut it asks at once */
    table_follow_later(cluster, peer, !read->is_anchor && read->is_cut ? 1 : cluster->plan.poll_ms);
    if (log->follow_id != read->follow_id || !log->is_followed || log->is_lost)
        return;
    if (read->is_anchor) {
        log_postgres_state_compare(log, read->asked, read->chain, &read->anchor);
        return;
    }
    for (size_t i = 0; i < read->count; i++)
        log_postgres_state_read(log, read->first + i, read->chains[i],
                                buffer_bytes(&cluster->shipments[read->appends[i]].bytes));
    log_postgres_state_read_all(log, read->asked, read->count ? read->first + read->count : 0,
                                read->is_cut);
}

static void table_hand_in(struct sim_cluster *cluster, struct peer *peer,
                          const struct log_event *event)
{
    const struct instant now = cluster_clock(cluster, peer);

    switch (event->kind) {
    case LOG_RECORD:
        replica_read(peer->replica, event->offset, event->bytes, now);
        cluster_note_read(cluster, peer, event->offset);
        break;
    case LOG_END:
        replica_restored(peer->replica);
        break;
    case LOG_LANDED:
        replica_landed(peer->replica, event->ticket, event->offset, now);
        break;
    case LOG_REFUSED:
        replica_fenced(peer->replica, event->ticket, now);
        break;
    case LOG_FAILED:
        replica_failed(peer->replica, event->ticket, now);
        break;
    case LOG_LOST:
        world_note(cluster->world, "finds that the log has lost records", (uint16_t)peer->number, 0,
                   replica_next(peer->replica), 0);
        replica_lost(peer->replica);
        break;
    default:
        break;
    }
}

void table_begin_turn(struct sim_cluster *cluster, struct peer *peer)
{
    struct log_event event;

    while (log_postgres_state_take(&peer->client.log, &event)) {
        const bool is_read =
            event.kind == LOG_RECORD || event.kind == LOG_END || event.kind == LOG_LOST;

        if (!is_read || !peer->client.awaits_follow)
            table_hand_in(cluster, peer, &event);
        if (world_chance(cluster->world, cluster->plan.cut_permille)) {
            cluster_post_to(cluster, peer, 1000, EVENT_WORK);
            break;
        }
    }
}

void table_end_turn(struct sim_cluster *cluster, struct peer *peer)
{
    struct table_client *client = &peer->client;

    if (client->failed_ticket)
        replica_failed(peer->replica, client->failed_ticket, cluster_clock(cluster, peer));
    client->failed_ticket = 0;
    client->awaits_follow |= replica_take_rewind(peer->replica);
    table_ask(cluster, peer);
}

/* ---- trims ---- */

void table_ask_trim(struct sim_cluster *cluster, struct peer *peer, uint64_t delay_us,
                    uint64_t before)
{
    struct event event = {.kind = EVENT_TRIM, .node = peer->number, .life = peer->life};
    struct table_question question = {.before = before};

    if (!log_postgres_state_trims(&peer->client.log, &question.place, &question.chain))
        return;
    event.append = table_add_question(&cluster->table, &question);
    cluster_post(cluster, delay_us, event);
}

bool table_trims(const struct sim_cluster *cluster, const struct event *event, uint64_t *ret_before)
{
    const struct table *table = &cluster->table;
    const struct table_question *question = &table->questions[event->append];

    *ret_before = question->before;
    return table_has(cluster, question->place) && table->chains[question->place] == question->chain;
}

void table_trimmed(struct sim_cluster *cluster)
{
    struct table *table = &cluster->table;

    CHECK(table->trim_count < TABLE_TRIMS_MAX);
    table->trims[table->trim_count].begin = cluster->begin;
    table->trims[table->trim_count++].size = cluster->deals.size;
}

/* ---- the standby ---- */

/* Cuts the log, as the standby has it, and notes which nodes know of more. */
static void table_cut(struct sim_cluster *cluster, uint64_t size)
{
    struct table *table = &cluster->table;

    for (uint64_t i = size; i < table_visible(cluster) && cluster->plan.is_synchronous; i++)
        if (table->is_landed[i])
            world_fail(cluster->world, 0, KEPT, "record %" PRIu64 " has landed, and is lost", i);
    table->is_hidden = table->is_hidden && size == cluster->deals.size;
    deals_cut(&cluster->deals, size);
    while (table->trim_count > 0 && table->trims[table->trim_count - 1].size > size)
        table->trim_count--;
    cluster->begin = table->trim_count > 0 ? table->trims[table->trim_count - 1].begin : 0;
    if (cluster->truth.size <= size)
        return;
    cluster->world->totals->cuts++;
    cluster->world->totals->records_cut += cluster->truth.size - size;
    table->has_lost = true;
    truth_cut(&cluster->truth, size, !cluster->plan.is_synchronous);
    for (uint32_t i = 0; i < cluster->plan.node_count; i++) {
        struct peer *peer = &cluster->peers[i];

        if (peer->is_up &&
            (replica_applied(peer->replica) > size || replica_next(peer->replica) > size))
            cluster_mislead(cluster, peer);
    }
}

static uint64_t table_draw_cut(struct sim_cluster *cluster)
{
    const uint64_t size = cluster->deals.size, begin = cluster->begin;
    struct world *world = cluster->world;
    uint64_t cut = size;

    if (cluster->plan.is_synchronous) {
        cut = cluster->table.replicated;
        cut += world_below(world, size - cut + 1);
    } else if (world_chance(world, 500)) {
        const uint64_t lag = world_below(world, world_chance(world, 700) ? 6 : 60);

        cut = size > lag ? size - lag : 0;
    }
    return cut > begin ? cut : begin < size ? begin + 1 : size;
}

void table_switch(struct sim_cluster *cluster)
{
    struct table *table = &cluster->table;
    struct world *world = cluster->world;

    cluster_post(cluster, 1000 * (1 + world_below(world, 2 * cluster->plan.switch_gap_ms)),
                 (struct event){.kind = EVENT_SWITCH});
    if (world->is_quiet)
        return;
    table->server++;
    if (world_chance(world, 300)) {
        world->totals->reboots++;
    } else {
        world->totals->switches++;
        table_cut(cluster, table_draw_cut(cluster));
        table->replicated = cluster->deals.size; /* what the next standby begins with */
        table->standby_away_us = 0;
    }
    table->is_hidden = false;
    cluster_see(cluster);
    for (uint32_t i = 0; i < cluster->plan.node_count; i++) {
        struct peer *peer = &cluster->peers[i];

        if (!peer->is_up)
            continue;
        if (peer->client.question) /* unless the answer is there before */
            cluster_post(cluster, world_below(world, 30000),
                         (struct event){.kind = EVENT_BREAK,
                                        .node = i,
                                        .life = peer->life,
                                        .append = peer->client.question - 1});
        table_disconnect(cluster, peer);
    }
}

void table_leave(struct sim_cluster *cluster)
{
    cluster_post(cluster, 1000 * (1 + world_below(cluster->world, 2 * cluster->plan.away_gap_ms)),
                 (struct event){.kind = EVENT_LEAVE});
    if (!cluster->world->is_quiet)
        cluster->table.standby_away_us =
            cluster->world->time_us + 1000 * world_below(cluster->world, 4 * LEASE_MS);
}
