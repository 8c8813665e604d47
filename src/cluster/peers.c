/* peers.c - requests on their way to other nodes: where each goes, and what becomes of it. */
#include "cluster/peers_private.h"

#include "sys/clock.h"
#include "sys/process.h"

#include <curl/curl.h>
#include <stdlib.h>

#define PEERS_LOOK_MS 25 /* interval of look-ups of a partition's owner */

/* ---- ends ---- */

/* Ends a request whose command has its answer, or has failed. */
static void peers_end(struct peers_request *request)
{
    command_drop_timers(request->command);
    request->done(request);
}

/* Fails a request that was not sent. */
static void peers_fail(struct peers *peers, struct peers_request *request, enum error_code error)
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
    pthread_cond_destroy(&node->changed);
    free(node);
}

/* Makes a node; the caller holds the lock. NULL if out of memory. */
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
        node->lanes[i].node = node;
        node->lanes[i].is_slow = i == PEERS_SLOW_LANE;
    }
    return node;
}

/* Starts the thread of a lane, if it has none; the caller holds the lock. Returns false if out of
 * threads. */
static bool peers_lane_start(struct peers_lane *lane, void *(*run)(void *lane))
{
    lane->has_thread = lane->has_thread || thread_start(&lane->thread, run, lane, "tw-peer-%u",
                                                        (unsigned)lane->node->id) == 0;
    return lane->has_thread;
}

static void *peers_run(void *argument);

/* True if a lane takes such requests. If none is free, another is started. Called with the lock,
 * and not after the stop has begun, which joins the threads. */
static bool peers_node_serves(struct peers_node *node, bool is_slow)
{
    const size_t first = is_slow ? PEERS_SLOW_LANE : 0;
    const size_t end = is_slow ? PEERS_SLOW_LANE + 1 : PEERS_LANES;

    for (size_t i = first; i < end; i++) {
        struct peers_lane *lane = &node->lanes[i];

        if (!lane->has_thread)
            return peers_lane_start(lane, peers_run) || i > first;
        if (lane->is_free)
            return true;
    }
    return true;
}

/* True if nothing waits for the node, and none of its threads is at work. */
static bool peers_node_is_idle(const struct peers_node *node)
{
    for (size_t i = 0; i < PEERS_LANES_ALL; i++)
        if (node->lanes[i].has_thread && !node->lanes[i].is_free)
            return false;
    return list_is_empty(&node->waiting[0]) && list_is_empty(&node->waiting[1]) &&
           list_is_empty(&node->copies);
}

/* Gives the place and the threads of a node that the cluster has forgotten to another one. */
static struct peers_node *peers_node_reuse(struct peers *peers, uint32_t id)
{
    char address[PEERS_ADDRESS_SIZE];

    for (size_t i = 0; i < peers->node_count; i++) {
        struct peers_node *node = peers->nodes[i];

        if (!peers_node_is_idle(node) ||
            peers->host.address(peers->host.context, node->id, address))
            continue;
        node->id = id;
        return node;
    }
    return NULL;
}

/* Returns the node of this number; the caller holds the lock. NULL if out of memory, or there are
 * too many. */
static struct peers_node *peers_node_of(struct peers *peers, uint32_t id)
{
    for (size_t i = 0; i < peers->node_count; i++)
        if (peers->nodes[i]->id == id)
            return peers->nodes[i];
    if (peers->node_count == PEERS_NODES_MAX)
        return peers_node_reuse(peers, id);
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
    struct peers_node *node = atomic_load(&peers->is_stopping) ? NULL : peers_node_of(peers, id);
    const bool fits = node && node->waiting_weight + request->weight_ <= PEERS_WAITING_MAX &&
                      (node->waiting_bytes == 0 || /* one request alone may be larger */
                       node->waiting_bytes + request->bytes_ <= PEERS_BYTES_MAX) &&
                      peers_node_serves(node, is_slow);
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
    const bool is_first = list_is_empty(&peers->homeless);
    if (is_first)
        peers->look_at = instant_add_ms(instant_now(), PEERS_LOOK_MS);
    list_push(&peers->homeless, &request->link_);
    pthread_mutex_unlock(&peers->lock);
    if (is_first)
        event_loop_wake(peers->loops[0]);
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

/* True if the deadline of one request does not cut the time of the other short: a message ends
 * with the earliest deadline of its requests. */
static bool peers_may_share(struct instant now, struct instant first, struct instant until)
{
    const uint64_t first_ns = instant_since_ns(now, first), ns = instant_since_ns(now, until);

    return ns / 2 <= first_ns && first_ns / 2 <= ns;
}

/* Waits for the next requests of a lane; empty when peers stop. */
static void peers_gather(struct peers_lane *lane, struct list *ret_requests)
{
    struct peers_node *node = lane->node;
    struct peers *peers = node->peers;
    struct list *waiting = &node->waiting[lane->is_slow];
    struct list late;
    struct instant first = {0};
    size_t weight = 0;

    list_init(&late);
    pthread_mutex_lock(&peers->lock);
    lane->is_free = true;
    while (list_is_empty(waiting) && !atomic_load(&peers->is_stopping))
        pthread_cond_wait(&node->changed, &peers->lock);
    lane->is_free = false;
    const struct instant now = instant_now();
    while (!list_is_empty(waiting) && !atomic_load(&peers->is_stopping)) {
        struct peers_request *request = list_item(waiting->next, struct peers_request, link_);

        const bool is_late = request->until_.ns <= now.ns;
        if (!is_late && weight > 0 &&
            (weight + request->weight_ > PEERS_COMMANDS_MAX ||
             !peers_may_share(now, first, request->until_)))
            break;
        list_remove(&request->link_);
        node->waiting_weight -= request->weight_;
        node->waiting_bytes -= request->bytes_;
        if (is_late) {
            list_push(&late, &request->link_);
        } else {
            first = weight > 0 ? first : request->until_;
            list_push(ret_requests, &request->link_);
            weight += request->weight_;
        }
    }
    if (!list_is_empty(waiting) && !atomic_load(&peers->is_stopping))
        (void)peers_node_serves(node, lane->is_slow); /* the rest does not wait for this lane */
    pthread_mutex_unlock(&peers->lock);
    peers_fail_all(peers, &late, ERROR_OVERLOADED);
}

/* ---- answers ---- */

/* Repeats a request that the message's answers do not include. */
static void peers_repeat(struct peers *peers, struct peers_request *request,
                         enum peers_outcome outcome)
{
    struct command *command = request->command;

