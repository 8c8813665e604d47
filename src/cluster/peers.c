/* peers.c - requests on their way to other nodes: where each goes, and what becomes of it. */
#include "cluster/peers_private.h"

#include "sys/clock.h"

#include <assert.h>
#include <curl/curl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#define PEERS_LOOK_MS 25 /* interval of look-ups of a partition's owner */

/* ---- secrets ---- */

unsigned peers_newest_key(struct peers *peers)
{
    pthread_mutex_lock(&peers->secrets_lock);
    const unsigned newest = peers->newest;
    pthread_mutex_unlock(&peers->secrets_lock);
    return newest;
}

bool peers_has_former_key(struct peers *peers)
{
    pthread_mutex_lock(&peers->secrets_lock);
    const bool has_former = peers->secrets[(peers->newest + 1) % 2].text != NULL;
    pthread_mutex_unlock(&peers->secrets_lock);
    return has_former;
}

static void peers_forget_secret(struct peers_secret *secret)
{
    if (secret->text)
        explicit_bzero(secret->text, secret->size);
    free(secret->text);
    *secret = (struct peers_secret){0};
}

enum error_code peers_set_secret(struct peers *peers, struct bytes secret, bool is_founded)
{
    assert(secret.size > 0);
    char *copy = malloc(secret.size);
    if (!copy)
        return ERROR_NO_MEMORY;
    memcpy(copy, secret.data, secret.size);
    pthread_mutex_lock(&peers->secrets_lock);
    const struct peers_secret *newest = &peers->secrets[peers->newest % 2];
    const bool is_same =
        newest->text && bytes_equal((struct bytes){newest->text, newest->size}, secret);
    if (is_founded)
        peers_forget_secret(&peers->secrets[(peers->newest + 1) % 2]);
    if (is_founded && !is_same)
        peers->newest++; /* the previous secret becomes the former one */
    peers_forget_secret(&peers->secrets[peers->newest % 2]);
    peers->secrets[peers->newest % 2] = (struct peers_secret){copy, secret.size};
    pthread_mutex_unlock(&peers->secrets_lock);
    return ERROR_NONE;
}

/* Derives the key for messages in one direction from the secret `key`. */
static bool peers_key(struct peers *peers, unsigned key, const char *way,
                      uint8_t ret_key[PEERS_MAC_SIZE])
{
    unsigned size = 0;

    pthread_mutex_lock(&peers->secrets_lock);
    const struct peers_secret *secret = &peers->secrets[key % 2];
    const bool is_used = secret->text && (key == peers->newest || key + 1 == peers->newest);
    const bool is_done = is_used && HMAC(EVP_sha256(), secret->text, (int)secret->size,
                                         (const uint8_t *)way, strlen(way), ret_key, &size);
    pthread_mutex_unlock(&peers->secrets_lock);
    return is_done;
}

bool peers_mac(struct peers *peers, unsigned key, const char *way, const uint8_t *asked,
               struct bytes message, uint8_t ret_mac[PEERS_MAC_SIZE])
{
    uint8_t digests[2 * PEERS_MAC_SIZE] = {0}, inner[PEERS_MAC_SIZE] = {0};
    unsigned size = 0;

    /* First the key of the direction, then that of this question. */
    if (!peers_key(peers, key, way, digests))
        return false;
    if (asked)
        memcpy(inner, asked, PEERS_MAC_SIZE);
    if (!HMAC(EVP_sha256(), digests, PEERS_MAC_SIZE, inner, PEERS_MAC_SIZE,
              digests + PEERS_MAC_SIZE, &size))
        return false;
    return HMAC(EVP_sha256(), digests + PEERS_MAC_SIZE, PEERS_MAC_SIZE,
                (const uint8_t *)message.data, message.size, ret_mac, &size) != NULL;
}

