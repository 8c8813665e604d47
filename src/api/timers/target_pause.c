/*
 * target_pause.c - pauses and resumes queues, flows and targets.
 *
 * A pause is answered when it is durable and every partition of this node has seen it: no delivery
 * of them begins after the answer.
 */
#include "api/timers/timers.h"

#include "api/core/scatter.h"
#include "base/json_write.h"
#include "sys/clock.h"
#include "timer/flow.h"
#include "timer/queue_target.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the name ---- */

/* Subject of a call: the name of a queue, a flow or a target, as in the table of pauses. */
struct hold_name {
    char room[TARGET_PAUSE_NAME_SIZE_MAX];
    struct bytes name;  /* name in the table */
    struct bytes shown; /* name in the answer */
};

static void hold_name_queue(struct call *call, struct hold_name *ret_name)
{
    const int size = snprintf(ret_name->room, sizeof(ret_name->room), "queue:%.*s",
                              (int)call->parameter.size, call->parameter.data);

    ret_name->name = (struct bytes){ret_name->room, (size_t)size};
    ret_name->shown = call->parameter;
}

/* The steps of the routes refuse a longer key. */
static void hold_name_flow(struct call *call, struct hold_name *ret_name)
{
    ret_name->name = target_pause_name_flow(call->parameter, ret_name->room);
    ret_name->shown = call->parameter;
}

/* False: answered. */
static bool hold_name_target(struct call *call, struct hold_name *ret_name)
{
    struct error error;
    struct problem problem;

    if (target_pause_parse_name(call->parameter, ret_name->room, &ret_name->name, &error)) {
        problem_set(&problem, ERROR_INVALID, "", "The target in the path: %s", error.text);
        call_answer_problem(call, &problem);
        return false;
    }
    ret_name->shown = ret_name->name;
    return true;
}

/* of a pause: has its note */

static void target_pause_hold_answer(struct call *call, const struct hold_name *name)
{
    struct target_pauses *pauses = node_pauses(call->api->options.node);
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_string(&body, "name", name->shown);
    timer_json_put_pause(target_pauses_find(pauses, caller_tenant(&call->caller), name->name),
                         call_wall_coming(call), &body);
    json_close(&body, '}');
    target_pauses_leave(pauses);
    call_answer_json(call, 200, &body);
}

struct hold_call {
    struct node_hold node;
    struct call *call;
    struct hold_name name;
    struct timer *patch; /* of a pause */
    /* Continues after all partitions have looked at the pauses, or are stopping. */
    struct scatter *scatter;
};

void target_pause_closed(struct call *call)
{
    struct hold_call *hold = call->state;

    if (!hold)
        return;
    if (hold->scatter)
        free(hold->scatter->room);
    free(hold->scatter);
    timer_free(hold->patch);
    free(hold);
}

static void target_pause_hold_answer_reset(struct call *call, const struct hold_call *hold)
{
    struct buffer body;

    buffer_init(&body);
    json_open(&body, NULL, '{');
    json_put_string(&body, "name", hold->name.shown);
    json_put_number(&body, "reset", hold->node.reset_count);
    json_close(&body, '}');
    call_answer_json(call, 200, &body);
}

/* Continues after the change was made or refused. */
static void target_pause_hold_seen(struct call *call)
{
    struct hold_call *hold = call->state;

    target_pause_hold_answer(call, &hold->name);
}

/* Makes the state of the call. NULL if answered. */
static void target_pause_hold_go_on(struct call *call)
{
    struct hold_call *hold = call->state;

    if (hold->node.result)
        call_answer_error(call, hold->node.result, hold->node.error.text);
    else if (hold->scatter)
        scatter_submit(hold->scatter);
    else if (hold->node.kind == NODE_HOLD_RESET)
        target_pause_hold_answer_reset(call, hold);
    else
        target_pause_hold_answer(call, &hold->name);
}

static void target_pause_hold_done(struct node_hold *hold)
{
    call_resume(list_item(hold, struct hold_call, node)->call, target_pause_hold_go_on);
}

/* Prepares an empty question to every partition, which looks at the pauses before it answers.
 * Returns false if out of memory. */
static struct hold_call *target_pause_hold_create(struct call *call, enum node_hold_kind kind)
{
    struct hold_call *hold = calloc(1, sizeof(*hold));

