/* tenure.c - the engine of a node that owns the partition; see tenure.h. */
#include "tenure.h"

#include "ending.h"
#include "tenure_ops.h"

#include "base/check.h"
#include "engine/engine_turn_testing.h"
#include "store/testing/memory.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    BACK_US_MAX = 400000, /* maximum duration of most deliveries */
    HUNG_US_MAX = 3000000,
    READ_US_MAX = 20000,
};

struct tenure_read {
    struct list link;
    struct engine_read *read;
    uint64_t at_us;
};

struct tenure_lent {
    struct list link;
    struct delivery *delivery;
    uint64_t at_us;
    bool is_once, is_gathered;
};

/* Returns the time to tell the engine. */
static struct wall tenure_now(struct tenure *tenure, struct tenure_time time)
{
    tenure->latest = wall_max(tenure->latest, time.wall);
    return time.wall;
}

/* ---- answers ---- */

static void tenure_take_replies(struct tenure *tenure, struct tenure_time time)
{
    struct command *command;

    while ((command = engine_take_reply(tenure->engine))) {
        struct op *op = op_of(command);

        if (!tenure->is_misled)
            tenure_ops_judge(tenure->world, tenure->truth, op, time.may_act ? tenure->epoch : 0);
        list_remove(&op->link);
        tenure_ops_free(op);
    }
}

/* ---- what the engine hands out ---- */

static void tenure_take_reads(struct tenure *tenure, struct tenure_time time)
{
    struct engine_read *read;

    while ((read = engine_take_read(tenure->engine))) {
        struct tenure_read *item = malloc(sizeof(*item));

        CHECK(item);
        *item = (struct tenure_read){.read = read,
                                     .at_us = time.us + world_below(tenure->world, READ_US_MAX)};
        list_push(&tenure->reads, &item->link);
    }
}

static void tenure_take_deliveries(struct tenure *tenure, struct tenure_time time)
{
    struct delivery *delivery;

    while (time.may_act && (delivery = engine_take_delivery(tenure->engine))) {
        struct tenure_lent *lent = malloc(sizeof(*lent));
        const bool is_hung = !tenure->world->is_quiet && world_chance(tenure->world, 50);

        CHECK(lent && delivery->epoch == tenure->epoch);
        if (tenure->is_misled)
            truth_track(tenure->truth, delivery->timer->id.serial)->deliveries++;
        else
            truth_deliver(tenure->truth, tenure->epoch, tenure->latest, delivery->timer);
        tenure->world->totals->deliveries++;
        lent->delivery = delivery;
        lent->is_gathered = false;
        lent->is_once = tenure->has_deals && delivery->timer->target.kind == TARGET_KAFKA;
        truth_track(tenure->truth, delivery->timer->id.serial)->is_once = lent->is_once;
        lent->at_us = time.us + world_below(tenure->world, is_hung ? HUNG_US_MAX : BACK_US_MAX);
        list_push(&tenure->lent, &lent->link);
    }
}

static void tenure_pump(struct tenure *tenure, struct tenure_time time)
{
    struct storage_batch *batch;

    tenure_take_replies(tenure, time);
    tenure_take_reads(tenure, time);
    tenure_take_deliveries(tenure, time);
    while ((batch = engine_take_batch(tenure->engine))) {
        tenure->batches_out++;
        list_init(&batch->link);
        replica_commit(tenure->replica, batch);
    }
    for (struct given_up *given_up; (given_up = engine_take_given_up(tenure->engine));)
        free(given_up);
    for (struct delivery *answered; (answered = engine_take_answered(tenure->engine));)
        engine_free_answered(answered);
}

/* ---- what comes back ---- */

static void tenure_read_now(struct tenure *tenure, struct engine_read *read)
{
    struct world *world = tenure->world;
    const bool has_failed = !world->is_quiet && world_chance(world, world->plan.read_fail_permille);

    memory_storage_fail_read(tenure->storage, has_failed, ERROR_IO);
    engine_read_perform(read, tenure->storage);
    world->totals->reads++;
    world->totals->reads_failed += has_failed;
}

/* Ends the reads in the order in which they were taken. */
static void tenure_end_reads(struct tenure *tenure, struct tenure_time time)
{
    while (!list_is_empty(&tenure->reads)) {
        struct tenure_read *item = list_item(tenure->reads.next, struct tenure_read, link);

        if (item->at_us > time.us)
            return;
        list_remove(&item->link);
        tenure_read_now(tenure, item->read);
        turn_read_done(tenure->engine, tenure_now(tenure, time), item->read);
        free(item);
        tenure_pump(tenure, time);
    }
}

static void tenure_return(struct tenure *tenure, struct tenure_lent *lent, struct wall now)
{
    const uint64_t serial = lent->delivery->timer->id.serial;

    list_remove(&lent->link);
    truth_delivered(tenure->truth, tenure->epoch, serial);
    turn_delivered(tenure->engine, now, lent->delivery);
    free(lent);
}