bool peers_is_proven(struct peers *peers, const uint8_t *proof, struct bytes message,
                     unsigned *ret_key)
{
    const unsigned newest = peers_newest_key(peers);

    for (unsigned age = 0; age < 2; age++) {
        uint8_t mac[PEERS_MAC_SIZE];

        *ret_key = newest - age;
        if (peers_mac(peers, *ret_key, PEERS_ASKS, NULL, message, mac) &&
            CRYPTO_memcmp(mac, proof, PEERS_MAC_SIZE) == 0)
            return true;
    }
    return false;
}

void peers_put_greeting(struct peers *peers, unsigned key, const char *way, const uint8_t *asked,
                        struct buffer *out)
{
    const struct wire_head head = {WIRE_GREETING, peers->cluster, peers->id, 0};

    buffer_append(out, (char[PEERS_MAC_SIZE]){0}, PEERS_MAC_SIZE);
    const size_t begin = wire_begin(out, &head);
    wire_end(out, begin);
    if (buffer_failed(out))
        return;
    const struct bytes message = {out->data + PEERS_MAC_SIZE, out->size - PEERS_MAC_SIZE};
    (void)peers_mac(peers, key, way, asked, message, (uint8_t *)out->data);
}

/* ---- ends ---- */

/* Ends a request whose command has its answer, or has failed. */
static void peers_end(struct peers_request *request)
{
    command_drop_timers(request->command);
    request->done(request);
}

void peers_fail(struct peers *peers, struct peers_request *request, enum error_code error)
{
    atomic_fetch_add(error == ERROR_IN_DOUBT ? &peers->doubtful : &peers->failed, 1);
    wire_fail(request->command, error);
    peers_end(request);
}

static void peers_fail_all(struct peers *peers, struct list *requests, enum error_code error)
{
    for (struct list *link; (link = list_pop(requests));)
        peers_fail(peers, list_item(link, struct peers_request, link_), error);
}

/* ---- other nodes ---- */

static void peers_node_destroy(struct peers_node *node)
{
    for (size_t i = 0; i < PEERS_LANES_ALL; i++)
        if (node->lanes[i].has_thread)
            pthread_join(node->lanes[i].thread, NULL);
    pthread_cond_destroy(&node->changed);
    free(node);
}

/* Makes a node with its threads; the caller holds the lock. NULL if out of memory or threads. */
static struct peers_node *peers_node_create(struct peers *peers, uint32_t id)
{
    struct peers_node *node = calloc(1, sizeof(*node));

    if (!node)
        return NULL;
    node->peers = peers;
    node->id = id;
    list_init(&node->waiting[0]);
    list_init(&node->waiting[1]);
    list_init(&node->copies);
    pthread_cond_init(&node->changed, NULL);
    for (size_t i = 0; i < PEERS_LANES_ALL; i++) {
        struct peers_lane *lane = &node->lanes[i];

        lane->node = node;
        lane->is_slow = i == PEERS_SLOW_LANE;
        lane->has_thread =
            pthread_create(&lane->thread, NULL,
                           i == PEERS_COPY_LANE ? peers_copy_run : peers_lane_run, lane) == 0;
    }
    return node;
}

static bool peers_node_serves(const struct peers_node *node, bool is_slow)
{
    return node->lanes[is_slow ? PEERS_SLOW_LANE : 0].has_thread;
}

struct peers_node *peers_node_of(struct peers *peers, uint32_t id)
{
    for (size_t i = 0; i < peers->node_count; i++)
        if (peers->nodes[i]->id == id)
            return peers->nodes[i];
    if (peers->node_count == PEERS_NODES_MAX)
        return NULL;
    struct peers_node *node = peers_node_create(peers, id);
    if (node)
        peers->nodes[peers->node_count++] = node;
    return node;
}

/* ---- on the way ---- */

/* True if the command may take long at the other node. */
static bool peers_is_slow(const struct command *command)
{
    const enum command_kind kind = command->kind;

    return kind == COMMAND_LIST || kind == COMMAND_FORECAST || kind == COMMAND_COMPLETE ||
           (kind == COMMAND_SURVEY && !command_is_of_node(command));
}

