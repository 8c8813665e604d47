/* node_holds.c - maintenance and pauses of a node together; see node_holds.h. */
#include "node/node_holds.h"

#include "node/maintenance.h"
#include "node/pauses.h"

void node_holds_init(struct node_holds *holds, const struct config *config,
                     void (*changed)(void *context), void *context)
{
    holds->config = config;
    holds->changed = changed;
    holds->context = context;
    pthread_mutex_init(&holds->lock, NULL);
    pthread_mutex_init(&holds->note_lock, NULL);
    target_pause_board_init(&holds->pauses);
}

void node_holds_deinit(struct node_holds *holds)
{
    pthread_mutex_destroy(&holds->lock);
    pthread_mutex_destroy(&holds->note_lock);
    target_pause_board_deinit(&holds->pauses);
}

enum error_code node_holds_load(struct node_holds *holds, struct feed *feed,
                                struct targets *targets, struct error *ret_error)
{
    holds->feed = feed;
    holds->targets = targets;
    const enum error_code code = maintenance_load(holds, ret_error);
    return code ? code : pauses_load(holds, ret_error);
}
