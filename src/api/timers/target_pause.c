/*
 * target_pause.c - pauses and resumes queues and targets.
 *
 * A pause is answered when it is on disk and every partition has seen it: no delivery begins after
 * the answer.
 */
#include "api/timers/timers.h"

#include "api/core/scatter.h"
#include "base/json.h"
#include "sys/clock.h"
#include "timer/queue_target.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the name ---- */

/* What a call is about: the name of a queue or of a target, as the table of pauses has it. */
struct hold_name {
    char room[TARGET_PAUSE_NAME_SIZE_MAX];
    struct bytes name;  /* in the table */
    struct bytes shown; /* in the answer */
};

static void hold_name_queue(struct call *call, struct hold_name *ret_name)
{
    const int size = snprintf(ret_name->room, sizeof(ret_name->room), "queue:%.*s",
                              (int)call->parameter.size, call->parameter.data);

    ret_name->name = (struct bytes){ret_name->room, (size_t)size};
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

/* ---- the calls ---- */

static void hold_answer(struct call *call, const struct hold_name *name)
{
    struct target_pauses *pauses = node_pauses(call->api->options.node);
    struct buffer body;

    buffer_init(&body);
    buffer_append_text(&body, "{\"name\":");
    json_append_string(&body, name->shown);
    timer_json_append_pause(target_pauses_find(pauses, caller_tenant(&call->caller), name->name),
                            wall_coming(), &body);
    buffer_append_text(&body, "}");
    target_pauses_leave(pauses);
    call_answer_json(call, 200, &body);
}

/* All partitions have looked, or are stopping. */
static void hold_seen(struct scatter *scatter)
{
    struct hold_name name;
    struct call *call = scatter->call;

    if (strstr(call->route->path, "/queues/"))
        hold_name_queue(call, &name);
    else if (!hold_name_target(call, &name))
        return;
    hold_answer(call, &name);
}

/* What asks every partition for nothing: before one answers it looks at what is paused. NULL:
 * answered. */
static struct scatter *hold_prepare(struct call *call)
{
    const uint16_t count = node_partition_count(call->api->options.node);
    struct scatter *scatter = scatter_create(call, count);

    if (!scatter)
        return NULL;
    struct survey *surveys = calloc(count, sizeof(*surveys));
    if (!surveys) {
        call_answer_error(call, ERROR_NO_MEMORY, "");
        return NULL;
    }
    scatter->room = surveys;
    scatter->finish = hold_seen;
    for (uint16_t i = 0; i < count; i++) {
        surveys[i] = (struct survey){.kind = SURVEY_ITEMS, .queue = BYTES("-")};
        scatter->parts[i].node.command =
            (struct command){.kind = COMMAND_SURVEY, .partition = i, .survey = &surveys[i]};
    }
    return scatter;
}

/* Makes it durable. False: answered. */
static bool hold_write_down(struct call *call, const struct hold_name *name)
{
    const struct bytes body = call->body.size ? buffer_bytes(&call->body) : BYTES("{}");
    const struct wall now = wall_coming();
    struct timer *patch;
    struct problem problem;

    if (pause_parse(body, now, &patch, &problem)) {
        call_answer_problem(call, &problem);
        return false;
    }
    const struct target_pause pause = {
        .tenant = caller_tenant(&call->caller),
        .name = name->name,
        .note = patch->texts.note,
        .since = now,
        .until = patch->at.ms < STORAGE_PAUSED_AT.ms ? patch->at : WALL_NEVER,
    };
    struct error error;
    const enum error_code code = node_pause(call->api->options.node, &pause, &error);
    timer_free(patch);
    if (code)
        call_answer_error(call, code, error.text);
    return code == ERROR_NONE;
}

static void hold_begin(struct call *call, const struct hold_name *name)
{
    struct scatter *scatter = hold_prepare(call);

    if (scatter && hold_write_down(call, name))
        scatter_submit(scatter);
}

static void hold_end(struct call *call, const struct hold_name *name)
{
    struct error error;
    const enum error_code code = node_resume(call->api->options.node, caller_tenant(&call->caller),
                                             name->name, wall_coming(), &error);

    if (code)
        call_answer_error(call, code, error.text);
    else
        hold_answer(call, name);
}

static void hold_begin_body(struct call *call)
{
    if (http_request_content_length(call->http) != 0 &&
        !call_refuses_type(call, "application/json", NULL))
        call_refuses_body(call);
}

void queues_pause_begin(struct call *call)
{
    if (queue_name_is_valid(call->parameter))
        hold_begin_body(call);
    else
        call_answer_error(call, ERROR_NOT_FOUND, "No queue has this name");
}

void queues_pause(struct call *call)
{
    struct hold_name name;

    hold_name_queue(call, &name);
    hold_begin(call, &name);
}

void queues_resume(struct call *call)
{
    struct hold_name name;

    hold_name_queue(call, &name);
    hold_end(call, &name);
}

void targets_pause_begin(struct call *call)
{
    hold_begin_body(call);
}

void targets_pause(struct call *call)
{
    struct hold_name name;

    if (hold_name_target(call, &name))
        hold_begin(call, &name);
}

void targets_resume(struct call *call)
{
    struct hold_name name;

    if (hold_name_target(call, &name))
        hold_end(call, &name);
}

void targets_reset_end(struct call *call)
{
    struct hold_name name;
    struct error error;
    size_t count;

    if (!hold_name_target(call, &name))
        return;
    const enum error_code code = node_reset(call->api->options.node, caller_tenant(&call->caller),
                                            name.name, wall_coming(), &count, &error);
    if (code) {
        call_answer_error(call, code, error.text);
        return;
    }
    struct buffer body;
    buffer_init(&body);
    buffer_append_text(&body, "{\"name\":");
    json_append_string(&body, name.shown);
    buffer_printf(&body, ",\"reset\":%zu}", count);
    call_answer_json(call, 200, &body);
}
