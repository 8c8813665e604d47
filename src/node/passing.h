/*
 * passing.h - joins a node with its peers: requests whose partitions other nodes own go to them,
 * and those of other nodes come to the engines of this one.
 *
 *     passing_init(&passing, NULL);
 *     node_start(config, metrics, &events, &passing.route, &node, &error);
 *     passing_open(&passing, node, &options, &error);
 *     ... the API runs ...
 *     passing_close(&passing);
 *     node_stop(node);
 *
 * Ownership  The caller's; it stays where it is from init to the end of the node.
 * Threads    Init, open and close: one. The route: any, from open to close; but for its copies,
 *            which may be asked for at any time.
 */
#ifndef TICKWHEEL_NODE_PASSING_H
#define TICKWHEEL_NODE_PASSING_H

#include "cluster/peers.h"
#include "node/node.h"

/* The owners of partitions, and the addresses of nodes. From any thread; the calls do not wait. */
struct passing_map {
    void *context;
    /* Like the callbacks of struct peers_host. */
    bool (*is_here)(void *context, uint16_t partition, uint32_t *ret_node);
    bool (*address)(void *context, uint32_t node, char ret_address[PEERS_ADDRESS_SIZE]);
};

struct passing {
    struct node_route route;
    struct passing_map map_;
    struct peers_host host_;
    struct node *node_;
    struct peers *peers_;
    pthread_mutex_t lock_; /* guards peers_ for copies */
};

/* Prepares the fields. If `map` is NULL, owners and addresses are those that the node knows
 * (node_owns, node_peer_address). */
void passing_init(struct passing *passing, const struct passing_map *map);

/* Starts the peers; `options->host` is passing's own. */
enum error_code passing_open(struct passing *passing, struct node *node,
                             const struct peers_options *options, struct error *ret_error);

/* Returns the port on which it listens. */
uint16_t passing_port(const struct passing *passing);

/* peers_set_identity. */
void passing_set_identity(struct passing *passing, struct tls_identity *identity);

/* peers_set_secret. */
enum error_code passing_set_secret(struct passing *passing, struct bytes secret, bool is_founded);

/* Closes. When it returns, every request that was passed on is answered. Does nothing if it is not
 * open. */
void passing_close(struct passing *passing);

#endif
