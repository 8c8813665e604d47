/*
 * Requests of workers, on their way to a shard: a lease goes where the first item is, receipts go
 * to the partitions of their timers.
 */
#include "node/node_queue.h"

#include "node/node_state.h"
#include "node/queue_board.h"
#include "sys/clock.h"
#include "timer/queue_target.h"

#include <stdlib.h>

/* ---- leases ---- */

void node_queue_answer_empty(struct node_queue_request *request)
{
    struct list none;

    list_init(&none);
    request->queue.error = ERROR_NONE;
    request->queue.leases = &none;
    request->queue.leased_until = instant_add_ms(instant_timers_now(), request->queue.lease_ms);
    request->done(request);
}

/* Lowers the limits by the items that the lease has. Returns false if a limit is reached. */
static bool node_queue_lease_goes_on(struct queue_request *lease)
{
    if (lease->items_ >= lease->items_max || lease->bytes_ >= lease->bytes_max)
        return false;
    lease->items_max -= (uint32_t)lease->items_;
    lease->bytes_max -= lease->bytes_;
    lease->items_ = lease->bytes_ = 0;
    return true;
}

void node_queue_route(struct node *node, struct node_queue_request *request)
{
    bool is_first = false;
    int shard;

    if (!request->has_items_)
        shard = queue_board_route(node->board, request, instant_now(), &is_first);
    else
        shard = node_queue_lease_goes_on(&request->queue)
                    ? queue_board_more(node->board, request->queue.queue)
                    : QUEUE_BOARD_ANSWERED;
    if (shard == QUEUE_BOARD_ANSWERED && request->has_items_)
        request->done(request);
    else if (shard == QUEUE_BOARD_ANSWERED)
        node_queue_answer_empty(request);
    else if (shard != QUEUE_BOARD_WAITS)
        mailbox_post(&node->shards.all[shard].workers, &request->link_);
    else if (is_first)
        mailbox_wake(&node->shards.all[0].workers); /* so that it ends the waits */
}

void node_queue_give_up(struct node *node, struct node_queue_request *request)
{
    struct node_queue_request *waiting = queue_board_give_up(node->board, request);

    if (!waiting)
        return;
    list_init(&waiting->link_);
    node_queue_answer_empty(waiting);
}

void node_queue_stop_waiting(struct node *node)
{
    struct node_queue_request *request;

    while ((request = queue_board_stop(node->board)))
        node_queue_answer_empty(request);
}

/* ---- receipts ---- */

/* Receipts of one partition. */
struct node_ack {
    struct node_queue_request request;
    size_t *indexes; /* index of each receipt in the worker's request */
};

struct node_acks {
    struct node *node;
    struct node_queue_request *whole;
    atomic_size_t missing; /* parts without an answer, plus one until all are submitted */
    size_t part_count;
    struct node_ack parts[];
};

static uint16_t node_queue_acks_partition(const struct node *node, struct queue_receipt receipt)
{
    uint16_t partition = queue_receipt_partition(receipt);

    /* a forged receipt is found in no partition */
    return partition < node->partition_count ? partition : 0;
}

static void node_queue_acks_finish(struct node_acks *acks)
{
    struct node_queue_request *whole = acks->whole;

    for (size_t i = 0; i < acks->part_count; i++) {
        const struct node_ack *part = &acks->parts[i];

        if (part->request.queue.error)
            whole->queue.error = part->request.queue.error;
        for (size_t j = 0; j < part->request.queue.receipt_count; j++)
            whole->queue.verdicts[part->indexes[j]] = part->request.queue.verdicts[j];
    }
    free(acks);
    whole->done(whole);
}

static void node_queue_acks_leave(struct node_acks *acks)
{
    if (atomic_fetch_sub(&acks->missing, 1) == 1)
        node_queue_acks_finish(acks);
}

void node_queue_acks_done(struct node_queue_request *request)
{
    struct node_acks *acks = request->acks_;

    tenant_pot_give(&acks->node->counts.inflight, acks->whole->share_,
                    request->queue.receipt_count);
    node_queue_acks_leave(acks);
}

/* Allocates all parts in one block: each has room for its receipts, verdicts and indexes. */
static struct node_acks *node_queue_acks_create(struct node *node, struct node_queue_request *whole,
                                                const size_t counts[])
{
    const size_t receipt_count = whole->queue.receipt_count;
    const size_t item_bytes =
        sizeof(struct queue_receipt) + sizeof(enum queue_verdict) + sizeof(size_t);
    size_t part_count = 0;

    for (uint16_t i = 0; i < node->partition_count; i++)
        part_count += counts[i] > 0;

    struct node_acks *acks =
        calloc(1, sizeof(*acks) + part_count * sizeof(acks->parts[0]) + receipt_count * item_bytes);
    if (!acks)
        return NULL;
    acks->node = node;
    acks->whole = whole;
    acks->part_count = part_count;
    atomic_init(&acks->missing, part_count + 1);
    return acks;
}

