/* origin.c - simulated targets that answer well, late, with errors or never. */
#include "origin.h"

#include "world.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void origins_init(struct world *world)
{
    struct origins *origins = &world->origins;

    *origins = (struct origins){0};
    list_init(&origins->parcels);
}

static void set_outcome(struct parcel *parcel, enum delivery_result result, const char *error)
{
    parcel->outcome = (struct delivery_outcome){.result = result};
    if (result == DELIVERY_DONE)
        parcel->outcome.status = 204;
    else if (sscanf(error, "status %" SCNu16, &parcel->outcome.status) != 1)
        parcel->outcome.status = 0;
    snprintf(parcel->outcome.error, sizeof(parcel->outcome.error), "%s", error);
}

static void fail(struct world *world, struct parcel *parcel, const char *error)
{
    parcel->is_received = world_chance(world, 300);
    set_outcome(parcel, DELIVERY_FAILED, error);
}

/* Decides the outcome, and returns after how many milliseconds it is known. */
static uint64_t decide(struct world *world, struct parcel *parcel)
{
    static const uint64_t ASKED[] = {
        1, 20, 1000, 3600 * 1000, UINT64_C(3) * 24 * 3600 * 1000, UINT64_MAX};
    const uint64_t timeout_ms = parcel->delivery->timer->retry.timeout_ms;
    uint64_t delay_ms = world_skewed(world, world->plan.answer_delay_ms);

    parcel->is_received = true;
    set_outcome(parcel, DELIVERY_DONE, "");
    switch (world->origins.modes[parcel->origin]) {
    case ORIGIN_FLAKY:
        if (world_chance(world, 400))
            fail(world, parcel, "status 500");
        break;
    case ORIGIN_FAILING:
        fail(world, parcel, "connection refused");
        break;
    case ORIGIN_BUSY:
        fail(world, parcel, "status 503");
        parcel->outcome.retry_after_ms = ASKED[world_below(world, sizeof(ASKED) / sizeof(*ASKED))];
        break;
    case ORIGIN_ENDING:
        if (world_chance(world, 600))
            set_outcome(parcel, DELIVERY_ENDED, "status 410");
        break;
    case ORIGIN_HANGING:
        delay_ms = UINT64_MAX;
        break;
    case ORIGIN_SLOW:
        delay_ms = timeout_ms + world_below(world, 3) - 1;
        break;
    default:
        break;
    }
    if (parcel->outcome.result == DELIVERY_DONE && answers_come_later(world, parcel->delivery)) {
        parcel->outcome.result = DELIVERY_AWAITED;
        parcel->outcome.status = 202;
    }
    if (delay_ms >= timeout_ms && !world->is_quiet) {
        delay_ms = timeout_ms;
        fail(world, parcel, "timed out");
        world->totals->timed_out++;
    }
    return delay_ms;
}

/* Postpones the delivery without sending it, as if the breaker of the target were open. Returns
 * false if this run has no such deliveries, or not now. */
static bool postpone(struct world *world, struct parcel *parcel)
{
    if (world->is_quiet || parcel->origin == QUEUE_ORIGIN ||
        !world_chance(world, world->plan.postpone_permille))
        return false;
    set_outcome(parcel, DELIVERY_POSTPONED, "not tried: its target failed");
    parcel->is_received = false;
    parcel->outcome.retry_after_ms = world_skewed(world, ORIGIN_POSTPONE_MS_MAX);
    if (world_chance(world, 300))
        parcel->outcome.holds = DELIVERY_HOLDS_TIMER;
    world->totals->postponed++;
    return true;
}

static void answer_later(struct world *world, struct parcel *parcel)
{
    const uint64_t delay_ms = postpone(world, parcel) ? 0 : decide(world, parcel);

    parcel->is_stuck = false;
    world_post_at(world, world_ms(world) + delay_ms, EVENT_DELIVERED, world->host.life, parcel);
}

static struct parcel *parcel_create(struct world *world, uint16_t partition, struct twin *twin,
                                    struct delivery *delivery)
{
    struct parcel *parcel = calloc(1, sizeof(*parcel));

    assert(parcel);
    parcel->delivery = delivery;
    parcel->twin = twin;
    parcel->partition = partition;
    parcel->origin = twin->row.content.origin;
    list_push(&world->origins.parcels, &parcel->link);
    return parcel;
}

void origins_return(struct world *world, uint16_t partition, struct delivery *delivery)
{
    struct parcel *parcel =
        parcel_create(world, partition, model_twin_of(world, partition, delivery->timer), delivery);

    set_outcome(parcel, DELIVERY_RETURNED, "");
    world_post(world, world->plan.answer_delay_ms, EVENT_DELIVERED, world->host.life, parcel);
}

void origins_take(struct world *world, uint16_t partition, struct twin *twin,
                  struct delivery *delivery)
{
    struct parcel *parcel = parcel_create(world, partition, twin, delivery);

    answers_give_token(world, delivery);
    world_tempt(world, world->plan.answer_delay_ms);
    if (world->origins.modes[parcel->origin] == ORIGIN_STUCK)
        parcel->is_stuck = true;
    else
        answer_later(world, parcel);
}

static void receive(struct world *world, const struct parcel *parcel)
{
    if (!parcel->is_received)
        return;
    parcel->twin->received++;
    world->totals->duplicates += parcel->twin->received > 1;
}

void origins_answer(struct world *world, struct parcel *parcel)
{
    struct delivery *delivery = parcel->delivery;

    receive(world, parcel);
    list_remove(&parcel->link);
    delivery->outcome = parcel->outcome;
    host_delivered(world, parcel->partition, parcel->twin, parcel->origin, delivery);
    free(parcel);
}

void origins_change(struct world *world, uint8_t origin, enum origin_mode mode)
{
    struct origins *origins = &world->origins;

    origins->modes[origin] = mode;
    world_note(world, "origin", 0, 0, origin, mode);
    if (mode == ORIGIN_STUCK)
        return;
    LIST_FOR_EACH (&origins->parcels, link) {
        struct parcel *parcel = list_item(link, struct parcel, link);

        if (parcel->origin == origin && parcel->is_stuck)
            answer_later(world, parcel);
    }
}

void origins_crash(struct world *world)
{
    struct list *link;

    while ((link = list_pop(&world->origins.parcels))) {
        struct parcel *parcel = list_item(link, struct parcel, link);

        /* the request was under way: the receiver may have it, and gets it again */
        if (world_chance(world, 500))
            receive(world, parcel);
        world->totals->outcomes_lost++;
        host_discard_delivery(world, parcel->partition, parcel->delivery);
        free(parcel);
    }
}
