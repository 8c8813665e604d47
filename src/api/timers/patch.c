/*
 * patch.c - changes a timer by a merge patch. A patch whose result depends on the timer reads it,
 * merges, and writes on condition that the version is still that one; when another request was
 * faster, the refusal has the newer timer, and the merge is done again.
 */

#include "api/timers/timers.h"
#include "sys/clock.h"
#include "timer/fanout.h"

void patch_begin(struct call *call)
{
    if (!call_refuses_type(call, "application/json", "application/merge-patch+json") &&
        !call_refuses_body(call))
        timers_read_if_match(call);
}

static void patch_merge(struct call *call);

static void patch_merged(struct node_request *request)
{
    struct call *call = call_of(request);

    if (request->command.error != ERROR_VERSION_MISMATCH || call->if_version)
        timers_done(request);
    else if (++call->patch_tries < PATCH_TRIES_MAX)
        patch_merge(call);
    else
        call_answer_error(call, ERROR_OVERLOADED, "Too many requests change the timer at a time");
}

/* Merges the body into call->shown, and submits the result. */
static void patch_merge(struct call *call)
{
    const struct timer_json_limits limits = call_timer_limits(call);
    struct timer *timer = call->shown;

    call->shown = NULL;
    struct timer *values = NULL;
    struct problem problem;
    uint32_t fields;
    if (timer_json_merge_patch(buffer_bytes(&call->body), timer, &limits, call_wall_coming(call),
                               &fields, &values, &problem)) {
        call_answer_problem(call, &problem);
    } else if (!fields) { /* only the key, which is equal */
        call_answer_timer(call, 200, ERROR_NONE, timer);
        timer_free(values);
    } else {
        call->node.command = (struct command){.kind = COMMAND_PATCH,
                                              .id = timer->id,
                                              .partition = timer->id.partition,
                                              .if_version = timer->version,
                                              .patch_fields = fields,
                                              .patch = values};
        if (call_submit(call, patch_merged))
            timer_free(values);
    }
    timer_free(timer);
}

static void patch_found(struct node_request *request)
{
    struct call *call = call_of(request);
    const struct timer *timer = request->command.timer;
    enum error_code error = request->command.error;

    if (!error && timer_is_final(timer->state))
        error = ERROR_GONE;
    else if (!error && fanout_shown_state(timer) == TIMER_DELIVERING)
        error = ERROR_ALREADY_FIRING;
    else if (!error && call->if_version && call->if_version != timer->version)
        error = ERROR_VERSION_MISMATCH;
    if (error)
        call_answer_timer(call, 200, error, timer);
    else
        patch_merge(call);
}

/* Reads the body, finds out with `address` which timer is meant, and submits the patch, or a GET
 * when the patch depends on the timer. */
static void patch_submit(struct call *call, bool (*address)(struct call *, enum command_kind))
{
    const struct timer_json_limits limits = call_timer_limits(call);
    struct command *command = &call->node.command;
    struct timer *values = NULL;
    struct problem problem;

    if (timer_json_check_patch(buffer_bytes(&call->body), &limits, call_wall_coming(call),
                               &command->patch_fields, &values, &problem)) {
        call_answer_problem(call, &problem);
        return;
    }
    call->if_version = command->if_version;
    command->patch = values;
    if (!address(call, values ? COMMAND_PATCH : COMMAND_GET) ||
        call_submit(call, values ? timers_done : patch_found))
        timer_free(values);
}

void patch_by_id(struct call *call)
{
    patch_submit(call, timers_address);
}

void patch_by_key(struct call *call)
{
    patch_submit(call, keys_address);
}
