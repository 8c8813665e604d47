/*
 * shard_commands.h - turns of the engines of a shard: commands go in, and what they answer goes to
 * the clients.
 *
 *     engine = shard_engine(shard, partition);      a turn begins
 *     shard_ask(shard, engine, request);
 *     shard_end_turns(shard);                       clients have their answers
 *
 * Threads    That of the shard.
 */
#ifndef TICKWHEEL_NODE_SHARD_COMMANDS_H
#define TICKWHEEL_NODE_SHARD_COMMANDS_H

#include "node/node.h"
#include "node/shard.h"

/* Returns the engine of a partition of the shard, within a turn; begins the turn at shard->now
 * if none runs. */
struct engine *shard_engine(struct shard *shard, struct partition *partition);

/* Hands a request to the engine of its partition, which must be within a turn. */
void shard_ask(struct shard *shard, struct engine *engine, struct node_request *request);

/* Counts and logs a delivery that came back, and hands it to its engine, which must be within a
 * turn. */
void shard_delivered(struct shard *shard, struct engine *engine, struct delivery *delivery);

/* Sends the answers that the engine has. A release that found a lease ends it, which may begin a
 * turn. */
void shard_answer(struct shard *shard, struct engine *engine);

/* Ends the running turns, and sends their answers. */
void shard_end_turns(struct shard *shard);

/* Refuses requests for a partition that has no engine here. */
void shard_refuse(struct node *node, struct list *requests);

/* Answers requests that the engine of a lost partition left unanswered as in doubt, because a
 * part of a change may have been made. */
void shard_doubt_rest(struct node *node, struct list *requests);

#endif
