/*
 * node_members.h - the cluster as the threads of a node see it: what the thread of the control
 * topic (node_control.c) tells of members and brokers, and what it is asked for.
 *
 * Threads    Any, unless a member of the struct names its thread. Queries hold a lock for a copy.
 */
#ifndef TICKWHEEL_NODE_NODE_MEMBERS_H
#define TICKWHEEL_NODE_NODE_MEMBERS_H

#include "cluster/control.h"
#include "log/kafka/log_kafka.h"
#include "node/shard.h"

enum node_control_ask {
    NODE_CONTROL_LEAVE = 1,
    NODE_CONTROL_END = 2,    /* when it has left, or after two leases */
    NODE_CONTROL_COUNT = 4,  /* the timers of all nodes, once: a partition has come or gone */
    NODE_CONTROL_SECRET = 8, /* once: this node's secret may be another one */
};

/* A copy of a member, for other threads. */
struct node_control_member {
    uint32_t node;
    bool is_alive;
    uint16_t weight, load;
    struct instant heard_at; /* {0}: never */
    char address[ROSTER_ADDRESS_SIZE_MAX + 1], peer_address[ROSTER_ADDRESS_SIZE_MAX + 1];
    char zone[ROSTER_ZONE_SIZE_MAX + 1];
};

struct node_control {
    struct node *node;
    uint64_t cluster;
    struct founding secret; /* the digest of this node's */
    bool reads_all;         /* the first record has another digest, or none: a later one may */
    char topic[80];
    char address[ROSTER_ADDRESS_SIZE_MAX + 1]; /* for clients */
    struct log *log;
    struct cluster_control *control;
    pthread_t thread;
    bool is_running;
    pthread_t topics_thread; /* looks at the settings of the topics */
    bool has_topics_thread;
    atomic_bool topics_end;
    atomic_bool topics_wrong;
    atomic_uint asks;             /* of enum node_control_ask */
    atomic_int state;             /* enum control_state */
    atomic_bool plans;            /* there is a plan */
    atomic_bool is_foreign;       /* it is refused for its secret */
    atomic_bool is_founded_so;    /* control_is_founded_so */
    _Atomic uint64_t answered_ns; /* when a broker answered a log of this node last */

    /* The thread's. */
    uint64_t refused_ticket; /* an append that was not sent; 0: none */
    struct instant end_until;
    struct wall sent;           /* when the append in flight was */
    int64_t sent_difference_us; /* node_clock_difference_us then */
    bool has_landed;            /* an append has: the clock was compared with the brokers' */
    struct instant load_at;     /* since when the load of the next note is measured */
    uint64_t load_ns;           /* the time that the shards had used then */
    struct instant counted_at;  /* the timers of all nodes were */
    char note_address[NODE_ADDRESS_SIZE]; /* of the note */

    struct node_hold *asked; /* whose change is under way; NULL: none */
    uint64_t ask;            /* the number of the last one */

    pthread_mutex_t lock; /* guards what follows */
    struct list holds;    /* of struct node_hold: changes to be asked for */
    bool has_ended;       /* it takes no more of them */
    pthread_cond_t changed;
    struct founding new_secret; /* of NODE_CONTROL_SECRET */
    struct error error;
    _Atomic enum log_trouble trouble;
    char trouble_text[200];               /* unless that is FINE */
    char topics_text[200];                /* while topics_wrong */
    char peer_address[NODE_ADDRESS_SIZE]; /* of this node, as it was told */
    uint32_t planner;
    size_t member_count;
    struct node_control_member members[ROSTER_MAX];
};

/* From any thread, while replicas run. */
void node_control_ask(struct node_control *control, unsigned asks);

/* Whether the node serves nothing, or takes no new plans, and why. */
bool node_control_trouble(struct node *node, char *ret_reason, size_t size);

/* Whether the other nodes can reach this one: it was told its own address. */
bool node_control_has_address(struct node *node);

#endif
