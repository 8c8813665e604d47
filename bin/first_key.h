/*
 * first_key.h - makes the first key of tokens, when the daemon issues them without a file of keys.
 *
 *     if (first_key_look(&first_key, config, node, log)) look again in a second
 *
 * Of several nodes of a cluster one makes the key: the others' definitions are refused.
 *
 * Threads    One, the main thread.
 */
#ifndef TICKWHEEL_BIN_FIRST_KEY_H
#define TICKWHEEL_BIN_FIRST_KEY_H

#include "node/node.h"
#include "ops/event_log.h"

#include <stdatomic.h>

struct first_key {
    struct node_hold node;
    struct buffer value;
    char key[DEFINITION_KEY_SIZE_MAX];
    atomic_bool is_asked;   /* the definition is on its way */
    enum error_code logged; /* cause of the last failure that was logged */
};

/* Looks whether there is a key, and makes one otherwise. Call it when the node has recovered, and
 * until it returns false: then there is a key, or none is needed. */
bool first_key_look(struct first_key *first_key, const struct config *config, struct node *node,
                    const struct event_log *log);

/* Frees what is left when the node has stopped. */
void first_key_deinit(struct first_key *first_key);

#endif
