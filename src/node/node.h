/*
 * node.h - one machine's service without its HTTP face: storage, engines and deliveries on their
 * threads.
 *
 *     engine thread   runs all partitions' engines; takes commands, completions and outcomes
 *     commit thread   writes batches, as many as wait, with one sync
 *     read thread     finds and scans
 *     webhook thread  delivers (delivery/webhook.h)
 *
 * Between them go messages only; everything in flight is counted and bounded at the door.
 *
 * Threads    node_submit, node_health and the metrics from any thread. `done` of a request is
 *            called on the engine thread: it copies what it needs and returns soon.
 */
#ifndef TICKWHEEL_NODE_NODE_H
#define TICKWHEEL_NODE_NODE_H

#include "engine/command.h"
#include "ops/config.h"
#include "ops/metrics.h"

struct node;

/* A command with someone to answer. Embed it, fill in `command` and `done`; it stays the caller's
 * and must live until `done` was called. */
struct node_request {
    struct list link_;
    struct command command;
    void (*done)(
        struct node_request *request); /* command.timer and .page are valid only during it */
    struct instant submitted_;
};

/* Opens the storage, recovers every partition and starts the threads. The config and the metrics
 * are borrowed until node_stop. */
enum error_code node_start(const struct config *config, struct metrics *metrics,
                           struct node **ret_node, struct error *ret_error);

/* Stops in order: no new work (STOPPING), deliveries out may end for `config.drain_ms`, the last
 * batch is committed, threads end, storage closes. Every request was answered before it returns. */
void node_stop(struct node *node);

/* Hands a request to its partition's engine (command.partition). OVERLOADED when too much is in
 * flight, STOPPING, DISK_FULL: then nothing was taken and `done` is not called. */
enum error_code node_submit(struct node *node, struct node_request *request);

uint16_t node_partition_count(const struct node *node);

/* The partition for the next new timer; spreads them evenly. */
uint16_t node_partition_next(struct node *node);

/* Whether a target with this host may be created; a name is checked when it is called. */
bool node_allows_host(const struct node *node, struct bytes host);

struct node_health {
    bool is_ready;    /* recovered, storage works, not stopping */
    char reason[128]; /* why not */
};

void node_health(struct node *node, struct node_health *ret_health);

/* Brings the gauges in `metrics` (pending, oldest overdue, disk, memory, ...) up to date. Called
 * before they are shown. */
void node_refresh_metrics(struct node *node);

#endif
