/*
 * node_admission.c - requests are counted as in flight, or refused, and go to the engine of their
 * partition or to another node; see node.h.
 */
#include "node/node_replica.h"
#include "node/node_state.h"
#include "node/node_survey.h"
#include "node/node_work.h"
#include "sys/clock.h"

enum node_way { NODE_HERE, NODE_PASSED };

/* True if an engine of this node handles the request. */
static bool admission_is_here(const struct node *node, const struct node_request *request)
{
    const struct node_route *route = &node->route;

    return !route->is_here || route->is_here(route->context, request->command.partition);
}

/* True if there is disk for the creates of the command's tenant, whose share of the disk above
 * the reserve is limited. The amount is only counted here; the read thread releases it. */
static bool admission_has_disk_for(struct node *node, const struct command *command)
{
    const uint64_t key = node_counts_tenant(command);
    uint64_t bytes = 0;

    if (!node->disk.room.is_divided || !atomic_load(&node->disk.is_scarce))
        return true;
    if (!tenant_pot_has_room(&node->disk.room, key))
        return false;
    for (size_t i = 0; i < command->timer_count; i++)
        bytes += command->timers[i]->footprint;
    (void)tenant_pot_force(&node->disk.room, key, bytes);
    return true;
}

/* Checks what applies only to engines of this node. */
static enum error_code admission_admit_here(struct node *node, const struct node_request *request)
{
    const enum command_kind kind = request->command.kind;
    const bool creates = kind == COMMAND_CREATE || kind == COMMAND_PUT;

    if (!node_replica_may_act(node, request->command.partition))
        return ERROR_OVERLOADED;
    if (creates &&
        (atomic_load(&node->disk.is_full) || !admission_has_disk_for(node, &request->command)))
        return ERROR_DISK_FULL;
    return ERROR_NONE;
}

/* Counts the request as in flight, or refuses it. */
static enum error_code admission_take(struct node *node, struct node_request *request,
                                      enum node_way way)
{
    if (atomic_load(&node->is_stopping))
        return ERROR_STOPPING;
    const enum error_code error =
        way == NODE_HERE ? admission_admit_here(node, request) : ERROR_NONE;
    if (error)
        return error;
    if (!node_counts_enter(&node->counts, request))
        return ERROR_OVERLOADED;
    request->submitted_ = instant_now();
    list_init(&request->link_);
    list_init(&request->command.link);
    return ERROR_NONE;
}

void node_take_back(struct node *node, struct node_request *request)
{
    if (command_is_work(request->command.kind)) {
        node_work_begin(node, request);
        return;
    }
    list_init(&request->link_);
    partition_post(&node->partitions[request->command.partition], PARTITION_REQUESTS,
                   &request->link_);
}

void node_answered(struct node *node, struct node_request *request)
{
    node_counts_leave(&node->counts, request);
    request->done(request);
}

enum error_code node_submit_here(struct node *node, struct node_request *request)
{
    if (command_is_of_node(&request->command))
        return node_survey_answer(node, request);
    enum error_code error = admission_take(node, request, NODE_HERE);

    if (!error)
        node_take_back(node, request);
    return error;
}

enum error_code node_submit(struct node *node, struct node_request *request)
{
    const bool is_of_node = command_is_of_node(&request->command);

    if (is_of_node && !request->command.survey->node)
        return node_survey_answer(node, request);
    if (is_of_node && !node->route.pass)
        return ERROR_OVERLOADED;
    const bool is_here = !is_of_node && admission_is_here(node, request);
    enum error_code error = admission_take(node, request, is_here ? NODE_HERE : NODE_PASSED);
    struct list others;

    if (error)
        return error;
    if (is_here) {
        node_take_back(node, request);
        return ERROR_NONE;
    }
    list_init(&others);
    list_push(&others, &request->link_);
    node->route.pass(node->route.context, &others);
    return ERROR_NONE;
}

enum error_code node_submit_later(struct node *node, struct node_request *request,
                                  struct list *outbox)
{
    enum error_code error =
        admission_take(node, request, admission_is_here(node, request) ? NODE_HERE : NODE_PASSED);

    if (!error)
        list_push(outbox, &request->link_);
    return error;
}

static uint16_t admission_request_partition(struct list *message)
{
    return list_item(message, struct node_request, link_)->command.partition;
}

static void admission_pass_others(struct node *node, struct list *outbox)
{
    struct list others;

    list_init(&others);
    LIST_FOR_EACH (outbox, link) {
        if (admission_is_here(node, list_item(link, struct node_request, link_)))
            continue;
        list_remove(link);
        list_push(&others, link);
    }
    if (!list_is_empty(&others))
        node->route.pass(node->route.context, &others);
}

void node_send(struct node *node, struct list *outbox)
{
    if (node->route.is_here)
        admission_pass_others(node, outbox);
    partition_post_all(node->partitions, PARTITION_REQUESTS, outbox, admission_request_partition);
}
