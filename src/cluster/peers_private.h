/*
 * peers_private.h - what the files of peers share.
 *
 *   peers.c          requests on their way: where they go, where they wait, and their ends
 *   peers_listen.c   messages of other nodes
 *   peers_copy.c     pages of copies, both ways
 *   peers_lane.c     a connection to another node: a message, and its answer
 *   peers_proof.c    secrets, and the proofs of messages
 *
 * Each calls only those below it.
 */
#ifndef TICKWHEEL_CLUSTER_PEERS_PRIVATE_H
#define TICKWHEEL_CLUSTER_PEERS_PRIVATE_H

#include "cluster/peers.h"
#include "http/server.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    PEERS_MAC_SIZE = 32,
    PEERS_SLOW_LANE = PEERS_LANES,
    PEERS_COPY_LANE,
    PEERS_LANES_ALL,
};

#define PEERS_PATH "/v1/peer" /* path of the internal listener */

/* Directions of messages; each has its own key. */
#define PEERS_ASKS    "tickwheel peer asks"
#define PEERS_ANSWERS "tickwheel peer answers"

struct peers_lane {
    struct peers_node *node;
    bool is_slow;    /* for commands that read many rows */
    bool has_thread; /* its thread, which starts with its first request, runs */
    bool is_free;    /* it waits for a request. Guarded by peers->lock, like `has_thread` */
    pthread_t thread;
    void *curl; /* connection; NULL if none. Private to the thread, like the next field */
    struct instant used;
    unsigned trust; /* peers->trust at the time of the connection */
    unsigned key;   /* number of the secret that proves its messages; private to the thread */
    uint32_t peer;  /* node->id at the time of the connection; private to the thread */
};

/* A secret of the cluster. */
struct peers_secret {
    char *text; /* NULL if there is none */
    size_t size;
};

/* Another node. peers->lock guards all fields but `peers`; `id` changes only while no lane is in
 * use. */
struct peers_node {
    struct peers *peers;
    uint32_t id;
    struct list waiting[2]; /* struct peers_request; [1] for the slow lane */
    size_t waiting_weight, waiting_bytes;
    struct list copies; /* of struct peers_copy */
    pthread_cond_t changed;
    struct peers_lane lanes[PEERS_LANES_ALL];
};

struct peers {
    struct peers_host host;
    uint64_t cluster, wait_ms;
    uint32_t id;
    pthread_mutex_t secrets_lock;
    struct peers_secret secrets[2]; /* number n is at index n % 2 */
    unsigned newest;                /* number of the newest secret; the one before is the former */
    char *ca_file;                  /* NULL without TLS */
    struct http_server *server;
    atomic_size_t inbound; /* size of other nodes' messages under way */

    pthread_mutex_t lock;
    struct peers_node *nodes[PEERS_NODES_MAX];
    size_t node_count;
    struct list homeless;   /* struct peers_request: without a known owner, to be looked up again */
    struct instant look_at; /* time of that, if there are some */
    struct list asks;       /* of struct peers_ask */
    size_t ask_count;
    pthread_cond_t asked;
    pthread_t giver; /* answers them; started with the first */
    bool has_giver;
    atomic_bool is_stopping;

    /* Task that looks up the owners of homeless requests, on the loop that serves the listener. */
    struct event_loop *loops[1];
    struct event_task keeper;
    atomic_bool ends;
    pthread_cond_t left; /* has_keeper became false */
    bool has_keeper;     /* guarded by lock, as the fields before the task */
    atomic_uint trust;   /* incremented when the certificates are read again */

    atomic_uint_fast64_t sent, answered, received, refused, moved, failed, doubtful;
};

/* A request of another node for a page of a copy. */
struct peers_ask {
    struct list link;
    struct http_request *http;
    const uint8_t *asked; /* proof of the request */
    unsigned key;         /* number of the secret of that proof */
    struct storage_export at;
};

/* ---- peers_proof.c ---- */

/* Computes the proof of `message` with the secret of this number. Returns false if the secret is
 * not in use any more, or memory is short. */
bool peers_mac(struct peers *peers, unsigned key, const char *way, const uint8_t *asked,
               struct bytes message, uint8_t ret_mac[PEERS_MAC_SIZE]);

/* True if the message of another node has a valid proof; `ret_key` is the number of its secret. */
bool peers_is_proven(struct peers *peers, const uint8_t *proof, struct bytes message,
                     unsigned *ret_key);

/* Returns the number of the newest secret. peers_has_former_key: true if nodes may use the one
 * before. */
unsigned peers_newest_key(struct peers *peers);
bool peers_has_former_key(struct peers *peers);

/* Appends a greeting, or the answer to the greeting whose proof is `asked`. */
void peers_put_greeting(struct peers *peers, unsigned key, const char *way, const uint8_t *asked,
                        struct buffer *out);

/* Erases the secrets from memory. */
void peers_forget_secrets(struct peers *peers);

/* ---- peers_lane.c ---- */

/* Outcome of a message: answered, or why not. */
enum peers_outcome {
    PEERS_ANSWERED,
    PEERS_UNSENT,   /* the other node has not acted on it, and will not */
    PEERS_REFUSED,  /* likewise, because it cannot read it: it may be of an earlier version */
    PEERS_DOUBTFUL, /* the other node may have acted on it */
};

/* Proves the message in `out`, which begins with room for the proof, sends it, and reads the
 * answer: `ret_answer` points into the buffer `in`. */
enum peers_outcome peers_lane_exchange(struct peers_lane *lane, struct buffer *out,
                                       struct instant until, struct buffer *in,
                                       struct bytes *ret_answer);
void peers_lane_close(struct peers_lane *lane);

/* ---- peers_copy.c ---- */

void *peers_copy_run(void *lane);
void *peers_give_run(void *peers);

/* Takes the request of another node for later. Returns false if too many wait. */
bool peers_take_ask(struct peers *peers, struct peers_ask *ask);

/* Ends all requests for pages, after the threads have ended. */
void peers_end_copies(struct peers *peers);

/* ---- peers_listen.c ---- */

enum error_code peers_listen(struct peers *peers, const struct peers_options *options,
                             struct error *ret_error);

#endif
