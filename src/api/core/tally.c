/* tally.c - sums up what the partitions have due, and what the nodes know. */
#include "api/core/tally.h"

#include <stdlib.h>

/* ---- items ---- */

static bool tally_item_is_before(const struct timer *a, const struct timer *b)
{
    if (a->target.priority != b->target.priority)
        return a->target.priority > b->target.priority;
    return a->due.ms < b->due.ms;
}

const struct timer *tally_next_item(struct node_tally *tally)
{
    struct tally_part *first = NULL;

    for (size_t i = 0; i < tally->part_count; i++) {
        struct tally_part *part = &tally->parts[i];

        if (part->taken == part->survey.item_count && part->survey.is_cut)
            return NULL; /* the next item of this part may be the first */
        if (part->taken < part->survey.item_count &&
            (!first ||
             tally_item_is_before(part->copies[part->taken], first->copies[first->taken])))
            first = part;
    }
    return first ? first->copies[first->taken++] : NULL;
}

/* Copies the items, on the shard's thread, while the timers are valid. */
static void tally_copy_items(struct scatter_part *asked)
{
    struct tally_part *part = list_item(asked->node.command.survey, struct tally_part, survey);
    struct survey *survey = &part->survey;
    size_t bytes = 0, count = 0;

    while (count < survey->item_count &&
           (count == 0 || bytes < TALLY_BYTES / asked->scatter->count)) {
        bytes += part->items[count]->footprint;
        part->copies[count] = call_copy_timer(part->items[count]);
        part->is_short = part->is_short || !part->copies[count];
        count++;
    }
    survey->is_cut = count < survey->item_count || count == survey->items_max;
    survey->item_count = count;
}

/* ---- asking ---- */

/* Marks the nodes that cannot answer because of their version. */
static enum error_code tally_failure(struct node_tally *tally)
{
    for (size_t i = 0; i < tally->part_count; i++) {
        const enum error_code error = tally->scatter_->parts[i].error;
        const struct survey *survey = &tally->parts[i].survey;

        tally->parts[i].is_missing =
            error == ERROR_BAD_REQUEST && survey->node && survey_is_recent(survey->kind);
        if (error && !tally->parts[i].is_missing)
            return error;
        if (tally->parts[i].is_short)
            return ERROR_NO_MEMORY;
    }
    return ERROR_NONE;
}

static void tally_gathered(struct call *call)
{
    struct node_tally *tally = call->state;

    if (tally->is_limited_)
        concurrency_leave(&call->api->tallies, caller_key(&call->caller));
    const enum error_code error = tally_failure(tally);
    if (error == ERROR_BAD_REQUEST) { /* of a partition: without it no sum is right */
        call_answer_error(call, ERROR_OVERLOADED,
                          "A node of an earlier version has a part of the answer: upgrade it");
        return;
    }
    if (error) {
        call_answer_error(call, error, "");
        return;
    }
    if (tally->is_limited_) {
        for (size_t i = 0; i < tally->part_count; i++)
            survey_join(&tally->sum, &tally->parts[i].survey);
        if (call_refuses_large_answer(call))
            return;
    }
    tally->finish(tally);
}

static void tally_begin(struct concurrency_start *start)
{
    scatter_submit(list_item(start, struct node_tally, start_)->scatter_);
}

static void tally_free(struct node_tally *tally)
{
    for (size_t i = 0; tally->parts && i < tally->part_count; i++) {
        struct tally_part *part = &tally->parts[i];

        for (size_t j = 0; j < TALLY_ITEMS; j++)
            timer_free(part->copies[j]);
        survey_deinit(&part->survey);
    }
    free(tally->parts);
    free(tally->scatter_);
    survey_deinit(&tally->sum);
    free(tally->room);
    free(tally);
}

/* Returns NULL if out of memory. */
static struct node_tally *tally_create(struct call *call, size_t part_count)
{
    struct node_tally *tally = calloc(1, sizeof(*tally));

    if (!tally)
        return NULL;
    tally->part_count = part_count;
    tally->parts = calloc(part_count, sizeof(*tally->parts));
    tally->scatter_ = scatter_alloc(call, part_count);
    if (!tally->parts || !tally->scatter_) {
        tally_free(tally);
        return NULL;
    }
    tally->call = call;
    return tally;
}

/* Returns the survey of nodes that completes a survey of partitions; a survey of partitions if
 * there is none. */
static enum survey_kind tally_kind_of_nodes(enum survey_kind kind)
{
    return kind == SURVEY_QUEUES ? SURVEY_WORKERS : kind == SURVEY_TARGETS ? SURVEY_FAILURES : kind;
}

void tally_ask(struct call *call, enum survey_kind kind, struct bytes queue, size_t items_max,
               void *room, void (*finish)(struct node_tally *tally))
{
    struct node *node = call->api->options.node;
    const enum survey_kind node_kind = tally_kind_of_nodes(kind);
    const size_t partition_count = survey_is_of_node(kind) ? 0 : node_partition_count(node);
    uint32_t nodes[1 + NODE_OTHERS_MAX] = {0}; /* this node first */
    const size_t node_count = survey_is_of_node(node_kind) ? 1 + node_others(node, nodes + 1) : 0;
    struct node_tally *tally = tally_create(call, partition_count + node_count);

    if (!tally) {
        free(room);
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    call->state = tally;
    tally->finish = finish;
    tally->room = room;
    tally->sum.kind = kind;
    if (queue.size && kind != SURVEY_DELIVERIES)
        queue = queue_full_name(caller_tenant(&call->caller), queue, tally->queue_);
    for (size_t i = 0; i < tally->part_count; i++) {
        const bool is_of_node = i >= partition_count;
        struct tally_part *part = &tally->parts[i];
        struct command *command = &tally->scatter_->parts[i].node.command;

        part->survey = (struct survey){.kind = is_of_node ? node_kind : kind,
                                       .node = is_of_node ? nodes[i - partition_count] : 0,
                                       .queue = queue,
                                       .items = part->items,
                                       .items_max = items_max};
        *command = (struct command){.kind = COMMAND_SURVEY,
                                    .partition = is_of_node ? 0 : (uint16_t)i,
                                    .survey = &part->survey};
    }
    tally->scatter_->resume = tally_gathered;
    tally->scatter_->done = kind == SURVEY_ITEMS ? tally_copy_items : NULL;
    tally->start_.begin = tally_begin;
    tally->is_limited_ = partition_count > 0;
    if (tally->is_limited_)
        concurrency_enter(&call->api->tallies, &tally->start_, caller_key(&call->caller));
    else
        scatter_submit(tally->scatter_);
}

void tally_closed(struct call *call)
{
    if (call->state)
        tally_free(call->state);
}
