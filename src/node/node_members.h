/*
 * node_members.h - the cluster as the threads of a node see it: what the thread of the control
 * topic (node_control.c) tells of members and brokers, and what it is asked for.
 *
 * Threads    Any, unless a member of the struct names its thread. Queries hold a lock for a copy.
 */
#ifndef TICKWHEEL_NODE_NODE_MEMBERS_H
#define TICKWHEEL_NODE_NODE_MEMBERS_H

#include "cluster/cluster_log.h"
#include "cluster/control.h"
#include "node/node.h"
#include "sys/event_loop.h"

enum node_control_ask {
    NODE_CONTROL_LEAVE = 1,
    NODE_CONTROL_END = 2, /* end when the node has left, or after two leases */
    /* count the timers of all nodes once, because a partition came or went */
    NODE_CONTROL_COUNT = 4,
    NODE_CONTROL_SECRET = 8, /* compare the secret once, because it may have changed */
};

/* Copy of a member for other threads. */
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
    struct founding secret; /* digest of this node's secret */
    /* read all records: the first has another digest or none, and a later one may match */
    bool reads_all;
    char address[ROSTER_ADDRESS_SIZE_MAX + 1]; /* for clients */
    struct log *log;
    struct cluster_control *control;
    pthread_t thread;
    bool is_running;
    struct event_loop loop;  /* loop of the thread; that of the listener for other nodes, too */
    atomic_bool topics_end;  /* the check of the topics' settings is to end early */
    atomic_bool topics_over; /* it has ended */
    atomic_bool topics_wrong;
    atomic_uint asks;                  /* bits of enum node_control_ask */
    atomic_int state;                  /* enum control_state */
    atomic_bool plans;                 /* whether a plan is known */
    atomic_bool is_foreign;            /* whether the node was refused because of its secret */
    atomic_bool is_founded_so;         /* control_is_founded_so */
    struct cluster_log_client *client; /* client of all logs of this node */

    /* The thread's. */
    struct event_task task;
    struct event_source log_source, client_source; /* client_source only while is_sent */
    bool is_woken, is_sent;                        /* the log has events; an append is in flight */
    struct instant wake_at;  /* CLOCK_BOOTTIME of the next turn, unless is_woken */
    pthread_t topics_thread; /* runs the check */
    bool has_topics_thread;
    struct instant topics_at; /* time of the next check */
    uint64_t refused_ticket;  /* ticket of an append that could not be sent; 0 if none */
    struct instant end_until;
    struct wall sent;           /* time at which the append in flight was sent */
    int64_t sent_difference_us; /* node_clock_difference_us then */
    /* an append was confirmed, so the clock was compared with the brokers' */
    bool has_landed;
    struct instant load_at;               /* begin of the interval for the load of the next note */
    uint64_t load_ns;                     /* processor time of the shards at load_at */
    struct instant counted_at;            /* time of the last count of timers of all nodes */
    char note_address[NODE_ADDRESS_SIZE]; /* address in the note */

    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    struct founding new_secret; /* of NODE_CONTROL_SECRET */
    struct error error;
    _Atomic enum log_trouble trouble;
    char trouble_text[200];               /* empty if the trouble is FINE */
    char topics_text[200];                /* while topics_wrong */
    char peer_address[NODE_ADDRESS_SIZE]; /* address of this node, from node_tell_address */
    uint32_t planner;
    size_t member_count;
    struct node_control_member members[ROSTER_MAX];
};

/* Sends requests to the control's thread. May be called from any thread, while replicas run. */
void node_control_ask(struct node_control *control, unsigned asks);

/* True if the node serves nothing or gets no new plans, with the reason. */
bool node_control_trouble(struct node *node, char *ret_reason, size_t size);

/* True if other nodes can reach this one, because its address is set. */
bool node_control_has_address(struct node *node);

#endif