/* Returns the first delivery that has ended by now; NULL if there is none. */
static struct tenure_lent *tenure_next_ended(const struct tenure *tenure, struct tenure_time time)
{
    LIST_FOR_EACH (&tenure->lent, link) {
        struct tenure_lent *lent = list_item(link, struct tenure_lent, link);

        if (lent->at_us <= time.us && (!lent->is_once || tenure->is_leaving))
            return lent;
    }
    return NULL;
}

size_t tenure_gather(struct tenure *tenure, struct tenure_time time, uint64_t *serials, size_t max)
{
    size_t count = 0;

    LIST_FOR_EACH (&tenure->lent, link) {
        struct tenure_lent *lent = list_item(link, struct tenure_lent, link);

        if (!lent->is_once || lent->at_us > time.us || count == max)
            continue;
        lent->is_gathered = true;
        serials[count++] = lent->delivery->timer->id.serial;
    }
    return count;
}

void tenure_staged(struct tenure *tenure, struct tenure_time time, enum delivery_result result)
{
    bool is_first = true;

    LIST_FOR_EACH (&tenure->lent, link) {
        struct tenure_lent *lent = list_item(link, struct tenure_lent, link);

        if (!lent->is_gathered)
            continue;
        lent->delivery->outcome = (struct delivery_outcome){
            .result = result == DELIVERY_DONE || is_first ? result : DELIVERY_RETURNED};
        lent->delivery->is_in_transaction = result == DELIVERY_DONE;
        is_first = false;
        tenure_return(tenure, lent, tenure_now(tenure, time));
    }
    tenure_pump(tenure, time);
}

/* True if the receiver answers later, by a token of its own. */
static bool tenure_is_later(struct tenure *tenure, struct delivery *delivery)
{
    struct world *world = tenure->world;
    const uint64_t drawn = random_mix(delivery->timer->id.serial ^ delivery->timer->version << 24);

    if (world->is_quiet || drawn % 1000 >= world->plan.later_permille)
        return false;
    snprintf(delivery->ack_token, sizeof(delivery->ack_token), "%016" PRIx64 "%016" PRIx64, drawn,
             delivery->epoch);
    world->totals->accepted++;
    return true;
}

static void tenure_end_deliveries(struct tenure *tenure, struct tenure_time time)
{
    for (struct tenure_lent *lent; (lent = tenure_next_ended(tenure, time));) {
        const bool has_failed = !tenure->world->is_quiet && world_chance(tenure->world, 100);
        lent->delivery->outcome = (struct delivery_outcome){
            .result = has_failed                                ? DELIVERY_FAILED
                      : tenure_is_later(tenure, lent->delivery) ? DELIVERY_AWAITED
                                                                : DELIVERY_DONE,
            .is_answer = true};
        tenure_return(tenure, lent, tenure_now(tenure, time));
        tenure_pump(tenure, time);
    }
}

/* ---- begin and end ---- */

void tenure_init(struct tenure *tenure, struct world *world, struct storage *storage,
                 struct truth *truth)
{
    *tenure = (struct tenure){.world = world, .storage = storage, .truth = truth};
    list_init(&tenure->refused);
    list_init(&tenure->reads);
    list_init(&tenure->lent);
    list_init(&tenure->ops);
}

void tenure_begin(struct tenure *tenure, struct replica *replica, const struct storage_meta *meta,
                  uint64_t seed, struct tenure_time time)
{
    struct engine_options options = ENGINE_OPTIONS_DEFAULT;

    CHECK(!tenure->engine && !tenure->batches_out);
    tenure->replica = replica;
    tenure->epoch = meta->epoch;
    tenure->latest = time.wall;
    tenure->is_draining = tenure->is_leaving = false;
    options.seed = seed;
    options.window_ms = 1000 << world_below(tenure->world, 4);
    options.scan_rows_max = 1 + (uint32_t)world_below(tenure->world, 30);
    options.retain_ms = world_chance(tenure->world, 500) ? 3000 : 3600 * 1000;
    options.near_bytes_max = tenure->world->plan.engine.near_bytes_max;
    options.target_inflight_max = tenure->world->plan.engine.target_inflight_max;
    options.ack_timeout_ms = 1000;
    options.ends_pace_ms = world_chance(tenure->world, 500) ? world_below(tenure->world, 500) : 0;
    tenure->engine = engine_create(&options, meta, time.wall);
    CHECK(tenure->engine);
    tenure_pump(tenure, time);
}

void tenure_drain(struct tenure *tenure)
{
    if (!tenure->engine || tenure->is_draining)
        return;
    tenure->is_draining = true;
    engine_drain(tenure->engine);
}

void tenure_leave(struct tenure *tenure)
{
    tenure->is_leaving = true;
}

static void tenure_free_ops(struct tenure *tenure)
{
    while (!list_is_empty(&tenure->ops))
        tenure_ops_free(list_item(list_pop(&tenure->ops), struct op, link));
}

