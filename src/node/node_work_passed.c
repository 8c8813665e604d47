/*
 * node_work_passed.c - requests of workers that this node passes on.
 *
 * Reports go to the nodes that own the partitions of their receipts. A lease is asked of the queue
 * of this node first; if that has nothing, of one other node after the other, until one has items.
 * A worker that waits does so at this node, and the others are asked again each GATHER_MS.
 *
 * A lost message costs time only: a lease whose answer was lost ends when its time is over, and
 * a report without an answer is UNKNOWN.
 */
#include "node/node_queue.h"
#include "node/node_state.h"
#include "node/queue_board.h"
#include "sys/clock.h"

#include <stdlib.h>

enum {
    GATHER_NODES_MAX = 64, /* maximum of other nodes that a lease asks */
    GATHER_MS = 1000,
};

/* Maximum size of the items of another node: a message must hold them, and one item may be
 * large. */
#define GATHER_BYTES_MAX (UINT64_C(2) << 20)

/* ---- reports for another node ---- */

struct work_passed {
    struct node_request request;
    struct command_work work;
    struct node_queue_request *part;
    uint8_t *verdicts;
    struct command_receipt receipts[];
};

/* Ends the passed receipts; without an answer all are unknown. */
static void work_passed_finish(struct work_passed *passed, const uint8_t *verdicts)
{
    struct node_queue_request *part = passed->part;

    for (size_t i = 0; i < part->queue.receipt_count; i++)
        part->queue.verdicts[i] = verdicts ? (enum queue_verdict)verdicts[i] : QUEUE_UNKNOWN;
    part->queue.error = ERROR_NONE;
    free(passed->verdicts);
    free(passed);
    node_queue_acks_done(part);
}

static void work_passed_done(struct node_request *request)
{
    struct work_passed *passed = list_item(request, struct work_passed, request);

    work_passed_finish(passed, request->command.error ? NULL : passed->verdicts);
}

/* Passes the receipts of one partition to the node that owns it. */
static void work_report(struct node *node, uint16_t partition, struct node_queue_request *part)
{
    static const enum work_report reports[] = {
        [QUEUE_ACK] = WORK_ACK, [QUEUE_NACK] = WORK_NACK, [QUEUE_EXTEND] = WORK_EXTEND};
    const struct queue_request *queue = &part->queue;
    const size_t count = queue->receipt_count;
    struct work_passed *passed = calloc(1, sizeof(*passed) + count * sizeof(passed->receipts[0]));
    uint8_t *verdicts = calloc(count, 1);

    if (!passed || !verdicts) {
        free(verdicts);
        free(passed);
        part->queue.error = ERROR_NO_MEMORY;
        node_queue_acks_done(part);
        return;
    }
    passed->part = part;
    passed->verdicts = verdicts;
    for (size_t i = 0; i < count; i++)
        passed->receipts[i] =
            (struct command_receipt){queue->receipts[i].number, queue->receipts[i].proof};
    passed->work = (struct command_work){.queue = queue->queue,
                                         .lease_ms = queue->lease_ms,
                                         .report = reports[queue->kind],
                                         .outcome = queue->outcome,
                                         .receipts = passed->receipts,
                                         .verdicts = verdicts,
                                         .receipt_count = count};
    passed->request = (struct node_request){
        .command = {.kind = COMMAND_REPORT, .partition = partition, .work = &passed->work},
        .done = work_passed_done,
    };
    if (node_submit(node, &passed->request))
        work_passed_finish(passed, NULL);
}

/* ---- leases of other nodes ---- */

struct work_gather {
    struct node *node;
    struct node_queue_request *whole; /* the worker's */
    struct node_queue_request here;
    struct node_request request; /* request to another node */
    struct command_work work;
    struct instant until, here_until, asked_at;
    bool has_items;
    uint16_t first; /* partition at which the search for nodes begins */
    uint32_t asked[GATHER_NODES_MAX];
    size_t asked_count;
    struct command_work_item items[];
};

/* True if a lease may find items on other nodes. */
static bool work_is_elsewhere(const struct node *node)
{
    const struct node_route *route = &node->route;

    for (uint16_t i = 0; route->is_here && i < node->partition_count; i++)
        if (!route->is_here(route->context, i))
            return true;
    return false;
}

static void work_gather_finish(struct work_gather *gather, enum error_code error)
{
    struct node_queue_request *whole = gather->whole;
    const bool has_items = gather->has_items;

    free(gather);
    if (!has_items && !error) {
        node_queue_answer_empty(whole);
        return;
    }
    whole->queue.error = error;
    whole->done(whole);
}

/* Finds a node that was not asked in this round, and one of its partitions. */
static bool work_gather_find_node(struct work_gather *gather, uint16_t *ret_partition)
{
    const struct node *node = gather->node;
    const struct node_route *route = &node->route;

    for (uint16_t i = 0; i < node->partition_count && gather->asked_count < GATHER_NODES_MAX; i++) {
        const uint16_t partition = (uint16_t)((gather->first + i) % node->partition_count);
        const uint32_t owner = route->owner(route->context, partition);
        bool is_asked = owner == 0;

        for (size_t j = 0; j < gather->asked_count; j++)
            is_asked = is_asked || gather->asked[j] == owner;
        if (is_asked)
            continue;
        gather->asked[gather->asked_count++] = owner;
        *ret_partition = partition;
        return true;
    }
    return false;
}

static enum error_code work_gather_ask_here(struct work_gather *gather, struct instant until);

