/*
 * node_work.c - requests of workers that other nodes pass on; see node_work.h.
 */
#include "node/node_work.h"

#include "node/node_queue.h"
#include "node/node_state.h"

#include <stdlib.h>

_Static_assert((int)WORK_OK == (int)QUEUE_OK && (int)WORK_STALE == (int)QUEUE_STALE &&
                   (int)WORK_UNKNOWN == (int)QUEUE_UNKNOWN,
               "verdicts are of one order");

struct work_here {
    struct node *node;
    struct node_request *request;
    struct node_queue_request queue;
    struct timer *timers; /* copies for the answer */
    enum queue_verdict *verdicts;
    struct queue_receipt receipts[];
};

static void work_answer(struct node *node, struct node_request *request, enum error_code error)
{
    request->command.error = error;
    node_counts_leave(&node->counts, request);
    request->done(request);
}

static void work_here_finish(struct work_here *here, enum error_code error)
{
    struct timer *timers = here->timers;

    work_answer(here->node, here->request, error);
    for (struct timer *timer; (timer = timers);) {
        timers = timer->next;
        timer_free(timer);
    }
    free(here->verdicts);
    free(here);
}

static void work_here_leased(struct node_queue_request *queue)
{
    struct work_here *here = list_item(queue, struct work_here, queue);
    struct command_work *work = here->request->command.work;

    LIST_FOR_EACH (queue->queue.leases, link) {
        const struct queue_lease *lease = list_item(link, struct queue_lease, link);
        const struct timer *timer = lease->delivery->timer;
        struct timer *copy = NULL;

        if (work->item_count < work->items_max)
            copy = timer_copy(timer, &timer->texts);
        if (!copy)
            continue; /* the lease ends by itself */
        copy->next = here->timers;
        here->timers = copy;
        work->items[work->item_count++] = (struct command_work_item){
            {lease->receipt.number, lease->receipt.proof}, lease->delivery->attempt, copy};
    }
}

static void work_here_done(struct node_queue_request *queue)
{
    struct work_here *here = list_item(queue, struct work_here, queue);
    struct command_work *work = here->request->command.work;

    for (size_t i = 0; i < work->receipt_count; i++)
        work->verdicts[i] = (uint8_t)here->verdicts[i];
    work_here_finish(here, queue->queue.error);
}

static enum queue_kind work_queue_kind(const struct command *command)
{
    static const enum queue_kind kinds[] = {
        [WORK_ACK] = QUEUE_ACK, [WORK_NACK] = QUEUE_NACK, [WORK_EXTEND] = QUEUE_EXTEND};

    return command->kind == COMMAND_LEASE ? QUEUE_LEASE : kinds[command->work->report];
}

void node_work_begin(struct node *node, struct node_request *request)
{
    struct command_work *work = request->command.work;
    const size_t count = work->receipt_count;
    struct work_here *here = calloc(1, sizeof(*here) + count * sizeof(here->receipts[0]));
    enum queue_verdict *verdicts = calloc(count + 1, sizeof(*verdicts));

    work->item_count = 0;
    if (!here || !verdicts) {
        free(verdicts);
        free(here);
        work_answer(node, request, ERROR_NO_MEMORY);
        return;
    }
    here->node = node;
    here->request = request;
    here->verdicts = verdicts;
    for (size_t i = 0; i < count; i++)
        here->receipts[i] =
            (struct queue_receipt){work->receipts[i].number, work->receipts[i].proof};
    here->queue = (struct node_queue_request){
        .queue = {.kind = work_queue_kind(&request->command),
                  .queue = work->queue,
                  .items_max = work->items_max,
                  .bytes_max = (size_t)work->bytes_max,
                  .lease_ms = work->lease_ms,
                  .receipts = here->receipts,
                  .verdicts = verdicts,
                  .receipt_count = count,
                  .outcome = work->outcome},
        .leased = work_here_leased,
        .done = work_here_done,
    };
    const enum error_code error = node_queue_take(node, &here->queue, NULL);
    if (error)
        work_here_finish(here, error);
}
