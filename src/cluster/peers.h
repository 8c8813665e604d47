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
 * Each other node has threads and connections of its own, PEERS_LANES of them, one for
 * commands that read many rows, and one for pages of copies (copy.h); so a silent node holds up
 * nothing but its own requests. Both sides prove with each message that they know the secret.
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
    PEERS_LANES = 3,            /* messages to one node at once, beside one of reads of many rows,
                                   and one for a page of a copy */
    PEERS_ASKS_MAX = 8,         /* for pages, of all nodes, that wait */
    PEERS_NODES_MAX = 64,       /* other nodes */
    PEERS_COMMANDS_MAX = 4096,  /* of a message, by command_weight, unless one alone has more */
    PEERS_WAITING_MAX = 65536,  /* commands that wait for one node; further ones are refused */
    PEERS_BYTES_MAX = 64 << 20, /* of their timers */
    PEERS_INBOUND_MAX = 256 << 20,  /* of messages of other nodes that are under way */
    PEERS_STRANGERS_MAX = 256,      /* connections to the listener without a proof yet */
    PEERS_STRANGER_SIZE_MAX = 4096, /* of the first message of a connection, which proves it */
    PEERS_STRANGER_MS = 3000,       /* after which a connection without a proof is closed */
};

struct peers;

/* A command on its way. Embed it, and fill in `command` and `done`. */
struct peers_request {
    struct list link_;
    struct command *command;
    void (*done)(struct peers_request *request); /* its timers and page are valid only during it */
    /* Peers' own. */
    struct instant until_;
    uint32_t hint_; /* the owner, as another node says; 0: none */
    size_t weight_, bytes_;
};

/* A command that another node passed on. */
struct peers_job {
    struct command command;
    void (*done)(struct peers_job *job); /* the host calls it with the answer in `command` */
    void *room;                          /* job_room bytes, the host's own */
};

/* A page of a copy that another node is asked for. Embed it, and fill in what stands first. */
struct peers_copy {
    uint32_t node;
    struct storage_export at; /* where the page begins */
    /* The page is valid only during it; NULL: the node gives none, or does not answer in wait_ms.
     * It may be called by peers_copy. */
    void (*done)(struct peers_copy *copy, const struct copy_page *page);
    struct list link_;
};

/* The node that the peers serve. */
struct peers_host {
    void *context;
    size_t job_room;
    /* Whether the partition is this node's; if not, whose it is, 0 when that is unknown. */
    bool (*is_here)(void *context, uint16_t partition, uint32_t *ret_node);
    /* "host:port" of a node's internal listener, or false. */
    bool (*address)(void *context, uint32_t node, char ret_address[PEERS_ADDRESS_SIZE]);
    /* Hands the command of another node to its engine. On an error nothing was taken. */
    enum error_code (*submit)(void *context, struct peers_job *job);
    /* The partition of a request came here while it waited: takes the request. */
    void (*take_back)(void *context, struct peers_request *request);
    /* Reads the page of a copy that begins at page->at, and puts its rows behind `rows`; false:
     * this node has none. On a thread that may wait for a disk. NULL: it gives none. */
    bool (*give)(void *context, struct copy_page *page, struct buffer *rows);
};

struct peers_options {
    uint64_t cluster;
    uint32_t node;       /* this one: 1 .. */
    struct bytes secret; /* of all nodes of the cluster; not empty; copied */
    const char *address; /* to listen on: numeric */
    uint16_t port;       /* 0: any free one */
    uint64_t wait_ms;
    struct tls_identity *identity; /* shown to other nodes; NULL: without TLS */
    const char *ca_file;           /* that other nodes' certificates lead to; NULL: without TLS */
    const struct peers_host *host; /* borrowed until peers_stop */
};

struct peers_stats {
    uint64_t sent, answered;    /* messages to others */
    uint64_t received, refused; /* messages of others; refused: another secret, cluster, version */
    uint64_t moved;             /* commands whose partition was elsewhere */
    uint64_t failed, doubtful;  /* commands that failed with OVERLOADED, with IN_DOUBT */
};

enum error_code peers_start(const struct peers_options *options, struct peers **ret_peers,
                            struct error *ret_error);

/* Every request comes back before it returns. */
void peers_stop(struct peers *peers);

/* Takes the requests of a list, which is empty afterwards. */
void peers_post(struct peers *peers, struct list *requests);

/* Lent until `done`. */
void peers_copy(struct peers *peers, struct peers_copy *copy);

uint16_t peers_port(const struct peers *peers);

/* New connections of other nodes are shown this identity. For peers that were started with one. */
void peers_set_identity(struct peers *peers, struct tls_identity *identity);

/* Messages are proved by this secret from now on, which may be the same. `is_founded`: the cluster
 * is founded with the secret before. That is then the former one: messages of nodes that have it
 * are taken, and it is used towards nodes that do not know the new one. Otherwise the former stays.
 * ERROR_NO_MEMORY: nothing changed. From any thread. */
enum error_code peers_set_secret(struct peers *peers, struct bytes secret, bool is_founded);

void peers_stats(struct peers *peers, struct peers_stats *ret_stats);

#endif
