/*
 * peers.h - passes commands to the nodes that own their partitions, and takes in those that other
 * nodes pass on.
 *
 *     peers_start(&options, &peers, &error);
 *     peers_post(peers, &requests);          each comes back by its `done`, soon or after wait_ms
 *     peers_stop(peers);
 *
 * A request whose owner is unknown, out of reach or not the owner any more waits, and the owner is
 * looked up again, until wait_ms is over: then it fails with OVERLOADED, and nothing was done. A
 * change that was sent and has no answer fails with IN_DOUBT: it may have been done. Reads are
 * repeated.
 *
 * Each other node has connections of its own, each with a thread that starts when it is needed:
 * PEERS_LANES of them, another one for commands that read many rows, and another for pages of
 * copies (copy.h); so a silent node holds up nothing but its own requests. Both sides prove with
 * each message that they know the secret.
 *
 * The first message on a connection is a greeting. Until a message of a connection is proved, the
 * listener takes no more than PEERS_STRANGER_SIZE_MAX bytes of it, and counts nothing for it; such
 * connections take no places from proved ones. A node that has no answer to its greeting has sent
 * nothing: its requests are never in doubt.
 *
 * Ownership  A request is lent until `done`. Its timers and its patch are taken, as an engine takes
 *            them.
 * Threads    peers_post and peers_copy from any thread. `done`, and the calls of the host, on any
 *            thread; they do not wait, but for `give`.
 */
#ifndef TICKWHEEL_CLUSTER_PEERS_H
#define TICKWHEEL_CLUSTER_PEERS_H

#include "cluster/copy.h"
#include "http/tls.h"

enum {
    PEERS_ADDRESS_SIZE = 256,
    /* concurrent messages to one node, besides one for reads of many rows and one for a page of
     * a copy */
    PEERS_LANES = 3,
    PEERS_ASKS_MAX = 8,   /* maximum of waiting requests for pages, of all nodes */
    PEERS_NODES_MAX = 64, /* other nodes */
    /* maximum of commands of a message, by command_weight; one command alone may exceed it */
    PEERS_COMMANDS_MAX = 4096,
    /* maximum of commands that wait for one node; further ones are refused */
    PEERS_WAITING_MAX = 65536,
    PEERS_BYTES_MAX = 64 << 20,    /* maximum size of their timers */
    PEERS_INBOUND_MAX = 256 << 20, /* maximum size of other nodes' messages that are under way */
    PEERS_STRANGERS_MAX = 256,     /* maximum of connections to the listener without a proof */
    /* maximum size of the first message of a connection, which has the proof */
    PEERS_STRANGER_SIZE_MAX = 4096,
    PEERS_STRANGER_MS = 3000, /* time after which a connection without a proof is closed */
};

struct peers;

/* A command for another node. Embed it, and fill in `command` and `done`. */
struct peers_request {
    struct list link_;
    struct command *command;
    void *context; /* the caller's */
    /* its timers and page are valid only during the call */
    void (*done)(struct peers_request *request);
    /* Peers' own. */
    struct instant until_;
    uint32_t hint_; /* owner named by another node; 0 if none */
    size_t weight_, bytes_;
};

/* A command that another node passed on. */
struct peers_job {
    struct command command;
    void (*done)(struct peers_job *job); /* called by the host with the answer in `command` */
    void *room;                          /* job_room bytes for the host */
};

/* A request for a page of a copy from another node. Embed it, and fill in the fields up to
 * `done`. */
struct peers_copy {
    uint32_t node;
    struct storage_export at; /* where the page begins */
    /* The page is valid only during the call. NULL if the node gives none, or does not answer in
     * wait_ms. May be called within peers_copy. */
    void (*done)(struct peers_copy *copy, const struct copy_page *page);
    struct list link_;
};

/* Callbacks to the node. */
struct peers_host {
    void *context;
    size_t job_room;
    /* True if this node owns the partition; if not, returns the owner, 0 if unknown. */
    bool (*is_here)(void *context, uint16_t partition, uint32_t *ret_node);
    /* Returns "host:port" of a node's internal listener, or false. */
    bool (*address)(void *context, uint32_t node, char ret_address[PEERS_ADDRESS_SIZE]);
    /* Hands another node's command to its engine. On an error nothing was taken. */
    enum error_code (*submit)(void *context, struct peers_job *job);
    /* Takes back a request whose partition came to this node while it waited. */
    void (*take_back)(void *context, struct peers_request *request);
    /* Reads the page of a copy that begins at page->at, and appends its rows to `rows`. Returns
     * false if this node has none. Called on a thread that may wait for a disk. NULL if the node
     * gives no copies. */
    bool (*give)(void *context, struct copy_page *page, struct buffer *rows);
};

struct peers_options {
    uint64_t cluster;
    uint32_t node;       /* number of this node, from 1 */
    struct bytes secret; /* secret of all nodes; not empty; copied */
    const char *address; /* numeric address to listen on */
    uint16_t port;       /* 0 for any free port */
    uint64_t wait_ms;
    struct tls_identity *identity; /* certificate for other nodes; NULL without TLS */
    const char *ca_file;           /* authorities of other nodes' certificates; NULL without TLS */
    const struct peers_host *host; /* borrowed until peers_stop */
    /* loop that serves the listener; its thread runs it until peers_stop has returned, and does not
     * call peers_stop */
    struct event_loop *loop;
};

struct peers_stats {
    uint64_t sent, answered; /* messages to other nodes */
    /* messages from other nodes; refused: wrong secret, cluster or version */
    uint64_t received, refused;
    uint64_t moved;            /* commands whose partition was on another node */
    uint64_t failed, doubtful; /* commands that failed with OVERLOADED, and with IN_DOUBT */
};

enum error_code peers_start(const struct peers_options *options, struct peers **ret_peers,
                            struct error *ret_error);

/* Returns after every request has come back. */
void peers_stop(struct peers *peers);

/* Takes the requests and empties the list. */
void peers_post(struct peers *peers, struct list *requests);

/* Borrows `copy` until its `done` is called. */
void peers_copy(struct peers *peers, struct peers_copy *copy);

uint16_t peers_port(const struct peers *peers);

/* Sets the certificate for new connections of other nodes. For peers that were started with one. */
void peers_set_identity(struct peers *peers, struct tls_identity *identity);

/* Sets the secret that proves messages, which may be unchanged. `is_founded`: the cluster is
 * founded with the secret before, which then becomes the former one. Messages with the former
 * secret are accepted, and nodes that lack the new one get messages with it. Otherwise the
 * former secret stays. On ERROR_NO_MEMORY nothing changes. May be called from any thread. */
enum error_code peers_set_secret(struct peers *peers, struct bytes secret, bool is_founded);

void peers_stats(struct peers *peers, struct peers_stats *ret_stats);

#endif
