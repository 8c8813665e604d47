/*
 * origin.h - targets that receive deliveries, each with a behaviour that changes with time.
 */
#ifndef TICKWHEEL_WORLD_ORIGIN_H
#define TICKWHEEL_WORLD_ORIGIN_H

#include "engine/delivery.h"
#include "events.h"
#include "plan.h"

enum { ORIGIN_POSTPONE_MS_MAX = 5000 };

struct world;
struct twin;

enum origin_mode {
    ORIGIN_OK,
    ORIGIN_FLAKY,   /* fails sometimes, before or after it has accepted the delivery */
    ORIGIN_FAILING, /* takes nothing */
    ORIGIN_BUSY,    /* asks to be tried again later */
    ORIGIN_ENDING,  /* wants no further delivery of the timer */
    ORIGIN_HANGING, /* does not answer in time */
    ORIGIN_SLOW,    /* answers just before the time-out, or just too late */
    ORIGIN_STUCK,   /* does not answer before its mode changes; only at the end of a run */
    ORIGIN_MODES,
};

/* A delivery in flight. */
struct parcel {
    struct list link;
    struct delivery *delivery; /* in flight, owned by the engine */
    struct twin *twin;
    uint16_t partition;
    uint8_t origin;
    bool is_received; /* the receiver has it, whatever the outcome says */
    bool is_stuck;    /* whether it has no outcome yet */
    struct delivery_outcome outcome;
};

struct origins {
    enum origin_mode modes[ORIGINS_MAX];
    struct list parcels;
};

void origins_init(struct world *world);

/* Takes a delivery of the engine, which was judged, and begins it. */
void origins_take(struct world *world, uint16_t partition, struct twin *twin,
                  struct delivery *delivery);

/* Takes a delivery that was pulled and judged, and gives it back unsent after a while. */
void origins_return(struct world *world, uint16_t partition, struct delivery *delivery);

/* Handles EVENT_DELIVERED: the engine gets the outcome. */
void origins_answer(struct world *world, struct parcel *parcel);

/* An origin changes its behaviour; if it was stuck, it answers the deliveries it holds. */
void origins_change(struct world *world, uint8_t origin, enum origin_mode mode);

/* The process died: drops the outcomes that the engine has not got yet. */
void origins_crash(struct world *world);

#endif
