/* node_survey.c - answers of a node about itself, for the node that a client asks; and the nodes
 * that are asked. */
#include "node/node_survey.h"

#include "node/node_deliveries.h"
#include "node/node_state.h"
#include "node/queue_board.h"
#include "ops/stats.h"
#include "sys/clock.h"
#include "timer/queue_target.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the nodes ---- */

struct survey_others {
    uint32_t self;
    uint32_t *nodes;
    size_t count;
};

static void node_survey_others_add(struct survey_others *others, uint32_t node)
{
    size_t i = 0;

    while (i < others->count && others->nodes[i] != node)
        i++;
    if (node && node != others->self && i == others->count && i < NODE_OTHERS_MAX)
        others->nodes[others->count++] = node;
}

static void node_survey_others_add_member(void *context, const struct node_member_view *member)
{
    if (member->is_alive && !member->is_stopping)
        node_survey_others_add(context, member->node);
}

size_t node_others(struct node *node, uint32_t ret_nodes[NODE_OTHERS_MAX])
{
    const struct node_route *route = &node->route;
    struct survey_others others = {.self = node->config->cluster_node_id, .nodes = ret_nodes};

    node_members(node, node_survey_others_add_member, &others);
    for (uint16_t i = 0; i < node->partition_count; i++) {
        uint32_t owner = 0;

        if (route->owner)
            owner = route->owner(route->context, i);
        else
            node_owns(node, i, &owner);
        node_survey_others_add(&others, owner);
    }
    return others.count;
}

/* ---- what one tells ---- */

static void survey_add_workers(void *context, struct bytes queue, size_t workers)
{
    const struct command *command = context;
    struct survey *survey = command->survey;

    if (!queue_own_name(command->tenant, queue).size ||
        (survey->queue.size && !bytes_equal(survey->queue, queue)))
        return;
    struct survey_row *row = survey_add(survey, queue);
    if (row)
        row->ready = workers;
}

static void survey_add_refused(void *to, struct bytes tenant, uint64_t refused)
{
    struct survey_row *row = survey_add(to, tenant);

    if (!row)
        return;
    row->taken = refused;
    row->is_spilled = true;
}

static void survey_tell_tenants(struct node *node, struct survey *survey)
{
    struct census_row rows[CENSUS_ROWS_MAX];
    struct census_count others;
    const size_t count = census_read(node->counts.waiting_tenants, rows, &others);

    for (size_t i = 0; i < count; i++) {
        struct survey_row *row =
            survey_add(survey, (struct bytes){rows[i].name, rows[i].name_size});

        if (!row)
            return;
        row->ready = rows[i].count.ready;
        row->oldest = rows[i].count.ready ? rows[i].count.oldest : WALL_NEVER;
    }
    pthread_mutex_lock(&node->counts.refusals_lock);
    if (node->counts.refusals.each)
        node->counts.refusals.each(node->counts.refusals.context, survey_add_refused, survey);
    pthread_mutex_unlock(&node->counts.refusals_lock);
    survey->is_cut = survey->is_cut || others.ready > 0;
}

static void survey_take_target(void *context, const struct target_status *status)
{
    const struct survey_failure failure = {
        .state = (uint8_t)status->state, .failures = status->failures, .wait_ms = status->wait_ms};

    survey_add_failure(context, &failure, status->origin, status->path,
                       (struct bytes){status->error, status->error_size});
}

static void survey_tell_failures(struct node *node, struct bytes tenant, struct survey *survey)
{
    static const struct survey_failure none = {.state = BREAKER_CLOSED};
    struct broker_status status;

    targets_each(node->targets, tenant, instant_timers_now(), survey_take_target, survey);
    for (size_t i = 0; node_broker_status(node, i, &status); i++) {
        char origin[300];
        const int size = snprintf(origin, sizeof(origin), "%s://%s", status.scheme, status.name);

        if (!status.is_up && size < (int)sizeof(origin))
            survey_add_failure(survey, &none, (struct bytes){origin, (size_t)size},
                               (struct bytes){0}, bytes_of(status.cause));
    }
    survey_sort_failures(survey);
}

static void survey_tell_stats(struct node *node, struct survey *survey)
{
    survey->numbers = malloc(STATS_COUNT * sizeof(*survey->numbers));
    if (!survey->numbers) {
        survey->names.failed = true;
        return;
    }
    survey->number_count = STATS_COUNT;
    node_refresh_metrics(node);
    stats_read(node->metrics, survey->numbers);
}

void node_set_source_trouble(struct node *node, const char *text)
{
    struct node_counts *counts = &node->counts;

    pthread_mutex_lock(&counts->refusals_lock);
    snprintf(counts->source_trouble, sizeof(counts->source_trouble), "%s", text);
    pthread_mutex_unlock(&counts->refusals_lock);
}

void node_set_refusals(struct node *node, const struct node_refusals *refusals)
{
    pthread_mutex_lock(&node->counts.refusals_lock);
    node->counts.refusals = refusals ? *refusals : (struct node_refusals){0};
    pthread_mutex_unlock(&node->counts.refusals_lock);
}

enum error_code node_survey_answer(struct node *node, struct node_request *request)
{
    struct command *command = &request->command;
    struct survey *survey = command->survey;

    assert(!survey->rows && survey->row_count == 0 && survey->failure_count == 0);
    if (atomic_load(&node->is_stopping))
        return ERROR_STOPPING;
    survey->is_cut = false;
    buffer_init(&survey->names);
    if (survey->kind == SURVEY_DELIVERIES)
        return node_deliveries_ask(node, request);
    switch (survey->kind) {
    case SURVEY_WORKERS:
        queue_board_each(node->board, survey_add_workers, command);
        break;
    case SURVEY_TENANTS:
        survey_tell_tenants(node, survey);
        break;
    case SURVEY_FAILURES:
        survey_tell_failures(node, command->tenant, survey);
        break;
    default:
        survey_tell_stats(node, survey);
        break;
    }
    command->error = buffer_failed(&survey->names) ? ERROR_NO_MEMORY : ERROR_NONE;
    request->done(request);
    return ERROR_NONE;
}
