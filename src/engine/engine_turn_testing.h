/*
 * engine_turn_testing.h - for tests: turns of one call each, as if every message came alone.
 */
#ifndef TICKWHEEL_ENGINE_ENGINE_TURN_TESTING_H
#define TICKWHEEL_ENGINE_ENGINE_TURN_TESTING_H

#include "engine/engine.h"

static inline void turn_advance(struct engine *engine, struct wall now)
{
    engine_begin(engine, now);
    engine_end(engine);
}

static inline void turn_submit(struct engine *engine, struct wall now, struct command *command)
{
    engine_begin(engine, now);
    engine_submit(engine, command);
    engine_end(engine);
}

static inline void turn_committed(struct engine *engine, struct wall now,
                                  struct storage_batch *batch)
{
    engine_begin(engine, now);
    engine_committed(engine, batch);
    engine_end(engine);
}

static inline void turn_read_done(struct engine *engine, struct wall now, struct engine_read *read)
{
    engine_begin(engine, now);
    engine_read_done(engine, read);
    engine_end(engine);
}

static inline void turn_delivered(struct engine *engine, struct wall now, struct delivery *delivery)
{
    engine_begin(engine, now);
    engine_delivered(engine, delivery);
    engine_end(engine);
}

static inline struct delivery *turn_pull(struct engine *engine, struct wall now, struct bytes queue,
                                         unsigned priority)
{
    engine_begin(engine, now);
    struct delivery *delivery = engine_pull(engine, queue, priority);
    engine_end(engine);
    return delivery;
}

#endif