static void peers_measure(struct peers_request *request)
{
    const struct command *command = request->command;

    request->weight_ = command_weight(command);
    request->bytes_ = command->patch ? command->patch->footprint : 0;
    for (size_t i = 0; i < command->timer_count; i++)
        request->bytes_ += command->timers[i]->footprint;
}

/* Queues the request for a node. Returns false if too much waits for it, or it cannot be served. */
static bool peers_queue(struct peers *peers, uint32_t id, struct peers_request *request)
{
    const bool is_slow = peers_is_slow(request->command);

    pthread_mutex_lock(&peers->lock);
    struct peers_node *node = peers_node_of(peers, id);
    const bool fits = node && peers_node_serves(node, is_slow) &&
                      node->waiting_weight + request->weight_ <= PEERS_WAITING_MAX &&
                      (node->waiting_bytes == 0 || /* one request alone may be larger */
                       node->waiting_bytes + request->bytes_ <= PEERS_BYTES_MAX);
    if (fits) {
        list_push(&node->waiting[is_slow], &request->link_);
        node->waiting_weight += request->weight_;
        node->waiting_bytes += request->bytes_;
        pthread_cond_broadcast(&node->changed);
    }
    pthread_mutex_unlock(&peers->lock);
    return fits;
}

static void peers_await_owner(struct peers *peers, struct peers_request *request)
{
    pthread_mutex_lock(&peers->lock);
    list_push(&peers->homeless, &request->link_);
    pthread_cond_signal(&peers->changed);
    pthread_mutex_unlock(&peers->lock);
}

/* Sends a request to the present owner of its partition, or to the node that it is about. */
static void peers_route(struct peers *peers, struct peers_request *request)
{
    const struct peers_host *host = &peers->host;
    uint32_t node = 0;

    if (command_is_of_node(request->command)) {
        node = request->command->survey->node;
    } else if (host->is_here(host->context, request->command->partition, &node)) {
        host->take_back(host->context, request);
        return;
    }
    if (request->hint_)
        node = request->hint_; /* the node that answered has read more of the log */
    request->hint_ = 0;
    const bool is_known = node != 0 && node != peers->id;
    if (is_known && peers_queue(peers, node, request))
        return;
    if (is_known) /* Refused at the next look, so that `done` is not called within peers_post. */
        request->until_ = (struct instant){0};
    peers_await_owner(peers, request);
}

void peers_post(struct peers *peers, struct list *requests)
{
    const struct instant until = instant_add_ms(instant_now(), peers->wait_ms);

    for (struct list *link; (link = list_pop(requests));) {
        struct peers_request *request = list_item(link, struct peers_request, link_);

        request->until_ = until;
        request->hint_ = 0;
        peers_measure(request);
        if (atomic_load(&peers->is_stopping))
            peers_fail(peers, request, ERROR_STOPPING);
        else
            peers_route(peers, request);
    }
}

void peers_gather(struct peers_lane *lane, struct list *ret_requests)
{
    struct peers_node *node = lane->node;
    struct peers *peers = node->peers;
    struct list *waiting = &node->waiting[lane->is_slow];
    struct list late;
    size_t weight = 0;

    list_init(&late);
    pthread_mutex_lock(&peers->lock);
    while (list_is_empty(waiting) && !atomic_load(&peers->is_stopping))
        pthread_cond_wait(&node->changed, &peers->lock);
    const struct instant now = instant_now();
    while (!list_is_empty(waiting) && !atomic_load(&peers->is_stopping)) {
        struct peers_request *request = list_item(waiting->next, struct peers_request, link_);

        if (weight > 0 && weight + request->weight_ > PEERS_COMMANDS_MAX)
            break;
        list_remove(&request->link_);
        node->waiting_weight -= request->weight_;
        node->waiting_bytes -= request->bytes_;
        if (request->until_.ns <= now.ns) {
            list_push(&late, &request->link_);
        } else {
            list_push(ret_requests, &request->link_);
            weight += request->weight_;
        }
    }
    pthread_mutex_unlock(&peers->lock);
    peers_fail_all(peers, &late, ERROR_OVERLOADED);
}

