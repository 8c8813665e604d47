/* ending.c - fails all that an engine which ends has out or still wants to do. */
#include "ending.h"

#include "engine/engine_turn_testing.h"

void ending_drop_replies(struct engine *engine)
{
    while (engine_take_reply(engine))
        ;
}

void ending_fail_batch(struct engine *engine, struct storage_batch *batch, struct wall now)
{
    batch->result = ERROR_IO;
    turn_committed(engine, now, batch);
    ending_drop_replies(engine);
}

void ending_fail_read(struct engine *engine, struct engine_read *read, struct wall now)
{
    read->result = ERROR_IO;
    turn_read_done(engine, now, read);
    ending_drop_replies(engine);
}

void ending_exhaust(struct engine *engine, struct wall now)
{
    struct storage_batch *batch;
    struct engine_read *read;
    bool is_more;

    do {
        is_more = false;
        while ((batch = engine_take_batch(engine))) {
            is_more |= batch->write_count > 0;
            ending_fail_batch(engine, batch, now);
        }
        while ((read = engine_take_read(engine))) {
            ending_fail_read(engine, read, now);
            is_more = true;
        }
    } while (is_more);
}
