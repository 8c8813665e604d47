/*
 * node_fake.h - a node for tests: node.h over a table in memory, with one thread that answers.
 *
 * Timers never fire by themselves; node_fake_set_state moves them. Every way in which a node can
 * refuse or be slow can be switched on.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_API_FAKE_NODE_FAKE_H
#define TICKWHEEL_API_FAKE_NODE_FAKE_H

#include "node/node.h"

/* The server has `threads` threads of its own. */
struct node *node_fake_start(uint16_t partition_count, unsigned threads);

/* Answers what is held, ends the thread, frees everything. */
void node_fake_stop(struct node *node);

/* From now on node_submit refuses with `error`; NONE: it accepts. */
void node_fake_refuse(struct node *node, enum error_code error);

/* From now on answers carry `error`, and nothing is done; NONE: as usual. */
void node_fake_fail(struct node *node, enum error_code error);

/* node_submit says OVERLOADED while so many timers are under way. */
void node_fake_set_inflight_max(struct node *node, size_t timers);

/* The next `count` patches on condition of a version come too late: another change was faster. */
void node_fake_outpace(struct node *node, size_t count);

/* Holds every answer back; node_fake_release lets them go, in reverse order of the commands. */
void node_fake_hold(struct node *node);
void node_fake_release(struct node *node);

/* Waits until so many commands were submitted in all. */
void node_fake_await_submitted(struct node *node, size_t count);

/* How many commands were submitted so far. */
size_t node_fake_submitted(struct node *node);

/* What node_health says; NULL: ready. */
void node_fake_set_not_ready(struct node *node, const char *reason);

/* For states that no command leads to. False: no such timer. */
bool node_fake_set_state(struct node *node, const struct timer_id *id, enum timer_state state);

/* Sets the last error of a timer. False: no such timer. */
bool node_fake_set_error(struct node *node, const struct timer_id *id, const char *error);

/* Lets the built-in queue see what time it is, and what has become ready since. */
void node_fake_tick(struct node *node);

/* From now on there are `count` other nodes, 2 to count + 1, and `answer` fills in the surveys of
 * each node: of this one, whose number is 0, too. On the node's thread. */
void node_fake_set_others(struct node *node, size_t count,
                          enum error_code (*answer)(struct survey *survey));

/* Leases that were given up; their workers go on waiting. */
size_t node_fake_given_up(struct node *node);

/* Timers that were created, and the most that were under way at a time. */
size_t node_fake_created(struct node *node);
size_t node_fake_inflight_peak(struct node *node);

#endif