static void tenure_end_life(struct tenure *tenure)
{
    struct engine_stats stats;

    engine_stats(tenure->engine, &stats);
    tenure->world->totals->reloaded += stats.reloaded;
    if (stats.missed_found)
        world_fail(tenure->world, 0, "acknowledged is never lost",
                   "%" PRIu64 " timers were in no phase", stats.missed_found);
    engine_destroy(tenure->engine);
    tenure->engine = NULL;
}

/* Gives batches and reads back in their order, and frees the engine. */
void tenure_end(struct tenure *tenure, struct tenure_time time)
{
    if (!tenure->engine)
        return;
    engine_drain(tenure->engine);
    ending_drop_replies(tenure->engine);
    CHECK(!tenure->batches_out);
    while (!list_is_empty(&tenure->refused))
        ending_fail_batch(tenure->engine,
                          list_item(list_pop(&tenure->refused), struct storage_batch, link),
                          time.wall);
    while (!list_is_empty(&tenure->reads)) {
        struct tenure_read *item = list_item(list_pop(&tenure->reads), struct tenure_read, link);

        ending_fail_read(tenure->engine, item->read, time.wall);
        free(item);
    }
    while (!list_is_empty(&tenure->lent)) {
        struct tenure_lent *lent = list_item(tenure->lent.next, struct tenure_lent, link);

        lent->delivery->outcome = (struct delivery_outcome){.result = DELIVERY_RETURNED};
        tenure_return(tenure, lent, time.wall);
        ending_drop_replies(tenure->engine);
    }
    ending_exhaust(tenure->engine, time.wall);
    tenure_end_life(tenure);
    tenure_free_ops(tenure);
}

/* ---- the calls ---- */

/* Waits for the deliveries of a node that has left. Their outcomes have no effect. */
static void tenure_wait(struct tenure *tenure, struct tenure_time time)
{
    for (struct tenure_lent *lent; (lent = tenure_next_ended(tenure, time));) {
        lent->delivery->outcome = (struct delivery_outcome){.result = DELIVERY_RETURNED};
        tenure_return(tenure, lent, time.wall);
        ending_drop_replies(tenure->engine);
    }
    if (list_is_empty(&tenure->lent) && !tenure->batches_out)
        tenure_end(tenure, time);
}

void tenure_turn(struct tenure *tenure, struct tenure_time time)
{
    if (!tenure->engine)
        return;
    if (tenure->is_leaving) {
        tenure_wait(tenure, time);
        return;
    }
    tenure_end_reads(tenure, time);
    tenure_end_deliveries(tenure, time);
    turn_advance(tenure->engine, tenure_now(tenure, time));
    tenure_pump(tenure, time);
    if (world_chance(tenure->world, 20))
        engine_check(tenure->engine);
}

uint64_t tenure_wake_us(const struct tenure *tenure, struct tenure_time time)
{
    uint64_t at_us = UINT64_MAX;

    if (!tenure->engine)
        return at_us;
    const struct wall wake = engine_wake_at(tenure->engine);
    if (!tenure->is_leaving && wake.ms != WALL_NEVER.ms)
        at_us = time.us + 1000 * (1 + wall_since(time.wall, wake));
    LIST_FOR_EACH (&tenure->lent, link) {
        const struct tenure_lent *lent = list_item(link, struct tenure_lent, link);
        const uint64_t back_us = lent->at_us;

        if (lent->is_once && back_us <= time.us && !tenure->is_leaving)
            continue; /* until it can be staged */
        at_us = back_us < at_us ? back_us : at_us;
    }
    if (!tenure->is_leaving && !list_is_empty(&tenure->reads)) {
        const uint64_t read_us = list_item(tenure->reads.next, struct tenure_read, link)->at_us;

        at_us = read_us < at_us ? read_us : at_us;
    }
    return at_us > time.us ? at_us : time.us + 1;
}

bool tenure_is_ready(const struct tenure *tenure)
{
    return tenure->engine && engine_is_ready(tenure->engine);
}

bool tenure_is_idle(const struct tenure *tenure)
{
    return tenure->engine && list_is_empty(&tenure->lent) && engine_is_idle(tenure->engine);
}

/* ---- commits ---- */

/* Gives back a batch. If it is not durable, that waits for the end of the engine. */
void tenure_committed(struct tenure *tenure, struct storage_batch *batch, struct tenure_time time)
{
    CHECK(tenure->engine && tenure->batches_out--);
    if (batch->result) {
        list_push(&tenure->refused, &batch->link);
        return;
    }
    CHECK(!tenure->is_leaving);
    if (!tenure->is_misled)
        truth_batch(tenure->truth, tenure->epoch, batch);
    turn_committed(tenure->engine, tenure_now(tenure, time), batch);
    tenure_pump(tenure, time);
}

/* ---- clients ---- */

void tenure_ask(struct tenure *tenure, struct tenure_time time)
{
    if (!tenure->engine || tenure->is_leaving || tenure->is_draining)
        return;
    struct op *op = tenure_ops_draw(tenure->world, tenure->truth, tenure->storage);
    if (!op)
        return;
    list_push(&tenure->ops, &op->link);
    turn_submit(tenure->engine, tenure_now(tenure, time), &op->command);
    tenure_pump(tenure, time);
}
