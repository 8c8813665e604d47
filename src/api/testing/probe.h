/*
 * probe.h - a real node for the tests of the API, on storage in memory. Between the API and
 * the node it refuses, fails, holds back and counts what the API asks.
 *
 *     probe_start(&probe);       with probe.config as the test wants it
 *     ... api_start with probe.config, probe.metrics, probe.node ...
 *     probe_hold(&probe);
 *
 * The program is linked with --wrap for the calls that probe.c replaces (CMakeLists.txt).
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_API_TESTING_PROBE_H
#define TICKWHEEL_API_TESTING_PROBE_H

#include "node/node.h"

#include <pthread.h>

#define PROBE_PARTITIONS 4

struct node_probe {
    struct config config; /* the node's: by its address the probe of a node is found */
    struct metrics *metrics;
    struct node *node;
    char folder_[256];
    pthread_mutex_t lock_; /* guards everything below */
    pthread_cond_t changed_;
    struct list held_;
    bool is_held_;
    enum error_code refuses_, fails_;
    size_t submitted_, overloaded_, given_up_, outpaced_, other_count_;
    const char *not_ready_;
    enum error_code (*answer_)(struct survey *survey);
};

/* Starts the node with `config` in a new folder. It has PROBE_PARTITIONS partitions and two shards,
 * and reserves nothing on the disk. All else of the probe is 0. */
void probe_start(struct node_probe *probe);

/* Stops the node, and deletes its folder. */
void probe_stop(struct node_probe *probe);

/* From now on the node refuses what is submitted; NONE: it accepts. */
void probe_refuse(struct node_probe *probe, enum error_code error);

/* From now on commands are answered with `error` in place of the node; NONE: as usual. */
void probe_fail(struct node_probe *probe, enum error_code error);

/* The next commit of the storage fails. */
void probe_fail_commit(struct node_probe *probe, enum error_code error);

/* The next `count` patches on condition of a version come too late. */
void probe_outpace(struct node_probe *probe, size_t count);

/* Holds every command back; probe_release lets them go, in reverse order. */
void probe_hold(struct node_probe *probe);
void probe_release(struct node_probe *probe);

/* Waits until so many commands were submitted in all. */
void probe_await_submitted(struct node_probe *probe, size_t count);

/* How many commands were submitted so far; how many timers live. */
size_t probe_submitted(struct node_probe *probe);
size_t probe_live(struct node_probe *probe);

/* How many commands the node itself refused as OVERLOADED. */
size_t probe_overloaded(struct node_probe *probe);

/* What node_health says; NULL: what the node says. */
void probe_set_not_ready(struct node_probe *probe, const char *reason);

/* From now on there are `count` other nodes, 2 to count + 1, and `answer` fills in the surveys of
 * each node: of this one, whose number is 0, too. On the thread that asks. */
void probe_set_others(struct node_probe *probe, size_t count,
                      enum error_code (*answer)(struct survey *survey));

/* Leases that were given up. */
size_t probe_given_up(struct node_probe *probe);

#endif