    if (!hold) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    hold->call = call;
    hold->node = (struct node_hold){
        .kind = kind, .at = call_wall_coming(call), .done = target_pause_hold_done};
    call->state = hold;
    if (strstr(call->route->path, "/queues/"))
        hold_name_queue(call, &hold->name);
    else if (strstr(call->route->path, "/flows/"))
        hold_name_flow(call, &hold->name);
    else if (!hold_name_target(call, &hold->name))
        return NULL;
    hold->node.pause.tenant = caller_tenant(&call->caller);
    hold->node.pause.name = hold->name.name;
    return hold;
}

/* What asks every partition for nothing: before one answers it looks at what is paused. False: no
 * memory. */
static bool target_pause_hold_prepare(struct call *call, struct hold_call *hold)
{
    const uint16_t count = node_partition_count(call->api->options.node);

    hold->scatter = scatter_alloc(call, count);
    struct survey *surveys = hold->scatter ? calloc(count, sizeof(*surveys)) : NULL;
    if (!surveys)
        return false;
    hold->scatter->room = surveys;
    hold->scatter->resume = target_pause_hold_seen;
    for (uint16_t i = 0; i < count; i++) {
        surveys[i] = (struct survey){.kind = SURVEY_ITEMS, .queue = BYTES("-")};
        hold->scatter->parts[i].node.command =
            (struct command){.kind = COMMAND_SURVEY, .partition = i, .survey = &surveys[i]};
    }
    return true;
}

static void target_pause_hold_begin(struct call *call)
{
    struct hold_call *hold = target_pause_hold_create(call, NODE_HOLD_PAUSE);
    const struct bytes body = call->body.size ? buffer_bytes(&call->body) : BYTES("{}");
    struct problem problem;

    if (!hold)
        return;
    if (pause_parse(body, hold->node.at, &hold->patch, &problem)) {
        hold->patch = NULL;
        call_answer_problem(call, &problem);
        return;
    }
    if (!target_pause_hold_prepare(call, hold)) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return;
    }
    const struct wall until = hold->patch->at;
    hold->node.pause.note = hold->patch->texts.note;
    hold->node.pause.since = hold->node.at;
    hold->node.pause.until = until.ms < STORAGE_PAUSED_AT.ms ? until : WALL_NEVER;
    node_hold(call->api->options.node, &hold->node);
}

static void target_pause_hold_end(struct call *call)
{
    struct hold_call *hold = target_pause_hold_create(call, NODE_HOLD_RESUME);

    if (hold)
        node_hold(call->api->options.node, &hold->node);
}

static void target_pause_hold_begin_body(struct call *call)
{
    if (http_request_content_length(call->http) != 0 &&
        !call_refuses_type(call, "application/json", NULL))
        call_refuses_body(call);
}

void queues_pause_begin(struct call *call)
{
    if (queue_name_is_valid(call->parameter))
        target_pause_hold_begin_body(call);
    else
        call_answer_error(call, ERROR_NOT_FOUND, "No queue has this name");
}

void queues_pause(struct call *call)
{
    target_pause_hold_begin(call);
}

void queues_resume(struct call *call)
{
    target_pause_hold_end(call);
}

static bool target_pause_refuses_key(struct call *call)
{
    const bool is_key = flow_key_is_valid(call->parameter);

    if (!is_key)
        call_answer_error(call, ERROR_NOT_FOUND, "No flow has this key");
    return !is_key;
}

void flows_pause_begin(struct call *call)
{
    if (!target_pause_refuses_key(call))
        target_pause_hold_begin_body(call);
}

void flows_pause(struct call *call)
{
    target_pause_hold_begin(call);
}

void flows_resume(struct call *call)
{
    if (!target_pause_refuses_key(call))
        target_pause_hold_end(call);
}

void targets_pause_begin(struct call *call)
{
    target_pause_hold_begin_body(call);
}

void targets_pause(struct call *call)
{
    target_pause_hold_begin(call);
}

void targets_resume(struct call *call)
{
    target_pause_hold_end(call);
}

void targets_reset_end(struct call *call)
{
    struct hold_call *hold = target_pause_hold_create(call, NODE_HOLD_RESET);

    if (hold)
        node_hold(call->api->options.node, &hold->node);
}
