/* node_deliveries.c - what a node keeps of each attempt in its delivery log, and its answers. */
#include "node/node_deliveries.h"

#include "node/node_state.h"
#include "node/storage_loops.h"
#include "sys/clock.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static_assert(LATENESS_STAGES <= DELIVERY_STAGES_MAX, "an entry has room for each stage");
static_assert(LATENESS_RETRIES == 0 && LATENESS_WHEEL == 5 && LATENESS_RATE == 10 &&
                  LATENESS_HANDOFF == 14 && LATENESS_DELIVERY == 15 && LATENESS_COMMIT == 16,
              "stages are kept as numbers: new ones go to the end");

enum error_code node_deliveries_start(struct node *node, struct error *ret_error)
{
    const struct config *config = node->config;
    char folder[PATH_MAX];

    if (config->delivery_log_bytes < DELIVERY_RING_BYTES_MIN)
        return ERROR_NONE;
    if (snprintf(folder, sizeof(folder), "%s/" DELIVERY_LOG_FOLDER, config->data_folder) >=
        (int)sizeof(folder))
        return error_set(ret_error, ERROR_IO, "data_folder is too long");
    storage_look_at_room(&node->disk); /* before anything is written */
    const struct delivery_log_options options = {
        .ring = {.folder = folder,
                 .bytes_max = config->delivery_log_bytes,
                 .is_disk_full = &node->disk.is_full,
                 .age_ms_max = config->delivery_log_days * UINT64_C(24) * 3600 * 1000},
        .feeders = node->shards.count};
    return delivery_log_start(&options, &node->delivery_log, ret_error);
}

static uint32_t node_deliveries_ms(uint64_t from_us, uint64_t to_us)
{
    const uint64_t ms = from_us && to_us > from_us ? (to_us - from_us + 500) / 1000 : 0;

    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static void node_deliveries_add_entry(struct node *node, unsigned shard,
                                      const struct delivery *delivery)
{
    static const enum run_outcome outcomes[] = {
        [DELIVERY_DONE] = RUN_DONE, [DELIVERY_FAILED] = RUN_FAILED, [DELIVERY_ENDED] = RUN_ENDED};
    const struct delivery_outcome *outcome = &delivery->outcome;
    const struct timer *timer = delivery->timer;
    char id[TIMER_ID_TEXT_SIZE];

    timer_id_format(&timer->id, id);
    struct delivery_entry entry = {
        .ended_us = delivery->ended_us ? delivery->ended_us : wall_now_us(),
        .attempt = delivery->attempt,
        .status = outcome->status,
        .outcome = outcomes[outcome->result],
        .texts = {[DELIVERY_TEXT_timer] = bytes_of(id),
                  [DELIVERY_TEXT_key] = timer->texts.key,
                  [DELIVERY_TEXT_target] = timer->texts.target,
                  [DELIVERY_TEXT_origin] = timer_shown_origin(timer),
                  [DELIVERY_TEXT_answer] = {delivery->answer, delivery->answer_size}}};
    if (outcome->result != DELIVERY_DONE)
        entry.texts[DELIVERY_TEXT_error] = bytes_of(outcome->error);
    memcpy(entry.stage_ms, delivery->lateness.ms, sizeof(delivery->lateness.ms));
    entry.stage_ms[LATENESS_HANDOFF] +=
        node_deliveries_ms(delivery->handed_us, delivery->started_us);
    entry.stage_ms[LATENESS_DELIVERY] = node_deliveries_ms(delivery->started_us, entry.ended_us);
    delivery_log_add(node->delivery_log, shard, timer->texts.tenant, &entry);
}

void node_deliveries_add(struct node *node, unsigned shard, struct delivery *delivery)
{
    if (node->delivery_log && delivery->outcome.result <= DELIVERY_ENDED)
        node_deliveries_add_entry(node, shard, delivery);
    free(delivery->answer);
    delivery->answer = NULL;
    delivery->answer_size = 0;
}

uint64_t node_deliveries_failed(struct node *node, struct error *ret_cause)
{
    *ret_cause = (struct error){.text = ""};
    return node->delivery_log ? delivery_log_failed(node->delivery_log, ret_cause) : 0;
}

/* ---- the search ---- */

struct delivery_search {
    struct delivery_query query;
    struct node_request *request;
};

/* Makes a row of each entry that was found. */
static void node_deliveries_done(struct delivery_query *query)
{
    struct delivery_search *search = list_item(query, struct delivery_search, query);
    struct node_request *request = search->request;
    struct survey *survey = request->command.survey;
    struct bytes rest = buffer_bytes(&query->found);

    for (uint32_t i = 0; i < query->count; i++) {
        const size_t size = delivery_entry_size(rest);

        survey_append(survey, (struct bytes){rest.data, size});
        rest = (struct bytes){rest.data + size, rest.size - size};
    }
    struct survey_row *row = survey_append(survey, (struct bytes){0});
    if (row)
        row->ready = query->next;
    request->command.error = buffer_failed(&query->found) || buffer_failed(&survey->names)
                                 ? ERROR_NO_MEMORY
                                 : ERROR_NONE;
    delivery_query_deinit(query);
    free(search);
    request->done(request);
}

enum error_code node_deliveries_ask(struct node *node, struct node_request *request)
{
    struct command *command = &request->command;

    command->error = ERROR_NONE;
    if (!node->delivery_log) {
        request->done(request);
        return ERROR_NONE;
    }
    struct delivery_search *search = malloc(sizeof(*search));
    if (!search)
        return ERROR_NO_MEMORY;
    search->request = request;
    if (!delivery_query_decode(command->survey->queue, &search->query)) {
        free(search);
        return ERROR_CORRUPT;
    }
    search->query.tenant = command->tenant;
    search->query.done = node_deliveries_done;
    delivery_log_ask(node->delivery_log, &search->query);
    return ERROR_NONE;
}