    /* A node of an earlier version knows no filter of a list, and returns all timers. */
    if (outcome == PEERS_REFUSED && command->kind == COMMAND_LIST)
        command->scan.filter = NULL;
    /* Other requests of the message are repeated without it. */
    if (outcome == PEERS_REFUSED &&
        (command->kind == COMMAND_LEDGER ||
         (command->kind == COMMAND_SURVEY && survey_is_recent(command->survey->kind))))
        peers_fail(peers, request, ERROR_BAD_REQUEST);
    else if (outcome != PEERS_DOUBTFUL || command_is_read(command->kind))
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

/* Ends the requests of a message that have an answer, and sends the others again. */
static void peers_settle(struct peers_node *node, struct list *requests, enum peers_outcome outcome,
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

/* ---- messages ---- */

/* Puts requests that did not fit into a message in front of the next one. */
static void peers_put_back(struct peers_lane *lane, struct list *requests)
{
    struct peers_node *node = lane->node;

    pthread_mutex_lock(&node->peers->lock);
    LIST_FOR_EACH (requests, link) {
        const struct peers_request *request = list_item(link, struct peers_request, link_);

        node->waiting_weight += request->weight_;
        node->waiting_bytes += request->bytes_;
    }
    list_join(requests, &node->waiting[lane->is_slow]);
    list_join(&node->waiting[lane->is_slow], requests);
    pthread_mutex_unlock(&node->peers->lock);
}

/* Encodes as many requests as fit into a message; the others leave the list. Returns the
 * earliest deadline of the encoded ones. */
static struct instant peers_encode(struct peers_lane *lane, struct list *requests,
                                   struct buffer *out)
{
    struct peers *peers = lane->node->peers;
    const struct wire_head head = {WIRE_COMMANDS, peers->cluster, peers->id, 0};
    struct instant until = {UINT64_MAX};
    struct list taken;
    uint32_t count = 0;

    list_init(&taken);
    buffer_append(out, (char[PEERS_MAC_SIZE]){0}, PEERS_MAC_SIZE);
    const size_t begin = wire_begin(out, &head);
    while (!list_is_empty(requests)) {
        struct peers_request *request = list_item(requests->next, struct peers_request, link_);
        const enum error_code error = wire_put_command(out, begin, request->command);

        if (error == ERROR_TOO_LARGE && count > 0)
            break;
        list_remove(&request->link_);
        if (error) {
            peers_fail(peers, request, error);
            continue;
        }
        list_push(&taken, &request->link_);
        until = request->until_.ns < until.ns ? request->until_ : until;
        count++;
    }
    if (!list_is_empty(requests))
        peers_put_back(lane, requests);
    list_join(requests, &taken);
    wire_set_count(out, begin, count);
    wire_end(out, begin);
    return until;
}

static void peers_serve(struct peers_lane *lane, struct list *requests)
{
    struct buffer out, in;
    struct bytes answers = {0};

    buffer_init(&out);
    buffer_init(&in);
    const struct instant until = peers_encode(lane, requests, &out);
    enum peers_outcome outcome = PEERS_UNSENT;
    if (!list_is_empty(requests) && !buffer_failed(&out))
        outcome = peers_lane_exchange(lane, &out, until, &in, &answers);
    peers_settle(lane->node, requests, outcome, answers);
    buffer_deinit(&out);
    buffer_deinit(&in);
}

static void *peers_run(void *argument)
{
    struct peers_lane *lane = argument;
    struct peers *peers = lane->node->peers;

    while (!atomic_load(&peers->is_stopping)) {
        struct list requests;

        list_init(&requests);
        peers_gather(lane, &requests);
        if (!list_is_empty(&requests))
            peers_serve(lane, &requests);
    }
    peers_lane_close(lane);
    return NULL;
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

static uint64_t peers_keep_wait_ns(struct event_task *task)
{
    struct peers *peers = list_item(task, struct peers, keeper);
    const struct instant now = instant_now();

    if (atomic_load(&peers->ends))
        return 0;
    pthread_mutex_lock(&peers->lock);
    const uint64_t wait_ns =
        list_is_empty(&peers->homeless) ? UINT64_MAX : instant_since_ns(now, peers->look_at);
    pthread_mutex_unlock(&peers->lock);
    return wait_ns;
}

/* The last call of the loop. */
static void peers_keep_leave(struct peers *peers)
{
    event_loop_leave(peers->loops[0], &peers->keeper);
    pthread_mutex_lock(&peers->lock);
    peers->has_keeper = false;
    pthread_cond_broadcast(&peers->left);
    pthread_mutex_unlock(&peers->lock);
}

static void peers_keep(struct event_task *task)
{
    struct peers *peers = list_item(task, struct peers, keeper);
    struct list requests;

    if (atomic_load(&peers->ends)) {
        peers_keep_leave(peers);
        return;
    }
    list_init(&requests);
    pthread_mutex_lock(&peers->lock);
    if (instant_now().ns >= peers->look_at.ns)
        list_join(&requests, &peers->homeless);
    pthread_mutex_unlock(&peers->lock);
    peers_look_again(peers, &requests);
}

/* ---- copies ---- */

void peers_copy(struct peers *peers, struct peers_copy *copy)
{
    pthread_mutex_lock(&peers->lock);
    struct peers_node *node =
        atomic_load(&peers->is_stopping) ? NULL : peers_node_of(peers, copy->node);
    const bool is_taken = node && peers_lane_start(&node->lanes[PEERS_COPY_LANE], peers_copy_run);
    if (is_taken) {
        list_push(&node->copies, &copy->link_);
        pthread_cond_broadcast(&node->changed);
    }
    pthread_mutex_unlock(&peers->lock);
    if (!is_taken)
        copy->done(copy, NULL);
}

/* ---- start and stop ---- */

static void peers_start_keeper(struct peers *peers)
{
    peers->keeper = (struct event_task){.end = peers_keep, .wait_ns = peers_keep_wait_ns};
    peers->has_keeper = true;
    event_loop_join(peers->loops[0], &peers->keeper);
}

/* Waits until the loop calls nothing of these peers any more. */
static void peers_end_keeper(struct peers *peers)
{
    atomic_store(&peers->ends, true);
    event_loop_wake(peers->loops[0]);
    pthread_mutex_lock(&peers->lock);
    while (peers->has_keeper)
        pthread_cond_wait(&peers->left, &peers->lock);
    pthread_mutex_unlock(&peers->lock);
}

static void peers_free(struct peers *peers)
{
    for (size_t i = 0; i < peers->node_count; i++)
        peers_node_destroy(peers->nodes[i]);
    pthread_cond_destroy(&peers->left);
    pthread_cond_destroy(&peers->asked);
    pthread_mutex_destroy(&peers->lock);
    pthread_mutex_destroy(&peers->secrets_lock);
    peers_forget_secrets(peers);
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
    peers->loops[0] = options->loop;
    peers->host = *options->host;
    peers->cluster = options->cluster;
    peers->id = options->node;
    peers->wait_ms = options->wait_ms;
    list_init(&peers->homeless);
    list_init(&peers->asks);
    pthread_cond_init(&peers->asked, NULL);
    pthread_cond_init(&peers->left, NULL);
    pthread_mutex_init(&peers->lock, NULL);
    pthread_mutex_init(&peers->secrets_lock, NULL);
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
    peers_start_keeper(peers);
    const enum error_code code = peers_listen(peers, options, ret_error);
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
    pthread_cond_broadcast(&peers->asked);
    for (size_t i = 0; i < peers->node_count; i++)
        pthread_cond_broadcast(&peers->nodes[i]->changed);
    pthread_mutex_unlock(&peers->lock);
    if (peers->server)
        http_server_stop(peers->server);
    peers_end_keeper(peers);
    if (peers->has_giver)
        pthread_join(peers->giver, NULL);
    for (size_t i = 0; i < peers->node_count; i++)
        for (size_t j = 0; j < PEERS_LANES_ALL; j++)
            if (peers->nodes[i]->lanes[j].has_thread)
                pthread_join(peers->nodes[i]->lanes[j].thread, NULL);
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