/* ---- answers ---- */

/* Repeats a request that the message's answers do not include. */
static void peers_repeat(struct peers *peers, struct peers_request *request,
                         enum peers_outcome outcome)
{
    if (outcome == PEERS_UNSENT || command_is_read(request->command->kind))
        peers_await_owner(peers, request);
    else
        peers_fail(peers, request, ERROR_IN_DOUBT);
}

static void peers_settle_one(struct peers_node *node, struct peers_request *request,
                             const struct wire_answer *answer, struct wire_held *held)
{
    struct peers *peers = node->peers;

    switch (answer->fate) {
    case WIRE_ANSWERED:
        peers_end(request);
        wire_held_deinit(held);
        break;
    case WIRE_FAILED:
        peers_fail(peers, request, answer->error);
        break;
    case WIRE_ELSEWHERE:
        atomic_fetch_add(&peers->moved, 1);
        request->hint_ = answer->node != node->id ? answer->node : 0;
        peers_await_owner(peers, request);
        break;
    }
}

void peers_settle(struct peers_node *node, struct list *requests, enum peers_outcome outcome,
                  struct bytes answers)
{
    struct peers *peers = node->peers;
    struct wire_reader reader;

    if (outcome == PEERS_ANSWERED &&
        (wire_open(answers, &reader, NULL) || reader.head.kind != WIRE_ANSWERS ||
         reader.head.cluster != peers->cluster || reader.head.node != node->id))
        outcome = PEERS_DOUBTFUL;
    for (struct list *link; (link = list_pop(requests));) {
        struct peers_request *request = list_item(link, struct peers_request, link_);
        struct wire_answer answer;
        struct wire_held held;

        if (outcome == PEERS_ANSWERED &&
            wire_take_answer(&reader, request->command, &answer, &held)) {
            peers_settle_one(node, request, &answer, &held);
        } else {
            outcome = outcome == PEERS_ANSWERED ? PEERS_DOUBTFUL : outcome;
            peers_repeat(peers, request, outcome);
        }
    }
}

/* ---- requests without an owner ---- */

static void peers_look_again(struct peers *peers, struct list *requests)
{
    const struct instant now = instant_now();

    for (struct list *link; (link = list_pop(requests));) {
        struct peers_request *request = list_item(link, struct peers_request, link_);

        if (request->until_.ns <= now.ns)
            peers_fail(peers, request, ERROR_OVERLOADED);
        else
            peers_route(peers, request);
    }
}

static void *peers_keep(void *argument)
{
    struct peers *peers = argument;
    struct list requests;

    list_init(&requests);
    pthread_mutex_lock(&peers->lock);
    while (!atomic_load(&peers->is_stopping)) {
        if (list_is_empty(&peers->homeless)) {
            pthread_cond_wait(&peers->changed, &peers->lock);
            continue;
        }
        const struct timespec until =
            instant_timespec(instant_add_ms(instant_now(), PEERS_LOOK_MS));
        while (!atomic_load(&peers->is_stopping) &&
               pthread_cond_timedwait(&peers->changed, &peers->lock, &until) == 0)
            continue;
        list_join(&requests, &peers->homeless);
        pthread_mutex_unlock(&peers->lock);
        peers_look_again(peers, &requests);
        pthread_mutex_lock(&peers->lock);
    }
    pthread_mutex_unlock(&peers->lock);
    return NULL;
}

/* ---- start and stop ---- */

static void peers_free(struct peers *peers)
{
    for (size_t i = 0; i < peers->node_count; i++)
        peers_node_destroy(peers->nodes[i]);
    pthread_cond_destroy(&peers->changed);
    pthread_cond_destroy(&peers->asked);
    pthread_mutex_destroy(&peers->lock);
    pthread_mutex_destroy(&peers->secrets_lock);
    peers_forget_secret(&peers->secrets[0]);
    peers_forget_secret(&peers->secrets[1]);
    free(peers->ca_file);
    free(peers);
    curl_global_cleanup();
}

