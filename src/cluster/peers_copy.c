/* peers_copy.c - pages of copies: asked for on a lane of its own, and given by a thread that may
 * wait for a disk. */
#include "cluster/peers_private.h"

#include "sys/clock.h"
#include "sys/process.h"

/* ---- pages of another node ---- */

/* Returns the next request; NULL if the peers stop. */
static struct peers_copy *copy_await(struct peers_lane *lane)
{
    struct peers_node *node = lane->node;
    struct peers *peers = node->peers;

    pthread_mutex_lock(&peers->lock);
    lane->is_free = true;
    while (list_is_empty(&node->copies) && !atomic_load(&peers->is_stopping))
        pthread_cond_wait(&node->changed, &peers->lock);
    lane->is_free = false;
    struct list *link = atomic_load(&peers->is_stopping) ? NULL : list_pop(&node->copies);
    pthread_mutex_unlock(&peers->lock);
    return link ? list_item(link, struct peers_copy, link_) : NULL;
}

static bool copy_read_page(const struct peers_node *node, const struct peers_copy *copy,
                           struct bytes answer, struct copy_page *ret_page)
{
    struct wire_reader reader;

    return wire_open(answer, &reader, NULL) == ERROR_NONE && reader.head.kind == WIRE_COPY_PAGE &&
           reader.head.cluster == node->peers->cluster && reader.head.node == node->id &&
           copy_take_page(&reader, ret_page) && ret_page->at.partition == copy->at.partition;
}

static void copy_serve(struct peers_lane *lane, struct peers_copy *copy)
{
    const struct peers *peers = lane->node->peers;
    const struct wire_head head = {.cluster = peers->cluster, .node = peers->id};
    const struct instant until = instant_add_ms(instant_now(), peers->wait_ms);
    struct buffer out, in;
    struct bytes answer = {0};
    struct copy_page page;
    bool has_page = false;

    buffer_init(&out);
    buffer_init(&in);
    buffer_append(&out, (char[PEERS_MAC_SIZE]){0}, PEERS_MAC_SIZE);
    copy_put_ask(&out, &head, &copy->at);
    if (!buffer_failed(&out))
        has_page = peers_lane_exchange(lane, &out, until, &in, &answer) == PEERS_ANSWERED &&
                   copy_read_page(lane->node, copy, answer, &page);
    copy->done(copy, has_page ? &page : NULL);
    buffer_deinit(&out);
    buffer_deinit(&in);
}

void *peers_copy_run(void *argument)
{
    struct peers_lane *lane = argument;

    for (struct peers_copy *copy; (copy = copy_await(lane));)
        copy_serve(lane, copy);
    peers_lane_close(lane);
    return NULL;
}

void peers_end_copies(struct peers *peers)
{
    for (size_t i = 0; i < peers->node_count; i++)
        for (struct list *link; (link = list_pop(&peers->nodes[i]->copies));) {
            struct peers_copy *copy = list_item(link, struct peers_copy, link_);

            copy->done(copy, NULL);
        }
}

/* ---- pages for another node ---- */

/* Starts the thread that gives pages with the first request; the caller holds the lock. */
static bool copy_has_giver(struct peers *peers)
{
    if (!peers->has_giver && peers->host.give)
        peers->has_giver = thread_start(&peers->giver, peers_give_run, peers, "tw-copies") == 0;
    return peers->has_giver;
}

bool peers_take_ask(struct peers *peers, struct peers_ask *ask)
{
    pthread_mutex_lock(&peers->lock);
    const bool is_taken = !atomic_load(&peers->is_stopping) && copy_has_giver(peers) &&
                          peers->ask_count < PEERS_ASKS_MAX;
    if (is_taken) {
        list_push(&peers->asks, &ask->link);
        peers->ask_count++;
        pthread_cond_broadcast(&peers->asked);
    }
    pthread_mutex_unlock(&peers->lock);
    return is_taken;
}

/* Returns the next request of another node. Requests already taken are answered even if the
 * peers stop. */
static struct peers_ask *copy_await_ask(struct peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    while (list_is_empty(&peers->asks) && !atomic_load(&peers->is_stopping))
        pthread_cond_wait(&peers->asked, &peers->lock);
    struct list *link = list_pop(&peers->asks);
    peers->ask_count -= link != NULL;
    pthread_mutex_unlock(&peers->lock);
    return link ? list_item(link, struct peers_ask, link) : NULL;
}

static void copy_give(struct peers *peers, struct peers_ask *ask)
{
    const struct wire_head head = {.cluster = peers->cluster, .node = peers->id};
    struct http_response response = {.status = 200, .content_type = "application/octet-stream"};
    struct buffer *out = &response.body, rows;
    struct copy_page page = {.at = ask->at};

    buffer_init(&rows);
    const bool has_page =
        peers->host.give(peers->host.context, &page, &rows) && !buffer_failed(&rows);
    page.rows = buffer_bytes(&rows);
    buffer_append(out, (char[PEERS_MAC_SIZE]){0}, PEERS_MAC_SIZE);
    copy_put_page(out, &head, has_page ? &page : NULL);
    buffer_deinit(&rows);
    if (!buffer_failed(out)) {
        const struct bytes message = {out->data + PEERS_MAC_SIZE, out->size - PEERS_MAC_SIZE};

        (void)peers_mac(peers, ask->key, PEERS_ANSWERS, ask->asked, message, (uint8_t *)out->data);
    }
    http_request_answer(ask->http, &response);
}

void *peers_give_run(void *argument)
{
    struct peers *peers = argument;

    for (struct peers_ask *ask; (ask = copy_await_ask(peers));)
        copy_give(peers, ask);
    return NULL;
}
