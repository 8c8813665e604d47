/*
 * shard_commands.c - commands go to the engines of a shard, and are answered; see shard_commands.h.
 *
 * In a cluster another node may own the partition by now, and on every node the storage may have
 * failed and lost what its log has. Then only what a durable commit proves is answered.
 */
#include "node/shard_commands.h"

#include "node/measure.h"
#include "node/node_deliveries.h"
#include "node/node_replica.h"
#include "node/node_spans.h"
#include "node/node_state.h"
#include "sys/clock.h"

#include <assert.h>

static void shard_commands_doubt(enum error_code *error)
{
    if (*error == ERROR_IO)
        *error = ERROR_IN_DOUBT;
}

/* Marks changes as in doubt: a record whose append to a shared log failed may later be read as
 * valid. */
static void shard_commands_doubt_changes(struct command *command)
{
    shard_commands_doubt(&command->error);
    for (size_t i = 0; i < command->timer_count; i++)
        shard_commands_doubt(&command->results[i].error);
    for (size_t i = 0; i < command->event_count; i++)
        shard_commands_doubt(&command->events[i].error);
}

/* True if a durable commit proves the result: its record is valid with any later owner too. */
static bool shard_commands_is_proven(const struct command *command)
{
    return !command_is_read(command->kind) && command->error == ERROR_NONE;
}

/* True if the result says that the change may be durable. */
static bool shard_commands_is_in_doubt(const struct command *command)
{
    return command->error == ERROR_IN_DOUBT ||
           (command->error == ERROR_IO && !command_is_read(command->kind));
}

static void shard_commands_judge(struct node *node, struct node_request *request)
{
    struct command *command = &request->command;

    if (node->cluster.control && !command_is_read(command->kind))
        shard_commands_doubt_changes(command);
    if (!shard_commands_is_in_doubt(command) && !shard_commands_is_proven(command) &&
        !node_replica_may_act(node, command->partition))
        command_fail(command, ERROR_OVERLOADED);
}

static void shard_commands_explain(const struct shard *shard, struct command *command)
{
    struct explained_lease *lease = &command->explained.lease;
    struct queue_holder holder;

    if (command->error || !command->timer ||
        !queue_find_holder(shard->queue, &command->timer->id, &holder))
        return;
    lease->since = instant_wall(holder.since);
    lease->until = instant_wall(holder.until);
    lease->worker_size = (uint8_t)holder.worker.size;
    memcpy(lease->worker, holder.worker.data, holder.worker.size);
}

void shard_ask(struct shard *shard, struct engine *engine, struct node_request *request)
{
    list_push(&shard->node->cluster.replicas[request->command.partition].asked, &request->link_);
    engine_submit(engine, &request->command);
}

void shard_delivered(struct shard *shard, struct engine *engine, struct delivery *delivery)
{
    if (delivery->outcome.result != DELIVERY_RETURNED)
        measure_delivery(shard->node->metrics, delivery);
    node_spans_ended(shard->node, shard->index, delivery);
    node_deliveries_add(shard->node, shard->index, delivery);
    engine_delivered(engine, delivery);
}

/* True for the first answer to a RELEASE, which says that the timer is leased. */
static bool shard_commands_finds_lease(const struct command *command)
{
    return command->kind == COMMAND_RELEASE && !command->error && !command->has_acted;
}

/* Ends the lease that a RELEASE found, and asks the engine again, which answers when the end is
 * durable. Returns false if the command is to be answered now. */
static bool shard_commands_release(struct shard *shard, struct engine *engine,
                                   struct node_request *request)
{
    struct command *command = &request->command;
    struct delivery *delivery = queue_release(shard->queue, &command->id);

    command->timer = NULL; /* another RELEASE may have changed it */
    if (!delivery) {       /* the lease has ended by itself meanwhile */
        command->error = ERROR_NOT_LEASED;
        return false;
    }
    if (!engine_is_in_turn(engine))
        engine_begin(engine, shard->now);
    shard_delivered(shard, engine, delivery);
    command->has_acted = true;
    command->name = (struct bytes){0}; /* from here on it means this timer */
    shard_ask(shard, engine, request);
    return true;
}

static void shard_commands_answer(struct node *node, struct node_request *request,
                                  struct instant now)
{
    shard_commands_judge(node, request);
    node_counts_leave(&node->counts, request);
    if (!command_is_read(request->command.kind))
        metrics_observe_traced_us(node->metrics, HISTOGRAM_ACKNOWLEDGE,
                                  instant_since_ns(request->submitted_, now) / 1000,
                                  &request->trace);
    request->done(request);
}

void shard_answer(struct shard *shard, struct engine *engine)
{
    struct node *node = shard->node;
    struct command *command = engine_take_reply(engine);
    struct list leased;

    if (!command)
        return;
    const struct instant now = instant_now();
    list_init(&leased);
    for (; command; command = engine_take_reply(engine)) {
        struct node_request *request = list_item(command, struct node_request, command);

        if (command->kind == COMMAND_EXPLAIN && command->explained.place == PLACE_INFLIGHT)
            shard_commands_explain(shard, command);
        list_remove(&request->link_);
        if (shard_commands_finds_lease(command)) {
            command->id = command->timer->id;
            list_push(&leased, &request->link_);
        } else {
            shard_commands_answer(node, request, now);
        }
    }
    /* The end of a lease changes its timer, which another reply may show. */
    for (struct list *link; (link = list_pop(&leased));) {
        struct node_request *request = list_item(link, struct node_request, link_);

        if (!shard_commands_release(shard, engine, request))
            shard_commands_answer(node, request, now);
    }
}

struct engine *shard_engine(struct shard *shard, struct partition *partition)
{
    struct engine *engine = partition->engine;

    assert(engine); /* it stays until what was asked of it is back */
    if (!engine_is_in_turn(engine))
        engine_begin(engine, shard->now);
    return engine;
}

void shard_end_turns(struct shard *shard)
{
    for (size_t i = 0; i < shard->partition_count; i++) {
        struct engine *engine = shard->partitions[i]->engine;

        /* an answer may begin another turn, when it ends a lease */
        while (engine_is_in_turn(engine)) {
            engine_end(engine);
            shard_answer(shard, engine);
        }
    }
}

static void shard_commands_end_request(struct node *node, struct node_request *request,
                                       enum error_code error)
{
    command_fail(&request->command, error);
    node_counts_leave(&node->counts, request);
    request->done(request);
}

void shard_refuse(struct node *node, struct list *requests)
{
    for (struct list *link; (link = list_pop(requests));) {
        struct node_request *request = list_item(link, struct node_request, link_);

        command_drop_timers(&request->command);
        shard_commands_end_request(node, request, ERROR_OVERLOADED);
    }
}

void shard_doubt_rest(struct node *node, struct list *requests)
{
    for (struct list *link; (link = list_pop(requests));) {
        struct node_request *request = list_item(link, struct node_request, link_);
        const bool is_read = command_is_read(request->command.kind);

        shard_commands_end_request(node, request, is_read ? ERROR_OVERLOADED : ERROR_IN_DOUBT);
    }
}