static struct peers *peers_alloc(const struct peers_options *options)
{
    struct peers *peers = calloc(1, sizeof(*peers));

    if (!peers || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(peers);
        return NULL;
    }
    peers->host = *options->host;
    peers->cluster = options->cluster;
    peers->id = options->node;
    peers->wait_ms = options->wait_ms;
    list_init(&peers->homeless);
    list_init(&peers->asks);
    pthread_cond_init(&peers->asked, NULL);
    pthread_mutex_init(&peers->lock, NULL);
    pthread_mutex_init(&peers->secrets_lock, NULL);
    instant_condition_init(&peers->changed);
    peers->ca_file = options->ca_file ? strdup(options->ca_file) : NULL;
    if (peers_set_secret(peers, options->secret, true) || (options->ca_file && !peers->ca_file)) {
        peers_free(peers);
        return NULL;
    }
    return peers;
}

enum error_code peers_start(const struct peers_options *options, struct peers **ret_peers,
                            struct error *ret_error)
{
    if (options->secret.size == 0)
        return error_set(ret_error, ERROR_INVALID, "the secret of the cluster is empty");
    struct peers *peers = peers_alloc(options);
    if (!peers)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    peers->has_giver =
        options->host->give && pthread_create(&peers->giver, NULL, peers_give_run, peers) == 0;
    enum error_code code = peers_listen(peers, options, ret_error);
    if (!code) {
        peers->has_keeper = pthread_create(&peers->keeper, NULL, peers_keep, peers) == 0;
        if (!peers->has_keeper)
            code = error_set(ret_error, ERROR_IO, "no thread for the requests of other nodes");
    }
    if (code) {
        peers_stop(peers);
        return code;
    }
    *ret_peers = peers;
    return ERROR_NONE;
}

void peers_stop(struct peers *peers)
{
    struct list rest;

    list_init(&rest);
    pthread_mutex_lock(&peers->lock);
    atomic_store(&peers->is_stopping, true);
    pthread_cond_broadcast(&peers->changed);
    pthread_cond_broadcast(&peers->asked);
    for (size_t i = 0; i < peers->node_count; i++)
        pthread_cond_broadcast(&peers->nodes[i]->changed);
    pthread_mutex_unlock(&peers->lock);
    if (peers->server)
        http_server_stop(peers->server);
    if (peers->has_keeper)
        pthread_join(peers->keeper, NULL);
    if (peers->has_giver)
        pthread_join(peers->giver, NULL);
    for (size_t i = 0; i < peers->node_count; i++)
        for (size_t j = 0; j < PEERS_LANES_ALL; j++)
            if (peers->nodes[i]->lanes[j].has_thread) {
                pthread_join(peers->nodes[i]->lanes[j].thread, NULL);
                peers->nodes[i]->lanes[j].has_thread = false;
            }
    list_join(&rest, &peers->homeless);
    for (size_t i = 0; i < peers->node_count; i++) {
        list_join(&rest, &peers->nodes[i]->waiting[0]);
        list_join(&rest, &peers->nodes[i]->waiting[1]);
    }
    peers_fail_all(peers, &rest, ERROR_STOPPING);
    peers_end_copies(peers);
    peers_free(peers);
}

uint16_t peers_port(const struct peers *peers)
{
    return http_server_port(peers->server);
}

void peers_set_identity(struct peers *peers, struct tls_identity *identity)
{
    http_server_set_identity(peers->server, identity);
    atomic_fetch_add(&peers->trust, 1); /* lanes connect again, with the present ca_file */
}

void peers_stats(struct peers *peers, struct peers_stats *ret_stats)
{
    *ret_stats = (struct peers_stats){
        .sent = atomic_load(&peers->sent),
        .answered = atomic_load(&peers->answered),
        .received = atomic_load(&peers->received),
        .refused = atomic_load(&peers->refused),
        .moved = atomic_load(&peers->moved),
        .failed = atomic_load(&peers->failed),
        .doubtful = atomic_load(&peers->doubtful),
    };
}