/* Assigns each receipt to the part of its partition; `parts_of` says which part that is. */
static void node_queue_acks_divide(struct node_acks *acks, const size_t counts[], size_t parts_of[])
{
    const struct queue_request *whole = &acks->whole->queue;
    struct node *node = acks->node;
    struct queue_receipt *receipts = (void *)&acks->parts[acks->part_count];
    size_t *indexes = (void *)(receipts + whole->receipt_count);
    enum queue_verdict *verdicts = (void *)(indexes + whole->receipt_count);
    size_t part_count = 0;

    for (uint16_t i = 0; i < node->partition_count; i++) {
        struct node_ack *part = &acks->parts[part_count];

        if (counts[i] == 0)
            continue;
        parts_of[i] = part_count++;
        part->request.queue = *whole;
        part->request.acks_ = acks;
        part->request.queue.receipts = receipts;
        part->request.queue.verdicts = verdicts;
        part->request.queue.receipt_count = 0;
        part->indexes = indexes;
        receipts += counts[i];
        verdicts += counts[i];
        indexes += counts[i];
        list_init(&part->request.link_);
    }
    for (size_t i = 0; i < whole->receipt_count; i++) {
        struct node_ack *part =
            &acks->parts[parts_of[node_queue_acks_partition(node, whole->receipts[i])]];
        const size_t at = part->request.queue.receipt_count++;

        ((struct queue_receipt *)(uintptr_t)part->request.queue.receipts)[at] = whole->receipts[i];
        part->indexes[at] = i;
    }
}

static uint16_t node_queue_acks_message_partition(struct list *message)
{
    const struct node_queue_request *part = list_item(message, struct node_queue_request, link_);

    return node_queue_acks_partition(part->acks_->node, part->queue.receipts[0]);
}

static enum error_code node_queue_acks_submit(struct node *node, struct node_queue_request *whole,
                                              node_queue_report *report)
{
    const struct node_route *route = &node->route;
    size_t *counts = calloc(2u * node->partition_count, sizeof(*counts));

    for (size_t i = 0; counts && i < whole->queue.receipt_count; i++)
        counts[node_queue_acks_partition(node, whole->queue.receipts[i])]++;
    struct node_acks *acks = NULL;
    if (counts)
        acks = node_queue_acks_create(node, whole, counts);
    if (!acks) {
        free(counts);
        return ERROR_NO_MEMORY;
    }
    node_queue_acks_divide(acks, counts, counts + node->partition_count);
    free(counts);
    struct list messages;
    list_init(&messages);
    for (size_t i = 0; i < acks->part_count; i++) {
        struct node_queue_request *part = &acks->parts[i].request;
        const uint16_t partition = node_queue_acks_partition(node, part->queue.receipts[0]);

        if (report && route->is_here && !route->is_here(route->context, partition))
            report(node, partition, part);
        else
            list_push(&messages, &part->link_);
    }
    partition_post_all(node->partitions, PARTITION_ACKS, &messages,
                       node_queue_acks_message_partition);
    node_queue_acks_leave(acks);
    return ERROR_NONE;
}

/* ---- the door ---- */

enum error_code node_queue_take(struct node *node, struct node_queue_request *request,
                                node_queue_report *report)
{
    const size_t count = request->queue.receipt_count;

    if (atomic_load(&node->is_stopping))
        return ERROR_STOPPING;
    list_init(&request->link_);
    if (request->queue.kind == QUEUE_LEASE) {
        request->wait_until_ = request->queue.wait_until;
        request->queue.wait_until = (struct instant){0};
        request->visited_ = 0;
        request->has_items_ = request->is_waiting_ = request->is_given_up_ = false;
        request->here_ = NULL;
        node_queue_route(node, request);
        return ERROR_NONE;
    }
    request->share_ = tenant_pot_take(&node->counts.inflight,
                                      tenant_key(queue_tenant(request->queue.queue)), count);
    if (!request->share_)
        return ERROR_OVERLOADED;
    enum error_code code = node_queue_acks_submit(node, request, report);
    if (code)
        tenant_pot_give(&node->counts.inflight, request->share_, count);
    return code;
}