/* Asks the next node. If there is none, waits at this node, or answers the worker. */
static void work_gather_go_on(struct work_gather *gather)
{
    const struct queue_request *queue = &gather->whole->queue;
    uint16_t partition;

    if (queue_board_is_given_up(gather->node->board, gather->whole)) {
        work_gather_finish(gather, ERROR_NONE);
        return;
    }
    while (work_gather_find_node(gather, &partition)) {
        gather->work = (struct command_work){
            .queue = queue->queue,
            .lease_ms = queue->lease_ms,
            .items_max = queue->items_max,
            .bytes_max = queue->bytes_max < GATHER_BYTES_MAX ? queue->bytes_max : GATHER_BYTES_MAX,
            .items = gather->items};
        gather->request.command =
            (struct command){.kind = COMMAND_LEASE, .partition = partition, .work = &gather->work};
        gather->asked_at = instant_now();
        if (!node_submit(gather->node, &gather->request))
            return;
    }
    gather->asked_count = 0;
    const struct instant now = instant_now(), again = instant_add_ms(now, GATHER_MS);
    const struct instant until = again.ns < gather->until.ns ? again : gather->until;
    if (now.ns >= until.ns || work_gather_ask_here(gather, until))
        work_gather_finish(gather, ERROR_NONE);
}

/* ---- of this node ---- */

static void work_gather_here_leased(struct node_queue_request *here)
{
    struct work_gather *gather = list_item(here, struct work_gather, here);
    struct node_queue_request *whole = gather->whole;

    gather->has_items = true;
    whole->queue.leases = here->queue.leases;
    whole->queue.leased_until = here->queue.leased_until;
    whole->leased(whole);
}

static void work_gather_here_done(struct node_queue_request *here)
{
    struct work_gather *gather = list_item(here, struct work_gather, here);
    const bool has_waited = instant_now().ns >= gather->here_until.ns;

    /* A lease that did not wait means that no worker may wait: the node stops, or is out of
     * memory. */
    if (here->queue.error || gather->has_items || !has_waited)
        work_gather_finish(gather, here->queue.error);
    else
        work_gather_go_on(gather);
}

static enum error_code work_gather_ask_here(struct work_gather *gather, struct instant until)
{
    const struct queue_request *queue = &gather->whole->queue;

    gather->here_until = until;
    gather->here = (struct node_queue_request){
        .queue = {.kind = QUEUE_LEASE,
                  .queue = queue->queue,
                  .items_max = queue->items_max,
                  .bytes_max = queue->bytes_max,
                  .lease_ms = queue->lease_ms,
                  .worker = queue->worker,
                  .wait_until = until},
        .whole_ = gather->whole,
        .leased = work_gather_here_leased,
        .done = work_gather_here_done,
    };
    return node_queue_take(gather->node, &gather->here, NULL);
}

/* ---- of another node ---- */

/* A lease in the form that this node's queue would give it. */
struct gather_lease {
    struct queue_lease lease;
    struct delivery delivery;
};

/* Returns false if out of memory. */
static bool work_gather_tell(struct work_gather *gather)
{
    struct node_queue_request *whole = gather->whole;
    const struct command_work *work = &gather->work;
    struct gather_lease *leases = calloc(work->item_count, sizeof(*leases));
    struct list list;

    if (!leases)
        return false;
    list_init(&list);
    for (size_t i = 0; i < work->item_count; i++) {
        const struct command_work_item *item = &work->items[i];

        leases[i].delivery.timer = item->timer;
        leases[i].delivery.attempt = item->attempt;
        leases[i].lease.delivery = &leases[i].delivery;
        leases[i].lease.receipt = (struct queue_receipt){item->receipt.number, item->receipt.proof};
        list_push(&list, &leases[i].lease.link);
    }
    whole->queue.leases = &list;
    whole->queue.leased_until = instant_add_ms(gather->asked_at, work->lease_ms);
    whole->leased(whole);
    free(leases);
    return true;
}

static void work_gather_passed_done(struct node_request *request)
{
    struct work_gather *gather = list_item(request, struct work_gather, request);

    if (request->command.error || !gather->work.item_count) {
        work_gather_go_on(gather);
        return;
    }
    gather->has_items = true;
    work_gather_finish(gather, work_gather_tell(gather) ? ERROR_NONE : ERROR_NO_MEMORY);
}

/* Asks the queue of this node, and then those of others. */
static enum error_code work_gather_begin(struct node *node, struct node_queue_request *request)
{
    const uint32_t items_max = request->queue.items_max;
    struct work_gather *gather = calloc(1, sizeof(*gather) + items_max * sizeof(gather->items[0]));

    if (!gather)
        return ERROR_NO_MEMORY;
    gather->node = node;
    gather->whole = request;
    request->is_waiting_ = request->is_given_up_ = false;
    request->whole_ = request->here_ = NULL;
    gather->until = request->queue.wait_until;
    gather->request.done = work_gather_passed_done;
    gather->first = (uint16_t)(atomic_fetch_add(&node->counts.gathers, 1) % node->partition_count);
    const enum error_code error = work_gather_ask_here(gather, (struct instant){0});
    if (error)
        free(gather);
    return error;
}

enum error_code node_queue_submit(struct node *node, struct node_queue_request *request)
{
    if (request->queue.kind == QUEUE_LEASE && work_is_elsewhere(node))
        return work_gather_begin(node, request);
    return node_queue_take(node, request, work_report);
}
