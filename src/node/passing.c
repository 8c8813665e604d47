/* passing.c - between the door of a node and its peers. */
#include "node/passing.h"

#include <assert.h>

/* ---- requests of this node ---- */

static void passing_done(struct peers_request *peer)
{
    struct passing *passing = peer->context;

    node_answered(passing->node_, list_item(peer, struct node_request, peer_));
}

static void passing_take_back(void *context, struct peers_request *peer)
{
    struct passing *passing = context;

    node_take_back(passing->node_, list_item(peer, struct node_request, peer_));
}

static void passing_pass(void *context, struct list *requests)
{
    struct passing *passing = context;
    struct list others;

    list_init(&others);
    for (struct list *link; (link = list_pop(requests));) {
        struct node_request *request = list_item(link, struct node_request, link_);

        request->peer_ = (struct peers_request){
            .command = &request->command, .context = passing, .done = passing_done};
        list_push(&others, &request->peer_.link_);
    }
    peers_post(passing->peers_, &others);
}

static bool passing_is_here(void *context, uint16_t partition)
{
    const struct passing *passing = context;
    uint32_t owner;

    return passing->map_.is_here(passing->map_.context, partition, &owner);
}

static uint32_t passing_owner(void *context, uint16_t partition)
{
    const struct passing *passing = context;
    uint32_t owner = 0;

    return passing->map_.is_here(passing->map_.context, partition, &owner) ? 0 : owner;
}

/* ---- requests of other nodes ---- */

struct passing_job {
    struct node_request request;
    struct peers_job *job;
};

static void passing_job_done(struct node_request *request)
{
    struct peers_job *job = list_item(request, struct passing_job, request)->job;

    job->command = request->command;
    job->done(job);
}

static enum error_code passing_submit(void *context, struct peers_job *job)
{
    struct passing *passing = context;
    struct passing_job *local = job->room;

    *local = (struct passing_job){.request = {.command = job->command, .done = passing_job_done},
                                  .job = job};
    return node_submit_here(passing->node_, &local->request);
}

/* Finds the owner of a partition. Partitions beyond the count of this node belong to no node. */
static bool passing_owns(void *context, uint16_t partition, uint32_t *ret_node)
{
    const struct passing *passing = context;

    *ret_node = 0;
    return partition < node_partition_count(passing->node_) &&
           passing->map_.is_here(passing->map_.context, partition, ret_node);
}

static bool passing_address(void *context, uint32_t node, char ret_address[PEERS_ADDRESS_SIZE])
{
    const struct passing *passing = context;

    return passing->map_.address(passing->map_.context, node, ret_address);
}

/* ---- copies ---- */

static void passing_copy(void *context, struct peers_copy *copy)
{
    struct passing *passing = context;

    pthread_mutex_lock(&passing->lock_);
    const bool is_open = passing->peers_;
    if (is_open)
        peers_copy(passing->peers_, copy);
    pthread_mutex_unlock(&passing->lock_);
    if (!is_open)
        copy->done(copy, NULL);
}

static bool passing_give(void *context, struct copy_page *page, struct buffer *rows)
{
    const struct passing *passing = context;

    return node_give_copy(passing->node_, page, rows);
}

/* ---- both ---- */

/* Returns the owner that the node knows. */
static bool passing_node_owns(void *context, uint16_t partition, uint32_t *ret_node)
{
    const struct passing *passing = context;

    return node_owns(passing->node_, partition, ret_node);
}

static bool passing_node_address(void *context, uint32_t member,
                                 char ret_address[PEERS_ADDRESS_SIZE])
{
    const struct passing *passing = context;

    static_assert(PEERS_ADDRESS_SIZE == NODE_ADDRESS_SIZE, "one is written as the other");
    return node_peer_address(passing->node_, member, ret_address);
}

void passing_init(struct passing *passing, const struct passing_map *map)
{
    *passing = (struct passing){.lock_ = PTHREAD_MUTEX_INITIALIZER};
    passing->map_ =
        map ? *map : (struct passing_map){passing, passing_node_owns, passing_node_address};
    passing->route = (struct node_route){.context = passing,
                                         .is_here = passing_is_here,
                                         .owner = passing_owner,
                                         .pass = passing_pass,
                                         .copy = passing_copy};
    passing->host_ = (struct peers_host){.context = passing,
                                         .job_room = sizeof(struct passing_job),
                                         .is_here = passing_owns,
                                         .address = passing_address,
                                         .submit = passing_submit,
                                         .take_back = passing_take_back,
                                         .give = passing_give};
}

static void passing_set_peers(struct passing *passing, struct peers *peers)
{
    pthread_mutex_lock(&passing->lock_);
    passing->peers_ = peers;
    pthread_mutex_unlock(&passing->lock_);
}

enum error_code passing_open(struct passing *passing, struct node *node,
                             const struct peers_options *options, struct error *ret_error)
{
    struct peers_options own = *options;
    struct peers *peers;

    own.host = &passing->host_;
    own.loop = node_peers_loop(node);
    passing->node_ = node;
    const enum error_code code = peers_start(&own, &peers, ret_error);
    if (!code)
        passing_set_peers(passing, peers);
    return code;
}

/* All requests are over; other nodes may still ask for copies. */
void passing_close(struct passing *passing)
{
    struct peers *peers = passing->peers_;

    passing_set_peers(passing, NULL);
    if (peers)
        peers_stop(peers);
}

uint16_t passing_port(const struct passing *passing)
{
    return peers_port(passing->peers_);
}

void passing_set_identity(struct passing *passing, struct tls_identity *identity)
{
    peers_set_identity(passing->peers_, identity);
}

enum error_code passing_set_secret(struct passing *passing, struct bytes secret, bool is_founded)
{
    return peers_set_secret(passing->peers_, secret, is_founded);
}
